"""Sources of rows (arrays, files, functions, Dask collections), opened as lists of blocks that load their rows."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from mmap import mmap
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from gramian.data.columns import ColumnRoles
from gramian.data.parts import CHUNK, BlockError, Loader, Need
from gramian.resources import spans

__all__ = ["ArrayBlock", "Call", "DaskBlock", "FileBlock", "Mapped", "Opened", "Window", "is_dask", "opened"]


@dataclass(frozen=True, eq=False)
class Opened:
    """The blocks of a source."""

    loaders: list[Any]  # In order
    names: tuple[str, ...] | None  # Names of the inputs, where they have names
    width: int | None  # Number of inputs, where it is known without reading
    targets: bool  # Whether there are targets


def is_dask(value: Any) -> bool:
    """Tell whether something is a Dask array or data frame; Dask is not imported for that."""
    return type(value).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(value, "__dask_graph__")


def opened(source: Any, target: Any, weight: Any, columns: Any, rows: int) -> Opened:
    """Cut a source into blocks."""
    several = source if isinstance(source, list | tuple) and source else [source]
    if all(isinstance(each, str | os.PathLike) for each in several):
        return _files([path for each in several for path in _paths_of(each)], target, weight, columns, rows)
    if is_dask(source):
        return _dask(source, target, weight, columns)
    if several is source and all(callable(each) for each in several):
        return _calls(source, target, weight, columns)
    return _arrays(source, target, weight, columns, rows)


@dataclass(frozen=True)
class FileBlock(Loader):
    """Row groups of a Parquet file, record batches of an Arrow file, or all rows of a text."""

    source: Any  # The file, a ``formats.Source``
    groups: tuple[int, ...] | None  # Which of its pieces; none where it is read from its beginning to its end
    rows: int | None  # How many rows, where the file says
    columns: ColumnRoles  # Which are what
    stamp: str = ""  # Size and time of the file, by which a checkpoint knows that it is the same

    @property
    def name(self) -> str:
        """The file, and the row groups."""
        if self.groups is None:
            return str(self.source.path)
        first, last = self.groups[0], self.groups[-1]
        piece, pieces = self.source.pieces
        return f"{self.source.path}, {f'{piece} {first}' if first == last else f'{pieces} {first}-{last}'}"

    def place(self, row: int) -> tuple[str, int]:
        for group in self.groups or ():
            if row < self.source.groups[group]:
                return f"{self.source.path}, {self.source.pieces[0]} {group}", row
            row -= self.source.groups[group]
        return self.name, row

    def identity(self) -> str:
        return f"{self.source.path} {self.groups} {self.stamp} {self.columns}"

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        numbers = {*self.columns.inputs, self.columns.weight}
        types = {
            name: "double" if name in numbers and kind.startswith(("null", "int", "uint")) else kind
            for name, kind in self.source.types
        }
        for batch in self.source.batches(self.columns.wanted(need), types, self.groups):
            yield self.columns.split(batch, self.name, need)


def _files(paths: list[str], target: Any, weight: Any, columns: Any, rows: int) -> Opened:
    from gramian.data.tables import open_table

    for what, value in (("target", target), ("weight", weight)):
        if value is not None and not isinstance(value, str | list | tuple):
            raise TypeError(f"{what} of files is the name of a column, got {type(value).__name__}.")
    tables = [open_table(path) for path in paths]
    chosen = ColumnRoles.among(tables[0].names, columns, target, weight)
    loaders: list[Loader] = []
    for path, table in zip(paths, tables, strict=True):
        if missing := [c for c in chosen.wanted(Need()) if c not in table.names]:
            raise BlockError(f"{path}: has no column {missing[0]!r}, which {paths[0]} has; it has {list(table.names)}.")
        stat = os.stat(path)
        pieces = [(None, None)] if table.groups is None else _together(table.groups, rows)
        loaders += [FileBlock(table, g, n, chosen, f"{stat.st_size}-{stat.st_mtime_ns}") for g, n in pieces if n != 0]
    return Opened(loaders, chosen.inputs, len(chosen.inputs), target is not None)


def _paths_of(source: str | os.PathLike[str]) -> list[str]:
    """The files of a folder, of a pattern such as ``"data/*.parquet"``, or the file itself."""
    from gramian.data.formats import FORMATS, ending_of

    text, path = os.fspath(source), Path(source)
    if path.is_dir():
        found = [str(p) for p in sorted(path.rglob("*")) if ending_of(p) and not _hidden(p.relative_to(path))]
    elif path.exists():
        found = [text]
    else:
        found = sorted(p for p in glob.glob(text, recursive=True) if os.path.isfile(p))
    if not found:
        raise FileNotFoundError(
            f"no data at {text!r}: expected a file, a folder or a pattern of {', '.join(FORMATS)} files."
        )
    return found


def _hidden(path: Path) -> bool:
    """Whether it is one of the files that writers leave beside the data, such as ``_SUCCESS``."""
    return any(part.startswith(("_", ".")) for part in path.parts)


def _together(groups: Sequence[int], rows: int) -> list[tuple[tuple[int, ...], int]]:
    """Neighbouring row groups, joined as long as they stay within so many rows."""
    joined: list[tuple[tuple[int, ...], int]] = []
    for i, size in enumerate(groups):
        if joined and joined[-1][1] + size <= rows:
            held, count = joined.pop()
            joined.append(((*held, i), count + size))
        else:
            joined.append(((i,), size))
    return joined


@dataclass(frozen=True, eq=False)
class Window:
    """Rows of an array in memory, or of a memory map, which travels as the name of its file."""

    rows: slice  # Which
    array: NDArray[Any] | None  # The rows, where they are in memory
    mapped: partial[Any] | None = None  # Or else what opens the memory map

    @classmethod
    def of(cls, array: NDArray[Any], rows: slice) -> Window:
        """Return some rows of an array."""
        if isinstance(array, np.memmap) and array.filename is not None and isinstance(array.base, mmap):
            order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
            path = str(array.filename)
            return cls(rows, None, partial(np.memmap, path, array.dtype, "r", array.offset, array.shape, order))
        return cls(rows, array[rows])

    def identity(self) -> str:
        """Return what tells these rows from others."""
        if self.mapped is None:
            return str(joblib.hash(self.array))
        return f"{self.mapped.args} {self.rows} {os.stat(self.mapped.args[0]).st_mtime_ns}"

    def load(self) -> Any:
        """Return the rows."""
        return self.array if self.mapped is None else self.mapped()[self.rows]


@dataclass(frozen=True, eq=False)
class ArrayBlock(Loader):
    """Rows of arrays."""

    X: Window  # Inputs
    y: Window | None  # Targets
    weight: Window | None  # Weights
    first: int  # The first row
    rows: int  # How many

    @property
    def name(self) -> str:
        """Which rows."""
        return f"rows {self.first:,} to {self.first + self.rows - 1:,}"

    def identity(self) -> str:
        return " ".join(window.identity() for window in (self.X, self.y, self.weight) if window is not None)

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        X = self.X.load() if need.X else np.empty((self.rows, 0))
        y = None if self.y is None or not need.y else self.y.load()
        w = None if self.weight is None else self.weight.load()
        for rows in spans(self.rows, CHUNK):
            yield X[rows], None if y is None else y[rows], None if w is None else w[rows]


def _arrays(source: Any, target: Any, weight: Any, columns: Any, rows: int) -> Opened:
    names: tuple[str, ...] | None = None
    if hasattr(source, "columns"):  # a data frame in memory
        frame, own = source, {str(c): c for c in source.columns}
        given = [value if _are_names(value, frame, own) else None for value in (target, weight)]
        names = ColumnRoles.among([str(c) for c in frame.columns], columns, *given).inputs

        def values(wanted: Any) -> Any:
            several = [np.asarray(frame[own[name]]) for name in ([wanted] if isinstance(wanted, str) else wanted)]
            return several[0] if isinstance(wanted, str) else np.column_stack(several)

        source, columns = values(names), None
        target = target if given[0] is None else values(target)
        weight = weight if given[1] is None else values(weight)
    X = source if isinstance(source, np.ndarray) else np.asarray(source)
    _check_matrix(X, columns, "an array")
    y, w = (None if v is None else v if isinstance(v, np.ndarray) else np.asarray(v) for v in (target, weight))
    for what, v in (("target", y), ("weight", w)):
        if v is not None and (v.ndim == 0 or v.shape[0] != X.shape[0]):
            raise ValueError(f"{what} must have {X.shape[0]:,} rows, as the source has; got shape {v.shape}.")
    loaders = []
    for part in spans(X.shape[0], rows):
        targets, weights = (None if v is None else Window.of(v, part) for v in (y, w))
        loaders.append(ArrayBlock(Window.of(X, part), targets, weights, part.start, part.stop - part.start))
    return Opened(loaders, names, X.shape[1], y is not None)


def _are_names(value: Any, frame: Any, own: Any) -> bool:
    """Whether a target or weight of a data frame is the name of a column, or several, rather than values."""
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        return isinstance(value, str)
    return len(value) != len(frame) or all(v in own for v in value)


def _check_matrix(X: Any, columns: Any, what: str) -> None:
    if columns is not None:
        raise ValueError(f"columns= selects columns by name, but {what} has no column names; select its columns first.")
    if X.ndim != 2:
        raise ValueError(f"the source must be rows of numbers, got {what} of shape {X.shape}.")


@dataclass(frozen=True, eq=False)
class Call(Loader):
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
    """Inputs, targets and weights out of a tuple of arrays, or out of a table."""
    if columns is not None:
        return columns.split(_as_table(value, name, columns.wanted(need)), name, need)
    several = value if isinstance(value, tuple) else (value,)
    X, y, w = (None if v is None else np.asarray(v) for v in (*several, None, None)[:3])
    if X is None or X.ndim != 2:
        raise BlockError(f"{name}: X must have two dimensions, got shape {() if X is None else X.shape}.")
    for what, v in (("y", y), ("the weight", w)):
        if v is not None and v.shape[0] != X.shape[0]:
            raise BlockError(f"{name}: X has {X.shape[0]:,} rows and {what} has {v.shape[0]:,}.")
    return X, y, w


def _as_table(value: Any, name: str, wanted: Sequence[str]) -> Any:
    import pyarrow as pa

    if missing := [c for c in wanted if c not in list(getattr(value, "column_names", getattr(value, "columns", ())))]:
        raise BlockError(f"{name}: has no column {missing[0]!r}.")
    if isinstance(value, pa.Table | pa.RecordBatch):
        return value
    if hasattr(value, "to_arrow"):
        return value.to_arrow()
    return pa.Table.from_pandas(value[list(wanted)], preserve_index=False)


def _calls(functions: Sequence[Any], target: Any, weight: Any, columns: Any) -> Opened:
    first = functions[0]()
    if columns is None and target is None and weight is None:
        return Opened([Call(f, i) for i, f in enumerate(functions)], None, None, isinstance(first, tuple))
    names = [str(c) for c in getattr(first, "column_names", getattr(first, "columns", ()))]
    if not names:
        raise ValueError(
            "target=, weight= and columns= are names of columns, but these functions return arrays; let them return "
            "(X, y) or (X, y, weight)."
        )
    chosen = ColumnRoles.among(names, columns, target, weight)
    loaders = [Call(f, i, chosen) for i, f in enumerate(functions)]
    return Opened(loaders, chosen.inputs, len(chosen.inputs), target is not None)


@dataclass(frozen=True, eq=False)
class DaskBlock(Loader):
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

        computed = dask.compute(*self.pieces, scheduler="synchronous")
        yield _triple(computed if self.columns is None else computed[0], self.columns, self.name, need)


def _dask(source: Any, target: Any, weight: Any, columns: Any) -> Opened:
    chosen = None
    if hasattr(source, "npartitions") and hasattr(source, "columns"):
        chosen = ColumnRoles.among([str(c) for c in source.columns], columns, target, weight)
        source = source[chosen.wanted(Need())]
        pieces = [(piece,) for piece in source.to_delayed()]
        sizes: list[int | None] = [None] * len(pieces)
    else:
        _check_matrix(source, columns, "a Dask array")
        source = source.rechunk({1: -1})
        sizes = [None if np.isnan(c) else int(c) for c in source.chunks[0]]
        aligned = [_aligned(what, v, source) for what, v in (("target", target), ("weight", weight))]
        pieces = list(zip(source.to_delayed().ravel(), *aligned, strict=True))
    token = str(getattr(source, "name", getattr(source, "_name", "")))
    persisted = any(type(value).__name__ == "Future" for value in dict(source.__dask_graph__()).values())
    parts = enumerate(zip(pieces, sizes, strict=True))
    loaders = [DaskBlock(piece, i, rows, chosen, token, persisted) for i, (piece, rows) in parts]
    names = None if chosen is None else chosen.inputs
    return Opened(loaders, names, int(source.shape[1]) if names is None else len(names), target is not None)


def _aligned(what: str, v: Any, X: Any) -> list[Any]:
    """Partitions of a target or weight, cut as X is."""
    if v is None:
        return [None] * X.numblocks[0]
    if not is_dask(v):
        import dask.array as da

        v = da.from_array(np.asarray(v), chunks=X.chunks[0] if np.ndim(v) == 1 else (X.chunks[0], -1))
    if v.shape[0] != X.shape[0] and not (np.isnan(v.shape[0]) or np.isnan(X.shape[0])):
        raise ValueError(f"{what} must have {X.shape[0]:,} rows, as the source has; got {v.shape[0]:,}.")
    if v.chunks[0] != X.chunks[0]:
        v = v.rechunk({0: X.chunks[0]})
    return list((v if v.ndim == 1 else v.rechunk({1: -1})).to_delayed().ravel())


@dataclass(frozen=True, eq=False)
class Mapped(Loader):
    """Another block, whose rows go through a function when they are read."""

    inner: Loader  # The block
    function: Callable[[Any, Any], tuple[Any, Any]]  # From inputs and targets, either of which may be ``None``, to such
    rows: int | None  # As many as the block has

    @property
    def name(self) -> str:
        """That of the block."""
        return self.inner.name

    def identity(self) -> str:
        return f"{self.inner.identity()} {joblib.hash(self.function)}"

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        for X, y, weight in self.inner.read(need):
            X, y = self.function(X if need.X else None, y)
            yield (np.empty((len(y if y is not None else weight), 0)) if X is None else X), y, weight
