"""Rows of a Gram matrix for ``smo``: from a cache, from a matrix in memory, from a GPU, or as products of features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.gram import Gram
from gramian.resources import run, spans

Index = NDArray[np.intp]
NARROW_LOSS = 1e-6
"""Largest error of a float32 kernel value that is accepted, relative to the largest kernel value."""
PANEL_BYTES = 64 * 10**6
"""Rows are computed in panels of about this size, so that Ctrl-C is answered soon."""
EXACT_BYTES = 16 * 10**6
"""Size of the blocks from which sums in full precision are made, beside the cache."""
THREAD_WORTH = 1_000_000
"""Below this many multiplications, a second thread costs more than it saves."""
THREAD_ROWS = 200_000
"""The same for cached entries that are summed."""


@dataclass(frozen=True)
class Wide:
    """A matrix in full precision, computed on request: most fits need only a few blocks."""

    block: Callable[[Index, Index], NDArray[Any]]  # From rows and columns to the block between them
    whole: Callable[[], Gram]  # Returns the Gram matrix

    def on(self, workers: int) -> Wide:
        """Return the same matrix, computed by another number of threads."""
        return Wide(self.block, lambda: self.whole().on(workers))


class RowCache:
    """A cache of kernel rows that replaces the least recently used ones."""

    def __init__(self, gram: Gram, columns: Index, budget: int, wide: Wide | None = None) -> None:
        self.gram = gram
        self.wide = wide
        self.columns = columns
        self._budget = budget
        self.computed = self.evicted = self._clock = 0
        self._slot = np.full(gram.shape[0], -1, dtype=np.intp)
        self._allocate()

    def _allocate(self) -> None:
        self.dtype = self._dtype()
        cells = min(self._budget // self.dtype.itemsize, self.gram.shape[0] * len(self.columns))
        self._cells = max(cells, 2 * len(self.columns))
        self._flat = self._empty()
        self._forget()

    def _dtype(self) -> np.dtype[Any]:
        return self.gram.dtype

    def _empty(self) -> Any:
        return np.empty(self._cells, self.dtype)

    def _forget(self) -> None:
        """Empty the cache and divide its memory into rows of the current width."""
        width = max(len(self.columns), 1)
        self.capacity = self._cells // width
        self.store = self._flat[: self.capacity * width].reshape(self.capacity, width)
        self._used = 0
        self._slot[:] = -1
        self._owner = np.full(self.capacity, -1, dtype=np.intp)
        self._stamp = np.zeros(self.capacity, dtype=np.int64)

    def slots(self, rows: Index) -> Index:
        """Return the slots of some rows, after computing those that are missing."""
        self._clock += 1
        held = self._slot[rows]
        self._stamp[held[held >= 0]] = self._clock
        missing = np.unique(rows[held < 0])  # a row may be requested twice
        if missing.size:
            room = self._room(missing.size)
            self._fill(missing, room)
            self._owner[room], self._stamp[room], self._slot[missing] = missing, self._clock, room
            self.computed += missing.size
        return self._slot[rows]

    def add(self, rows: Index, weights: NDArray[np.float64], total: NDArray[np.float64], workers: int) -> None:
        """Add Σ_k weights_k K[rows_k, columns] to ``total``. weights (len(rows),), total (len(columns),)."""
        slots, width = self.slots(rows), len(self.columns)
        task = partial(_add_columns, self.store, slots, weights, total)
        workers = workers if slots.size * width > THREAD_ROWS else 1
        run(task, spans(width, -(-width // workers)), workers)

    def _room(self, count: int) -> Index:
        fresh = np.arange(self._used, min(self._used + count, self.capacity))
        self._used += fresh.size
        short = count - fresh.size
        if not short:
            return fresh
        # Slots with the stamp of this call hold rows that were just requested, and must stay.
        age = np.where(np.arange(self.capacity) < self._used - fresh.size, self._stamp, self._clock)
        old = np.sort(np.argpartition(age, short - 1)[:short])
        self._slot[self._owner[old]] = -1
        self.evicted += short
        return np.concatenate([fresh, old])

    def _fill(self, rows: Index, slots: Index) -> None:
        height = max(PANEL_BYTES // (8 * max(len(self.columns), 1)), 1)
        for part in spans(rows.size, height):
            target = slots[part]
            if target[-1] - target[0] == target.size - 1:
                self._rows(rows[part], self.store[target[0] : target[-1] + 1])
            else:
                self.store[target] = self._rows(rows[part], np.empty((target.size, len(self.columns)), self.dtype))

    def _rows(self, rows: Index, out: NDArray[Any]) -> NDArray[Any]:
        return self.gram.rows(rows, _as_slice(self.columns), out=out)

    def restrict(self, keep: Index) -> None:
        """Keep only some of the columns of the rows held, which makes room for more rows."""
        from gramian.solvers.svm.row_sums import compact

        compact(self._flat, len(self.columns), keep, self._used)
        self.columns = self.columns[keep]
        slot, owner, stamp, used = self._slot.copy(), self._owner, self._stamp, self._used
        self._forget()
        self._slot, self._used = slot, used
        self._owner[:used], self._stamp[:used] = owner[:used], stamp[:used]

    def widen(self, columns: Index) -> None:
        """Change the columns, and forget all rows."""
        self.columns = columns
        self._forget()

    def upgrade(self) -> bool:
        """Switch to full precision, and forget all rows; return False if they had it already."""
        if self.wide is None:
            return False
        self.gram, self.wide = self.wide.whole(), None
        self._allocate()
        return True

    def exact(self, rows: Index, columns: Index) -> NDArray[Any]:
        """Return a block of the matrix in full precision, without the cache: → (len(rows), len(columns))."""
        return (self.gram.rows if self.wide is None else self.wide.block)(rows, columns)


class Rows(ABC):
    """What ``smo`` reads kernel values from; the defaults are those of rows without a cache."""

    ids: Index
    """The number of each object in the matrix."""
    direct = True
    """Whether a block is cheap to compute: the working set may be large."""
    definite = True
    """Whether the matrix is positive semi-definite."""
    whole: NDArray[np.float64] | None = None
    """The whole matrix, if it is small enough for ``dense``."""
    stored: NDArray[Any] | None = None
    """The stored matrix that the objects' ``ids`` index, if it is in memory and needs no cache."""
    on_card = False
    """Whether a GPU computes the rows."""

    @property
    def narrow(self) -> bool:
        """Whether ``upgrade`` would make the rows more precise."""
        return False

    @property
    def rounding(self) -> float:
        """Rounding error of a kernel value in full precision, relative to the largest k(x, x)."""
        return float(np.finfo(np.float64).eps)

    @property
    def narrow_rounding(self) -> float:
        """The same in the precision of the rows."""
        return self.rounding

    @property
    def evicted(self) -> int:
        """Number of rows evicted so far."""
        return 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the rows."""
        return np.dtype(np.float64)

    @property
    def largest_square(self) -> int:
        """The largest number of objects that ``square`` accepts."""
        return len(self.ids)

    @property
    def shrinkable(self) -> KernelRows | None:
        """These rows if columns can be dropped temporarily, and that saves time; else None."""
        return None

    def scratch(self, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return memory that ``square`` can write to quickly."""
        return np.empty(size, dtype)

    @abstractmethod
    def diagonal(self) -> NDArray[np.float64]:
        """Return k(x, x) of every object: → (m,)."""

    @abstractmethod
    def square(self, objects: Index, out: NDArray[Any]) -> None:
        """Write the kernel matrix of some objects, in this precision or less: out (q, q)."""

    @abstractmethod
    def add(self, objects: Index, weights: NDArray[np.float64], total: NDArray[np.float64]) -> None:
        """Add Σ_k weights_k K[objects_k, :] to ``total``. weights (len(objects),), total (m,)."""

    @abstractmethod
    def exact(self, objects: Index, others: Index) -> NDArray[Any]:
        """Return a block of the kernel in full precision, without a cache: → (len(objects), len(others))."""

    def exact_sum(self, objects: Index, weights: NDArray[np.float64], at: Index | None = None) -> NDArray[np.float64]:
        """Return Σ_k weights_k K[objects_k, at] in full precision, by default at all objects: → (len(at),)."""
        total = np.zeros(len(self.ids) if at is None else at.size)
        if at is None:
            self.add(objects, weights, total)
            return total
        for part in spans(at.size, max(EXACT_BYTES // (8 * max(objects.size, 1)), 1)):
            total[part] = self.exact(at[part], objects) @ weights
        return total

    def upgrade(self) -> bool:
        """Switch to full precision; return False if the rows had it already."""
        return False


class KernelRows(Rows):
    """Kernel rows of one problem, from one cache or from several with different columns.

    The objects of a problem are numbered 0..m-1: the columns of the first cache, then those of the next.
    """

    def __init__(
        self,
        caches: Sequence[RowCache],
        workers: int = 1,
        direct: bool = False,
        definite: bool = True,
        whole: NDArray[np.float64] | None = None,
    ) -> None:
        self.caches = list(caches)
        self.workers, self.direct, self.definite = workers, direct, definite
        self.whole = whole
        self._index()

    def _index(self) -> None:
        self.ids = np.concatenate([cache.columns for cache in self.caches])
        self.edges = np.cumsum([0, *(len(cache.columns) for cache in self.caches)])

    @property
    def gram(self) -> Gram:
        """The Gram matrix behind the rows."""
        return self.caches[0].gram

    @property
    def shrinkable(self) -> KernelRows | None:
        """These rows if columns can be dropped temporarily, which needs a single cache; else None."""
        return self if len(self.caches) == 1 else None

    @property
    def narrow_rounding(self) -> float:
        return max(self.gram.rounding, NARROW_LOSS)

    @property
    def rounding(self) -> float:
        return self.gram.rounding * float(np.finfo(np.float64).eps) / float(np.finfo(self.gram.dtype).eps)

    def diagonal(self) -> NDArray[np.float64]:
        return np.asarray(self.gram.diagonal(), dtype=np.float64)[self.ids]

    @property
    def capacity(self) -> int:
        """Number of rows that can be held at once."""
        return min(cache.capacity for cache in self.caches)

    @property
    def largest_square(self) -> int:
        return len(self.ids) if self.direct else self.capacity

    @property
    def evicted(self) -> int:
        return sum(cache.evicted for cache in self.caches)

    @property
    def narrow(self) -> bool:
        return any(cache.wide is not None for cache in self.caches)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(*(cache.dtype for cache in self.caches))

    def square(self, objects: Index, out: NDArray[Any]) -> None:
        if self.direct:
            same = out.dtype == self.gram.dtype
            found = self.gram.rows(self.ids[objects], self.ids[objects], out=out if same else None)
            if not same:
                out[:] = found
            return
        bounds = [0, objects.size] if len(self.caches) == 1 else np.searchsorted(objects, self.edges)
        for cache, edge, left, right in zip(self.caches, self.edges, bounds, bounds[1:], strict=False):
            out[:, left:right] = cache.store[np.ix_(cache.slots(self.ids[objects]), objects[left:right] - edge)]

    def add(self, objects: Index, weights: NDArray[np.float64], total: NDArray[np.float64]) -> None:
        for part in spans(objects.size, self.capacity):
            for cache, left, right in zip(self.caches, self.edges, self.edges[1:], strict=False):
                cache.add(self.ids[objects[part]], weights[part], total[left:right], self.workers)

    def exact(self, objects: Index, others: Index) -> NDArray[Any]:
        return self.caches[0].exact(self.ids[objects], self.ids[others])

    def exact_sum(self, objects: Index, weights: NDArray[np.float64], at: Index | None = None) -> NDArray[np.float64]:
        return super().exact_sum(objects, weights, np.arange(len(self.ids)) if at is None else at)

    def upgrade(self) -> bool:
        changed = [cache.upgrade() for cache in self.caches]
        return any(changed)

    def restrict(self, keep: Index) -> None:
        """Drop objects from the columns of the one cache."""
        self.caches[0].restrict(keep)
        self._index()

    def widen(self, columns: Index) -> None:
        """Change the columns of the one cache, which forgets its rows."""
        self.caches[0].widen(columns)
        self._index()


class FeatureRows(Rows):
    """Rows of the kernel ``<ψ(x), ψ(z)>`` of explicit features.

    A sum of q kernel rows is one product Fᵀw and one product with F: O((n + q) m) for any kernel. Every value is a
    product with one vector w, so dropping columns would save nothing.
    """

    def __init__(self, F: NDArray[np.float64], workers: int = 1) -> None:
        self.F, self.workers = F, workers
        self.ids = np.arange(len(F))

    def diagonal(self) -> NDArray[np.float64]:
        """Return ‖ψ(x)‖² of every object: → (n,)."""
        return np.asarray(np.einsum("ij,ij->i", self.F, self.F))

    def square(self, objects: Index, out: NDArray[Any]) -> None:
        F, q = self.F[objects], objects.size
        workers = self.workers if q * F.size > THREAD_WORTH else 1
        run(lambda rows: np.matmul(F[rows], F.T, out=out[rows]), spans(q, -(-q // workers)), workers)

    def add(self, objects: Index, weights: NDArray[np.float64], total: NDArray[np.float64]) -> None:
        w, F = self.F[objects].T @ weights, self.F
        workers = self.workers if F.size > THREAD_WORTH else 1

        def task(rows: slice) -> None:
            total[rows] += F[rows] @ w

        run(task, spans(len(F), -(-len(F) // workers)), workers)

    def exact(self, objects: Index, others: Index) -> NDArray[np.float64]:
        return self.F[objects] @ self.F[others].T


class CardCache(RowCache):
    """A row cache in the memory of a GPU, in float64; sums of rows are computed there too."""

    def __init__(self, gram: Gram, columns: Index, budget: int) -> None:
        assert gram.card is not None
        self._card = gram.card
        super().__init__(gram, columns, min(budget, self._card.free // 2))

    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def _empty(self) -> Any:
        self._B = self.gram.right[_as_slice(self.columns)]
        return self._card.empty(self._cells)

    def _fill(self, rows: Index, slots: Index) -> None:
        self._card.store_rows(self.gram.left[rows], self._B, self.store, slots)

    def add(self, rows: Index, weights: NDArray[np.float64], total: NDArray[np.float64], workers: int) -> None:
        total += self._card.sum_of_rows(self.store, self.slots(rows), weights)


class CardRows(KernelRows):
    """Kernel rows on a GPU: blocks of a working set are computed at once, rows are cached and summed there."""

    on_card = True
    exact_sum = Rows.exact_sum

    def __init__(
        self, caches: Sequence[RowCache], definite: bool = True, whole: NDArray[np.float64] | None = None
    ) -> None:
        super().__init__(caches, direct=True, definite=definite, whole=whole)

    @property
    def shrinkable(self) -> None:
        """None: dropping columns would save little."""

    def scratch(self, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return memory that the GPU writes to without a copy in between."""
        assert self.gram.card is not None
        return self.gram.card.pinned(size, dtype)

    def square(self, objects: Index, out: NDArray[Any]) -> None:
        """Write the kernel matrix of some objects, rounded on the card to the precision of ``out`` (q, q)."""
        self.gram.rows(self.ids[objects], self.ids[objects], out=out)


class StoredRows(Rows):
    """Rows of a matrix that is already in memory; dropping columns would save nothing."""

    def __init__(
        self,
        matrix: NDArray[np.float64],
        ids: Index,
        rounding: float,
        definite: bool = True,
        small: bool = False,
        workers: int = 1,
    ) -> None:
        self.stored = self._matrix = matrix
        self.ids, self._rounding, self.definite = ids, rounding, definite
        self.whole, self.workers = matrix if small else None, workers

    def diagonal(self) -> NDArray[np.float64]:
        return self._matrix[self.ids, self.ids].astype(np.float64)

    @property
    def rounding(self) -> float:
        return self._rounding

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._matrix.dtype

    def square(self, objects: Index, out: NDArray[Any]) -> None:
        out[:] = self.exact(objects, objects)

    def exact(self, objects: Index, others: Index) -> NDArray[np.float64]:
        numbers, columns = self.ids[objects], self.ids[others]
        out = np.empty((numbers.size, columns.size), self.dtype)
        for row, i in zip(out, numbers.tolist(), strict=True):
            self._matrix[i].take(columns, out=row, mode="clip")  # several times as fast as indexing by np.ix_
        return out

    def add(self, objects: Index, weights: NDArray[np.float64], total: NDArray[np.float64]) -> None:
        # Summing whole contiguous rows is faster than gathering the objects' columns.
        width = self._matrix.shape[1]
        sums, workers = np.zeros(width), self.workers if objects.size * width > THREAD_WORTH else 1
        task = partial(_add_columns, self._matrix, self.ids[objects], weights, sums)
        run(task, spans(width, -(-width // workers)), workers)
        total += sums[self.ids]


def _add_columns(
    store: NDArray[Any], slots: Index, weights: NDArray[np.float64], total: NDArray[np.float64], columns: slice
) -> None:
    from gramian.solvers.svm.row_sums import add_rows

    add_rows(store, slots, weights, total, columns.start, columns.stop)


def _as_slice(columns: Index) -> Any:
    """Consecutive columns as a slice, which gives a view instead of a copy."""
    if columns.size and columns[-1] - columns[0] == columns.size - 1:
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return columns
