"""One table, many formats: CSV, Parquet, Arrow, JSON lines, pandas and polars give the same columns and predictions."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest
from sklearn.base import BaseEstimator

import gramian
from gramian import AutoKernelRegressor
from gramian.cli.main import main
from gramian.cli.predict import predicted
from gramian.data import Blocks, tables
from gramian.data.cells import MISSING, day, has_decimal_commas, may_be_numbers, number
from gramian.data.formats import Csv
from gramian.data.tables import TableError, read_table, split_target
from gramian.estimators.auto import tables as auto_tables
from gramian.estimators.auto.columns import encode
from gramian.estimators.auto.encoders import Category
from gramian.estimators.auto.scaling import fit_scaling
from gramian.estimators.auto.tables import Column

N = 60
RNG = np.random.default_rng(0)


def cycle(*values: Any) -> list[Any]:
    return [values[i % len(values)] for i in range(N)]


def gaps(values: Any) -> list[Any]:
    return [None if i % 7 == 3 else v for i, v in enumerate(values)]


UTC = datetime.UTC
DAY = datetime.datetime(2024, 2, 28, 23, 59, 59, 123457)
NUMBERS = [float(v) for v in RNG.standard_normal(N)]
MOMENTS = [DAY + datetime.timedelta(days=i * i, seconds=17 * i, microseconds=i) for i in range(N)]
ZOO: dict[str, list[Any]] = {
    "numbers": NUMBERS,
    "numbers with gaps": gaps(NUMBERS),
    "whole": list(range(N)),
    "whole with gaps": gaps(range(N)),
    "large whole": [2**53 + 2 * i + 1 for i in range(N)],
    "booleans": cycle(True, False, False),
    "booleans with gaps": gaps(cycle(True, False, False)),
    "categories": cycle("red", "green", "blue", "red"),
    "categories with gaps": gaps(cycle("red", "green", "blue", "red")),
    "categories with empty cells": cycle("red", "", "blue", "red"),
    "categories with spaces": cycle(" red", "red", "  ", "blue "),
    "spellings of missing": cycle("red", "NA", "null", "N/A", "nan", "blue", "None", "<NA>"),
    "numbers and spellings of missing": cycle("1.5", "NA", "2.25", "null", " ", "-3e-2"),
    "dates": [m.date() for m in MOMENTS],
    "dates with gaps": gaps(m.date() for m in MOMENTS),
    "instants": MOMENTS,
    "instants with gaps": gaps(MOMENTS),
    "instants of a zone": [m.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2))) for m in MOMENTS],
    "instants as text": [m.isoformat() for m in MOMENTS],
    "dates as text": [m.date().isoformat() for m in MOMENTS],
    "zones as text": [m.replace(tzinfo=UTC).isoformat() if i % 2 else m.isoformat() for i, m in enumerate(MOMENTS)],
    "times as text": cycle("12:30", "08:15", "12:30", "23:59"),
    "texts": [
        f"the {w} house by the {v}" for w, v in zip(cycle("red", "old"), cycle("sea", "hill", "lake"), strict=True)
    ]
    and [f"the {i} {w} house by the sea" for i, w in enumerate(cycle("red", "old"))],
    "texts with gaps": gaps(f"a {i} {w} house, by the sea" for i, w in enumerate(cycle("red", "old"))),
    "quoted lines": cycle('said "no",\nand left', "one, two", "three\r\nfour"),
    "unicode": cycle("ćevapi", "日本", "Ærø", "🙂"),
    "leading zeros": [f"{i:04d}" for i in range(N)],
    "booleans as text": cycle("True", "False", "TRUE"),
    "plus signs": cycle("+1", "-2", "3"),
    "hexadecimal": cycle("0x1F", "0x02", "0xA0"),
    "underscores": cycle("1_000", "2_000", "3"),
    "large": [1e300 * v for v in NUMBERS],
    "small": [1e-300 * v for v in NUMBERS],
    "decimal commas": [f"{v:.3f}".replace(".", ",") for v in NUMBERS],
    "decimal commas with gaps": gaps(f"{v:.2f}".replace(".", ",") for v in NUMBERS),
    "dotted dates": gaps(f"{1 + i % 28}.{1 + i % 12:02d}.2024" for i in range(N)),
    "mixed": cycle("1", "x", "2.5", "2024-01-01", "True", "007"),
    "all missing": [None] * N,
    "all empty": [""] * N,
    "constant": [3.0] * N,
    "one level": ["only"] * N,
    "codes": [f"id-{i}" for i in range(N)],
}


def formats(columns: dict[str, list[Any]], folder: Path) -> dict[str, Any]:
    """The same table in every format and make."""
    kinds = {n: object if None in v or isinstance(v[0], str | datetime.date) else None for n, v in columns.items()}
    frame = pd.DataFrame({name: pd.Series(values, dtype=kinds[name]) for name, values in columns.items()})
    table = pyarrow.table(columns)
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_csv(folder / "s.csv", index=False, sep=";", encoding="utf-8-sig", lineterminator="\r\n")
    with (folder / "t.jsonl").open("w") as file:  # pandas would round the numbers
        for row in table.to_pylist():
            plain = {k: v.isoformat() if isinstance(v, datetime.date) else v for k, v in row.items()}
            file.write(json.dumps(plain, ensure_ascii=False) + "\n")
    pyarrow.parquet.write_table(table, folder / "t.parquet")
    pyarrow.feather.write_feather(table, folder / "t.arrow")
    made = {path.name: read_table(path) for path in sorted(folder.iterdir()) if path.is_file()}
    made |= {"pandas": frame, "pandas of csv": pd.read_csv(folder / "t.csv"), "pyarrow": table}
    made |= {"pandas inferred": pd.DataFrame(columns), "pandas of arrow": table.to_pandas(types_mapper=pd.ArrowDtype)}
    made |= {"polars": pl.DataFrame(columns, strict=False), "polars of csv": pl.read_csv(folder / "t.csv")}
    return made


def columns_of(X: Any) -> list[Any]:
    return auto_tables.columns_of(BaseEstimator(), X, reset=True)


@pytest.mark.parametrize("name", ZOO)
def test_every_format_gives_the_same_columns(name: str, tmp_path: Path) -> None:
    made = {make: columns_of(X) for make, X in formats({"x": NUMBERS, name: ZOO[name]}, tmp_path).items()}
    encodings = {make: encode(table) for make, table in made.items()}
    expected = encodings["pandas"].transform(made["pandas"])
    for make, encoding in encodings.items():
        assert str(encoding) == str(encodings["pandas"]), make
        np.testing.assert_array_equal(encoding.transform(made[make]), expected, err_msg=make)
        # And a model that was fitted on one of them reads all the others.
        np.testing.assert_array_equal(encoding.transform(made["t.csv"]), expected, err_msg=f"{make}, then CSV")
        np.testing.assert_array_equal(encodings["t.csv"].transform(made[make]), expected, err_msg=f"CSV, then {make}")


MODELLED = ["numbers with gaps", "categories with empty cells", "spellings of missing", "instants with gaps", "texts"]
MODELLED += ["decimal commas", "booleans with gaps", "leading zeros", "mixed", "large"]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], Any]:
    """A folder with every format, the tables, and a model that was fitted on the data frame."""
    folder = tmp_path_factory.mktemp("zoo")
    made = formats({name: ZOO[name] for name in MODELLED}, folder)
    y = np.where(made["pandas"]["categories with empty cells"] == "red", 1.0, 0.0) + np.array(NUMBERS)
    model = AutoKernelRegressor(time_limit=60, cv=3, random_state=0, machines=["ridge"]).fit(made["pandas"], y)
    gramian.save(model, folder / "model")
    return folder, made, model


def test_a_saved_model_predicts_the_same_of_every_format(fitted: tuple[Path, dict[str, Any], Any]) -> None:
    folder, made, model = fitted
    expected, loaded = model.predict(made["pandas"]), gramian.load(folder / "model")
    for make, X in made.items():
        np.testing.assert_array_equal(loaded.predict(X), expected, err_msg=make)


@pytest.mark.parametrize("name", ["t.csv", "s.csv", "t.jsonl", "t.parquet", "t.arrow"])
def test_the_command_predicts_the_same_of_every_format(
    name: str, fitted: tuple[Path, dict[str, Any], Any], tmp_path: Path
) -> None:
    folder, made, model = fitted
    assert main(["predict", str(folder / "model"), str(folder / name), "-o", str(tmp_path / "p.parquet")]) == 0
    found = read_table(tmp_path / "p.parquet")["prediction"].to_numpy()
    np.testing.assert_array_equal(found, model.predict(made["pandas"]))
    if name.endswith("csv"):
        pieces = predicted(model, Csv.open(folder / name, 4000), {})
        np.testing.assert_array_equal(np.concatenate([piece["prediction"].to_numpy() for piece in pieces]), found)


def test_a_model_from_a_csv_file_predicts_the_same_of_a_frame(tmp_path: Path) -> None:
    made = formats({"c": cycle("red", "", "blue", "NA"), "z": gaps(NUMBERS), "y": NUMBERS}, tmp_path)
    found = {}
    for make in ("t.csv", "t.jsonl", "t.parquet"):
        X, y = split_target(made[make], "y")
        model = AutoKernelRegressor(time_limit=60, cv=3, random_state=0, machines=["ridge"]).fit(X, y)
        found[make] = model.predict(made["pandas"].drop(columns="y"))
    np.testing.assert_array_equal(found["t.csv"], found["t.parquet"])
    np.testing.assert_array_equal(found["t.csv"], found["t.jsonl"])


@pytest.mark.parametrize(
    ("texts", "decimal", "doubtful"),
    [
        (["1,5", "2", "-3,25e2", ",5", "4,"], True, True),
        (["0,125", "1,250"], True, True),
        (["1,234", "2,500"], False, True),
        (["1,234,567", "12"], False, True),
        (["1.234,5", "2,5"], False, True),
        (["1 234", "12"], False, True),
        (["a,b", "1,5"], False, False),
        (["1,5", "2.5"], False, True),
    ],
)
def test_decimal_commas_beyond_doubt(texts: list[str], decimal: bool, doubtful: bool) -> None:
    assert has_decimal_commas(texts) == decimal
    assert may_be_numbers(texts) == doubtful
    if decimal:
        assert None not in [number(text, comma=True) for text in texts]


def test_dates_with_dots_begin_with_the_day() -> None:
    assert day("31.1.2024") == day("31.01.2024") == day("2024-01-31")
    assert day("31.01.2024 06:00") == day("2024-01-31T06:00")
    assert [day(text) for text in ("1.31.2024", "31.1.24", "31.1.2024 soon", "1.2", "31.1.2024 ")] == [
        None,
        None,
        None,
        None,
        day("2024-01-31"),
    ]


@pytest.mark.parametrize("text", ["31/12/2021", "12/31/21 10:00", "2021/12/31"])
def test_dates_in_other_forms_are_said_aloud(text: str) -> None:
    column = Column("sold", np.array(cycle(text, "01/02/2022"), dtype=object), "object")
    with pytest.warns(UserWarning, match=rf"sold holds texts such as '{text}', and is read as text; write dates as"):
        encode([column])
    with pytest.raises(ValueError, match=rf"sold cannot be a date, since it holds '{text}'; write dates as 2024-01-31"):
        encode([column], {"sold": "date"})


def test_what_may_be_decimal_commas_is_said_aloud(tmp_path: Path) -> None:
    values = np.array(cycle("1,234", "2,500", "12"), dtype=object)
    with pytest.warns(UserWarning, match=r"price holds texts such as '1,234'.*write them as 1234\.5"):
        encode([Column("price", values, "object")])
    (tmp_path / "t.csv").write_text("x;price\n" + "".join(f"{i};{v}\n" for i, v in enumerate(values)))
    with pytest.raises(TableError, match="the target 'price' holds texts such as '1,234'"):
        split_target(read_table(tmp_path / "t.csv"), "price")


def test_decimal_commas_of_a_file(tmp_path: Path) -> None:
    lines = [f"{i};{i},5;{-i},25" for i in range(N)]
    (tmp_path / "t.csv").write_text("x;z;y\n" + "\n".join(lines) + "\n")
    X, y = split_target(read_table(tmp_path / "t.csv"), "y")
    np.testing.assert_array_equal(X["z"].to_numpy(), np.arange(N) + 0.5)
    np.testing.assert_array_equal(y, -np.arange(N) - np.where(np.arange(N), 0.25, -0.25))
    parts = list(Blocks(tmp_path / "t.csv", target="y", rows=25, client=False))
    np.testing.assert_array_equal(np.concatenate([p.X[:, 1] for p in parts]), np.arange(N) + 0.5)
    np.testing.assert_array_equal(np.concatenate([p.y for p in parts]), y)
    # A model that was fitted with commas reads what would be in doubt by itself.
    (column,) = encode([Column("z", np.array(["0,5", "1,250", "2"], dtype=object), "object")]).columns
    new = np.array(["1,234", None], dtype=object)
    assert column.transform(Column("z", new, "object")).tolist() == [[1.234], [1.25]]


def test_targets_of_text_are_numbers_where_they_would_be_in_csv() -> None:
    for texts, expected in (
        (["1", "2", "NA", "3"], [1, 2, 3]),
        (["1.5", " ", "2"], [1.5, 2.0]),
        (["a", "", "b"], ["a", "b"]),
    ):
        X, y = split_target(pyarrow.table({"x": list(range(len(texts))), "y": texts}), "y")
        assert y.tolist() == expected
        assert X.num_rows == len(expected)


def test_levels_that_a_file_gives_as_numbers_booleans_or_dates() -> None:
    """Some rows of a column of texts may look like numbers; they are the levels that they were."""
    values = np.array(["007", "1.50", "True", "2024-01-01", "x"] * 3, dtype=object)
    (category,) = encode([Column("c", values, "object")]).columns
    assert isinstance(category, Category)
    for text, value, kind in (("007", 7.0, "number"), ("1.50", 1.5, "number"), ("True", 1.0, "boolean")):
        at = category.transform(Column("c", np.array([value, np.nan, 99.0]), kind))
        assert np.argmax(at, axis=1).tolist() == [category.levels.index(text), 6, 5]
    frame = pd.DataFrame({"c": pd.Series([1234567.0, 2.5, None, 2.5, 1234567.0], dtype="category")})
    encoding = encode(columns_of(frame))
    plain = pd.DataFrame({"c": frame["c"].astype(float)})
    np.testing.assert_array_equal(encoding.transform(columns_of(plain)), encoding.transform(columns_of(frame)))


def test_infinity_is_refused_in_every_format(tmp_path: Path) -> None:
    made = formats({"x": NUMBERS, "z": cycle("1.5", "inf", "2")}, tmp_path)
    made |= {"overflow": pd.DataFrame({"z": ["1e400", "2", "3"]})}
    for X in made.values():
        with pytest.raises(ValueError, match="infinity in z"):
            encode(columns_of(X))


def test_columns_of_the_same_name_are_refused_and_equal_ones_are_not() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 2)), rng.standard_normal(40)
    twice = pd.DataFrame(np.c_[X, X], columns=["a", "b", "a", "b"])
    model = AutoKernelRegressor(time_limit=60, cv=3, random_state=0, machines=["ridge"])
    for refused in (twice, pyarrow.table([X[:, 0], X[:, 0]], names=["a", "a"])):
        with pytest.raises(ValueError, match="two columns of X are called 'a'"):
            model.fit(refused, y)
    with pytest.raises(ValueError, match="two columns are called 'a'"):
        Blocks(twice, client=False).names  # noqa: B018
    assert np.isfinite(model.fit(twice.to_numpy(), y).predict(twice.to_numpy())).all()


@pytest.mark.parametrize("scale", [1e300, 1e-300, 4e307])
def test_columns_of_any_size_give_the_same_model(scale: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (60, 2))
    y = np.sin(3.0 * X[:, 0])
    for scaling in ("standard", "normal"):
        one, other = (fit_scaling(scaling, Z, [0, 1]).transform(Z) for Z in (X, X * scale))
        np.testing.assert_allclose(one, other, rtol=1e-12)
    model = AutoKernelRegressor(time_limit=60, cv=3, random_state=0, machines=["ridge"])
    assert np.mean((model.fit(X * scale, y).predict(X * scale) - y) ** 2) < 0.01
    with pytest.raises(ValueError, match="multiply y by a constant"):
        model.fit(X, y * scale)


@pytest.mark.parametrize(
    "choice", [{"target": "zz"}, {"target": ["y", "zz"]}, {"weight": "zz"}, {"columns": ["x", "zz"]}]
)
def test_a_column_that_is_not_there_is_named_with_those_that_are(choice: dict[str, Any], tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    for source in (frame, pl.DataFrame(frame), tmp_path / "t.csv"):
        with pytest.raises(ValueError, match="there is no column 'zz'; the columns are 'x', 'y'"):
            repr(Blocks(source, client=False, **choice))
    with pytest.raises(ValueError, match="did you mean 'y'"):
        repr(Blocks(frame, "Y", client=False))


def test_blocks_of_a_data_frame() -> None:
    frame = pd.DataFrame({0: [1.0, 2.0], 1: [True, False], "y": [3, 4], "z": [5.0, 6.0]})
    (part,) = Blocks(frame, target=["y", "z"], client=False)
    assert part.X.tolist() == [[1.0, 1.0], [2.0, 0.0]]
    assert part.y.tolist() == [[3.0, 5.0], [4.0, 6.0]]


def test_json_lines_settle_types_by_all_rows(tmp_path: Path) -> None:
    """pyarrow's blocks are of a megabyte; what a column holds may show later."""
    lines = [{"a": 1, "b": None, "c": "2024-01-01", "long": "x" * 100}] * 12_000
    lines += [{"a": 2.5, "b": "late", "c": "soon", "long": ""}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    last = read_table(tmp_path / "t.jsonl").to_pylist()[-1]
    assert (last["a"], last["b"], last["c"]) == (2.5, "late", "soon")
    *_, block = tables.open_table(tmp_path / "t.jsonl").iterate(["a", "b", "c"])
    assert block.to_pylist()[-1] == {"a": 2.5, "b": "late", "c": "soon"}


def test_missing_is_spelt_as_pandas_does() -> None:
    from pandas._libs.parsers import STR_NA_VALUES

    assert MISSING == STR_NA_VALUES
