"""Least squares: residuals of the normal equations, and errors of an interpolant at its rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian.certificates import Certificate
from gramian.kernels.resolve import is_precomputed
from gramian.verification.rows import EPS, SUMS, Array, Data, Shown, check_same, dense, feature_weights, found, relative

BALANCED = 1e-8
"""Coefficients this close to orthogonal to the unpenalised functions, relative to their sizes, count as orthogonal."""


def ridge(model: Any, data: Data) -> Certificate:
    """``Σ w_i (f(x_i) - y_i)² + α ‖f‖²``: ``√w (y - f) - α c / √w``, relative to ``√w y``; the same in features."""
    Y = data.targets()
    alpha = np.broadcast_to(np.atleast_1d(model.alpha_), (Y.shape[1],))
    if hasattr(model, "approximation_"):
        shown = Shown.of(model, data, feature_weights(model))
        weighted = (np.asarray(shown.F) * data.weights[:, None]).T
        R, B = weighted @ (Y - shown.f) - alpha * shown.coefficients, weighted @ Y
        lost = np.abs(weighted).sum(axis=1, keepdims=True) * shown.lost
        if hasattr(model.approximation_, "expansion"):  # features are sums at the landmarks, with rounding of their own
            sums = np.abs(model.approximation_.expansion(np.eye(len(weighted)))).sum(axis=0)
            lost = lost + SUMS * shown.scale * sums[:, None] * (data.weights @ np.abs(Y - shown.f))
    else:
        shown, kept = _at_rows(model, data, Y), data.kept
        root = np.sqrt(data.weights[kept])[:, None]
        B = root * Y[kept]
        R, lost = B - root * shown.f[kept] - alpha * shown.coefficients[kept] / root, root * shown.lost
        if model.solver_.name == "least squares":  # K is singular and alpha zero: check the normal equations
            K = model.kernel_(data.X[np.ix_(kept, kept)] if is_precomputed(model.kernel_) else data.X[kept])
            K = root * np.asarray(K, dtype=np.float64) * root.T
            R, B, lost = K @ R, K @ B, np.abs(K).sum(axis=1, keepdims=True) * np.max(lost)
    faults, b = [], np.zeros(1)
    if not (isinstance(model.alpha, str) or hasattr(model, "loo_path_")) and np.any(alpha != np.asarray(model.alpha)):
        faults.append("alpha_ is not the alpha of the model")
    if getattr(model, "fit_intercept", False):
        b = np.atleast_1d(model.intercept_)
        R = R - root * b
        faults = unbalanced(np.ones((data.n, 1)), b[None], Y, shown)
    faults += shown.unlike(model.predict(data.given), shown.predicted + b)
    if hasattr(model, "loo_path_"):
        best = np.asarray(model.alphas_)[np.argmin(model.loo_path_, axis=0)]
        faults += [] if np.array_equal(best, model.alpha_) else ["alpha_ is not the value that minimises loo_path_"]
    return _certificate(model, relative(R, B), faults, relative(lost, B))


def interpolation(model: Any, data: Data) -> Certificate:
    """``max_i |f(x_i) - y_i|`` relative to the largest target; a nugget that was asked for is allowed for."""
    Y = data.targets()
    shown, asked = _at_rows(model, data, Y), 0.0 if model.nugget == "auto" else float(model.nugget)
    largest, beside, faults = np.abs(Y).max(axis=0), np.zeros_like(Y), []
    if getattr(model, "trend_", None) is not None:
        T = trend_of(model, data)
        t = model.trend_coef_.reshape(T.shape[1], -1)
        beside, faults = T @ t, unbalanced(T, t, Y, shown)
    missed = np.abs(Y - shown.f - beside - asked * shown.coefficients).max(axis=0) / np.where(largest > 0, largest, 1.0)
    lost = float(np.max(shown.lost / np.where(largest > 0, largest, 1.0)))
    faults += shown.unlike(model.predict(data.given), shown.predicted + beside)
    return _certificate(model, float(missed.max()), faults, lost)


def trend_of(model: Any, data: Data) -> Array:
    """The unpenalised functions at the rows."""
    trend, X = model.trend_, data.X
    if isinstance(trend, str):
        return np.column_stack([np.ones(data.n), *([dense(X)] if trend == "linear" else [])])
    T = dense(trend.transform(X) if hasattr(trend, "transform") else trend(X))
    return T.reshape(data.n, -1)


def unbalanced(T: Array, t: Array, Y: Array, shown: Shown) -> list[str]:
    """Say whether coefficients are orthogonal to the unpenalised functions T t, as they are at the optimum.

    Where T t fits the targets Y exactly, coefficients are rounding of the two, which adds up over the rows.
    """
    c, size = shown.coefficients, np.abs(T).max(axis=0)
    level = max(float((np.abs(T) @ np.abs(t)).max(initial=0.0)), float(np.abs(Y).max(initial=0.0)))
    least = 64.0 * EPS * level * len(Y) / (BALANCED * max(shown.scale, 1e-300))
    off = np.abs(T.T @ c) / (np.where(size > 0, size, 1.0)[:, None] * np.maximum(np.abs(c).sum(axis=0), least))
    if not off.max() > BALANCED:
        return []
    return [f"the coefficients are not orthogonal to the trend, by {off.max():.1e}"]


def _at_rows(model: Any, data: Data, Y: Array) -> Shown:
    """Functions that are expansions in the training rows; raises if the rows given are others."""
    if model.dual_coef_.shape[0] != data.n or model.dual_coef_.size != Y.size:
        shape = (model.dual_coef_.shape[0], model.dual_coef_.size // model.dual_coef_.shape[0])
        raise ValueError(f"the model was fitted to targets of shape {shape}, got {Y.shape}; pass the same rows.")
    check_same(model.X_fit_, data.rows)
    return Shown.of(model, data, model.dual_coef_)


def _certificate(model: Any, violation: float, faults: list[str], rounding: float) -> Certificate:
    if not violation <= model.tol:
        faults = [f"the residual {violation:.1e} is above tol={model.tol:.0e}", *faults]
    return found(model, "residual", faults, violation=violation, rounding=rounding)
