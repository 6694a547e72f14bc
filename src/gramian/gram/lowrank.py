"""Low-rank plus diagonal matrices F Fᵀ + D, solved by Woodbury in O(n m²)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramian.resources import spans

Array = NDArray[np.float64]

STRIP = 4096
"""Rows of the factor that are multiplied at a time."""


@dataclass(frozen=True, eq=False)
class LowRank:
    """The positive definite matrix ``F Fᵀ + diag(D)``, D > 0.

    With ``D = μ`` its inverse is ``(I - F (μI + FᵀF)⁻¹ Fᵀ) / μ``. Everything is computed in float64.

    Parameters
    ----------
    factor : array of shape (n, m)
        F; m may be zero.
    diagonal : float or array of shape (n,)
        D.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import LowRank
    >>> A = LowRank(np.ones((3, 1)), 2.0)
    >>> A.solve(A @ np.array([1.0, 2.0, 3.0])).round(12)
    array([1., 2., 3.])
    >>> bool(np.isclose(A.logdet(), np.linalg.slogdet(A.dense())[1]))
    True
    """

    factor: NDArray[Any]
    diagonal: float | NDArray[Any]

    def __post_init__(self) -> None:
        factor = np.asarray(self.factor, dtype=np.float64)
        diagonal = np.asarray(self.diagonal, dtype=np.float64)
        object.__setattr__(self, "factor", factor)
        if factor.ndim != 2:
            raise ValueError(f"factor must have shape (n, m), got {factor.shape}.")
        if diagonal.shape not in ((), (factor.shape[0],)):
            raise ValueError(f"diagonal must be a number or have shape {(factor.shape[0],)}, got {diagonal.shape}.")
        if not np.all(np.isfinite(diagonal)) or not np.all(diagonal > 0):
            raise ValueError("diagonal must be positive and finite; without it the matrix has no inverse.")
        if not np.all(np.isfinite(factor)):
            raise ValueError("factor must be finite.")

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return self.factor.shape[0], self.factor.shape[0]

    @property
    def rank(self) -> int:
        """Columns of the factor."""
        return int(self.factor.shape[1])

    @cached_property
    def _d(self) -> Array:
        return np.broadcast_to(np.asarray(self.diagonal, dtype=np.float64), self.shape[:1])

    @cached_property
    def _core(self) -> Array:
        """Lower Cholesky factor of I + Fᵀ D⁻¹ F, whose eigenvalues are all at least one."""
        level = bool(np.all(self._d == self._d[:1]))
        square = weighted_square(self.factor, None if level else 1.0 / np.sqrt(self._d)[:, None])
        square /= self._d[0] if level and self._d.size else 1.0
        return np.asarray(np.linalg.cholesky(np.eye(self.rank) + square), dtype=np.float64)

    def __matmul__(self, V: NDArray[Any]) -> NDArray[Any]:
        V = self._checked(V)
        return self.factor @ (self.factor.T @ V) + _rows(self._d, V) * V

    def solve(self, B: NDArray[Any]) -> Array:
        """Return the solution Z of ``(F Fᵀ + D) Z = B``: B (n,) or (n, k) → array of its shape."""
        B = self._checked(B)
        scaled = B / _rows(self._d, B)
        if self.rank == 0:
            return scaled
        inner = scipy.linalg.cho_solve((self._core.T, False), self.factor.T @ scaled, check_finite=False)
        return np.asarray(scaled - (self.factor @ inner) / _rows(self._d, B))

    def _checked(self, V: NDArray[Any]) -> Array:
        V = np.asarray(V, dtype=np.float64)
        if V.ndim not in (1, 2) or V.shape[0] != self.shape[0]:
            raise ValueError(f"expected shape ({self.shape[0]},) or ({self.shape[0]}, k), got {V.shape}.")
        return V

    def logdet(self) -> float:
        """Return ``log det(F Fᵀ + D)``."""
        return float(np.log(self._d).sum() + 2.0 * np.log(np.diagonal(self._core)).sum())

    def dense(self) -> NDArray[Any]:
        """Return the matrix itself, for small n: → (n, n)."""
        return self.factor @ self.factor.T + np.diag(self._d)


def weighted_square(F: NDArray[Any], scale: NDArray[Any] | None = None, dtype: Any = None) -> Array:
    """Return Fᵀ diag(scale)² F by strips, multiplied in a dtype, added up in float64: F (n, m), scale (n, 1) → (m, m).

    Ctrl-C is answered between strips, and no scaled copy of all of F is made.
    """
    total = np.zeros((F.shape[1], F.shape[1]))
    # In the memory order of F, so that the copy is contiguous on both sides.
    buffer = None if scale is None else np.empty_like(F[:STRIP], dtype=dtype)
    for rows in spans(F.shape[0], STRIP):
        strip = F[rows]
        if buffer is not None and scale is not None:
            strip = np.multiply(strip, scale[rows], out=buffer[: len(strip)], casting="same_kind")
        total += strip.T @ strip
    return total


def _rows(d: Array, V: NDArray[Any]) -> Array:
    return d if V.ndim == 1 else d[:, None]
