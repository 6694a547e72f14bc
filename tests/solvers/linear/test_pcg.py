"""Conjugate gradients: the residual that the certificate states is the true one, or it says why not."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.gram import Gram, SymmetricGram
from gramian.kernels import RBF, Sigmoid
from gramian.progress import Clock
from gramian.solvers.linear import pcg
from reference_least_squares import ridge_dual

N = 700


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2, rng.standard_normal(N)])
    return X, Y, RBF(1.0)(X)


def true_residual(K, x, Y, ridge, weights):
    scale = np.sqrt(weights)[:, None]
    R = scale * (Y - K @ x - ridge * x / weights[:, None])
    return np.linalg.norm(R, axis=0) / np.linalg.norm(scale * Y, axis=0)


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-11])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ridge", [0.1, [1e-3, 0.5, 2.0]])
def test_meets_the_tolerance_it_certifies(data, tol, weighted, ridge):
    X, Y, K = data
    weights = np.random.default_rng(1).uniform(0.1, 3.0, N) if weighted else None
    solution = pcg.solve(Gram(RBF(1.0), X), Y, ridge, weights=weights, tol=tol, random_state=0)
    ones = np.ones(N) if weights is None else weights
    measured = true_residual(K, solution.x, Y, np.broadcast_to(ridge, 3), ones)
    assert solution.certificate.converged
    assert measured.max() <= tol * (1 + 1e-6)
    np.testing.assert_allclose(solution.certificate.violation, measured.max(), rtol=1e-2, atol=1e-13)


def test_solution_is_the_dense_one(data):
    X, Y, K = data
    solution = pcg.solve(Gram(RBF(1.0), X), Y, 0.05, tol=1e-12, random_state=0)
    np.testing.assert_allclose(solution.x, ridge_dual(K, Y, 0.05), atol=1e-9)


@pytest.mark.parametrize("memory", [30_000, 1_500_000, 10**8])
def test_memory_changes_nothing_but_time(data, memory):
    X, Y, K = data
    solution = pcg.solve(Gram(RBF(1.0), X, memory=memory), Y, 0.1, rank=5, random_state=0)
    assert true_residual(K, solution.x, Y, 0.1, np.ones(N)).max() <= 1e-6


def test_small_ridge_falls_back_to_double_precision(data, monkeypatch):
    X, Y, _ = data
    kernel = RBF(2.0)
    used = []
    plain = SymmetricGram.__init__
    monkeypatch.setattr(SymmetricGram, "__init__", lambda self, *a: (used.append(a[2]), plain(self, *a))[1])
    solution = pcg.solve(Gram(kernel, X), Y[:, :1], 1e-6, tol=1e-8, random_state=0, max_iter=5000)
    assert used == [np.float64, np.float32, np.float64]
    assert solution.certificate.converged
    assert true_residual(kernel(X), solution.x, Y[:, :1], 1e-6, np.ones(N)).max() <= 1.01e-8


def test_start_saves_iterations_and_zero_targets_cost_none(data):
    X, Y, _ = data
    gram = Gram(RBF(1.0), X)
    first = pcg.solve(gram, Y, 0.01, rank=10, random_state=0)
    again = pcg.solve(gram, Y, 0.01, rank=10, random_state=0, start=first.x)
    assert again.certificate.iterations == 0
    np.testing.assert_allclose(again.x, first.x)
    nothing = pcg.solve(gram, 0 * Y, 0.01, random_state=0)
    assert nothing.certificate.iterations == 0
    assert not nothing.x.any()


def test_stops_short_with_a_reason(data):
    X, Y, _ = data
    gram = Gram(RBF(1.0), X)
    few = pcg.solve(gram, Y, 1e-4, rank=1, max_iter=3, random_state=0)
    assert not few.certificate.converged
    assert few.certificate.iterations == 3
    assert "max_iter=3" in few.certificate.message
    assert 1e-6 < few.certificate.violation <= 1.0
    late = pcg.solve(gram, Y, 1e-4, rank=1, random_state=0, clock=Clock(max_time=1e-9))
    assert "max_time" in late.certificate.message


def test_no_kernel_is_told_with_an_eigenvalue(data):
    X, Y, _ = data
    with pytest.raises(np.linalg.LinAlgError, match=r"not positive semi-definite .* still -"):
        pcg.solve(Gram(Sigmoid(0.6, offset=1.0), X), Y, 1e-3, random_state=0)


def test_same_seed_same_bits(data):
    X, Y, _ = data
    a, b = (pcg.solve(Gram(RBF(1.0), X), Y, 0.1, random_state=3).x for _ in range(2))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ridge": 0.0}, "ridge > 0"),
        ({"weights": np.zeros(N)}, "weights > 0"),
        ({"B": np.ones(N)}, r"B must have shape \(700, k\)"),
    ],
)
def test_misuse(data, changes, message):
    arguments = {"B": data[1], "ridge": 1.0, **changes}
    with pytest.raises(ValueError, match=message):
        pcg.solve(Gram(RBF(1.0), data[0]), **arguments)
