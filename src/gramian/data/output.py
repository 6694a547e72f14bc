"""Atomic output of files, and output of tables block by block."""

from __future__ import annotations

import glob
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

ENDINGS = (".csv", ".parquet", ".pq", ".arrow", ".feather")
ABANDONED = 3600.0
"""Temporary files unchanged for this many seconds count as abandoned."""


def unfinished(target: Path) -> Path:
    """Return a temporary name next to the target."""
    return target.absolute().with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")


def remove_unfinished(target: Path) -> None:
    """Remove temporary files of killed writers."""
    pattern = f".{glob.escape(target.name)}.{'[0-9a-f]' * 8}.tmp"
    for left in target.absolute().parent.glob(pattern):
        with suppress(OSError):  # another writer may have removed it
            if time.time() - max(p.stat().st_mtime for p in (left, *left.glob("*"))) > ABANDONED:
                shutil.rmtree(left) if left.is_dir() else left.unlink()


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Write a file under a temporary name; it is renamed at the end, or removed on failure."""
    draft = unfinished(target)
    remove_unfinished(target)
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def check_output(path: Path) -> None:
    """Raise if a table could not be written, before anything is computed."""
    from gramian.data.formats import TableError

    folder = path.absolute().parent
    if path.suffix.lower() not in ENDINGS:
        raise TableError(f"{path}: the name should end in {', '.join(ENDINGS)}, to say what to write.")
    if path.is_dir():
        raise TableError(f"{path}: this is a folder; name a file.")
    if not folder.is_dir():
        raise TableError(f"{path}: there is no folder {folder}; create it first.")
    if not os.access(folder, os.W_OK):
        raise TableError(f"{path}: the folder {folder} cannot be written to.")


@contextmanager
def writing(target: Path | BinaryIO) -> Iterator[Callable[[Any], None]]:
    """Write a table block by block; the file appears complete at the end, or not at all."""
    if not isinstance(target, Path):
        with _blocks(target, "csv") as write:
            yield write
        return
    check_output(target)
    with replacing(target) as file, _blocks(file, target.suffix.lower().lstrip(".")) as write:
        yield write


@contextmanager
def _blocks(file: Any, kind: str) -> Iterator[Callable[[Any], None]]:
    from gramian.data.formats import pyarrow

    writer: Any = None

    def write(table: Any) -> None:
        nonlocal writer
        if writer is None:
            kinds = {"csv": pyarrow.csv.CSVWriter, "parquet": pyarrow.parquet.ParquetWriter}
            kinds["pq"] = kinds["parquet"]
            writer = kinds.get(kind, pyarrow.ipc.new_file)(file, table.schema)
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()
