"""Blocks of CSV files: ranges of bytes that begin and end where a record does, quoted line ends and all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.cells import MISSING, has_decimal_commas
from gramian.data.columns import Columns
from gramian.data.parts import Need, Readable
from gramian.data.sniff import delimiter_of

__all__ = ["CsvBlock", "CsvFormat", "as_decimals", "comma_columns", "csv_blocks", "record_ends"]

BYTES = 1 << 20
"""Bytes that are looked through at a time, and by the first of which types are settled."""
PARSED = 1 << 23
"""Bytes that are parsed at a time; no record may be longer."""
QUOTE, NEWLINE, RETURN = b'"\n\r'


@dataclass(frozen=True)
class CsvFormat:
    """How a CSV file is written."""

    delimiter: str  # What separates columns
    types: tuple[tuple[str, str], ...]  # Columns in order

    @classmethod
    def of(cls, path: str) -> CsvFormat:
        """Find out by the beginning of a file."""
        import pyarrow.csv as pc

        form = cls(delimiter_of(Path(path)), ())
        with pc.open_csv(path, **form.options(size=BYTES)) as reader:
            schema, first = reader.schema, next(iter(reader), None)
        commas = set() if first is None else comma_columns(first)
        kinds = ((f.name, "comma" if f.name in commas else _kind(str(f.type))) for f in schema)
        return cls(form.delimiter, tuple(kinds))

    @property
    def names(self) -> list[str]:
        """Columns in order."""
        return [name for name, _ in self.types]

    def options(
        self,
        wanted: Sequence[str] = (),
        types: Mapping[str, str] | None = None,
        *,
        header: bool = True,
        size: int = PARSED,
    ) -> dict[str, Any]:
        """Return what pyarrow is to be told."""
        import pyarrow as pa
        import pyarrow.csv as pc

        known = {}
        for name, kind in (types or {}).items():
            with suppress(ValueError):
                known[name] = pa.type_for_alias("string" if kind == "comma" else kind)
        return {
            "read_options": pc.ReadOptions(block_size=size, column_names=None if header else self.names),
            "parse_options": pc.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            "convert_options": pc.ConvertOptions(
                include_columns=list(wanted),
                column_types=known,
                null_values=sorted(MISSING),
                strings_can_be_null=True,
            ),
        }

    def block_options(self, wanted: list[str], columns: Columns, *, header: bool) -> dict[str, Any]:
        """Return the options for one of many blocks."""
        numbers = {*columns.inputs, *([] if columns.weight is None else [columns.weight])}
        known = {name: _settled(kind, number=name in numbers) for name, kind in self.types if name in wanted}
        options = self.options(wanted, {n: kind for n, kind in known.items() if kind is not None}, header=header)
        options["read_options"].use_threads = False  # the blocks have threads of their own
        return options

    def with_decimals(self, table: Any) -> Any:
        """Return a table whose numbers with decimal commas are numbers."""
        return as_decimals(table, [name for name, kind in self.types if kind == "comma"])


def comma_columns(table: Any) -> set[str]:
    """Return the columns of text that are numbers with decimal commas."""
    pairs = zip(table.schema.names, table.columns, strict=True)
    return {n for n, c in pairs if str(c.type) == "string" and has_decimal_commas(v.as_py() for v in c if v.is_valid)}


def as_decimals(table: Any, names: Iterable[str]) -> Any:
    """Return a table some of whose columns of text are numbers."""
    import pyarrow as pa
    import pyarrow.compute as compute

    for name in names:
        if name in table.schema.names and str(table.column(name).type) == "string":
            text = compute.replace_substring(compute.utf8_trim_whitespace(table.column(name)), ",", ".")
            table = table.set_column(table.schema.names.index(name), name, text.cast(pa.float64()))
    return table


def _kind(kind: str) -> str:
    return "string" if kind.startswith("time32") else kind  # 12:30 is a text in every other format


def _settled(kind: str, *, number: bool) -> str | None:
    """The type to read a column as, so that all blocks agree; ``None`` where pyarrow has no short name for it."""
    if number and (kind == "null" or kind.startswith(("int", "uint", "double"))):
        return "double"
    return kind if kind in ("int64", "double", "bool", "string", "comma") else None


@dataclass(frozen=True)
class CsvBlock(Readable):
    """Records of a CSV file."""

    path: str  # The file
    start: int  # Its bytes
    stop: int  # Its bytes
    format: CsvFormat  # How it is written
    columns: Columns  # Which are what
    stamp: str  # Size and time of the file, by which a checkpoint knows that it is the same
    rows: None = None  # How many: only reading tells

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
        options = self.format.block_options(self.columns.wanted(need), self.columns, header=self.start == 0)
        with pc.open_csv(pa.BufferReader(content), **options) as reader:
            for batch in reader:
                yield self.columns.split(self.format.with_decimals(batch), self.name, need)


def csv_blocks(path: str, form: CsvFormat, columns: Columns, rows: int, stamp: str) -> list[CsvBlock]:
    """Cut a file into blocks."""
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
