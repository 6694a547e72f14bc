"""SMO against a plain one, against its own certificate, and under pressure: small caches, small sets, little time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramian.gram import Gram
from gramian.kernels import RBF, Callable, Linear
from gramian.progress import Clock
from gramian.solvers.svm import tasks as svm_tasks
from gramian.solvers.svm.row_cache import KernelRows, RowCache, Wide
from gramian.solvers.svm.smo import solve
from reference_svm import objective, smo, svc_gap, svr_gap


def draw(n, seed=0, d=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    order = np.argsort(-y, kind="stable")
    return X[order], y[order]


def kernel_rows(X, budget=10**8, kernel=None, dtype=np.float64, direct=False, n_jobs=1):
    kernel = kernel or RBF(1.0)
    wide = Gram(kernel, X, n_jobs=n_jobs)
    if dtype == np.float64:
        return KernelRows([RowCache(wide, np.arange(len(X)), budget)], n_jobs, direct)
    narrow = Gram(kernel, X.astype(dtype), n_jobs=n_jobs)
    full = Wide(wide.rows, lambda: wide)
    return KernelRows([RowCache(narrow, np.arange(len(X)), budget, full)], n_jobs, direct)


def tasks(X, y):
    weight = np.linspace(0.5, 1.5, len(y))
    target = X[:, 0] ** 2 + 0.3 * X[:, 1]
    return {
        "classification": svm_tasks.classification(y, 2.0 * weight),
        "nu classification": svm_tasks.nu_classification(y, weight, 0.4 * svm_tasks.largest_nu(y, weight)),
        "hard margin": svm_tasks.hard_margin(y),
        "regression": svm_tasks.regression(target, 2.0 * weight, 0.1),
        "nu regression": svm_tasks.nu_regression(target, 2.0 * weight, 0.4),
        "novelty": svm_tasks.novelty(weight, 0.3),
    }


NAMES = list(tasks(*draw(8)))


@pytest.mark.parametrize("name", NAMES)
def test_every_task_agrees_with_plain_smo(name):
    X, y = draw(40)
    task = tasks(X, y)[name]
    solution = solve(task, kernel_rows(X), tol=1e-3)
    K = RBF(1.0)(X)[np.ix_(task.objects, task.objects)]
    group = (np.arange(len(task.start)) >= task.split).astype(int)
    plain = smo(K, task.linear, task.lower, task.upper, task.start, 1e-8, task.kink, group)
    assert solution.certificate.converged
    expected = objective(K, task.linear, plain, task.kink)
    assert objective(K, task.linear, solution.beta, task.kink) <= expected + 1e-9 * max(1.0, abs(expected))
    # β need not be unique, Kβ is.
    np.testing.assert_allclose(K @ solution.beta, K @ plain, atol=1e-5)
    assert np.all(solution.beta >= task.lower)
    assert np.all(solution.beta <= task.upper)
    for g in (slice(0, task.split), slice(task.split, None)):
        np.testing.assert_allclose(solution.beta[g].sum(), task.start[g].sum(), atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("direct", [False, True])
def test_small_working_sets_and_caches_change_nothing(name, dtype, direct):
    X, y = draw(200, seed=1)
    task = tasks(X, y)[name]
    kernel = RBF(0.2)  # narrow enough for a hard margin that SMO alone can reach
    want = solve(task, kernel_rows(X, kernel=kernel), tol=1e-6)
    for budget in (10**8, 40 * 200 * 4, 1):
        rows = kernel_rows(X, budget, kernel, dtype, direct)
        got = solve(task, rows, tol=1e-4, working_set=24, polished=0)
        assert got.certificate.converged, str(got.certificate)
        np.testing.assert_allclose(got.certificate.dual, want.certificate.dual, rtol=1e-4)
        np.testing.assert_allclose(got.values, want.values, atol=3e-3 * max(1.0, np.abs(want.values).max()))
        assert rows.caches[0].store.nbytes <= max(budget, 2 * 200 * rows.caches[0].dtype.itemsize)


def test_shrinking_is_exercised_and_ends_at_the_same_optimum(monkeypatch):
    X, y = draw(600, seed=2)
    task = svm_tasks.classification(y, np.full(600, 0.5))
    means = {"tol": 1e-4, "working_set": 32, "polished": 0, "shrink_every": 1}
    shrunk = []
    original = KernelRows.restrict
    monkeypatch.setattr(KernelRows, "restrict", lambda self, keep: (shrunk.append(len(keep)), original(self, keep)))
    with_shrinking = solve(task, kernel_rows(X, 64 * 600 * 8), **means)
    assert shrunk
    without = solve(task, kernel_rows(X, 64 * 600 * 8), shrinking=False, **means)
    np.testing.assert_allclose(with_shrinking.certificate.dual, without.certificate.dual, rtol=1e-5)
    np.testing.assert_allclose(with_shrinking.values, RBF(1.0)(X) @ with_shrinking.beta, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_path_over_C_that_hands_on_values_ends_where_cold_fits_end(dtype):
    X, y = draw(600, seed=4)
    rows, means, start, last = kernel_rows(X, dtype=dtype), {"tol": 1e-4, "polished": 0}, None, 0.1
    for C in (0.1, 1.0, 10.0, 100.0):
        task = svm_tasks.classification(y, np.full(600, C), start and svm_tasks.start_of(*start, C / last))
        warm = solve(task, rows, **means)
        cold = solve(svm_tasks.classification(y, np.full(600, C)), kernel_rows(X, dtype=dtype), **means)
        assert warm.certificate.converged
        np.testing.assert_allclose(warm.certificate.dual, cold.certificate.dual, rtol=2e-4)
        np.testing.assert_allclose(warm.values, RBF(1.0)(X) @ warm.beta, atol=1e-4)
        start, last = (task, warm.beta, warm.values), C


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 40), C=st.floats(0.01, 1000.0))
def test_the_reported_gap_is_the_gap(seed, n, C):
    X, y = draw(n, seed)
    solution = solve(svm_tasks.classification(y, np.full(n, C)), kernel_rows(X), tol=1e-3)
    primal, dual, gap = svc_gap(RBF(1.0)(X), y, solution.beta * y, solution.bias, np.full(n, C))
    np.testing.assert_allclose(solution.certificate.primal, primal, rtol=1e-8)
    np.testing.assert_allclose(solution.certificate.dual, dual, rtol=1e-8)
    assert abs(solution.certificate.gap - gap) < 1e-8
    assert gap <= 1e-3


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 40), C=st.floats(0.01, 100.0), epsilon=st.floats(0.0, 0.5))
def test_the_reported_gap_of_regression_is_the_gap(seed, n, C, epsilon):
    X, _ = draw(n, seed)
    y = np.sin(X[:, 0])
    solution = solve(svm_tasks.regression(y, np.full(n, C), epsilon), kernel_rows(X), tol=1e-3)
    primal, dual, _ = svr_gap(RBF(1.0)(X), y, solution.beta, solution.bias, np.full(n, C), epsilon)
    np.testing.assert_allclose(solution.certificate.primal, primal, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(solution.certificate.dual, dual, rtol=1e-7, atol=1e-10)


def test_small_problems_do_not_depend_on_the_order_of_the_rows():
    X, _ = draw(120, seed=3)
    target = np.sin(X[:, 0])
    order = np.random.default_rng(0).permutation(120)
    one = solve(svm_tasks.regression(target, np.ones(120), 0.1), kernel_rows(X), tol=1e-3)
    two = solve(svm_tasks.regression(target[order], np.ones(120), 0.1), kernel_rows(X[order]), tol=1e-3)
    np.testing.assert_allclose(one.values[order] + one.bias, two.values + two.bias, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_matrix_changes_nothing(name):
    X, y = draw(60)
    task, K = tasks(X, y)[name], RBF(1.0)(X)
    rows = KernelRows([RowCache(Gram(RBF(1.0), X), np.arange(60), 10**8)], whole=K)
    quick, plain = solve(task, rows, tol=1e-8), solve(task, kernel_rows(X), tol=1e-8)
    np.testing.assert_allclose(quick.values, K @ np.bincount(task.objects, quick.beta, 60), atol=1e-12)
    np.testing.assert_allclose(quick.values, plain.values, atol=1e-6)
    np.testing.assert_allclose(quick.multipliers, plain.multipliers, atol=1e-6)


def test_max_iter_and_max_time_are_told_and_leave_a_feasible_point():
    X, y = draw(400, seed=4)
    task = svm_tasks.classification(y, np.full(400, 100.0))
    few = solve(task, kernel_rows(X), tol=1e-6, max_iter=5)
    assert few.certificate.iterations == 5
    assert not few.certificate.converged
    assert "max_iter" in few.certificate.message
    assert abs(few.beta.sum()) < 1e-9
    late = solve(task, kernel_rows(X), tol=1e-6, clock=Clock(max_time=1e-9))
    assert not late.certificate.converged
    assert "max_time" in late.certificate.message


def test_progress_hears_of_gap_and_violation():
    X, y = draw(100, seed=5)
    told = []
    solve(svm_tasks.classification(y, np.ones(100)), kernel_rows(X), tol=1e-3, tick=lambda done, **f: told.append(f))
    assert told
    assert set(told[-1]) == {"gap", "violation"}


def test_float32_rows_give_way_where_their_rounding_shows():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((700, 2)) * 0.1
    y = np.where(rng.random(700) < 0.5, 1.0, -1.0)
    y = -np.sort(-y)
    task = svm_tasks.classification(y, np.full(700, 1e4))
    solution = solve(task, kernel_rows(X, dtype=np.float32), tol=1e-3, max_iter=200_000)
    exact = RBF(1.0)(X) @ solution.beta
    assert np.abs(solution.values - exact).max() < 1e-3


def test_a_matrix_that_is_no_kernel_is_noticed_and_the_fit_ends():
    X, y = draw(60, seed=7)
    bad = Callable(lambda A, B: np.tanh(A @ B.T - 1.0) - 0.5 * np.exp(-((A[:, None] - B[None]) ** 2).sum(-1)), True)
    solution = solve(svm_tasks.classification(y, np.ones(60)), kernel_rows(X, kernel=bad), tol=1e-3)
    assert not solution.convex


def test_hulls_that_meet_have_no_hard_margin():
    X, y = draw(60, seed=8)
    solution = solve(svm_tasks.hard_margin(y), kernel_rows(X, kernel=Linear()), tol=1e-3)
    assert solution.vanished


def test_ctrl_c_gets_through():
    X, y = draw(300, seed=9)

    def interrupt(done, **figures):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve(svm_tasks.classification(y, np.ones(300)), kernel_rows(X), tol=1e-3, tick=interrupt)


@pytest.mark.parametrize("name", ["classification", "regression"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ill_conditioned_problems_take_newton_steps_on_the_free_variables(name, dtype):
    """With pair steps alone these take 4 and 7 million."""
    X, y = draw(2100, seed=3)
    weight, target = np.full(2100, 1e4), X[:, 0] ** 2 + 0.3 * X[:, 1]
    task = {
        "classification": svm_tasks.classification(y, weight),
        "regression": svm_tasks.regression(target, weight, 0.02),
    }[name]
    solution = solve(task, kernel_rows(X, kernel=RBF(3.0), dtype=dtype, direct=True), tol=1e-6)
    assert solution.certificate.converged
    assert solution.certificate.iterations < 400_000
