"""Blocks of CSV files: ranges of bytes that begin and end where a record does, quoted line ends and all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.columns import Columns
from gramian.data.parts import Need, Readable
from gramian.data.sniff import delimiter_of

__all__ = ["CsvBlock", "CsvFormat", "csv_blocks", "record_ends"]

BYTES = 1 << 20
"""Bytes that are looked through at a time, and by the first of which types are settled."""
PARSED = 1 << 23
"""Bytes that are parsed at a time; no record may be longer."""
QUOTE, NEWLINE, RETURN = b'"\n\r'


@dataclass(frozen=True)
class CsvFormat:
    """How a CSV file is written.

    Parameters
    ----------
    delimiter : str
        What separates columns.
    types : tuple of (str, str)
        Columns in order, with pyarrow's names of their types.
    """

    delimiter: str
    types: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, path: str) -> CsvFormat:
        """Find out by the beginning of a file.

        Parameters
        ----------
        path : str
            The file.

        Returns
        -------
        CsvFormat
            Whole numbers as numbers: a fraction may follow.
        """
        import pyarrow.csv as pc

        delimiter = delimiter_of(Path(path))
        parse = pc.ParseOptions(delimiter=delimiter, newlines_in_values=True)
        with pc.open_csv(path, pc.ReadOptions(block_size=BYTES, use_threads=False), parse) as reader:
            return cls(delimiter, tuple((field.name, str(field.type)) for field in reader.schema))

    @property
    def names(self) -> list[str]:
        """Columns in order."""
        return [name for name, _ in self.types]

    def options(self, wanted: list[str], columns: Columns, *, header: bool) -> dict[str, Any]:
        """Return what pyarrow is to be told.

        Parameters
        ----------
        wanted : list of str
            Columns to read.
        columns : Columns
            Which are inputs, and so are read as numbers whatever they look like at first.
        header : bool
            Whether the bytes begin with the names of the columns.

        Returns
        -------
        dict
            Arguments of ``pyarrow.csv.open_csv``.
        """
        import pyarrow as pa
        import pyarrow.csv as pc

        numbers = {*columns.inputs, *([] if columns.weight is None else [columns.weight])}
        known = {name: _settled(kind, number=name in numbers) for name, kind in self.types if name in wanted}
        return {
            "read_options": pc.ReadOptions(
                block_size=PARSED, use_threads=False, column_names=None if header else self.names
            ),
            "parse_options": pc.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            "convert_options": pc.ConvertOptions(
                include_columns=wanted,
                column_types={name: pa.type_for_alias(kind) for name, kind in known.items() if kind is not None},
            ),
        }


def _settled(kind: str, *, number: bool) -> str | None:
    """The type to read a column as, so that all blocks agree; ``None`` where pyarrow has no short name for it."""
    if number and (kind == "null" or kind.startswith(("int", "uint", "double"))):
        return "double"
    return kind if kind in ("int64", "double", "bool", "string") else None


@dataclass(frozen=True)
class CsvBlock(Readable):
    """Records of a CSV file.

    Parameters
    ----------
    path : str
        The file.
    start, stop : int
        Its bytes.
    format : CsvFormat
        How it is written.
    columns : Columns
        Which are what.
    stamp : str
        Size and time of the file, by which a checkpoint knows that it is the same.
    rows : None, default=None
        How many: only reading tells.
    """

    path: str
    start: int
    stop: int
    format: CsvFormat
    columns: Columns
    stamp: str
    rows: None = None

    @property
    def name(self) -> str:
        """The file, and the bytes."""
        return f"{self.path}, bytes {self.start:,} to {self.stop:,}"

    def identity(self) -> str:
        return f"{self.path} {self.start} {self.stop} {self.stamp} {self.columns}"

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        import pyarrow as pa
        import pyarrow.csv as pc

        with open(self.path, "rb") as file:
            file.seek(self.start)
            content = file.read(self.stop - self.start)
        if not content.strip():
            return
        options = self.format.options(self.columns.wanted(need), self.columns, header=self.start == 0)
        with pc.open_csv(pa.BufferReader(content), **options) as reader:
            for batch in reader:
                yield self.columns.split(batch, self.name, need)


def csv_blocks(path: str, form: CsvFormat, columns: Columns, rows: int, stamp: str) -> list[CsvBlock]:
    """Cut a file into blocks.

    Parameters
    ----------
    path : str
        The file.
    form : CsvFormat
        How it is written.
    columns : Columns
        Which are what.
    rows : int
        Rows of a block, about.
    stamp : str
        Of the file.

    Returns
    -------
    list of CsvBlock
        In order; the first has the names of the columns at its beginning.
    """
    cuts = [0, *_cuts(path, form.delimiter, rows), os.path.getsize(path)]
    return [CsvBlock(path, start, stop, form, columns, stamp) for start, stop in pairwise(cuts) if stop > start]


def _cuts(path: str, delimiter: str, rows: int) -> Iterator[int]:
    """Places after every so many records; the names of the columns are a record too, and come before the first."""
    done = 0
    for ends in record_ends(path, delimiter):
        first = -done % rows if done else rows
        yield from (int(place) for place in ends[first::rows])
        done += ends.size


def record_ends(path: str, delimiter: str = ",", size: int = BYTES) -> Iterator[NDArray[np.int64]]:
    """Find where records end, reading a file once, a megabyte at a time.

    A quote opens a quoted field where a field begins, and the next one that is not doubled closes it; a line end in
    between belongs to the field.

    Parameters
    ----------
    path : str
        The file.
    delimiter : str, default=","
        What separates columns.
    size : int, default=1048576
        Bytes at a time.

    Yields
    ------
    array of int
        Places just after the line end of each record, in order.
    """
    state, offset = _State(ord(delimiter)), 0
    with open(path, "rb") as file:
        while content := file.read(size):
            data = np.frombuffer(content, dtype=np.uint8)
            ends = np.flatnonzero(data == NEWLINE)
            inside = state.inside
            toggles = state.toggles(data)
            quoted = (np.searchsorted(toggles, ends) + int(inside)) % 2 == 1
            yield ends[~quoted] + (offset + 1)
            offset += data.size


@dataclass(eq=False)
class _State:
    """Where a reader of CSV stands between two pieces of a file."""

    delimiter: int
    inside: bool = False
    last: int = NEWLINE
    closed: bool = False

    def toggles(self, data: NDArray[np.uint8]) -> NDArray[np.intp]:
        """The quotes of the next piece that open or close a field; others are part of text."""
        quotes = np.flatnonzero(data == QUOTE)
        if quotes.size:
            previous = np.where(quotes > 0, data[np.maximum(quotes, 1) - 1], self.last)
            opens = np.isin(previous, (self.delimiter, NEWLINE, RETURN))
            # A quote right after one that closed a field opens it again: a doubled quote is one of the text.
            again = previous == QUOTE
            again[0] &= quotes[0] > 0 or self.closed
            plain = bool(np.all((opens | again)[int(self.inside) :: 2]))
            quotes = quotes if plain else self._one_by_one(quotes, opens, again)
        self.inside ^= bool(quotes.size % 2)
        self.last = int(data[-1])
        self.closed = bool(quotes.size) and int(quotes[-1]) == data.size - 1 and not self.inside
        return quotes

    def _one_by_one(self, quotes: Any, opens: Any, again: Any) -> NDArray[np.intp]:
        """As above, with quotes amid text, which open nothing."""
        inside, kept, before = self.inside, [], -1 if self.closed else -2
        for place, able, twice in zip(quotes.tolist(), opens.tolist(), again.tolist(), strict=True):
            if inside or able or (twice and before == place - 1):
                kept.append(place)
                inside, before = not inside, place
        return np.array(kept, dtype=np.intp)
