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
        tables = digits(folder)
        for table in tables:
            rows = pd.read_csv(table)
            rows[rows["digit"] < 2].to_csv(table, index=False)
        return tables

    digits = demo._digits
    monkeypatch.setattr(demo, "_digits", fewer)
    monkeypatch.setattr(demo, "FLATS", 120)
    monkeypatch.setattr(demo, "NEW_FLATS", 40)
    assert main(["demo", "--out", str(tmp_path / "out"), "--time-limit", "60"]) == 0
    out = capsys.readouterr().out
    assert "the model misreads 0" in out
    assert "New prices are off by" in out
    assert out.count("$ gramian fit") == 2
    files = {"flats", "flats.csv", "new_flats.csv", "flats_predictions.csv", "flats.html"}
    assert files | {name.replace("flats", "digits") for name in files} <= set(os.listdir(tmp_path / "out"))
    page = (tmp_path / "out" / "flats.html").read_text(encoding="utf-8")
    assert "Which inputs matter" in page
    assert "district" in page


def test_the_flats_have_categories_and_gaps(tmp_path: Path) -> None:
    from gramian.cli import demo

    old, new = (pd.read_csv(path) for path in demo._flats(tmp_path))
    assert (len(old), len(new)) == (demo.FLATS, demo.NEW_FLATS)
    assert old["district"].nunique() == 8
    assert old["heating"].isna().any()
    assert old["area"].isna().any()
    assert not old["price"].isna().any()
