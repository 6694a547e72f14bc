"""Open and read tables in files, and split off the target."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.cells import day, has_decimal_commas, is_missing, may_be_numbers, number
from gramian.data.formats import FORMATS, Source, TableError, as_table_error, ending_of, pyarrow
from gramian.numerals import nearest


def open_table(path: str | os.PathLike[str]) -> Source:
    """Open a table in a file."""
    file = Path(path)
    _check_file(file)
    ending = ending_of(file)
    if ending is None:
        raise TableError(f"{file}: the name should end in {', '.join(FORMATS)}, to say how the file is read.")
    with as_table_error(file):
        source = FORMATS[ending].open(file)
    if twice := [name for name, count in Counter(source.names).items() if count > 1]:
        raise TableError(f"{file}: two columns are called {twice[0]!r}; rename one.")
    return source


def _check_file(path: Path) -> None:
    """Raise if a file is missing, unreadable or empty."""
    if not path.exists():
        others = [p.name for p in path.parent.iterdir() if p.is_file()] if path.parent.is_dir() else []
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


def read_table(path: str | os.PathLike[str]) -> Any:
    """Read a whole table from a file."""
    return open_table(path).read()


def in_order(table: Any, column: str | None) -> Any:
    """Sort a table by a column, such as a date, and drop rows without a value; None leaves the table as it is."""
    if column is None:
        return table
    times = table[column]
    if "string" in str(times.type):
        texts = [None if v is None or is_missing(v) else v for v in times.to_pylist()]
        numbers, days = ([v if v is None else read(v) for v in texts] for read in (number, day))
        found = next((values for values in (numbers, days) if values.count(None) == texts.count(None)), None)
        if found is None:
            odd = next(v for v, w in zip(texts, days, strict=True) if v is not None and w is None)
            raise TableError(f"{column!r} cannot be sorted, since it holds {odd!r}; write dates as 2024-01-31.")
        times = pyarrow.array(found, pyarrow.float64())
    order = pyarrow.compute.sort_indices(times)  # stable, missing values last
    return table.take(order[: len(times) - times.is_null(nan_is_null=True).to_pylist().count(True)])


def split_target(table: Any, target: str) -> tuple[Any, NDArray[Any]]:
    """Split a table into inputs and target; rows without a target are left out."""
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
    """Known targets as numbers, booleans or text."""
    if y.dtype != object or not all(isinstance(v, str) for v in y):
        return y.astype(str) if y.dtype == object else y
    comma = has_decimal_commas(y)
    values = [number(v, comma=comma) for v in y]
    if None not in values:  # parse them like cells of a CSV file
        numbers = np.array(values, dtype=np.float64)
        return numbers.astype(np.int64) if all(v.strip().lstrip("+-").isdigit() for v in y) else numbers
    if may_be_numbers(y):
        example = y[values.index(None)]
        raise TableError(
            f"the target {target!r} holds texts such as {example!r}, which may be numbers with a decimal comma or with "
            "marks between thousands; write them as 1234.5."
        )
    return y.astype(str)
