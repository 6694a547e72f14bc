"""Steps of Newton's method with a Hessian that is kept, and what later gradients tell of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

__all__ = ["Curvature"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Curvature:
    """The Hessian of an objective at some point, corrected by gradients at others (Nocedal, 1980)."""

    factors: tuple[Any, ...]  # Cholesky factors, or matrices that have none: of all functions, or one for each
    constants: int  # The row at which the constants of functions stand, below their weights
    pairs: tuple[tuple[Array, Array], ...] = ()  # Steps since, and by how much the gradient changed

    @classmethod
    def of(cls, H: Array, mu: float, m: int, rows: int) -> Curvature:
        """Factor the Hessian of data terms and penalty for (rows, k) unknowns: H (k rows, k rows), or its blocks."""
        return cls(tuple(_factored(A, mu, m, rows) for A in (H if H.ndim == 3 else H[None])), m)

    def learned(self, step: Array, change: Array) -> Curvature:
        """Return what is known after one more step: step, change (m, k) or (m + 1, k)."""
        if not np.sum(step * change) > 1e-8 * np.linalg.norm(step) * np.linalg.norm(change):
            return self
        return replace(self, pairs=(*self.pairs, (step, change)))

    def step(self, slope: Array) -> Array:
        """Return Newton's step: slope (m, k) or (m + 1, k)."""
        right, shares = -slope, []
        for step, change in reversed(self.pairs):
            share = float(np.sum(step * right) / np.sum(step * change))
            shares.append(share)
            right = right - share * change
        out = self._solved(right)
        for (step, change), share in zip(self.pairs, reversed(shares), strict=True):
            out = out + (share - float(np.sum(change * out) / np.sum(step * change))) * step
        if slope.shape[1] > 1:
            # Constants of coupled functions count by their differences: keep them at sum zero.
            out[self.constants :] -= out[self.constants :].mean(axis=1, keepdims=True)
        return out

    def _solved(self, right: Array) -> Array:
        blocks = np.split(right.T.ravel(), len(self.factors))
        found = np.concatenate([_solution(factor, b) for factor, b in zip(self.factors, blocks, strict=True)])
        return np.array(found, dtype=np.float64).reshape(right.T.shape).T


def _factored(H: Array, mu: float, m: int, rows: int) -> Any:
    """A Cholesky factor of a Hessian with the penalty, or the matrix itself where it has none."""
    ridge = np.full((H.shape[0] // rows, rows), mu)
    # A constant is not penalised; where nothing bends under it, or only its difference to others counts, it stays.
    ridge[:, m:] = 1e-12 * (float(np.trace(H)) / H.shape[0] + mu)
    A = H.copy()
    A[np.diag_indices_from(A)] += ridge.ravel()
    try:
        return cho_factor(A, check_finite=False)
    except LinAlgError:
        return A


def _solution(factor: Any, right: Array) -> Array:
    if isinstance(factor, tuple):
        return np.asarray(cho_solve(factor, right, check_finite=False))
    return np.asarray(np.linalg.lstsq(factor, right, rcond=None)[0])
