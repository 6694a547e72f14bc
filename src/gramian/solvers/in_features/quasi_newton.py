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

    factor: Any  # A Cholesky factor, or the matrix itself where it has none
    constants: int  # The row at which the constants of functions stand, below their weights
    pairs: tuple[tuple[Array, Array], ...] = ()  # Steps since, and by how much the gradient changed

    @classmethod
    def of(cls, H: Array, mu: float, m: int, shape: tuple[int, ...]) -> Curvature:
        """Factor the Hessian of data terms, and of the penalty: H (k m, k m) or (k (m + 1), k (m + 1))."""
        rows, k = shape
        ridge = np.full((k, rows), mu)
        # A constant is not penalised; where nothing bends under it, or only its difference to others counts, it stays.
        ridge[:, m:] = 1e-12 * (float(np.trace(H)) / H.shape[0] + mu)
        A = H.copy()
        A[np.diag_indices_from(A)] += ridge.ravel()
        try:
            return cls(cho_factor(A, check_finite=False), m)
        except LinAlgError:
            return cls(A, m)

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
        flat = right.T.ravel()
        if isinstance(self.factor, tuple):
            found = cho_solve(self.factor, flat, check_finite=False)
        else:
            found = np.linalg.lstsq(self.factor, flat, rcond=None)[0]
        return np.array(found, dtype=np.float64).reshape(right.T.shape).T
