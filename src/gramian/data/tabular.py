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
PIECES = {"parquet": ("row group", "row groups"), "ipc": ("record batch", "record batches")}
"""What files are made of that can be read by itself: the names of one, and of several."""


@dataclass(frozen=True)
class FileBlock(Readable):
    """Row groups of a Parquet file, or record batches of an Arrow file."""

    path: str  # The file
    format: str  # A key of ``PIECES``
    groups: tuple[int, ...]  # Which row groups or record batches, in order
    rows: int  # How many rows
    columns: Columns  # Which are what
    stamp: str = ""  # Size and time of the file, by which a checkpoint knows that it is the same

    @property
    def name(self) -> str:
        """The file, and the row groups."""
        first, last = self.groups[0], self.groups[-1]
        return self._named(first) if first == last else f"{self.path}, {PIECES[self.format][1]} {first}-{last}"

    def _named(self, group: int) -> str:
        return f"{self.path}, {PIECES[self.format][0]} {group}"

    def identity(self) -> str:
        return f"{self.path} {self.groups} {self.stamp} {self.columns}"

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        wanted = self.columns.wanted(need)
        batches = _parquet_batches if self.format == "parquet" else _arrow_batches
        for group, batch in batches(self.path, self.groups, wanted):
            yield self.columns.split(batch, self._named(group), need)


def _parquet_batches(path: str, groups: Sequence[int], wanted: list[str]) -> Iterator[tuple[int, Any]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for group in groups:
            for batch in file.iter_batches(CHUNK, [group], wanted, use_threads=False):
                yield group, batch


def _arrow_batches(path: str, groups: Sequence[int], wanted: list[str]) -> Iterator[tuple[int, Any]]:
    """Through a memory map, so that what is not compressed is read a chunk at a time."""
    import pyarrow as pa

    with pa.memory_map(path) as source, pa.ipc.open_file(source) as file:
        fields = sorted(file.schema.get_field_index(name) for name in wanted)
        with pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=fields)) as chosen:
            for group in groups:
                batch = chosen.get_batch(group)
                for start in range(0, batch.num_rows, CHUNK):
                    yield group, batch.slice(start, CHUNK)


def paths_of(source: str | os.PathLike[str]) -> list[str]:
    """Return the files of a folder, of a pattern such as ``"data/*.parquet"``, or the file itself."""
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
    """Cut files into blocks."""
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


def _opened(path: str, kind: str) -> tuple[list[str], CsvFormat | None, list[int]]:
    """Columns of a file, how it is written if it is text, and the rows of its row groups or record batches."""
    try:
        if kind == "csv":
            form = CsvFormat.of(path)
            return form.names, form, []
        if kind == "ipc":
            names, groups = _arrow_sizes(path)
            return names, None, groups
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            meta = file.metadata
            groups = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
            return list(file.schema_arrow.names), None, groups
    except Exception as error:
        raise BlockError(
            f"{path}: cannot be read as {kind} ({type(error).__name__}: {error}); it is cut short, or something else."
        ) from error


def _arrow_sizes(path: str) -> tuple[list[str], list[int]]:
    """Columns, and rows of each record batch; only the first column is looked at."""
    import pyarrow as pa

    options = pa.ipc.IpcReadOptions(included_fields=[0])
    with pa.memory_map(path) as source, pa.ipc.open_file(source) as file:
        names = list(file.schema.names)
        with pa.ipc.open_file(source, options=options) as first:
            return names, [first.get_batch(i).num_rows for i in range(first.num_record_batches)]


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
