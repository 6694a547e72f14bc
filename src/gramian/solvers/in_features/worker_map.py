"""A fitted map as sent to the workers of a pass: features of strips of rows, or their kernel values with landmarks."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramian.data.parts import Part, Sums
from gramian.gram.operator import wide
from gramian.kernels.resolve import is_precomputed
from gramian.resources import spans

Array = NDArray[np.float64]

CELLS = 2**22
"""Most numbers in the features a worker holds at a time: 32 MB, plus a few copies."""
LEAST_ROWS = 256
"""Fewest rows of a strip, so that matrix products stay efficient."""


@dataclass(frozen=True, eq=False)
class WorkerMap:
    """A fitted map as sent to workers of one thread each: ``map(X)`` returns the features of rows."""

    features: Any  # The map, without the names of columns
    width: int  # m, its number of features
    basis: Any = None  # basis(X): kernel values with the landmarks, (n, m); None for maps without landmarks

    @classmethod
    def of(cls, features: Any, row: Any) -> WorkerMap:
        """Prepare a fitted map for the workers: row (1, d)."""
        bare = copy.copy(features)
        for name, value in (("n_jobs", 1), ("memory", None)):
            if hasattr(bare, name):
                setattr(bare, name, value)
        vars(bare).pop("feature_names_in_", None)
        basis = _KernelValues(bare) if hasattr(bare, "expansion") else None
        return cls(bare, int(bare.transform(wide(row)).shape[1]), basis)

    def __call__(self, X: Any) -> Array:
        """Return the features of some rows, dense and in float64."""
        F = self.sparse(X)
        return np.asarray(F if isinstance(F, np.ndarray) else F.toarray(), dtype=np.float64)

    def sparse(self, X: Any) -> Any:
        """Return the features of some rows, sparse if the map returns them so."""
        return self.features.transform(wide(X))

    def raw(self, part: Part) -> Array:
        """Return the kernel values with the landmarks or, without landmarks, the features: → (r, m)."""
        return part.made(self if self.basis is None else self.basis)

    def mixed(self, V: Array) -> Array:
        """Return Fᵀu from V = Rᵀu, with features F and ``raw`` values R: V (m, k) → (m, k)."""
        return V if self.basis is None else np.asarray(self.features.normalization_ @ V)

    def congruent(self, S: Array) -> Array:
        """Return FᵀF from S = RᵀR, with features F and ``raw`` values R: S (m, m) → (m, m)."""
        if self.basis is None:
            return S
        upper = np.ascontiguousarray(self.features.normalization_).T  # L⁻ᵀ in Fortran order: BLAS makes no copies
        half = scipy.linalg.blas.dtrmm(1.0, upper, S.T, trans_a=1)
        return np.asarray(scipy.linalg.blas.dtrmm(1.0, upper, half, side=1, overwrite_b=1))

    def unmixed(self, w: Array) -> Array:
        """Return u with Ru = Fw, with features F and ``raw`` values R: w (m, k) → (m, k)."""
        return w if self.basis is None else np.asarray(self.features.expansion(w))

    def strips(self, parts: Iterator[Part]) -> Iterator[tuple[Array, Part]]:
        """Yield the features (r, m) of rows and the rows themselves, a few megabytes at a time."""
        for part in strips_of(parts, self.width):
            yield part.made(self), part

    def error_sums(self, F: Array, part: Part) -> Sums:
        """Return the sums whose ratio is the trace error of the map: F (r, m)."""
        diagonal = self.diagonal(part)
        missed = np.maximum(diagonal - np.einsum("ij,ij->i", F, F), 0.0)
        return Sums.of(missed=missed.sum(), trace=diagonal.sum())

    def diagonal(self, part: Part) -> Array:
        """Return k(x, x) of some rows; in rows of a Gram matrix it is the column of the row's index."""
        if is_precomputed(self.features.kernel_):
            return np.asarray(self.features.kernel_.diag(wide(part.X[:, part.index])), dtype=np.float64)
        return np.asarray(self.features.kernel_.diag(wide(part.X)), dtype=np.float64)

    @property
    def independent(self) -> bool:
        """Whether there are landmarks and their kernel matrix is numerically nonsingular."""
        if self.basis is None:
            return False
        pivots = np.abs(np.diagonal(self.features.normalization_))
        return bool(pivots.min() > np.sqrt(pivots.size * np.finfo(np.float64).eps) * pivots.max())


@dataclass(frozen=True, eq=False)
class _KernelValues:
    """Kernel values of rows with the landmarks of a map: (n, d) → (n, m)."""

    features: Any

    def __call__(self, X: Any) -> Array:
        return np.asarray(self.features.values(wide(X)), dtype=np.float64)


def strips_of(parts: Iterator[Part], width: int) -> Iterator[Part]:
    """Cut parts into strips of a few megabytes of features."""
    height = max(LEAST_ROWS, CELLS // max(width, 1))
    for part in parts:
        for rows in spans(part.index.size, height):
            yield part.take(rows)
