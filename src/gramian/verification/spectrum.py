"""Kernel principal components: the residual of every eigenvalue, relative to itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian.certificates import Certificate
from gramian.verification.rows import EPS, Array, Data, dense, product

__all__ = ["components"]

SOLVED = {"randomized": 1e-2, "dense": 1e-8, "lanczos": 1e-5, "arpack": 1e-5}
"""What ``tol=0`` asks of each solver."""
ORTHOGONAL = 1e-6
DENSE = 1000
"""Rows up to which the choice is a dense one."""


def components(model: Any, data: Data) -> Certificate:
    """``max_j ‖K v_j - λ_j v_j‖ / λ_j``, K centred where the model centres."""
    V, values = np.asarray(model.eigenvectors_, dtype=np.float64), np.asarray(model.eigenvalues_, dtype=np.float64)
    if V.shape[0] != data.n:
        raise ValueError(f"the model was fitted to {V.shape[0]} rows, got {data.n}; pass the same rows.")
    live = values > 0
    R = np.linalg.norm(_times(model, data, V) - V * values, axis=0)
    # Rounding excuses a residual, which is then relative to the largest; but not of an eigenvalue without two digits.
    excused = np.minimum(_rounding(model, data, values), values / 100.0) >= R
    worst = float(np.max(R[live] / np.where(excused, values.max(initial=0.0), values)[live], initial=0.0))
    tol = model.tol or SOLVED.get(model.eigen_solver, 1e-8 if data.n <= DENSE else 1e-5)
    faults = [] if worst <= tol else [f"a residual of {worst:.1e} of its eigenvalue is above {tol:.0e}"]
    off = float(np.abs(V[:, live].T @ V[:, live] - np.eye(int(live.sum()))).max(initial=0.0))
    if off > ORTHOGONAL:
        faults.append(f"the components are not orthogonal, by {off:.1e}")
    return Certificate(
        kind="eigen-residual",
        violation=worst,
        converged=not faults,
        iterations=model.certificate_.iterations,
        seconds=model.certificate_.seconds,
        message="; ".join(faults),
    )


def _rounding(model: Any, data: Data, values: Array) -> float:
    """What float64 may leave of a residual: relative to the norm of K before it was centred."""
    one = np.full((data.n, 1), data.n**-0.5)
    offset = float(np.abs(one.T @ _uncentred(model, data, one)).item()) if model.center else 0.0
    lost = 1.0
    if hasattr(model, "approximation_") and hasattr(model.approximation_, "normalization_"):
        # Features are made with the inverse of a factor, which loses as many digits as it has to spare.
        largest = float(np.abs(model.kernel_.diag(data.X)).max())
        lost = max(float(np.linalg.norm(model.approximation_.normalization_)) * largest**0.5, 1.0)
    return 64.0 * EPS * lost * (float(values.max(initial=0.0)) + offset)


def _uncentred(model: Any, data: Data, V: Array) -> Array:
    """K V."""
    if hasattr(model, "approximation_"):
        F = dense(model.approximation_.transform(data.X))
        return np.asarray(F @ (F.T @ V))
    return np.asarray(product(model.kernel_, data.X, None, V, data.memory))


def _times(model: Any, data: Data, V: Array) -> Array:
    """K V, centred on both sides where the model centres."""
    inner = V - V.mean(axis=0) if model.center else V
    KV = _uncentred(model, data, inner)
    return np.asarray(KV - KV.mean(axis=0) if model.center else KV)
