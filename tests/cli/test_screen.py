"""Output of a command, on a terminal and elsewhere."""

from __future__ import annotations

import io
import logging
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import gramian
from gramian.cli import main
from gramian.cli.screen import Screen, View
from gramian.estimators.auto import Leaderboard, Trial
from gramian.estimators.auto.steps import Step


@pytest.fixture
def table(tmp_path: Path) -> Path:
    X = np.random.default_rng(0).standard_normal((60, 2))
    np.savez(tmp_path / "t.npz", X=X, y=np.sin(X[:, 0]))
    return tmp_path / "t.npz"


def test_a_search_is_seen_on_a_terminal_of_80_columns(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(Screen, "live", True)
    monkeypatch.setenv("FORCE_COLOR", "1")  # by which rich takes anything for a terminal
    monkeypatch.setenv("COLUMNS", "200")
    out = str(table.parent / "m")
    assert main(["fit", str(table), "--target", "y", "--model", "ridge", "--cv", "2", "--out", out]) == 0
    said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)
    assert "left of 1:00" in said
    assert "linear" in said
    assert all(len(line.rstrip()) <= 80 for line in re.split(r"[\r\n]", said))
    assert "_observer" not in vars(gramian.load(out))
    assert main(["predict", out, str(table), "-o", f"{out}.csv"]) == 0
    assert "60 predictions" in capsys.readouterr().out


def test_what_is_shown_of_a_step() -> None:
    long = "gp, a kernel with a name that is far too long for a terminal, on columns that were scaled by their ranks"
    trial = Trial(name=long, machine="gp", score=0.25, spread=0.01, rows=1200)
    linear = Trial(name="linear", machine="baseline", score=0.5, spread=0.02, rows=1200, baseline=True)
    view = View()
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(view.shown())
    view.see(Step(Leaderboard([trial, linear], "rmse"), long, 10.0, 60.0))
    console.print(view.shown())
    lines = console.export_text().splitlines()
    assert lines[0] == "reading the table ..."
    assert max(map(len, lines)) <= 80
    shown = "\n".join(lines)
    assert re.search(r"time +0:\d\d left of 1:00", shown)
    assert "linear 0.500 ± 0.020" in shown
    assert "RMSE 0.250 ± 0.010 gp, a kernel" in shown


def test_without_a_terminal_each_trial_is_a_line(table: Path, capsys: Any) -> None:
    arguments = ["fit", str(table), "--target", "y", "--model", "ridge", "--cv", "2", "--out", str(table.parent / "m")]
    assert main(arguments) == 0
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("gramian: ") for line in lines)
    assert sum("; trying ridge" in line for line in lines) >= 1
    log = logging.getLogger("gramian")
    assert (log.level, log.handlers, log.propagate) == (logging.NOTSET, [], True)  # as it was


def test_headings_are_bold_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    Screen(json=False).say("plain [text]", "bold")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    Screen(json=False).say("bold [text]", "bold")
    Screen(json=True).say("nothing")
    out = capsys.readouterr().out
    assert out.startswith("plain [text]\n")
    assert "bold [text]" in out
    assert "nothing" not in out


def test_json_has_no_nan(capsys: Any) -> None:
    Screen(json=True).result({"a": [float("nan"), 1.0], "b": {"c": float("inf")}})
    assert '"a": [\n    null,\n    1.0\n  ]' in capsys.readouterr().out
