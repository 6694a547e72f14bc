"""Least squares from kernel values at landmarks: against dense solves in the features, and where it must give up."""

import numpy as np
import pytest

from gramian import kernels as gk
from gramian.solvers.in_features.nystrom_least_squares import by_landmarks


def dense(K, lower, Y, ridge, weights):
    F = np.linalg.solve(lower, K).T
    A, right = F.T @ np.diag(weights) @ F, F.T @ np.diag(weights) @ Y
    columns = [np.linalg.solve(A + r * np.eye(len(A)), right[:, j]) for j, r in enumerate(ridge)]
    return np.stack(columns, axis=1), np.trace(F @ F.T)


@pytest.mark.parametrize("level", [True, False])
def test_equals_the_dense_solve(level, rng):
    X, Y = rng.standard_normal((80, 3)), rng.standard_normal((80, 2))
    weights = np.ones(80) if level else rng.uniform(0.1, 3.0, 80)
    K, ridge = gk.Matern(1.0, nu=1.5)(X[:25], X), np.array([0.1, 2.0])
    lower = np.linalg.cholesky(K[:, :25])
    fit = by_landmarks(K, lower, Y, ridge, weights, tol=1e-10)
    w, trace = dense(K, lower, Y, ridge, weights)
    np.testing.assert_allclose(fit.found.x, w, rtol=1e-8, atol=1e-10)
    assert fit.trace == pytest.approx(trace, rel=1e-10)
    assert fit.found.certificate.converged
    assert fit.found.certificate.violation <= 1e-10


def test_gives_up_where_landmarks_nearly_coincide(rng):
    X = np.concatenate([np.linspace(0, 1, 30), rng.random(50)])[:, None]
    K = gk.RBF(1.0)(X[:30], X)
    lower = np.linalg.cholesky(K[:, :30] + 1e-13 * np.eye(30))
    assert by_landmarks(K, lower, rng.standard_normal((80, 1)), np.array([1e-12]), np.ones(80), tol=1e-12) is None
