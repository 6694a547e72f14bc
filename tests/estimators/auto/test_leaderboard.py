"""The leaderboard: order, table, plain values."""

from __future__ import annotations

import json
import math

import pytest

from gramian.certificates import Certificate
from gramian.estimators.auto import Leaderboard, Trial

PROOF = Certificate(kind="residual", violation=1e-9, converged=True, iterations=3, seconds=0.1)


def trial(name, score, **changes):
    given = {
        "machine": "gp", "kernel": "RBF(1.0)", "settings": {"noise": 0.1}, "spread": 0.01, "fit_seconds": 1.0,
        "predict_seconds": 0.1, "certificate": PROOF, "rows": 100,
    }  # fmt: skip
    return Trial(name=name, score=score, **{**given, **changes})


def test_the_better_judged_come_first():
    board = Leaderboard(
        [
            trial("broken", math.nan, status="failed: no"),
            trial("few rows", 0.1),
            trial("dropped", 0.2, rows=200, status="dropped"),
            trial("second", 0.4, rows=200),
            trial("first", 0.3, rows=200),
            trial("mean", 0.2, rows=200, baseline=True, certificate=None),
        ],
        "rmse",
    )
    assert [t.name for t in board] == ["mean", "first", "second", "few rows", "dropped", "broken"]
    assert board.best.name == "first"
    assert board.baseline.name == "mean"
    assert not board[-1].ok
    assert [t.name for t in board[:2]] == ["mean", "first"]


def test_the_winner_comes_first_though_a_slower_one_was_better():
    board = Leaderboard([trial("slow", 0.1, status="too slow for all rows"), trial("w", 0.2, status="winner")], "rmse")
    assert board.best.name == "w"
    assert "too slow for all rows" in str(board)


def test_equal_errors_are_told_apart_by_log_loss():
    board = Leaderboard(
        [trial("a", 0.1, figures={"log_loss": 0.5}), trial("b", 0.1, figures={"log_loss": 0.4})], "error"
    )
    assert board.best.name == "b"


def test_table_and_plain_values():
    board = Leaderboard([trial("one", 0.5), trial("no", math.nan, status="failed: why")], "error")
    lines = str(board).splitlines()
    assert lines[0] == "error, lower is better"
    assert "0.500 ± 0.010" in lines[2]
    assert "converged" in lines[2]
    assert "failed: why" in lines[3]
    assert board.table(("trial", "status"), most=1).splitlines()[1:] == ["trial  status", "one    done"]
    plain = json.loads(json.dumps(board.to_dicts()))
    assert plain[0]["certificate"]["converged"] is True
    assert plain[0]["settings"] == {"noise": 0.1}


def test_empty_and_of_another_score():
    empty = Leaderboard([], "mae")
    assert empty.best is None
    assert empty.baseline is None
    assert len(empty) == 0


def test_of_scores_where_more_is_better_the_highest_comes_first():
    trials = [
        trial("low", 0.7),
        trial("high", 0.9),
        trial("linear", 0.8, baseline=True),
        trial("rule", 0.5, baseline=True),
    ]
    board = Leaderboard(trials, "roc_auc", greater_is_better=True)
    assert [t.name for t in board] == ["high", "linear", "low", "rule"]
    assert (board.best.name, board.baseline.name) == ("high", "linear")
    assert board.gain(board[0], board[1]) == pytest.approx(0.1)
    assert str(board).startswith("ROC AUC, higher is better")
