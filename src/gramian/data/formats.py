"""Table formats: CSV, Parquet, Arrow and JSON lines, read by pyarrow, and NumPy arrays."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gramian.data.cells import MISSING, has_decimal_commas
from gramian.data.passes import CHUNK
from gramian.numerals import counted, nearest, shortened
from gramian.resources import spans

try:
    import pyarrow as pyarrow  # imported from here by others, for the hint below
    import pyarrow.compute
    import pyarrow.csv
    import pyarrow.dataset
    import pyarrow.json
    import pyarrow.parquet
except ImportError as error:
    raise ImportError('reading tables needs pyarrow: pip install ".[data]" in the clone.') from error

BLOCK_ROWS = 65_536
"""Rows of a block."""
CSV_BYTES = 1 << 20
"""Bytes of a CSV file parsed at a time; the first ones decide the types, and no record may be longer. pyarrow reads
32 times as much ahead."""
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
"""First bytes of binary files by kind."""
UTF8 = "convert the file, such as by iconv -f latin1 -t utf-8"
Names = Sequence[str]
Types = Mapping[str, str]
Groups = Sequence[int] | None


class TableError(ValueError):
    """A file without a usable table; the message says why and what to do."""


@contextmanager
def as_table_error(path: Path, names: Names = ()) -> Iterator[None]:
    """Turn a parser's error into one line that names the file, and the column by its place among names."""
    try:
        yield
    except TableError:
        raise
    except (ValueError, KeyError, OSError, EOFError, NotImplementedError) as error:
        # pyarrow's errors have these types.
        raise TableError(f"{path}: {told(path, error, names)}") from error


def told(path: Path, error: Exception, names: Names) -> str:
    """Return a parser's error as what is wrong in the file, where, and what to do."""
    words = " ".join(str(error).split())
    if (wrong := re.match(r"In CSV column #(\d+): .* to (\w+): invalid (?:value ('.*')|UTF8 data)", words)) and names:
        name, kind = names[int(wrong[1])], {"double": "a number"}.get(wrong[2], wrong[2])
        if wrong[3] is None:
            return f"column {name!r} holds text that is not UTF-8; {UTF8}, or leave the column out."
        return (
            f"column {name!r} holds {shortened(wrong[3], 60)}, where {kind} was expected; correct it, or leave it "
            "empty for a missing value."
        )
    if wrong := re.search(r"CSV parse error: .*?Expected (\d+) columns, got (\d+)", words):
        delimiter = _delimiter(path)
        line = _ragged_line(path, delimiter, int(wrong[1]))
        return (
            f"{f'line {line}' if line else 'a row'} has {counted(int(wrong[2]), 'value')}, but the first line names "
            f"{counted(int(wrong[1]), 'column')}; correct it: each row needs a value for each column, quotes must be "
            f"closed, and a value that contains {delimiter!r} needs quotes around it."
        )
    if "straddl" in words:
        return f"a row is longer than {CSV_BYTES:,} bytes; see whether a quote is not closed, or leave the row out."
    if wrong := re.search("JSON parse error: (.*)", words):
        return (
            f"{_odd_line(path) or wrong[1].rstrip('.')}; correct it: each line must be one JSON object, "
            'like {"a": 1.5, "b": "text"}, with values of one type in each column, or null.'
        )
    return f"cannot be read as {path.suffix.lstrip('.') or 'a table'}: {words:.200}"


def _opened(path: Path) -> Any:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")


def _delimiter(path: Path) -> str:
    """What separates the names of columns."""
    with _opened(path) as file:
        head = re.sub(rb'"[^"]*"', b"", file.readline(1 << 20))  # quoted names may contain any delimiter
    return max(",;\t|", key=lambda mark: head.count(mark.encode()))


def _ragged_line(path: Path, delimiter: str, columns: int) -> int | None:
    """The number of the line where the first row without a value for each column begins; pyarrow does not tell."""
    with _opened(path) as file, suppress(csv.Error):
        rows = csv.reader(io.TextIOWrapper(file, "utf-8", "replace", newline=""), delimiter=delimiter)
        line = 1
        for row in rows:
            if row and len(row) != columns:
                return line
            line = rows.line_num + 1
    return None


def _odd_line(path: Path) -> str | None:
    """What is wrong with the first line that is no JSON object of the usual types; pyarrow counts rows of blocks."""
    usual: dict[str, str] = {}
    with path.open("rb") as file:
        for i, line in enumerate(file, 1):
            try:
                row = json.loads(line) if line.strip() else {}
            except (ValueError, RecursionError):
                return f"line {i} is not JSON"
            if not isinstance(row, dict):
                return f"line {i} is {_json_kind(row)}"
            for name, kind in {name: _json_kind(value) for name, value in row.items() if value is not None}.items():
                if usual.setdefault(name, kind) != kind:
                    return f"line {i} has {kind} in column {name!r}, where the lines above have {usual[name]}"
    return None


def _json_kind(value: Any) -> str:
    kinds = {bool: "true or false", str: "text", list: "a list", dict: "an object"}
    return kinds.get(type(value), "null" if value is None else "a number")


@dataclass(frozen=True)
class Source(ABC):
    """A file that holds a table, to read whole or in blocks."""

    path: Path  # The file
    names: tuple[str, ...]  # Its columns
    groups: tuple[int, ...] | None = None  # Rows of the pieces that can be read separately; None if not known
    types: tuple[tuple[str, str], ...] = ()  # Column types inferred from the first rows, if the file declares none

    pieces: ClassVar[tuple[str, str]] = ("", "")  # Name of a piece, singular and plural

    @classmethod
    @abstractmethod
    def open(cls, path: Path) -> Source:
        """Read the beginning of a file."""

    @abstractmethod
    def batches(self, columns: Names, types: Types, groups: Groups = None) -> Iterator[Any]:
        """Yield record batches, columns in any order."""

    def whole(self) -> Any:
        """Return all rows as a table."""
        batches = list(self.batches(self.names, {}))
        if not batches:
            raise TableError(f"{self.path} holds no rows.")
        return pyarrow.Table.from_batches(batches).select(list(self.names))

    def require(self, columns: Names) -> None:
        """Raise if a column is missing, and suggest the most similar name."""
        for name in columns:
            if name not in self.names:
                raise TableError(f"{self.path} has no column {name!r}; {nearest(name, self.names)}")

    def read(self) -> Any:
        """Read the whole table."""
        with as_table_error(self.path):
            table = self.whole()
        if table.num_rows == 0:
            raise TableError(f"{self.path} holds no rows.")
        for name, kind in zip(table.column_names, table.schema.types, strict=True):
            if str(kind).startswith(("binary", "list", "struct", "map", "large_binary", "large_list")):
                binary = "binary" in str(kind)
                what = "text that is not UTF-8" if binary else f"nested values ({kind})"
                do = UTF8 if binary else "convert it"
                raise TableError(f"{self.path}: column {name!r} holds {what}; {do}, or leave the column out.")
        return table

    def iterate(
        self, columns: Names | None = None, *, types: Types | None = None, rows: int = BLOCK_ROWS
    ) -> Iterator[Any]:
        """Yield the table in blocks of equal size, so that it need not fit in memory."""
        self.require(columns or ())
        wanted = list(columns or self.names)
        held = None
        with as_table_error(self.path, self.names):
            for batch in self.batches(wanted, self._wide(types or {})):
                table = pyarrow.Table.from_batches([batch]).select(wanted)
                held = table if held is None else pyarrow.concat_tables([held, table])
                while held.num_rows >= rows:
                    yield held.slice(0, rows)
                    held = held.slice(rows)
            if held is not None and held.num_rows:
                yield held

    def _wide(self, types: Types) -> dict[str, str]:
        """Column types that also fit later rows: those given, else widened from the first rows."""
        own = dict(self.types)
        commas = {name: kind for name, kind in own.items() if kind == "comma" and types.get(name) != "string"}
        return {name: _wider(kind) for name, kind in {**own, **types}.items() if name in own} | commas


def _wider(kind: str) -> str:
    """A wider type that also fits later rows; dates become text and are parsed later."""
    kind = kind.removeprefix("dictionary<values=").partition(",")[0]
    if kind in ("null", "comma") or kind.startswith(("date", "time")):
        return "string"
    return "double" if kind.startswith(("int", "uint", "float", "halffloat", "decimal")) else kind


def _check_text(path: Path) -> None:
    """Raise if a file with a text ending is binary."""
    with path.open("rb") as file:
        begin = file.read(4096)
    if begin.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise TableError(f"{path}: this is text in UTF-16; convert the file, such as by iconv -f utf-16 -t utf-8.")
    looks = [f" (it starts like a {name} file)" for magic, name in MAGIC.items() if begin.startswith(magic)]
    if b"\0" in begin or looks:
        raise TableError(f"{path}: this is a binary file{''.join(looks)}, not text; rename it to say what it is.")


@dataclass(frozen=True)
class Csv(Source):
    """Delimited text; the type "comma" means numbers with decimal commas."""

    delimiter: str = ","
    size: int = CSV_BYTES  # Bytes parsed at a time

    @classmethod
    def open(cls, path: Path, size: int = CSV_BYTES) -> Csv:
        if path.suffix.lower() != ".gz":
            _check_text(path)
        delimiter = _delimiter(path)
        with pyarrow.csv.open_csv(path, **_csv_options(delimiter, (), {}, size)) as reader:
            schema, first = reader.schema, next(iter(reader), None)
        commas = set() if first is None else _comma_columns(first)
        kinds = tuple((f.name, "comma" if f.name in commas else _without_times(str(f.type))) for f in schema)
        return cls(path, tuple(schema.names), None, kinds, delimiter, size)

    def whole(self) -> Any:
        """Return all rows, with types inferred from all of them."""

        def read(types: Types) -> Any:
            return pyarrow.csv.read_csv(self.path, **_csv_options(self.delimiter, (), types, 8 * self.size))

        table = read({})
        times = {f.name: "string" for f in table.schema if _without_times(str(f.type)) != str(f.type)}
        table = read(times) if times else table
        return _as_decimals(table, _comma_columns(table))

    def batches(self, columns: Names, types: Types, groups: Groups = None) -> Iterator[Any]:
        commas = [name for name, kind in types.items() if kind == "comma"]
        known = {name: "string" if kind == "comma" else kind for name, kind in types.items() if name in columns}
        with pyarrow.csv.open_csv(self.path, **_csv_options(self.delimiter, columns, known, self.size)) as reader:
            for batch in reader:
                yield _as_decimals(batch, commas)


def _csv_options(delimiter: str, columns: Names, types: Types, size: int) -> dict[str, Any]:
    known = {}
    for name, kind in types.items():
        with suppress(ValueError):  # types without a short name are inferred
            known[name] = pyarrow.type_for_alias(kind)
    return {
        "read_options": pyarrow.csv.ReadOptions(block_size=size),
        "parse_options": pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        "convert_options": pyarrow.csv.ConvertOptions(
            include_columns=list(columns),
            column_types=known,
            null_values=sorted(MISSING),
            strings_can_be_null=True,
        ),
    }


def _without_times(kind: str) -> str:
    return "string" if kind.startswith("time32") else kind  # 12:30 is text in all other formats


def _comma_columns(table: Any) -> set[str]:
    """Text columns that hold numbers with decimal commas."""
    pairs = zip(table.schema.names, table.columns, strict=True)
    return {n for n, c in pairs if str(c.type) == "string" and has_decimal_commas(v.as_py() for v in c if v.is_valid)}


def _as_decimals(table: Any, names: Iterable[str]) -> Any:
    """The table with some text columns parsed as numbers."""
    for name in set(names) & set(table.schema.names):
        text = pyarrow.compute.utf8_trim_whitespace(table.column(name))
        values = pyarrow.compute.replace_substring(text, ",", ".").cast(pyarrow.float64())
        table = table.set_column(table.schema.names.index(name), name, values)
    return table


@dataclass(frozen=True)
class Parquet(Source):
    """Parquet, by row groups."""

    pieces = ("row group", "row groups")

    @classmethod
    def open(cls, path: Path) -> Parquet:
        with pyarrow.parquet.ParquetFile(path) as file:
            groups = tuple(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups))
            return cls(path, tuple(file.schema_arrow.names), groups)

    def whole(self) -> Any:
        with pyarrow.parquet.ParquetFile(self.path) as file:
            return file.read()

    def batches(self, columns: Names, types: Types, groups: Groups = None) -> Iterator[Any]:
        with pyarrow.parquet.ParquetFile(self.path) as file:
            for group in range(file.num_row_groups) if groups is None else groups:
                yield from file.iter_batches(CHUNK, [group], list(columns), use_threads=False)


@dataclass(frozen=True)
class Arrow(Source):
    """Arrow files and streams, by record batches through a memory map, so that only needed columns are read."""

    pieces = ("record batch", "record batches")

    @classmethod
    def open(cls, path: Path) -> Arrow:
        with pyarrow.memory_map(str(path)) as mapped:
            try:
                names = pyarrow.ipc.open_file(mapped).schema.names
            except pyarrow.ArrowInvalid:
                mapped.seek(0)
                return cls(path, tuple(pyarrow.ipc.open_stream(mapped).schema.names))
            first = pyarrow.ipc.open_file(mapped, options=pyarrow.ipc.IpcReadOptions(included_fields=[0]))
            sizes = tuple(first.get_batch(i).num_rows for i in range(first.num_record_batches))
            return cls(path, tuple(names), sizes)

    def batches(self, columns: Names, types: Types, groups: Groups = None) -> Iterator[Any]:
        options = pyarrow.ipc.IpcReadOptions(included_fields=sorted(map(self.names.index, columns)))
        with pyarrow.memory_map(str(self.path)) as mapped:
            if self.groups is None:
                found: Iterable[Any] = pyarrow.ipc.open_stream(mapped, options=options)
            else:
                wanted = range(len(self.groups)) if groups is None else groups
                found = map(pyarrow.ipc.open_file(mapped, options=options).get_batch, wanted)
            for batch in found:
                yield from (batch.slice(rows.start, CHUNK) for rows in spans(batch.num_rows, CHUNK))


@dataclass(frozen=True)
class JsonLines(Source):
    """JSON lines, an object in each."""

    @classmethod
    def open(cls, path: Path) -> JsonLines:
        _check_text(path)
        schema = pyarrow.dataset.dataset(path, format="json").schema
        return cls(path, tuple(schema.names), None, tuple((f.name, str(f.type)) for f in schema))

    def whole(self) -> Any:
        """Return all rows, with types inferred from all of them."""
        return pyarrow.json.read_json(self.path)

    def batches(self, columns: Names, types: Types, groups: Groups = None) -> Iterator[Any]:
        schema = pyarrow.dataset.dataset(self.path, format="json").schema
        for i, field in enumerate(schema):
            with suppress(ValueError):  # types without a short name stay as inferred
                kind = pyarrow.type_for_alias(types.get(field.name, str(field.type)))
                schema = schema.set(i, field.with_type(kind))
        rows = pyarrow.dataset.dataset(self.path, format="json", schema=schema)
        yield from rows.to_batches(columns=list(columns), batch_size=BLOCK_ROWS)


@dataclass(frozen=True)
class Numpy(Source):
    """NumPy arrays, side by side."""

    pieces = ("run of rows", "runs of rows")

    @classmethod
    def open(cls, path: Path) -> Numpy:
        columns = _array_columns(path)
        lengths = {len(a) for a in columns.values()}
        if len(lengths) != 1:
            raise TableError(f"{path}: its arrays should have equally many rows, but have {sorted(lengths)}.")
        return cls(path, tuple(columns), tuple(rows.stop - rows.start for rows in spans(lengths.pop(), BLOCK_ROWS)))

    def batches(self, columns: Names, types: Types, groups: Groups = None) -> Iterator[Any]:
        held = _array_columns(self.path)
        for group in range(len(self.groups or ())) if groups is None else groups:
            rows = slice(group * BLOCK_ROWS, (group + 1) * BLOCK_ROWS)
            yield pyarrow.record_batch({name: np.ascontiguousarray(held[name][rows]) for name in columns})


def _array_columns(path: Path) -> dict[str, NDArray[Any]]:
    """The columns of a file of arrays; those of a matrix are numbered."""
    stored = np.load(path, mmap_mode="r", allow_pickle=False)
    columns: dict[str, NDArray[Any]] = {}
    for name, a in ({"x": stored} if isinstance(stored, np.ndarray) else dict(stored)).items():
        if a.ndim not in (1, 2) or a.dtype.kind not in "biufMU":
            raise TableError(
                f"{path}: {name} should be a vector or a matrix of numbers or text, not {a.dtype} {a.shape}."
            )
        prefix = name if len(name) == 1 else f"{name}."
        columns.update({name: a} if a.ndim == 1 else {f"{prefix}{j}": a[:, j] for j in range(a.shape[1])})
    return columns


FORMATS: dict[str, type[Source]] = {
    ".csv": Csv,
    ".csv.gz": Csv,
    ".tsv": Csv,
    ".parquet": Parquet,
    ".pq": Parquet,
    ".arrow": Arrow,
    ".feather": Arrow,
    ".ipc": Arrow,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".npy": Numpy,
    ".npz": Numpy,
}
"""Sources by file ending."""


def ending_of(path: Path) -> str | None:
    """Return the ending of ``FORMATS`` that a file has."""
    return next((ending for ending in FORMATS if path.name.lower().endswith(ending)), None)
