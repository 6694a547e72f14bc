"""K(·, Y) of a fitted expansion, with Y prepared once, for predictions of a few rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from operator import is_
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from gramian.gram.operator import Gram, wide
from gramian.kernels import Kernel
from gramian.kernels.points import Points
from gramian.resources import spans

Made = TypeVar("Made")
WHOLE = 20_000
"""Up to this many cells K is one tile, made without threads: its scratch is below a megabyte."""
KEPT = 10**6
"""A larger Y is not kept prepared: a product with it takes longer than preparing it."""
STREAMED = 2**20
"""Rows that are on a GPU at a time."""


class PreparedColumns:
    """K(·, Y) for one kernel and Y; Y is prepared when it is first needed, and kept."""

    def __init__(
        self, kernel: Kernel, Y: Any, memory: int | str | None, n_jobs: int | None, device: str | None = None
    ) -> None:
        self.given = kernel, Y, memory, n_jobs, device
        self.kernel, self.Y = kernel, Y
        # With a memory limit, nothing is kept beside the rows themselves.
        numbers = isinstance(Y, np.ndarray) and Y.ndim == 2 and Y.dtype == np.float64
        self.keeps = numbers and 0 < Y.size <= KEPT and memory is None

    @cached_property
    def _prepared(self) -> Points:
        return self.kernel.prepare(self.Y[:1], self.Y)[1]

    def tile(self, X: Any) -> NDArray[Any] | None:
        """Return K(X, Y) for a few checked rows, or None if tiles are better: X (n, d) → (n, m)."""
        A = self._few(X)
        return None if A is None else np.asarray(self.kernel.tile(A, self._prepared))

    def tile_and_diagonal(self, X: Any) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return K(X, Y) and k(x, x) of the same rows, or None: X (n, d) → (n, m), (n,)."""
        A = self._few(X)
        if A is None:
            return None
        return np.asarray(self.kernel.tile(A, self._prepared)), np.asarray(self.kernel.diagonal(A))

    def _few(self, X: Any) -> Points | None:
        """A few checked rows, prepared to match Y; None if X and Y must be prepared together."""
        if not self.keeps or not isinstance(X, np.ndarray) or X.shape[0] * len(self.Y) > WHOLE or not X.size:
            return None
        if X.dtype != np.float64:
            return None
        return self.kernel.prepare_rows(X, self._prepared)

    def times(self, X: Any, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return K(X, Y) @ V for checked rows: V (m,) or (m, k)."""
        K: Any = self.tile(X)
        if K is not None:
            return np.asarray(K @ V)
        kernel, Y, memory, n_jobs, device = self.given
        if device is None:
            return np.asarray(Gram(kernel, X, Y, memory, n_jobs) @ V)
        grams = (Gram(kernel, X[rows], wide(Y), memory, n_jobs, device) for rows in spans(X.shape[0], STREAMED))
        return np.concatenate([np.asarray(gram @ V) for gram in grams])


_KEPT: WeakKeyDictionary[Any, tuple[tuple[Any, ...], Any]] = WeakKeyDictionary()


def kept(owner: Any, make: Callable[..., Made], *given: Any) -> Made:
    """Return ``make(*given)``, cached for an owner until one of the arguments is another object.

    The cache is not an attribute of the owner, so that files and copies do not hold it.
    """
    before = _KEPT.get(owner)
    if before is None or not all(map(is_, before[0], (make, *given))):
        before = _KEPT[owner] = (make, *given), make(*given)
    made: Made = before[1]
    return made


def columns_of(owner: Any, kernel: Kernel, Y: Any) -> PreparedColumns:
    """Return the columns of a fitted estimator."""
    return kept(owner, PreparedColumns, kernel, Y, owner.memory, owner.n_jobs, getattr(owner, "device", None))
