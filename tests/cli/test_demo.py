"""``gramian demo``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gramian.cli import main


def test_the_demo_ends_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from gramian.cli import demo

    def fewer(folder: Path) -> tuple[Path, Path]:
        """Only zeros and ones, so that the test takes a second."""
        for table in tables(folder):
            rows = pd.read_csv(table)
            rows[rows["digit"] < 2].to_csv(table, index=False)
        return folder / "digits.csv", folder / "new.csv"

    tables = demo._tables
    monkeypatch.setattr(demo, "_tables", fewer)
    assert main(["demo", "--out", str(tmp_path / "out"), "--time-limit", "60"]) == 0
    out = capsys.readouterr().out
    assert "the model misreads 0" in out
    assert "$ gramian fit" in out
    assert {"model", "new.csv", "digits.csv", "predictions.csv"} <= set(os.listdir(tmp_path / "out"))
