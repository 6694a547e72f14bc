"""Gaussian processes: the residual of the posterior, the mode of Laplace, and the slope of the evidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, null_space, solve_triangular
from scipy.special import expit, xlogy

from gramian.certificates import Certificate
from gramian.kernels import Kernel
from gramian.kernels.resolve import is_precomputed
from gramian.resources import readable
from gramian.verification.least_squares import trend_of, unbalanced
from gramian.verification.rows import EPS, SAME, Array, Data, Shown, check_same, dense, found, product, relative

RESIDUAL = 1e-6
"""The largest residual of the posterior's equations, relative to the targets."""
FACTOR = 1e-6
"""The largest error of a factor, relative to its matrix."""
GAP = 1e-9
"""The largest relative duality gap of the mode of the Laplace approximation."""
FELT = 2e-5
"""The error of an evidence's slope if the mode has a gap of 1e-13: some tens of the square root."""
HAIRS = 1e-13 * np.array([-2.0, -1.0, 1.0, 2.0])
"""Steps, in theta, that change rounding errors only."""


def regression(model: Any, data: Data) -> Certificate:
    """``(K + D) α = y``, and ``∂ log p(y | θ)/∂θ`` at the learned kernel."""
    Y, faults, lost = data.targets(), [], 0.0
    centre, scale = np.zeros(1), np.ones(1)
    if model.normalize_y:
        centre, scale = Y.mean(axis=0), Y.std(axis=0)
        scale = np.where(scale > 10 * EPS * np.abs(Y).max(axis=0), scale, 1.0)
    Y = (Y - centre) / scale
    noise = np.broadcast_to(np.asarray(model.alpha, dtype=np.float64), (data.n,))
    dual = np.asarray(model.alpha_, dtype=np.float64).reshape(-1, Y.shape[1])
    evidence = _slope
    if hasattr(getattr(model, "approximation_", None), "expansion"):
        residual, evidence = _at_landmarks(model, data, Y, noise, dual), _bound_slope
    elif hasattr(model, "approximation_"):
        F, D = data.features(model), noise + model.noise_
        right = F.T @ (Y / D[:, None])
        residual = relative(right - dual - F.T @ ((F @ dual) / D[:, None]), right)
    else:
        if dual.shape[0] != data.n:
            raise ValueError(f"the process was fitted to {dual.shape[0]} rows, got {data.n}; pass the same rows.")
        check_same(model.X_train_, data.rows)
        shown = Shown.of(model, data, dual)
        beside = np.zeros_like(Y)
        if getattr(model, "trend_", None) is not None:
            T = trend_of(model, data)
            t = model.trend_coef_.reshape(T.shape[1], -1)
            beside = T @ t
            faults += unbalanced(T, t, Y, shown)
        faults += _unlike_factor(model, data, noise)
        residual = relative(Y - shown.f - beside - (noise + model.jitter_)[:, None] * dual, Y)
        lost = relative(np.broadcast_to(shown.lost, Y.shape), Y)
        faults += replace(shown, lost=scale * shown.lost).unlike(
            model.predict(data.given), centre + scale * (shown.predicted + beside)
        )
    allowed = max(RESIDUAL, model.tol) if model.solver_.name == "pcg" else RESIDUAL
    if not residual <= allowed:
        faults.append(f"the posterior's residual is {residual:.1e}, above {allowed:.0e}")
    slope, value, unsure = evidence(model, data, Y, noise) if _learned(model) else (None, math.nan, lost)
    return _certificate(model, residual, slope, faults, primal=value, rounding=unsure)


def _unlike_factor(model: Any, data: Data, noise: Array) -> list[str]:
    """Say whether the factor, from which deviations come, is that of another matrix."""
    if not hasattr(model, "L_") or 24 * data.n**2 > data.memory:
        return []
    A, L = np.asarray(model.kernel_(data.X), dtype=np.float64), np.tril(np.asarray(model.L_, dtype=np.float64))
    return _factor_of(L, A + np.diag(noise + model.jitter_), "K + noise")


def _factor_of(L: Array, A: Array, name: str) -> list[str]:
    off = float(np.linalg.norm(L @ L.T - A)) / max(float(np.linalg.norm(A)), 1e-300)
    return [] if off <= FACTOR else [f"L_ is not a factor of {name}, by {off:.1e}"]


def _certificate(model: Any, residual: float, slope: float | None, faults: list[str], **more: Any) -> Certificate:
    flat = math.sqrt(model.tol)
    if slope is None:
        return found(model, model.certificate_.kind, faults, violation=residual, **more)
    if not slope <= flat:
        faults = [f"the slope of the log evidence may be {slope:.1e}, above {flat:.0e}", *faults]
    return found(model, model.certificate_.kind, faults, violation=slope, limit=flat, **more)


def _learned(model: Any) -> bool:
    return model.optimizer is not None and model.kernel_.theta.size > 0


def _slope(model: Any, data: Data, Y: Array, noise: Array) -> tuple[float, float, float]:
    """The slope of the log evidence on the rows that the kernel was learned from; the evidence; the slope's error."""
    rows = np.asarray(model.evidence_rows_)
    X, Y = data.X[np.ix_(rows, rows)] if is_precomputed(model.kernel_) else data.X[rows], Y[rows]
    _check_memory(rows.size, data.memory)
    # With a trend, the evidence is that of contrasts Nᵀy, N an orthonormal basis of its orthogonal complement.
    T = None if getattr(model, "trend_", None) is None else trend_of(model, data)[rows]
    basis = None if T is None else _contrasts(T)

    def at(kernel: Kernel, N: Array | None = basis) -> tuple[float, Array]:
        """The log evidence, and ``½ tr((ααᵀ - t (K + D)⁻¹) ∂K)`` by theta, for t targets."""
        targets = Y if N is None else N.T @ Y
        A = np.asarray(kernel(X), dtype=np.float64) + np.diag(noise[rows] + model.jitter_)
        factor = cho_factor(A if N is None else N.T @ A @ N, lower=True)
        alpha, inverse = cho_solve(factor, targets), cho_solve(factor, np.eye(len(targets)))
        logdet = 2.0 * float(np.log(np.diagonal(factor[0])).sum())
        value = _log_density(float(np.vdot(targets, alpha)), logdet, targets)
        if N is not None:
            alpha, inverse = N @ alpha, N @ inverse @ N.T
        return value, np.asarray(kernel.vjp(X, None, 0.5 * (alpha @ alpha.T - Y.shape[1] * inverse)))

    slope, value, unsure = _with_rounding(model.kernel_, at)
    if T is not None and math.isfinite(value):
        # If columns of the trend hardly vary, the last digits of rows matter.
        nudged = T * (1.0 + EPS * np.random.default_rng(0).standard_normal(T.shape) * (np.ptp(T, axis=0) > 0))
        nearby = at(model.kernel_, _contrasts(nudged))[1]
        unsure = max(unsure, 4.0 * float(np.abs(nearby - at(model.kernel_)[1]).max()))
    return slope, value, unsure


def _contrasts(T: Array) -> Array:
    """An orthonormal basis of what is orthogonal to T; beside a constant, T is centred, and loses no digits."""
    if not np.ptp(T[:, 0]):
        T = np.column_stack([T[:, 0], T[:, 1:] - T[:, 1:].mean(axis=0)])
    size = np.abs(T).max(axis=0)
    return np.asarray(null_space((T / np.where(size > 0, size, 1.0)).T))


def _with_rounding(kernel: Kernel, at: Callable[[Kernel], tuple[float, Array]]) -> tuple[float, float, float]:
    """The steepest slope within the bounds that rounding may hide; the value; the range of slopes a hair apart."""
    try:
        value, slope = at(kernel)
        slopes = np.array([slope, *(at(kernel.with_theta(kernel.theta + hair))[1] for hair in HAIRS)])
    except LinAlgError:
        return math.inf, -math.inf, 0.0
    middle, reach = 0.5 * (slopes.min(axis=0) + slopes.max(axis=0)), np.ptp(slopes, axis=0)
    return max(_projected(kernel, middle + side * reach) for side in (-1.0, 1.0)), value, float(reach.max())


def _log_density(quadratic: float, logdet: float, Y: Array) -> float:
    return -0.5 * (quadratic + Y.shape[1] * (logdet + Y.shape[0] * math.log(2.0 * math.pi)))


def _check_memory(n: int, memory: int) -> None:
    if 24 * n * n > memory:
        raise MemoryError(
            f"the evidence of {n:,} rows takes {readable(24 * n * n)} and memory is {readable(memory)}; raise memory=."
        )


def _projected(kernel: Kernel, slope: Array) -> float:
    theta = np.asarray(kernel.theta)
    return float(np.abs(np.clip(theta + slope, *kernel.bounds.T) - theta).max(initial=0.0))


def _landmarks(kernel: Kernel, model: Any, data: Data, noise: Array) -> tuple[Array, Array, Array, Array]:
    """k(x, x) without noise, the factor of K_mm, K_nm, and noise; white noise is k(x, x) - k(x, x') for a copy x'."""
    Z = model.approximation_.components_.astype(np.float64, copy=False)
    own = np.asarray(kernel.diag(data.X), dtype=np.float64)
    white = max(float(own[0]) - dense(kernel(data.X[:1], data.X[:1].copy())).item(), 0.0)
    one = np.eye(Z.shape[0])
    L = cholesky(np.asarray(kernel(Z, Z.copy()), dtype=np.float64) + float(model.jitter_) * one, lower=True)
    return own - white, L, product(kernel, data.X, Z, one, data.memory), noise + white


def _at_landmarks(model: Any, data: Data, Y: Array, noise: Array, beta: Array) -> float:
    """``(K_mm + BᵀD⁻¹B) β = BᵀD⁻¹y``, without the inverse of a factor, since landmarks may be nearly equal."""
    _, L, B, D = _landmarks(model.kernel_, model, data, noise)
    right = B.T @ (Y / D[:, None])
    residual = relative(right - L @ (L.T @ beta) - B.T @ ((B @ beta) / D[:, None]), right)
    # Digits are lost where large terms cancel: targets at equal rows, coefficients at equal landmarks.
    terms = np.abs(B).max() * np.abs(beta).sum() + np.abs(Y).max()
    lost = float(np.abs(B / D[:, None]).sum() * terms) / max(float(np.linalg.norm(right, axis=0).min()), 1e-300)
    return 0.0 if residual <= 64.0 * EPS * lost else residual


def _bound_slope(model: Any, data: Data, Y: Array, noise: Array) -> tuple[float, float, float]:
    """The slope of ``log N(y | 0, Q + D) - ½ tr(D⁻¹(K - Q))``, landmarks fixed; its value; the error of the slope."""
    Z, t = model.approximation_.components_.astype(np.float64, copy=False), Y.shape[1]

    def at(kernel: Kernel) -> tuple[float, Array]:
        diagonal, L, B, D = _landmarks(kernel, model, data, noise)
        phi: Array = solve_triangular(L, B.T, lower=True).T  # Q = ΦΦᵀ
        scaled = phi / D[:, None]
        C = cho_factor(scaled.T @ phi + np.eye(Z.shape[0]), lower=True)
        alpha = (Y - phi @ cho_solve(C, scaled.T @ Y)) / D[:, None]
        missed = diagonal - np.sum(phi**2, axis=1)
        logdet = float(np.log(D).sum() + 2.0 * np.log(np.diagonal(C[0])).sum() + np.sum(missed / D))
        # With G = ½(ααᵀ + t D⁻¹ΦC⁻¹ΦᵀD⁻¹) the slope is Σ G ∂Q, and Q = K_nm K_mm⁻¹ K_mn.
        G_phi = 0.5 * (alpha @ (alpha.T @ phi) + t * scaled @ (np.eye(Z.shape[0]) - cho_solve(C, np.eye(Z.shape[0]))))
        W_nm = solve_triangular(L, 2.0 * G_phi.T, lower=True, trans=1).T
        W_mm = -solve_triangular(L, solve_triangular(L, phi.T @ G_phi, lower=True, trans=1).T, lower=True, trans=1)
        slope = kernel.vjp(data.X, Z, W_nm) + kernel.vjp(Z, Z.copy(), W_mm)
        slope = slope + kernel.diagonal_vjp(kernel.prepare(data.X)[0], -0.5 * t / D)
        by_noise = np.sum(alpha**2, axis=1) + t * (np.sum(scaled * cho_solve(C, scaled.T).T, axis=1) + missed / D**2)
        row, one = data.X[:1], np.ones((1, 1))
        white = kernel.vjp(row, None, one) - kernel.vjp(row, row.copy(), one)
        value = _log_density(float(np.vdot(Y, alpha)), logdet, Y)
        return value, np.asarray(slope + 0.5 * float(by_noise.sum()) * white)

    return _with_rounding(model.kernel_, at)


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
    each = [_binary(part, data, rows, y.astype(np.float64)) for part, rows, y in problems]
    worst = min(each, key=lambda c: (c.converged, -c.violation))
    return replace(worst, iterations=model.certificate_.iterations, seconds=model.certificate_.seconds)


def _binary(part: Any, data: Data, rows: NDArray[np.intp], y: Array) -> Certificate:
    at = np.ix_(rows, rows) if is_precomputed(part.kernel_) else rows
    X = data.X[at]
    check_same(part.X_train_, data.rows[at])
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
    root = np.asarray(part.W_sr_, dtype=np.float64)
    faults += _factor_of(np.tril(part.L_), np.eye(y.size) + root[:, None] * K * root, "the matrix of the mode")
    if not np.allclose(root**2, part.pi_ * (1.0 - part.pi_), rtol=SAME, atol=SAME):
        faults.append("W_sr_ is not that of the mode")
    slope = None
    if _learned(part):
        slope = _projected(part.kernel_, np.asarray(part.kernel_.vjp(X, None, _laplace_weights(K, f, y))))
    figures = {"primal": primal, "dual": dual, "gap": gap} if slope is None else {}
    off = float(np.abs(expit(f) - part.pi_).max(initial=0.0))
    return _certificate(part, off, slope, faults, rounding=FELT, **figures)


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
