"""What the support vector machines share: validation, kernel rows for the solver, the expansion behind predict."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from functools import cache
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, _num_samples, check_is_fitted, validate_data

from gramian.certificates import Certificate
from gramian.estimators.approximation import APPROXIMATION, adapted, features_of, has_landmarks
from gramian.estimators.base import (
    COMMON,
    check_named,
    holds_objects,
    is_precomputed,
    kernel_tags,
    warn_unless_converged,
)
from gramian.estimators.svm.trained import Mapped, Trained
from gramian.gram import Gram
from gramian.gram.operator import wide
from gramian.kernels import Callable, Dot, Kernel, Precomputed, Radial, resolve
from gramian.kernels.points import is_sparse, objects
from gramian.kernels.resolve import scale_gamma
from gramian.kernels.tunable import Nested
from gramian.progress import progress
from gramian.resources import worker_count
from gramian.rkhs import Function
from gramian.solvers.linear.diagnose import check_symmetric
from gramian.solvers.svm.row_cache import Wide
from gramian.solvers.svm.smo import Solution

__all__ = ["KINDS", "MEGABYTE", "SupportVectorMachine", "dense", "kinds", "like"]

Vector = NDArray[np.float64]
KINDS = np.array(["peripheral", "margin", "violator"])
NARROW_ROWS = 2000
"""From this many rows on, kernel rows are kept in float32, where that is precise enough."""
NARROW_TOL = 1e-5
NARROW_LOSS = 1e-6
"""What float32 may change in a kernel value, relative to the largest."""
DIRECT_INPUTS = 64
"""Up to this many inputs, a block of a GEMM kernel is made faster than it is gathered from the cache."""
PROBES, PROBED = 8, 1000
"""Kernel values of so many rows with so many others tell what float32 changes."""
MEGABYTE = 2**20


class SupportVectorMachine(Nested, BaseEstimator):
    """Parameters, validation and expansion; a subclass states its task.

    Not for direct use.
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "kernel": [str, callable],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "shrinking": ["boolean"],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "approximation": APPROXIMATION,
        **{name: COMMON[name] for name in ("verbose", "max_time", "n_jobs", "memory")},
    }

    def __sklearn_tags__(self) -> Any:
        return kernel_tags(super().__sklearn_tags__(), self.kernel)

    # ---- fit ------------------------------------------------------------------------------------------------------

    def _validated(self, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        """Check X, and y where there is one; objects that are no rows of numbers go to the kernel as they are."""
        alone = isinstance(y, str)
        if holds_objects(self.kernel, X):
            X = objects(X, kernel=type(self.kernel).__name__)
            if options.get("reset", True):
                self.n_features_in_ = 1
            return X if alone else (X, y)
        options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C", **options}
        checked = validate_data(self, X, y, **options)
        rows = checked if alone else checked[0]
        if options.get("reset", True) and is_precomputed(self.kernel) and rows.shape[0] != rows.shape[1]:
            raise ValueError(
                f"Precomputed matrix must be a square matrix. Input is a {rows.shape[0]}x{rows.shape[1]} matrix; "
                "pass k(train, train) to fit."
            )
        return checked

    def _prepare(self, X: Any, sample_weight: Any, order: NDArray[np.intp] | None = None) -> Trained | Mapped:
        """Drop rows of weight zero and set up the kernel between the others, in the order given."""
        n, X = _num_samples(X), X if is_precomputed(self.kernel) else wide(X)
        weight = np.ones(n) if sample_weight is None else _weights(sample_weight, X, n)
        kept = np.arange(n) if order is None else order
        kept = kept[weight[kept] > 0]
        if not kept.size:
            raise ValueError("Invalid input - all samples have zero or negative weights.")
        whole = kept.size == n
        kernel = self._resolved(X if whole else X[kept], weight if whole else weight[kept])
        if self.approximation is not None:
            return self._mapped(X, kernel, kept, weight[kept])
        single = self._narrow(kernel, X, kept)
        direct = isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] <= DIRECT_INPUTS
        direct = direct and not is_precomputed(self.kernel) and isinstance(kernel, Dot | Radial)
        if single is None:
            rows = X[np.ix_(kept, kept)] if is_precomputed(self.kernel) else X[kept]
            return Trained(kept, kernel, self._gram(kernel, rows), None, direct, weight[kept])
        full = Wide(lambda i, j: kernel(X[kept[i]], X[kept[j]]), cache(lambda: self._gram(kernel, X[kept])))
        return Trained(kept, kernel, single, full, direct, weight[kept])

    def _gram(self, kernel: Kernel, rows: Any) -> Gram:
        return Gram(kernel, rows, memory=self.memory, n_jobs=self.n_jobs)

    def _check_symmetric(self, kernel: Kernel, X: Any) -> None:
        """Refuse a similarity that comes from the user and is not symmetric."""
        if isinstance(kernel, Callable | Precomputed):
            check_symmetric(self._gram(kernel, X))

    def _mapped(self, X: Any, kernel: Kernel, kept: NDArray[np.intp], weight: Vector) -> Mapped:
        """The features of the rows; the map sees them in the user's order, so that its choices depend on that alone."""
        rows = np.sort(kept)
        features = adapted(self, kernel)
        points = X[np.ix_(rows, rows)] if is_precomputed(self.kernel) else X[rows]
        F = features_of(features, points, self.memory)
        F = F if np.array_equal(rows, kept) else F[np.searchsorted(rows, kept)]
        return Mapped(kept, features.kernel_, F, features, rows, worker_count(self.n_jobs), weight)

    def _resolved(self, X: Any, weight: Vector) -> Kernel:
        check_named(self)
        gamma = self.gamma
        # By weight: as if every row were there as often as its weight says.
        if isinstance(gamma, str) and gamma == "scale" and np.ptp(weight) > 0 and isinstance(self.kernel, str):
            gamma = scale_gamma(X, weight)
        return resolve(self.kernel, X, gamma=gamma, degree=self.degree, coef0=self.coef0, vectorized=True)

    def _narrow(self, kernel: Kernel, X: Any, kept: NDArray[np.intp]) -> Gram | None:
        """The matrix in float32, where that is worth it and loses nothing that matters."""
        n = kept.size
        small = n < NARROW_ROWS or self.tol < NARROW_TOL or math.isinf(getattr(self, "C", 1.0))
        if small or is_precomputed(self.kernel) or not isinstance(X, np.ndarray) or X.dtype != np.float64:
            return None
        with np.errstate(over="ignore"):
            narrow = X.astype(np.float32)[kept]
        if not np.isfinite(narrow).all():
            return None
        gram = self._gram(kernel, narrow)
        probes, others = (np.linspace(0, n - 1, min(count, n)).astype(np.intp) for count in (PROBES, PROBED))
        exact = kernel(X[kept[probes]], X[kept[others]])
        lost = np.abs(gram.rows(probes, others) - exact).max()
        return gram if lost <= NARROW_LOSS * np.abs(exact).max() else None

    def _solver_options(self) -> dict[str, Any]:
        return {"tol": self.tol, "max_iter": self.max_iter, "shrinking": self.shrinking}

    def _progress(self) -> Any:
        return progress(self.verbose, type(self).__name__)

    def _report(self, solutions: list[Solution]) -> None:
        """Keep the certificates, and warn where one of them says that the fit stopped short."""
        self.certificates_ = [_certificate(s) for s in solutions]
        self.certificate_ = max(self.certificates_, key=_shortfall)
        self.fit_status_ = int(not self.certificate_.converged)
        if not all(s.convex for s in solutions):
            warnings.warn(
                f"{type(self).__name__}: the kernel is not positive semi-definite on these data, so the fit is a "
                "stationary point and perhaps not an optimum; gramian.kernels.is_kernel tells more.",
                ConvergenceWarning,
                stacklevel=4,
            )
        warn_unless_converged(self.certificate_, self)

    def _keep(self, X: Any, trained: Trained | Mapped, used: NDArray[np.intp]) -> None:
        """Keep which rows are support vectors and, where there is no map to do without them, the rows."""
        self._kernel = trained.kernel
        self.support_ = trained.kept[used].astype(np.int32)
        self.shape_fit_ = tuple(np.shape(X))
        if is_precomputed(self.kernel):
            self.support_vectors_ = np.empty((0, 0), dtype=X.dtype)
        else:
            self.support_vectors_ = X[trained.kept[used[:0] if isinstance(trained, Mapped) else used]]

    def _keep_map(self, trained: Trained | Mapped, used: NDArray[np.intp]) -> None:
        """Keep a map and the weights of its features, one column per decision value, once dual_coef_ is there."""
        for name in ("approximation_", "_mapped_rows", "_feature_weights"):
            self.__dict__.pop(name, None)
        if isinstance(trained, Mapped):
            self.approximation_, self._mapped_rows = trained.features, trained.rows
            self._feature_weights = trained.F[used].T @ self._expansions().T

    # ---- predict ----------------------------------------------------------------------------------------------------

    def _validated_for_predict(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._validated(X, reset=False)

    def _mapped_values(self, X: Any) -> Vector:
        """The decision values before the bias, one column each, in the space of the map."""
        rows = X[:, self._mapped_rows] if is_precomputed(self.kernel) else X
        return np.asarray(self.approximation_.evaluate(rows, self._feature_weights, self.memory), dtype=np.float64)

    def _single(self, X: Any) -> Vector:
        """The one decision value before the bias, for validated X."""
        if hasattr(self, "approximation_"):
            return self._mapped_values(X)[:, 0]
        return self._expand(X, dense(self.dual_coef_)[0])

    def _expand(self, X: Any, coefficients: Vector, part: slice = slice(None)) -> Vector:
        """Σ_s coefficients_s k(x, s) over a part of the support vectors, for validated X."""
        if is_precomputed(self.kernel):
            return np.asarray(X[:, self.support_[part]] @ coefficients, dtype=np.float64)
        if not coefficients.shape[0]:
            return np.zeros((_num_samples(X), *coefficients.shape[1:]))
        vectors: Any = self.support_vectors_[part]
        if is_sparse(X) != is_sparse(vectors):
            X, vectors = sp.csr_array(X), sp.csr_array(vectors)
        K = Gram(self._kernel, wide(X), wide(vectors), memory=self.memory, n_jobs=self.n_jobs)
        return np.asarray(K @ coefficients)

    @property
    def kernel_(self) -> Kernel:
        """The kernel used."""
        check_is_fitted(self)
        return self._kernel

    @property
    def coef_(self) -> Any:
        """Weights of the inputs, for ``kernel="linear"``, or of a map's features; one row per decision value."""
        if hasattr(self, "approximation_"):
            return self._feature_weights.T
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        coef = self._linear_weights()
        numbers = coef.data if is_sparse(coef) else coef
        numbers.flags.writeable = False
        return coef

    def _linear_weights(self) -> Any:
        return self.dual_coef_ @ self.support_vectors_

    @property
    def function_(self) -> Any:
        """The expansion before the bias, as a function in the kernel's space; one for every pair of classes."""
        check_is_fitted(self)
        if is_precomputed(self.kernel):
            raise AttributeError("function_ needs the support vectors, and a precomputed kernel does not show them")
        points, rows = self.support_vectors_, self._expansions()
        if hasattr(self, "approximation_"):
            if not has_landmarks(self.approximation_):
                raise AttributeError(
                    "function_ needs landmarks, which this approximation has not; coef_ has its weights"
                )
            points, rows = self.approximation_.components_, self.approximation_.expansion(self._feature_weights).T
        found = [Function(self._kernel, points, row, memory=self.memory, n_jobs=self.n_jobs) for row in rows]
        if len(found) == 1:
            return found[0]
        functions = np.empty(len(found), dtype=object)
        functions[:] = found
        return functions

    def _expansions(self) -> NDArray[Any]:
        """Coefficients of the support vectors, one row per decision value."""
        return dense(self.dual_coef_)

    @property
    def n_support_(self) -> NDArray[np.int32]:
        """Number of support vectors; for classifiers of each class."""
        check_is_fitted(self)
        return self._n_support


def kinds(beta: Vector, lower: Vector, upper: Vector) -> NDArray[np.intp]:
    """Return the kind of each variable: 0 peripheral, 1 on the margin, 2 violator. beta, lower, upper (m,)."""
    at_bound = (beta == lower) | (beta == upper)
    return np.where(beta == 0, 0, np.where(at_bound, 2, 1))


def _certificate(solution: Solution) -> Certificate:
    if solution.convex:
        return solution.certificate
    return replace(solution.certificate, kind="stationary", gap=math.nan)


def _shortfall(certificate: Certificate) -> tuple[bool, float]:
    return not certificate.converged, certificate.violation if math.isnan(certificate.gap) else certificate.gap


def _weights(sample_weight: Any, X: Any, n: int) -> Vector:
    rows = X if hasattr(X, "shape") else np.empty((n, 1))
    return np.asarray(_check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True))


def dense(a: Any) -> NDArray[Any]:
    """Return a matrix that may be sparse as an array."""
    return np.asarray(a.toarray() if is_sparse(a) else a)


def like(coefficients: NDArray[Any], X: Any) -> Any:
    """Return coefficients as scikit-learn keeps them: sparse where the rows are. coefficients (k, s)."""
    return sp.csr_array(coefficients) if is_sparse(X) else coefficients
