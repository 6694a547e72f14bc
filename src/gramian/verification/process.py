"""Gaussian processes: the residual of the posterior, the mode of Laplace, and the slope of the evidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular
from scipy.special import expit, xlogy

from gramian.certificates import Certificate
from gramian.kernels import Kernel
from gramian.kernels.resolve import is_precomputed
from gramian.resources import readable
from gramian.verification.rows import EPS, Array, Data, check_same, dense, product, unlike

__all__ = ["classification", "regression"]

Figures = tuple[float, float | None, float]
"""The residual of the posterior, the slope of the evidence where a kernel was learned, and the evidence."""
RESIDUAL = 1e-6
"""Of the equations of the posterior, relative to the targets."""
GAP = 1e-9
"""Of the mode of the Laplace approximation."""
STEP = 1e-4
"""Of differences in theta, where there is no formula here."""


def regression(model: Any, data: Data) -> Certificate:
    """``(K + D) α = y``, and ``∂ log p(y | θ)/∂θ`` at the kernel that was learned."""
    Y = _standardised(model, data)
    noise = np.broadcast_to(np.asarray(model.alpha, dtype=np.float64), (data.n,))
    faults: list[str] = []
    if not hasattr(model, "approximation_"):
        residual, slope, primal = _exactly(model, data, Y, noise, faults)
    elif hasattr(model.approximation_, "expansion"):
        residual, slope, primal = _through_landmarks(model, data, Y, noise)
    else:
        residual, slope, primal = _through_features(model, data, Y, noise)
    if not residual <= RESIDUAL:
        faults.append(f"the posterior's residual is {residual:.1e}, above {RESIDUAL:.0e}")
    return _certificate(model, residual, slope, faults, primal=primal)


def _certificate(model: Any, residual: float, slope: float | None, faults: list[str], **more: Any) -> Certificate:
    said, flat = model.certificate_, math.sqrt(model.tol)
    if slope is not None and not slope <= flat:
        faults = [f"the slope of the log evidence is {slope:.1e}, above {flat:.0e}", *faults]
    return Certificate(
        kind=said.kind,
        violation=residual if slope is None else slope,
        converged=not faults,
        iterations=said.iterations,
        seconds=said.seconds,
        message="; ".join(faults),
        **more,
    )


def _standardised(model: Any, data: Data) -> Array:
    Y = data.targets()
    if not model.normalize_y:
        return Y
    scale = Y.std(axis=0)
    return np.asarray((Y - Y.mean(axis=0)) / np.where(scale > 10 * EPS * np.abs(Y).max(axis=0), scale, 1.0))


def _exactly(model: Any, data: Data, Y: Array, noise: Array, faults: list[str]) -> Figures:
    dual = np.asarray(model.alpha_, dtype=np.float64).reshape(-1, Y.shape[1])
    if dual.shape[0] != data.n:
        raise ValueError(f"the process was fitted to {dual.shape[0]} rows, got {data.n}; pass the same rows.")
    check_same(model.X_train_, data.rows)
    f = product(model.kernel_, data.X, None, dual, data.memory) - model.noise_ * dual
    R = Y - f - (noise + model.noise_ + model.jitter_)[:, None] * dual
    shown, y = data.targets(), np.asarray(model.predict(data.given), dtype=np.float64).reshape(Y.shape)
    scale = (
        np.ptp(shown, axis=0) / np.where(np.ptp(Y, axis=0) > 0, np.ptp(Y, axis=0), 1.0) if model.normalize_y else 1.0
    )
    centre = shown.mean(axis=0) if model.normalize_y else 0.0
    size = np.abs(dense(model.kernel_.diag(data.X))).max() * np.abs(dual).sum(axis=0)
    faults += unlike(y, centre + scale * f, scale * size)
    return _relative(R, Y), *_slope(model, data, Y, noise)


def _relative(R: Array, B: Array) -> float:
    size = np.linalg.norm(B, axis=0)
    return float(np.max(np.linalg.norm(R, axis=0) / np.where(size > 0, size, 1.0)))


def _learned(model: Any, kernel: Kernel) -> bool:
    return model.optimizer is not None and kernel.theta.size > 0


def _slope(model: Any, data: Data, Y: Array, noise: Array) -> tuple[float | None, float]:
    """``½ tr((ααᵀ - (K + D)⁻¹) ∂K)`` on the rows that the kernel was learned from, on the bounds; and the evidence."""
    if not _learned(model, model.kernel_):
        return None, math.nan
    rows = np.asarray(model.evidence_rows_)
    X = data.X[np.ix_(rows, rows)] if is_precomputed(model.kernel_) else data.X[rows]
    _check_memory(rows.size, data.memory)
    A = np.asarray(model.kernel_(X), dtype=np.float64)
    A[np.diag_indices_from(A)] += noise[rows] + model.jitter_
    try:
        factor = cho_factor(A, lower=True)
    except LinAlgError:
        return math.inf, -math.inf
    alpha = cho_solve(factor, Y[rows])
    W = 0.5 * (alpha @ alpha.T - Y.shape[1] * cho_solve(factor, np.eye(rows.size)))
    logdet = 2.0 * float(np.log(np.diagonal(factor[0])).sum()) + rows.size * math.log(2.0 * math.pi)
    value = -0.5 * (float(np.vdot(Y[rows], alpha)) + Y.shape[1] * logdet)
    return _projected(model.kernel_, np.asarray(model.kernel_.vjp(X, None, W))), value


def _check_memory(n: int, memory: int) -> None:
    if 24 * n * n > memory:
        raise MemoryError(
            f"the evidence of {n:,} rows takes {readable(24 * n * n)} and memory is {readable(memory)}; raise memory=."
        )


def _projected(kernel: Kernel, slope: Array) -> float:
    theta = np.asarray(kernel.theta)
    return float(np.abs(np.clip(theta + slope, *kernel.bounds.T) - theta).max(initial=0.0))


def _by_differences(kernel: Kernel, value: Callable[[Kernel], float]) -> float:
    theta, slope = np.asarray(kernel.theta), np.zeros(kernel.theta.size)
    for j, e in enumerate(STEP * np.eye(theta.size)):
        slope[j] = (value(kernel.with_theta(theta + e)) - value(kernel.with_theta(theta - e))) / (2 * STEP)
    return _projected(kernel, slope)


def _bayes(phi: Array, D: Array, Y: Array) -> tuple[Array, float]:
    """Weights of Bayesian linear regression, and ``log N(y | 0, ΦΦᵀ + D)``."""
    C = (phi / D[:, None]).T @ phi + np.eye(phi.shape[1])
    L = cholesky(C, lower=True)
    right = phi.T @ (Y / D[:, None])
    half = solve_triangular(L, right, lower=True)
    logdet = float(np.log(D).sum() + 2.0 * np.log(np.diagonal(L)).sum())
    fit = float(np.sum(Y**2 / D[:, None]) - np.sum(half**2))
    value = -0.5 * (fit + Y.shape[1] * (logdet + Y.shape[0] * math.log(2.0 * math.pi)))
    return np.asarray(solve_triangular(L, half, lower=True, trans=1)), value


def _through_landmarks(model: Any, data: Data, Y: Array, noise: Array) -> Figures:
    """The collapsed bound ``log N(y | 0, Q + D) - ½ tr(D⁻¹(K - Q))``, landmarks held still."""
    Z = model.approximation_.components_
    jitter = float(model.jitter_)

    def bound(kernel: Kernel) -> float:
        diagonal, _, phi, D = _landmark_parts(kernel, data, Z, noise, jitter)
        missed = diagonal - np.sum(phi**2, axis=1)
        return _bayes(phi, D, Y)[1] - 0.5 * Y.shape[1] * float(np.sum(missed / D))

    _, L, phi, D = _landmark_parts(model.kernel_, data, Z, noise, jitter)
    # Times the factor of K_mm, so that it need not be inverted: landmarks may be as good as equal.
    beta, B = np.asarray(model.alpha_, dtype=np.float64).reshape(-1, Y.shape[1]), phi @ L.T
    right = B.T @ (Y / D[:, None])
    residual = _relative(right - L @ (L.T @ beta) - B.T @ ((B @ beta) / D[:, None]), right)
    # Terms that cancel take their digits with them: targets at equal rows, coefficients at equal landmarks.
    terms = np.abs(B).max() * np.abs(beta).sum() + np.abs(Y).max()
    lost = float(np.abs(B / D[:, None]).sum() * terms) / max(float(np.linalg.norm(right, axis=0).min()), 1e-300)
    residual = 0.0 if residual <= 64.0 * EPS * lost else residual
    if not _learned(model, model.kernel_):
        return residual, None, math.nan
    return residual, _by_differences(model.kernel_, bound), bound(model.kernel_)


def _landmark_parts(
    kernel: Kernel, data: Data, Z: Any, noise: Array, jitter: float
) -> tuple[Array, Array, Array, Array]:
    """k(x, x) without noise, the factor of K_mm, features, and noise; white noise is what k(x, x) has over k(x, x')."""
    Z = Z.astype(np.float64, copy=False)
    own = np.asarray(kernel.diag(data.X), dtype=np.float64)
    twin = np.asarray(kernel(data.X[:1], data.X[:1].copy()), dtype=np.float64)[0, 0]
    white = max(float(own[0]) - float(twin), 0.0)
    K = np.asarray(kernel(Z, Z.copy()), dtype=np.float64)
    K[np.diag_indices_from(K)] += jitter
    L = cholesky(K, lower=True)
    B = np.concatenate([np.asarray(kernel(data.X[i : i + 1024], Z), dtype=np.float64) for i in range(0, data.n, 1024)])
    phi = solve_triangular(L, B.T, lower=True).T
    return own - white, L, phi, noise + white


def _through_features(model: Any, data: Data, Y: Array, noise: Array) -> Figures:
    """Weights of the features; the kernel was learned from the evidence of some rows."""
    phi = dense(model.approximation_.transform(data.X))
    D = noise + model.noise_
    w = np.asarray(model.alpha_, dtype=np.float64).reshape(-1, Y.shape[1])
    right = phi.T @ (Y / D[:, None])
    return _relative(right - w - phi.T @ ((phi @ w) / D[:, None]), right), *_slope(model, data, Y, noise)


# ---- classes ----------------------------------------------------------------------------------------------------


def classification(model: Any, data: Data) -> Certificate:
    """The mode ``f = K (y - π(f))`` of every binary problem, and the slope of its approximate evidence."""
    codes = data.codes(model.classes_)
    _check_memory(data.n, data.memory)
    if model.n_classes_ == 2:
        problems = [(model.base_estimator_, np.arange(data.n), codes == 1)]
    elif model.multi_class == "one_vs_rest":
        problems = [(part, np.arange(data.n), codes == c) for c, part in enumerate(model.base_estimator_.estimators_)]
    else:
        pairs = combinations(range(model.n_classes_), 2)
        problems = []
        for part, (i, j) in zip(model.base_estimator_.estimators_, pairs, strict=True):
            rows = np.flatnonzero((codes == i) | (codes == j))
            problems.append((part, rows, codes[rows] == j))
    found = [_binary(part, data, rows, y.astype(np.float64)) for part, rows, y in problems]
    worst = min(found, key=lambda c: (c.converged, -c.violation))
    return replace(worst, iterations=model.certificate_.iterations, seconds=model.certificate_.seconds)


def _binary(part: Any, data: Data, rows: NDArray[np.intp], y: Array) -> Certificate:
    X = data.X[np.ix_(rows, rows)] if is_precomputed(part.kernel_) else data.X[rows]
    K = np.asarray(part.kernel_(X), dtype=np.float64)
    g = y - np.asarray(part.pi_, dtype=np.float64)
    f = K @ g
    p, energy = np.abs(g), 0.5 * float(g @ f)
    primal = float(np.logaddexp(0.0, -(2.0 * y - 1.0) * f).sum()) + energy
    dual = -float((xlogy(p, p) + xlogy(1.0 - p, 1.0 - p)).sum()) - energy
    gap = max(primal - dual, 0.0) / max(abs(primal), abs(dual), 1.0)
    faults = [] if gap <= GAP else [f"the mode's relative duality gap {gap:.1e} is above {GAP:.0e}"]
    if np.any(p > 1.0):
        faults.append("infeasible: a probability is not between 0 and 1")
    slope = None
    if _learned(part, part.kernel_):
        slope = _projected(part.kernel_, np.asarray(part.kernel_.vjp(X, None, _laplace_weights(K, f, y))))
    figures = {"primal": primal, "dual": dual, "gap": gap} if slope is None else {}
    return _certificate(part, float(np.abs(expit(f) - part.pi_).max(initial=0.0)), slope, faults, **figures)


def _laplace_weights(K: Array, f: Array, y: Array) -> Array:
    """W with ``Σ W ∂K`` the slope of the approximate log evidence (Rasmussen and Williams, algorithm 5.1)."""
    pi = expit(f)
    g, root = y - pi, np.sqrt(pi * (1.0 - pi))
    B = np.eye(y.size) + root[:, None] * K * root
    R = root[:, None] * np.linalg.solve(B, np.diag(root))
    explained = np.einsum("ij,jk,ki->i", K, R, K, optimize=True)
    third = -0.5 * (np.diagonal(K) - explained) * pi * (1.0 - pi) * (1.0 - 2.0 * pi)
    u = third - R @ (K @ third)
    return np.asarray(0.5 * (np.outer(g, g) - R + np.outer(u, g) + np.outer(g, u)))
