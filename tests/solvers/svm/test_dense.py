"""Small problems in one compiled call: the same optimum and the same certificate as the general solver's."""

from dataclasses import replace

import numpy as np
import pytest

from gramian.gram import Gram
from gramian.kernels import RBF, Linear
from gramian.solvers.svm import tasks
from gramian.solvers.svm.dense import Batch, solve_dense
from gramian.solvers.svm.row_cache import KernelRows, RowCache
from gramian.solvers.svm.smo import POLISHED, solve
from gramian.solvers.svm.tasks import State

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
X[40:50] = X[:10]  # rows that coincide
y = np.where(RNG.random(60) < 0.4 + 0.2 * (X[:, 0] > 0), 1.0, -1.0)
order = np.argsort(-y, kind="stable")
X, y = X[order], y[order]
weight = RNG.uniform(0.2, 2.0, 60)
KERNELS = [RBF(1.0), RBF(0.05), RBF(30.0), Linear()]
TASKS = {
    "C": tasks.classification(y, 1.0 * weight),
    "large C": tasks.classification(y, np.full(60, 1e3)),
    "nu": tasks.nu_classification(y, weight, 0.5),
    "regression": tasks.regression(X[:, 1] ** 2 + 0.1 * weight, weight, 0.1),
    "no tube": tasks.regression(X[:, 1], np.full(60, 50.0), 0.0),
    "small targets": tasks.regression(1e-4 * X[:, 1], weight, 1e-6),
    "novelty": tasks.novelty(weight, 0.2),
}


def rows_of(kernel, rows):
    gram = Gram(kernel, rows)
    return KernelRows([RowCache(gram, np.arange(len(rows)), 10**7)])


def quick(kernel, rows, task, tol=1e-3, polished=POLISHED, **options):
    K = Gram(kernel, rows).dense()
    return next(solve_dense(K, Batch.of([task]), tol, 2e-16, polished, **options).solutions()), K


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("name", TASKS)
def test_the_optimum_is_that_of_the_general_solver(name, kernel):
    task = TASKS[name]
    found, K = quick(kernel, X, task)
    expected = solve(task, rows_of(kernel, X), tol=1e-3)
    if found is None:
        return  # the general solver then has the problem
    assert expected.certificate.converged
    assert found.certificate.converged
    assert found.certificate.dual == pytest.approx(expected.certificate.dual, rel=1e-7, abs=1e-12)
    size = float(K.diagonal().max() * np.abs(found.beta).max())
    np.testing.assert_allclose(found.values, expected.values, atol=1e-6 * size)
    np.testing.assert_allclose(found.values, K @ found.beta, atol=1e-12 * size)
    assert np.all((found.beta >= task.lower) & (found.beta <= task.upper))
    np.testing.assert_allclose(found.multipliers, expected.multipliers, atol=1e-5 * (1.0 + size))


@pytest.mark.parametrize("name", TASKS)
def test_most_problems_are_solved_and_the_certificate_is_that_of_the_state(name):
    task = TASKS[name]
    found, K = quick(RBF(1.0), X, task)
    assert found is not None
    state = State(task, found.beta, K @ found.beta, K.diagonal().copy())
    certificate = found.certificate
    assert certificate.dual == pytest.approx(state.dual(), rel=1e-10)
    assert certificate.primal - certificate.dual == pytest.approx(max(state.gap(), 0.0), abs=1e-10 * abs(state.dual()))
    np.testing.assert_allclose(found.multipliers, state.multipliers(), rtol=1e-8, atol=1e-12)


def test_a_hard_margin():
    Z = np.vstack([X[:20] + 8.0, X[20:40] - 8.0])
    task = tasks.hard_margin(np.repeat([1.0, -1.0], 20))
    found, _ = quick(Linear(), Z, task)
    expected = solve(task, rows_of(Linear(), Z), tol=1e-3)
    assert found.unit == pytest.approx(expected.unit, rel=1e-6)
    overlapping, _ = quick(Linear(), X, tasks.hard_margin(y))
    assert overlapping is None  # w = 0 is for the general solver to tell


def test_without_the_active_set_method_the_gap_is_met():
    for task in TASKS.values():
        found, _ = quick(RBF(1.0), X, task, tol=1e-5, polished=0)
        assert found is None or found.certificate.gap <= 1e-5
    assert quick(RBF(1.0), X, TASKS["C"], tol=1e-5, polished=0)[0] is not None


def test_what_cannot_be_certified_is_left_to_the_general_solver():
    K = Gram(RBF(1.0), X).dense() - 0.5 * np.eye(60)
    assert not solve_dense(K, Batch.of([TASKS["large C"]]), 1e-3, 2e-16, POLISHED).met[0]
    assert quick(RBF(1.0), X, TASKS["C"], max_iter=2)[0] is None


def test_many_problems_at_once_are_each_of_them_alone():
    K = Gram(RBF(1.0), X).dense()
    problems = []
    for size in (10, 25, 60, 2):
        ids = np.sort(RNG.permutation(60)[:size])
        signs = np.where(np.arange(size) < size // 2, 1.0, -1.0)
        problems.append(replace(tasks.classification(signs, weight[ids]), objects=ids))
    together = solve_dense(K, Batch.of(problems), 1e-3, 2e-16, POLISHED)
    for problem, found in zip(problems, together.solutions(), strict=True):
        alone = next(solve_dense(K, Batch.of([problem]), 1e-3, 2e-16, POLISHED).solutions())
        np.testing.assert_array_equal(found.beta, alone.beta)
        assert found.certificate.violation == alone.certificate.violation
