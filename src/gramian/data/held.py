"""Rows in memory as a source of passes, which keeps what maps make of them where it fits the budget."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.executor import Threads
from gramian.data.parts import Need, Part
from gramian.data.passes import Passes, sample_rows
from gramian.resources import memory_budget, spans

__all__ = ["Held"]

ROWS = 4096
"""Rows of a block: enough for efficient products, few enough that every thread has some."""


class Held:
    """Validated rows in memory, cut into blocks that passes go over; rows of weight zero are left out.

    ``X`` may be dense, CSR, an array of objects, or rows of a Gram matrix; ``index`` names rows of the data.
    """

    names = None

    def __init__(self, X: Any, y: Any = None, weight: Any = None, *, memory: int | str | None = None) -> None:
        n = self.total = X.shape[0]  # with those of weight zero
        index = np.arange(n) if weight is None else np.flatnonzero(weight)
        if index.size == 0:
            raise ValueError("sample_weight must be positive for at least one row; all weights are zero.")
        if index.size < n:
            X, y, weight = X[index], None if y is None else y[index], weight[index]
        self._store = _Store(memory_budget(memory) // 2)
        self.all = Part(X, y, weight, index.astype(np.int64), self._store)
        self.weight, self.has_targets = weight, y is not None
        self.n_columns = X.shape[1] if X.ndim > 1 else 1
        self.items = [_Slice(self, rows.start, rows.stop - rows.start) for rows in spans(index.size, ROWS)]

    @property
    def n_rows(self) -> int:
        """Rows of positive weight."""
        return self.all.index.size

    def passes(
        self, *, n_jobs: int | None = None, verbose: int | bool = False, label: str = "rows"
    ) -> AbstractContextManager[Passes]:
        """Have passes over the rows for the length of a ``with`` block; features are forgotten at its end."""
        return _HeldPasses(self, Threads(n_jobs)).running(verbose, label)


@dataclass(frozen=True, eq=False)
class _Slice:
    """Some of the rows, as an item of a pass."""

    held: Held
    first: int
    rows: int

    def parts(self, need: Need) -> Iterator[Part]:
        """Yield the rows, which were checked when they came in."""
        yield self.held.all.take(slice(self.first, self.first + self.rows))


class _HeldPasses(Passes):
    """Passes over rows in memory, of which a sample takes no pass."""

    def sample(self, size: int, seed: int) -> Part:
        """Draw rows uniformly; the same rows as of the same data in blocks."""
        rows = self.blocks.all
        if size >= rows.index.size:
            return rows
        return rows.take(sample_rows(rows.index.size, size, seed))

    def forget(self) -> None:
        """Let go of what maps made of the rows."""
        self.blocks.all.store.clear()


class _Store:
    """Arrays made of rows, kept while they fit in so many bytes."""

    def __init__(self, budget: int) -> None:
        self._budget, self._lock = budget, threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget all arrays."""
        self._arrays: dict[tuple[int, int, int], NDArray[Any]] = {}
        self._makers: dict[int, Any] = {}
        self._room = self._budget

    def get(self, maker: Any, part: Part) -> NDArray[Any]:
        """Return ``maker(part.X)``, made now or kept from an earlier pass."""
        key = (id(maker), int(part.index[0]), part.index.size)
        if key in self._arrays:
            return self._arrays[key]
        made = maker(part.X)
        with self._lock:
            if made.nbytes <= self._room:
                self._makers[id(maker)] = maker  # its id is not given to another while it lives
                self._arrays[key] = made
                self._room -= made.nbytes
        return np.asarray(made)
