"""Exact leave-one-out for squared loss, for a whole grid of ridges from one eigendecomposition.

The leave-one-out residual has a closed form: e_i = α_i / [(K + μI)⁻¹]_ii is y_i minus the prediction at x_i of the fit
without row i.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramian.resources import answering, spans

Array = NDArray[np.float64]
Decompose = Callable[[Array], tuple[Array, Array]]
"""From a symmetric matrix to its eigenvalues, ascending, and their vectors."""

ROWS = 512
"""Rows of the eigenvector matrix squared at a time."""


@dataclass(frozen=True, eq=False)
class Eigenbasis:
    """The eigendecomposition K = Q diag(s) Qᵀ."""

    vectors: Array  # (n, n): Q, orthonormal columns
    values: Array  # (n,): s

    @classmethod
    def of_matrix(cls, K: Array, decompose: Decompose = np.linalg.eigh) -> Eigenbasis:
        """Decompose a Gram matrix: K (n, n)."""
        values, vectors = answering(lambda: decompose(K))
        rounding = K.shape[0] * np.finfo(np.float64).eps * float(np.abs(values).max(initial=0.0))
        if values[0] < -100.0 * rounding:
            raise np.linalg.LinAlgError(
                f"the kernel is not positive semi-definite on these rows: K has the eigenvalue {values[0]:.3g} < 0."
            )
        return cls(vectors, np.maximum(values, 0.0))

    def dual(self, B: Array, ridge: float | Array) -> Array:
        """Return ``(K + ridge_j I)⁻¹ b_j``: B (n, k), ridge (k,) → (n, k)."""
        ridge = np.broadcast_to(np.asarray(ridge, dtype=np.float64), B.shape[1:])
        inside = self.vectors.T @ B
        return np.asarray(self.vectors @ (inside / (self.values[:, None] + ridge)))

    def inverse_diagonal(self, ridges: Array) -> Array:
        """Return the diagonals of ``(K + ridge I)⁻¹`` for several ridges: ridges (g,) → (n, g)."""
        out = np.empty((self.vectors.shape[0], ridges.size))
        weights = 1.0 / (self.values[:, None] + ridges)
        for rows in spans(out.shape[0], ROWS):
            out[rows] = self.vectors[rows] ** 2 @ weights
        return out

    def residuals(self, B: Array, ridge: float | Array) -> Array:
        """Return the leave-one-out residuals at one ridge per target: B (n, k), ridge (k,) → (n, k)."""
        ridge = np.broadcast_to(np.asarray(ridge, dtype=np.float64), B.shape[1:])
        return np.asarray(self.dual(B, ridge) / self.inverse_diagonal(ridge))

    def path(self, B: Array, ridges: Array) -> Array:
        """Return the sums of squares of the leave-one-out residuals over a grid: B (n, k), ridges (g,) → (g, k)."""
        diagonals = self.inverse_diagonal(ridges)
        scores = [((self.dual(B, r) / diagonals[:, [i]]) ** 2).sum(axis=0) for i, r in enumerate(ridges)]
        return np.array(scores)


def default_grid(values: Array) -> Array:
    """Return ridges from the largest eigenvalue down to the level of rounding: values (m,) → (25,)."""
    top = float(values.max(initial=0.0))
    return np.geomspace(1e-10, 1.0, 25) * (top if top > 0 else 1.0)
