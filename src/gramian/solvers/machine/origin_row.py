"""Kernel rows with one more object, at the origin of feature space, which removes the equality constraint of a program.

The variable of that object costs nothing and absorbs the sum of the others, so ``Σβ = 0`` constrains nothing, and the
multiplier of the constraint, the constant of the machine, is zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.solvers.svm.row_cache import Index, Rows


class AnchoredRows(Rows):
    """Kernel rows followed by those of an object whose kernel with everything is zero, which has no column to drop."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.direct, self.definite, self.on_card = rows, rows.direct, rows.definite, rows.on_card
        self.size = len(rows.ids)
        self.ids = np.arange(self.size + 1)

    @property
    def rounding(self) -> float:
        return self.rows.rounding

    @property
    def narrow(self) -> bool:
        return self.rows.narrow

    @property
    def narrow_rounding(self) -> float:
        return self.rows.narrow_rounding

    @property
    def largest_square(self) -> int:
        return len(self.ids) if self.rows.largest_square >= self.size else self.rows.largest_square

    @property
    def evicted(self) -> int:
        return self.rows.evicted

    def diagonal(self) -> NDArray[np.float64]:
        return np.append(self.rows.diagonal(), 0.0)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.rows.dtype

    def square(self, objects: Index, out: NDArray[Any]) -> None:
        own = int(np.searchsorted(objects, self.size))
        out[own:], out[:, own:] = 0.0, 0.0
        self.rows.square(objects[:own], out[:own, :own])

    def add(self, objects: Index, weights: NDArray[np.float64], total: NDArray[np.float64]) -> None:
        own = objects < self.size
        self.rows.add(objects[own], weights[own], total[: self.size])

    def exact(self, objects: Index, others: Index) -> NDArray[Any]:
        up, across = np.flatnonzero(objects < self.size), np.flatnonzero(others < self.size)
        found = self.rows.exact(objects[up], others[across])
        out = np.zeros((objects.size, others.size), found.dtype)
        out[np.ix_(up, across)] = found
        return out

    def exact_sum(self, objects: Index, weights: NDArray[np.float64], at: Index | None = None) -> NDArray[np.float64]:
        at, own = self.ids if at is None else at, objects < self.size
        total = np.zeros(at.size)
        total[at < self.size] = self.rows.exact_sum(objects[own], weights[own], at[at < self.size])
        return total

    def upgrade(self) -> bool:
        return self.rows.upgrade()
