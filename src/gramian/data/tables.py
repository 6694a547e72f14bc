"""Tables from files, whole or in blocks, and back: CSV, Parquet, Arrow, JSON lines through pyarrow; NumPy's own."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.cells import has_decimal_commas, is_missing, may_be_numbers, number
from gramian.data.delimited import CsvFormat, as_decimals, comma_columns
from gramian.data.sniff import TableError, as_table_error, check_file, check_text, need_pyarrow
from gramian.kernels.registry import nearest

__all__ = ["BLOCK_ROWS", "Source", "TableError", "open_table", "read_table", "split_target"]

BLOCK_ROWS = 65_536
"""Rows of a block."""
CSV_BYTES = 1 << 20
"""Bytes of a CSV file that are parsed at a time; pyarrow reads 32 times as much ahead."""
FORMATS = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "json",
    ".ndjson": "json",
    ".npy": "numpy",
    ".npz": "numpy",
}
"""How a file is read, by the end of its name."""


@dataclass(frozen=True)
class Source:
    """A file that holds a table: which columns it has, and blocks of its rows."""

    path: Path  # The file
    names: tuple[str, ...]  # Its columns
    blocks: Callable[[Sequence[str], Mapping[str, Any]], Iterator[Any]]  # ``blocks(columns
    whole: Callable[[Sequence[str]], Any] | None = None  # ``whole(columns)`` is all rows

    def require(self, columns: Sequence[str]) -> None:
        """Raise where a column is missing, naming the nearest."""
        for name in columns:
            if name not in self.names:
                raise TableError(f"{self.path} has no column {name!r}; {nearest(name, self.names)}")

    def read(self, columns: Sequence[str] | None = None) -> Any:
        """Read the whole table."""
        import pyarrow

        self.require(columns or ())
        with as_table_error(self.path):
            wanted = columns or self.names
            table = self.whole(wanted) if self.whole else pyarrow.concat_tables(self.blocks(wanted, {}))
        if table.num_rows == 0:
            raise TableError(f"{self.path} holds no rows.")
        for name, kind in zip(table.column_names, table.schema.types, strict=True):
            if str(kind).startswith(("binary", "list", "struct", "map", "large_binary", "large_list")):
                what = "text that is not UTF-8" if "binary" in str(kind) else "values with parts"
                raise TableError(f"{self.path}: column {name!r} holds {what} ({kind}); convert it, or leave it out.")
        return table

    def iterate(
        self, columns: Sequence[str] | None = None, *, types: Mapping[str, str] | None = None, rows: int = BLOCK_ROWS
    ) -> Iterator[Any]:
        """Yield the table in blocks, so that it need not fit in memory; equal ones, whatever the pieces of the file."""
        import pyarrow

        self.require(columns or ())
        held: list[Any] = []
        with as_table_error(self.path):
            for table in self.blocks(columns or self.names, types or {}):
                held.append(table)
                if sum(part.num_rows for part in held) >= rows:
                    merged = pyarrow.concat_tables(held)
                    whole = merged.num_rows - merged.num_rows % rows
                    yield from (merged.slice(start, rows) for start in range(0, whole, rows))
                    held = [merged.slice(whole)]
            if any(part.num_rows for part in held):
                yield pyarrow.concat_tables(held)


def open_table(path: str | os.PathLike[str]) -> Source:
    """Open a table in a file."""
    file = Path(path)
    check_file(file)
    ending = next((e for e in sorted(FORMATS, key=len, reverse=True) if file.name.lower().endswith(e)), None)
    if ending is None:
        raise TableError(f"{file}: the name should end in {', '.join(FORMATS)}, to say how the file is read.")
    kind = FORMATS[ending]
    if kind in ("csv", "json") and not ending.endswith(".gz"):
        check_text(file)
    need_pyarrow()
    with as_table_error(file):
        source = _OPENERS[kind](file)
    if twice := [name for name, count in Counter(source.names).items() if count > 1]:
        raise TableError(f"{file}: two columns are called {twice[0]!r}; rename one.")
    return source


def read_table(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> Any:
    """Read a whole table from a file."""
    return open_table(path).read(columns)


def split_target(table: Any, target: str) -> tuple[Any, NDArray[Any]]:
    """Split a table into inputs and target; rows without a target are left out."""
    import pyarrow

    if target not in table.column_names:
        raise TableError(f"the table has no column {target!r}; {nearest(target, table.column_names)}")
    column = table[target]
    if str(column.type).startswith("dictionary"):
        column = column.cast(column.type.value_type)
    known = column.is_valid().to_numpy()
    if str(column.type) in ("halffloat", "float", "double"):
        known &= ~np.isnan(column.to_numpy())
    elif "string" in str(column.type):
        known &= [v is not None and not is_missing(v) for v in column.to_pylist()]
    if not known.any():
        raise TableError(f"the target {target!r} is missing in every row.")
    mask = pyarrow.array(known)
    return table.filter(mask).drop_columns([target]), _targets(column.filter(mask).to_numpy(), target)


def _targets(y: NDArray[Any], target: str) -> NDArray[Any]:
    """Targets that are known, as numbers, booleans or text."""
    if y.dtype != object or not all(isinstance(v, str) for v in y):
        return y.astype(str) if y.dtype == object else y
    comma = has_decimal_commas(y)
    values = [number(v, comma=comma) for v in y]
    if None not in values:  # as they would be in a CSV file
        numbers = np.array(values, dtype=np.float64)
        return numbers.astype(np.int64) if all(v.strip().lstrip("+-").isdigit() for v in y) else numbers
    if may_be_numbers(y):
        example = y[values.index(None)]
        raise TableError(
            f"the target {target!r} holds texts such as {example!r}, which may be numbers with a decimal comma or with "
            "marks between thousands; write them as 1234.5."
        )
    return y.astype(str)


# ---- formats ----------------------------------------------------------------------------------------------------


def _open_csv(path: Path) -> Source:
    import pyarrow
    import pyarrow.csv

    form = CsvFormat.of(str(path))

    def whole(columns: Sequence[str]) -> Any:
        """All rows are looked at before a type is settled."""
        table = pyarrow.csv.read_csv(path, **form.options(columns))
        times = {f.name: "string" for f in table.schema if str(f.type).startswith("time32")}
        table = pyarrow.csv.read_csv(path, **form.options(columns, times)) if times else table
        return as_decimals(table, comma_columns(table))

    def blocks(columns: Sequence[str], types: Mapping[str, Any]) -> Iterator[Any]:
        # Types are settled by the first block. A whole number there may be followed by a fraction, a gap by anything.
        known = {name: _wider(kind) for name, kind in {**dict(form.types), **types}.items() if name in columns}
        commas = {name for name, kind in form.types if kind == "comma" and types.get(name) != "string"}
        known |= dict.fromkeys(commas & known.keys(), "string")
        with pyarrow.csv.open_csv(path, **form.options(columns, known, size=CSV_BYTES)) as reader:
            for batch in reader:
                yield pyarrow.Table.from_batches([as_decimals(batch, commas)])

    return Source(path, tuple(form.names), blocks, whole)


def _wider(kind: str) -> str:
    """A type that holds whatever may follow in a column of that type; text does for dates, which are read from it."""
    kind = kind.removeprefix("dictionary<values=").partition(",")[0]
    if kind == "null" or kind.startswith(("date", "time")):
        return "string"
    return "double" if kind.startswith(("int", "uint", "float", "halffloat", "decimal")) else kind


def _open_parquet(path: Path) -> Source:
    import pyarrow
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        schema = file.schema_arrow

    def blocks(columns: Sequence[str], types: Mapping[str, Any]) -> Iterator[Any]:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(BLOCK_ROWS, columns=list(columns)):
                yield pyarrow.Table.from_batches([batch]).select(list(columns))

    return Source(path, tuple(schema.names), blocks)


def _open_arrow(path: Path) -> Source:
    import pyarrow

    def opened(mapped: Any) -> Any:
        try:
            return pyarrow.ipc.open_file(mapped)
        except pyarrow.ArrowInvalid:
            mapped.seek(0)
            return pyarrow.ipc.open_stream(mapped)

    with pyarrow.memory_map(str(path)) as mapped:
        names = tuple(opened(mapped).schema.names)

    def blocks(columns: Sequence[str], types: Mapping[str, Any]) -> Iterator[Any]:
        with pyarrow.memory_map(str(path)) as mapped:
            reader = opened(mapped)
            count = getattr(reader, "num_record_batches", None)
            batches = iter(reader) if count is None else (reader.get_batch(i) for i in range(count))
            for batch in batches:
                yield pyarrow.Table.from_batches([batch]).select(list(columns))

    return Source(path, names, blocks)


def _open_json(path: Path) -> Source:
    import pyarrow
    import pyarrow.dataset
    import pyarrow.json

    first = pyarrow.dataset.dataset(path, format="json").schema

    def whole(columns: Sequence[str]) -> Any:
        return pyarrow.json.read_json(path).select(list(columns))

    def blocks(columns: Sequence[str], types: Mapping[str, Any]) -> Iterator[Any]:
        fields = {}
        for field in first:
            fields[field.name] = field.type
            with suppress(ValueError):  # a type that has no short name stays as the first block has it
                fields[field.name] = pyarrow.type_for_alias(_wider(types.get(field.name, str(field.type))))
        data = pyarrow.dataset.dataset(path, format="json", schema=pyarrow.schema(fields))
        for batch in data.to_batches(columns=list(columns), batch_size=BLOCK_ROWS):
            yield pyarrow.Table.from_batches([batch])

    return Source(path, tuple(first.names), blocks, whole)


def _open_numpy(path: Path) -> Source:
    stored = np.load(path, mmap_mode="r", allow_pickle=False)
    if isinstance(stored, np.ndarray):
        parts = {"x": stored}
    else:
        with stored:
            parts = dict(stored)
    columns = {}
    for name, a in parts.items():
        if a.ndim not in (1, 2) or a.dtype.kind not in "biufMU":
            raise TableError(
                f"{path}: {name} should be a vector or a matrix of numbers or text, not {a.dtype} {a.shape}."
            )
        several = (
            {f"{name if len(name) == 1 else name + '.'}{j}": a[:, j] for j in range(a.shape[1])} if a.ndim == 2 else {}
        )
        columns.update(several or {name: a})
    lengths = {len(a) for a in columns.values()}
    if len(lengths) != 1:
        raise TableError(f"{path}: its arrays should have equally many rows, and have {sorted(lengths)}.")

    def blocks(wanted: Sequence[str], types: Mapping[str, Any]) -> Iterator[Any]:
        import pyarrow

        for start in range(0, min(lengths), BLOCK_ROWS):
            yield pyarrow.table(
                {name: np.ascontiguousarray(columns[name][start : start + BLOCK_ROWS]) for name in wanted}
            )

    return Source(path, tuple(columns), blocks)


_OPENERS: dict[str, Callable[[Path], Source]] = {
    "csv": _open_csv,
    "parquet": _open_parquet,
    "arrow": _open_arrow,
    "json": _open_json,
    "numpy": _open_numpy,
}
