"""What the solver learns from: the rows that count, and the kernel between them or their features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.gram import Gram
from gramian.kernels import Callable, Kernel, Precomputed, Sigmoid
from gramian.kernels.histograms import AdditiveChi2
from gramian.solvers.svm.feature_rows import FeatureRows
from gramian.solvers.svm.row_cache import KernelRows, RowCache, Wide

__all__ = ["Mapped", "Trained"]

Vector = NDArray[np.float64]
LOOKED_AT = 1024
"""Rows up to which a similarity that may not be a kernel is tested."""
INDEFINITE = 1e-5
"""A negative eigenvalue, relative to the diagonal, that rounding to float32 does not explain."""
DIRECT_CACHE = 256e6
"""Bytes of cache for a kernel that is cheap to compute: to touch fresh memory costs more than a row made again."""


@dataclass(frozen=True)
class Trained:
    """The rows to learn from, those of weight zero left out, and the kernel between them."""

    kept: NDArray[np.intp]  # Which of the user's rows they are, in the order of the Gram matrices
    kernel: Kernel  # The kernel, resolved
    gram: Gram  # The kernel matrix, as the row cache keeps it
    wide: Wide | None  # The same in full precision, where ``gram`` has less
    direct: bool  # Whether a kernel value is cheaper to compute than to look up
    weight: Vector  # (n,): Sample weights

    @property
    def workers(self) -> int:
        """Threads that make kernel rows."""
        return self.gram.workers

    def on(self, workers: int) -> Trained:
        """Return the same rows, their kernel made by another number of threads."""
        return replace(self, gram=self.gram.on(workers), wide=self.wide and self.wide.on(workers))

    def caches(self, blocks: list[slice], budget: float) -> list[RowCache]:
        """Return one row cache for each block of columns, sharing the budget by width."""
        budget = min(budget, DIRECT_CACHE) if self.direct else budget
        total = sum(b.stop - b.start for b in blocks)
        shares = [int(budget * (b.stop - b.start) / total) for b in blocks]
        columns = [np.arange(b.start, b.stop) for b in blocks]
        return [RowCache(self.gram, c, s, self.wide) for c, s in zip(columns, shares, strict=True)]

    def kernel_rows(self, caches: list[RowCache]) -> KernelRows:
        """Return what the solver reads kernel rows from."""
        return KernelRows(caches, self.gram.workers, self.direct, self.definite)

    @cached_property
    def definite(self) -> bool:
        """Whether K is positive semi-definite: looked at where the kernel may not be, and rows are few."""
        n = len(self.kept)
        if n > LOOKED_AT or not isinstance(self.kernel, Precomputed | Callable | Sigmoid | AdditiveChi2):
            return True
        K = self.gram.rows(slice(None)).astype(np.float64)
        try:
            np.linalg.cholesky(K + INDEFINITE * float(np.abs(K.diagonal()).max(initial=0.0)) * np.eye(n))
        except np.linalg.LinAlgError:
            return False
        return True

    def all_rows(self, budget: float) -> KernelRows:
        """Return what the solver reads the kernel of all rows from."""
        return self.kernel_rows(self.caches([slice(0, len(self.kept))], budget))


@dataclass(frozen=True)
class Mapped:
    """The same, for the kernel ``<ψ(x), ψ(z)>`` of an explicit map."""

    kept: NDArray[np.intp]  # Which of the user's rows they are, in the order of F
    kernel: Kernel  # The kernel that the map approximates
    F: Vector  # (n, m): The features
    features: Any  # The map, fitted
    rows: NDArray[np.intp]  # The user's rows that it was fitted to, in its order
    workers: int  # Threads
    weight: Vector  # (n,): Sample weights

    def on(self, workers: int) -> Mapped:
        """Return the same rows, for another number of threads."""
        return replace(self, workers=workers)

    def caches(self, blocks: list[slice], budget: float) -> list[Vector]:
        """Return the features of each block: there are no kernel rows to keep."""
        return [self.F[block] for block in blocks]

    def kernel_rows(self, caches: list[Vector]) -> FeatureRows:
        """Return what the solver reads kernel values from."""
        return FeatureRows(caches, self.workers)

    def all_rows(self, budget: float) -> FeatureRows:
        """Return what the solver reads the kernel of all rows from."""
        return self.kernel_rows(self.caches([slice(0, len(self.kept))], budget))
