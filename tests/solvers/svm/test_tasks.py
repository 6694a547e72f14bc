"""The quadratic programs: feasible starts, and slopes, gap and multipliers by their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.kernels import RBF
from gramian.solvers.svm import tasks
from gramian.solvers.svm.dense import Batch
from reference_svm import smo, svc_gap

rng = np.random.default_rng(0)
X = rng.standard_normal((12, 2))
Y = np.repeat([1.0, -1.0], [7, 5])
WEIGHT = np.linspace(0.5, 1.5, 12)
PROGRAMS = {
    "classification": tasks.classification(Y, WEIGHT),
    "nu classification": tasks.nu_classification(Y, WEIGHT, 0.3),
    "hard margin": tasks.hard_margin(Y),
    "regression": tasks.regression(X[:, 0], WEIGHT, 0.1),
    "nu regression": tasks.nu_regression(X[:, 0], WEIGHT, 0.3),
    "novelty": tasks.novelty(WEIGHT, 0.3),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_starts_are_feasible(name):
    task = PROGRAMS[name]
    assert np.all((task.lower <= task.start) & (task.start <= task.upper))


def test_sums_of_the_groups():
    total = 0.5 * 0.3 * WEIGHT.sum()
    for name in ("nu classification", "nu regression"):
        start = PROGRAMS[name].start
        np.testing.assert_allclose([start[start > 0].sum(), start[start < 0].sum()], [total, -total])
    np.testing.assert_allclose(PROGRAMS["novelty"].start.sum(), 0.3 * WEIGHT.sum())
    assert tasks.largest_nu(Y, np.ones(12)) == pytest.approx(10 / 12)


def test_the_gap_of_a_state_is_that_of_the_definition():
    K = np.exp(-0.5 * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    task = PROGRAMS["classification"]
    beta = smo(K, task.linear, task.lower, task.upper, task.start, 0.1)
    state = tasks.State(task, beta, K @ beta, K.diagonal())
    multiplier, _ = state.multipliers()
    primal, dual, _ = svc_gap(K, Y, state.beta * Y, -multiplier, WEIGHT)
    np.testing.assert_allclose([state.dual(), state.gap()], [dual, primal - dual], atol=1e-12)
    assert state.violation(*state.slopes()) <= 0.1


@pytest.mark.parametrize("name", ["classification", "regression"])
def test_doubt_about_slopes_is_the_worst_that_their_errors_can_do(name):
    task, rng = PROGRAMS[name], np.random.default_rng(1)
    for error in (1e-3, 0.1):
        beta, excess = rng.uniform(task.lower, task.upper), rng.uniform(-0.2, 0.2, 12)
        worst = np.max([tasks.gap_terms(task, beta, excess + e) for e in np.linspace(-error, error, 101)], axis=0)
        np.testing.assert_allclose(tasks.gap_terms(task, beta, excess, error), worst, atol=1e-14)


def test_a_restricted_state_has_the_same_slopes():
    task = PROGRAMS["nu regression"]
    state = tasks.State(task, task.start, np.arange(12.0), np.ones(12))
    live = np.array([1, 3, 13, 15])
    part = state.restrict(live, np.array([1, 3]))
    assert part.task.split == 2
    for got, want in zip(part.slopes(), state.slopes(), strict=True):
        np.testing.assert_array_equal(got, want[live])


def test_a_start_of_grown_bounds_is_feasible_and_no_worse_than_the_last_solution():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    K = RBF(1.0)(X)
    small, large = (tasks.regression(y, np.full(30, C), 0.1) for C in (0.1, 2.0))
    beta = np.clip(y - y.mean(), -0.1, 0.1)
    beta -= beta.mean()
    beta = np.clip(beta, -0.1, 0.1)
    start, values = tasks.start_of(small, beta, K @ beta, 20.0)
    np.testing.assert_allclose(values, K @ start)
    assert np.all((start >= large.lower) & (start <= large.upper))
    objective = [0.5 * b @ K @ b - y @ b + 0.1 * np.abs(b).sum() for b in (start, beta)]
    assert objective[0] < objective[1]
    # Of concatenated tasks, each has the start that it has alone.
    parts = [(small, beta, K @ beta), (small, 0.1 * beta, 0.1 * K @ beta), (small, 0.0 * beta, 0.0 * beta)]
    together = Batch.of([task for task, *_ in parts])
    flat = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    both = tasks.start_of(together.task, *flat, 20.0, together.edges[:-1])
    for k, part in enumerate(parts):
        for got, want in zip(both.part(30 * k, 30 * (k + 1)), tasks.start_of(*part, 20.0), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)


def test_what_rounding_keeps_from_a_bound_is_put_there():
    task = tasks.regression(np.zeros(4), np.full(4, 2.0), 0.1)
    state = tasks.State(task, np.array([1e-17, -2.0 + 1e-15, 2.0 - 1e-15, 0.5]), np.zeros(4), np.ones(4))
    state.snap()
    assert state.beta.tolist() == [0.0, -2.0, 2.0, 0.5]


def test_small_variables_far_from_wide_bounds_stay():
    task = tasks.regression(np.zeros(3), np.full(3, 1e6), 0.0)
    state = tasks.State(task, np.array([1e-9, -2e-9, 1e-9]), np.zeros(3), np.ones(3))
    state.snap()
    assert state.beta.tolist() == [1e-9, -2e-9, 1e-9]
