"""Plans: sizes by operation counts, and so the same wherever they are made."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from gramian.estimators.auto import fits, plans
from gramian.estimators.auto.candidates import MACHINES
from gramian.estimators.auto.fits import Resources
from gramian.estimators.auto.plans import Effort, Planner, efforts
from gramian.kernels import RBF
from gramian.progress import Clock

RIDGES = [Effort(1e-4, 60, 2000), Effort(2e-3, 20, 2000)]


def test_the_way_is_chosen_by_time_and_memory():
    chosen = {n: Planner(n, 1, 8 * 10**9).plan(RIDGES, 60.0, loo=False) for n in (1000, 25_000, 300_000)}
    assert [p.way for p in chosen.values()] == ["exact", "pcg", "nystroem"]
    assert all(p.seconds < 60 for p in chosen.values())
    many = Planner(300_000, 1, 10**9)
    fast, slow = (many.plan(RIDGES, budget, loo=False).landmarks for budget in (10.0, 100.0))
    assert 100 <= fast < slow
    assert "too many" in chosen[300_000].reason


def test_the_ridge_is_as_small_as_the_time_allows():
    planner = Planner(30_000, 1, 8 * 10**9)
    ridges = [planner.plan(RIDGES, budget, loo=True).ridge for budget in (50.0, 200.0)]
    assert ridges == [2e-3, 1e-4]


def test_blocks_that_do_not_fit_in_memory_take_time():
    little, much = (Planner(30_000, 1, memory).plan(RIDGES, 1e3, loo=True) for memory in (4 * 10**8, 2 * 10**9))
    assert little.way == much.way == "pcg"
    assert little.seconds > 2 * much.seconds


def test_what_is_reserved_is_what_is_needed():
    few, medium, many = (Planner(n, 1, 8 * 10**9, limit=300.0) for n in (100, 16_000, 10**6))
    assert few.reserve("gp") == few.reserve("svm") == 30.0
    assert many.reserve("gp") == many.reserve("svm") == 180.0
    kept, way = medium.reserve("ridge"), medium.plan(plans.TYPICAL, 180.0, loo=False)
    assert 30.0 < kept < 180.0
    assert kept == pytest.approx(plans.KEPT * way.whole)
    assert way.whole > way.seconds > 0
    assert Planner(100, 1, 10**9).reserve("gp") == math.inf


def test_trials_are_counted():
    cost = partial(plans.trial_seconds, "gp", 1000, 10)
    assert 0 < cost(again=True) < cost() < cost(powers=True)
    for machine in MACHINES:
        small, large = (plans.trial_seconds(machine, n, 10) for n in (500, 1000))
        assert (1.5 if machine == "linear" else 3.5) * small < large < 9 * small
    assert plans.trial_seconds("svm", 500, 10, kernels=3) == 3 * plans.trial_seconds("svm", 500, 10)


def test_support_vectors_of_too_many_rows_do_not_win():
    few, many = (Planner(n, 1, 10**9, limit=60.0) for n in (3000, 200_000))
    assert few.affordable("svm")
    assert few.affordable("machine")
    assert not many.affordable("svm")
    assert not many.affordable("machine")
    assert many.affordable("gp")
    assert Planner(10**7, 1, 10**9).affordable("svm")


def test_smaller_ridges_take_more_iterations(rng):
    X = rng.uniform(-2, 2, (500, 2))
    Y = np.sin(3 * X[:, :1]) + X[:, 1:] ** 2 + 0.05 * rng.standard_normal((500, 1))
    found = list(efforts(RBF(1.0), X, Y, 1e-9, 10**8))
    assert [effort.ridge for effort in found] == list(plans.FLOORS)
    assert found[0].iterations > found[-1].iterations
    assert [effort.ridge for effort in efforts(RBF(1.0), X, Y, 0.5, 10**8)] == [0.5]


def test_kernels_of_powers_take_longer_to_make():
    planner = Planner(30_000, 1, 8 * 10**9)
    plain, powers = (planner.plan(RIDGES, 1e4, loo=False, powers=inputs) for inputs in (0, 20))
    assert powers.seconds - plain.seconds == pytest.approx(0.5 * plans.POWERS * 20 * 30_000**2 / plans.choice.SPEED)


@pytest.mark.parametrize(("all_threads", "one", "busy"), [(0.02, 0.04, False), (0.2, 0.15, True)])
def test_one_thread_where_others_use_the_cores(all_threads, one, busy, monkeypatch):
    taken = iter((all_threads, one))
    monkeypatch.setattr(plans, "_seconds_of_product", lambda: next(taken))
    nominal = plans.choice.nominal_seconds(2.0 * plans.PROBE**3)
    assert plans.measured_pace() == ((one if busy else all_threads) / nominal, busy)
    means = replace(Resources(10**9, None, 0), busy=busy)
    assert means.few_threads(10_000)[0].n_jobs == (1 if busy else None)
    assert means.few_threads(100)[0].n_jobs == 1


def test_nothing_is_measured_without_a_time_limit(monkeypatch):
    monkeypatch.setattr(fits, "measured_pace", lambda: (7.0, True))
    timed, free = (Resources(10**9, None, 0, clock=Clock(limit)) for limit in (60.0, None))
    assert timed.measured(10_000).pace == 7.0
    assert timed.measured(100).pace == free.measured(10_000).pace == 1.0
