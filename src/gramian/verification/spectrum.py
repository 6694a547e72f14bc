"""Kernel principal components: the residual of every eigenvalue, relative to itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gramian.certificates import Certificate
from gramian.verification.rows import EPS, SAME, Array, Data, found, product

SOLVED = {"randomized": 1e-2, "dense": 1e-8, "lanczos": 1e-5, "arpack": 1e-8}
"""The tolerance of each solver for ``tol=0``."""
ORTHOGONAL = 1e-6
DENSE = 1000
"""Up to this many rows the automatic solver is a dense one."""
FLOOR = {"dense": 1e-12, "others": 1e-5}
"""Eigenvalues below this fraction of the largest may be taken for zero, by a dense solver in double precision."""
STEPS = 10
"""Steps of subspace iteration in the search for an eigenvalue that is missing."""


def components(model: Any, data: Data) -> Certificate:
    """``max_j ‖K v_j - λ_j v_j‖ / λ_j``, K centred if the model centres it."""
    V, values = np.asarray(model.eigenvectors_, dtype=np.float64), np.asarray(model.eigenvalues_, dtype=np.float64)
    if V.shape[0] != data.n:
        raise ValueError(f"the model was fitted to {V.shape[0]} rows, got {data.n}; pass the same rows.")
    F = data.features(model) if hasattr(model, "approximation_") else None

    def times(V: Array) -> Array:
        return product(model.kernel_, data.X, None, V, data.memory) if F is None else F @ (F.T @ V)

    KV = times(V - V.mean(axis=0) if model.center else V)
    R = np.linalg.norm((KV - KV.mean(axis=0) if model.center else KV) - V * values, axis=0)
    # What float64 may leave of a residual is relative to the norm of K before it was centred; that is then relative to
    # the largest eigenvalue, but an eigenvalue without two digits is not excused.
    largest, live, one = values.max(initial=0.0), values > 0, np.full((data.n, 1), data.n**-0.5)
    top = largest + (abs((one.T @ times(one)).item()) if model.center else 0.0)
    lost, error = np.full(values.size, 64.0 * EPS * top), R
    if F is not None:
        # Eigenvectors F w / √λ have the rounding of F, divided by √λ; the digits of λ = ‖Fᵀv‖² do not suffer.
        lost[live] *= np.sqrt(np.maximum(top / values[live], 1.0))
        error = np.abs(np.sum((F.T @ (V - V.mean(axis=0) if model.center else V)) ** 2, axis=0) - values)
    if hasattr(getattr(model, "approximation_", None), "normalization_"):
        # Features are computed with the inverse of a factor, which loses digits if its condition number is large.
        scale = float(np.abs(model.kernel_.diag(data.X)).max()) ** 0.5
        lost *= max(float(np.linalg.norm(model.approximation_.normalization_)) * scale, 1.0)
    excused = (lost >= R) & (values >= 100.0 * error)
    worst = float(np.max(R[live] / np.where(excused, largest, values)[live], initial=0.0))
    if not live.any() and np.any(lost < R):
        worst = np.inf  # all eigenvalues are said to be zero, and K is not
    tol = model.tol or SOLVED.get(model.eigen_solver, 1e-8 if data.n <= DENSE else 1e-5)
    faults = [] if worst <= tol else [f"a residual of {worst:.1e} of its eigenvalue is above {tol:.0e}"]
    off = float(np.abs(V[:, live].T @ V[:, live] - np.eye(int(live.sum()))).max(initial=0.0))
    least = float(values[live].min(initial=max(largest, 1e-300)))
    # Eigenvectors through features are as orthogonal as the eigenvalues of their moments allow.
    if off > ORTHOGONAL + (0.0 if F is None else 64.0 * EPS * largest / least):
        faults.append(f"the components are not orthogonal, by {off:.1e}")
    kept, rest = values[live], _next(times, V[:, live], values[live], model.center)
    # Components of eigenvalue zero are left out, so the smallest is known only if as many were found as asked for.
    complete = kept.size == min(model.n_components or data.n, data.n)
    dense = model.eigen_solver == "dense" or (model.eigen_solver == "auto" and data.n <= DENSE)
    sharp = dense and F is None and getattr(model.X_fit_, "dtype", None) == np.float64
    beside = kept.min() if complete and kept.size else FLOOR["dense" if sharp else "others"] * largest
    beside *= 2.0 if model.eigen_solver == "randomized" else 1.01
    bound = lost.max(initial=64.0 * EPS * top)
    # What is left out has fewer than two digits, and residuals show how many there are.
    noise = min(bound, 4.0 * max(float(R[live].max(initial=0.0)), EPS * top)) if sharp and kept.size else bound
    if rest > beside + 100.0 * noise:
        faults.append(f"an eigenvalue of {rest:.3g} or more is missing")
    if not model.kernel_.tells_copies:  # Otherwise a row is not the same row when it comes again
        T = np.asarray(model.transform(data.given))
        apart = np.linalg.norm(T - V * np.sqrt(values), axis=0) if T.shape == V.shape else np.full(values.size, np.inf)
        allowed = 4.0 * (R + 100.0 * lost) / np.sqrt(np.where(live, values, np.inf)) + SAME * np.sqrt(largest * data.n)
        if F is not None and T.dtype == np.float32:  # of features that were rounded before they were centred
            allowed += SAME * math.sqrt(top)
        if not np.all(apart <= allowed):
            faults.append(f"projections differ by up to {apart.max():.1e} from those of the components")
    rounding = float(np.max(lost[live] / values[live], initial=0.0))
    return found(model, "eigen-residual", faults, violation=worst, rounding=rounding)


def _next(times: Callable[[Array], Array], V: Array, values: Array, center: bool) -> float:
    """A lower bound on the largest eigenvalue of K that is not among ``values``: V (n, r)."""

    def deflated(Q: Array) -> Array:
        Q = Q - Q.mean(axis=0) if center else Q
        R = times(Q) - V @ (values[:, None] * (V.T @ Q))
        return R - R.mean(axis=0) if center else R

    Q = np.random.RandomState(0).standard_normal((V.shape[0], 2))
    for _ in range(STEPS):
        Q = np.linalg.qr(deflated(Q))[0]
    return float(np.linalg.eigvalsh(Q.T @ deflated(Q)).max())
