"""Slow, obvious solvers of the machine's problems: dense Newton, and dual coordinate ascent by a plain loop."""

from __future__ import annotations

import numpy as np


def logistic_newton(K, y, lam, steps=50):
    """Coefficients of ``mean log(1 + exp(-y f)) + (lam/2) ‖f‖²``, f = Kα, by undamped Newton on the dense system."""
    n = len(y)
    alpha = np.zeros(n)
    for _ in range(steps):
        f = K @ alpha
        p = 1.0 / (1.0 + np.exp(y * f))
        gradient = -y * p / n + lam * alpha
        hessian = np.diag(p * (1 - p) / n) @ K + lam * np.eye(n)
        alpha = alpha - np.linalg.solve(hessian, gradient)
    return alpha


def hinge_dual(K, y, lam, passes=2000):
    """Coefficients of the SVM without a constant, one coordinate of the dual at a time."""
    n = len(y)
    alpha, bound = np.zeros(n), 1.0 / (n * lam)
    for _ in range(passes):
        for i in range(n):
            f = K[i] @ alpha
            alpha[i] = y[i] * np.clip(y[i] * alpha[i] + (1 - y[i] * f) / K[i, i], 0.0, bound)
    return alpha


def hinge_objective(K, y, alpha, lam, b=0.0):
    f = K @ alpha
    return np.maximum(0.0, 1.0 - y * (f + b)).mean() + 0.5 * lam * alpha @ f
