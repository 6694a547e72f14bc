"""Blocks of a source: rows of arrays and files, results of functions, partitions of Dask collections."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from mmap import mmap
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from gramian.data.columns import ColumnRoles
from gramian.data.formats import Source
from gramian.data.parts import CHUNK, BlockError, Need, Readable

__all__ = ["ArrayBlock", "Call", "DaskBlock", "FileBlock", "Mapped", "Window"]


@dataclass(frozen=True, eq=False)
class Window:
    """Rows of an array in memory, or of a memory map, which travels as the name of its file."""

    array: NDArray[Any] | None  # The rows, where they are in memory
    file: tuple[Any, ...]  # File, dtype, shape, order and place of a memory map
    rows: slice  # Which

    @classmethod
    def of(cls, array: NDArray[Any], rows: slice) -> Window:
        """Return some rows of an array."""
        if isinstance(array, np.memmap) and array.filename is not None and isinstance(array.base, mmap):
            order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
            return cls(None, (str(array.filename), array.dtype.str, array.shape, order, array.offset), rows)
        return cls(array[rows], (), rows)

    def identity(self) -> str:
        """Return what tells these rows from others."""
        if self.array is None:
            return f"{self.file} {self.rows} {os.stat(self.file[0]).st_mtime_ns}"
        return str(joblib.hash(self.array))

    def load(self) -> NDArray[Any]:
        """Return the rows."""
        if self.array is not None:
            return self.array
        path, dtype, shape, order, offset = self.file
        return np.memmap(path, dtype=dtype, mode="r", shape=shape, order=order, offset=offset)[self.rows]


@dataclass(frozen=True, eq=False)
class ArrayBlock(Readable):
    """Rows of arrays."""

    X: Window  # Inputs
    y: Window | None  # Targets and weights
    weight: Window | None  # Targets and weights
    first: int  # The first row
    rows: int  # How many

    @property
    def name(self) -> str:
        """Which rows."""
        return f"rows {self.first:,} to {self.first + self.rows - 1:,}"

    def identity(self) -> str:
        windows = (window for window in (self.X, self.y, self.weight) if window is not None)
        return " ".join(window.identity() for window in windows)

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        X = self.X.load() if need.X else None
        y = None if self.y is None or not need.y else self.y.load()
        w = None if self.weight is None else self.weight.load()
        for start in range(0, self.rows, CHUNK):
            rows = slice(start, start + CHUNK)
            count = min(CHUNK, self.rows - start)
            inputs = np.empty((count, 0)) if X is None else X[rows]
            yield inputs, None if y is None else y[rows], None if w is None else w[rows]


@dataclass(frozen=True)
class FileBlock(Readable):
    """Row groups of a Parquet file, record batches of an Arrow file, or all rows of a text."""

    source: Source  # The file
    groups: tuple[int, ...] | None  # Which of its pieces; none where it is read from its beginning to its end
    rows: int | None  # How many rows, where the file says
    columns: ColumnRoles  # Which are what
    stamp: str = ""  # Size and time of the file, by which a checkpoint knows that it is the same

    @property
    def name(self) -> str:
        """The file, and the row groups."""
        if self.groups is None or self.groups[0] == self.groups[-1]:
            return self._named(self.groups[0] if self.groups else 0)
        return f"{self.source.path}, {self.source.piece[1]} {self.groups[0]}-{self.groups[-1]}"

    def _named(self, group: int) -> str:
        return str(self.source.path) if self.groups is None else f"{self.source.path}, {self.source.piece[0]} {group}"

    def identity(self) -> str:
        return f"{self.source.path} {self.groups} {self.stamp} {self.columns}"

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        numbers = {*self.columns.inputs, self.columns.weight}
        types = {
            name: "double" if name in numbers and kind.startswith(("null", "int", "uint")) else kind
            for name, kind in self.source.types
        }
        for group, batch in self.source.batches(self.columns.wanted(need), types, self.groups):
            yield self.columns.split(batch, self._named(group), need)


@dataclass(frozen=True, eq=False)
class Call(Readable):
    """A user's function that returns X, (X, y), (X, y, weight) or a table."""

    function: Callable[[], Any]  # Without arguments
    number: int  # Its place in the list
    columns: ColumnRoles | None = None  # Which columns of a table are what
    rows: None = None  # How many rows: only calling it tells

    @property
    def name(self) -> str:
        """Its place, and the function's name."""
        return f"loader {self.number} ({getattr(self.function, '__name__', type(self.function).__name__)})"

    def identity(self) -> str:
        # Its name: what a function returns is not looked at.
        return f"{self.name} {self.columns}"

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        yield _triple(self.function(), self.columns, self.name, need)


def _triple(value: Any, columns: ColumnRoles | None, name: str, need: Need) -> tuple[Any, Any, Any]:
    if columns is not None:
        table = _as_table(value, name, columns.wanted(need))
        return columns.split(table, name, need)
    X, y, w = (*value, None, None)[:3] if isinstance(value, tuple) else (value, None, None)
    X = np.asarray(X)
    if X.ndim != 2:
        raise BlockError(f"{name}: X must have two dimensions, got shape {X.shape}.")
    y, w = (None if v is None else np.asarray(v) for v in (y, w))
    for what, v in (("y", y), ("the weight", w)):
        if v is not None and v.shape[0] != X.shape[0]:
            raise BlockError(f"{name}: X has {X.shape[0]:,} rows and {what} has {v.shape[0]:,}.")
    return X, y if need.y else None, w


def _as_table(value: Any, name: str, wanted: Sequence[str]) -> Any:
    import pyarrow as pa

    if missing := [c for c in wanted if c not in list(getattr(value, "column_names", getattr(value, "columns", ())))]:
        raise BlockError(f"{name}: has no column {missing[0]!r}.")
    if isinstance(value, pa.Table | pa.RecordBatch):
        return value
    if hasattr(value, "to_arrow"):
        return value.to_arrow()
    return pa.Table.from_pandas(value[list(wanted)], preserve_index=False)


@dataclass(frozen=True, eq=False)
class DaskBlock(Readable):
    """Partitions of Dask collections, computed where the block is worked on."""

    pieces: tuple[Any, ...]  # Delayed X, and y and weight or ``None``
    number: int  # The partition
    rows: int | None  # How many rows, where Dask knows
    columns: ColumnRoles | None  # Which columns of a data frame are what
    token: str  # Dask's name of the collection
    persisted: bool = False  # Whether the cluster holds it already, so that only its own workers can get at it

    @property
    def name(self) -> str:
        """The partition."""
        return f"partition {self.number}"

    def identity(self) -> str:
        return f"{self.token} {self.number} {self.columns}"

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        import dask

        X, y, w = dask.compute(*self.pieces, scheduler="synchronous")
        if self.columns is not None:
            yield _triple(X, self.columns, self.name, need)
            return
        X, y, w = (None if v is None else np.asarray(v) for v in (X, y, w))
        yield X, (y if need.y else None), w


@dataclass(frozen=True, eq=False)
class Mapped(Readable):
    """Another block, whose rows go through a function when they are read."""

    inner: Any  # The block
    function: Callable[[Any, Any], tuple[Any, Any]]  # From inputs and targets, either of which may be ``None``, to such

    @property
    def name(self) -> str:
        """That of the block."""
        return str(self.inner.name)

    @property
    def rows(self) -> int | None:
        """As many as the block has."""
        rows: int | None = self.inner.rows
        return rows

    def identity(self) -> str:
        return f"{self.inner.identity()} {joblib.hash(self.function)}"

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        for X, y, weight in self.inner.read(need):
            X, y = self.function(X if need.X else None, y)
            yield (np.empty((len(y if y is not None else weight), 0)) if X is None else X), y, weight
