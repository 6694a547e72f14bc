"""Least squares: residuals of the normal equations, and what an interpolant misses."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian.certificates import Certificate
from gramian.kernels.resolve import is_precomputed
from gramian.verification.rows import Array, Data, check_same, expanded, feature_weights, unlike

__all__ = ["interpolation", "ridge"]


def ridge(model: Any, data: Data) -> Certificate:
    """``Σ w_i (f(x_i) - y_i)² + α ‖f‖²``: ``√w (y - f) - α c / √w``, relative to ``√w y``; the same in features."""
    Y = data.targets()
    alpha = np.broadcast_to(np.atleast_1d(model.alpha_), (Y.shape[1],))
    R, B, f, size = (_in_features if hasattr(model, "approximation_") else _at_rows)(model, data, Y, alpha)
    faults = [*unlike(model.predict(data.given), f, size), *_choice(model)]
    return _certificate(model, _relative(R, B), faults)


def _at_rows(model: Any, data: Data, Y: Array, alpha: Array) -> tuple[Array, Array, Array, Array]:
    dual = _coefficients(model, data, Y)
    predicted, f = expanded(model.kernel_, data.X, dual, data.memory)
    kept = data.kept
    root = np.sqrt(data.weights[kept])[:, None]
    B = root * Y[kept]
    return B - root * f[kept] - alpha * dual[kept] / root, B, predicted, _size(model, data, dual)


def _in_features(model: Any, data: Data, Y: Array, alpha: Array) -> tuple[Array, Array, Array, Array]:
    w = feature_weights(model)
    f, R, B, size = np.empty_like(Y), -alpha * w, np.zeros_like(w), np.zeros(Y.shape[1])
    for rows, F in data.features(model):
        f[rows] = F @ w
        weighted = F.T * data.weights[rows]
        R += weighted @ (Y[rows] - f[rows])
        B += weighted @ Y[rows]
        size = np.maximum(size, (np.abs(F) @ np.abs(w)).max(axis=0))
    if hasattr(model, "dual_coef_"):
        size = size + _size(model, data, model.dual_coef_.reshape(-1, Y.shape[1]))
    return R, B, f, size


def interpolation(model: Any, data: Data) -> Certificate:
    """``max_i |f(x_i) - y_i|`` relative to the largest target, but for what a nugget that was asked for takes away."""
    Y = data.targets()
    dual = _coefficients(model, data, Y)
    predicted, f = expanded(model.kernel_, data.X, dual, data.memory)
    asked = 0.0 if model.nugget == "auto" else float(model.nugget)
    largest = np.abs(Y).max(axis=0)
    missed = np.abs(Y - f - asked * dual).max(axis=0) / np.where(largest > 0, largest, 1.0)
    faults = unlike(model.predict(data.given), predicted, _size(model, data, dual))
    return _certificate(model, float(missed.max()), faults)


def _coefficients(model: Any, data: Data, Y: Array) -> Array:
    """Coefficients at the training rows, which the rows given must be."""
    if model.dual_coef_.shape[0] != data.n or model.dual_coef_.size != Y.size:
        shape = (model.dual_coef_.shape[0], model.dual_coef_.size // model.dual_coef_.shape[0])
        raise ValueError(f"the model was fitted to {shape} rows and targets, got {Y.shape}; pass the same rows.")
    check_same(model.X_fit_, data.rows)
    return np.asarray(model.dual_coef_, dtype=np.float64).reshape(Y.shape)


def _size(model: Any, data: Data, dual: Array) -> Array:
    """The size of the terms that ``K @ dual`` sums, at most."""
    largest = np.abs(data.X).max() if is_precomputed(model.kernel_) else np.abs(model.kernel_.diag(data.X)).max()
    return np.asarray(largest * np.abs(dual).sum(axis=0))


def _choice(model: Any) -> list[str]:
    """Whether ``alpha="loo"`` took the value with the least leave-one-out error of those it shows."""
    if not hasattr(model, "loo_path_"):
        return []
    best = np.asarray(model.alphas_)[np.argmin(model.loo_path_, axis=0)]
    return [] if np.array_equal(best, model.alpha_) else ["alpha_ is not the value with the least of loo_path_"]


def _relative(R: Array, B: Array) -> float:
    size = np.linalg.norm(B, axis=0)
    return float(np.max(np.linalg.norm(R, axis=0) / np.where(size > 0, size, 1.0)))


def _certificate(model: Any, violation: float, faults: list[str]) -> Certificate:
    said = model.certificate_
    if not violation <= model.tol:
        faults = [f"the residual {violation:.1e} is above tol={model.tol:.0e}", *faults]
    return Certificate(
        kind="residual",
        violation=violation,
        converged=not faults,
        iterations=said.iterations,
        seconds=said.seconds,
        message="; ".join(faults),
    )
