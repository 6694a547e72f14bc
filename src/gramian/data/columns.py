"""Column roles: the inputs, targets and weights of a table, and their values as arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.parts import BlockError, Need
from gramian.kernels.registry import nearest

__all__ = ["ColumnRoles"]

SHOWN = 30
"""Names of columns that an error lists."""


@dataclass(frozen=True)
class ColumnRoles:
    """Which columns of a table are what."""

    inputs: tuple[str, ...]  # X
    target: str | tuple[str, ...] | None  # y: one column, or several
    weight: str | None  # Weights

    @property
    def targets(self) -> tuple[str, ...]:
        """Columns of y."""
        return (self.target,) if isinstance(self.target, str) else self.target or ()

    @classmethod
    def among(cls, names: Sequence[str], inputs: Any, target: Any, weight: str | None) -> ColumnRoles:
        """Return the columns by name; inputs are by default all that are nothing else."""
        target = target if target is None or isinstance(target, str) else tuple(target)
        chosen = cls((), target, weight)
        others = dict.fromkeys((*chosen.targets, *([] if weight is None else [weight])))
        inputs = tuple(name for name in names if name not in others) if inputs is None else tuple(inputs)
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ValueError(f"two columns are called {twice[0]!r}; rename one.")
        for name in (*others, *inputs):
            if name not in names:
                close = nearest(name, names)
                hint = f"{close} " if close.startswith("did") else ""
                shown = ", ".join(map(repr, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")
                raise ValueError(f"there is no column {name!r}; {hint}the columns are {shown}.")
        if not inputs:
            raise ValueError(f"no columns are left for X beside {sorted(others)}; the data have {list(names)}.")
        if both := others.keys() & set(inputs):
            raise ValueError(f"{sorted(both)} are both inputs and target or weight; leave them out of columns=.")
        return cls(inputs, target, weight)

    def wanted(self, need: Need) -> list[str]:
        """Return the columns to read."""
        names = [*(self.inputs if need.X else ()), *(self.targets if need.y else ())]
        names += [self.weight] if self.weight is not None and need.weight else []
        return list(dict.fromkeys(names)) or [self.inputs[0]]

    def split(self, table: Any, name: str, need: Need) -> tuple[Any, Any, Any]:
        """Return inputs, targets and weights of a table."""
        X = _matrix(table, self.inputs, name) if need.X else None
        y = None
        if need.y and self.target is not None:
            y = (_values if isinstance(self.target, str) else _matrix)(table, self.target, name)
        w = None if self.weight is None or not need.weight else _matrix(table, (self.weight,), name)[:, 0]
        if X is None and y is None and w is None:
            X = np.empty((table.num_rows, 0))
        return X, y, w


def _column(table: Any, column: str, name: str) -> Any:
    if column not in table.schema.names:
        raise BlockError(f"{name}: has no column {column!r}; it has {table.schema.names}.")
    return table.column(column)


def _numpy(values: Any) -> NDArray[Any]:
    """An array, or the chunks of a table's column, which are always copied."""
    return np.asarray(values.to_numpy(zero_copy_only=False) if hasattr(values, "offset") else values.to_numpy())


def _values(table: Any, column: Any, name: str) -> NDArray[Any]:
    """A column as it is: numbers or labels."""
    values = _column(table, column, name)
    if values.null_count:
        raise BlockError(f"{name}: the target {column!r} is missing in {values.null_count} rows; remove those rows.")
    array = _numpy(values)
    return array.astype(str) if array.dtype.kind == "O" else array


def _matrix(table: Any, columns: Sequence[str], name: str) -> NDArray[Any]:
    """Columns of numbers side by side; float32 where all are."""
    import pyarrow.types as kinds

    fields = [_column(table, column, name).type for column in columns]
    for column, kind in zip(columns, fields, strict=True):
        if not (kinds.is_floating(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind)):
            raise BlockError(
                f"{name}: column {column!r} holds {kind}, but inputs must be numbers; encode it, or select other"
                " columns with columns=."
            )
    small = all(kinds.is_float32(kind) or kinds.is_float16(kind) for kind in fields)
    out = np.empty((table.num_rows, len(columns)), np.float32 if small else np.float64)
    for j, column in enumerate(columns):
        out[:, j] = _numpy(table.column(column))
    return out
