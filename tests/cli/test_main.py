"""Wrong calls: one clear line, a code that is not zero, and nothing half-written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gramian
from gramian import KernelPCA, KernelRidge
from gramian.cli import fit as fit_command
from gramian.cli import main

X = np.random.default_rng(0).standard_normal((40, 2))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = pd.DataFrame(
        {
            "age": X[:, 0],
            "Income": X[:, 1],
            "y": X[:, 0] ** 2,
            "one": 1,
            "text": "a",
            "kind": ["a", "b"] * 20,
            "none": np.nan,
            "euros": [f"€{i}" for i in range(40)],
        }
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "binary.csv").write_bytes((tmp_path / "t.parquet").read_bytes())
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "t.parquet").read_bytes()[:-100])
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("age,y\n")
    (tmp_path / "ragged.csv").write_text("age,y\n1,2\n3\n")
    (tmp_path / "short.csv").write_text("age\n1\n2\n")
    (tmp_path / "nothing.csv").write_text("age,Income\n")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "words.csv").write_text("age,Income\nx,1\n")
    (tmp_path / "notes.docx").write_text("a,b\n")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    gramian.save(KernelRidge().fit(X, X[:, 0]), tmp_path / "ridge")
    gramian.save(KernelRidge().fit(pd.DataFrame(X, columns=["age", "Income"]), X[:, 0]), tmp_path / "named")
    gramian.save(KernelPCA().fit(X), tmp_path / "pca")
    return tmp_path


FIT = "fit t.csv --target y --out new"
WRONG = {
    "no such column": ("fit t.csv --target income --out new", "no column 'income'; did you mean 'Income'?"),
    "one class": ("fit t.csv --target text --out new", "has only one value, a"),
    "one number": ("fit t.csv --target one --out new", "has only one value, 1"),
    "unique texts": ("fit t.csv --target euros --out new", "40 different texts in 40 rows, such as €0; classes must"),
    "no target at all": ("fit t.csv --target none --out new", "missing in every row"),
    "empty": ("fit empty.csv --target y --out new", "the file is empty"),
    "no rows": ("fit header.csv --target y --out new", "holds no rows"),
    "no such file": ("fit t.cvs --target y --out new", "no such file; did you mean 't.csv'?"),
    "a folder without data": ("fit thesis --target y --out new", "no data at 'thesis': expected a file, a folder"),
    "unreadable": ("fit cut.parquet --target y --out new", "cannot be read as parquet"),
    "ragged": ("fit ragged.csv --target y --out new", "line 3 has 1 value"),
    "binary": ("fit binary.csv --target y --out new", "binary file (it starts like a Parquet file)"),
    "unknown ending": ("fit notes.docx --target y --out new", "the name should end in .csv"),
    "too short": (f"{FIT} --time-limit 0.0001", "too short"),
    "no time": (f"{FIT} --time-limit 0", "--time-limit must be positive"),
    "one part": (f"{FIT} --cv 1", "--cv must be 2 or more"),
    "seed": (f"{FIT} --seed -1", "--seed must be between 0 and 2^32 - 1, got -1."),
    "rows without a meaning": (f"{FIT} --kernel Spectrum(3)", "got X with 6 columns; pass one.\n"),
    "memory": (f"{FIT} --memory lots", "memory must be"),
    "device": (f"{FIT} --device gpu", "device must be None, 'cuda'"),
    "kernel": (f"{FIT} --kernel RFB()", "did you mean 'RBF'?"),
    "no such GPU": (f"{FIT} --device cuda:99", "device='cuda:99'"),
    "kernel in small letters": (f"{FIT} --kernel rbff()", "did you mean 'RBF'?"),
    "kernel code": (f"{FIT} --kernel __import__('os')", "no such kernel"),
    "text as numbers": ("fit t.csv --target kind --task regression --out new", "holds values that are not numbers"),
    "fractions as classes": (f"{FIT} --task classification", "holds fractions"),
    "no parent": ("fit t.csv --target y --out no/such/model", "create it first"),
    "not ours to replace": ("fit t.csv --target y --out thesis", "is not a gramian model"),
    "unknown model": (f"{FIT} --model forest", "invalid choice: 'forest'"),
    "no target given": ("fit t.csv --out new", "--target"),
    "not a model": ("predict thesis t.csv -o p.csv", "not the folder of a model"),
    "no model": ("predict nothing t.csv -o p.csv", "there is no such folder"),
    "a file as model": ("predict t.csv t.csv -o p.csv", "is a file, not the folder of a model"),
    "missing input": ("predict named short.csv -o p.csv", "has no column 'Income'"),
    "too few inputs": ("predict ridge short.csv -o p.csv", "takes 2 columns"),
    "text for numbers": ("predict named words.csv -o p.csv", "column 'age' holds string"),
    "no rows to predict": ("predict named nothing.csv -o p.csv", "holds no rows"),
    "a folder as output": ("predict named t.csv -o folder.csv", "this is a folder; name a file"),
    "output ending": ("predict named t.csv -o p.xlsx", "the name should end in .csv"),
    "output folder": ("predict named t.csv -o none/p.csv", "create it first"),
    "two outputs": ("predict named t.csv --json", "--json needs -o FILE"),
    "no intervals": ("predict named t.csv --interval 0.9 -o p.csv", "gives intervals"),
    "no probabilities": ("predict named t.csv --proba -o p.csv", "proba needs a classifier"),
    "no predictions": ("predict pca t.csv -o p.csv", "does not predict"),
    "inspect nothing": ("inspect thesis", "not the folder of a model"),
    "graph folder": ("export ridge --onnx none/m.onnx", "there is no folder none; create it first."),
    "report folder": ("report ridge -o none/page.html", "there is no folder none; create it first."),
    "explain nothing": ("explain-kernel RBF", "write RBF()"),
    "explain inputs": ("explain-kernel RBF() --inputs 0", "--inputs must be"),
    "a weight of words": (f"{FIT} --weight kind", "--weight kind must be a column of numbers, got string"),
    "a port of a page beyond": ("play --no-open --port 70000", "--port: must be between 0 and 65535, got 70000"),
    "a port beyond the last": ("serve ridge --port 70000", "--port: must be between 0 and 65535, got 70000"),
    "wrong command": ("fitt", "invalid choice"),
}


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def call(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as stopped:  # as argparse does
        return int(str(stopped.code))


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls(case: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    command, message = WRONG[case]
    monkeypatch.chdir(folder)
    before = listing(folder)
    assert call(command.split()) == 2
    out, err = capsys.readouterr()
    assert out.count("\n") <= 1
    assert err.startswith("gramian: ")
    tried = [line for line in err.splitlines() if "; trying " in line]  # a trial each, of a search that had begun
    assert err.count("\n") == 1 + len(tried), err
    assert any(part in err for part in message.split("|")), err
    assert listing(folder) == before
    assert not [p for p in folder.rglob("*") if p.name.endswith(".tmp")]


def test_the_command_alone_shows_its_help(capsys: Any) -> None:
    assert call([]) == 0
    assert "tune a model on a table" in capsys.readouterr().out


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="nothing is unreadable to root")
def test_a_file_that_may_not_be_read(folder: Path, capsys: Any) -> None:
    (folder / "t.csv").chmod(0)
    assert main(["fit", str(folder / "t.csv"), "--target", "y", "--out", str(folder / "new")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_damaged_model(folder: Path, capsys: Any) -> None:
    manifest = folder / "named" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"alpha": 1', b'"alpha": 2'))
    assert main(["predict", str(folder / "named"), str(folder / "t.csv"), "-o", str(folder / "p.csv")]) == 2
    assert "checksum is wrong" in capsys.readouterr().err
    assert not (folder / "p.csv").exists()


def test_in_a_process_of_its_own(folder: Path) -> None:
    command = [sys.executable, "-m", "gramian", "fit", "t.csv", "--target", "agee", "--out", "new"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "gramian: t.csv has no column 'agee'; did you mean 'age'?\n"


def test_ctrl_c_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fit_command, "_on_a_table", stopped)
    assert main(["fit", str(folder / "t.csv"), "--target", "y", "--out", str(folder / "new")]) == 130
    assert not (folder / "new").exists()
    assert capsys.readouterr().err == "gramian: stopped; nothing half-written is left\n"


def test_unexpected_errors_are_one_line_too(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def broken(*_: Any) -> None:
        raise AssertionError("a bug\nwith lines")

    monkeypatch.setattr(fit_command, "_on_a_table", broken)
    arguments = ["fit", str(folder / "t.csv"), "--target", "y", "--out", str(folder / "new")]
    assert main(arguments) == 1
    err = capsys.readouterr().err
    assert re.fullmatch(r"gramian: unexpected AssertionError: a bug with lines; --debug .*\n", err)
    assert main([*arguments, "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_warnings_are_notes(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    import warnings

    monkeypatch.setattr(
        gramian.files, "inspect", lambda path: warnings.warn("take care", UserWarning, stacklevel=1) or inspect(path)
    )
    from gramian.files.read import inspect

    assert main(["inspect", str(folder / "ridge")]) == 0
    assert capsys.readouterr().err == "gramian: note: take care\n"


def test_a_reader_that_has_read_enough(folder: Path) -> None:
    command = f"{sys.executable} -m gramian inspect {folder / 'ridge'} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "KernelRidge" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_process_ends_with_its_code_its_handlers_and_all_of_its_output() -> None:
    begin = "import atexit, sys; from gramian.cli import command; atexit.register(print, 'bye'); sys.argv = "
    for call, code in ((["gramian", "explain-kernel", "RBF(2.0)"], 0), (["gramian", "inspect", "nothing"], 2)):
        done = subprocess.run(
            [sys.executable, "-c", f"{begin}{call!r}; command()"], capture_output=True, text=True, check=False
        )
        assert done.returncode == code
        assert done.stdout.endswith("bye\n")
        assert ("RBF" in done.stdout) == (code == 0)
        assert bool(done.stderr) == (code == 2)
