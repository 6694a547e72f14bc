"""Steps of a search in words, and in the log."""

import logging

import numpy as np
import pytest

from gramian import AutoKernelRegressor
from gramian.estimators.auto import Leaderboard, Trial
from gramian.estimators.auto.steps import Step


def trial(name, score, *, baseline=False):
    return Trial(name=name, machine="ridge", score=score, spread=2_500.0, rows=100, baseline=baseline)


def test_a_step_says_how_far_the_search_is():
    board = Leaderboard([trial("ridge, RBF", 116_000.0), trial("linear", 145_000.0, baseline=True)], "rmse")
    step = Step(board, "gp, Matern on 500 rows", 12.3, 60.0)
    assert str(step) == (
        "12 of 60 s; trying gp, Matern on 500 rows; best RMSE 116,000 ± 2,500 ridge, RBF; linear 145,000 ± 2,500"
    )
    behind = Leaderboard([trial("ridge, RBF", 150_000.0), trial("linear", 145_000.0, baseline=True)], "rmse")
    assert str(Step(behind, "", 1.0)).endswith("linear 145,000 ± 2,500, still ahead")
    empty = Step(Leaderboard([], "rmse"), "", 0.0)
    assert str(empty) == "0 s; 0 trials"


@pytest.mark.parametrize("level", [logging.INFO, logging.NOTSET])
def test_each_trial_is_a_line_of_the_log_where_that_is_on(caplog, level):
    X = np.random.default_rng(0).standard_normal((40, 2))
    caplog.set_level(level, "gramian") if level else None
    model = AutoKernelRegressor(time_limit=None, machines=["ridge"], cv=2, random_state=0).fit(X, X[:, 0])
    lines = [record.getMessage() for record in caplog.records if record.name == "gramian"]
    if not level:
        assert lines == []  # off by default
        return
    trying = [line for line in lines if "; trying ridge" in line]
    assert len(trying) == len([t for t in model.leaderboard_ if not t.baseline])
    assert "trying the winner on all rows; best RMSE" in lines[-1]
    assert "linear" in lines[-1]


def test_the_winner_is_told_as_it_was_saved():
    X = np.random.default_rng(0).standard_normal((60, 2))
    model = AutoKernelRegressor(time_limit=None, machines=["gp"], cv=2, random_state=0).fit(X, np.sin(X[:, 0]))
    assert model.best_trial_.certificate == model.certificate_
    assert model.best_trial_.kernel == repr(model.best_.kernel_)
    assert [t for t in model.leaderboard_ if t.status == "winner"] == [model.best_trial_]
