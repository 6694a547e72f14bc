"""Blocks that can be loaded again and again, from arrays, files and functions, and checks of what they hold."""

from __future__ import annotations

import glob
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from mmap import mmap
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from gramian.data.passes import CHUNK, Need, Part
from gramian.numerals import listed, nearest
from gramian.resources import spans

SHOWN = 30
"""Column names listed in an error at most."""


class BlockError(ValueError):
    """A block with invalid data; the message names the file and the row group."""


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

    def parts(self, first: int, need: Need) -> Iterator[Part]:
        """Read the block and check what it holds; ``first`` is the number of its first row."""
        done = 0
        for chunk in self._chunks(need):
            n = len(next(array for array in chunk if array is not None))
            wanted = [a if want else None for a, want in zip(chunk, (need.X, need.y, need.weight), strict=True)]
            for rows in spans(n, CHUNK):
                there = np.arange(done + rows.start, done + rows.stop, dtype=np.int64)
                part = _part(self, first, there, *(None if a is None else a[rows] for a in wanted))
                if part.index.size:
                    yield part
            done += n
        if self.rows is not None and done != self.rows:
            raise BlockError(f"{self.name}: has {done:,} rows now, but had {self.rows:,} when it was opened.")

    def _chunks(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        try:
            yield from self.read(need)
        except (BlockError, MemoryError):
            raise
        except Exception as error:
            raise BlockError(f"{self.name}: {self.told(error)}") from error

    def told(self, error: Exception) -> str:
        """Return why the block cannot be read, and what to do."""
        return f"cannot be read ({type(error).__name__}: {error})."


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


@dataclass(frozen=True)
class ColumnRoles:
    """The columns that are inputs, targets and weights."""

    inputs: tuple[str, ...]  # X
    target: str | tuple[str, ...] | None  # y: one column, or several
    weight: str | None  # Weights

    @property
    def targets(self) -> tuple[str, ...]:
        """Columns of y."""
        return (self.target,) if isinstance(self.target, str) else self.target or ()

    @classmethod
    def among(cls, names: Sequence[str], inputs: Any, target: Any, weight: str | None) -> ColumnRoles:
        """Return the roles of columns; by default, all others are inputs."""
        target = target if target is None or isinstance(target, str) else tuple(target)
        chosen = cls((), target, weight)
        others = dict.fromkeys((*chosen.targets, *([] if weight is None else [weight])))
        inputs = tuple(name for name in names if name not in others) if inputs is None else tuple(inputs)
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ValueError(f"two columns are called {twice[0]!r}; rename one.")
        for name in (*others, *inputs):
            if name not in names:
                close, shown = nearest(name, names), listed(map(repr, names), SHOWN)
                hint = f"{close} " if close.startswith("did") else ""
                raise ValueError(f"there is no column {name!r}; {hint}the columns are {shown}.")
        if not inputs:
            raise ValueError(f"no columns are left for X beside {sorted(others)}; the data have {list(names)}.")
        if both := others.keys() & set(inputs):
            raise ValueError(f"{sorted(both)} are both inputs and target or weight; leave them out of columns=.")
        return cls(inputs, target, weight)

    def wanted(self, need: Need) -> list[str]:
        """Return the columns to read."""
        names = [*(self.inputs if need.X else ()), *(self.targets if need.y else ())]
        names += [self.weight] if self.weight is not None and need.weight else []
        return list(dict.fromkeys(names)) or [self.inputs[0]]

    def split(self, table: Any, name: str, need: Need) -> tuple[Any, Any, Any]:
        """Return inputs, targets and weights of a table."""
        X = _matrix(table, self.inputs, name) if need.X else None
        y = None
        if need.y and self.target is not None:
            y = (_values if isinstance(self.target, str) else _matrix)(table, self.target, name)
        w = None if self.weight is None or not need.weight else _matrix(table, (self.weight,), name)[:, 0]
        if X is None and y is None and w is None:
            X = np.empty((table.num_rows, 0))
        return X, y, w


def _column(table: Any, column: str, name: str) -> Any:
    if column not in table.schema.names:
        raise BlockError(f"{name}: has no column {column!r}; it has {table.schema.names}.")
    return table.column(column)


def _numpy(values: Any) -> NDArray[Any]:
    """A column as an array; chunks of a table are copied."""
    return np.asarray(values.to_numpy(zero_copy_only=False) if hasattr(values, "offset") else values.to_numpy())


def _values(table: Any, column: Any, name: str) -> NDArray[Any]:
    """A target column: numbers or labels."""
    values = _column(table, column, name)
    if values.null_count:
        raise BlockError(f"{name}: the target {column!r} is missing in {values.null_count} rows; remove those rows.")
    array = _numpy(values)
    return array.astype(str) if array.dtype.kind == "O" else array


def _matrix(table: Any, columns: Sequence[str], name: str) -> NDArray[Any]:
    """Number columns side by side; float32 if all are."""
    import pyarrow.types as kinds

    fields = [_column(table, column, name).type for column in columns]
    for column, kind in zip(columns, fields, strict=True):
        if not (kinds.is_floating(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind)):
            raise BlockError(
                f"{name}: column {column!r} holds {kind}, but inputs must be numbers; encode it, or select other"
                " columns with columns=."
            )
    small = all(kinds.is_float32(kind) or kinds.is_float16(kind) for kind in fields)
    out = np.empty((table.num_rows, len(columns)), np.float32 if small else np.float64)
    for j, column in enumerate(columns):
        out[:, j] = _numpy(table.column(column))
    return out


@dataclass(frozen=True, eq=False)
class Opened:
    """The blocks of a source."""

    loaders: list[Any]  # In order
    names: tuple[str, ...] | None  # Names of the inputs, if any
    width: int | None  # Number of inputs, if known before reading
    targets: bool  # Whether there are targets


def is_dask(value: Any) -> bool:
    """Whether something is a Dask array or data frame, without importing Dask."""
    return type(value).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(value, "__dask_graph__")


def opened(source: Any, target: Any, weight: Any, columns: Any, rows: int) -> Opened:
    """Split a source into blocks."""
    several = source if isinstance(source, list | tuple) and source else [source]
    if all(isinstance(each, str | os.PathLike) for each in several):
        return _files([path for each in several for path in _paths_of(each)], target, weight, columns, rows)
    if is_dask(source):
        from gramian.data.cluster import opened_dask

        return opened_dask(source, target, weight, columns)
    if several is source and all(callable(each) for each in several):
        return _calls(source, target, weight, columns)
    return _arrays(source, target, weight, columns, rows)


@dataclass(frozen=True, eq=False)
class FileBlock(Loader):
    """Row groups of a Parquet file, record batches of an Arrow file, or all rows of a text file."""

    source: Any  # The file, a ``formats.Source``
    groups: tuple[int, ...] | None  # Which pieces; None to read the whole file
    columns: ColumnRoles
    stamp: str = ""  # Size and time of the file, for checkpoints

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

    def told(self, error: Exception) -> str:
        from gramian.data.formats import told

        return told(self.source.path, error, self.source.names)


def _files(paths: list[str], target: Any, weight: Any, columns: Any, rows: int) -> Opened:
    from gramian.data.tables import open_table

    for what, value in (("target", target), ("weight", weight)):
        if value is not None and not isinstance(value, str | list | tuple):
            raise TypeError(f"{what} must be the name of a column of the files, got {type(value).__name__}.")
    tables = [open_table(path) for path in paths]
    chosen = ColumnRoles.among(tables[0].names, columns, target, weight)
    loaders: list[Loader] = []
    for path, table in zip(paths, tables, strict=True):
        if missing := [c for c in chosen.wanted(Need()) if c not in table.names]:
            raise BlockError(f"{path}: has no column {missing[0]!r}, which {paths[0]} has; it has {list(table.names)}.")
        stamp = f"{os.stat(path).st_size}-{os.stat(path).st_mtime_ns}"
        if table.groups is None:
            loaders.append(FileBlock(str(path), None, table, None, chosen, stamp))
        for groups, n in _together(table.groups or (), rows):
            first, last = f"{table.pieces[0]} {groups[0]}", f"{table.pieces[1]} {groups[0]}-{groups[-1]}"
            name = f"{path}, {first if len(groups) == 1 else last}"
            loaders += [FileBlock(name, n, table, groups, chosen, stamp)] if n else []
    return Opened(loaders, chosen.inputs, len(chosen.inputs), target is not None)


def _paths_of(source: str | os.PathLike[str]) -> list[str]:
    """The files of a folder, of a pattern such as ``"data/*.parquet"``, or the file itself."""
    from gramian.data.formats import FORMATS, ending_of

    text, path = os.fspath(source), Path(source)
    if path.is_dir():
        # Without auxiliary files of a writer, such as ``_SUCCESS``.
        seen = [p for p in sorted(path.rglob("*")) if ending_of(p)]
        found = [str(p) for p in seen if not any(part.startswith(("_", ".")) for part in p.relative_to(path).parts)]
    elif path.exists():
        found = [text]
    else:
        found = sorted(p for p in glob.glob(text, recursive=True) if os.path.isfile(p))
    if not found:
        raise FileNotFoundError(
            f"no data at {text!r}: expected a file, a folder or a pattern of {', '.join(FORMATS)} files."
        )
    return found


def _together(groups: Sequence[int], rows: int) -> list[tuple[tuple[int, ...], int]]:
    """Neighbouring row groups, joined up to a number of rows."""
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
    """Rows of an array in memory, or of a memory map, which is sent as its file name."""

    rows: slice
    array: NDArray[Any] | None  # The rows, if they are in memory
    mapped: partial[Any] | None = None  # Else a function that opens the memory map

    @classmethod
    def of(cls, array: NDArray[Any], rows: slice) -> Window:
        """Return some rows of an array."""
        if isinstance(array, np.memmap) and array.filename is not None and isinstance(array.base, mmap):
            order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
            path = str(array.filename)
            return cls(rows, None, partial(np.memmap, path, array.dtype, "r", array.offset, array.shape, order))
        return cls(rows, array[rows])

    def identity(self) -> str:
        """Return a text that identifies the rows."""
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

    def identity(self) -> str:
        return " ".join(window.identity() for window in (self.X, self.y, self.weight) if window is not None)

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        n = self.rows or 0
        X = self.X.load() if need.X else np.empty((n, 0))
        y = None if self.y is None or not need.y else self.y.load()
        w = None if self.weight is None else self.weight.load()
        for rows in spans(n, CHUNK):
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
    check_matrix(X, columns, "an array")
    y, w = (None if v is None else v if isinstance(v, np.ndarray) else np.asarray(v) for v in (target, weight))
    for what, v in (("target", y), ("weight", w)):
        if v is not None and (v.ndim == 0 or v.shape[0] != X.shape[0]):
            raise ValueError(f"{what} must have {X.shape[0]:,} rows, as the source has; got shape {v.shape}.")
    loaders = []
    for part in spans(X.shape[0], rows):
        targets, weights = (None if v is None else Window.of(v, part) for v in (y, w))
        name = f"rows {part.start:,} to {part.stop - 1:,}"
        loaders.append(ArrayBlock(name, part.stop - part.start, Window.of(X, part), targets, weights))
    return Opened(loaders, names, X.shape[1], y is not None)


def _are_names(value: Any, frame: Any, own: Any) -> bool:
    """Whether a target or weight is given by column names rather than values."""
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        return isinstance(value, str)
    return len(value) != len(frame) or all(v in own for v in value)


def check_matrix(X: Any, columns: Any, what: str) -> None:
    """Raise unless X is rows of numbers without column names."""
    if columns is not None:
        raise ValueError(f"columns= selects columns by name, but {what} has no column names; select its columns first.")
    if X.ndim != 2:
        raise ValueError(f"the source must be rows of numbers, got {what} of shape {X.shape}.")


@dataclass(frozen=True, eq=False)
class Call(Loader):
    """A user's function that returns X, (X, y), (X, y, weight) or a table."""

    function: Callable[[], Any]  # Without arguments
    columns: ColumnRoles | None  # Roles of the columns of a table

    def identity(self) -> str:
        # By name only; the function's result is not inspected.
        return f"{self.name} {self.columns}"

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        yield split_rows(self.function(), self.columns, self.name, need)


def split_rows(value: Any, columns: ColumnRoles | None, name: str, need: Need) -> tuple[Any, Any, Any]:
    """Return inputs, targets and weights from a tuple of arrays or a table."""
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

    names = list(getattr(value, "column_names", getattr(value, "columns", ())))
    if missing := [c for c in wanted if c not in names]:
        raise BlockError(f"{name}: has no column {missing[0]!r}; it has {names}.")
    if isinstance(value, pa.Table | pa.RecordBatch):
        return value
    if hasattr(value, "to_arrow"):
        return value.to_arrow()
    return pa.Table.from_pandas(value[list(wanted)], preserve_index=False)


def _calls(functions: Sequence[Any], target: Any, weight: Any, columns: Any) -> Opened:
    first, chosen = functions[0](), None
    if not (columns is None and target is None and weight is None):
        names = [str(c) for c in getattr(first, "column_names", getattr(first, "columns", ()))]
        if not names:
            raise ValueError(
                "target=, weight= and columns= are names of columns, but these functions return arrays; let them "
                "return (X, y) or (X, y, weight)."
            )
        chosen = ColumnRoles.among(names, columns, target, weight)
    called = [getattr(function, "__name__", type(function).__name__) for function in functions]
    loaders = [Call(f"loader {i} ({called[i]})", None, function, chosen) for i, function in enumerate(functions)]
    if chosen is None:
        return Opened(loaders, None, None, isinstance(first, tuple))
    return Opened(loaders, chosen.inputs, len(chosen.inputs), target is not None)


@dataclass(frozen=True, eq=False)
class Mapped(Loader):
    """A block whose rows are transformed by a function when they are read."""

    inner: Loader  # The block
    function: Callable[[Any, Any], tuple[Any, Any]]  # (inputs, targets) → (inputs, targets); either may be None

    def identity(self) -> str:
        return f"{self.inner.identity()} {joblib.hash(self.function)}"

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        for X, y, weight in self.inner.read(need):
            X, y = self.function(X if need.X else None, y)
            yield (np.empty((len(y if y is not None else weight), 0)) if X is None else X), y, weight
