"""Tables of any library as plain columns, at the fit and again, by their names, at predictions."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from gramian.data.cells import is_missing
from gramian.numerals import listed
from gramian.warning import warn

Array = NDArray[np.float64]

SHOWN = 5
"""Missing columns that are named."""


@dataclass(frozen=True, eq=False)
class Column:
    """One column as it came."""

    name: str  # Its name, or ``"column 3"`` where the table has no names
    values: NDArray[Any]  # (n,): Either float64, ``nan`` where a value is missing; or objects, ``None`` where one is
    kind: str  # What the table itself says: ``"number"``; ``"strings"`` of a bare list


def columns_of(estimator: Any, X: Any, *, reset: bool) -> list[Column]:
    """Read a table and check it, as scikit-learn does, against the one that was fitted: X (n, d)."""
    series = _series(X)
    if (strings := _strings(X)) is not None:
        validate_data(estimator, strings, dtype=None, reset=reset)
        return [Column("text", np.array([v or None for v in strings[:, 0]], dtype=object), "strings")]
    if series is None:
        return array_columns(validate_data(estimator, _array(X), dtype=None, ensure_all_finite=False, reset=reset))
    names = _names(X)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return [_column(name, *read) for name, read in zip(names, series, strict=True)]


def read_again(estimator: Any, encoding: Any, X: Any) -> Array:
    """Return new rows as numbers, not yet scaled, and warn of missing columns and unknown levels: → (n, width)."""
    table, missing = columns_again(estimator, encoding, X)
    pairs = zip(encoding.columns, table, strict=True)
    unseen = {column.name: odd for column, new in pairs if (odd := column.unseen(new))}
    if missing or unseen:
        warn(TableWarning(missing, unseen))
    return np.asarray(encoding.transform(table))


def columns_again(estimator: Any, encoding: Any, X: Any) -> tuple[list[Column], list[str]]:
    """Return the columns of new rows, by name where both tables have names, and those that are used and missing.

    Columns that the encoding leaves out may be missing, and any order will do. Columns that it uses count as gaps where
    they are missing.
    """
    used = {column.name for column in encoding.columns if column.width}
    series = _series(X)
    names = [] if series is None or not hasattr(estimator, "feature_names_in_") else _names(X)
    if used.isdisjoint(names):
        return columns_of(estimator, X, reset=False), []
    found = {name: _column(name, *read) for name, read in zip(names, series, strict=True) if name in used}
    gaps = np.full(X.shape[0], np.nan)
    table = [found.get(column.name, Column(column.name, gaps, "number")) for column in encoding.columns]
    return table, [column.name for column in encoding.columns if column.name in used - set(found)]


class TableWarning(UserWarning):
    """What new rows lack, and what they have that the rows of the fit had not."""

    def __init__(self, missing: list[str], unseen: Mapping[str, Counter[str]]) -> None:
        self.missing, self.unseen = missing, unseen
        super().__init__("; ".join(told_of(missing, unseen)))


def told_of(missing: list[str], unseen: Mapping[str, Counter[str]]) -> Iterator[str]:
    """Say which columns are missing, and how many rows hold levels that the fit had not seen."""
    if missing:
        what = "1 column that the model uses is" if len(missing) == 1 else f"{len(missing)} columns that it uses are"
        yield f"{what} missing, and counted as gaps: {listed(map(repr, missing), SHOWN)}"
    for name, odd in unseen.items():
        rows, example = odd.total(), min(odd, key=lambda level: (-odd[level], level))
        holds = "1 row holds" if rows == 1 else f"{rows:,} rows hold"
        yield f"{holds} a level of {name!r} that the fit had not seen, such as {example!r}"


def _names(X: Any) -> list[str]:
    """The names of a data frame's columns, which has rows, and no name twice."""
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(
            f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) (shape={tuple(X.shape)}) while a "
            "minimum of 1 is required."
        )
    names = [str(name) for name in getattr(X, "column_names", getattr(X, "columns", ()))]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"two columns of X are called {twice[0]!r}; rename one, or leave one out.")
    return names


def _series(X: Any) -> Any:
    """The columns of a data frame, each as an array and whether it is declared a category; None for arrays."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return (_of_pandas(X.iloc[:, j]) for j in range(X.shape[1]))
    if hasattr(X, "get_columns"):
        return ((s.to_numpy(), type(s.dtype).__name__ in ("Categorical", "Enum")) for s in X.get_columns())
    if hasattr(X, "column_names") and hasattr(X, "itercolumns"):
        return map(_of_arrow, X.itercolumns())
    return None


def _of_pandas(series: Any) -> tuple[Any, bool]:
    kind = type(series.dtype).__name__
    if kind == "ArrowDtype":
        return _of_arrow(series.array.__arrow_array__())
    if kind == "DatetimeTZDtype":
        series = series.dt.tz_convert(None)
    if getattr(series.dtype, "kind", "O") in "iuf":
        return series.to_numpy(dtype=np.float64, na_value=np.nan), False
    return series.to_numpy(), kind == "CategoricalDtype"


def _of_arrow(column: Any) -> tuple[Any, bool]:
    kind = str(column.type)
    if kind.startswith(("int", "uint", "float", "double", "halffloat", "timestamp", "date", "duration")):
        return column.to_numpy(), False
    return np.array(column.to_pylist(), dtype=object), kind.startswith("dictionary")


def _column(name: str, values: Any, category: bool = False) -> Column:
    """A column by the type of its values."""
    values = np.asarray(values)
    kind = values.dtype.kind
    if category:
        return declared(name, values)
    if kind in "biuf":
        column = Column(name, values.astype(np.float64), "boolean" if kind == "b" else "number")
    elif kind in "Mm":
        column = Column(name, _days(values), "date" if kind == "M" else "number")
    else:
        column = _objects(name, values)
    check_finite(name, column.values)
    return column


def check_finite(name: str, values: NDArray[Any]) -> None:
    """Raise where a number is infinite: values (n,)."""
    if values.dtype != object and np.any(np.isinf(values)):
        raise ValueError(f"Input X contains infinity in {name}; leave such values out, or mark them as missing (nan).")


def _array(X: Any) -> Any:
    """A list with texts in it as an array of objects: NumPy would turn its numbers into texts."""
    if not isinstance(X, list | tuple) or not all(isinstance(row, list | tuple) for row in X):
        return X
    return np.array(X, dtype=object) if any(v is None or isinstance(v, str) for row in X for v in row) else X


def _strings(X: Any) -> NDArray[Any] | None:
    """A bare list, array or series of strings as a table of one column, None for anything else: → (n, 1)."""
    if not isinstance(X, list | tuple) and len(getattr(X, "shape", ())) != 1:
        return None
    if len(X) == 0 or not all(isinstance(x, str) for x in X):
        return None
    return np.array(list(X), dtype=object)[:, None]


def array_columns(X: NDArray[Any]) -> list[Column]:
    """Return the columns of an array: X (n, d)."""
    return [_column(f"column {j}", values) for j, values in enumerate(X.T)]


def _objects(name: str, values: Any) -> Column:
    """A column of Python objects: what they are decides its kind."""
    values = np.asarray(values, dtype=object)
    values = np.array([None if _missing(v) else v for v in values], dtype=object)
    present = [v for v in values if v is not None]
    for odd in (v for v in present if not isinstance(v, Number | str | bytes | datetime.date | np.generic)):
        raise TypeError(
            f"argument must be a string or a number, or a date; {name} holds {odd!r} of type {type(odd).__name__}."
        )
    if present and all(isinstance(v, bool | np.bool_) for v in present):
        return Column(name, values.astype(np.float64), "boolean")
    if all(isinstance(v, Number) for v in present):
        if any(isinstance(v, complex | np.complexfloating) for v in present):
            raise ValueError(f"Complex data not supported; {name} holds complex numbers.")
        return Column(name, values.astype(np.float64), "number")
    if all(isinstance(v, datetime.date | np.datetime64) for v in present):
        return Column(name, _days(np.array([_instant(v) for v in values], dtype="datetime64[us]")), "date")
    return Column(name, np.array([None if v is None else str(v) for v in values], dtype=object), "object")


def declared(name: str, values: Any) -> Column:
    """A column that its table declares a category; whole numbers are written without a fraction."""
    whole = (int(v) if isinstance(v, float) and v.is_integer() else v for v in values)
    return Column(name, np.array([None if _missing(v) else str(v) for v in whole], dtype=object), "category")


def _missing(value: Any) -> bool:
    """Whether a value stands for none: None, nan, pandas' NA and NaT, and the texts that do."""
    if value is None or type(value).__name__ == "NAType":
        return True
    if isinstance(value, str):
        return is_missing(value)
    return isinstance(value, float | np.generic | datetime.date) and bool(value != value)  # nan and NaT only


def _instant(value: Any) -> Any:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value


def _days(values: Any) -> NDArray[np.float64]:
    """Dates as days since 1970, or durations as days; ``nan`` where one is missing."""
    exact = values.astype(f"{values.dtype.kind}8[us]")
    return np.asarray(np.where(np.isnat(exact), np.nan, exact.astype(np.int64) / 86_400e6))


def plain(y: Any) -> Any:
    """Return a column of a table of any library as an array; pandas' as they are."""
    return y.to_numpy() if hasattr(y, "to_numpy") and not hasattr(y, "iloc") else y
