"""Parts of blocks, as a pass hands them out, and named sums over parts, as it returns them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.resources import spans

CHUNK = 8192
"""Rows that a task holds at a time, for any block size."""


class BlockError(ValueError):
    """A block with invalid data; the message names the file and the row group."""


@dataclass(frozen=True)
class Need:
    """Which columns a pass needs; the others are not read."""

    X: bool = True
    y: bool = True
    weight: bool = True  # Without weights, rows of weight zero count like all others


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a block."""

    X: NDArray[Any]  # (r, d): Inputs; (r, 0) if they were not needed
    y: NDArray[Any] | None  # (r,) or (r, k): Targets
    weight: NDArray[np.float64] | None  # (r,): Weights, > 0
    index: NDArray[np.int64]  # (r,): Numbers of the rows in the data
    store: Any = None  # Keeps features of rows in memory; None if rows are read in every pass

    def made(self, maker: Any) -> NDArray[Any]:
        """Return ``maker(X)``, kept between passes if the rows are in memory and it fits."""
        return np.asarray(maker(self.X) if self.store is None else self.store.get(maker, self))

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weights, or ones."""
        return np.ones(self.index.size) if self.weight is None else self.weight

    def take(self, rows: NDArray[Any] | slice) -> Part:
        """Return some of the rows."""
        y = None if self.y is None else self.y[rows]
        weight = None if self.weight is None else self.weight[rows]
        store = self.store if isinstance(rows, slice) else None
        return Part(self.X[rows], y, weight, self.index[rows], store)


def joined(parts: Sequence[Part]) -> Part:
    """Concatenate parts."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*((part.X, part.y, part.weight, part.index) for part in parts), strict=True)
    return Part(*(None if column[0] is None else np.concatenate(column) for column in columns))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Loader(ABC):
    """A block that can be read repeatedly: a small value to send to a worker."""

    name: str  # For errors: the file and the row group
    rows: int | None  # None if not known before reading

    def place(self, row: int) -> tuple[str, int]:
        """Return the name of the piece that holds a row, for errors, and the row's number in it."""
        return self.name, row

    @abstractmethod
    def identity(self) -> str:
        """Return a text that identifies the block's data, for checkpoints."""

    @abstractmethod
    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        """Yield inputs, targets and weights of consecutive rows, at most about ``CHUNK`` at a time."""


def checked(loader: Loader, first: int, need: Need) -> Iterator[Part]:
    """Read a block and check what it holds."""
    done = 0
    for chunk in _chunks(loader, need):
        n = len(next(array for array in chunk if array is not None))
        wanted = [a if want else None for a, want in zip(chunk, (need.X, need.y, need.weight), strict=True)]
        for rows in spans(n, CHUNK):
            there = np.arange(done + rows.start, done + rows.stop, dtype=np.int64)
            part = _part(loader, first, there, *(None if a is None else a[rows] for a in wanted))
            if part.index.size:
                yield part
        done += n
    if loader.rows is not None and done != loader.rows:
        raise BlockError(f"{loader.name}: has {done:,} rows now, but had {loader.rows:,} when it was opened.")


def _chunks(loader: Loader, need: Need) -> Iterator[tuple[Any, Any, Any]]:
    try:
        yield from loader.read(need)
    except (BlockError, MemoryError):
        raise
    except Exception as error:
        raise BlockError(f"{loader.name}: cannot be read ({type(error).__name__}: {error}).") from error


def _part(loader: Loader, first: int, there: NDArray[np.int64], X: Any, y: Any, weight: Any) -> Part:
    """Checked rows of a block, without those of weight zero; ``there`` are their numbers."""
    inputs = np.empty((there.size, 0)) if X is None else _numbers(loader, "X", X, there)
    targets = None if y is None else np.asarray(y)
    if targets is not None and targets.dtype.kind == "f":
        targets = _numbers(loader, "the target", targets, there)
    if weight is None:
        return Part(inputs, targets, None, first + there)
    w = _numbers(loader, "the weight", weight, there).astype(np.float64, copy=False)
    if np.any(w < 0):
        raise BlockError(f"{loader.name}: a weight is {w.min():.3g} < 0 (row {there[w.argmin()]} there).")
    part = Part(inputs, targets, w, first + there)
    return part if np.all(w > 0) else part.take(w > 0)


def _numbers(loader: Loader, what: str, values: Any, there: NDArray[np.int64]) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise BlockError(f"{loader.name}: {what} must be numbers, got {array.dtype}.")
    if array.dtype != np.float32:
        array = array.astype(np.float64, copy=False)
    if not np.all(np.isfinite(array)):
        bad = np.argwhere(~np.isfinite(array))[0]
        value = "NaN or missing values" if np.isnan(array[tuple(bad)]) else "infinity"
        if what == "X":
            columns = getattr(loader, "columns", None)  # of a table
            what = f"column {bad[1]}" if columns is None else f"column {columns.inputs[bad[1]]!r}"
        name, row = loader.place(int(there[bad[0]]))
        raise BlockError(f"{name}: {what} holds {value} (row {row} there); remove such rows, or fill them in.")
    return np.ascontiguousarray(array)


@dataclass(frozen=True, eq=False)
class Sums:
    """Named sums over some rows; ``+`` adds those of other rows."""

    arrays: Mapping[str, NDArray[Any]]  # The sums

    @classmethod
    def of(cls, **arrays: Any) -> Sums:
        """Return sums by name."""
        return cls({name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()})

    def __add__(self, other: Sums) -> Sums:
        return Sums({name: array + other.arrays[name] for name, array in self.arrays.items()})

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return self.arrays[name]


def plus(a: Sums | None, b: Sums | None) -> Sums | None:
    """Add two sums, either of which may be None."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def total(parts: Iterable[Sums]) -> Sums | None:
    """Return the sum of some values, in their order."""
    start: Sums | None = None
    return reduce(plus, parts, start)


def tree_total(values: Iterable[Sums | None]) -> Sums | None:
    """Return the sum of some values, added up in a binary tree."""
    tree = Tree()
    for value in values:
        tree.push(value)
    return tree.root()


class Tree:
    """A binary tree of sums whose shape depends on the number of leaves alone.

    Leaves are pushed in order. What is held are the sums of complete subtrees, at most one of each size, so the memory
    is logarithmic in the leaves, and the same additions are made however the leaves were computed.
    """

    def __init__(self, held: Iterable[tuple[int, Sums | None]] = ()) -> None:
        self.held: list[tuple[int, Sums | None]] = list(held)

    def push(self, value: Sums | None, size: int = 1) -> None:
        """Add the next leaf, or the next complete subtree."""
        while self.held and self.held[-1][0] == size:
            value = plus(self.held.pop()[1], value)
            size *= 2
        self.held.append((size, value))

    def root(self) -> Sums | None:
        """Return the sum of all leaves."""
        values = [value for _, value in reversed(self.held)]
        return reduce(lambda right, left: plus(left, right), values) if values else None
