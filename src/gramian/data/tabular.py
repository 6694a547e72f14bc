"""Blocks of Parquet, Arrow and CSV files, read through pyarrow: only the columns that are wanted."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gramian.data.columns import Columns
from gramian.data.delimited import CsvBlock, CsvFormat, csv_blocks
from gramian.data.parts import CHUNK, BlockError, Need, Readable

__all__ = ["FileBlock", "file_blocks", "paths_of", "require_pyarrow"]

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
class FileBlock(Readable):
    """Row groups of a Parquet file, or an Arrow file as a whole.

    Parameters
    ----------
    path : str
        The file.
    format : str
        ``"parquet"`` or ``"ipc"``.
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
) -> tuple[list[FileBlock | CsvBlock], Columns]:
    """Cut files into blocks.

    Parameters
    ----------
    paths : sequence of str
        The files.
    inputs, target, weight : object
        Columns, as ``Columns.among`` takes them.
    rows : int
        Rows of a block, about: neighbouring row groups are joined up to this, and none is cut; CSV files are.

    Returns
    -------
    tuple of list of FileBlock or CsvBlock and Columns
        The blocks in order, and the columns.
    """
    require_pyarrow()
    columns: Columns | None = None
    blocks: list[FileBlock | CsvBlock] = []
    for path in paths:
        kind = _format(path)
        names, form, groups = _opened(path, kind)
        if columns is None:
            columns = Columns.among(names, inputs, target, weight)
        if missing := [c for c in columns.wanted(Need()) if c not in names]:
            raise BlockError(f"{path}: has no column {missing[0]!r}, which {paths[0]} has; it has {names}.")
        stat = os.stat(path)
        stamp = f"{stat.st_size}-{stat.st_mtime_ns}"
        if form is not None:
            blocks += csv_blocks(path, form, columns, rows, stamp)
        elif groups is None:
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


def _opened(path: str, kind: str) -> tuple[list[str], CsvFormat | None, list[int] | None]:
    """Columns of a file, how it is written if it is text, and the rows of its row groups where it has such."""
    try:
        if kind == "csv":
            form = CsvFormat.of(path)
            return form.names, form, None
        if kind != "parquet":
            return list(_dataset(path, kind).schema.names), None, None
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            meta = file.metadata
            groups = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
            return list(file.schema_arrow.names), None, groups
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
