"""The space in which a machine is fitted: the functions of a kernel on some rows, through products with K."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.gram import Gram, SymmetricGram, rpcholesky
from gramian.resources import repeatable
from gramian.solvers.linear.pcg import default_rank
from gramian.solvers.svm.row_cache import CardCache, CardRows, KernelRows, RowCache

DENSE_ROWS = 4000
"""Up to this many rows K is stored whole, if memory allows: 128 MB."""

CACHE_SHARE = 0.25
"""Share of the memory for kernel rows of pair steps; they are freed before anything else needs it."""

Array = NDArray[np.float64]


class ExactSpace:
    """The space of a kernel's functions on the rows of a Gram matrix."""

    def __init__(self, gram: Gram, random_state: Any = None) -> None:
        self.gram, self.random_state = gram, random_state
        self.shape, self.memory = gram.shape, gram.memory
        dense = gram.shape[0] <= DENSE_ROWS and 2 * gram.nbytes <= gram.memory
        self._dense = np.asarray(gram.dense(), dtype=np.float64) if dense else None

    @cached_property
    def factor(self) -> Array:
        """F with F Fᵀ close to K, for the preconditioner."""
        rank = min(default_rank(self.shape[0], self.gram.memory), self.shape[0])
        return rpcholesky(self.gram, rank, repeatable(self.random_state)).factor

    @cached_property
    def _stored(self) -> SymmetricGram:
        """K in double precision if half of it fits the memory, else in single."""
        # Memory is also needed for a copy of F at the rows with curvature, and for its Gram matrix.
        left = max(self.gram.memory - 2 * self.factor.nbytes - 2 * 8 * self.factor.shape[1] ** 2, 0)
        wide = 8 * self.shape[0] * (self.shape[0] + 512) // 2 <= left
        return SymmetricGram(self.gram, left, np.float64 if wide else np.float32)

    @cached_property
    def _exact(self) -> SymmetricGram:
        return SymmetricGram(self.gram, 0, np.float64)

    def __matmul__(self, V: Array) -> Array:
        """K @ V to double precision."""
        if self._dense is not None:
            return self._dense @ V
        stored = self.__dict__.get("_stored")
        exact = stored if stored is not None and stored.dtype == np.float64 else self._exact
        return exact @ V

    def fast(self, V: Array) -> Array:
        """Return K @ V, to single precision at least: V (n, k) → (n, k)."""
        return self._dense @ V if self._dense is not None else self._stored @ V

    def rows(self) -> KernelRows:
        """Return kernel rows for ``smo``, with a cache that takes a part of the memory."""
        every, budget = np.arange(self.shape[0]), int(CACHE_SHARE * self.gram.memory)
        if self.gram.card is not None:
            return CardRows([CardCache(self.gram, every, budget)])
        return KernelRows([RowCache(self.gram, every, budget)], self.gram.workers)

    def block(self, rows: NDArray[np.intp]) -> Array:
        """Return K of some rows with themselves: rows (r,) → (r, r)."""
        if self._dense is not None:
            return np.asarray(self._dense[np.ix_(rows, rows)])
        return np.asarray(self.gram.rows(rows, rows), dtype=np.float64)
