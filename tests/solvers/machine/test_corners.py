"""Corners: kinks of losses, bounds from below, and the exact optimum, beside a plain quadratic program."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from gramian.losses import Absolute, EpsilonInsensitive, Hinge, Huber, Quantile
from gramian.solvers.machine import exact
from gramian.solvers.machine.corners import Corner, Kinks, Memo, corner_of, most_kinks, near
from gramian.solvers.machine.data_term import DataFit
from gramian.solvers.machine.function_space import FeatureSpace
from gramian.solvers.machine.newton import Newton, origin

LOSSES = [Hinge(), Absolute(), Quantile(0.8), EpsilonInsensitive(0.2)]


class Pieces:
    """A convex loss with kinks at some distances from the target."""

    def __init__(self, kinks, jumps):
        self.kinks, self.jumps = np.array(kinks), np.array(jumps)

    def value(self, f, y):
        return -1.5 * f + np.sum(self.jumps * np.maximum((f - y)[..., None] - self.kinks, 0.0), axis=-1)

    def gradient(self, f, y):
        return -1.5 + np.sum(self.jumps * ((f - y)[..., None] > self.kinks), axis=-1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-40, 40), min_size=1, max_size=5, unique=True), st.floats(-3.0, 3.0))
def test_all_kinks_are_found(places, y):
    places = sorted(p / 10.0 for p in places)
    jumps = np.linspace(0.5, 1.0, len(places))
    found = Kinks.of(Pieces(places, jumps), np.array([y]), np.array([y - 5.0]), np.array([y + 5.0]))
    np.testing.assert_allclose(found.place, np.array(places) + y, atol=1e-9)
    np.testing.assert_allclose(found.jump, jumps)
    np.testing.assert_allclose(found.before, -1.5 + np.cumsum(jumps) - jumps)


def test_a_curved_loss_has_no_kinks_to_find():
    assert Kinks.of(Huber(1.0), np.zeros(1), np.array([-2.0]), np.array([2.0])) is None
    assert Kinks.of(Absolute(), np.zeros(2), np.ones(2), np.full(2, 2.0)).row.size == 0


def problem(loss, intercept, seed=0, n=80, m=6, lam=1e-2):
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((n, m))
    y = F[:, 0] + 0.5 * rng.standard_normal(n)
    y = np.where(y > 0, 1.0, -1.0) if isinstance(loss, Hinge) else y
    fit = DataFit(loss, y[:, None], rng.uniform(0.2, 2.0, n))
    return F, fit, lam * n, m + int(intercept)


def objective(F, fit, mu, theta):
    m = F.shape[1]
    f = F @ theta[:m] + (theta[m] if theta.size > m else 0.0)
    return fit.value(f[:, None]) + 0.5 * mu * float(theta[:m] @ theta[:m])


def corner_at(F, fit, theta, reach):
    f = (F @ theta[: F.shape[1]] + (theta[F.shape[1]] if theta.size > F.shape[1] else 0.0))[:, None]
    reach = np.full_like(f, reach)
    bent = near(fit, f, reach)
    line, own = (DataFit(fit.loss, fit.y[rows], fit.w[rows, 0]) for rows in (~bent, bent))
    u = line.gradient(f[~bent])
    slope = np.append(F[~bent].T @ u[:, 0], u.sum())[: theta.size]
    level = line.value(f[~bent]) - float(np.sum(u * f[~bent]))
    middle = own.gradient(f[bent])
    return corner_of(F[bent], own, f[bent], reach[bent], middle, np.flatnonzero(bent), slope, level, None)


def reference(F, fit, mu, size):
    """The dual of the loss's own pieces would need its conjugate; slack variables need values only."""
    best = min(
        (minimize(lambda t: objective(F, fit, mu, t), start, method="Powell", options={"xtol": 1e-10, "ftol": 1e-14})
         for start in (np.zeros(size), 0.1 * np.ones(size))),
        key=lambda each: each.fun,
    )  # fmt: skip
    return best.fun


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_with_all_kinks_the_corner_is_the_problem(loss, intercept):
    F, fit, mu, size = problem(loss, intercept)
    corner = corner_at(F, fit, np.zeros(size), 100.0)
    theta, bound, memo = corner.solve(mu)
    primal = objective(F, fit, mu, theta)
    assert abs(primal - bound) <= 1e-12 * primal
    assert primal <= reference(F, fit, mu, size) * (1.0 + 1e-12)
    assert np.all((memo.u >= 0) & (memo.u <= corner.jump))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 3.0), st.sampled_from(LOSSES), st.booleans())
def test_a_corner_bounds_the_optimum_from_below(seed, reach, loss, intercept):
    F, fit, mu, size = problem(loss, intercept, seed % 7)
    optimum = corner_at(F, fit, np.zeros(size), 100.0).solve(mu)[1]
    corner = corner_at(F, fit, 0.3 * np.random.default_rng(seed).standard_normal(size), reach)
    found = corner.solve(mu)
    if found is not None:
        assert found[1] <= optimum + 1e-9 * abs(optimum)
        assert objective(F, fit, mu, found[0]) >= optimum - 1e-9 * abs(optimum)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_from_anywhere_near_to_the_optimum(loss, intercept):
    F, fit, mu, size = problem(loss, intercept, n=600)
    space, start = FeatureSpace(F), origin(fit, intercept)
    u = fit.gradient(start.f)
    found = exact.finished(space, fit, mu, Newton(start, u, space @ u, np.inf, 0), intercept)
    optimum = corner_at(F, fit, np.zeros(size), 100.0).solve(mu)[1]
    theta = np.append(F.T @ found.at.alpha, found.at.b)[:size]
    assert objective(F, fit, mu, theta) >= optimum * (1.0 - 1e-12)
    assert found.gap >= 0.0


def test_no_constant_makes_up_for_a_slope_that_no_kink_answers():
    memo = Memo(np.array([0]), np.zeros(1), np.zeros(1))
    corner = Corner(np.ones((1, 1)), np.zeros(1), np.ones(1), np.array([0.0, 3.0]), 0.0, memo)
    assert corner.solve(1.0) is None


def test_a_corner_at_which_most_rows_lie():
    """Few rows of one class, and nothing that tells them: the constant -1 is the optimum, all others at its kink."""
    rng = np.random.default_rng(0)
    F = rng.standard_normal((3000, 20))
    y = np.where(np.arange(3000) < 600, 1.0, -1.0)
    fit, constant = DataFit(Hinge(), y[:, None], np.ones(3000)), np.append(np.zeros(20), -1.0)
    theta, bound, memo = corner_at(F, fit, constant, 0.4).solve(0.3)
    best = objective(F, fit, 0.3, constant)
    assert memo.u.size == 2400
    np.testing.assert_allclose(bound, best, rtol=1e-12)
    np.testing.assert_allclose(objective(F, fit, 0.3, theta), best, rtol=1e-9)
    np.testing.assert_allclose(theta, constant, atol=1e-7)


def test_rows_of_a_corner_are_bounded_by_features_and_memory():
    assert most_kinks(100, np.inf) == 400
    few = most_kinks(1000, 10**6)
    assert 32 * few * 1000 <= 10**6
