"""Columns of pandas, polars, pyarrow and NumPy tables: reading, replacing and shuffling one column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.kernels.points import dense

NUMBERS = ("int", "uint", "float", "double", "halffloat")
"""Prefixes of the names of pyarrow's numeric types."""


def as_table(X: Any) -> Any:
    """Return X as a table with columns: data frames and tables unchanged, anything else as an array (n, d)."""
    if hasattr(X, "columns") and hasattr(X, "shape") and not isinstance(X, np.ndarray):
        return X
    X = np.asarray(dense(X))
    if X.ndim != 2:
        raise ValueError(f"a table with columns is needed, got an array of shape {X.shape}.")
    return X


def column(X: Any, j: int) -> Any:
    """Return a column in the type of its library."""
    if hasattr(X, "iloc"):
        return X.iloc[:, j]
    if hasattr(X, "get_columns"):
        return X.get_columns()[j]
    return X.column(j) if hasattr(X, "column_names") else X[:, j]


def with_column(X: Any, j: int, values: Any) -> Any:
    """Return a table with new values in one column: of the type that ``column`` returns, or an array of numbers."""
    if hasattr(X, "iloc"):
        changed = X.copy(deep=False)
        changed.isetitem(j, getattr(values, "array", values))
    elif hasattr(X, "get_columns"):
        series = X.get_columns()[j]
        changed = X.with_columns(values if isinstance(values, type(series)) else type(series)(series.name, values))
    elif hasattr(X, "column_names"):
        import pyarrow

        values = pyarrow.array(values) if isinstance(values, np.ndarray) else values
        changed = X.set_column(j, X.column_names[j], values)
    else:
        whole = X.dtype.kind in "iub" and np.asarray(values).dtype.kind == "f"
        changed = X.astype(np.float64) if whole else X.copy()
        changed[:, j] = values
    return changed


def shuffled(X: Any, j: int, order: NDArray[np.intp]) -> Any:
    """Return a table with the values of one column in another order."""
    values = column(X, j)
    take = "gather" if hasattr(values, "gather") else "take"  # of polars; of pandas, pyarrow and NumPy
    return with_column(X, j, getattr(values, take)(order))


def numbers(X: Any, j: int) -> NDArray[np.float64] | None:
    """Return a numeric column as floats, nan for missing values; ``None`` for other columns: → (n,)."""
    values = column(X, j)
    if hasattr(X, "iloc"):
        kind = getattr(values.dtype, "kind", "O")
        return values.to_numpy(dtype=np.float64, na_value=np.nan) if kind in "iuf" else None
    if hasattr(X, "get_columns"):
        return np.asarray(values.to_numpy(), dtype=np.float64) if values.dtype.is_numeric() else None
    if hasattr(X, "column_names"):
        return np.asarray(values.to_numpy(), dtype=np.float64) if str(values.type).startswith(NUMBERS) else None
    if values.dtype == object and all(v is None or type(v) in (int, float) for v in values):
        return np.asarray(values, dtype=np.float64)
    return values.astype(np.float64) if values.dtype.kind in "iuf" else None
