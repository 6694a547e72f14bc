"""Gaussian mixtures and EM, written as slowly and obviously as possible. Covariances are always K full matrices."""

from __future__ import annotations

import math

import numpy as np


def matrices(covariances, covariance_type, n_components, n_features):
    """Covariances of any type as K full matrices."""
    if covariance_type == "full":
        return np.array(covariances, dtype=float)
    if covariance_type == "tied":
        return np.array([covariances] * n_components, dtype=float)
    if covariance_type == "diag":
        return np.array([np.diag(variances) for variances in covariances])
    return np.array([variance * np.eye(n_features) for variance in covariances])


def log_joint(X, weights, means, covariances):
    """``log π_k N(x_n | μ_k, Σ_k)``, one entry at a time."""
    joint = np.empty((len(X), len(weights)))
    for n, x in enumerate(X):
        for k, (weight, mean, covariance) in enumerate(zip(weights, means, covariances, strict=True)):
            distance = (x - mean) @ np.linalg.solve(covariance, x - mean)
            _, log_det = np.linalg.slogdet(covariance)
            joint[n, k] = math.log(weight) - 0.5 * (len(x) * math.log(2 * math.pi) + log_det + distance)
    return joint


def log_densities(X, weights, means, covariances):
    """``log p(x_n)``."""
    return np.array([np.logaddexp.reduce(row) for row in log_joint(X, weights, means, covariances)])


def log_posterior(X, weights, means, covariances):
    """``log p(k | x_n)``."""
    joint = log_joint(X, weights, means, covariances)
    return joint - np.logaddexp.reduce(joint, axis=1)[:, None]


def posterior(X, weights, means, covariances):
    """``p(k | x_n)``."""
    return np.exp(log_posterior(X, weights, means, covariances))


def harden(q):
    """All of a row to its best component."""
    hard = np.zeros_like(q)
    for n, row in enumerate(q):
        hard[n, np.argmax(row)] = 1.0
    return hard


def m_step(X, q, sample_weight, covariance_type, reg_covar):
    """Weights, means and K full covariance matrices of highest expected likelihood, plus ``reg_covar``."""
    n_components, d = q.shape[1], X.shape[1]
    r = q * np.asarray(sample_weight)[:, None]
    counts = r.sum(axis=0)
    means = np.array([r[:, k] @ X / counts[k] for k in range(n_components)])
    covariances = np.empty((n_components, d, d))
    for k in range(n_components):
        centred = X - means[k]
        covariances[k] = sum(weight * np.outer(x, x) for weight, x in zip(r[:, k], centred, strict=True)) / counts[k]
    if covariance_type == "tied":
        covariances[:] = np.average(covariances, axis=0, weights=counts)
    if covariance_type in ("diag", "spherical"):
        covariances = np.array([np.diag(np.diag(covariance)) for covariance in covariances])
    if covariance_type == "spherical":
        covariances = np.array([np.trace(covariance) / d * np.eye(d) for covariance in covariances])
    return counts / counts.sum(), means, covariances + reg_covar * np.eye(d)


def bound(X, q, sample_weight, weights, means, covariances):
    """``L(q, Θ) = Σ_n w_n Σ_k q_nk (log p(x_n, k) - log q_nk)``, per row."""
    return _expected(log_joint(X, weights, means, covariances), q, sample_weight)


def divergence(X, q, sample_weight, weights, means, covariances):
    """``KL(q ‖ p(Z | X, Θ))``, per row."""
    return -_expected(log_posterior(X, weights, means, covariances), q, sample_weight)


def _expected(log_p, q, sample_weight):
    """``Σ_n w_n Σ_k q_nk (log p_nk - log q_nk)``, per row."""
    total = 0.0
    for n, weight in enumerate(sample_weight):
        for k in range(q.shape[1]):
            if q[n, k] > 0:
                total += weight * q[n, k] * (log_p[n, k] - math.log(q[n, k]))
    return total / np.sum(sample_weight)
