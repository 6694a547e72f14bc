"""(F Fᵀ + μI)⁻¹ for conjugate gradients: applied once per iteration, so bound by how often F is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramian.gram import LowRank
from gramian.gram.tiles import run, spans

__all__ = ["Preconditioner"]

STRIP = 1024
"""Rows of F that a thread multiplies at a time; fixed, so that sums do not depend on the number of threads."""
HARMLESS = 0.1
"""Share of the smallest eigenvalue that rounding F to single precision may move."""

POWER_STEPS = 5
"""Enough to know an eigenvalue to its order of magnitude."""

Array = NDArray[np.float64]


class Preconditioner:
    """Solve with ``F Fᵀ + μI`` for several μ, by Woodbury.

    F is kept in single precision, which halves what is read, unless that would hide μ.

    Parameters
    ----------
    factor : array of shape (n, m)
        F, in float64; not kept where single precision will do.
    ridges : array of shape (k,)
        The values of μ, > 0.
    workers : int, default=1
        Threads.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.solvers.preconditioner import Preconditioner
    >>> Preconditioner(np.ones((3, 1)), np.array([2.0])).solve(np.array([[4.0], [4.0], [4.0]]), np.array([2.0])).T
    array([[0.8, 0.8, 0.8]])
    """

    def __init__(self, factor: Array, ridges: Array, workers: int = 1) -> None:
        self._cores = {float(ridge): LowRank(factor, float(ridge)).core for ridge in np.unique(ridges)}
        self.factor = factor.astype(np.float32) if self._narrow_is_safe() else factor
        self.workers = workers

    def _narrow_is_safe(self) -> bool:
        eps = float(np.finfo(np.float32).eps)
        # L Lᵀ = I + FᵀF/μ has eigenvalues from one upwards; rounding F moves them by about eps times the greatest.
        return all(eps * _greatest(core) <= HARMLESS for core in self._cores.values())

    @property
    def rank(self) -> int:
        """Columns of F."""
        return int(self.factor.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of F and the cores."""
        return int(self.factor.nbytes + sum(core.nbytes for core in self._cores.values()))

    def solve(self, R: Array, ridges: Array) -> Array:
        """Solve for every column with its own μ.

        Parameters
        ----------
        R : array of shape (n, k)
            Right-hand sides.
        ridges : array of shape (k,)
            μ of each.

        Returns
        -------
        array of shape (n, k)
            ``(F Fᵀ + μ_j I)⁻¹ r_j``.
        """
        if self.rank == 0:
            return R / ridges
        inner = self._inner(R)
        for ridge in np.unique(ridges):
            columns = ridges == ridge
            core = (self._cores[float(ridge)], True)
            inner[:, columns] = scipy.linalg.cho_solve(core, inner[:, columns] / ridge, check_finite=False)
        return self._outer(R, inner, ridges)

    def _inner(self, R: Array) -> Array:
        """Fᵀ R, summed over strips in float64."""
        narrow = R.astype(self.factor.dtype, copy=False)
        parts: list[NDArray[Any]] = run(lambda s: self.factor[s].T @ narrow[s], self._strips, self.workers)
        return np.sum(parts, axis=0, dtype=np.float64)

    def _outer(self, R: Array, inner: Array, ridges: Array) -> Array:
        """(R - F inner) / μ."""
        Z = np.empty_like(R)
        narrow = inner.astype(self.factor.dtype, copy=False)

        def strip(rows: slice) -> None:
            Z[rows] = (R[rows] - self.factor[rows] @ narrow) / ridges

        run(strip, self._strips, self.workers)
        return Z

    @property
    def _strips(self) -> list[slice]:
        return spans(self.factor.shape[0], STRIP)


def _greatest(core: Array) -> float:
    """The greatest eigenvalue of L Lᵀ, by a few steps of the power method."""
    v = np.ones(core.shape[0])
    value = 1.0
    for _ in range(POWER_STEPS if v.size else 0):
        v = core @ (core.T @ (v / np.linalg.norm(v)))
        value = float(np.linalg.norm(v))
    return value
