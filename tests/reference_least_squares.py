"""Least squares the slow way: plain loops and dense solves of the textbook formulas."""

from __future__ import annotations

import numpy as np


def ridge_dual(K, y, alpha, weights=None):
    """Solve (K + alpha W⁻¹) a = y with a general solver."""
    weights = np.ones(len(K)) if weights is None else np.asarray(weights, dtype=float)
    return np.linalg.solve(K + alpha * np.diag(1.0 / weights), y)


def leave_one_out(K, y, alpha, weights=None):
    """Refit without each row in turn, and return y_i less the prediction at it."""
    n = len(K)
    weights = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    errors = np.empty(n)
    for i in range(n):
        rest = np.flatnonzero(np.arange(n) != i)
        dual = ridge_dual(K[np.ix_(rest, rest)], y[rest], alpha, weights[rest])
        errors[i] = y[i] - K[i, rest] @ dual
    return errors


def feature_leave_one_out(F, y, alpha):
    """The same for ridge on given features."""
    n, m = F.shape
    errors = np.empty(n)
    for i in range(n):
        rest = np.flatnonzero(np.arange(n) != i)
        w = np.linalg.solve(F[rest].T @ F[rest] + alpha * np.eye(m), F[rest].T @ y[rest])
        errors[i] = y[i] - F[i] @ w
    return errors


def inner_product(kernel, a, X, b, Y):
    """Σ_ij a_i b_j k(x_i, y_j), one pair at a time."""
    total = 0.0
    for i in range(len(X)):
        for j in range(len(Y)):
            total += a[i] * b[j] * float(kernel(X[i : i + 1], Y[j : j + 1])[0, 0])
    return total


def worst_case_error(K, k_x, k_xx, weights):
    """√(k(x,x) - 2 wᵀk_x + wᵀKw): the norm of the error functional g ↦ g(x) - Σ w_i g(x_i)."""
    return np.sqrt(max(k_xx - 2.0 * weights @ k_x + weights @ K @ weights, 0.0))
