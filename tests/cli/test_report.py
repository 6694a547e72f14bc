"""``gramian report``."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gramian
from gramian.cli import main


@pytest.fixture
def table(tmp_path: Path) -> Path:
    X = np.random.default_rng(0).standard_normal((60, 2))
    np.savez(tmp_path / "t.npz", X=X, y=np.sin(X[:, 0]))
    return tmp_path / "t.npz"


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


def test_report_overwrites_nothing_unless_told_to(table: Path, capsys: Any) -> None:
    model, page = table.parent / "m", table.parent / "page.html"
    gramian.save(gramian.KernelRidge().fit([[0.0, 0.0], [1.0, 1.0]], [0.0, 1.0]), model, data={"target": "y"})
    page.write_text("mine")
    command = ["report", str(model), str(table), "-o", str(page)]
    assert main(command) == 2
    assert "page.html exists; choose another path, or overwrite it with --force" in capsys.readouterr().err
    assert page.read_text() == "mine"
    assert main([*command, "--force"]) == 0
    assert f"It is saved in <code>{model}</code>" in page.read_text()


def test_report_without_its_packages(table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    gramian.save(gramian.KernelRidge().fit([[0.0], [1.0]], [0.0, 1.0]), table.parent / "m")
    assert main(["report", str(table.parent / "m")]) == 2
    assert 'pip install ".[report]"' in capsys.readouterr().err


def test_report_needs_to_know_the_target(table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "gramian.reports", SimpleNamespace(report=None))
    gramian.save(gramian.KernelRidge().fit([[0.0], [1.0]], [0.0, 1.0]), table.parent / "m")
    assert main(["report", str(table.parent / "m"), str(table)]) == 2
    assert "give it with --target" in capsys.readouterr().err
