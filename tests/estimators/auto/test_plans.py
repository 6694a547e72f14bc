"""Plans: sizes by operation counts, and so the same wherever they are made."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.estimators.auto import plans
from gramian.estimators.auto.plans import Effort, affordable, efforts, part, plan, reserve
from gramian.kernels import RBF

RIDGES = [Effort(1e-4, 60, 2000), Effort(2e-3, 20, 2000)]


def test_the_way_is_chosen_by_time_and_memory():
    chosen = {n: plan(n, 1, RIDGES, 60.0, 8 * 10**9, loo=False) for n in (1000, 25_000, 300_000)}
    assert [p.way for p in chosen.values()] == ["exact", "pcg", "nystroem"]
    assert all(p.seconds < 60 for p in chosen.values())
    fast, slow = (plan(300_000, 1, RIDGES, budget, 10**9, loo=False).landmarks for budget in (10.0, 100.0))
    assert 100 <= fast < slow
    assert "too many" in chosen[300_000].reason


def test_the_ridge_is_as_small_as_the_time_allows():
    ridges = [plan(30_000, 1, RIDGES, budget, 8 * 10**9, loo=True).ridge for budget in (50.0, 200.0)]
    assert ridges == [2e-3, 1e-4]


def test_blocks_that_do_not_fit_in_memory_take_time():
    little, much = (plan(30_000, 1, RIDGES, 1e3, memory, loo=True) for memory in (4 * 10**8, 2 * 10**9))
    assert little.way == much.way == "pcg"
    assert little.seconds > 2 * much.seconds


def test_more_time_more_rows_of_a_part():
    few, many = (part(300_000, 1, RIDGES, budget, 2 * 10**9)[0] for budget in (5.0, 50.0))
    assert 2000 < few < many < 300_000


def test_what_is_reserved_is_what_is_needed():
    common = {"limit": 300.0, "memory": 8 * 10**9, "loo": False}
    assert reserve("gp", 3000, 1, **common) == 30.0
    assert reserve("gp", 10**6, 1, **common) == 180.0
    kept = reserve("ridge", 30_000, 1, **common)
    assert 30.0 < kept < 180.0
    assert plan(30_000, 1, plans.TYPICAL, kept, 8 * 10**9, loo=False).way == "pcg"
    assert reserve("svm", 100, 1, **common) == 30.0
    assert reserve("svm", 20_000, 1, **common) == pytest.approx(180.0)


def test_support_vectors_of_too_many_rows_do_not_win():
    assert affordable("svm", 5000, 1, 60.0)
    assert affordable("machine", 3000, 1, 60.0)
    assert not affordable("svm", 200_000, 1, 60.0)
    assert not affordable("machine", 20_000, 1, 60.0)
    assert affordable("gp", 10**7, 1, 60.0)
    assert affordable("svm", 10**7, 1, float("inf"))


def test_smaller_ridges_take_more_iterations(rng):
    X = rng.uniform(-2, 2, (500, 2))
    Y = np.sin(3 * X[:, :1]) + X[:, 1:] ** 2 + 0.05 * rng.standard_normal((500, 1))
    found = efforts(RBF(1.0), X, Y, 1e-9, 10**8)
    assert [effort.ridge for effort in found] == list(plans.FLOORS)
    assert found[0].iterations > found[-1].iterations
    assert [effort.ridge for effort in efforts(RBF(1.0), X, Y, 0.5, 10**8)] == [0.5]
