"""The command over many files: a folder, a pattern, and workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gramian
from dask_processes import scheduler_and_workers
from gramian.cli import main
from gramian.data.tables import read_table

FILES, ROWS = 3, 7500
QUICK = ["--model", "ridge", "--kernel", "RBF(1.0)", "--cv", "2", "--time-limit", "3600"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """22,500 rows: more than the search looks at."""
    made = tmp_path_factory.mktemp("data")
    for i in range(FILES):
        x, z = np.random.default_rng(i).uniform(-3, 3, (2, ROWS))
        pq.write_table(pa.table({"x": x, "z": z, "y": np.sin(2 * x) + z}), made / f"{i}.parquet")
    return made


@pytest.fixture(scope="module")
def model(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models") / "m"
    assert main(["fit", str(folder), "--target", "y", *QUICK, "--out", str(out)]) == 0
    return out


def test_a_folder_is_fitted_and_predicted(folder: Path, model: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "p.parquet"
    assert main(["predict", str(model), str(folder / "*.parquet"), "-o", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == FILES * ROWS
    truth = np.concatenate([read_table(folder / f"{i}.parquet")["y"].to_numpy() for i in range(FILES)])
    assert np.std(read_table(out)["prediction"].to_numpy() - truth) < 0.05
    assert gramian.files.inspect(model).data["notes"]["rows"] == FILES * ROWS


def test_the_python_that_is_printed_makes_the_same_model(
    folder: Path, model: Path, tmp_path: Path, capsys: Any
) -> None:
    pattern = str(folder / "*.parquet")
    assert main(["fit", pattern, "--target", "y", *QUICK, "--json", "--out", str(tmp_path / "m")]) == 0
    code = json.loads(capsys.readouterr().out)["python"].replace(repr(str(tmp_path / "m")), repr(str(tmp_path / "c")))
    exec(code, {})
    X = np.random.default_rng(9).uniform(-3, 3, (50, 2))
    table = pa.table({"x": X[:, 0], "z": X[:, 1]})
    first, second, third = (gramian.load(path).predict(table) for path in (model, tmp_path / "m", tmp_path / "c"))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(second, third)


def test_workers_change_nothing(folder: Path, model: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "m")
    assert main(["fit", str(folder), "--target", "y", *QUICK, "--workers", "2", "--out", out]) == 0
    assert main(["predict", out, str(folder), "--workers", "1", "-o", str(tmp_path / "two.parquet")]) == 0
    assert main(["predict", str(model), str(folder), "-o", str(tmp_path / "one.parquet")]) == 0
    one, two = (read_table(tmp_path / f"{name}.parquet")["prediction"].to_numpy() for name in ("one", "two"))
    np.testing.assert_array_equal(one, two)


# What Dask itself leaves open where processes are killed.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cluster_of_other_processes_changes_nothing(folder: Path, model: Path, tmp_path: Path, capsys: Any) -> None:
    out, files = str(tmp_path / "m"), {name: tmp_path / f"{name}.parquet" for name in ("one", "many")}
    with scheduler_and_workers(tmp_path, 2) as (address, _):
        assert main(["fit", str(folder), "--target", "y", *QUICK, "--cluster", address, "--out", out]) == 0
        assert main(["predict", out, str(folder), "--cluster", address, "-o", str(files["many"])]) == 0
    assert main(["predict", str(model), str(folder), "-o", str(files["one"])]) == 0
    one, many = (read_table(path)["prediction"].to_numpy() for path in files.values())
    np.testing.assert_array_equal(one, many)
    capsys.readouterr()


def test_a_cluster_that_is_not_there_is_told_in_one_line(folder: Path, tmp_path: Path, capsys: Any) -> None:
    import dask

    pytest.importorskip("distributed")  # its settings must be there before one of them is changed for a while

    arguments = ["fit", str(folder), "--target", "y", *QUICK, "--cluster", "tcp://127.0.0.1:9", "--out"]
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        code = main([*arguments, str(tmp_path / "m")])
    err = capsys.readouterr().err
    assert code != 0
    assert "tcp://127.0.0.1:9" in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--workers", "0"], "--workers must be 1 or more"),
        (["--workers", "2", "--cluster", "tcp://127.0.0.1:1"], "not allowed with"),
        (["--cluster", "nowhere"], "'nowhere' is not a scheduler's address (missing port number in address 'nowhere')"),
        (["--cluster", "tcp://127.0.0.1:port"], "write tcp://host:port"),
        (["--target", "w"], "w"),
    ],
)
def test_wrong_calls_are_told_in_one_line(
    folder: Path, tmp_path: Path, extra: list[str], message: str, capsys: Any
) -> None:
    arguments = ["fit", str(folder), "--target", "y", "--out", str(tmp_path / "m"), *extra]
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "m").exists()


def test_intervals_want_single_files(folder: Path, model: Path, tmp_path: Path, capsys: Any) -> None:
    arguments = ["predict", str(model), str(folder), "--interval", "0.9", "-o", str(tmp_path / "p.csv")]
    assert main(arguments) == 2
    assert "single files" in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()
