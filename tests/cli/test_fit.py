"""``gramian fit``, and ``predict`` and ``inspect`` of the models that it saved."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes

import gramian
from gramian.cli import main
from gramian.cli.fit import _clock, _listed
from gramian.cli.predict import predicted
from gramian.data.formats import Csv
from gramian.data.tables import read_table
from gramian.estimators.auto.columns import encode
from gramian.estimators.auto.tables import Column
from peak import peak_bytes

rng = np.random.default_rng(0)
N = 120


def frame() -> pd.DataFrame:
    """Numbers, categories, text, dates and gaps."""
    size = rng.standard_normal(N)
    colour = rng.choice(["red", "green", "blue"], N)
    words = rng.choice(["good solid work", "poor cheap thing", "good value thing", "poor broken work"], N)
    y = 3.0 * (colour == "red") + np.sin(2.0 * size) + 2.0 * np.char.startswith(words.astype(str), "good")
    table = pd.DataFrame(
        {
            "size": size,
            "colour": colour,
            "review": [f"{w} number {i}" for i, w in enumerate(words)],
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(N), unit="D"),
            "count": rng.integers(0, 50, N),
            "price": y + 0.05 * rng.standard_normal(N),
        }
    )
    table.loc[::7, "size"] = np.nan
    table.loc[::11, "colour"] = None
    table.loc[::13, "review"] = None
    table["dear"] = np.where(table["price"] > 2.0, "yes", "no")
    return table


FRAME = frame()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables, and a model of each kind, made by the command."""
    made = tmp_path_factory.mktemp("cli")
    FRAME.to_parquet(made / "t.parquet")
    FRAME.drop(columns="dear").to_csv(made / "t.csv", index=False)
    FRAME.drop(columns=["price", "dear"]).to_csv(made / "new.csv", index=False)
    quick = ["--model", "ridge", "--cv", "3", "--time-limit", "60"]
    assert main(["fit", str(made / "t.csv"), "--target", "price", *quick, "--out", str(made / "numbers")]) == 0
    assert main(["fit", str(made / "t.parquet"), "--target", "dear", *quick, "--out", str(made / "classes")]) == 0
    return made


def test_fit_tells_what_it_found(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["fit", str(folder / "t.csv"), "--target", "price", "--model", "ridge", "--out", str(tmp_path / "m")]
    kernel = "RBF(3, lengthscale_bounds=[0.5, 500.0]) + 0.1*Linear()"
    assert main([*arguments, "--kernel", kernel, "--cv", "3"]) == 0
    out, err = capsys.readouterr()
    assert all(line.startswith("gramian: ") for line in err.splitlines())  # in a pipe, a line for each trial
    for part in (
        "120 rows, 5 columns",
        "regression",
        "% lower than a linear model, which",
        "Always predicting the mean",
        "certificate: converged",
    ):
        assert part in " ".join(out.split())  # wrapped as the terminal is wide
    before, _, _ = out.partition("in Python")
    assert max(map(len, before.splitlines()[1:])) <= 100
    assert "_bounds" not in before.partition("kernel:")[2]
    assert gramian.load(tmp_path / "m").get_params()["kernel"] is not None


def test_columns_that_are_read_alike_share_a_line() -> None:
    columns = encode([Column(f"p{i}", np.arange(9.0) ** (i != 5), "number") for i in range(9)]).columns
    assert _listed(columns).splitlines() == [
        "columns:",
        "    p0 to p4 (5 columns): number",
        "    p5: left out: every value is 1",
        "    p6: number",
        "    p7: number",
        "    p8: number",
    ]
    assert _listed(columns, 20).splitlines()[1:5] == [
        "    p0 to p4 (5",
        "        columns):",
        "        number",
        "    p5: left out:",
    ]


def test_the_python_that_fit_prints_makes_the_same_model(folder: Path, tmp_path: Path, capsys: Any) -> None:
    arguments = ["fit", str(folder / "t.csv"), "--target", "price", "--model", "ridge", "--cv", "3", "--json"]
    assert main([*arguments, "--kernel", "RBF(3.0)", "--task", "regression", "--out", str(tmp_path / "m")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["task"] == "regression"
    assert found["best"]["score"] < min(b["score"] for b in found["baselines"])
    code = found["python"].replace(repr(str(tmp_path / "m")), repr(str(tmp_path / "copied")))
    exec(code, {})
    first, second = (gramian.load(tmp_path / name) for name in ("m", "copied"))
    X = read_table(folder / "new.csv")
    assert np.array_equal(first.predict(X), second.predict(X))


def test_columns_as_people_say_they_are(folder: Path, tmp_path: Path, capsys: Any) -> None:
    table = FRAME.drop(columns="dear").assign(key=np.arange(N) + 700, zip=rng.integers(1, 4, N))
    table.to_csv(tmp_path / "t.csv", index=False)
    arguments = ["fit", str(tmp_path / "t.csv"), "--target", "price", "--model", "ridge", "--cv", "2"]
    said = ["--category", "zip", "--drop", "day,count", "--text", "review", "--out", str(tmp_path / "m")]
    assert main([*arguments, *said]) == 0
    out = capsys.readouterr().out
    for line in (
        "zip: category with 3 levels",
        "day: left out: as asked",
        "review: text",
        "key: left out: an identifier",
    ):
        assert line in out
    assert "columns={'category'" not in out
    assert "'zip': 'category'" in out
    model = gramian.load(tmp_path / "m")
    assert str(model.columns_.columns[1]).startswith("category with 3 levels")
    assert main([*arguments, "--text", "revue", "--out", str(tmp_path / "n")]) == 2
    assert "--text: there is no column 'revue'; did you mean 'review'?" in capsys.readouterr().err
    assert main([*arguments, "--text", "zip", "--drop", "zip", "--out", str(tmp_path / "n")]) == 2
    assert "choose one" in capsys.readouterr().err
    assert main([*arguments, *said]) == 2
    assert "exists; choose another path, or overwrite it with --force" in capsys.readouterr().err

    new = table.drop(columns=["day", "count", "price", "size"]).assign(zip=[9, 9, *[1] * (N - 2)])
    new[["review", "zip", "key", "colour"]].to_csv(tmp_path / "new.csv", index=False)
    call = [
        "predict",
        str(tmp_path / "m"),
        str(tmp_path / "new.csv"),
        "--keep",
        "key,zip",
        "-o",
        str(tmp_path / "p.csv"),
    ]
    assert main(call) == 0
    out, err = capsys.readouterr()
    assert "1 column that the model uses is missing, and counted as gaps: 'size'" in err
    assert "2 rows hold a level of 'zip' that the fit had not seen, such as '9'" in err
    written = pd.read_csv(tmp_path / "p.csv")
    assert list(written) == ["key", "zip", "prediction"]
    assert list(written["key"]) == list(table["key"])
    assert main(call) == 2
    assert "--force" in capsys.readouterr().err
    assert main([*call, "--force"]) == 0


def test_columns_that_say_nothing_are_told_and_infinity_is_refused(tmp_path: Path, capsys: Any) -> None:
    own = np.random.default_rng(5).standard_normal(16)
    table = pd.DataFrame({"x": own, "again": own, "k": 3, "gaps": None, "one": "a", "y": np.round(own + 1.0, 3)})
    table.to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", str(tmp_path / "t.csv"), "--target", "y", "--model", "linear", "--out", str(tmp_path / "m")]
    assert main(fit) == 0
    out = capsys.readouterr().out
    for line in ("k: left out: every value is 3", "gaps: left out: every value is missing", "one: left out: every"):
        assert line in out
    assert "A linear model is all that was to be tried." in out
    table.assign(x=["inf", *own[1:]]).to_csv(tmp_path / "t.csv", index=False)
    assert main([*fit, "--force"]) == 2
    assert "contains infinity in x; leave such values out, or mark them as missing" in capsys.readouterr().err
    table.assign(y=["inf", *own[1:]]).to_csv(tmp_path / "t.csv", index=False)
    assert main([*fit, "--force"]) == 2
    assert "--target y contains infinity; leave such rows out" in capsys.readouterr().err
    table.to_csv(tmp_path / "t.csv", index=False)
    assert main([*fit, "--force", "--drop", "y"]) == 2
    assert "--drop y: this column is the target, weight or group" in capsys.readouterr().err


@pytest.mark.parametrize(("spent", "left"), [(1000.0, 8700.0), (9000.0, 2500.0)])
def test_a_slow_start_leaves_a_quarter_of_the_limit(spent: float, left: float) -> None:
    clock = _clock(1e4, time.perf_counter() - spent)
    assert clock.left == pytest.approx(left, rel=0.01)
    assert clock.now is time.perf_counter  # compilation is counted


def test_nothing_is_compiled_once_the_clock_of_the_fit_runs(tmp_path: Path) -> None:
    """Compiling takes seconds, once, which a trial of the search would have to give."""
    own = np.random.default_rng(0)
    pd.DataFrame(own.standard_normal((2500, 3))).assign(y=own.integers(0, 2, 2500)).to_csv(tmp_path / "t.csv")
    fit = ["fit", str(tmp_path / "t.csv"), "--target", "y", "--out", str(tmp_path / "m"), "--model"]
    script = f"""
import sys
from gramian.cli import fit, main

def compiled():
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("gramian.")]
    functions = [f for module in modules for f in list(vars(module).values()) if hasattr(f, "overloads")]
    return {{(f.__name__, signature) for f in functions for signature in f.signatures}}

clock, before = fit._clock, set()
fit._clock = lambda *given: [clock(*given), before.update(compiled())][0]
for machine in ("svm", "machine"):
    assert main([*{fit!r}, machine, "--time-limit", "8", "--force"]) == 0
assert before and not compiled() - before, compiled() - before
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_scores_weights_groups_and_time(tmp_path: Path, capsys: Any) -> None:
    """Each option reaches the model, and the Python that is printed makes the same one."""
    own = np.random.default_rng(3)
    x, shop = own.standard_normal(90), np.repeat([f"s{i}" for i in range(15)], 6)
    table = pd.DataFrame({"x": x, "z": own.standard_normal(90), "shop": shop, "w": own.uniform(0.5, 2.0, 90)})
    table["day"] = [f"2026-01-{1 + d % 28:02d}" for d in own.permutation(90)]
    table["bought"] = np.where(own.random(90) < 1.0 / (1.0 + np.exp(1.5 - 2.0 * x)), "yes", "no")
    table["price"] = np.exp(x + 0.2 * own.standard_normal(90))
    table["v"] = table["w"].mask(table["w"] < 0.6)
    table.to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", str(tmp_path / "t.csv"), "--model", "ridge", "--kernel", "RBF(2.0)", "--cv", "3", "--json"]
    calls = {
        "f1": [
            "--target",
            "bought",
            "--metric",
            "f1",
            "--weight",
            "w",
            "--group",
            "shop",
            "--class-weight",
            "balanced",
        ],
        "later": ["--target", "price", "--metric", "mae", "--time-column", "day", "--drop", "bought,shop"],
    }
    for name, options in calls.items():
        assert main([*fit, *options, "--out", str(tmp_path / name)]) == 0
        found = json.loads(capsys.readouterr().out)
        exec(found["python"].replace(repr(str(tmp_path / name)), repr(str(tmp_path / f"{name}-again"))), {})
        first, second = (gramian.load(tmp_path / folder) for folder in (name, f"{name}-again"))
        assert np.array_equal(first.predict(table), second.predict(table))
        assert found["metric"] == {"f1": "f1", "later": "mae"}[name]
        assert "shop" not in found["columns"] or found["columns"]["shop"] == "left out: as asked"
    assert first.cv.n_splits == 3
    assert "cv=TimeSeriesSplit(3)" in found["python"]
    assert first.residuals_.size < 90  # the first rows in time are never held out
    wrong = {
        ("--target", "price", "--class-weight", "balanced"): "--class-weight is for classes",
        ("--target", "price", "--metric", "f1"): "scoring must be one of rmse",
        ("--target", "price", "--time-column", "shop"): "cannot be sorted, since it holds 's0'",
        ("--target", "price", "--group", "shops"): "has no column 'shops'",
        ("--target", "price", "--weight", "w", "--number", "w"): "this column is the target, weight or group",
        ("--target", "price", "--weight", "v"): "--weight v must be a number in every row, but",
    }
    for options, message in wrong.items():
        assert main([*fit, *options, "--out", str(tmp_path / "n")]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_predict_writes_what_the_model_says(folder: Path, ending: str, tmp_path: Path) -> None:
    out = tmp_path / f"p.{ending}"
    assert main(["predict", str(folder / "numbers"), str(folder / "new.csv"), "--interval", "0.9", "-o", str(out)]) == 0
    written = read_table(out)
    assert written.column_names == ["prediction", "lower", "upper"]
    model = gramian.load(folder / "numbers")
    expected = model.predict(read_table(folder / "new.csv"))
    np.testing.assert_allclose(written["prediction"].to_numpy(), expected, rtol=1e-12)
    inside = (written["lower"].to_numpy() < FRAME["price"]) & (FRAME["price"] < written["upper"].to_numpy())
    assert inside.mean() > 0.8
    assert os.listdir(tmp_path) == [out.name]


def test_classes_come_with_probabilities(folder: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "p.parquet"
    assert (
        main(["predict", str(folder / "classes"), str(folder / "t.parquet"), "--proba", "--json", "-o", str(out)]) == 0
    )
    assert json.loads(capsys.readouterr().out) == {"predictions": str(out), "rows": N}
    written = read_table(out)
    assert written.column_names == ["prediction", "proba_no", "proba_yes"]
    total = written["proba_no"].to_numpy() + written["proba_yes"].to_numpy()
    np.testing.assert_allclose(total, 1.0)
    assert np.mean(written["prediction"].to_numpy() == FRAME["dear"]) > 0.8


def test_predictions_go_to_the_output_by_default(folder: Path) -> None:
    command = [sys.executable, "-m", "gramian", "predict", str(folder / "numbers"), str(folder / "new.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == '"prediction"'
    assert len(lines) == 1 + N
    assert done.stderr == ""


def test_blocks_do_not_change_predictions(folder: Path, tmp_path: Path) -> None:
    whole, model = tmp_path / "whole.csv", folder / "numbers"
    assert main(["predict", str(model), str(folder / "new.csv"), "-o", str(whole)]) == 0
    pieces = Csv.open(folder / "new.csv", 1000)  # whole numbers, gaps and texts come first in some pieces
    tables = predicted(gramian.load(model), pieces, gramian.files.inspect(model).data["notes"])
    parts = np.concatenate([table["prediction"].to_numpy() for table in tables])
    np.testing.assert_allclose(parts, pd.read_csv(whole)["prediction"], rtol=1e-9)


def test_other_models_than_those_of_fit_predict_too(tmp_path: Path) -> None:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X.to_csv(tmp_path / "x.csv", index=False)
    np.save(tmp_path / "x.npy", X.to_numpy())
    for name, model in (
        ("names", gramian.KernelRidge().fit(X, y)),
        ("none", gramian.KernelRidge().fit(X.to_numpy(), y)),
    ):
        gramian.save(model, tmp_path / name)
        data = tmp_path / ("x.csv" if name == "names" else "x.npy")
        assert main(["predict", str(tmp_path / name), str(data), "--force", "-o", str(tmp_path / "p.csv")]) == 0
        np.testing.assert_allclose(
            pd.read_csv(tmp_path / "p.csv")["prediction"], model.predict(X.to_numpy() if name == "none" else X)
        )


def test_inspect_says_what_is_there(folder: Path, capsys: Any) -> None:
    assert main(["inspect", str(folder / "numbers")]) == 0
    out = capsys.readouterr().out
    for part in ("AutoKernelRegressor", "random_state = 0", "kernel: ", "certificate: converged", "  target: price"):
        assert part in out
    assert main(["inspect", str(folder / "numbers"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["notes"]["rows"] == N


def test_tasks_are_told_apart(tmp_path: Path, capsys: Any) -> None:
    X = rng.standard_normal((60, 2))
    kinds = {"real": X[:, 0], "flag": X[:, 0] > 0, "grade": np.digitize(X[:, 0], [-0.5, 0.5]), "whole": np.arange(60)}
    expected = {"real": "regression", "flag": "classification", "grade": "classification", "whole": "regression"}
    kinds["gaps"], expected["gaps"] = np.where(X[:, 1] > 0, X[:, 0], np.nan), "regression"
    for name, y in kinds.items():
        np.savez(tmp_path / "t.npz", X=X, y=y)
        call = ["fit", str(tmp_path / "t.npz"), "--target", "y", "--model", "ridge", "--cv", "2", "--json", "--force"]
        assert main([*call, "--out", str(tmp_path / "m")]) == 0
        assert json.loads(capsys.readouterr().out)["task"] == expected[name], name


def test_a_table_larger_than_memory_can_be_predicted(tmp_path: Path) -> None:
    """Ten times the rows cost hardly any more memory."""
    model = gramian.KernelRidge(kernel="rbf").fit(rng.standard_normal((100, 5)), rng.standard_normal(100))
    gramian.save(model, tmp_path / "m")
    snippet = """
        import pyarrow, pyarrow.csv, numpy as np
        from gramian.cli import main
        block = pyarrow.table({f"a{j}": np.random.default_rng(j).standard_normal(20_000) for j in range(5)})
        with pyarrow.csv.CSVWriter("FILE", block.schema) as writer:
            for _ in range(TIMES):
                writer.write(block)
        assert main(["predict", "MODEL", "FILE", "--force", "-o", "OUT"]) == 0
    """
    for old, new in (("FILE", "t.csv"), ("MODEL", "m"), ("OUT", "p.parquet")):
        snippet = snippet.replace(old, str(tmp_path / new))
    few, _ = peak_bytes(snippet.replace("TIMES", "2"))
    many, said = peak_bytes(snippet.replace("TIMES", "20"))
    assert "400,000 predictions" in said
    assert many < few + 100_000_000
