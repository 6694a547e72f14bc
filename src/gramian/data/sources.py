"""From what a user has to a list of blocks that can be read: arrays, files, Dask collections, functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from mmap import mmap
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from gramian.data.parts import CHUNK, BlockError, Loader, Need
from gramian.data.tabular import Columns, file_blocks, paths_of

__all__ = ["ArrayBlock", "Call", "DaskBlock", "Mapped", "Opened", "Window", "is_dask", "opened"]


@dataclass(frozen=True, eq=False)
class Opened:
    """The blocks of a source.

    Parameters
    ----------
    loaders : list of Loader
        In order.
    names : tuple of str or None
        Names of the inputs, where they have names.
    width : int or None
        Number of inputs, where it is known without reading.
    targets : bool
        Whether there are targets.
    """

    loaders: list[Any]
    names: tuple[str, ...] | None
    width: int | None
    targets: bool


@dataclass(frozen=True, eq=False)
class Window:
    """Rows of an array in memory, or of a memory map, which travels as the name of its file.

    Parameters
    ----------
    array : array or None
        The rows, where they are in memory.
    file : tuple
        File, dtype, shape, order and place of a memory map.
    rows : slice
        Which.
    """

    array: NDArray[Any] | None
    file: tuple[Any, ...]
    rows: slice

    @classmethod
    def of(cls, array: NDArray[Any], rows: slice) -> Window:
        """Return some rows of an array.

        Parameters
        ----------
        array : array
            In memory, or a memory map as ``np.memmap`` made it.
        rows : slice
            Which.

        Returns
        -------
        Window
            Without a copy.
        """
        if isinstance(array, np.memmap) and array.filename is not None and isinstance(array.base, mmap):
            order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
            return cls(None, (str(array.filename), array.dtype.str, array.shape, order, array.offset), rows)
        return cls(array[rows], (), rows)

    def identity(self) -> str:
        """Return what tells these rows from others.

        Returns
        -------
        str
            A hash, or the file and its time.
        """
        if self.array is None:
            return f"{self.file} {self.rows} {os.stat(self.file[0]).st_mtime_ns}"
        return str(joblib.hash(self.array))

    def load(self) -> NDArray[Any]:
        """Return the rows.

        Returns
        -------
        array
            A view.
        """
        if self.array is not None:
            return self.array
        path, dtype, shape, order, offset = self.file
        return np.memmap(path, dtype=dtype, mode="r", shape=shape, order=order, offset=offset)[self.rows]


@dataclass(frozen=True, eq=False)
class ArrayBlock:
    """Rows of arrays.

    Parameters
    ----------
    X : Window
        Inputs.
    y, weight : Window or None
        Targets and weights.
    first : int
        The first row.
    rows : int
        How many.
    """

    X: Window
    y: Window | None
    weight: Window | None
    first: int
    rows: int

    @property
    def name(self) -> str:
        """Which rows."""
        return f"rows {self.first:,} to {self.first + self.rows - 1:,}"

    def identity(self) -> str:
        """Return what tells this block from others.

        Returns
        -------
        str
            A hash of the rows, or the file of a memory map.
        """
        windows = (window for window in (self.X, self.y, self.weight) if window is not None)
        return " ".join(window.identity() for window in windows)

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        """Yield inputs, targets and weights.

        Parameters
        ----------
        need : Need
            What is wanted.

        Yields
        ------
        tuple of X, y and weight
            Arrays.
        """
        X = self.X.load() if need.X else None
        y = None if self.y is None or not need.y else self.y.load()
        w = None if self.weight is None else self.weight.load()
        for start in range(0, self.rows, CHUNK):
            rows = slice(start, start + CHUNK)
            count = min(CHUNK, self.rows - start)
            inputs = np.empty((count, 0)) if X is None else X[rows]
            yield inputs, None if y is None else y[rows], None if w is None else w[rows]


@dataclass(frozen=True, eq=False)
class Call:
    """A user's function that returns X, (X, y), (X, y, weight) or a table.

    Parameters
    ----------
    function : callable
        Without arguments.
    number : int
        Its place in the list.
    columns : Columns or None, default=None
        Which columns of a table are what.
    rows : None
        How many rows: only calling it tells.
    """

    function: Callable[[], Any]
    number: int
    columns: Columns | None = None
    rows: None = None

    @property
    def name(self) -> str:
        """Its place, and the function's name."""
        return f"loader {self.number} ({getattr(self.function, '__name__', type(self.function).__name__)})"

    def identity(self) -> str:
        """Return what tells this block from others.

        Returns
        -------
        str
            Its name: what a function returns is not looked at.
        """
        return f"{self.name} {self.columns}"

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        """Yield inputs, targets and weights.

        Parameters
        ----------
        need : Need
            What is wanted.

        Yields
        ------
        tuple of X, y and weight
            Arrays.
        """
        yield _triple(self.function(), self.columns, self.name, need)


def _triple(value: Any, columns: Columns | None, name: str, need: Need) -> tuple[Any, Any, Any]:
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
class DaskBlock:
    """Partitions of Dask collections, computed where the block is worked on.

    Parameters
    ----------
    pieces : tuple
        Delayed X, and y and weight or ``None``.
    number : int
        The partition.
    rows : int or None
        How many rows, where Dask knows.
    columns : Columns or None
        Which columns of a data frame are what.
    token : str
        Dask's name of the collection.
    persisted : bool, default=False
        Whether the cluster holds it already, so that only its own workers can get at it.
    """

    pieces: tuple[Any, ...]
    number: int
    rows: int | None
    columns: Columns | None
    token: str
    persisted: bool = False

    @property
    def name(self) -> str:
        """The partition."""
        return f"partition {self.number}"

    def identity(self) -> str:
        """Return what tells this block from others.

        Returns
        -------
        str
            Dask's token, and the number of the partition.
        """
        return f"{self.token} {self.number} {self.columns}"

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        """Yield inputs, targets and weights.

        Parameters
        ----------
        need : Need
            What is wanted.

        Yields
        ------
        tuple of X, y and weight
            Arrays.
        """
        import dask

        X, y, w = dask.compute(*self.pieces, scheduler="synchronous")
        if self.columns is not None:
            yield _triple(X, self.columns, self.name, need)
            return
        X, y, w = (None if v is None else np.asarray(v) for v in (X, y, w))
        yield X, (y if need.y else None), w


@dataclass(frozen=True, eq=False)
class Mapped:
    """Another block, whose rows go through a function when they are read.

    Parameters
    ----------
    inner : Loader
        The block.
    function : callable
        From inputs and targets, either of which may be ``None``, to such.
    """

    inner: Any
    function: Callable[[Any, Any], tuple[Any, Any]]

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
        """Return what tells this block from others.

        Returns
        -------
        str
            The block's own identity, and a hash of the function.
        """
        return f"{self.inner.identity()} {joblib.hash(self.function)}"

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        """Yield inputs, targets and weights.

        Parameters
        ----------
        need : Need
            What is wanted.

        Yields
        ------
        tuple of X, y and weight
            Arrays.
        """
        for X, y, weight in self.inner.read(need):
            X, y = self.function(X if need.X else None, y)
            yield (np.empty((len(y if y is not None else weight), 0)) if X is None else X), y, weight


def is_dask(value: Any) -> bool:
    """Tell whether something is a Dask array or data frame; Dask is not imported for that.

    Parameters
    ----------
    value : object
        Anything.

    Returns
    -------
    bool
        The answer.
    """
    return type(value).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(value, "__dask_graph__")


def opened(source: Any, target: Any, weight: Any, columns: Any, rows: int) -> Opened:
    """Cut a source into blocks.

    Parameters
    ----------
    source : array, path, list of path, Dask collection or list of callable
        The data.
    target, weight : object
        Names of columns where the source has columns, arrays like the source otherwise.
    columns : sequence of str or None
        Inputs.
    rows : int
        Rows of a block, about.

    Returns
    -------
    Opened
        The blocks.
    """
    if isinstance(source, str | os.PathLike):
        return _files(paths_of(source), target, weight, columns, rows)
    if is_dask(source):
        return _dask(source, target, weight, columns)
    if isinstance(source, list | tuple) and source:
        if all(callable(each) for each in source):
            return _calls(source, target, weight, columns)
        if all(isinstance(each, str | os.PathLike) for each in source):
            return _files([p for each in source for p in paths_of(each)], target, weight, columns, rows)
    return _arrays(source, target, weight, columns, rows)


def _files(paths: list[str], target: Any, weight: Any, columns: Any, rows: int) -> Opened:
    for what, value in (("target", target), ("weight", weight)):
        if value is not None and not isinstance(value, str | list | tuple):
            raise TypeError(f"{what} of files is the name of a column, got {type(value).__name__}.")
    loaders, chosen = file_blocks(paths, columns, target, weight, rows)
    return Opened(list(loaders), chosen.inputs, len(chosen.inputs), target is not None)


def _arrays(source: Any, target: Any, weight: Any, columns: Any, rows: int) -> Opened:
    names: tuple[str, ...] | None = None
    if hasattr(source, "columns"):  # a data frame in memory
        chosen = Columns.among([str(c) for c in source.columns], columns, *_names(target, weight))
        frame, names = source, chosen.inputs
        source, columns = frame[list(chosen.inputs)].to_numpy(), None
        target = frame[target].to_numpy() if isinstance(target, str) else target
        weight = frame[weight].to_numpy() if isinstance(weight, str) else weight
    X = source if isinstance(source, np.ndarray) else np.asarray(source)
    if columns is not None:
        raise ValueError("columns= chooses by name, and an array has no names; take its columns first.")
    if X.ndim != 2:
        raise ValueError(f"the source must be rows of numbers, got an array of shape {X.shape}.")
    y, w = (None if v is None else v if isinstance(v, np.ndarray) else np.asarray(v) for v in (target, weight))
    for what, v in (("target", y), ("weight", w)):
        if v is not None and (v.ndim == 0 or v.shape[0] != X.shape[0]):
            raise ValueError(f"{what} must have {X.shape[0]:,} rows, as the source has; got shape {v.shape}.")
    loaders = []
    for start in range(0, X.shape[0], rows):
        part = slice(start, min(start + rows, X.shape[0]))
        windows = [None if v is None else Window.of(v, part) for v in (X, y, w)]
        loaders.append(ArrayBlock(windows[0], windows[1], windows[2], start, part.stop - start))  # type: ignore[arg-type]
    return Opened(loaders, names, X.shape[1], y is not None)


def _names(*values: Any) -> list[Any]:
    return [value if isinstance(value, str) else None for value in values]


def _calls(functions: Sequence[Any], target: Any, weight: Any, columns: Any) -> Opened:
    if columns is None and target is None and weight is None:
        loaders = [Call(f, i) for i, f in enumerate(functions)]
        return Opened(loaders, None, None, isinstance(functions[0](), tuple))
    first = functions[0]()
    names = [str(c) for c in getattr(first, "column_names", getattr(first, "columns", ()))]
    if not names:
        raise ValueError(
            "target=, weight= and columns= are names of columns, and these loaders return arrays; have them return "
            "(X, y) or (X, y, weight)."
        )
    chosen = Columns.among(names, columns, target, weight)
    return Opened(
        [Call(f, i, chosen) for i, f in enumerate(functions)], chosen.inputs, len(chosen.inputs), target is not None
    )


def _dask(source: Any, target: Any, weight: Any, columns: Any) -> Opened:
    if hasattr(source, "npartitions") and hasattr(source, "columns"):
        chosen = Columns.among([str(c) for c in source.columns], columns, target, weight)
        wanted = source[chosen.wanted(Need())]
        pieces = [(piece, None, None) for piece in wanted.to_delayed()]
        sizes: list[int | None] = [None] * len(pieces)
        return _partitions(pieces, sizes, chosen, wanted, target is not None)
    if columns is not None:
        raise ValueError("columns= chooses by name, and a Dask array has no names; take its columns first.")
    if source.ndim != 2:
        raise ValueError(f"the source must be rows of numbers, got a Dask array of shape {source.shape}.")
    X = source.rechunk({1: -1})
    sizes = [None if np.isnan(c) else int(c) for c in X.chunks[0]]
    columns_of = [_aligned(what, v, X) for what, v in (("target", target), ("weight", weight))]
    parts = [list(X.to_delayed().ravel()), *columns_of]
    return _partitions(list(zip(*parts, strict=True)), sizes, None, X, target is not None, int(X.shape[1]))


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


def _partitions(
    pieces: list[Any], sizes: list[int | None], chosen: Any, source: Any, targets: bool, width: int | None = None
) -> Opened:
    token = str(getattr(source, "name", getattr(source, "_name", "")))
    persisted = any(type(value).__name__ == "Future" for value in dict(source.__dask_graph__()).values())
    loaders: list[Loader] = [
        DaskBlock(tuple(piece), i, rows, chosen, token, persisted)
        for i, (piece, rows) in enumerate(zip(pieces, sizes, strict=True))
    ]
    names = None if chosen is None else chosen.inputs
    return Opened(loaders, names, width if names is None else len(names), targets)
