"""Named arrays that add up over rows: all that a pass over blocks sends back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Sums", "Tree", "plus", "total"]


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over some rows, by name; those of other rows are added with ``+``."""

    arrays: Mapping[str, NDArray[Any]]  # The sums

    @classmethod
    def of(cls, **arrays: Any) -> Sums:
        """Return sums by name."""
        return cls({name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()})

    def __add__(self, other: Sums) -> Sums:
        return Sums({name: array + other.arrays[name] for name, array in self.arrays.items()})

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return self.arrays[name]


def plus(a: Sums | None, b: Sums | None) -> Sums | None:
    """Add two sums, of which one may be of no rows at all."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def total(parts: Iterable[Sums]) -> Sums | None:
    """Return the sum of some values, in their order."""
    start: Sums | None = None
    return reduce(plus, parts, start)


class Tree:
    """A binary tree of sums whose shape depends on the number of leaves alone.

    Leaves are pushed in order. What is held are the sums of complete subtrees, at most one of each size, so the memory
    is logarithmic in the leaves, and the same additions are made however the leaves were computed.
    """

    def __init__(self, held: Iterable[tuple[int, Sums | None]] = ()) -> None:
        self.held: list[tuple[int, Sums | None]] = list(held)

    def push(self, value: Sums | None, size: int = 1) -> None:
        """Add the next leaf, or the next complete subtree."""
        while self.held and self.held[-1][0] == size:
            value = plus(self.held.pop()[1], value)
            size *= 2
        self.held.append((size, value))

    def root(self) -> Sums | None:
        """Return the sum of all leaves."""
        values = [value for _, value in self.held]
        while len(values) > 1:
            last = values.pop()
            values[-1] = plus(values[-1], last)
        return values[0] if values else None
