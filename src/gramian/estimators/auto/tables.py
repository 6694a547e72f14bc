"""A table of any make as plain columns: arrays of numbers, or of objects with ``None`` for what is missing."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from gramian.data.cells import is_missing

__all__ = ["Column", "array_columns", "check_finite", "columns_of"]

Values = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Column:
    """One column as it came."""

    name: str  # Its name, or ``"column 3"`` where the table has no names
    values: Values  # (n,): Either float64, ``nan`` where a value is missing; or objects, ``None`` where one is
    kind: str  # What the table itself says: ``"number"``


def columns_of(estimator: Any, X: Any, *, reset: bool) -> list[Column]:
    """Read a table and check it, as scikit-learn does, against the one that was fitted: X (n, d)."""
    read = _reader(X)
    if read is None:
        array = _array(X)
        X = validate_data(estimator, array, dtype=None, ensure_all_finite=False, reset=reset)
        return array_columns(X)
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(
            f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) (shape={tuple(X.shape)}) while a "
            "minimum of 1 is required."
        )
    names = [str(name) for name in getattr(X, "column_names", getattr(X, "columns", ()))]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"two columns of X are called {twice[0]!r}; rename one, or leave one out.")
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    columns = read(X)
    for column in columns:
        check_finite(column.name, column.values)
    return columns


def _reader(X: Any) -> Any:
    """The function that reads this make of table; None for arrays and lists."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return _pandas_columns
    if hasattr(X, "get_columns"):
        return _polars_columns
    if hasattr(X, "column_names") and hasattr(X, "itercolumns"):
        return _arrow_columns
    return None


def check_finite(name: str, values: Values) -> None:
    """Raise where a number is infinite: values (n,)."""
    if values.dtype != object and np.any(np.isinf(values)):
        raise ValueError(f"Input X contains infinity in {name}; leave such values out, or mark them as missing (nan).")


# ---- arrays and lists -------------------------------------------------------------------------------------------


def _array(X: Any) -> Any:
    """A list with texts in it as an array of objects: NumPy would turn its numbers into texts."""
    if not isinstance(X, list | tuple) or not all(isinstance(row, list | tuple) for row in X):
        return X
    return np.array(X, dtype=object) if any(v is None or isinstance(v, str) for row in X for v in row) else X


def array_columns(X: Values) -> list[Column]:
    """Return the columns of an array: X (n, d)."""
    names = [f"column {j}" for j in range(X.shape[1])]
    columns = []
    for name, values in zip(names, X.T, strict=True):
        if X.dtype.kind in "biuf":
            kind = "boolean" if X.dtype.kind == "b" else "number"
            columns.append(Column(name, np.asarray(values, dtype=np.float64), kind))
        elif X.dtype.kind == "M":
            columns.append(Column(name, _days(values), "date"))
        else:
            columns.append(_objects(name, values))
        check_finite(name, columns[-1].values)
    return columns


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
        return Column(name, _floats(values), "boolean")
    if all(isinstance(v, Number) for v in present):
        if any(isinstance(v, complex | np.complexfloating) for v in present):
            raise ValueError(f"Complex data not supported; {name} holds complex numbers.")
        return Column(name, _floats(values), "number")
    if all(isinstance(v, datetime.date | np.datetime64) for v in present):
        return Column(name, _days(np.array([_instant(v) for v in values], dtype="datetime64[us]")), "date")
    return Column(name, np.array([None if v is None else str(v) for v in values], dtype=object), "object")


def _category(name: str, values: Any) -> Column:
    """A column that its table declares a category; whole numbers are written without a fraction."""
    whole = (int(v) if isinstance(v, float) and v.is_integer() else v for v in values)
    return Column(name, np.array([None if _missing(v) else str(v) for v in whole], dtype=object), "category")


def _missing(value: Any) -> bool:
    """Whether a value stands for none: None, nan, pandas' NA and NaT, and the texts that do."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, str):
        return is_missing(value)
    if isinstance(value, float | np.floating):
        return math.isnan(value)
    return isinstance(value, np.datetime64) and bool(np.isnat(value))


def _instant(value: Any) -> Any:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64("NaT") if value is None else value


def _floats(values: Values) -> NDArray[np.float64]:
    return np.array([math.nan if v is None else float(v) for v in values])


def _days(values: Any) -> NDArray[np.float64]:
    """Days since 1970, ``nan`` where a date is missing."""
    instants = np.asarray(values).astype("datetime64[us]")
    days = instants.astype(np.int64) / 86_400e6
    return np.asarray(np.where(np.isnat(instants), np.nan, days))


# ---- data frames ------------------------------------------------------------------------------------------------


def _pandas_columns(X: Any) -> list[Column]:
    return [_pandas_column(str(name), X.iloc[:, j]) for j, name in enumerate(X.columns)]


def _pandas_column(name: str, series: Any) -> Column:
    kind = series.dtype.kind if hasattr(series.dtype, "kind") else "O"
    if type(series.dtype).__name__ == "CategoricalDtype":
        return _category(name, series.astype(object).to_numpy())
    if type(series.dtype).__name__ == "ArrowDtype":
        return _arrow_column(name, series.array.__arrow_array__())
    if kind in "biuf":
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return Column(name, values, "boolean" if kind == "b" else "number")
    if kind == "M":
        if getattr(series.dtype, "tz", None) is not None:
            series = series.dt.tz_convert("UTC").dt.tz_localize(None)
        return Column(name, _days(series.to_numpy()), "date")
    if kind == "m":
        return Column(name, _durations(series.to_numpy()), "number")
    return _objects(name, series.to_numpy(dtype=object))


def _durations(values: Any) -> NDArray[np.float64]:
    """Days, ``nan`` where a duration is missing."""
    spans = np.asarray(values).astype("timedelta64[us]")
    return np.asarray(np.where(np.isnat(spans), np.nan, spans.astype(np.int64) / 86_400e6))


def _polars_columns(X: Any) -> list[Column]:
    return [_polars_column(series) for series in X.get_columns()]


def _polars_column(series: Any) -> Column:
    name, dtype = str(series.name), type(series.dtype).__name__
    if series.dtype.is_numeric() or dtype == "Boolean":
        values = series.cast(_polars_float(), strict=False).to_numpy()
        return Column(name, np.array(values, dtype=np.float64), "boolean" if dtype == "Boolean" else "number")
    if dtype in ("Date", "Datetime"):
        return Column(name, _days(np.array(series.to_numpy(), dtype="datetime64[us]")), "date")
    if dtype == "Duration":
        return Column(name, _durations(np.array(series.to_numpy(), dtype="timedelta64[us]")), "number")
    values = np.array(series.to_list(), dtype=object)
    return _category(name, values) if dtype in ("Categorical", "Enum") else _objects(name, values)


def _polars_float() -> Any:
    import polars

    return polars.Float64


def _arrow_columns(X: Any) -> list[Column]:
    names, columns = X.column_names, X.itercolumns()
    return [_arrow_column(str(name), column) for name, column in zip(names, columns, strict=True)]


def _arrow_column(name: str, column: Any) -> Column:
    kind = str(column.type)
    if kind.startswith("dictionary"):
        return _category(name, column.to_pylist())
    if kind.startswith(("int", "uint", "float", "double", "halffloat")):
        return Column(name, np.asarray(column.to_numpy(), dtype=np.float64), "number")
    if kind.startswith(("timestamp", "date")):
        return Column(name, _days(np.asarray(column.to_numpy()).astype("datetime64[us]")), "date")
    if kind.startswith("duration"):
        return Column(name, _durations(column.to_numpy()), "number")
    return _objects(name, np.array(column.to_pylist(), dtype=object))
