"""The active-set method: from anywhere to the optimum, never out of the feasible set, never uphill."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from gramian.progress import Clock
from gramian.solvers.svm.active_set import polish
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
