"""Quadratic programs in a box: dual points of losses with kinks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

from gramian.verification.rows import Array

MOST = 200
"""Rows up to which such a program is solved; an active set changes about that often."""
RIDGES = (1e-2, 1e-4, 1e-6, 1e-8)
"""Ridges that make it a problem of least squares: shares of c that they change at the bounds."""
HEAVY = 1e3
"""The weight of the equation that the sum is zero, relative to the largest feature."""
TINIEST = 1e-300


def root_of(times: Callable[[Array], Array], n: int) -> Array:
    """Return F with ``FFᵀ = K``, from the product with K."""
    K = times(np.eye(n))
    values, vectors = np.linalg.eigh(0.5 * (K + K.T))
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def near_minimum(F: Array, c: Array, low: Array, high: Array, balanced: bool) -> Iterator[Array]:
    """Points in a box near the minimum of ``½ ‖Fᵀu‖² + cᵀu``, with ``Σu = 0`` if balanced: F (n, m), the rest (n,).

    With a small ridge δ² it is least squares, ``½ ‖Fᵀu‖² + ½ ‖δu + c/δ‖²``, which an active-set method solves.
    """
    free, size = high > low, max(float(np.abs(F).max(initial=0.0)), TINIEST)
    if not 0 < np.count_nonzero(free) <= MOST or not np.all(np.isfinite(high[free] - low[free])):
        return
    u = np.where(free, 0.0, low)
    width, slope = float(np.max(high[free] - low[free])), float(np.abs(c[free]).max())
    for ridge in np.sqrt(np.array(RIDGES) * max(slope, TINIEST) / width):
        A = np.vstack([F[free].T, ridge * np.eye(int(free.sum()))])
        b = np.concatenate([-F[~free].T @ u[~free], -c[free] / ridge])
        if balanced:
            A, b = np.vstack([A, np.full(A.shape[1], HEAVY * size)]), np.append(b, -HEAVY * size * u[~free].sum())
        bounds: Any = (low[free], high[free])
        found = u.copy()
        found[free] = lsq_linear(A, b, bounds, method="bvls", tol=1e-15).x
        yield found
