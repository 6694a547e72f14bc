"""Shared parts of estimators: parameters, validation, tags, undoing failed fits, the expansion Σ_i α_i k(x_i, ·)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, compute_class_weight
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from gramian.certificates import Certificate
from gramian.data import blocks
from gramian.data.blocks import as_blocks, by_blocks
from gramian.data.passes import Held, Part, Passes
from gramian.features.base import draw
from gramian.gram import Gram
from gramian.gram.device import checked_device, only_wished
from gramian.gram.operator import narrow, wide
from gramian.gram.prepared import columns_of
from gramian.kernels import Kernel
from gramian.kernels.points import dense, is_finite_table, objects
from gramian.kernels.resolve import WITH_GAMMA, holds_objects, is_precomputed, resolve, resolve_gamma
from gramian.kernels.tunable import Nested
from gramian.progress import Clock
from gramian.resources import memory_budget, readable
from gramian.rkhs import Function
from gramian.warning import warn

COMMON: dict[str, list[Any]] = {
    "kernel": [str, callable, Kernel],
    "gamma": [Interval(Real, 0, None, closed="left"), StrOptions({"scale", "auto"}), None],
    "degree": [Interval(Real, 0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "kernel_params": [dict, None],
    "approximation": [HasMethods(["fit_transform", "transform", "evaluate", "error"]), None],
    "tol": [Interval(Real, 0, None, closed="neither")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "memory": [None, str, Interval(Real, 1, None, closed="left")],
    "max_time": [None, Interval(Real, 0, None, closed="neither")],
    "n_jobs": [None, Integral],
    "device": [None, str],
    "verbose": ["verbose"],
    "random_state": ["random_state", np.random.Generator],
    "warm_start": ["boolean"],
}
"""Constraints on parameters that mean the same in every estimator, whether or not a given one has them all."""


NAMED = ("gamma", "degree", "coef0", "kernel_params")
"""Parameters of kernels given by name or as callables."""
SOMETIMES = (
    *("approximation_", "coef_", "dual_coef_", "dual_point_", "function_", "X_fit_", "X_transformed_fit_"),
    *("alphas_", "intercept_", "loo_path_", "loo_residuals_", "lams_", "cv_path_"),
    *("_counts", "_feature_weights", "_inverse", "_landmarks", "_last", "_mapped_rows", "_moments", "_weights"),
)
"""Attributes that only some fits set."""
NYSTROEM = "approximation=Nystroem(n_components=1000)"
"""The map that messages suggest."""
NO_TARGET = "no_validation"
DTYPES = [np.float64, np.float32]
DENSE_NAMES = ("chi2", "additive_chi2", "sobolev")
"""Names of kernels that do not accept sparse rows."""


def changed(estimator: BaseEstimator, names: Iterable[str]) -> list[str]:
    """Return the names of those parameters that are not at their default."""
    given, known = estimator.get_params(deep=False), inspect.signature(type(estimator)).parameters
    both = {p: (given[p], known[p].default) for p in names if p in given}
    return [p for p, (value, default) in both.items() if value is not default and value != default]


def check_named(estimator: BaseEstimator) -> None:
    """Raise if parameters of kernels given by name are set although the kernel is an object with its own."""
    kernel: Any = estimator.kernel
    if isinstance(kernel, Kernel) and (own := changed(estimator, NAMED)):
        raise ValueError(
            f"{' and '.join(own)} of {type(estimator).__name__} {'belongs' if len(own) == 1 else 'belong'} to a kernel "
            f"given by name, but kernel={kernel!r}; set parameters on the kernel itself."
        )


def resolved(estimator: Any, X: Any, weights: Any = None, *, conditional: bool = False) -> Kernel:
    """Return an estimator's kernel, given as an object or by name and parameters."""
    check_named(estimator)
    gamma, kernel = estimator.gamma, estimator.kernel
    if isinstance(gamma, str) and weights is not None and isinstance(kernel, str) and kernel in WITH_GAMMA:
        gamma = resolve_gamma(gamma, X, weights=weights)  # as if each row were repeated according to its weight
    named = {"gamma": gamma, "degree": estimator.degree, "coef0": estimator.coef0}
    return resolve(estimator.kernel, X, **named, params=estimator.kernel_params, conditional=conditional)


def kernel_tags(tags: Any, kernel: Any) -> Any:
    """Complete scikit-learn's tags for an estimator with a kernel."""
    tags.input_tags.sparse = kernel.takes_sparse if isinstance(kernel, Kernel) else kernel not in DENSE_NAMES
    tags.input_tags.pairwise = is_precomputed(kernel)
    return tags


def _as_expected(estimator: Any, X: Any) -> bool:
    """Whether scikit-learn would return new rows unchanged; its checks take longer than predicting a single row."""
    known = X.shape[1:] == (getattr(estimator, "n_features_in_", None),) if is_finite_table(X) else False
    return known and X.flags.c_contiguous and not hasattr(estimator, "feature_names_in_")


def validated(estimator: Any, X: Any, y: Any = NO_TARGET, *, reset: bool = True, **options: Any) -> Any:
    """Return rows in the form the estimator's kernel takes, and y if it is given; ``reset`` for the rows of a fit."""
    if not reset and y is NO_TARGET and not options and _as_expected(estimator, X):
        return X
    if not holds_objects(estimator.kernel, X):
        options = {"accept_sparse": "csr", "dtype": DTYPES, "order": "C", **options}
        return validate_data(estimator, X, y, reset=reset, **options)
    X = objects(X, kernel=type(estimator.kernel).__name__)
    if reset:
        estimator.n_features_in_ = 1
    if isinstance(y, str):
        return X
    kind: Any = np.float64 if options.get("y_numeric") else None
    y = check_array(y, ensure_2d=False, dtype=kind, input_name="y")
    check_consistent_length(X, y)
    return X, y


def row_weights(sample_weight: Any, X: Any, *, negative: bool = False) -> NDArray[np.float64]:
    """Return the weights of rows, >= 0 and not all zero; ones if none are given: → (n,).

    With ``negative``, negative weights are set to zero, with a warning.
    """
    if sample_weight is None:
        return np.ones(X.shape[0] if isinstance(X, np.ndarray) else _num_samples(X))
    rows = np.empty((_num_samples(X), 1))
    none = not np.any(np.asarray(sample_weight))
    options: dict[str, Any] = {"dtype": np.float64, "ensure_non_negative": not negative}
    weights = np.zeros(1) if none else _check_sample_weight(sample_weight, rows, **options)
    if negative and (below := int(np.count_nonzero(weights < 0))) < weights.size:
        if below:
            warn(f"Rows of negative weight are left out, {below} of {weights.size}; give them zero to say so.")
        weights = np.maximum(weights, 0.0)
    if not np.any(weights > 0):
        raise ValueError(
            "Invalid input - all samples have zero or negative weights; sample_weight must be positive for at least "
            "one row."
        )
    return np.asarray(weights)


def class_weights(
    class_weight: Any, classes: NDArray[Any], totals: NDArray[Any], *, positive: bool = False
) -> NDArray[np.float64]:
    """Return the weight of each class; balanced ones are inverse to the totals: totals (c,), → (c,)."""
    if isinstance(class_weight, str):
        return np.asarray(totals.sum() / (totals.size * totals))
    weights = np.asarray(compute_class_weight(class_weight, classes=classes, y=classes), dtype=np.float64)
    bad = ~((weights >= 0.0) & (weights < np.inf)) | ((weights == 0.0) & (positive or not weights.any()))
    if bad.any():
        label, got = classes[bad].tolist()[0], float(weights[bad][0])
        expected, instead = (">= 0", "") if got else ("> 0", "; leave its rows out instead")
        raise ValueError(f"class_weight of class {label!r} must be a finite number {expected}, got {got:g}{instead}.")
    return weights


def is_blocks(X: Any) -> bool:
    """Tell whether rows are read by blocks: X is a ``Blocks``, a path, or a Dask collection."""
    return not isinstance(X, np.ndarray | list) and blocks.is_blocks(X)


def refuse_blocks(estimator: object, X: Any, instead: str) -> None:
    """Raise if rows come by blocks and the estimator needs them all in memory."""
    if is_blocks(X):
        name = type(estimator).__name__
        raise ValueError(f"{name} needs all rows in memory at once; over blocks use {instead}.")


def forget(estimator: object) -> None:
    """Delete the attributes that only some fits set."""
    for name in SOMETIMES:
        vars(estimator).pop(name, None)


def warn_unless_converged(certificate: Certificate, who: object, first: str = "") -> None:
    """Warn if a fit did not reach its tolerance."""
    if not certificate.converged:
        warn(f"{first}{type(who).__name__}: {certificate}", ConvergenceWarning)


@contextmanager
def restored_on_failure(estimator: object) -> Iterator[None]:
    """Restore an estimator's attributes if the block raises, also on Ctrl-C."""
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


@contextmanager
def fitting(estimator: Any) -> Iterator[Clock]:
    """Time a fit; undo it if it raises, and warn if it did not reach its tolerance."""
    with restored_on_failure(estimator):
        yield Clock(estimator.max_time)
    warn_unless_converged(estimator.certificate_, estimator)


def refuse_device(estimator: Any) -> None:
    """Raise if a GPU is requested together with a map."""
    asked = None if estimator.device is None else checked_device(estimator.device)
    if asked is not None and not only_wished(asked) and estimator.approximation is not None:
        raise ValueError(
            f"device={estimator.device!r} is for exact fits; with a map, leave device=None here and set it on the map: "
            "approximation=Nystroem(..., device='cuda')."
        )


@dataclass(eq=False, repr=False, kw_only=True)
class KernelParameters(Nested):
    """Parameters of every estimator with a kernel, as fields that dataclass estimators inherit.

    Parameters
    ----------
    gamma : {"scale", "auto"}, float or None, default=None
        For a kernel given by name: ``"scale"`` is 1 / (d var(X)), ``"auto"`` and ``None`` are 1 / d.
    degree, coef0 : float, default=3 and 1
        Degree of the polynomial kernel; constant of the polynomial and sigmoid kernels.
    kernel_params : dict or None, default=None
        Further keyword arguments of a callable kernel.
    memory : int, str or None, default=None
        The most bytes of K, features and factors to hold, as a number or ``"2GB"``; by default half of what is
        available. The rows, vectors as long as y and up to 8 MB for each thread come on top.
    max_time : float or None, default=None
        Seconds after which the best solution so far is returned with a warning.
    n_jobs : int or None, default=None
        Threads; by default all cores.
    verbose : int or bool, default=False
        Whether to show a progress bar.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel used.
    n_features_in_, feature_names_in_ : int, array of shape (n_features_in_,)
        Number of columns of X, and their names if X has names.
    """

    gamma: float | str | None = None
    degree: float = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None
    memory: int | str | None = None
    max_time: float | None = None
    n_jobs: int | None = None
    verbose: int | bool = False


class Expansion(KernelParameters):
    """Shared part of regressors and classifiers with values ``Σ_i dual_coef_i k(X_fit_i, x)``.

    With a map that has no landmarks the values are ``<coef_, ψ(x)>`` instead.
    """

    # Parameters of the estimator itself, and attributes set by a fit.
    kernel: Any
    approximation: Any
    device: str | None = None  # for estimators that have the parameter
    n_features_in_: int
    kernel_: Kernel
    X_fit_: Any
    dual_coef_: NDArray[np.float64]
    coef_: NDArray[np.float64]
    approximation_: Any
    _landmarks: NDArray[np.intp] | None

    def __sklearn_tags__(self) -> Any:
        return kernel_tags(super().__sklearn_tags__(), self.kernel)  # type: ignore[misc]

    # ---- inputs -------------------------------------------------------------------------------------------------

    def _validated(self, X: Any, y: Any, *, reset: bool = True) -> tuple[Any, NDArray[np.float64]]:
        """Validated rows, and targets of shape (n,) or (n, k); ``reset`` for the first rows of a fit."""
        X, y = validated(self, X, y, reset=reset, multi_output=True, y_numeric=True)
        return X, np.asarray(y, dtype=np.float64)

    def _validated_rows(self, X: Any) -> Any:
        return validated(self, X, reset=False)

    def _resolved(self, X: Any, weights: Any = None) -> Kernel:
        return resolved(self, X, weights)

    def _gram(self, kernel: Kernel, X: Any) -> Gram:
        """K of rows with themselves, in float64 whatever the dtype of X."""
        gram = Gram(kernel, wide(X), memory=self.memory, n_jobs=self.n_jobs, device=self.device)
        gram.check_symmetric()
        return gram

    _along: ClassVar[tuple[str, ...]] = ()
    """Parameters along which a path of fits shares its set-up, each fit starting at the solution of the last."""

    def _kernel_on(self, X: Any, sample_weight: Any) -> Kernel:
        """The kernel that a fit to these rows uses."""
        return self._resolved(X)

    # ---- outputs ------------------------------------------------------------------------------------------------

    def _functions(self, kernel: Kernel, X: Any, dual: NDArray[np.float64]) -> list[Function]:
        """One function per target."""
        return [self._function(kernel, X, alpha) for alpha in dual.T]

    def _function(
        self, kernel: Kernel, X: Any, alpha: NDArray[np.float64], ridge: Any = None, noise: Any = 0.0
    ) -> Function:
        return Function(kernel, X, alpha, ridge, noise, self.memory, self.n_jobs)

    @cached_property
    def function_(self) -> Any:
        """The functions without their constants, created when first read; absent for a map without landmarks."""
        if "dual_coef_" not in vars(self):
            raise AttributeError("function_ needs rows or landmarks, and this fit has none; its weights are in coef_.")
        dual = self.dual_coef_
        return as_array(self._functions(self.kernel_, self.X_fit_, dual.reshape(dual.shape[0], -1)), dual.ndim == 1)

    def _evaluate(self, X: Any) -> NDArray[np.float64]:
        """Values at validated rows, in float64 whatever their dtype."""
        if hasattr(self, "coef_"):
            return np.asarray(self.approximation_.evaluate(X, self.coef_, self.memory), dtype=np.float64)
        if is_precomputed(self.kernel_) and hasattr(self, "approximation_"):
            X = X[:, self._landmarks]
        return columns_of(self, self.kernel_, self.X_fit_).times(wide(X), self.dual_coef_)


class KernelExpansion(Expansion, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A regressor that predicts ``Σ_i dual_coef_i k(X_fit_i, x)``."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    @by_blocks
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict targets, by tiles of at most ``memory`` bytes.

        Parameters
        ----------
        X : array-like or CSR of shape (m, d), Blocks, path or Dask collection
            Rows; k(new, train) if the kernel is precomputed.

        Returns
        -------
        array of shape (m,) or (m, k), or Results
            The predictions, computed in float64; returned in float32 if X is float32 and they do not overflow it. For
            blocks, ``Results`` to iterate over or write.
        """
        check_is_fitted(self)
        X = self._validated_rows(X)
        return narrow(self._evaluate(X) + self._beside(X), X)

    def _beside(self, X: Any) -> Any:
        """Values at validated rows of the intercept or trend that is added to f."""
        return 0.0


def rows_of(kernel: Kernel, X: Any, rows: NDArray[np.intp]) -> Any:
    """Return some rows of X; if X is a Gram matrix, also only the same columns: rows (r,)."""
    if np.array_equal(rows, np.arange(_num_samples(X))):
        return X
    return X[rows][:, rows] if is_precomputed(kernel) else X[rows]


def as_array(functions: list[Function], single: bool) -> Any:
    """Return the function of a single target, or the array of functions of several."""
    if single:
        return functions[0]
    out = np.empty(len(functions), dtype=object)
    out[:] = functions
    return out


def as_grid(name: str, values: Any) -> NDArray[np.float64]:
    """Check and return a grid of regularisation parameters: values (g,) → (g,)."""
    grid = np.asarray(values, dtype=np.float64)
    if grid.ndim != 1 or grid.size == 0 or not np.all(np.isfinite(grid)) or np.any(grid <= 0):
        raise ValueError(f"{name} must be a list of finite numbers > 0, got {values!r}.")
    return grid


KERNEL_PARAMETERS = ("kernel", *NAMED)
SHARED = ("memory", "n_jobs", "random_state")


def adapted(owner: BaseEstimator, kernel: Kernel) -> Any:
    """Return the owner's map, unfitted, with the kernel and, if unset, the owner's memory, n_jobs and random_state."""
    features = clone(owner.approximation)
    given, name = features.get_params(deep=False), type(features).__name__
    if "kernel" not in given:
        if own := changed(owner, KERNEL_PARAMETERS):
            raise ValueError(
                f"{name} has a kernel of its own; leave {', '.join(own)} of {type(owner).__name__} at the default."
            )
        return features
    if own := changed(features, KERNEL_PARAMETERS):
        raise ValueError(
            f"the kernel is set on {type(owner).__name__}; leave {', '.join(own)} of {name} at the default."
        )
    theirs = owner.get_params(deep=False)
    shared = {p: theirs[p] for p in SHARED if p in theirs and p in given and given[p] is None}
    features._keeps_size = False
    return features.set_params(kernel=kernel, **shared)


def has_landmarks(features: Any) -> bool:
    """Tell whether a map has landmarks among the rows it is fitted to."""
    return hasattr(features, "expansion")


def kept_in_features(features: Any, weights: NDArray[np.float64], dtype: Any) -> dict[str, Any]:
    """Return the attributes of functions <w, ψ>: expansions at the map's landmarks, else the weights (m, k)."""
    if not has_landmarks(features):
        return {"approximation_": features, "coef_": weights}
    X, index = features.components_.astype(dtype, copy=False), features.component_indices_
    X = X[:, index] if is_precomputed(features.kernel_) else X
    expansion = {"X_fit_": X, "dual_coef_": features.expansion(weights), "_landmarks": index}
    return {"approximation_": features, **expansion}


def features_of(features: Any, X: Any, memory: int | str | None = None) -> NDArray[np.float64]:
    """Fit a map to some rows and return their features: X (n, d) → (n, m)."""
    numbers = getattr(X, "dtype", None) is not None and X.dtype != object
    X = X.astype(np.float64, copy=False) if numbers else X
    if has_landmarks(features):
        # Such a map checks memory itself, and often computes the features of these rows while fitting.
        return np.asarray(features.fit_transform(X))
    F = features.fit(X).transform(X[:1])
    needed, budget = 8 * X.shape[0] * F.shape[1], memory_budget(memory)
    if needed > budget:
        raise MemoryError(
            f"{F.shape[1]:,} features of {X.shape[0]:,} rows take {readable(needed)} and memory is "
            f"{readable(budget)}; use fewer features or raise memory=."
        )
    return np.asarray(dense(features.transform(X), np.float64))


@contextmanager
def opened(model: Any, X: Any, y: Any = None, sample_weight: Any = None, *, targets: bool = True) -> Iterator[Passes]:
    """Open passes over the rows of a fit; for blocks, set the number and names of columns."""
    source, name = X if isinstance(X, Held) else as_blocks(X, y, sample_weight), type(model).__name__
    if targets and not source.has_targets:
        raise ValueError(
            f"This {name} estimator requires y to be passed, but the target y is None: name it, as "
            "Blocks(..., target='y')."
        )
    if not isinstance(X, Held) and is_precomputed(getattr(model, "kernel", None)):
        raise ValueError("kernel='precomputed' needs the Gram matrix, but blocks hold rows; pass the kernel itself.")
    options: Any = {"n_jobs": getattr(model, "n_jobs", None), "verbose": getattr(model, "verbose", False)}
    with source.passes(**options, label=name) as passes:
        if not isinstance(X, Held):
            model.n_features_in_ = source.n_columns
            vars(model).pop("feature_names_in_", None)
            if source.names is not None:
                model.feature_names_in_ = np.array(source.names, dtype=object)
        yield passes


def sampled(model: Any, passes: Passes) -> Part:
    """Draw the rows to which a model's map is fitted."""
    if model.approximation is None:
        refuse(model)
    held = getattr(passes.blocks, "all", None)
    # No sampling of Gram matrices or objects, nor with ``tol``, which bounds the trace error over all rows.
    if held is not None and (
        held.X.dtype == object or is_precomputed(model.kernel) or getattr(model.approximation, "tol", None) is not None
    ):
        return held
    seed = getattr(model.approximation, "random_state", None)
    seed = getattr(model, "random_state", None) if seed is None else seed
    return draw(passes, getattr(model.approximation, "n_components", 1), getattr(model, "memory", None), seed)


def refuse(model: Any) -> NoReturn:
    """Raise an error that says which map lets a model be fitted over blocks."""
    raise ValueError(
        f"{type(model).__name__} without a map needs all rows in memory at once; over blocks give "
        f"{NYSTROEM}, or FourierFeatures(n_components=1000)."
    )
