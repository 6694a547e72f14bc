"""The proximal point method for losses with kinks."""

import numpy as np
import pytest

from gramian.losses import Absolute, EpsilonInsensitive, Hinge, Logistic, Quantile
from gramian.progress import Clock
from gramian.solvers.machine import newton, proximal
from gramian.solvers.machine.penalties import Goal
from machine_problems import problem
from reference_machine import hinge_dual, hinge_objective


def test_the_hinge_by_coordinate_ascent(rng):
    p = problem(Hinge(), rng, n=40)
    K, y = p.space.block(np.arange(40)), p.fit.y[:, 0]
    equal = type(p.fit)(p.fit.loss, p.fit.y, np.full(40, 1 / 40))
    start = newton.origin(equal, False)
    found = proximal.minimise(p.space, equal, 0.05, start, Goal("proximal", intercept=False, tol=1e-10))
    least = hinge_objective(K, y, hinge_dual(K, y, 0.05), 0.05)
    assert hinge_objective(K, y, found.iterate.alpha[:, 0], 0.05) == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [Absolute(), Quantile(0.2), EpsilonInsensitive(0.1), Logistic()], ids=repr)
def test_the_gap_holds_and_the_dual_point_is_feasible(loss, intercept, rng):
    p = problem(loss, rng)
    start = newton.origin(p.fit, intercept)
    found = proximal.minimise(p.space, p.fit, 1.0, start, Goal("proximal", intercept=intercept, tol=1e-9))
    K = p.space.block(np.arange(60))
    at = found.iterate
    primal = p.fit.value(K @ at.alpha + at.b) + 0.5 * float(np.sum(at.alpha * (K @ at.alpha)))
    dual = -p.fit.conjugate(found.u) - 0.5 * float(np.sum(found.u * (K @ found.u)))
    assert np.isfinite(dual)
    assert not intercept or abs(found.u.sum()) < 1e-9 * np.abs(found.u).sum()
    assert -1e-9 * primal <= primal - dual <= 1e-8 * primal


def test_an_expired_clock_stops_it(rng):
    p = problem(Hinge(), rng)
    start = newton.origin(p.fit, True)
    found = proximal.minimise(p.space, p.fit, 1.0, start, Goal("proximal", tol=1e-8, clock=Clock(1e-9)))
    assert "max_time" in found.why
