"""Sources of rows (arrays, files, Dask collections, functions), opened as lists of blocks."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gramian.data.columns import ColumnRoles
from gramian.data.formats import FORMATS, ending_of
from gramian.data.loaders import ArrayBlock, Call, DaskBlock, FileBlock, Window
from gramian.data.parts import BlockError, Loader, Need
from gramian.data.tables import open_table

__all__ = ["Opened", "is_dask", "opened"]


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
    if isinstance(source, str | os.PathLike):
        return _files(_paths_of(source), target, weight, columns, rows)
    if is_dask(source):
        return _dask(source, target, weight, columns)
    if isinstance(source, list | tuple) and source:
        if all(callable(each) for each in source):
            return _calls(source, target, weight, columns)
        if all(isinstance(each, str | os.PathLike) for each in source):
            return _files([p for each in source for p in _paths_of(each)], target, weight, columns, rows)
    return _arrays(source, target, weight, columns, rows)


def _files(paths: list[str], target: Any, weight: Any, columns: Any, rows: int) -> Opened:
    for what, value in (("target", target), ("weight", weight)):
        if value is not None and not isinstance(value, str | list | tuple):
            raise TypeError(f"{what} of files is the name of a column, got {type(value).__name__}.")
    chosen: ColumnRoles | None = None
    loaders: list[Loader] = []
    for path in paths:
        table = open_table(path)
        chosen = chosen or ColumnRoles.among(table.names, columns, target, weight)
        if missing := [c for c in chosen.wanted(Need()) if c not in table.names]:
            raise BlockError(f"{path}: has no column {missing[0]!r}, which {paths[0]} has; it has {list(table.names)}.")
        stat = os.stat(path)
        stamp = f"{stat.st_size}-{stat.st_mtime_ns}"
        if table.groups is None:
            loaders.append(FileBlock(table, None, None, chosen, stamp))
        else:
            loaders += [FileBlock(table, g, n, chosen, stamp) for g, n in _joined(table.groups, rows) if n]
    assert chosen is not None
    return Opened(loaders, chosen.inputs, len(chosen.inputs), target is not None)


def _paths_of(source: str | os.PathLike[str]) -> list[str]:
    """The files of a folder, of a pattern such as ``"data/*.parquet"``, or the file itself."""
    text = os.fspath(source)
    path = Path(text)
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


def _joined(groups: Sequence[int], rows: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Neighbouring row groups, joined as long as they stay within so many rows."""
    held: list[int] = []
    count = 0
    for i, size in enumerate(groups):
        if held and count + size > rows:
            yield tuple(held), count
            held, count = [], 0
        held.append(i)
        count += size
    if held:
        yield tuple(held), count


def _arrays(source: Any, target: Any, weight: Any, columns: Any, rows: int) -> Opened:
    names: tuple[str, ...] | None = None
    if hasattr(source, "columns"):  # a data frame in memory
        frame, own = source, {str(c): c for c in source.columns}
        given = [value if _are_names(value, frame, own) else None for value in (target, weight)]
        chosen = ColumnRoles.among([str(c) for c in frame.columns], columns, *given)
        names, columns = chosen.inputs, None

        def values(wanted: Sequence[str]) -> Any:
            return np.column_stack([np.asarray(frame[own[name]]) for name in wanted])

        source = values(chosen.inputs)
        if given[0] is not None:
            target = np.asarray(frame[own[target]]) if isinstance(target, str) else values(chosen.targets)
        weight = np.asarray(frame[own[weight]]) if given[1] is not None else weight
    X = source if isinstance(source, np.ndarray) else np.asarray(source)
    if columns is not None:
        raise ValueError(
            "columns= selects columns by name, but an array has no column names; select its columns first."
        )
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


def _are_names(value: Any, frame: Any, own: Any) -> bool:
    """Whether a target or weight of a data frame is the name of a column, or several, rather than values."""
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        return isinstance(value, str)
    return len(value) != len(frame) or all(v in own for v in value)


def _calls(functions: Sequence[Any], target: Any, weight: Any, columns: Any) -> Opened:
    if columns is None and target is None and weight is None:
        loaders = [Call(f, i) for i, f in enumerate(functions)]
        return Opened(loaders, None, None, isinstance(functions[0](), tuple))
    first = functions[0]()
    names = [str(c) for c in getattr(first, "column_names", getattr(first, "columns", ()))]
    if not names:
        raise ValueError(
            "target=, weight= and columns= are names of columns, but these functions return arrays; let them return "
            "(X, y) or (X, y, weight)."
        )
    chosen = ColumnRoles.among(names, columns, target, weight)
    return Opened(
        [Call(f, i, chosen) for i, f in enumerate(functions)], chosen.inputs, len(chosen.inputs), target is not None
    )


def _dask(source: Any, target: Any, weight: Any, columns: Any) -> Opened:
    if hasattr(source, "npartitions") and hasattr(source, "columns"):
        chosen = ColumnRoles.among([str(c) for c in source.columns], columns, target, weight)
        wanted = source[chosen.wanted(Need())]
        pieces = [(piece, None, None) for piece in wanted.to_delayed()]
        sizes: list[int | None] = [None] * len(pieces)
        return _partitions(pieces, sizes, chosen, wanted, target is not None)
    if columns is not None:
        raise ValueError(
            "columns= selects columns by name, but a Dask array has no column names; select its columns first."
        )
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
