"""Output of a command, on a terminal and elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gramian
from gramian.cli import main
from gramian.cli.screen import Screen


@pytest.fixture
def table(tmp_path: Path) -> Path:
    X = np.random.default_rng(0).standard_normal((60, 2))
    np.savez(tmp_path / "t.npz", X=X, y=np.sin(X[:, 0]))
    return tmp_path / "t.npz"


def test_the_leaderboard_grows_on_a_terminal(table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(Screen, "live", True)
    monkeypatch.setenv("FORCE_COLOR", "1")  # by which rich takes anything for a terminal
    out = str(table.parent / "m")
    assert main(["fit", str(table), "--target", "y", "--model", "ridge", "--cv", "2", "--out", out]) == 0
    said = capsys.readouterr()
    assert "trials, rmse: less is better" in said.err
    assert "linear" in said.err
    assert "_observer" not in vars(gramian.load(out))
    assert main(["predict", out, str(table), "-o", f"{out}.csv"]) == 0
    assert "60 predictions" in capsys.readouterr().out


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
