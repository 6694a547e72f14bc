"""Features of rows that come by blocks: the map that travels to the workers, and strips of features there."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.parts import Part
from gramian.data.sums import Sums
from gramian.gram import Gram
from gramian.gram.operator import wide
from gramian.resources import spans

__all__ = ["Lift", "strips_of"]

Array = NDArray[np.float64]

CELLS = 2**22
"""Features that a worker holds at a time: 32 MB, and some copies of it."""
LEAST_ROWS = 256
"""Rows of a strip at least, so that products stay efficient."""


@dataclass(frozen=True, eq=False)
class Lift:
    """A fitted map as the workers use it, one thread each."""

    features: Any  # The map, without names of columns
    width: int  # Its features

    @classmethod
    def of(cls, features: Any, row: NDArray[Any]) -> Lift:
        """Prepare a fitted map for the workers: row (1, d)."""
        bare = copy.copy(features)
        for name, value in (("n_jobs", 1), ("memory", None)):
            if hasattr(bare, name):
                setattr(bare, name, value)
        vars(bare).pop("feature_names_in_", None)
        return cls(bare, int(bare.transform(row).shape[1]))

    def __call__(self, X: NDArray[Any]) -> Array:
        """Return the features of some rows, dense and in float64."""
        F = self.features.transform(wide(X))
        return np.asarray(F if isinstance(F, np.ndarray) else F.toarray(), dtype=np.float64)

    def raw(self, X: NDArray[Any]) -> Array:
        """Return what the features are linear combinations of: kernel values of landmarks, else the features."""
        if not hasattr(self.features, "expansion"):
            return self(X)
        K = Gram(self.features.kernel_, wide(X), self.features.components_, n_jobs=1)
        return np.asarray(K.dense(), dtype=np.float64)

    def mixed(self, V: Array) -> Array:
        """Return sums of features from sums of what they are combinations of: V (m, k) → (m, k)."""
        return np.asarray(self.features.normalization_ @ V) if hasattr(self.features, "expansion") else V

    def unmixed(self, w: Array) -> Array:
        """Return the weights of what the features are combinations of: w (m, k) → (m, k)."""
        return np.asarray(self.features.expansion(w)) if hasattr(self.features, "expansion") else w

    def strips(self, parts: Iterator[Part]) -> Iterator[tuple[Array, Part]]:
        """Yield the features of rows, a few megabytes at a time: → (r, m)."""
        for part in strips_of(parts, self.width):
            yield part.made(self), part

    def error_sums(self, F: Array, part: Part) -> Sums:
        """Return what the trace error of the map is made of: F (r, m)."""
        diagonal = np.asarray(self.features.kernel_.diag(wide(part.X)), dtype=np.float64)
        missed = np.maximum(diagonal - np.einsum("ij,ij->i", F, F), 0.0)
        return Sums.of(missed=missed.sum(), trace=diagonal.sum())


def strips_of(parts: Iterator[Part], width: int) -> Iterator[Part]:
    """Cut parts into strips of a few megabytes of features."""
    height = max(LEAST_ROWS, CELLS // max(width, 1))
    for part in parts:
        for rows in spans(part.index.size, height):
            yield part.take(rows)
