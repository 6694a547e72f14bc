"""Tables of every make give the same columns; every kind of column becomes the numbers that its docstring says."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator

from gramian.estimators.auto.columns import (
    Category,
    Column,
    Dropped,
    NumberColumn,
    Text,
    columns_of,
    encode,
    fit_scaling,
)
from gramian.kernels import WordCount

DAYS = [datetime.date(2024, 1, 1), None, datetime.date(2024, 3, 1), datetime.date(2024, 2, 1)]
ROWS = {
    "age": [30.0, None, 50.0, 41.0],
    "city": ["Oslo", "Rome", None, "Oslo"],
    "member": [True, False, True, None],
    "since": DAYS,
    "note": ["the red house", "a red car it is", "the blue car", "a house of the sun"],
    "same": [1.0, 1.0, 1.0, 1.0],
}


def read(X):
    return columns_of(BaseEstimator(), X, reset=True)


def frames():
    pandas = pd.DataFrame(ROWS)
    pandas["since"] = pd.to_datetime(pandas["since"])
    yield "pandas", pandas
    yield "polars", pl.DataFrame(ROWS)
    pyarrow = pytest.importorskip("pyarrow")
    yield "pyarrow", pyarrow.table(ROWS)


def test_every_make_of_table_is_read_alike():
    encodings, numbers = {}, {}
    for make, X in frames():
        table = read(X)
        encodings[make] = encode(table)
        numbers[make] = encodings[make].transform(table)
    assert set(encodings) == {"pandas", "polars", "pyarrow"}
    assert len({str(e) for e in encodings.values()}) == 1
    for values in numbers.values():
        np.testing.assert_allclose(values, numbers["pandas"])
    kinds = [type(c) for c in encodings["pandas"].columns]
    assert kinds == [NumberColumn, Category, NumberColumn, NumberColumn, Text, Dropped]


def test_objects_and_lists_are_read_like_frames():
    X = [[30.0, "Oslo"], [None, "Rome"], [50.0, None], [41.0, "Oslo"]]
    for form in (X, np.array(X, dtype=object)):
        age, city = read(form)
        np.testing.assert_array_equal(age.values, [30.0, np.nan, 50.0, 41.0])
        assert age.kind == "number"
        assert list(city.values) == ["Oslo", "Rome", None, "Oslo"]


def test_a_bare_list_of_strings_is_one_column():
    notes = ROWS["note"]
    for form in (notes, tuple(notes), np.array(notes), pd.Series(notes, index=[3, 5, 7, 9])):
        table = read(form)
        assert isinstance(encode(table).columns[0], Text)
        np.testing.assert_allclose(encode(table).transform(table), encode(table).transform(read(notes)))
    codes = ["acgtacgt", "acgtttgt", "ttgacgta", "gggacgtt"]
    table = read(codes)
    encoding = encode(table)
    assert "substrings of length 3" in str(encoding)
    found = encoding.transform(table)
    shared = list(encoding.columns[0].words)
    counts = np.array([[sum(code[i : i + 3] == p for i in range(6)) for p in shared] for code in codes], dtype=float)
    np.testing.assert_allclose(found, counts / np.linalg.norm(counts, axis=1, keepdims=True))
    levels = read(["red", "blue", "red", "blue", "red", "blue", "red", "blue", "red", "red", "blue"])
    assert isinstance(encode(levels).columns[0], Category)
    with pytest.raises(ValueError, match="1D array"):
        read([1.0, 2.0])


def test_a_missing_number_is_the_median_and_marked():
    table = [Column("a", np.array([1.0, np.nan, 2.0, 9.0]), "number")]
    encoding = encode(table)
    np.testing.assert_array_equal(encoding.transform(table), [[1, 0], [2, 1], [2, 0], [9, 0]])
    assert "median 2" in str(encoding)


def test_a_gap_in_a_column_that_had_none_is_the_median():
    encoding = encode([Column("a", np.array([1.0, 2.0, 9.0]), "number")])
    np.testing.assert_array_equal(encoding.transform([Column("a", np.array([np.nan, 3.0]), "number")]), [[2], [3]])


def test_levels_rare_unknown_and_missing():
    values = np.array(["a"] * 5 + ["b"] * 4 + ["once", None], dtype=object)
    (category,) = encode([Column("c", values, "object")]).columns
    assert category.levels == ("a", "b")
    at = category.transform(Column("c", np.array(["a", "once", "never seen", None], dtype=object), "object"))
    assert list(np.argmax(at, axis=1)) == [0, 2, 2, 3]
    np.testing.assert_allclose(np.linalg.norm(at[0] - at[1]), 1.0)


def test_text_is_the_normalised_word_count():
    texts = np.array(
        ["the red house", "the red car is here", "a blue car and a house", "red and blue it is"], dtype=object
    )
    (text,) = encode([Column("t", texts, "object")]).columns
    assert isinstance(text, Text)
    F = text.transform(Column("t", texts, "object"))
    known = [" ".join(w for w in WordCount().pieces(t) if w in text.words) for t in texts]
    np.testing.assert_allclose(F @ F.T, WordCount().normalized()(known), atol=1e-12)


@pytest.mark.parametrize(
    ("values", "kind"),
    [(["1", "2.5", None], "number"), (["2024-01-01", "2024-01-02T12:00", None], "date")],
)
def test_numbers_and_dates_written_out(values, kind):
    (column,) = encode([Column("c", np.array(values, dtype=object), "object")]).columns
    assert isinstance(column, NumberColumn)
    assert column.kind == kind
    at = column.transform(Column("c", np.array(values, dtype=object), "object"))[:, 0]
    np.testing.assert_allclose(at[1] - at[0], 1.5)
    with pytest.raises(ValueError, match=f"was read as a {kind}, and now holds 'x'"):
        column.transform(Column("c", np.array(["x"], dtype=object), "object"))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.ones(4), "every value is 1"),
        (np.full(4, np.nan), "every value is missing"),
        (np.array([None, None], dtype=object), "every value is missing"),
        (np.array(["x", "x"], dtype=object), "every value is 'x'"),
        (np.array([f"id{i}" for i in range(40)], dtype=object), "40 different values in 40 rows"),
    ],
)
def test_columns_that_are_left_out(values, reason):
    (column,) = encode([Column("c", values, "object" if values.dtype == object else "number")]).columns
    assert isinstance(column, Dropped)
    assert reason in str(column)
    assert column.transform(Column("c", values, "object")).shape == (len(values), 0)


def test_dates_with_a_time_zone_are_instants():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    X = np.array([[datetime.datetime(2024, 1, 1, 2, tzinfo=zone)], [datetime.datetime(2024, 1, 2)]], dtype=object)
    (column,) = read(X)
    assert column.values[1] - column.values[0] == 1.0
    frame = pd.DataFrame({"t": pd.to_datetime(["2024-01-01T02:00+02:00", "2024-01-02T02:00+02:00"])})
    assert np.ptp(read(frame)[0].values) == 1.0


def test_what_cannot_be_read_is_refused():
    with pytest.raises(ValueError, match="contains infinity in a"):
        read(pd.DataFrame({"a": [1.0, np.inf]}))
    with pytest.raises(TypeError, match="argument must be a string or a number"):
        read(np.array([[1.0], [{"a": 1}]], dtype=object))
    with pytest.raises(ValueError, match="Complex data not supported"):
        read(np.array([[1.0 + 2j], [1.0]], dtype=object))
    with pytest.raises(ValueError, match="0 sample"):
        read(pd.DataFrame({"a": []}))


def test_pandas_dtypes():
    frame = pd.DataFrame(
        {
            "int": pd.array([1, None, 3], dtype="Int64"),
            "cat": pd.Categorical(["u", None, "v"]),
            "span": pd.to_timedelta([1, 2, None], unit="D"),
            "flag": pd.array([True, None, False], dtype="boolean"),
        }
    )
    integer, category, span, flag = read(frame)
    np.testing.assert_array_equal(integer.values, [1, np.nan, 3])
    assert list(category.values) == ["u", None, "v"]
    assert category.kind == "category"
    np.testing.assert_array_equal(span.values, [1, 2, np.nan])
    np.testing.assert_array_equal(flag.values, [1, np.nan, 0])
    assert flag.kind == "boolean"


# ---- scaling ----------------------------------------------------------------------------------------------------


def test_standard_scaling_leaves_other_columns():
    Z = np.random.default_rng(0).standard_normal((50, 3)) * 7 + 3
    S = fit_scaling("standard", Z, [0, 2]).transform(Z)
    np.testing.assert_allclose(S[:, [0, 2]].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(S[:, [0, 2]].std(axis=0), 1)
    np.testing.assert_array_equal(S[:, 1], Z[:, 1])


def test_normal_scaling_is_monotone_and_normal():
    z = np.exp(3 * np.random.default_rng(0).standard_normal(2000))[:, None]
    scaling = fit_scaling("normal", z, [0])
    s = scaling.transform(z)[:, 0]
    assert abs(s.mean()) < 0.02
    assert abs(s.std() - 1) < 0.03
    assert np.all(np.diff(s[np.argsort(z[:, 0])]) >= 0)
    assert np.isfinite(scaling.transform(np.array([[-1e9], [1e9]]))).all()


def test_normal_scaling_puts_ties_in_the_middle():
    z = np.array([0.0] * 50 + [1.0] * 50)[:, None]
    s = fit_scaling("normal", z, [0]).transform(z)[:, 0]
    np.testing.assert_allclose(s[0], -s[-1])
    assert 0.5 < s[-1] < 1.0
