"""Output of tables to files, block by block; a file appears when its last row is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from gramian.data.sniff import TableError, need_pyarrow
from gramian.data.unfinished import remove_unfinished, unfinished

__all__ = ["check_output", "writing"]

ENDINGS = (".csv", ".parquet", ".pq", ".arrow", ".feather")


def check_output(path: Path) -> None:
    """Raise where a table could not be written, before anything is computed."""
    if path.suffix.lower() not in ENDINGS:
        raise TableError(f"{path}: the name should end in {', '.join(ENDINGS)}, to say what to write.")
    if path.is_dir():
        raise TableError(f"{path}: this is a folder; name a file.")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise TableError(f"{path}: there is no folder {folder}; create it first.")
    if not os.access(folder, os.W_OK):
        raise TableError(f"{path}: the folder {folder} cannot be written to.")


@contextmanager
def writing(target: Path | BinaryIO) -> Iterator[Callable[[Any], None]]:
    """Write a table block by block; the file appears when the block ends, whole, or not at all."""
    need_pyarrow()
    if not isinstance(target, Path):
        with _blocks(target, "csv") as write:
            yield write
        return
    check_output(target)
    draft = unfinished(target)
    remove_unfinished(target)
    try:
        with draft.open("xb") as file:
            with _blocks(file, target.suffix.lower().lstrip(".")) as write:
                yield write
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _blocks(file: Any, kind: str) -> Iterator[Callable[[Any], None]]:
    import pyarrow.csv
    import pyarrow.ipc
    import pyarrow.parquet

    writer: Any = None

    def write(table: Any) -> None:
        nonlocal writer
        if writer is None:
            if kind == "csv":
                writer = pyarrow.csv.CSVWriter(file, table.schema)
            elif kind in ("parquet", "pq"):
                writer = pyarrow.parquet.ParquetWriter(file, table.schema)
            else:
                writer = pyarrow.ipc.new_file(file, table.schema)
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()
