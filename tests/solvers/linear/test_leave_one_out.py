"""Leave-one-out by one eigendecomposition, beside fits that never saw the row."""

import numpy as np
import pytest

from gramian.kernels import RBF
from gramian.solvers.linear.leave_one_out import Eigenbasis, default_grid
from reference_least_squares import leave_one_out, ridge_dual

RIDGES = np.array([1e-3, 0.1, 5.0])


@pytest.fixture
def data(rng):
    X = rng.standard_normal((25, 2))
    return RBF(1.0)(X), rng.standard_normal((25, 3))


def test_duals_and_residuals_are_those_of_refits(data):
    K, Y = data
    basis = Eigenbasis.of_matrix(K)
    dual, left = basis.dual(Y, RIDGES), basis.residuals(Y, RIDGES)
    for j, ridge in enumerate(RIDGES):
        np.testing.assert_allclose(dual[:, j], ridge_dual(K, Y[:, j], ridge), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(left[:, j], leave_one_out(K, Y[:, j], ridge), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(
            basis.inverse_diagonal(RIDGES)[:, j], np.diag(np.linalg.inv(K + ridge * np.eye(25))), rtol=1e-8
        )


def test_a_path_is_the_sum_of_squares_at_each_ridge(data):
    K, Y = data
    path = Eigenbasis.of_matrix(K).path(Y, RIDGES)
    expected = [[np.sum(leave_one_out(K, Y[:, j], ridge) ** 2) for j in range(3)] for ridge in RIDGES]
    np.testing.assert_allclose(path, expected, rtol=1e-6)


def test_the_grid_spans_the_spectrum():
    grid = default_grid(np.array([0.0, 3.0]))
    assert grid[-1] == pytest.approx(3.0)
    assert grid[0] == pytest.approx(3e-10)
    assert np.all(default_grid(np.zeros(2)) > 0)


def test_an_indefinite_matrix_and_failed_iterations_are_errors(data):
    K, _ = data
    with pytest.raises(np.linalg.LinAlgError, match="not positive semi-definite"):
        Eigenbasis.of_matrix(K - 2.0 * np.eye(25))
