"""What a person at a terminal sees, and the report command."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
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


def test_report_is_one_call(table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    calls = []

    def report(model: Any, X: Any, y: Any, path: str, **named: Any) -> Path:
        calls.append((type(model).__name__, None if X is None else X.num_rows, path, named))
        return Path(path)

    monkeypatch.setitem(sys.modules, "gramian.reports", SimpleNamespace(report=report))
    gramian.save(gramian.KernelRidge().fit([[0.0], [1.0]], [0.0, 1.0]), table.parent / "m", data={"target": "y"})
    assert main(["report", str(table.parent / "m"), str(table), "-o", "page.html"]) == 0
    assert main(["report", str(table.parent / "m")]) == 0
    assert [call[:3] for call in calls] == [("KernelRidge", 60, "page.html"), ("KernelRidge", None, "report.html")]
    assert capsys.readouterr().out == "report: page.html\nreport: report.html\n"


def test_report_without_its_packages(table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "gramian.reports", None)
    gramian.save(gramian.KernelRidge().fit([[0.0], [1.0]], [0.0, 1.0]), table.parent / "m")
    assert main(["report", str(table.parent / "m")]) == 2
    assert 'pip install "gramian[report]"' in capsys.readouterr().err


def test_report_needs_to_know_the_target(table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "gramian.reports", SimpleNamespace(report=None))
    gramian.save(gramian.KernelRidge().fit([[0.0], [1.0]], [0.0, 1.0]), table.parent / "m")
    assert main(["report", str(table.parent / "m"), str(table)]) == 2
    assert "give it with --target" in capsys.readouterr().err
