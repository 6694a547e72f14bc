"""Newton's method for smooth losses: its gap, its systems of equations, its limits."""

import numpy as np
import pytest

from gramian.losses import Huber, Logistic, Multinomial, Squared
from gramian.progress import Clock
from gramian.solvers.machine import newton
from gramian.solvers.machine.newton import LARGE, System, Woodbury
from gramian.solvers.machine.penalties import Goal
from machine_problems import problem


def test_least_squares_take_one_step(rng):
    p = problem(Squared(), rng)
    K, y, w = p.space.block(np.arange(60)), p.fit.y, p.fit.w[:, 0]
    found = newton.minimise(
        p.space, p.fit, 1.0, newton.origin(p.fit, False), Goal("newton", intercept=False, tol=1e-12)
    )
    # The loss is (f - y)² / 2 or (f - y)²: whichever, the gradient of the objective vanishes.
    alpha = found.iterate.alpha
    assert np.abs(p.fit.gradient(K @ alpha) + alpha).max() < 1e-9 * np.abs(w[:, None] * y).max()
    assert found.steps <= 2


def test_newton_gap_is_the_fenchel_young_gap(rng):
    p = problem(Logistic(), rng)
    mu = 1e-3 * p.total
    start = newton.origin(p.fit, True)
    for steps in range(4):
        found = newton.minimise(p.space, p.fit, mu, start, Goal("newton", tol=0.0, max_iter=steps))
        primal = p.fit.value(found.iterate.f) + 0.5 * mu * found.iterate.norm2
        dual = -p.fit.conjugate(found.u) - 0.5 * float(np.sum(found.u * found.Ku)) / mu
        assert found.gap == pytest.approx(primal - dual, rel=1e-6, abs=1e-12)
    assert "max_iter=3" in found.why


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [Logistic(), Huber(0.3), Multinomial()], ids=repr)
def test_both_ways_to_a_direction_solve_the_system(loss, intercept, rng):
    """(S Sᵀ K + μ) δ = r, up to a constant that an intercept absorbs: factorised, and by conjugate gradients."""
    p = problem(loss, rng)
    mu, at = 0.5, newton.origin(p.fit, intercept)
    S, K = p.fit.half_curvature(at.f), p.space.block(np.arange(60))
    r = -(p.fit.gradient(at.f) + mu * at.alpha)
    system = System(p.space, S, mu, intercept)
    exact = system.direction(r, K @ r, Clock())
    rough = (r - system._forward(system._iterate(system._back(K @ r), 1e-12, Clock()))) / mu
    curvature = np.einsum("icd,ied->ice", S, S) if loss.coupled else S[:, :, None] ** 2
    for delta in (exact, rough):
        change = K @ delta
        if intercept:  # the best constant beside the step minimises the quadratic model
            left = np.einsum("ice,ie->c", curvature, change)
            change = change - np.linalg.pinv(curvature.sum(axis=0)) @ left
        residual = np.einsum("ice,ie->ic", curvature, change) + mu * delta - r
        residual -= residual.mean(axis=0) if intercept and loss.coupled else 0.0
        assert np.abs(residual).max() < 1e-6 * np.abs(r).max()


def test_single_precision_only_where_it_is_enough(rng):
    F, s = rng.standard_normal((LARGE // 4, 4)), rng.uniform(0.1, 1.0, LARGE // 4)
    exact = (s[:, None] * F).T @ (s[:, None] * F)
    # μ is large beside what rounding loses, then small.
    rough, fine = (np.abs(Woodbury(F, s, mu)._square() - exact).max() for mu in (1e6, 1e-6))
    assert fine < 1e-7 < rough < 10.0


def test_woodbury_is_the_inverse(rng):
    F, s, B = rng.standard_normal((40, 5)), rng.uniform(0.1, 1.0, 40), rng.standard_normal((40, 2))
    A = np.diag(s) @ F @ F.T @ np.diag(s) + 0.3 * np.eye(40)
    np.testing.assert_allclose(Woodbury(F, s, 0.3).solve(B), np.linalg.solve(A, B), rtol=1e-10)
