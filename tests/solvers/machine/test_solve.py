"""The machine's solvers on numbers: gaps, spaces, constants, penalties, time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gramian import losses
from gramian.gram import Gram
from gramian.kernels import RBF
from gramian.losses import Absolute, Hinge, Huber, Logistic, Multinomial, Ramp, Squared
from gramian.progress import Clock
from gramian.solvers.machine import box_dual as boxed
from gramian.solvers.machine import newton, proximal
from gramian.solvers.machine.data_term import DataFit, Envelope, Tilted, best_constant
from gramian.solvers.machine.function_space import ExactSpace
from gramian.solvers.machine.newton import Woodbury
from gramian.solvers.machine.penalties import NEEDS, Goal, choose
from gramian.solvers.machine.solve import Problem, solve

CONVEX = [cls() for cls in losses.names().values() if cls.convex]


def targets(loss, rng, n):
    if loss.coupled:
        return np.eye(3)[rng.integers(0, 3, n)]
    if loss.task == "classification":
        return rng.choice([-1.0, 1.0], (n, 1))
    return rng.poisson(2.0, (n, 1)).astype(float) if getattr(loss, "positive", False) else rng.normal(size=(n, 1))


def problem(loss, rng, n=60, penalty="squared", strength=1e-2, **options):
    X = rng.standard_normal((n, 2))
    fit = DataFit(loss, targets(loss, rng, n), rng.uniform(0.5, 2.0, n))
    goal = Goal(choose(loss).name, penalty, strength, **options)
    return Problem(ExactSpace(Gram(RBF(1.0), X)), fit, goal)


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


def test_newton_gap_is_the_fenchel_young_gap(rng):
    p = problem(Logistic(), rng)
    mu = 1e-3 * p.total
    start = newton.origin(p.fit, True)
    for steps in range(4):
        found = newton.minimise(p.space, p.fit, mu, start, intercept=True, goal=0.0, max_iter=steps)
        primal = p.fit.value(found.at.f) + 0.5 * mu * found.at.norm2
        dual = -p.fit.conjugate(found.u) - 0.5 * float(np.sum(found.u * found.Ku)) / mu
        assert found.gap == pytest.approx(primal - dual, rel=1e-6, abs=1e-12)
    assert "max_iter=3" in found.why


def test_an_expired_clock_stops_either_method(rng):
    p = problem(Hinge(), rng)
    clock = Clock(1e-9)
    start = newton.origin(p.fit, True)
    found = proximal.minimise(p.space, p.fit, 1.0, start, intercept=True, goal=1e-8, clock=clock)
    assert "max_time" in found.why
    fitted = solve(problem(Squared(), rng, penalty="norm", strength=1e-3, clock=Clock(1e-9)))
    assert not fitted.certificate.converged


def test_best_constants(rng):
    for loss in CONVEX:
        fit = DataFit(loss, targets(loss, rng, 40), rng.uniform(0.5, 2.0, 40))
        f = rng.standard_normal(fit.y.shape)
        b = best_constant(fit, f, np.zeros(fit.y.shape[1]), middle=True)
        for _ in range(20):
            assert fit.value(f + b) <= fit.value(f + b + 0.1 * rng.standard_normal(b.shape)) + 1e-9
    odd = DataFit(Absolute(), np.array([[0.0], [1.0], [2.0], [5.0]]), np.ones(4))
    assert best_constant(odd, np.zeros((4, 1)), np.zeros(1), middle=True) == pytest.approx(1.5)


def test_the_envelope_is_below_and_its_gradient_is_a_slope(rng):
    fit = DataFit(Absolute(), rng.standard_normal((30, 1)), rng.uniform(0.5, 2.0, 30))
    f = rng.standard_normal((30, 1))
    envelope = Envelope(fit, 0.3, np.zeros((30, 1)))
    assert envelope.value(f) <= fit.value(f)
    h, direction = 1e-6, rng.standard_normal((30, 1))
    slope = (envelope.value(f + h * direction) - envelope.value(f - h * direction)) / (2 * h)
    assert slope == pytest.approx(float(np.sum(envelope.gradient(f) * direction)), rel=1e-6)
    assert fit.conjugate(envelope.gradient(f)) < np.inf
    curvature = envelope.half_curvature(f) ** 2 * 0.3
    assert set(np.round(curvature.ravel(), 6)) <= {0.0, 1.0}


def test_a_tilt_moves_the_conjugate(rng):
    y, w, c = rng.choice([-1.0, 1.0], (20, 1)), rng.uniform(0.5, 2.0, 20), rng.standard_normal((20, 1))
    tilted = Tilted(Hinge(), y, w, c)
    f = rng.standard_normal((20, 1))
    u = tilted.gradient(f)
    assert tilted.value(f) + tilted.conjugate(u) == pytest.approx(float(np.sum(u * f)))
    z = tilted.prox(f, 0.7)
    assert tilted.value(z) + tilted.conjugate((f - z) / 0.7) == pytest.approx(float(np.sum((f - z) / 0.7 * z)))


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


def test_dispatch_is_by_what_a_loss_offers():
    assert {type(loss).__name__: choose(loss).name for loss in CONVEX if hasattr(loss, "curvature")} == {
        type(loss).__name__: "newton" for loss in CONVEX if hasattr(loss, "curvature")
    }
    assert choose(Ramp()).name == "ccp"
    assert set(NEEDS) == {"newton", "proximal", "ccp", "bundle"}
    with pytest.raises(ValueError, match="lacks what makes it convex"):
        choose(Multinomial(), "proximal")


def test_single_precision_only_where_it_is_enough(rng, monkeypatch):
    monkeypatch.setattr(newton, "LARGE", 1)
    F, s = rng.standard_normal((3000, 5)), rng.uniform(0.1, 1.0, 3000)
    exact = (s[:, None] * F).T @ (s[:, None] * F)
    # μ is large beside what rounding loses, then small.
    rough, fine = (np.abs(Woodbury(F, s, mu)._square() - exact).max() for mu in (1e3, 1e-6))
    assert fine < 1e-11 < rough < 1e-2


BOXED = [losses.Absolute(), losses.Quantile(0.3), losses.EpsilonInsensitive(0.2), losses.Hinge()]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", BOXED, ids=repr)
def test_pair_steps_and_proximal_points_agree(loss, intercept, rng, monkeypatch):
    p = problem(loss, rng, n=80, tol=1e-9, intercept=intercept)
    if not boxed.suits(p.fit, intercept):
        assert loss.tube() > 0
        return
    monkeypatch.setattr(boxed, "ROUNDS", 10_000)
    options = {"intercept": intercept, "goal": 1e-9, "clock": Clock()}
    start = rng.standard_normal((80, 1))  # any start will do
    found = boxed.minimise(p.space, p.fit, 1.0, start, max_iter=10_000, **options)
    slow = proximal.minimise(p.space, p.fit, 1.0, newton.origin(p.fit, intercept), **options)
    primal = [p.fit.value(each.at.f) + 0.5 * each.at.norm2 for each in (found, slow)]
    assert primal[0] == pytest.approx(primal[1], rel=1e-8)
    assert found.gap <= 1e-9 * primal[0]
    # A conjugate that is infinite would show here: the dual point is feasible.
    assert np.isfinite(p.fit.conjugate(found.u))
    # Without the steps, the proximal point method has to go on from where they stopped.
    monkeypatch.setattr(boxed, "ROUNDS", 0)
    assert solve(
        replace(p, goal=replace(p.goal, strength=1.0 / p.total))
    ).certificate.primal * p.total == pytest.approx(primal[1], rel=1e-7)


def test_which_data_terms_have_a_dual_on_a_box():
    y, w = np.ones((4, 1)), np.ones(4)
    assert boxed.suits(DataFit(Hinge(), y, w), intercept=True)
    assert boxed.suits(DataFit(Hinge(), y, w), intercept=False)
    assert not boxed.suits(DataFit(losses.EpsilonInsensitive(), y, w), intercept=False)
    assert not boxed.suits(DataFit(Huber(), y, w), intercept=True)
    assert not boxed.suits(Tilted(Hinge(), y, w, y), intercept=True)
