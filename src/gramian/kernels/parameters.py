"""Positive numbers that can be learned: checks, bounds, and the way to their logarithms and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FREE", "Bounds", "Number", "Parameter", "check_bounds", "check_number", "natural"]

Number = float | tuple[float, ...]
Bounds = tuple[float, float] | str
FREE: tuple[float, float] = (1e-5, 1e5)


@dataclass(frozen=True)
class Parameter:
    """One named parameter of one kernel in a tree."""

    name: str  # Its name, with the path from the root of the tree: ``left.lengthscale``
    value: Number  # Its value
    bounds: Bounds  # Where it may be learned

    @property
    def values(self) -> NDArray[np.float64]:
        """The value as an array, one entry per number."""
        return np.atleast_1d(np.asarray(self.value, dtype=np.float64))

    @property
    def free(self) -> bool:
        """Whether it has a place in theta: not fixed, and with a logarithm."""
        return self.bounds != "fixed" and bool(np.all(self.values > 0))


def check_number(owner: str, name: str, value: Any, *, zero: bool = False, vector: bool = False) -> Number:
    """Check a parameter given by a user."""
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{owner}: {name} must be a number, got {value!r}.") from None
    if numbers.ndim > (1 if vector else 0) or numbers.size == 0:
        shape = "a number or one number per input" if vector else "one number"
        raise ValueError(f"{owner}: {name} must be {shape}, got {value!r}.")
    bad = ~np.isfinite(numbers) | (numbers < 0) | ((numbers == 0) & (not zero))
    if np.any(bad):
        sign = ">= 0" if zero else "> 0"
        raise ValueError(f"{owner}: {name} must be finite and {sign}, got {value!r}; otherwise it is not a kernel.")
    return float(numbers) if numbers.ndim == 0 else tuple(numbers.tolist())


def check_bounds(owner: str, name: str, bounds: Any) -> Bounds:
    """Check the range in which a parameter may be learned."""
    if isinstance(bounds, str):
        if bounds == "fixed":
            return bounds
    elif isinstance(bounds, Sequence | np.ndarray) and len(bounds) == 2:
        low, high = (float(b) for b in bounds)
        if 0 < low <= high < np.inf:
            return (low, high)
    raise ValueError(f"{owner}: {name}_bounds must be (low, high) with 0 < low <= high, or 'fixed'; got {bounds!r}.")


def natural(what: str, value: Any) -> int:
    """Check a natural number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not float(value).is_integer() or float(value) < 1:
        raise ValueError(f"{what} must be a natural number, got {value!r}.")
    return int(float(value))
