"""Leave-one-out is refitting n times; every route solves the same weighted system."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramian.gram import Gram
from gramian.kernels import RBF, Precomputed
from gramian.solvers.choice import choose
from gramian.solvers.linear.ridge import RidgeProblem
from reference_least_squares import leave_one_out, ridge_dual


def problem(n=25, targets=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, rng.standard_normal((n, targets)), rng.uniform(0.2, 3.0, n)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 20), alpha=st.floats(1e-3, 10.0))
def test_leave_one_out_is_refitting(seed, n, alpha):
    X, Y, weights = problem(n, 1, seed)
    K = RBF(1.0)(X)
    found = RidgeProblem(Gram(RBF(1.0), X), Y, weights, np.array([alpha]), loo=True).by_cholesky()
    np.testing.assert_allclose(found.x, ridge_dual(K, Y, alpha, weights), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.loo[:, 0], leave_one_out(K, Y[:, 0], alpha, weights), rtol=1e-6, atol=1e-8)


def test_the_grid_in_one_decomposition():
    X, Y, weights = problem()
    K, grid = RBF(1.0)(X), np.array([1e-3, 0.1, 1.0, 10.0])
    found = RidgeProblem(Gram(RBF(1.0), X), Y, weights, None, grid).by_eigenvectors()
    for j in range(2):
        errors = np.array([leave_one_out(K, Y[:, j], alpha, weights) for alpha in grid])
        scores = np.average(errors**2, axis=1, weights=weights)
        np.testing.assert_allclose(found.path[:, j], scores, rtol=1e-8)
        best = int(np.argmin(scores))
        assert found.ridge[j] == grid[best]
        np.testing.assert_allclose(found.loo[:, j], errors[best], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found.x[:, j], ridge_dual(K, Y[:, j], grid[best], weights), rtol=1e-7)
    assert found.certificate.converged


def test_ridges_of_their_own_share_one_matrix():
    X, Y, weights = problem(targets=3)
    ridge = np.array([0.1, 2.0, 0.1])
    found = RidgeProblem(Gram(RBF(1.0), X), Y, weights, ridge, loo=True).by_cholesky()
    for j in range(3):
        alone = RidgeProblem(Gram(RBF(1.0), X), Y[:, [j]], weights, ridge[[j]], loo=True).by_cholesky()
        np.testing.assert_allclose(found.x[:, [j]], alone.x, rtol=1e-10)
        np.testing.assert_allclose(found.loo[:, [j]], alone.loo, rtol=1e-10)


def test_singular_matrices_are_named():
    X = np.array([[0.0], [1.0], [2.0], [1.0], [0.0]])
    gram = Gram(RBF(1.0), X)
    y, ones = np.ones((5, 1)), np.ones(5)
    with pytest.raises(np.linalg.LinAlgError, match=r"rows coincide \(11 and 13, 10 and 14\)") as caught:
        RidgeProblem(gram, y, ones, np.zeros(1), names=np.arange(10, 15)).by_cholesky()
    assert "nugget=" in str(caught.value)
    with pytest.raises(np.linalg.LinAlgError, match=r"1\.0e-20 on the diagonal is too little"):
        RidgeProblem(gram, y, ones, np.array([1e-20])).by_cholesky()


def test_no_kernel_is_told_with_its_eigenvalue():
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.standard_normal((30, 30)))
    K = (Q * np.linspace(-2.5, 4.0, 30)) @ Q.T
    gram = Gram(Precomputed(), (K + K.T) / 2)
    y, ones = np.ones((30, 1)), np.ones(30)
    with pytest.raises(np.linalg.LinAlgError, match=r"not positive semi-definite .* eigenvalue -2.5"):
        RidgeProblem(gram, y, ones, np.array([0.1])).by_cholesky()
    with pytest.raises(np.linalg.LinAlgError, match=r"not positive semi-definite .* eigenvalue -2.5"):
        RidgeProblem(gram, y, ones, None).by_eigenvectors()


def test_asymmetry_is_told():
    with pytest.raises(ValueError, match=r"entries \(0, 1\) and \(1, 0\) are 2 and 3"):
        Gram(Precomputed(), [[1.0, 2.0], [3.0, 1.0]]).check_symmetric()


@pytest.mark.parametrize(
    ("n", "memory", "arguments", "name", "reason"),
    [
        (100, "1GB", (1.0, 1e-6), "cholesky", "100 rows"),
        (3100, "1GB", (1.0, 1e-6), "pcg", "more than 3,000"),
        (100, 1000, (1.0, 1e-6), "pcg", "memory is 1 KB"),
        (3100, "1GB", (1.0, 1e-12), "cholesky", "tol=1e-12"),
        (3100, "1GB", (1e-9, 1e-6), "cholesky", "alpha=1e-09"),
        (3100, "1GB", (0.0, 1e-6), "cholesky", "interpolates"),
    ],
)
def test_the_choice_and_its_reason(n, memory, arguments, name, reason):
    choice = choose(Gram(RBF(1.0), np.arange(float(n))[:, None], memory=memory), *arguments)
    assert choice.name == name
    assert reason in str(choice)


@pytest.mark.parametrize("shift", [0.0, 1e7])
def test_what_is_certified_is_what_is_predicted(shift):
    X, Y, weights = problem(200)
    X = X + shift  # far from the origin, distances of rows that are not known to be the same lose digits
    found, _ = RidgeProblem(Gram(RBF(1.0), X), Y, weights, np.full(2, 1e-2), tol=1e-6).solve(X)
    scale = np.sqrt(weights)[:, None]
    R = scale * (Y - Gram(RBF(1.0), X, X.copy()) @ found.x) - 1e-2 * found.x / scale
    true = np.max(np.linalg.norm(R, axis=0) / np.linalg.norm(scale * Y, axis=0))
    assert true <= found.certificate.violation * (1 + 1e-6) + 1e-15
    assert found.certificate.violation <= 3 * true + 1e-9


@pytest.mark.parametrize("ridges", [[1e-8, 1e-2, 1.0, 1.0], [1e-2, 1e-1, 1.0, 10.0], [1e-8, 1e-7, 1e-8, 1e-7]])
@pytest.mark.parametrize("iterations", [0, 2, 1000])
def test_each_target_is_solved_by_what_its_penalty_needs(ridges, iterations, monkeypatch):
    monkeypatch.setattr("gramian.solvers.choice.DIRECT_ROWS", 10)
    monkeypatch.setattr("gramian.solvers.linear.ridge.worthwhile_iterations", lambda n: iterations)
    X, Y, weights = problem(80, 4)
    found, _ = RidgeProblem(Gram(RBF(1.0), X), Y, weights, np.array(ridges), tol=1e-6, random_state=0).solve(X)
    K = RBF(1.0)(X)
    for j, value in enumerate(ridges):
        left = K @ found.x[:, j] + value * found.x[:, j] / weights - Y[:, j]
        assert np.linalg.norm(left) <= 2e-6 * np.linalg.norm(Y[:, j])
    np.testing.assert_array_equal(found.ridge, ridges)
    assert found.certificate.converged
