"""How a winner stands beside a linear model, in words."""

import pytest

from gramian.certificates import Certificate
from gramian.estimators.auto import Leaderboard, Trial
from gramian.estimators.auto.explain import _certified, verdict


def trial(score, machine="gp", **changes):
    return Trial(name=machine, machine=machine, score=score, spread=0.01, rows=100, **changes)


@pytest.mark.parametrize(
    ("metric", "greater", "best", "linear", "said"),
    [
        ("rmse", False, 0.3, 0.4, "That is 25% lower than a linear model, which has 0.400 ± 0.010."),
        ("f1", True, 0.75, 0.5, "That is 0.25 higher than a linear model, which has 0.500 ± 0.010."),
        ("r2", True, 0.501, 0.5, "A linear model does nearly as well, 0.500 ± 0.010; the difference may be chance."),
        ("r2", True, 0.4, 0.5, "A linear model does as well: 0.500 ± 0.010 against 0.400 ± 0.010. A kernel does not"),
        ("error", False, 0.5, 0.4, "A linear model does as well: 0.400 ± 0.010 against 0.500 ± 0.010. A kernel does"),
    ],
)
def test_beside_a_linear_model(metric, greater, best, linear, said):
    winner = trial(best, status="winner")
    board = Leaderboard([winner, trial(linear, "linear", baseline=True)], metric, greater)
    assert verdict(board, winner).startswith(said)


@pytest.mark.parametrize(("greater", "scores"), [(True, (0.9, 0.8, 0.7)), (False, (0.1, 0.2, 0.3))])
def test_a_linear_winner_is_compared_with_the_best_kernel(greater, scores):
    winner = trial(scores[0], "linear", baseline=True, status="winner")
    board = Leaderboard([winner, trial(scores[2], "svm"), trial(scores[1], "gp")], "accuracy", greater)
    assert f"against {scores[1]:.3f} ± 0.010 of “gp”" in verdict(board, winner)
    assert verdict(Leaderboard([winner], "accuracy", greater), winner) == "A linear model is all that was to be tried."


def test_a_gap_of_zero_is_told_as_rounding():
    told = _certified(Certificate(kind="duality gap", gap=0.0, converged=True, iterations=1, seconds=0.1))
    assert told.endswith("its objective is within 2.2e-16 of the best there is, relatively.")
