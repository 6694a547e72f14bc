"""Gram matrices of all rows, one at a time; kernels that differ in lengthscale share one matrix of distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.gram import Gram
from gramian.kernels import Kernel, Precomputed, Radial
from gramian.kernels.objects import Table
from gramian.resources import run, spans

PANEL = 256
"""Rows of the distance matrix that are turned into kernel values at once."""

Array = NDArray[np.float64]


@dataclass
class Tables:
    """Tables of kernels, and the distances shared by a family of kernels that differ only in their lengthscale."""

    least: dict[Any, float]  # The smallest lengthscale of each family of at least two kernels
    family: Kernel | None = None  # The family whose distances are stored
    distances: Array | None = None  # (n, n): Squared, in units of the smallest lengthscale, times the family's weight
    values: Array | None = None  # (n, n): The kernel values last computed from them, replaced by the next
    rounding: float = 0.0  # Rounding error of a kernel value computed from them
    held: int = 0  # Bytes of the last table and of the distances

    @classmethod
    def among(cls, kernels: list[Any]) -> Tables:
        """Group kernels into families."""
        families: dict[Any, list[float]] = {}
        for kernel in kernels:
            if (family := _family(kernel)) is not None:
                families.setdefault(family, []).append(kernel.lengthscale)
        return cls({family: min(scales) for family, scales in families.items() if len(scales) > 1})

    def forget(self) -> None:
        """Free the memory of the distances."""
        self.family = self.distances = self.values = None
        self.held = 0

    def of(self, kernel: Any, rows: Any, room: int, n_jobs: int | None) -> Table | None:
        """Return the table of a kernel, valid until the next one; None if it takes more than ``room`` bytes."""
        family, bytes_of_one = _family(kernel), 8 * rows.shape[0] ** 2
        if family is None or family != self.family:
            self.forget()
        if bytes_of_one > room:
            return None
        gram = Gram(kernel, rows, memory=room, n_jobs=n_jobs)
        if not kernel.definite:
            gram.check_symmetric()
        self.held = bytes_of_one
        if isinstance(kernel, Precomputed) and isinstance(rows, np.ndarray):
            return Table(rows, kernel, gram.rounding)
        if family not in self.least or 2 * bytes_of_one > room:
            return Table(gram.dense(), kernel, gram.rounding)
        self.held = 2 * bytes_of_one
        if self.distances is None:
            self._measure(family, kernel, rows, gram.workers)
        return Table(self._values(kernel, gram.workers), kernel, max(gram.rounding, self.rounding))

    def _measure(self, family: Kernel, kernel: Any, rows: Any, workers: int) -> None:
        """Compute the distances of a family, precisely enough for its smallest lengthscale."""
        narrowest = kernel.with_fields({"lengthscale": self.least[family]})
        A, B = narrowest.prepare(rows)
        distances = np.empty((len(A), len(A)))

        def fill(part: slice) -> None:
            distances[part] = narrowest.arguments(A[part], B)

        run(fill, spans(len(A), PANEL), workers)
        self.family, self.distances, self.rounding = family, distances, narrowest.rounding(A)

    def _values(self, kernel: Any, workers: int) -> Array:
        distances: Any = self.distances
        if self.values is None:
            self.values = np.empty(distances.shape)
        K, shrink = self.values, (self.least[self.family] / kernel.lengthscale) ** 2

        def fill(part: slice) -> None:
            np.multiply(distances[part], shrink, out=K[part])
            K[part] = kernel.profile(K[part])

        run(fill, spans(len(K), PANEL), workers)
        np.fill_diagonal(K, kernel.level)
        return K


def _family(kernel: Any) -> Any:
    """A radial kernel with its lengthscale set to one; None for kernels without a single lengthscale."""
    if not isinstance(kernel, Radial) or not isinstance(kernel.lengthscale, float):
        return None
    return kernel.with_fields({"lengthscale": 1.0})
