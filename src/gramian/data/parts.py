"""Parts of a block: a few thousand rows, checked, with targets and weights where there are any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["CHUNK", "BlockError", "Loader", "Need", "Part", "Readable", "checked"]

CHUNK = 8192
"""Rows that a task holds at a time, whatever the size of a block."""


class BlockError(ValueError):
    """A block that cannot be used; the message names the file and the row group."""


@dataclass(frozen=True)
class Need:
    """What a pass wants of the rows, so that nothing else is read."""

    X: bool = True  # Whether the inputs are wanted
    y: bool = True  # Whether the targets are
    weight: bool = True  # Whether the weights are; without them, rows of weight zero count as others do


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a block."""

    X: NDArray[Any]  # (r, d): Inputs; (r, 0) where they were not wanted
    y: NDArray[Any] | None  # (r,) or (r, k): Targets
    weight: NDArray[np.float64] | None  # (r,): Weights, > 0
    index: NDArray[np.int64]  # (r,): Numbers of the rows in the data
    store: Any = None  # Keeps what maps make of rows in memory; none where rows are read again for every pass

    def made(self, maker: Any) -> NDArray[Any]:
        """Return ``maker(X)``, kept between passes where the rows are in memory and it fits."""
        return np.asarray(maker(self.X) if self.store is None else self.store.get(maker, self))

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weights, ones where there are none."""
        return np.ones(self.index.size) if self.weight is None else self.weight

    def take(self, rows: NDArray[Any] | slice) -> Part:
        """Return some of the rows."""
        y = None if self.y is None else self.y[rows]
        weight = None if self.weight is None else self.weight[rows]
        store = self.store if isinstance(rows, slice) else None
        return Part(self.X[rows], y, weight, self.index[rows], store)


class Readable(Protocol):
    """What can be read, and read again."""

    def identity(self) -> str:
        """Return what tells this block from others, by which a checkpoint knows its data."""

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        """Yield inputs, targets and weights of consecutive rows, at most about ``CHUNK`` at a time."""


class Loader(Readable, Protocol):
    """A block that can be read, and read again: a small value that travels to whoever works on it."""

    @property
    def name(self) -> str:
        """What an error calls it: the file and the row group."""

    @property
    def rows(self) -> int | None:
        """How many rows; ``None`` where only reading tells."""


def checked(loader: Loader, first: int, need: Need) -> Iterator[Part]:
    """Read a block and check what it holds."""
    done = 0
    chunks = loader.read(need)
    while True:
        try:
            chunk = next(chunks, None)
        except (BlockError, MemoryError, KeyboardInterrupt):
            raise
        except Exception as error:
            raise BlockError(f"{loader.name}: cannot be read ({type(error).__name__}: {error}).") from error
        if chunk is None:
            break
        X, y, weight = chunk
        n = len(X if X is not None else y if y is not None else weight)
        X, y, weight = X if need.X else None, y if need.y else None, weight if need.weight else None
        for start in range(0, n, CHUNK):
            rows = slice(start, min(start + CHUNK, n))
            part = _part(loader.name, X, y, weight, rows, first + done, done)
            if part.index.size:
                yield part
        done += n
    if loader.rows is not None and done != loader.rows:
        raise BlockError(f"{loader.name}: has {done:,} rows now, but had {loader.rows:,} when it was opened.")


def _part(name: str, X: Any, y: Any, weight: Any, rows: slice, first: int, before: int) -> Part:
    count = rows.stop - rows.start
    inputs = np.empty((count, 0)) if X is None else _numbers(name, "X", X[rows], before + rows.start)
    targets = None if y is None else _targets(name, y[rows], before + rows.start)
    index = np.arange(first + rows.start, first + rows.stop, dtype=np.int64)
    part = Part(inputs, targets, None, index)
    if weight is None:
        return part
    w = np.asarray(_numbers(name, "the weight", weight[rows], before + rows.start), dtype=np.float64)
    if np.any(w < 0):
        raise BlockError(f"{name}: a weight is {w.min():.3g} < 0 (row {before + rows.start + int(w.argmin())} there).")
    part = replace(part, weight=w)
    return part if np.all(w > 0) else part.take(w > 0)


def _numbers(name: str, what: str, values: Any, before: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise BlockError(f"{name}: {what} must be numbers, got {array.dtype}.")
    if array.dtype != np.float32:
        array = array.astype(np.float64, copy=False)
    if not np.all(np.isfinite(array)):
        bad = np.argwhere(~np.isfinite(array))[0]
        column = f", column {bad[1]}" if bad.size > 1 else ""
        value = "NaN" if np.isnan(array[tuple(bad)]) else "infinity"
        raise BlockError(
            f"{name}: {what} holds {value} (row {before + int(bad[0])} there{column}); remove such rows, or fill them "
            "in."
        )
    return np.ascontiguousarray(array)


def _targets(name: str, values: Any, before: int) -> NDArray[Any]:
    array = np.asarray(values)
    return _numbers(name, "the target", array, before) if array.dtype.kind == "f" else array
