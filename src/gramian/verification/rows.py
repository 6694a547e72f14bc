"""Inputs of the checks: rows, targets and weights, kernel tiles in float64, and the functions of a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight, _num_samples, check_consistent_length, validate_data

from gramian.certificates import Certificate
from gramian.kernels import Kernel
from gramian.kernels.points import objects
from gramian.kernels.resolve import holds_objects, is_precomputed
from gramian.resources import memory_budget, spans

Array = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)
SAME = 1e-6
"""Predictions may differ from the function given by the coefficients by this, relative to the largest."""
DENSE = 1000
"""Up to this many rows the smallest eigenvalue of K is computed."""
VISIBLE = 1e-6
"""A negative eigenvalue larger than this share of the largest is not rounding."""
INDEFINITE = "K is not positive semi-definite on these rows, so the dual value is not a bound"
SUMS = 4.0 * EPS
"""The rounding error of a sum, relative to the sum of its terms' absolute values."""
STRIP = 4096
"""Rows whose features are computed together."""


@dataclass(frozen=True, eq=False)
class Data:
    """The rows that a model was fitted to, as given, as an array, and in float64; targets, weights, memory in bytes."""

    given: Any
    rows: Any
    X: Any
    y: Any
    weights: Array
    memory: int

    @classmethod
    def of(cls, model: Any, X: Any, y: Any, sample_weight: Any) -> Data:
        """Check the caller's data against the model."""
        kernel, given = getattr(model, "kernel", None), X
        if holds_objects(kernel, X):
            rows = X = objects(X, kernel=type(kernel).__name__)
        else:
            X = validate_data(model, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=False)
            rows = X.astype(np.float64, copy=False)
            if hasattr(rows, "toarray") and not model.kernel_.takes_sparse:
                rows = rows.toarray()
        n = _num_samples(rows)
        if y is not None:
            y = np.asarray(y)
            check_consistent_length(rows, y)
        weights = np.ones(n)
        if sample_weight is not None:
            # Support vector machines ignore rows of negative weight.
            options: Any = {"dtype": np.float64, "ensure_non_negative": not hasattr(model, "shape_fit_")}
            weights = np.maximum(_check_sample_weight(sample_weight, np.empty((n, 1)), **options), 0.0)
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
        """Numeric targets, one column each."""
        if self.y is None:
            raise ValueError("this model was fitted to targets; pass y=, the targets of the same rows.")
        return np.asarray(self.y, dtype=np.float64).reshape(self.n, -1)

    def codes(self, classes: NDArray[Any]) -> NDArray[np.intp]:
        """Labels as indices into the classes."""
        if self.y is None:
            raise ValueError("this model was fitted to labels; pass y=, the labels of the same rows.")
        codes = np.searchsorted(classes, self.y)
        if np.any(np.take(classes, codes, mode="clip") != self.y):
            raise ValueError(f"y has labels that are not among the classes of the model, {classes}.")
        return codes

    def is_definite(self, model: Any) -> bool:
        """Whether K has no eigenvalue that is clearly negative; assumed for maps and for many rows."""
        if hasattr(model, "approximation_") or np.count_nonzero(self.kept) > DENSE:
            return True
        (kept,) = np.nonzero(self.kept)
        K = dense(model.kernel_(self.X[np.ix_(kept, kept)] if is_precomputed(model.kernel_) else self.X[kept]))
        values = np.linalg.eigvalsh(0.5 * (K + K.T))
        return bool(values[0] >= -VISIBLE * max(float(values[-1]), 0.0))

    def features(self, model: Any) -> Array:
        """The features of the rows under the model's map."""
        # A map of a Gram matrix was fitted to the columns of all rows, or of those with positive weight.
        few = is_precomputed(model.kernel_) and model.approximation_.n_features_in_ < self.X.shape[1]
        X = self.X[:, self.kept] if few else self.X
        return np.concatenate([dense(model.approximation_.transform(X[rows])) for rows in spans(self.n, STRIP)])


def tiles(kernel: Kernel, X: Any, Y: Any, memory: int, columns: Any = None) -> Iterator[tuple[slice, Array]]:
    """Yield ``K(X, Y)`` a few rows at a time, in float64; if Y is None, ``columns`` of ``K(X, X)``."""
    A, B = kernel.prepare(X, Y)
    B = B if columns is None else B[columns]
    for rows in spans(len(A), max(memory // (32 * max(len(B), 1)), 1)):
        yield rows, np.asarray(kernel.tile(A[rows], B), dtype=np.float64)


def product(
    kernel: Kernel, X: Any, Y: Any, V: Array, memory: int, columns: Any = None, *, balanced: bool = False
) -> Array:
    """Return ``K(X, Y) @ V`` by tiles of at most ``memory`` bytes; if V is balanced, of K less its first column."""
    if not V.shape[0]:
        return np.zeros((_num_samples(X), *V.shape[1:]))
    return np.concatenate([(K - K[:, :1] if balanced else K) @ V for _, K in tiles(kernel, X, Y, memory, columns)])


@dataclass(frozen=True, eq=False)
class Shown:
    """The functions of a model as its public coefficients give them, one column each."""

    coefficients: Array  # at the rows of an expansion; weights of the features of a map
    f: Array  # (n, k): values at the rows, without constants
    predicted: Array  # (n, k): the same without the white noise of a row with itself
    norm2: Array  # (k,): squared norms
    lost: Array  # (k,): rounding error of a value, in its sum and in k itself
    scale: float  # the largest k(x, x)
    error: float  # rounding error of an entry of K
    F: Array | None = None  # (n, m): features

    @classmethod
    def of(cls, model: Any, data: Data, coefficients: Array, columns: Any = None) -> Shown:
        """From coefficients (k columns) at some rows, by default all; from weights of features for a map."""
        c = np.asarray(coefficients, dtype=np.float64)
        c = c[:, None] if c.ndim == 1 else c
        if hasattr(model, "approximation_"):
            F = data.features(model)
            scale = float(np.sum(F**2, axis=1).max(initial=0.0))
            lost = SUMS * np.abs(F).max(initial=0.0) * np.abs(c).sum(axis=0)
            if hasattr(model.approximation_, "expansion"):  # predictions are expansions at the landmarks
                error = SUMS + model.kernel_.rounding(model.kernel_.prepare(data.X, None)[0])
                lost = lost + error * scale * np.abs(model.approximation_.expansion(c)).sum(axis=0)
            f = F @ c
            return cls(c, f, f, np.sum(c**2, axis=0), lost, scale, EPS * scale, F)
        columns = np.arange(data.n) if columns is None else columns
        predicted, f, error, drift = expanded(model.kernel_, data, c, columns)
        scale = float(np.abs(model.kernel_.diag(data.X)).max())
        norm2 = np.maximum(np.sum(c * f[columns], axis=0), 0.0)
        lost = (SUMS * scale + max(error, drift)) * np.abs(c).sum(axis=0)
        return cls(c, f, predicted, norm2, lost, scale, max(EPS * scale, error))

    def unlike(self, predicted: Any, f: Array | None = None) -> list[str]:
        """Say whether predictions differ from f, by default the functions themselves, by more than rounding."""
        f, predicted = self.predicted if f is None else f, np.asarray(predicted)
        off = np.abs(predicted.astype(np.float64).reshape(f.shape) - f)
        if np.all(off <= 4.0 * self.lost.max() + SAME * np.abs(f).max(axis=0, initial=0.0)):
            return []
        return [f"predictions differ by up to {off.max():.1e} from the function of the model's coefficients"]


def expanded(
    kernel: Kernel, data: Data, c: Array, columns: Any, *, balanced: bool = False
) -> tuple[Array, Array, float, float]:
    """``K c`` as predicted, where a row differs from itself; with the white noise; errors of k: expected, and seen.

    Of balanced coefficients, whose sums are zero, K less its first column is the factor: large constants cancel.
    """
    if is_precomputed(kernel) or not columns.size:
        f = product(kernel, data.X, None, c, data.memory, columns, balanced=balanced)
        return f, f, 0.0, 0.0
    diagonal = np.asarray(kernel.diag(data.X), dtype=np.float64)[columns]
    predicted, apart = np.zeros((data.n, c.shape[1])), diagonal.copy()
    for rows, K in tiles(kernel, data.X, data.X[columns], data.memory):
        predicted[rows] = (K - K[:, :1] if balanced else K) @ c
        (own,) = np.nonzero((columns >= rows.start) & (columns < rows.stop))
        apart[own] = K[columns[own] - rows.start, own]
    noise = diagonal - apart if kernel.tells_copies else np.zeros(columns.size)
    f = predicted.copy()
    f[columns] += noise[:, None] * c
    rounding = kernel.rounding(kernel.prepare(data.X, None)[0]) * float(np.abs(diagonal).max())
    return predicted, f, rounding, float(np.abs(diagonal - apart - noise).max())


def dense(a: Any) -> Array:
    """Return a dense array."""
    return np.asarray(a.toarray() if hasattr(a, "toarray") else a, dtype=np.float64)


def feature_weights(model: Any) -> Array:
    """Return the weights of a map's features, one column per function, from ``coef_`` or those of landmarks."""
    if hasattr(model, "coef_"):
        return np.asarray(model.coef_, dtype=np.float64)
    dual = model.dual_coef_.reshape(model.dual_coef_.shape[0], -1)
    lower = np.asarray(model.approximation_.normalization_, dtype=np.float64)
    if not lower.any():
        return np.zeros_like(dual)
    return np.asarray(scipy.linalg.solve_triangular(lower, dual, lower=True, trans=1))


def check_same(kept: Any, rows: Any) -> None:
    """Raise if the rows that a model keeps are not those given."""
    if getattr(kept, "dtype", np.dtype(object)).kind == "O":
        return
    if kept.shape != rows.shape or (
        np.any(kept != rows) if isinstance(kept, np.ndarray) else np.any((kept - rows).data)
    ):
        raise ValueError("these are not the rows that the model was fitted to, in the same order; pass the same rows.")


def relative(R: Array, B: Array) -> float:
    """Return the largest ``‖r‖ / ‖b‖`` over the columns of two matrices."""
    size = np.linalg.norm(B, axis=0)
    return float(np.max(np.linalg.norm(R, axis=0) / np.where(size > 0, size, 1.0)))


@dataclass(frozen=True, kw_only=True)
class Verified(Certificate):
    """A recomputed certificate."""

    rounding: float = 0.0  # rounding error of its figures in float64
    doubt: float = 0.0  # the worst figure with the rounding that counts against convergence
    bound: bool = False  # whether its dual point, or a bound on it, was found here, and may be better than the fit's
    limit: float | None = None  # the largest figure that converges, if it is not ``tol``

    __str__ = Certificate.__str__


def found(model: Any, kind: str, faults: list[str], **figures: float) -> Verified:
    """Return the recomputed certificate, with the iterations and seconds of the fit."""
    said = model.certificate_
    claim: Any = {"kind": kind, "converged": not faults, "message": "; ".join(faults)} | figures
    return Verified(iterations=said.iterations, seconds=said.seconds, **claim)
