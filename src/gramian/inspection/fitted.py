"""Access to a fitted estimator: its kernel, its rows, the names of its inputs, its decision values."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples, check_is_fitted

from gramian.estimators.auto.forest import Forest
from gramian.gram import Gram
from gramian.kernels import Kernel, Precomputed
from gramian.kernels.points import dense
from gramian.kernels.resolve import is_precomputed

Array = NDArray[np.float64]


def kernel_of(estimator: Any) -> Kernel:
    """Return the kernel that a fit used."""
    check_is_fitted(estimator)
    for name in ("kernel_", "_kernel"):
        kernel = getattr(estimator, name, None)
        if isinstance(kernel, tuple | list) and kernel:
            kernel = kernel[0]
        if isinstance(kernel, Kernel):
            return kernel
    raise TypeError(f"{type(estimator).__name__} has no kernel; pass an estimator that was fitted with one.")


def training_rows(estimator: Any) -> Any:
    """Return the rows that a fitted estimator stores, possibly fewer than it was fitted to; None if it stores none."""
    for holder in (estimator, *_parts(estimator)):
        for name in ("X_fit_", "X_train_", "support_vectors_", "components_"):
            rows = getattr(holder, name, None)
            if rows is not None and _num_samples(rows):
                return rows
    return None


def _parts(estimator: Any) -> list[Any]:
    """The binary classifiers inside a Gaussian process classifier; the map inside an approximate machine."""
    inside = [getattr(estimator, name) for name in ("base_estimator_", "approximation_") if hasattr(estimator, name)]
    return [*inside, *(binary for part in inside for binary in getattr(part, "estimators_", ()))]


def forest_of(estimator: Any) -> Forest | None:
    """Return the forest inside an automatic estimator; None if there is none."""
    automatic = hasattr(estimator, "leaderboard_")
    found = (scaling for *_, scaling in (estimator._parts if automatic else ()) if isinstance(scaling, Forest))
    return next(found, None)


def some_rows(estimator: Any, X: Any, *, what: str) -> Any:
    """Return X if given, else the rows that the estimator stores."""
    rows = training_rows(estimator) if X is None else X
    if rows is None:
        raise ValueError(f"{what} needs rows, but {type(estimator).__name__} keeps none; pass X.")
    return rows


def sampled_gram(kernel: Kernel, X: Any, size: int, random_state: int) -> tuple[Gram, NDArray[np.intp]]:
    """Return the Gram matrix of at most ``size`` sampled rows, and their indices; for ``Precomputed``, X is K."""
    X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    index = sampled(X.shape[0], size, random_state)
    return Gram(kernel, X[index][:, index] if is_precomputed(kernel) else X[index]), index


def rows_of(estimator: Any, X: Any, *, what: str) -> Array:
    """Return rows of numbers to plot: X if given, else the rows that the estimator stores. X (n, d) → (n, d)."""
    rows = some_rows(estimator, X, what=what)
    rows = np.asarray(dense(rows))
    if rows.dtype.kind not in "fiubO":
        raise TypeError(f"{what} needs rows of numbers, got {rows.dtype}.")
    try:
        rows = rows.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} needs rows of numbers, but got others: {error}.") from error
    if rows.ndim != 2:
        raise ValueError(f"{what} needs rows of shape (n, d), got {rows.shape}.")
    return rows


def input_names(estimator: Any, X: Any, d: int) -> list[str]:
    """Return the names of the inputs."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None or len(names) != d:
        names = [f"x{j + 1}" for j in range(d)]
    return [str(name) for name in names]


def line_through(rows: Array, feature: int, n_points: int, margin: float) -> tuple[Array, Array]:
    """Return points along one input, with the others at their medians: rows (n, d) → (m,), (m, d)."""
    if not 0 <= feature < rows.shape[1]:
        raise ValueError(f"feature must be one of the inputs 0 … {rows.shape[1] - 1}, got {feature!r}.")
    low, high = rows[:, feature].min(), rows[:, feature].max()
    reach = margin * (high - low if high > low else 1.0)
    x = np.linspace(low - reach, high + reach, n_points)
    inputs = np.tile(np.median(rows, axis=0), (n_points, 1))
    inputs[:, feature] = x
    return x, inputs


def two_inputs(features: Sequence[int], d: int) -> tuple[int, int]:
    """Return the indices of the two inputs to plot, after checking that they are two of d."""
    if len(features) != 2 or not all(0 <= f < d for f in features) or features[0] == features[1]:
        raise ValueError(f"features must be two different inputs out of 0 … {d - 1}, got {features!r}.")
    return int(features[0]), int(features[1])


def sampled(n: int, size: int, random_state: int = 0) -> NDArray[np.intp]:
    """Return the indices of at most ``size`` of n rows, drawn at random."""
    if n <= size:
        return np.arange(n)
    return np.sort(np.random.default_rng(random_state).permutation(n)[:size])


@contextmanager
def unnamed() -> Iterator[None]:
    """Let models that were fitted to named columns evaluate plain arrays without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names", category=UserWarning)
        yield


def decision_values(estimator: Any, X: Any) -> tuple[Array, str]:
    """Return decision values, probabilities or predictions, and the method used: X (m, d) → (m,) or (m, k)."""
    if isinstance(getattr(estimator, "kernel_", None), Precomputed):
        raise ValueError("a precomputed kernel has no inputs to draw; pass the rows and their kernel to the estimator.")
    methods = ("decision_function", "predict_proba", "predict")
    method = next(name for name in methods if hasattr(estimator, name))
    with unnamed():
        values = np.asarray(getattr(estimator, method)(X), dtype=np.float64)
    binary = method == "predict_proba" and values.shape[1] == 2
    return (values[:, 1] if binary else values), method


def covariance_matrices(mixture: Any) -> Array:
    """Return a covariance matrix for each component of a mixture, of any covariance type: → (K, d, d)."""
    k, d = mixture.means_.shape
    given = np.asarray(mixture.covariances_, dtype=np.float64)
    if mixture.covariance_type in ("full", "tied"):
        return np.broadcast_to(given, (k, d, d))
    return given.reshape(k, -1, 1) * np.eye(d)
