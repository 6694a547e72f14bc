"""Checks of a file before it is parsed, and parsers' errors in one line."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gramian.kernels.registry import nearest

__all__ = ["TableError", "as_table_error", "check_file", "check_text", "delimiter_of", "need_pyarrow"]

MAGIC = {
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"\x93NUMPY": "NumPy",
    b"%PDF": "PDF",
    b"\x89PNG": "PNG",
    b"SQLite format 3": "SQLite",
}
"""How files of some kinds begin."""


class TableError(ValueError):
    """A file that holds no table, or not the one that was asked for; the message says why and what to do."""


def need_pyarrow() -> None:
    """Raise where pyarrow is not installed, saying how to install it."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError('reading tables needs pyarrow: pip install "gramian[data]"') from error


def check_file(path: Path) -> None:
    """Raise where a file is missing, unreadable or empty."""
    if not path.exists():
        folder = path.parent
        others = [p.name for p in folder.iterdir() if p.is_file()] if folder.is_dir() else []
        close = nearest(path.name, others)
        raise TableError(f"{path}: there is no such file{'; ' + close if close.startswith('did') else '.'}")
    if path.is_dir():
        raise TableError(f"{path}: this is a folder; name a file in it.")
    try:
        with path.open("rb") as file:
            begin = file.read(4096)
    except OSError as error:
        raise TableError(f"{path}: cannot be read: {error.strerror}.") from error
    if not begin.strip():
        raise TableError(f"{path}: the file is empty.")


def check_text(path: Path) -> None:
    """Raise where a file that is called text is plainly none."""
    with path.open("rb") as file:
        begin = file.read(4096)
    if b"\0" in begin or any(begin.startswith(magic) for magic in MAGIC):
        looks = next(
            (f" (it starts like a {name} file)" for magic, name in MAGIC.items() if begin.startswith(magic)), ""
        )
        raise TableError(f"{path}: this is a binary file{looks}, not text; rename it to say what it is.")


def delimiter_of(path: Path) -> str:
    """Return what separates the columns of a CSV file, by its first line."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        first = re.sub(rb'"[^"]*"', b"", file.readline(1 << 20))  # names in quotes may hold any of them
    return max(",;\t|", key=lambda mark: first.count(mark.encode()))


@contextmanager
def as_table_error(path: Path) -> Iterator[None]:
    """Turn what a parser says into one line that names the file."""
    try:
        yield
    except TableError:
        raise
    except (ValueError, KeyError, OSError, EOFError, NotImplementedError) as error:
        # pyarrow's errors are of these kinds, and may go on for lines.
        first = " ".join(str(error).split())
        raise TableError(f"{path}: cannot be read as {path.suffix.lstrip('.') or 'a table'}: {first:.200}") from error
