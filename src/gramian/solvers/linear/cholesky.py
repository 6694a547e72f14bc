"""Cholesky factorisation in place: L Lᵀ = A in a single n x n float64 array.

The lower triangle is overwritten by L; the strictly upper one still holds A. So if the factorisation fails, it can
be repeated with more on the diagonal (jitter), and residuals are computed with A itself, without a second matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from gramian.certificates import certify, relative_residuals
from gramian.progress import Clock, Tick, silent
from gramian.resources import spans
from gramian.solvers.solution import Solution

Array = NDArray[np.float64]

BLOCK = 512
"""Columns of a block of the factorisation."""
STRIP = 1024
"""Rows updated at a time; Ctrl-C takes effect between strips."""
SMALL = 4000
"""Rows up to which LAPACK factorises the whole matrix at once, in a fraction of a second."""
JITTER_LIMIT = 1e-4
"""Largest jitter, relative to the mean of the diagonal."""


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """A pivot was not positive, even with the largest jitter allowed."""

    def __init__(self, pivot: int, jitter: float) -> None:
        self.pivot, self.jitter = pivot, jitter
        tried = f" even with {jitter:.1e} added to its diagonal" if jitter else ""
        super().__init__(
            f"the matrix is not positive definite{tried}: the factorisation broke down at row {pivot}; "
            "add more regularisation, or look for duplicate rows or a kernel that is not positive semi-definite "
            "(is_kernel)."
        )


@dataclass(frozen=True, eq=False)
class Factor:
    """The Cholesky factor of A + jitter · I, and A itself."""

    packed: Array  # (n, n): L in the lower triangle, diagonal included; A above it
    diagonal: Array  # (n,): The diagonal of A, without jitter
    jitter: float  # Added to the diagonal; zero if A was positive definite

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.packed.shape[0])

    def lower(self) -> Array:
        """Return a copy of L: → (n, n)."""
        return np.tril(self.packed)

    def smallest_pivot(self) -> float:
        """Return the smallest squared diagonal entry of L."""
        return float(np.diagonal(self.packed).min(initial=np.inf) ** 2)

    def logdet(self) -> float:
        """Return log det(A + jitter · I)."""
        return 2.0 * float(np.log(np.diagonal(self.packed)).sum())

    def solve(self, B: NDArray[Any]) -> Array:
        """Return the solution Z of ``(A + jitter · I) Z = B``: B (n,) or (n, k)."""
        half = self.half_solve(B)
        Z = blas.dtrsm(1.0, self.packed.T, _columns(half), lower=0, overwrite_b=1)
        return np.asarray(Z.reshape(B.shape))

    def half_solve(self, B: NDArray[Any]) -> Array:
        """Return ``L⁻¹ B``: B (n,) or (n, k)."""
        Z = blas.dtrsm(1.0, self.packed.T, _columns(B), lower=0, trans_a=1)
        return np.asarray(Z.reshape(B.shape))

    def __matmul__(self, V: NDArray[Any]) -> Array:
        """``A @ V``, from the upper triangle, which still holds A, and its diagonal, meanwhile in the place of L's."""
        V, own = np.asarray(V, dtype=np.float64), np.diagonal(self.packed).copy()
        np.fill_diagonal(self.packed, self.diagonal)  # where A is small, that of L is larger and leaves rounding
        try:
            return np.asarray(blas.dsymm(1.0, self.packed.T, _columns(V), lower=1).reshape(V.shape))
        finally:
            np.fill_diagonal(self.packed, own)

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of (A + jitter · I)⁻¹, by strips of columns of L⁻¹: → (n,)."""
        out = np.empty(self.n)
        for columns in spans(self.n, BLOCK // 2):
            out[columns] = self._inverse_strip(columns)
        return out

    def _inverse_strip(self, columns: slice) -> Array:
        """Sums of squares of some columns of L⁻¹, which are zero above the diagonal."""
        width = columns.stop - columns.start
        strip = np.zeros((self.n - columns.start, width))
        np.fill_diagonal(strip, 1.0)
        for rows in spans(strip.shape[0], BLOCK):
            own = slice(columns.start + rows.start, columns.start + rows.stop)
            part = strip[rows] - self.packed[own, columns.start : own.start] @ strip[: rows.start]
            corner = np.asfortranarray(self.packed[own, own].T)
            strip[rows] = blas.dtrsm(1.0, corner, np.asfortranarray(part), lower=0, trans_a=1, overwrite_b=1)
        return np.asarray(np.einsum("ij,ij->j", strip, strip))

    def give_back(self) -> Array:
        """Restore A in the memory of the factor, which cannot be used afterwards: → (n, n)."""
        _mirror(self.packed)
        np.fill_diagonal(self.packed, self.diagonal)
        return self.packed


def cholesky(
    A: Array,
    *,
    jitter_limit: float = JITTER_LIMIT,
    clock: Clock | None = None,
    tick: Tick = silent,
) -> Factor:
    """Factorise a symmetric matrix in place, with as little jitter as needed: A (n, n).

    Nothing is added if A is positive definite; otherwise ``n · eps`` times the mean of the diagonal, multiplied by ten
    until the factorisation succeeds.
    """
    if A.dtype != np.float64 or not A.flags.c_contiguous or A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"A must be a square C-ordered float64 array, got {A.dtype} of shape {A.shape}.")
    diagonal = np.diagonal(A).copy()
    scale = float(np.abs(diagonal).mean())
    jitter, failed, step = 0.0, 0, A.shape[0] * float(np.finfo(np.float64).eps)
    for attempt in (0.0, *(step * 10.0**k for k in range(20) if step * 10.0**k <= jitter_limit)):
        if attempt:
            _mirror(A)
        jitter = attempt * scale
        np.fill_diagonal(A, diagonal + jitter)
        broken = _factorise(A, clock or Clock(), tick)
        if broken is None:
            return Factor(A, diagonal, jitter)
        failed = broken
    _mirror(A)
    np.fill_diagonal(A, diagonal)
    raise NotPositiveDefiniteError(failed, jitter)


def _mirror(A: Array) -> None:
    """Copy the upper triangle to the lower one."""
    for rows in spans(A.shape[0], BLOCK):
        A[rows, : rows.start] = A[: rows.start, rows].T
        block = A[rows, rows]
        block[...] = np.triu(block) + np.triu(block, 1).T


def _factorise(A: Array, clock: Clock, tick: Tick) -> int | None:
    """Left-looking factorisation by blocks of columns; returns the row of the first pivot <= 0, or None."""
    n = A.shape[0]
    for columns in spans(n, n if n <= SMALL else BLOCK):
        if clock.expired:
            raise TimeoutError(f"max_time passed after {columns.start} of {n} columns were factorised.")
        failed = _diagonal_block(A, columns)
        if failed is not None:
            return columns.start + failed
        top = A[columns, : columns.start]
        corner = np.asfortranarray(A[columns, columns].T)
        for start in range(columns.stop, n, STRIP):
            rows = slice(start, min(start + STRIP, n))
            strip = A[rows, columns] - A[rows, : columns.start] @ top.T
            A[rows, columns] = blas.dtrsm(1.0, corner, strip.T, lower=0, trans_a=1, overwrite_b=1).T
        tick((columns.stop / n) ** 2 * (3.0 - 2.0 * columns.stop / n))
    return None


def _diagonal_block(A: Array, columns: slice) -> int | None:
    left, corner = A[columns, : columns.start], A[columns, columns]
    whole = corner.size == A.size  # in place: with clean=0, LAPACK does not touch the other triangle
    lower, info = lapack.dpotrf((A if whole else corner - left @ left.T).T, lower=0, clean=0, overwrite_a=1)
    if info != 0 or not np.all(np.isfinite(np.diagonal(lower))):
        return max(int(info) - 1, 0)
    if not whole:
        corner[...] = np.tril(lower.T) + np.triu(corner, 1)
    return None


def _columns(B: NDArray[Any]) -> Array:
    B = np.asarray(B, dtype=np.float64)
    return np.asfortranarray(B.reshape(B.shape[0], -1))


def solve(
    A: Array,
    B: NDArray[Any],
    *,
    tol: float = 1e-8,
    jitter_limit: float = 0.0,
    clock: Clock | None = None,
    tick: Tick = silent,
) -> tuple[Solution, Factor]:
    """Solve ``A Z = B`` for a positive definite A, with one step of iterative refinement if that helps."""
    clock = clock or Clock()
    factor = cholesky(A, jitter_limit=jitter_limit, clock=clock, tick=tick)
    return solve_with(factor, B, tol, clock), factor


def solve_with(factor: Any, B: NDArray[Any], tol: float, clock: Clock) -> Solution:
    """Solve with a factor, with one step of refinement if that helps; ``factor @ Z`` multiplies by the matrix."""
    Z = factor.solve(B)
    R = B - factor @ Z
    residuals = relative_residuals(R, B)
    if np.any(residuals > tol):
        better = Z + factor.solve(R)
        refined = relative_residuals(B - factor @ better, B)
        Z = np.where(refined < residuals, better, Z)
        residuals = np.minimum(refined, residuals)
    why = "the matrix is too ill-conditioned for the rounding of float64; regularise more."
    certificate = certify("residual", residuals.max(initial=0.0), tol, why, seconds=clock.seconds)
    return Solution(Z, certificate)
