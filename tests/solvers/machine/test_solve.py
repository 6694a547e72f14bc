"""A machine with any loss and penalty: optimality, losses that are not convex, time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gramian.losses import Hinge, Ramp, Squared
from gramian.progress import Clock
from gramian.solvers.machine.data_term import DataFit
from gramian.solvers.machine.penalties import Goal
from gramian.solvers.machine.solve import solve
from machine_problems import CONVEX, problem


@pytest.mark.parametrize("loss", CONVEX, ids=repr)
@pytest.mark.parametrize("intercept", [False, True])
def test_nothing_near_the_solution_is_better(loss, intercept, rng):
    lam = 1e-2
    p = problem(loss, rng, intercept=intercept, strength=lam, tol=1e-10)
    fitted = solve(p)
    K = p.space.block(np.arange(60))

    def objective(alpha, b):
        f = K @ alpha
        return p.fit.value(f + b) / p.total + 0.5 * lam * float(np.sum(alpha * f))

    at = fitted.at
    least = objective(at.alpha, at.b)
    assert fitted.certificate.primal == pytest.approx(least)
    assert fitted.certificate.dual <= least + 1e-9
    assert fitted.certificate.gap <= 1e-6
    for size in (1e-3, 1e-1):
        for _ in range(20):
            alpha = at.alpha + size * rng.standard_normal(at.alpha.shape)
            b = at.b + (size * rng.standard_normal(at.b.shape) if intercept else 0.0)
            assert objective(alpha, b) >= least * (1 - 1e-9)


def test_an_expired_clock_stops_the_search_for_a_multiplier(rng):
    fitted = solve(problem(Squared(), rng, penalty="norm", strength=1e-3, clock=Clock(1e-9)))
    assert not fitted.certificate.converged


def test_the_ramp_falls_with_every_round(rng):
    p = problem(Ramp(), rng)
    fitted = solve(p)
    assert fitted.certificate.kind == "stationary"
    assert fitted.certificate.converged
    hinge = solve(replace(p, fit=DataFit(Hinge(), p.fit.y, p.fit.w[:, 0]), goal=Goal("proximal", strength=1e-2)))
    before = p.fit.value(hinge.at.f) / p.total + 0.005 * hinge.at.norm2
    assert fitted.certificate.primal <= before + 1e-9
    ball = solve(replace(p, goal=replace(p.goal, penalty="ball", strength=1.0)))
    assert ball.at.norm2 <= 1 + 1e-9
