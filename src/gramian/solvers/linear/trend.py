"""Trend functions, added to f without penalty: the bordered system, solved by projection.

With the values T of these functions at the rows, ``[[A, T], [Tᵀ, 0]] [α; β] = [y; 0]``. With T = QR and P = I - QQᵀ, α
solves ``(P A P + τ QQᵀ) α = P y``, and ``β = R⁻¹ Qᵀ (y - A α)``. That system is positive definite if A is so on the
orthogonal complement of T, which is all that conditionally positive definite kernels guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from gramian.kernels.points import dense
from gramian.resources import spans

IDENTIFIED = 1e-10
"""Smallest singular value, relative to the largest, of linearly independent columns scaled to unit length."""
STRIP = 512
"""Rows projected at a time."""

Array = NDArray[np.float64]


def columns(trend: Any, X: Any) -> Array:
    """Return the values of a trend, given by name, as a fitted map or as a function of rows: X (m, d) → (m, q)."""
    n = X.shape[0]
    if isinstance(trend, str):
        ones = np.ones((n, 1))
        return ones if trend == "constant" else np.hstack([ones, dense(X, np.float64)])
    T = trend.transform(X) if hasattr(trend, "transform") else trend(X)
    T = dense(T, np.float64)
    T = T[:, None] if T.ndim == 1 else T
    if T.ndim != 2 or T.shape[0] != n:
        raise ValueError(f"trend must give one row of numbers for each of {n} rows, got shape {T.shape}.")
    return T


@dataclass(frozen=True, eq=False)
class TrendBasis:
    """The QR decomposition T = Q R of linearly independent columns."""

    Q: Array  # (n, q): Orthonormal columns
    R: Array  # (q, q): Upper triangular

    @classmethod
    def of(cls, T: Array) -> TrendBasis:
        """Decompose columns; raises ``ValueError`` if they are linearly dependent: T (n, q)."""
        n, q = T.shape
        size = np.linalg.norm(T, axis=0)
        if not np.all(np.isfinite(size)):
            raise ValueError("the trend has entries that are not finite; rescale its columns.")
        singular = np.linalg.svd(T / np.where(size > 0, size, 1.0), compute_uv=False)
        if n < q or np.any(size == 0) or singular[-1] <= IDENTIFIED * singular[0]:
            rank = int(np.count_nonzero(singular > IDENTIFIED * singular[0])) - int(np.any(size == 0) and n >= q)
            raise ValueError(
                f"the trend is not identified: its {q} columns at {n} rows have rank {max(min(rank, n), 0)}, as "
                "constant or repeated columns of X make it; remove these columns, or take fewer functions."
            )
        # Beside a constant, columns far from zero that hardly vary keep their digits once they are centred.
        centres = np.eye(q)
        if np.ptp(T[:, 0]) == 0.0:
            centres[0, 1:] = T[:, 1:].mean(axis=0) / T[0, 0]
            T = np.column_stack([T[:, 0], T[:, 1:] - T[0, 0] * centres[0, 1:]])
            size = np.linalg.norm(T, axis=0)
        Q, R = np.linalg.qr(T / size)
        return cls(np.asarray(Q), np.asarray((R * size) @ centres))

    def residual(self, Y: Array) -> Array:
        """Return P y: Y (n, k) → (n, k)."""
        return np.asarray(Y - self.Q @ (self.Q.T @ Y))

    def coefficients(self, Y: Array) -> Array:
        """Return the least-squares coefficients ``R⁻¹ Qᵀ y``: Y (n, k) → (q, k)."""
        return np.asarray(solve_triangular(self.R, self.Q.T @ Y))

    def project(self, A: Array, tau: float) -> None:
        """Replace a symmetric matrix by ``P A P + τ QQᵀ``, in place: A (n, n)."""
        Q = self.Q
        U = A @ Q
        U -= 0.5 * Q @ (Q.T @ U + tau * np.eye(Q.shape[1]))
        for rows in spans(A.shape[0], STRIP):
            A[rows] -= Q[rows] @ U.T + U[rows] @ Q.T

    def put_into(self, A: Array) -> float:
        """Project a matrix in place, with τ of the size of its entries, and return τ: A (n, n)."""
        tau = max((float(np.abs(A[rows]).max()) for rows in spans(A.shape[0], STRIP)), default=0.0) or 1.0
        self.project(A, tau)
        return tau

    def leverages(self) -> Array:
        """Return the diagonal of QQᵀ: → (n,)."""
        return np.asarray(np.einsum("ij,ij->i", self.Q, self.Q))
