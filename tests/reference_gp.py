"""Gaussian processes the slow and obvious way: dense inverses, finite differences, Newton to the last digit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def posterior(kernel: Any, X: Any, y: Any, noise: Any, Z: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance by an explicit inverse; the kernel must hold no white noise."""
    A = np.asarray(kernel(X)) + np.diag(np.broadcast_to(noise, len(X)))
    inverse = np.linalg.inv(A)
    cross = np.asarray(kernel(Z, X))
    return cross @ inverse @ y, np.asarray(kernel(Z)) - cross @ inverse @ cross.T


def log_evidence(kernel: Any, X: Any, y: Any, noise: Any) -> float:
    """log N(y; 0, K + D), summed over the columns of y."""
    A = np.asarray(kernel(X)) + np.diag(np.broadcast_to(noise, len(X)))
    sign, logdet = np.linalg.slogdet(A)
    assert sign > 0
    columns = np.asarray(y).reshape(len(X), -1)
    quadratic = sum(c @ np.linalg.solve(A, c) for c in columns.T)
    return float(-0.5 * quadratic - 0.5 * columns.shape[1] * (logdet + len(X) * np.log(2 * np.pi)))


def numerical_gradient(f: Callable[[np.ndarray], float], theta: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Central differences."""
    out = np.empty(theta.size)
    for i in range(theta.size):
        e = np.zeros(theta.size)
        e[i] = step
        out[i] = (f(theta + e) - f(theta - e)) / (2 * step)
    return out


def laplace(K: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Mode of the latent values and the approximate evidence, by plain Newton steps on f."""
    K = K + 1e-12 * np.eye(len(K))
    inverse = np.linalg.inv(K)
    f = np.zeros(len(K))
    for _ in range(100):
        p = 1.0 / (1.0 + np.exp(-f))
        f = f + np.linalg.solve(inverse + np.diag(p * (1 - p)), y - p - inverse @ f)
    p = 1.0 / (1.0 + np.exp(-f))
    likelihood = float(np.log(np.where(y > 0.5, p, 1 - p)).sum())
    root = np.sqrt(p * (1 - p))
    B = np.eye(len(K)) + root[:, None] * K * root
    return f, likelihood - 0.5 * float(f @ inverse @ f) - 0.5 * np.linalg.slogdet(B)[1]
