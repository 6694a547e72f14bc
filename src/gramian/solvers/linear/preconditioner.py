"""The preconditioner (F Fᵀ + μI)⁻¹ of conjugate gradients, limited by the memory bandwidth of reading F."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramian.gram import Gram
from gramian.gram.lowrank import weighted_square
from gramian.resources import run, spans

STRIP = 2048
"""Rows of F multiplied at a time; fixed, so that sums do not depend on the number of threads."""
HARMLESS = 0.1
"""The most that rounding to single precision may move an eigenvalue, relative to μ."""

SAMPLE = 500
"""Rows from which the order of magnitude of the largest eigenvalue is estimated."""

Array = NDArray[np.float64]


class Preconditioner:
    """Solve with ``F Fᵀ + μI`` for several μ, by Woodbury.

    Every application reads F twice, so F is kept in single precision if its rounding is below μ (``narrow_enough``).
    """

    def __init__(self, factor: NDArray[Any], ridges: Array, workers: int = 1) -> None:
        square = weighted_square(factor)
        self._cores = {float(ridge): _core(square, float(ridge)) for ridge in np.unique(ridges)}
        self.factor, self.workers, self._strips = factor, workers, spans(factor.shape[0], STRIP)

    @property
    def nbytes(self) -> int:
        """Bytes of F and the cores."""
        return int(self.factor.nbytes + sum(core.nbytes for core in self._cores.values()))

    def solve(self, R: Array, ridges: Array) -> Array:
        """Solve for every column with its own μ: R (n, k), ridges (k,) → (n, k)."""
        if self.factor.shape[1] == 0:
            return R / ridges
        narrow = R.astype(self.factor.dtype, copy=False)
        parts: list[NDArray[Any]] = run(lambda s: self.factor[s].T @ narrow[s], self._strips, self.workers)
        inner: Array = np.asarray(np.sum(parts, axis=0, dtype=np.float64))  # Fᵀ R
        for ridge in np.unique(ridges):
            columns = ridges == ridge
            core = (self._cores[float(ridge)].T, False)  # Fortran order, so that nothing is copied
            inner[:, columns] = scipy.linalg.cho_solve(core, inner[:, columns] / ridge, check_finite=False)
        return self._outer(R, inner, ridges)

    def _outer(self, R: Array, inner: Array, ridges: Array) -> Array:
        """(R - F inner) / μ."""
        Z = np.empty_like(R)
        narrow = inner.astype(self.factor.dtype, copy=False)

        def strip(rows: slice) -> None:
            Z[rows] = (R[rows] - self.factor[rows] @ narrow) / ridges

        run(strip, self._strips, self.workers)
        return Z


def narrow_enough(gram: Gram, scale: Array, ridge: float) -> bool:
    """Whether K in ``S K S + ridge · I`` may be rounded to single precision: scale (n, 1) or (1, 1)."""
    n = gram.shape[0]
    sample = np.unique(np.linspace(0, n - 1, SAMPLE).astype(np.intp))
    K = gram.rows(sample, sample).astype(np.float64)
    greatest = float(np.abs(K).sum(axis=1).max()) * n / sample.size * float(scale.max()) ** 2
    return float(np.finfo(np.float32).eps) * greatest <= HARMLESS * ridge


def _core(square: Array, ridge: float) -> Array:
    """Lower Cholesky factor of I + FᵀF/μ."""
    # NumPy's Cholesky, as NumPy made the products: SciPy has its own BLAS, whose threads would compete with those of
    # NumPy's, which keep spinning for a while.
    return np.asarray(np.linalg.cholesky(np.eye(len(square)) + square / ridge), dtype=np.float64)
