"""Learned metrics: the slope of the evidence by the textbook formula, and how far one more iteration would move."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from gramian.certificates import Certificate
from gramian.verification.rows import Array, Data, found


def metric(model: Any, data: Data) -> Certificate:
    """``½ Σ W ∂K`` over the entries of L and both variances, for each row; or the next ``G^power`` against LLᵀ."""
    rows, weights = np.asarray(model.rows_), np.asarray(model.row_weights_)
    X, Y = data.X[rows], _targets(model, data, rows, weights)
    faults = [] if np.allclose(model.metric_, model.L_ @ model.L_.T) else ["metric_ is not L_ L_ᵀ"]
    kernel, noise = model.kernel_, float(model.noise_) / weights
    A = np.asarray(kernel(X), dtype=np.float64)
    factor = cho_factor(A + np.diag(noise), lower=True)
    alpha = cho_solve(factor, Y)
    if model.method == "agop":
        figure = _next_move(model, X, alpha, weights)
    else:
        W = 0.5 * (alpha @ alpha.T - Y.shape[1] * cho_solve(factor, np.eye(rows.size)))
        figure = _slope(model, X, A, W, noise, Y.shape[1]) / rows.size
    tol = {"evidence": 1e-2, "agop": 0.2}[model.method] if model.tol is None else model.tol
    if not figure <= tol:
        faults.append(f"the {'metric still moves by' if model.method == 'agop' else 'slope is'} {figure:.1e}")
    return found(model, model.certificate_.kind, faults, violation=figure)


def _targets(model: Any, data: Data, rows: Any, weights: Array) -> Array:
    if hasattr(model, "classes_"):
        Y = (np.asarray(data.y)[rows][:, None] == model.classes_).astype(np.float64)
    else:
        Y = data.targets()[rows]
    Y = Y - np.average(Y, axis=0, weights=weights)
    spread = np.average(Y**2, axis=0, weights=weights)
    return np.asarray(Y / np.sqrt(spread.mean() if hasattr(model, "classes_") else np.where(spread > 0, spread, 1.0)))


def _slope(model: Any, X: Array, K: Array, W: Array, noise: Array, t: int) -> float:
    """The largest slope by the unit-free entries of L and by the logarithms of both variances, within their bounds."""
    x = X - X.mean(axis=0)
    pull = np.asarray(model.kernel_.kernel.kernel.grad_inputs(X @ model.L_, None, model.kernel_.factor * W))
    unit = float(np.linalg.norm(model.scale_[:, None] * model.L_)) / math.sqrt(model.L_.shape[1])
    by_L = 2.0 * unit * (x.T @ pull) / model.scale_[:, None]  # W is symmetric: twice the derivative of one side
    by_L[~np.any(model.L_, axis=1)] = 0.0
    repeated = float(model.row_weights_.sum()) - len(X)
    by_noise = float(np.diagonal(W) @ noise) - 0.5 * t * repeated
    steps = [(model.kernel_.factor, float(np.sum(W * K)), 1e-3, 1e3), (float(model.noise_), by_noise, 1e-8, 1e2)]
    logs = [abs(np.clip(math.log(v) + s, math.log(low), math.log(high)) - math.log(v)) for v, s, low, high in steps]
    return float(max(np.abs(by_L).max(), *logs))


def _next_move(model: Any, X: Array, alpha: Array, weights: Array) -> float:
    """The distance of LLᵀ from the power of the mean outer product of gradients, both scaled to norm one."""
    d = X.shape[1]
    G = np.zeros((d, d))
    for a in alpha.T:
        g = np.asarray(model.kernel_.grad_inputs(X, None, np.broadcast_to(a, (len(X), len(X))))) * model.scale_
        G += (g * (weights / weights.sum())[:, None]).T @ g
    values, axes = np.linalg.eigh(G)
    if model.rank is not None:
        values[: d - model.rank] = 0.0
    goal = (axes * np.maximum(values, 0.0) ** model.power) @ axes.T if values.max() > 0 else np.zeros((d, d))
    own = model.metric_ * np.outer(model.scale_, model.scale_)
    return float(np.linalg.norm(own / np.linalg.norm(own) - goal / (np.linalg.norm(goal) or 1.0)))
