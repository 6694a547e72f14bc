"""The active-set method: from anywhere to the optimum, never out of the feasible set, never uphill."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from gramian.progress import Clock
from gramian.solvers.svm.active_set import minimum_on_face, polish
from gramian.solvers.svm.tasks import State, Task, novelty
from reference_svm import objective


def problem(seed, n, kind):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, 2)), np.sign(rng.standard_normal(n))
    K = {"rbf": rbf_kernel(X, gamma=0.1), "flat": np.ones((n, n)), "low rank": X @ X.T, "none": np.zeros((n, n))}[kind]
    return K, y


def state(K, linear, lower, upper, start, split, kink):
    task = Task(linear, lower, upper, start, np.arange(start.size), split, kink)
    return State(task, start, K @ start, K.diagonal())


def violation(K, linear, lower, upper, beta, split, kink):
    g = K @ beta + linear
    up = np.where(beta < upper, g + np.where(beta >= 0, kink, -kink), np.inf)
    down = np.where(beta > lower, g + np.where(beta > 0, kink, -kink), -np.inf)
    groups = [g for g in (slice(0, split), slice(split, None)) if up[g].size]
    return max(down[g].max() - up[g].min() for g in groups)


@pytest.mark.parametrize("kind", ["rbf", "flat", "low rank", "none"])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e5])
@pytest.mark.parametrize(("kink", "split"), [(0.0, 60), (0.1, 60), (0.0, 25)])
def test_optimal_from_a_cold_start(kind, C, kink, split):
    K, y = problem(0, 60, kind)
    lower, upper = (-C * np.ones(60), C * np.ones(60)) if kink or split < 60 else np.sort([0 * y, C * y], axis=0)
    start = np.zeros(60)
    start[[0, 59]] = 0.3 * C, -0.3 * C
    start = np.clip(start, lower, upper)
    beta = polish(K, state(K, -y, lower, upper, start, split, kink))
    assert np.all((lower <= beta) & (beta <= upper))
    for g in (slice(0, split), slice(split, None)):
        assert abs(beta[g].sum() - start[g].sum()) <= 1e-14 * np.abs(beta).sum()
    size = np.abs(K).max() * np.abs(beta).sum() + 1.0
    assert violation(K, -y, lower, upper, beta, split, kink) <= 1e-13 * size
    assert objective(K, -y, beta, kink) <= objective(K, -y, start, kink)


def test_it_stops_when_the_time_is_up_and_is_no_worse():
    K, y = problem(1, 100, "rbf")
    lower, upper = np.sort([0 * y, 1e4 * y], axis=0)
    beta = polish(K, state(K, -y, lower, upper, np.zeros(100), 100, 0.0), Clock(1e-9))
    assert abs(beta.sum()) <= 1e-9
    assert objective(K, -y, beta) <= 0.0


@pytest.mark.parametrize("seed", range(5))
def test_where_the_objective_is_rounding_the_smaller_violation_is_kept(seed):
    """w = 0 is optimal: the objective is rounding, and slopes still tell how far from it β is."""
    X = 1e-4 * np.random.default_rng(seed).standard_normal((50, 2))
    K, upper = X @ X.T, np.ones(50)
    one = novelty(upper, 0.1)
    before = state(K, one.linear, one.lower, one.upper, one.start, one.split, 0.0)
    box = K, one.linear, one.lower, one.upper
    for _ in range(4):
        after = polish(K, before)
        assert violation(*box, after, one.split, 0.0) <= violation(*box, before.beta, one.split, 0.0)
        before = state(*box, after, one.split, 0.0)
    assert violation(*box, after, one.split, 0.0) < 1e-21


def draw_face(seed, n=40, two=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    K = rbf_kernel(X, gamma=0.3)
    return K, rng.standard_normal(n), rng.uniform(-0.5, 0.5, n), [slice(0, 15), slice(15, n)] if two else [slice(0, n)]


@pytest.mark.parametrize("two", [False, True])
def test_the_minimum_on_a_face_without_bounds_solves_the_equations(two):
    K, slope, beta, groups = draw_face(0, two=two)
    far = np.full(beta.size, 1e9)
    found = minimum_on_face(K.copy(), slope, beta, -far, far, groups)
    after = slope + K @ (found - beta)
    for g in groups:
        assert np.ptp(after[g]) <= 1e-9 * np.abs(K).max() * np.abs(found).max()
        assert found[g].sum() == pytest.approx(beta[g].sum(), abs=1e-9)


@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_variables_that_reach_a_bound_are_fixed_there_and_the_others_are_optimal(seed, two):
    K, slope, beta, groups = draw_face(seed, two=two)
    lower, upper = np.full(beta.size, -0.6), np.full(beta.size, 0.6)
    found = minimum_on_face(K.copy(), slope, beta, lower, upper, groups)
    fixed, move = (found == lower) | (found == upper), found - beta
    assert 1 < np.count_nonzero(fixed) < beta.size
    assert np.all((lower <= found) & (found <= upper))
    assert slope @ move + 0.5 * move @ K @ move < 0.0
    for g in groups:
        assert found[g].sum() == pytest.approx(beta[g].sum(), abs=1e-12)
        assert np.ptp((slope + K @ move)[g][~fixed[g]]) <= 1e-9


def test_the_minimum_on_a_face_takes_a_ridge_where_the_kernel_is_singular_and_refuses_indefinite_ones():
    K, slope, beta, groups = draw_face(3)
    bounds = np.full(beta.size, -1.0), np.full(beta.size, 1.0)
    low = K[:, :4] @ K[:4]
    found = minimum_on_face(low.copy(), slope, beta, *bounds, groups)
    move = found - beta
    assert slope @ move + 0.5 * move @ low @ move < 0.0
    assert minimum_on_face(K - 2.0 * np.eye(len(K)), slope, beta, *bounds, groups) is None
