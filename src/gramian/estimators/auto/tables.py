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
    series = _series(X)
    if series is None:
        return array_columns(validate_data(estimator, _array(X), dtype=None, ensure_all_finite=False, reset=reset))
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(
            f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) (shape={tuple(X.shape)}) while a "
            "minimum of 1 is required."
        )
    names = [str(name) for name in getattr(X, "column_names", getattr(X, "columns", ()))]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"two columns of X are called {twice[0]!r}; rename one, or leave one out.")
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return [_column(name, *read) for name, read in zip(names, series, strict=True)]


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
        return _category(name, values)
    if kind in "biuf":
        column = Column(name, values.astype(np.float64), "boolean" if kind == "b" else "number")
    elif kind in "Mm":
        column = Column(name, _days(values), "date" if kind == "M" else "number")
    else:
        column = _objects(name, values)
    check_finite(name, column.values)
    return column


def check_finite(name: str, values: Values) -> None:
    """Raise where a number is infinite: values (n,)."""
    if values.dtype != object and np.any(np.isinf(values)):
        raise ValueError(f"Input X contains infinity in {name}; leave such values out, or mark them as missing (nan).")


def _array(X: Any) -> Any:
    """A list with texts in it as an array of objects: NumPy would turn its numbers into texts."""
    if not isinstance(X, list | tuple) or not all(isinstance(row, list | tuple) for row in X):
        return X
    return np.array(X, dtype=object) if any(v is None or isinstance(v, str) for row in X for v in row) else X


def array_columns(X: Values) -> list[Column]:
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
    if value is None or type(value).__name__ == "NAType":
        return True
    if isinstance(value, str):
        return is_missing(value)
    return isinstance(value, float | np.generic | datetime.date) and bool(value != value)  # nan and NaT only


def _instant(value: Any) -> Any:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64("NaT") if value is None else value


def _floats(values: Values) -> NDArray[np.float64]:
    return np.array([math.nan if v is None else float(v) for v in values])


def _days(values: Any) -> NDArray[np.float64]:
    """Dates as days since 1970, or durations as days; ``nan`` where one is missing."""
    exact = values.astype(f"{values.dtype.kind}8[us]")
    return np.asarray(np.where(np.isnat(exact), np.nan, exact.astype(np.int64) / 86_400e6))
