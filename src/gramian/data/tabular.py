"""Blocks of Parquet, Arrow and CSV files, read through pyarrow's datasets: only the columns that are wanted."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.parts import CHUNK, BlockError, Need, Readable

__all__ = ["Columns", "FileBlock", "file_blocks", "paths_of", "require_pyarrow"]

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
    ".csv": "csv",
}
"""How files are read, by the end of their name."""


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are what.

    Parameters
    ----------
    inputs : tuple of str
        X.
    target : str, tuple of str or None
        y: one column, or several.
    weight : str or None
        Weights.
    """

    inputs: tuple[str, ...]
    target: str | tuple[str, ...] | None
    weight: str | None

    @property
    def targets(self) -> tuple[str, ...]:
        """Columns of y."""
        return (self.target,) if isinstance(self.target, str) else self.target or ()

    @classmethod
    def among(cls, names: Sequence[str], inputs: Any, target: Any, weight: str | None) -> Columns:
        """Return the columns by name; inputs are by default all that are nothing else.

        Parameters
        ----------
        names : sequence of str
            Columns that there are.
        inputs : sequence of str or None
            Columns of X.
        target : str, sequence of str or None
            Of y.
        weight : str or None
            Of weights.

        Returns
        -------
        Columns
            The choice.
        """
        target = target if target is None or isinstance(target, str) else tuple(target)
        chosen = cls((), target, weight)
        others = {*chosen.targets, *([] if weight is None else [weight])}
        inputs = tuple(name for name in names if name not in others) if inputs is None else tuple(inputs)
        if not inputs:
            raise ValueError(f"no columns are left for X beside {sorted(others)}; the data have {list(names)}.")
        if both := others & set(inputs):
            raise ValueError(
                f"columns {sorted(both)} are both inputs and target or weight; leave them out of columns=."
            )
        return cls(inputs, target, weight)

    def wanted(self, need: Need) -> list[str]:
        """Return the columns to read.

        Parameters
        ----------
        need : Need
            What a pass wants.

        Returns
        -------
        list of str
            At least one, so that rows can be counted.
        """
        names = [*(self.inputs if need.X else ()), *(self.targets if need.y else ())]
        names += [self.weight] if self.weight is not None and need.weight else []
        return list(dict.fromkeys(names)) or [self.inputs[0]]

    def split(self, table: Any, name: str, need: Need) -> tuple[Any, Any, Any]:
        """Return inputs, targets and weights of a table.

        Parameters
        ----------
        table : pyarrow.RecordBatch or pyarrow.Table
            With the columns wanted.
        name : str
            What an error calls it.
        need : Need
            What is wanted.

        Returns
        -------
        tuple
            Arrays, or ``None``.
        """
        X = _matrix(table, self.inputs, name) if need.X else None
        y = None
        if need.y and self.targets:
            y = (
                _values(table, self.target, name)
                if isinstance(self.target, str)
                else _matrix(table, self.targets, name)
            )
        w = None if self.weight is None or not need.weight else _matrix(table, (self.weight,), name)[:, 0]
        if X is None and y is None and w is None:
            X = np.empty((table.num_rows, 0))
        return X, y, w


def _column(table: Any, column: str, name: str) -> Any:
    if column not in table.schema.names:
        raise BlockError(f"{name}: has no column {column!r}; it has {table.schema.names}.")
    return table.column(column)


def _values(table: Any, column: str, name: str) -> NDArray[Any]:
    """A column as it is: numbers or labels."""
    values = _column(table, column, name)
    if values.null_count:
        raise BlockError(f"{name}: the target {column!r} lacks {values.null_count} values; remove such rows.")
    array = values.to_numpy(zero_copy_only=False) if hasattr(values, "offset") else values.to_numpy()
    return array.astype(str) if array.dtype.kind == "O" else np.asarray(array)


def _matrix(table: Any, columns: Sequence[str], name: str) -> NDArray[Any]:
    """Columns of numbers side by side; float32 where all are."""
    import pyarrow.types as kinds

    fields = [_column(table, column, name).type for column in columns]
    for column, kind in zip(columns, fields, strict=True):
        if not (kinds.is_floating(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind)):
            raise BlockError(
                f"{name}: column {column!r} holds {kind}, and an input must be a number; encode it, or choose others "
                "with columns=."
            )
    small = all(kinds.is_float32(kind) or kinds.is_float16(kind) for kind in fields)
    out = np.empty((table.num_rows, len(columns)), np.float32 if small else np.float64)
    for j, column in enumerate(columns):
        values = table.column(column)
        out[:, j] = values.to_numpy(zero_copy_only=False) if hasattr(values, "offset") else values.to_numpy()
    if not np.all(np.isfinite(out)):
        row, j = (int(i) for i in np.argwhere(~np.isfinite(out))[0])
        what = "NaN or nothing" if np.isnan(out[row, j]) else "infinity"
        raise BlockError(
            f"{name}: column {columns[j]!r} holds {what} (row {row} of {table.num_rows:,} read at a time there); "
            "remove such rows, or fill them in."
        )
    return out


@dataclass(frozen=True)
class FileBlock(Readable):
    """Row groups of a Parquet file, or another file as a whole.

    Parameters
    ----------
    path : str
        The file.
    format : str
        ``"parquet"``, ``"ipc"`` or ``"csv"``.
    groups : tuple of int or None
        Row groups of a Parquet file.
    rows : int or None
        How many rows; ``None`` where only reading tells.
    columns : Columns
        Which are what.
    stamp : str
        Size and time of the file, by which a checkpoint knows that it is the same.
    """

    path: str
    format: str
    groups: tuple[int, ...] | None
    rows: int | None
    columns: Columns
    stamp: str = ""

    @property
    def name(self) -> str:
        """The file, and the row groups."""
        if not self.groups:
            return self.path
        first, last = self.groups[0], self.groups[-1]
        return f"{self.path}, row group{'' if first == last else 's'} {first if first == last else f'{first}-{last}'}"

    def identity(self) -> str:
        return f"{self.path} {self.groups} {self.stamp} {self.columns}"

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        wanted = self.columns.wanted(need)
        if self.format != "parquet":
            for batch in _dataset(self.path, self.format).to_batches(columns=wanted, batch_size=CHUNK):
                yield self.columns.split(batch, self.name, need)
            return
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as file:
            for group in self.groups or ():
                for batch in file.iter_batches(CHUNK, [group], wanted, use_threads=False):
                    yield self.columns.split(batch, f"{self.path}, row group {group}", need)


def _dataset(path: str, kind: str) -> Any:
    import pyarrow.dataset as ds

    return ds.dataset(path, format=kind)


def paths_of(source: str | os.PathLike[str]) -> list[str]:
    """Return the files of a folder, of a pattern such as ``"data/*.parquet"``, or the file itself.

    Parameters
    ----------
    source : str or path
        Where to look.

    Returns
    -------
    list of str
        In the order of their names.
    """
    text = os.fspath(source)
    path = Path(text)
    if path.is_dir():
        found = [str(p) for p in sorted(path.rglob("*")) if p.suffix in FORMATS and not _hidden(p.relative_to(path))]
    elif path.exists():
        found = [text]
    else:
        found = sorted(p for p in glob.glob(text, recursive=True) if os.path.isfile(p))
    if not found:
        raise FileNotFoundError(
            f"no data at {text!r}: expected a file, a folder or a pattern of {', '.join(sorted(FORMATS))} files."
        )
    return found


def _hidden(path: Path) -> bool:
    """Whether it is one of the files that writers leave beside the data, such as ``_SUCCESS``."""
    return any(part.startswith(("_", ".")) for part in path.parts)


def file_blocks(
    paths: Sequence[str], inputs: Any, target: Any, weight: str | None, rows: int
) -> tuple[list[FileBlock], Columns]:
    """Cut files into blocks.

    Parameters
    ----------
    paths : sequence of str
        The files.
    inputs, target, weight : object
        Columns, as ``Columns.among`` takes them.
    rows : int
        Rows of a block, about: neighbouring row groups are joined up to this, and none is cut.

    Returns
    -------
    tuple of list of FileBlock and Columns
        The blocks in order, and the columns.
    """
    require_pyarrow()
    columns: Columns | None = None
    blocks: list[FileBlock] = []
    for path in paths:
        kind = _format(path)
        names, groups = _opened(path, kind)
        if columns is None:
            columns = Columns.among(names, inputs, target, weight)
        if missing := [c for c in columns.wanted(Need()) if c not in names]:
            raise BlockError(f"{path}: has no column {missing[0]!r}, which {paths[0]} has; it has {names}.")
        stat = os.stat(path)
        stamp = f"{stat.st_size}-{stat.st_mtime_ns}"
        if groups is None:
            blocks.append(FileBlock(path, kind, None, None, columns, stamp))
        else:
            blocks += [FileBlock(path, kind, g, n, columns, stamp) for g, n in _joined(groups, rows) if n]
    assert columns is not None
    return blocks, columns


def require_pyarrow() -> None:
    """Raise an ``ImportError`` that says what to install, where pyarrow is missing."""
    if find_spec("pyarrow") is None:
        raise ImportError('reading and writing files needs pyarrow; pip install "gramian[data]".')


def _format(path: str) -> str:
    kind = FORMATS.get(Path(path).suffix.lower())
    if kind is None:
        raise ValueError(f"{path}: the name must end in one of {', '.join(sorted(FORMATS))}.")
    return kind


def _opened(path: str, kind: str) -> tuple[list[str], list[int] | None]:
    """Columns of a file, and the rows of its row groups where it has such."""
    try:
        if kind != "parquet":
            return list(_dataset(path, kind).schema.names), None
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            meta = file.metadata
            return list(file.schema_arrow.names), [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
    except Exception as error:
        raise BlockError(
            f"{path}: cannot be read as {kind} ({type(error).__name__}: {error}); it is cut short, or something else."
        ) from error


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
