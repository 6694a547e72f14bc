"""Base class of explicit feature maps, fitting them over blocks of rows, and maps as sent to the workers of a pass."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Self, TypeVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils import metaestimators
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from gramian.data.blocks import as_blocks, by_blocks, is_blocks
from gramian.data.passes import Need, Part, Passes, Sums, sample_rows
from gramian.data.tensors import with_tensors
from gramian.features.accuracy import Accuracy, observed
from gramian.gram.device import checked_device
from gramian.gram.operator import wide
from gramian.kernels import Kernel
from gramian.kernels.points import dense
from gramian.kernels.resolve import holds_objects, is_precomputed
from gramian.kernels.tunable import Nested
from gramian.resources import memory_budget, random_of, spans, worker_count

STRIP_BYTES = 32
"""Bytes for each feature of a row while it is computed, temporaries of the map included."""
STRIP_ROWS = 4096
"""Rows whose features are computed at a time; larger strips are not faster."""

_CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [str, callable, Kernel],
    "gamma": [Interval(Real, 0, None, closed="left"), StrOptions({"scale", "auto"}), None],
    "n_components": [Interval(Integral, 1, None, closed="left")],
    "memory": [None, str, Interval(Real, 1, None, closed="left")],
    "random_state": ["random_state", np.random.Generator],
    "n_jobs": [Integral, None],
    "device": [None, str],
}


Array = NDArray[np.float64]
Method = TypeVar("Method", bound=Callable[..., Any])
Same = TypeVar("Same")


def parameters_checked(fit: Method) -> Method:
    """Decorate ``fit`` to validate the estimator's parameters first, as in scikit-learn, and to accept tensors."""
    checked: Method = with_tensors(_fit_context(prefer_skip_nested_validation=True)(fit))
    return checked


def check_means(features: Any) -> None:
    """Raise unless a map's number of threads and its device, which only ``transform`` may use, are valid."""
    worker_count(getattr(features, "n_jobs", None))
    if (device := getattr(features, "device", None)) is not None:
        checked_device(device)


def available_if(check: Callable[[Any], Any]) -> Callable[[Same], Same]:
    """scikit-learn's ``available_if``, typed so that the decorated method keeps its type."""
    decorator: Callable[[Same], Same] = metaestimators.available_if(check)
    return decorator


def constraints(*names: str, **own: list[Any]) -> dict[str, list[Any]]:
    """Return scikit-learn's parameter constraints: the named ones shared by all maps, and a map's own."""
    return {name: _CONSTRAINTS[name] for name in names} | own


class ExplicitMap(Nested, TransformerMixin, BaseEstimator):
    """A map ψ with ``<ψ(x), ψ(z)> ≈ k(x, z)``, which any estimator accepts as ``approximation=``.

    Once fitted, ``kernel_`` is the kernel k. A map with a parameter ``kernel`` approximates the kernel it is given; a
    map without one defines its own kernel. A map from landmarks also has ``component_indices_`` and ``expansion``.
    """

    kernel_: Kernel

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @parameters_checked
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the map to some rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows; the square Gram matrix if the kernel is precomputed; objects if the kernel compares objects.
        y : None
            Not used.
        """
        check_means(self)
        if is_blocks(X):
            return fit_over_blocks(self, X)
        self._fit(self._validated(X, reset=True))
        return self

    @by_blocks
    def transform(self, X: Any) -> NDArray[Any]:
        """Return the features of some rows, in the dtype of X, or float64 for objects: X (n, d) → (n, m)."""
        check_is_fitted(self)
        return self._features(self._validated(X, reset=False))

    def _fit(self, X: Any) -> Any:
        """Learn from validated rows."""
        raise NotImplementedError

    def _features(self, X: Any) -> Any:
        """The features of validated rows."""
        raise NotImplementedError

    def _validated(self, X: Any, *, reset: bool) -> Any:
        if holds_objects(None, X):
            raise ValueError(
                f"{type(self).__name__} needs rows of numbers, got objects such as {next(iter(X))!r:.40}; Nystroem "
                "takes objects, with a kernel that compares them."
            )
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)

    def evaluate(self, X: Any, w: NDArray[np.float64], memory: int | str | None = None) -> NDArray[np.float64]:
        """Return the values ``<w, ψ(x)>`` in float64, without holding all features: X (n, d), w (m, k) → (n, k)."""
        check_is_fitted(self)
        X = wide(X)
        height = max(memory_budget(memory) // (STRIP_BYTES * max(w.shape[0], 1)), 1)
        parts = [self.transform(X[rows]) @ w for rows in spans(X.shape[0], min(height, STRIP_ROWS))]
        return np.concatenate(parts) if parts else np.zeros((0, *w.shape[1:]))

    def error(self, X: Any, *, n_pairs: int = 2000, random_state: Any = 0) -> Accuracy:
        """Return the error of the inner products of features as kernel values, on random pairs of rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows, at least two.
        n_pairs : int, default=2000
            Number of pairs.
        random_state : int, RandomState, Generator or None, default=0
            Draws the pairs.

        Returns
        -------
        Accuracy
            Largest and root-mean-square error, with a confidence interval.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        if is_precomputed(self.kernel_):
            raise ValueError("error(X) needs the kernel of pairs of rows, which a precomputed matrix does not hold.")
        return observed(self.kernel_, X, self.transform, n_pairs, random_of(random_state))


# ---- maps as sent to workers --------------------------------------------------------------------------------------


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
        return dense(self.sparse(X), np.float64)

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

    def error_sums(self, F: Array, part: Part) -> Sums:
        """Return the sums whose ratio is the trace error of a map with landmarks: F (r, m)."""
        if self.basis is None:
            return Sums.of(missed=0.0, trace=0.0)
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

    @property
    def growth(self) -> float:
        """How much larger rounding is in the features than in kernel values: a condition number of the landmarks."""
        if self.basis is None:
            return 1.0
        pivots = np.abs(np.diagonal(self.features.normalization_))
        return float(pivots.max() / pivots.min(where=pivots > 0, initial=np.inf)) if pivots.any() else 1.0


@dataclass(frozen=True, eq=False)
class _KernelValues:
    """Kernel values of rows with the landmarks of a map: (n, d) → (n, m)."""

    features: Any

    def __call__(self, X: Any) -> Array:
        return np.asarray(self.features.values(wide(X)), dtype=np.float64)


# ---- fits over blocks ---------------------------------------------------------------------------------------------


LEAST = 10_000
"""Least number of rows among which landmarks are chosen."""
TIMES = 10
"""Least number of such rows for each landmark."""
COPIES = 3
"""Arrays of shape (sample, landmarks) in memory while landmarks are chosen."""


def sample_size(n_components: int, memory: int | str | None) -> int:
    """Return the number of rows among which landmarks are chosen."""
    affordable = memory_budget(memory) // (COPIES * 8 * max(n_components, 1))
    return int(max(min(max(LEAST, TIMES * n_components), affordable), n_components, 2))


def sample_seed(random_state: Any) -> int:
    """Return a seed for the sample, drawn from ``random_state``."""
    return int(random_of(random_state).randint(2**31 - 1))


def sampled_rows(n: int, n_components: int, memory: int | str | None, random_state: Any) -> NDArray[np.intp] | None:
    """Return the indices of the rows among which landmarks are chosen; None for all rows."""
    size = sample_size(n_components, memory)
    return None if size >= n else sample_rows(n, size, sample_seed(random_state))


def draw(passes: Passes, n_components: int, memory: int | str | None, random_state: Any) -> Part:
    """Draw the rows among which landmarks are chosen, in a pass."""
    size, n = sample_size(n_components, memory), passes.blocks.n_rows
    seed = 0 if size >= n else sample_seed(random_state)
    return passes.sample(size, seed)


def fit_map(features: Any, passes: Passes, sample: Part, *, error: bool = True) -> Any:
    """Fit a map over blocks: landmarks come from the sample, the mean and the scale from all rows.

    With ``error=False`` the trace error is not computed; the caller sets it.
    """
    rows, square = wide(sample.X), is_precomputed(getattr(features, "kernel", None))
    partial = sample.index.size < passes.blocks.n_rows
    fit = features.fit if error else getattr(features, "_fit_landmarks", features.fit)
    if partial and isinstance(asked := getattr(features, "gamma", None), str) and asked == "scale":
        features.set_params(gamma=_scale(passes, dense(rows, np.float64))).fit(rows).set_params(gamma=asked)
    else:
        fit(rows[:, sample.index] if square else rows)
    if partial and hasattr(features, "center_") and isinstance(rows, np.ndarray):
        features.center_ = _mean(passes, rows)
    if hasattr(features, "component_indices_"):
        chosen = features.component_indices_
        features.component_indices_ = sample.index[chosen]
        if square:  # the columns include rows of zero weight
            features.components_, features.n_features_in_ = rows[chosen], rows.shape[1]
    return features


def _columns(part: Part, middle: Array) -> Sums:
    X = dense(part.X, np.float64) - middle
    return Sums.of(count=X.shape[0], first=X.sum(axis=0), second=np.sum(X**2))


def _mean(passes: Passes, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of all rows, summed about the mean of a few to avoid cancellation."""
    middle = rows.mean(axis=0)
    sums = passes.sum(_columns, middle, need=Need(y=False))
    return np.asarray(middle + sums["first"] / sums["count"])


def _scale(passes: Passes, rows: NDArray[np.float64]) -> float:
    """The gamma of ``gamma="scale"``, 1 / (d · the variance of all entries)."""
    middle = np.full(rows.shape[1], rows.mean())
    sums = passes.sum(_columns, middle, need=Need(y=False))
    cells = float(sums["count"]) * middle.size
    variance = float(sums["second"]) / cells - (float(np.sum(sums["first"])) / cells) ** 2
    return 1.0 / (middle.size * variance) if variance > 0 else 1.0


def trace_error(features: Any, passes: Passes, sample: Part) -> float:
    """Return the trace error of a map from landmarks over all rows, in one pass."""
    lift = WorkerMap.of(features, sample.X[:1])
    return error_of(passes.sum(_errors, lift, need=Need(y=False), width=lift.width))


def _errors(part: Part, lift: WorkerMap) -> Sums:
    return lift.error_sums(part.made(lift), part)


def error_of(sums: Sums) -> float:
    """Return the trace error of a map from sums over all rows."""
    return float(sums["missed"] / sums["trace"]) if sums["trace"] > 0 else 0.0


def fit_over_blocks(features: Any, X: Any) -> Any:
    """Fit a map to rows that are read by blocks."""
    features._validate_params()
    if is_precomputed(getattr(features, "kernel", None)):
        raise ValueError("blocks hold rows, not a Gram matrix; give the kernel itself.")
    blocks = as_blocks(X)
    memory = getattr(features, "memory", None)
    with blocks.passes(n_jobs=getattr(features, "n_jobs", None), label=type(features).__name__) as passes:
        sample = draw(passes, getattr(features, "n_components", 1), memory, getattr(features, "random_state", None))
        fit_map(features, passes, sample)
        if hasattr(features, "trace_error_") and sample.index.size < blocks.n_rows:
            features.trace_error_ = trace_error(features, passes, sample)
    vars(features).pop("feature_names_in_", None)
    if blocks.names is not None:
        features.feature_names_in_ = np.array(blocks.names, dtype=object)
    return features
