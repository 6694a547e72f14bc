"""Pre-images: points whose feature vectors are nearest to given linear combinations of feature vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gramian.kernels import Kernel
from gramian.progress import Clock

Array = NDArray[np.float64]


def fixed_point(
    kernel: Kernel,
    X: Array,
    weights: Array,
    start: Array,
    *,
    tol: float = 1e-6,
    max_iter: int = 200,
    clock: Clock | None = None,
) -> tuple[Array, NDArray[np.bool_]]:
    """Find z with φ(z) near Σ_i γ_i φ(x_i), for the RBF kernel (Mika et al., 1999).

    The maximiser z of ``Σ_i γ_i k(z, x_i)`` is a fixed point of ``z → Σ_i γ_i k(z, x_i) x_i / Σ_i γ_i k(z, x_i)``. A
    step that does not increase the sum, which can happen if some γ are negative, is halved. Returns the points (m, d),
    and which of them moved less than ``tol`` in their last step (m,).
    """
    clock = clock or Clock()
    Z, target = start.copy(), start.copy()
    m = Z.shape[0]
    height, step = np.full(m, -np.inf), np.ones(m)
    moving, converged = np.ones(m, dtype=bool), np.zeros(m, dtype=bool)
    small = tol * max(float(X.std(axis=0).max()), np.finfo(float).tiny)
    for _ in range(max_iter):
        if clock.expired or not moving.any():
            break
        at = np.flatnonzero(moving)
        trial = Z[at] + step[at, None] * (target[at] - Z[at])
        pull = weights[at] * np.asarray(kernel(trial, X))
        total = pull.sum(axis=1)
        rises = total >= height[at]
        step[at[~rises]] *= 0.5
        # The iteration needs a positive sum; otherwise the point stays where it is.
        moving[at[rises & (total <= 0)]] = False
        good = rises & (total > 0)
        up = at[good]
        Z[up], height[up], step[up] = trial[good], total[good], 1.0
        target[up] = (pull[good] @ X) / total[good, None]
        # A step too short to increase the sum, because of rounding, has also converged.
        converged[at] = (total > 0) & (np.abs(step[at, None] * (target[at] - Z[at])).max(axis=1, initial=0.0) <= small)
        moving[at[converged[at]]] = False
    return Z, converged
