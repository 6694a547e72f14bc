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
        """Rounding error of a kernel value, relative to the largest k(x, x)."""
        return self.rows.rounding

    @property
    def largest_square(self) -> int:
        """How many objects ``square`` can take."""
        return self.rows.largest_square + 1

    @property
    def evicted(self) -> int:
        """How many rows were evicted so far."""
        return self.rows.evicted

    def diagonal(self) -> NDArray[np.float64]:
        """Return k(x, x) of every object: → (n + 1,)."""
        return np.append(self.rows.diagonal(), 0.0)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the rows."""
        return self.rows.dtype

    def square(self, objects: Index, out: NDArray[Any]) -> None:
        """Write the kernel matrix of some objects, in ascending order: out (q, q)."""
        own = int(np.searchsorted(objects, self.size))
        out[own:], out[:, own:] = 0.0, 0.0
        self.rows.square(objects[:own], out[:own, :own])

    def add(self, objects: Index, weights: NDArray[np.float64], total: NDArray[np.float64]) -> None:
        """Add Σ_k weights_k K[objects_k, :] to ``total``. weights (len(objects),), total (n + 1,)."""
        own = objects < self.size
        self.rows.add(objects[own], weights[own], total[: self.size])

    def exact(self, objects: Index, others: Index) -> NDArray[Any]:
        """Return a block of the kernel in full precision: → (len(objects), len(others))."""
        up, across = np.flatnonzero(objects < self.size), np.flatnonzero(others < self.size)
        found = self.rows.exact(objects[up], others[across])
        out = np.zeros((objects.size, others.size), found.dtype)
        out[np.ix_(up, across)] = found
        return out

    def exact_sum(self, objects: Index, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Σ_k weights_k K[objects_k, :] in full precision. weights (len(objects),) → (n + 1,)."""
        own = objects < self.size
        return np.append(self.rows.exact_sum(objects[own], weights[own]), 0.0)

    def upgrade(self) -> bool:
        """Go on in full precision."""
        return self.rows.upgrade()
