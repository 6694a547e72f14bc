"""Probabilities from decision values: Platt's sigmoid per pair, pairs coupled into classes.

References
----------
Lin, Lin, Weng: A note on Platt's probabilistic outputs for support vector machines. Machine Learning, 2007.
Wu, Lin, Weng: Probability estimates for multi-class classification by pairwise coupling. JMLR 2004.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

__all__ = ["FOLDS", "couple", "fit_sigmoid", "sigmoid", "stratified_folds"]

Vector = NDArray[np.float64]
FOLDS = 5
CLIP = 1e-7
"""Pairwise probabilities are kept this far from 0 and 1, as in LIBSVM."""


def stratified_folds(y: Vector, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Draw the folds of one pair, each with its share of either class: y (n,)."""
    folds = np.empty(y.size, dtype=np.intp)
    for label in (1, -1):
        (members,) = np.nonzero(y == label)
        folds[rng.permutation(members)] = np.arange(members.size) % FOLDS
    return folds


def fit_sigmoid(values: Vector, y: Vector, weight: Vector) -> tuple[float, float]:
    """Maximise the likelihood of the labels under ``1 / (1 + exp(A f + B))``, by Newton's method."""
    positive, negative = weight[y > 0].sum(), weight[y < 0].sum()
    # Platt's targets: a little away from 0 and 1, so that separated values do not send A to infinity.
    target = np.where(y > 0, (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))
    A, B = 0.0, float(np.log((negative + 1.0) / (positive + 1.0)))
    loss = _sigmoid_loss(A, B, values, target, weight)
    for _ in range(100):
        p = expit(-(A * values + B))
        curvature, slope = weight * p * (1.0 - p), weight * (target - p)
        gradient = np.array([np.dot(slope, values), slope.sum()])
        if np.abs(gradient).max() < 1e-5:
            break
        cross = np.dot(curvature, values)
        hessian = np.array([[np.dot(curvature, values**2), cross], [cross, curvature.sum()]]) + 1e-12 * np.eye(2)
        step = -np.linalg.solve(hessian, gradient)
        length = 1.0
        while length > 1e-10:
            trial = _sigmoid_loss(A + length * step[0], B + length * step[1], values, target, weight)
            if trial < loss + 1e-4 * length * float(gradient @ step):
                A, B, loss = A + length * step[0], B + length * step[1], trial
                break
            length *= 0.5
        else:
            break
    return float(A), float(B)


def _sigmoid_loss(A: float, B: float, values: Vector, target: Vector, weight: Vector) -> float:
    z = A * values + B
    return float(np.dot(weight, np.logaddexp(0.0, z) - (1.0 - target) * z))


def sigmoid(values: Vector, A: Vector, B: Vector) -> Vector:
    """Return the probability of the first class of each pair: values (m, pairs), A, B (pairs,) → (m, pairs)."""
    return np.asarray(np.clip(expit(-(values * A + B)), CLIP, 1.0 - CLIP))


def couple(pairwise: Vector, k: int) -> Vector:
    """Find the class probabilities that agree best with those of the pairs: pairwise (m, k (k - 1) / 2) → (m, k).

    Minimises Σ_i Σ_{j≠i} (r_ji p_i - r_ij p_j)² over the simplex; the optimum is the solution of one linear system per
    row, and never negative.
    """
    if k == 2:
        return np.column_stack([pairwise[:, 0], 1.0 - pairwise[:, 0]])
    i, j = np.triu_indices(k, 1)
    r = np.zeros((len(pairwise), k, k))
    r[:, i, j], r[:, j, i] = pairwise, 1.0 - pairwise
    system = np.zeros((len(pairwise), k + 1, k + 1))
    system[:, :k, :k] = -r * r.transpose(0, 2, 1)
    diagonal = np.arange(k)
    system[:, diagonal, diagonal] = np.sum(r**2, axis=1)
    system[:, :k, k] = system[:, k, :k] = 1.0
    target = np.zeros((len(pairwise), k + 1, 1))
    target[:, k] = 1.0
    p = np.maximum(np.linalg.solve(system, target)[:, :k, 0], 0.0)
    return np.asarray(p / p.sum(axis=1, keepdims=True))
