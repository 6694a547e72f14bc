"""Piecewise linear losses by pair steps on their dual."""

import numpy as np
import pytest

from gramian import losses
from gramian.losses import Hinge, Huber
from gramian.solvers.machine import box_dual, newton, proximal
from gramian.solvers.machine.data_term import DataFit, Tilted
from gramian.solvers.machine.penalties import Goal
from machine_problems import problem

SUITED = [losses.Absolute(), losses.Quantile(0.3), losses.EpsilonInsensitive(0.2), losses.Hinge()]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", SUITED, ids=repr)
def test_pair_steps_and_proximal_points_agree(loss, intercept, rng):
    p = problem(loss, rng, n=80, tol=1e-9, intercept=intercept)
    if not box_dual.suits(p.fit, intercept):
        assert loss.tube() > 0
        return
    goal = Goal("proximal", intercept=intercept, tol=1e-9, max_iter=10_000)
    start = rng.standard_normal((80, 1))  # any start will do
    found = box_dual.minimise(p.space, p.fit, 1.0, start, goal, rounds=10_000)
    slow = proximal.minimise(p.space, p.fit, 1.0, newton.origin(p.fit, intercept), goal)
    primal = [p.fit.value(each.iterate.f) + 0.5 * each.iterate.norm2 for each in (found, slow)]
    assert primal[0] == pytest.approx(primal[1], rel=1e-8)
    assert found.gap <= 1e-9 * primal[0]
    assert np.isfinite(p.fit.conjugate(found.u))  # the dual point is feasible
    # Where the budget ends first, proximal steps go on from there.
    short = box_dual.minimise(p.space, p.fit, 1.0, start, goal, rounds=1)
    rest = proximal.minimise(p.space, p.fit, 1.0, short.iterate, goal)
    assert p.fit.value(rest.iterate.f) + 0.5 * rest.iterate.norm2 == pytest.approx(primal[1], rel=1e-8)


def test_which_data_terms_have_a_dual_on_a_box():
    y, w = np.ones((4, 1)), np.ones(4)
    assert box_dual.suits(DataFit(Hinge(), y, w), intercept=True)
    assert box_dual.suits(DataFit(Hinge(), y, w), intercept=False)
    assert not box_dual.suits(DataFit(losses.EpsilonInsensitive(), y, w), intercept=False)
    assert not box_dual.suits(DataFit(Huber(), y, w), intercept=True)
    assert not box_dual.suits(Tilted(Hinge(), y, w, y), intercept=True)
