"""The training rows of a support vector machine, and the kernel matrix that its solver reads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gramian.gram import Gram
from gramian.kernels import Dot, Kernel, Precomputed, Radial
from gramian.resources import run, spans
from gramian.solvers.svm.dense import SMALL
from gramian.solvers.svm.row_cache import CardRows, FeatureRows, Index, KernelRows, RowCache, StoredRows, Wide
from gramian.solvers.svm.smo import POLISHED

Vector = NDArray[np.float64]
ALONE = 1500
"""Up to this many rows the whole matrix is computed for a single problem; beyond, most rows are never needed."""
KEPT = 2**19
"""Least number of entries allocated: smaller arrays go back to the system, and each fit then faults in new pages."""
STRIP, THREADED = 192, 800
"""Rows per strip of a small matrix; number of rows above which strips are computed in threads."""
TESTED_ROWS = 1024
"""Up to this many rows, a similarity that may be indefinite is tested."""
INDEFINITE = 1e-5
"""Size of a negative eigenvalue, relative to the diagonal, beyond what rounding to float32 causes."""
DIRECT_CACHE = 256e6
"""Cache limit in bytes for kernels that are cheap to compute: touching new memory costs more than recomputing a row."""


@dataclass(frozen=True)
class Training:
    """The training rows without those of weight zero, and their kernel matrix."""

    kept: Index  # Their indices among the user's rows, in the solver's order
    weight: Vector  # (n,): Sample weights
    kernel: Kernel  # The kernel, before any approximation
    rows: GramRows | FeatureMatrix  # Kernel values between them


@dataclass(frozen=True)
class GramRows:
    """The kernel matrix of some rows."""

    gram: Gram  # The kernel matrix, as the row cache keeps it
    wide: Wide | None  # The same in float64, if ``gram`` is in float32
    direct: bool  # Whether a kernel value is cheaper to compute than to look up
    made: list[Vector] = field(default_factory=list)  # The whole matrix, once computed; at most one entry

    @property
    def workers(self) -> int:
        """Number of threads that compute kernel rows."""
        return self.gram.workers

    def diagonal(self) -> Vector:
        """Return k(x, x) of the rows: → (n,)."""
        return np.asarray(self.gram.diagonal(), dtype=np.float64)

    @property
    def rounding(self) -> float:
        """Rounding error of a kernel value, relative to the largest k(x, x)."""
        return self.gram.rounding

    def on(self, workers: int) -> GramRows:
        """Return the same matrix, computed by another number of threads."""
        return replace(self, gram=self.gram.on(workers), wide=self.wide and self.wide.on(workers))

    def caches(self, blocks: list[slice], budget: float) -> list[RowCache]:
        """Return one row cache for each block of columns, sharing the budget by width."""
        share = (min(budget, DIRECT_CACHE) if self.direct else budget) / sum(b.stop - b.start for b in blocks)
        columns = [np.arange(b.start, b.stop) for b in blocks]
        return [RowCache(self.gram, c, int(share * c.size), self.wide) for c in columns]

    def among(self, caches: list[RowCache]) -> KernelRows:
        """Return the object from which the solver reads kernel rows."""
        whole = self.whole if self.gram.shape[0] <= ALONE else None
        return KernelRows(caches, self.gram.workers, self.direct, self.definite, whole)

    @property
    def whole(self) -> Vector | None:
        """The whole matrix, computed once; None unless it is small, cheap, float64 and positive semi-definite."""
        n, kernel = self.gram.shape[0], self.gram.kernel
        cheap = self.direct or n <= POLISHED or isinstance(kernel, Dot | Radial | Precomputed)
        if n > SMALL or not cheap or self.gram.dtype != np.float64 or not self.gram.fits or not self.definite:
            return None
        if not self.made:
            self.made.append(self._filled())
        return self.made[0]

    def _filled(self) -> Vector:
        """Compute the lower triangle of K by strips of rows, and mirror it."""
        n, single = self.gram.shape[0], self.gram.on(1)
        K = np.empty(max(n * n, KEPT))[: n * n].reshape(n, n)

        def strip(rows: slice) -> None:
            single.rows(rows, slice(0, rows.stop), out=K[rows, : rows.stop])
            K[: rows.start, rows] = K[rows, : rows.start].T

        # The longest strips first, so that threads finish together; small matrices use one thread.
        run(strip, spans(n, STRIP)[::-1], self.gram.workers if n > THREADED else 1)
        return K

    @cached_property
    def definite(self) -> bool:
        """Whether K is positive semi-definite; tested only if the kernel may not be and there are few rows."""
        n = self.gram.shape[0]
        if n > TESTED_ROWS or self.gram.kernel.definite:
            return True
        K = self.gram.rows(slice(None)).astype(np.float64)
        try:
            np.linalg.cholesky(K + INDEFINITE * float(np.abs(K.diagonal()).max(initial=0.0)) * np.eye(n))
        except np.linalg.LinAlgError:
            return False
        return True


class CardMatrix(GramRows):
    """The kernel matrix of some rows on a GPU: there is nothing to cache."""

    def caches(self, blocks: list[slice], budget: float) -> list[Any]:
        """Return the row numbers of each block."""
        return [np.arange(block.start, block.stop) for block in blocks]

    def among(self, caches: list[Any]) -> Any:
        """Return the object from which the solver reads kernel rows."""
        return CardRows(self.gram, np.concatenate(caches), self.definite, self.whole)


@dataclass(frozen=True, kw_only=True)
class StoredMatrix(GramRows):
    """A kernel matrix that is already in memory, possibly as part of a larger one."""

    matrix: Vector  # The larger matrix
    ids: Index  # (n,): Rows of the larger matrix used here

    def caches(self, blocks: list[slice], budget: float) -> list[Any]:
        """Return the row numbers of each block: there is nothing to cache."""
        return [self.ids[block] for block in blocks]

    def among(self, caches: list[Any]) -> Any:
        """Return the object from which the solver reads kernel rows."""
        small = self.ids.size <= ALONE and self.definite and self.matrix.dtype == np.float64
        return StoredRows(self.matrix, np.concatenate(caches), self.rounding, self.definite, small, self.workers)


@dataclass(frozen=True)
class FeatureMatrix:
    """The features of some rows: the kernel matrix is F Fᵀ."""

    F: Vector  # (n, m)
    features: Any  # The fitted map
    fitted: Index  # Indices of the user's rows that it was fitted to, in its order
    workers: int  # Threads
    whole: ClassVar[None] = None
    rounding: ClassVar[float] = FeatureRows.rounding

    def diagonal(self) -> Vector:
        """Return ‖ψ(x)‖² of the rows: → (n,)."""
        return np.einsum("ij,ij->i", self.F, self.F)

    def on(self, workers: int) -> FeatureMatrix:
        """Return the same features, for another number of threads."""
        return replace(self, workers=workers)

    def caches(self, blocks: list[slice], budget: float) -> list[Vector]:
        """Return the features of each block: there are no kernel rows to cache."""
        return [self.F[block] for block in blocks]

    def among(self, caches: list[Vector]) -> FeatureRows:
        """Return the object from which the solver reads kernel values."""
        return FeatureRows(caches[0] if len(caches) == 1 else np.concatenate(caches), self.workers)
