"""Landmarks: the factor K ≈ F Fᵀ that a few rows of X give, whichever rule chose them.

What F Fᵀ misses is the trace error tr(K - F Fᵀ) / tr K: the mean of what is left on the diagonal, for K - F Fᵀ is
positive semi-definite (Nyström = partial Cholesky).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramian.gram.operator import Gram
from gramian.resources import run, spans

__all__ = ["Pivots", "Seed", "checked", "checked_tol", "done", "factorise", "inverse", "rounding_floor"]

BLOCK = 256
"""Landmarks that are eliminated at a time."""
ROWS = 1024
"""Rows of F that a thread makes at a time."""

Seed = int | np.random.RandomState | None


@dataclass(frozen=True, eq=False)
class Pivots:
    """Landmarks and the low-rank factor they span.

    Parameters
    ----------
    indices : array of shape (r,)
        Rows of X, in the order in which they were chosen.
    factor : array of shape (n, r)
        F with ``K ≈ F Fᵀ``, exact on the landmarks; float64 unless asked otherwise.
    residual : array of shape (n,)
        Diagonal of ``K - F Fᵀ``, never negative.
    trace_error : float
        ``tr(K - F Fᵀ) / tr K``.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, greedy
    >>> from gramian.kernels import Linear
    >>> p = greedy(Gram(Linear(), np.eye(3)[:, :2]), 3)
    >>> p.rank, p.trace_error
    (2, 0.0)
    """

    indices: NDArray[np.intp]
    factor: NDArray[Any]
    residual: NDArray[np.float64]
    trace_error: float

    @property
    def rank(self) -> int:
        """Number of landmarks."""
        return int(self.indices.size)


def checked(gram: Gram, rank: int) -> NDArray[np.float64]:
    """Return the diagonal of K, or raise if it is negative somewhere or the rank is impossible: → (n,)."""
    n = gram.shape[0]
    if isinstance(rank, bool) or not isinstance(rank, Integral) or not 1 <= rank <= n:
        raise ValueError(f"rank must be a whole number between 1 and the number of rows, {n}; got {rank!r}.")
    diagonal = gram.diagonal().astype(np.float64)
    if not np.all(np.isfinite(diagonal)):
        raise ValueError("k(x, x) overflows on these rows; scale them down or normalise the kernel.")
    if np.any(diagonal < 0):
        raise ValueError(
            f"the kernel has k(x, x) = {diagonal.min():.3g} < 0 on these rows, so it is not positive semi-definite."
        )
    return diagonal


def checked_tol(tol: float) -> float:
    """Return a tolerance, or say why it is none."""
    if not 0 <= tol < np.inf:
        raise ValueError(f"tol must be a number >= 0, got {tol!r}.")
    return float(tol)


def rounding_floor(gram: Gram, diagonal: NDArray[np.float64]) -> float:
    """Return the residual below which a pivot is rounding, not information: diagonal (n,)."""
    return float(10.0 * gram.rounding * diagonal.max(initial=0.0))


def done(indices: Any, factor: NDArray[Any], diagonal: NDArray[np.float64], residual: NDArray[np.float64]) -> Pivots:
    """Return what was chosen, with its trace error: factor (n, r), diagonal, residual (n,)."""
    indices = np.asarray(indices, dtype=np.intp)
    trace = float(diagonal.sum())
    residual = np.maximum(residual, 0.0)
    error = float(residual.sum()) / trace if trace > 0 else 0.0
    return Pivots(indices, factor, residual, error)


def factorise(gram: Gram, indices: NDArray[np.intp], diagonal: NDArray[np.float64] | None = None) -> Pivots:
    """Return the Nyström factor of given landmarks, by a Cholesky factorisation of their block, pivoted if need be."""
    indices = np.asarray(indices, dtype=np.intp)
    diagonal = gram.diagonal().astype(np.float64) if diagonal is None else diagonal
    block = gram.rows(indices, indices).astype(np.float64)
    lower, order, rank = _pivoted_cholesky(block, rounding_floor(gram, diagonal))
    kept = indices[order[:rank]]
    factor = np.empty((gram.shape[0], rank))
    L, single = lower[:rank, :rank], gram.on(1)
    blocks = [(part, inverse(L[part, part]).T) for part in spans(rank, BLOCK)]

    def solve(rows: slice) -> None:
        strip = single.rows(rows, kept, np.empty((rows.stop - rows.start, rank)))
        for part, inverse in blocks:
            strip[:, part] -= factor[rows, : part.start] @ L[part, : part.start].T
            np.matmul(strip[:, part], inverse, out=factor[rows, part])

    run(solve, spans(gram.shape[0], ROWS), gram.workers)
    residual = diagonal - np.einsum("ij,ij->i", factor, factor)
    residual[kept] = 0.0
    return done(kept, factor, diagonal, residual)


def _pivoted_cholesky(A: NDArray[np.float64], floor: float) -> tuple[NDArray[np.float64], NDArray[np.intp], int]:
    """In the order given where every pivot is more than rounding; else by pivots, as far as they are."""
    try:
        lower = np.asarray(np.linalg.cholesky(A), dtype=np.float64)
        if np.all(np.diagonal(lower) ** 2 > floor):
            return lower, np.arange(len(A)), len(A)
    except np.linalg.LinAlgError:
        pass
    c, order, rank, _ = scipy.linalg.lapack.dpstrf(A, tol=floor, lower=1)
    return np.tril(c), np.asarray(order, dtype=np.intp) - 1, int(rank)


def inverse(lower: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the inverse of a small triangular matrix, for threads that multiply by it: lower (b, b) → (b, b).

    SciPy's triangular solves let no other thread run.
    """
    identity = np.eye(len(lower))
    return np.asarray(scipy.linalg.solve_triangular(lower, identity, lower=True, check_finite=False))
