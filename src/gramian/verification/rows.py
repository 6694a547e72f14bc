"""What a checker takes: rows, targets and weights, kernel tiles in float64, and the functions that a model shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight, _num_samples, check_consistent_length, validate_data

from gramian.kernels import Kernel
from gramian.kernels.points import objects
from gramian.kernels.resolve import holds_objects, is_precomputed
from gramian.resources import memory_budget, spans

__all__ = [
    "EPS",
    "Array",
    "Data",
    "check_same",
    "dense",
    "expanded",
    "feature_weights",
    "product",
    "size_of_terms",
    "tiles",
    "unlike",
]

Array = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)
SAME = 1e-6
"""What predictions may differ from the function that a model shows, relative to the largest."""


@dataclass(frozen=True, eq=False)
class Data:
    """The rows that a model was fitted to, as given, as an array, and in float64; targets, weights, bytes to hold."""

    given: Any
    rows: Any
    X: Any
    y: Any
    weights: Array
    memory: int

    @classmethod
    def of(cls, model: Any, X: Any, y: Any, sample_weight: Any) -> Data:
        """Check what the caller gave against what the model was fitted to."""
        kernel, given = getattr(model, "kernel", None), X
        if holds_objects(kernel, X):
            rows = X = objects(X, kernel=type(kernel).__name__)
        else:
            X = validate_data(model, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=False)
            rows = X.astype(np.float64, copy=False)
        n = _num_samples(rows)
        if y is not None:
            y = np.asarray(y)
            check_consistent_length(rows, y)
        weights = np.ones(n)
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, np.empty((n, 1)), dtype=np.float64, ensure_non_negative=True)
        return cls(given, X, rows, y, np.asarray(weights), memory_budget(getattr(model, "memory", None)))

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.weights.size)

    @property
    def kept(self) -> NDArray[np.bool_]:
        """The rows that count."""
        return self.weights > 0

    def targets(self) -> Array:
        """Targets that are numbers, one column for each."""
        if self.y is None:
            raise ValueError("this model was fitted to targets; pass y=, the targets of the same rows.")
        return np.asarray(self.y, dtype=np.float64).reshape(self.n, -1)

    def codes(self, classes: NDArray[Any]) -> NDArray[np.intp]:
        """Labels as places among the classes."""
        if self.y is None:
            raise ValueError("this model was fitted to labels; pass y=, the labels of the same rows.")
        codes = np.searchsorted(classes, self.y)
        if np.any(np.take(classes, codes, mode="clip") != self.y):
            raise ValueError(f"y has labels that are not among the classes of the model, {classes}.")
        return codes

    def features(self, model: Any) -> Iterator[tuple[slice, Array]]:
        """Yield the features of the rows by the model's map, some rows at a time."""
        # A map of a Gram matrix knows the columns of all rows, or of those that count.
        few = is_precomputed(model.kernel_) and model.approximation_.n_features_in_ < self.X.shape[1]
        X = self.X[:, self.kept] if few else self.X
        width = feature_weights(model).shape[0]
        for rows in spans(self.n, max(self.memory // (32 * max(width, 1)), 1)):
            yield rows, dense(model.approximation_.transform(X[rows]))


def tiles(kernel: Kernel, X: Any, Y: Any, memory: int, columns: Any = None) -> Iterator[tuple[slice, Array]]:
    """Yield ``K(X, Y)`` some rows at a time, in float64; Y of ``None`` is X itself, of which ``columns`` are taken."""
    A, B = kernel.prepare(X, Y)
    B = B if columns is None else B[columns]
    for rows in spans(len(A), max(memory // (32 * max(len(B), 1)), 1)):
        yield rows, np.asarray(kernel.tile(A[rows], B), dtype=np.float64)


def product(kernel: Kernel, X: Any, Y: Any, V: Array, memory: int, columns: Any = None) -> Array:
    """Return ``K(X, Y) @ V``, of which no more than ``memory`` bytes exist at a time."""
    if not V.shape[0]:
        return np.zeros((_num_samples(X), *V.shape[1:]))
    return np.concatenate([K @ V for _, K in tiles(kernel, X, Y, memory, columns)])


def expanded(kernel: Kernel, X: Any, V: Array, memory: int, columns: Any = None) -> tuple[Array, Array]:
    """Return ``K @ V`` as it is predicted, with rows apart from themselves, and with the noise that only a row has.

    V has a row for each of the ``columns``, which are rows of X; by default for all.
    """
    columns = np.arange(_num_samples(X)) if columns is None else np.asarray(columns)
    if is_precomputed(kernel):
        f = product(kernel, X, None, V, memory, columns)
        return f, f
    diagonal = np.asarray(kernel.diag(X), dtype=np.float64)[columns]
    predicted, apart = np.zeros((_num_samples(X), V.shape[1])), diagonal.copy()
    for rows, K in tiles(kernel, X, X[columns], memory) if columns.size else ():
        predicted[rows] = K @ V
        (own,) = np.nonzero((columns >= rows.start) & (columns < rows.stop))
        apart[own] = K[columns[own] - rows.start, own]
    noise = np.where(np.abs(diagonal - apart) > SAME * np.abs(diagonal), diagonal - apart, 0.0)
    f = predicted.copy()
    np.add.at(f, columns, noise[:, None] * V)
    return predicted, f


def dense(a: Any) -> Array:
    """Return what may be sparse as an array."""
    return np.asarray(a.toarray() if hasattr(a, "toarray") else a, dtype=np.float64)


def feature_weights(model: Any) -> Array:
    """Return the weights of a map's features, one column per function, whether the model shows them or landmarks."""
    if hasattr(model, "coef_"):
        w = np.asarray(model.coef_, dtype=np.float64)
        return w.reshape(w.shape[0], -1)
    dual = model.dual_coef_.reshape(model.dual_coef_.shape[0], -1)
    lower = np.asarray(model.approximation_.normalization_, dtype=np.float64)
    if not lower.any():
        return np.zeros_like(dual)
    return np.asarray(scipy.linalg.solve_triangular(lower, dual, lower=True, trans=1))


def size_of_terms(model: Any, F: Array, w: Array) -> Array:
    """Return the size of the terms that a function of features sums; at landmarks, where it is evaluated."""
    size = np.abs(F).max(initial=0.0) * np.abs(w).sum(axis=0)
    if hasattr(model.approximation_, "expansion"):
        largest = float(np.sum(F**2, axis=1).max(initial=0.0))
        size = size + largest * np.abs(model.approximation_.expansion(w)).sum(axis=0)
    return np.asarray(size)


def check_same(kept: Any, rows: Any) -> None:
    """Raise where rows that a model keeps are not the rows given."""
    objects = not hasattr(kept, "dtype") or kept.dtype.kind == "O"
    if objects or (kept.shape == rows.shape and not _differ(kept, rows)):
        return
    raise ValueError("these are not the rows that the model was fitted to, in the same order; pass those.")


def _differ(A: Any, B: Any) -> bool:
    if isinstance(A, np.ndarray) and isinstance(B, np.ndarray):
        return not np.array_equal(A, B)
    return bool(abs(sp.csr_array(A) - sp.csr_array(B)).max() > 0)


def unlike(predicted: Any, f: Array, size: Any) -> list[str]:
    """Say whether predictions differ from f by more than rounding in sums of terms of the size given."""
    off = np.abs(np.asarray(predicted, dtype=np.float64).reshape(f.shape) - f)
    if np.all(off <= 16.0 * EPS * np.asarray(size) + SAME * np.abs(f).max(axis=0, initial=0.0)):
        return []
    return [f"predictions differ by up to {off.max():.1e} from the function that the model shows"]
