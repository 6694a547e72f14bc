"""Base class of the support vector machines: validation, set-up of a fit, evaluation of the kernel expansion."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable as Callable_
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _num_samples, check_is_fitted

from gramian.estimators.base import (
    APPROXIMATION,
    COMMON,
    NO_TARGET,
    adapted,
    as_array,
    check_named,
    features_of,
    forget,
    has_landmarks,
    kernel_tags,
    refuse_blocks,
    refuse_device,
    row_weights,
    validated,
    warn_unless_converged,
)
from gramian.estimators.duality import Duality
from gramian.estimators.svm.training import CardMatrix, FeatureMatrix, GramRows, StoredMatrix, Training, Vector
from gramian.gram import Gram
from gramian.gram.columns import columns_of
from gramian.gram.operator import wide
from gramian.kernels import Callable, Dot, Kernel, Precomputed, Radial, resolve
from gramian.kernels.objects import Table
from gramian.kernels.points import is_sparse
from gramian.kernels.resolve import WITH_GAMMA, is_precomputed, resolve_gamma
from gramian.kernels.tunable import Nested
from gramian.resources import worker_count
from gramian.rkhs import Function
from gramian.solvers.svm.row_cache import Index, Wide
from gramian.solvers.svm.tasks import Solution

EARLY = (
    "Solver terminated early (max_iter={}).  Consider pre-processing your data with StandardScaler or MinMaxScaler. "
)
"""scikit-learn's message for a fit that ``max_iter`` stopped."""
KINDS = np.array(["peripheral", "margin", "violator"])
NARROW_ROWS = 2000
"""From this many rows on, kernel rows are kept in float32, where that is precise enough."""
NARROW_TOL = 1e-5
NARROW_LOSS = 1e-6
"""Largest error of a float32 kernel value that is accepted, relative to the largest kernel value."""
DIRECT_INPUTS = 64
"""Up to this many inputs, recomputing a block of a GEMM kernel is faster than gathering it from the cache."""
SMALL_CELLS = 2**18
"""Sparse X with up to this many entries is made dense: faster, and rounded in the same way as dense input."""
FEW_CELLS = 2**20
"""Largest size of K(rows, support vectors) that is stored and used for all pairs of classes."""
PROBES, PROBED = 8, 1000
"""The float32 error is measured on the kernel values between PROBES rows and PROBED rows."""
MEGABYTE = 2**20
FOUND = ("_fitted_to", "_gamma")
"""Private attributes that a set-up sets."""


@dataclass(eq=False, repr=False, kw_only=True)
class SupportVectorMachine(Duality, Nested, BaseEstimator):
    """Parameters, validation and kernel expansion; a subclass defines its optimisation problem.

    Not for direct use.
    """

    kernel: Any = "rbf"
    degree: int = 3
    gamma: float | str = "scale"
    coef0: float = 0.0
    tol: float = 1e-3
    shrinking: bool = True
    cache_size: float = 200
    verbose: bool | int = False
    max_iter: int = -1
    approximation: Any = None
    max_time: float | None = None
    n_jobs: int | None = None
    memory: int | str | None = None
    device: str | None = None

    _along: ClassVar[tuple[str, ...]]
    """Parameters along which fits share their set-up and can be warm-started from each other."""
    _over_blocks: ClassVar[str]
    """The estimator to use instead for rows that come in blocks, as named in the error."""
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [str, callable],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "shrinking": ["boolean"],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "approximation": APPROXIMATION,
        **{name: COMMON[name] for name in ("verbose", "max_time", "n_jobs", "memory", "device")},
    }

    def __sklearn_tags__(self) -> Any:
        tags = kernel_tags(super().__sklearn_tags__(), self.kernel)
        tags.input_tags.sparse &= not is_precomputed(self.kernel)
        return tags

    # ---- fit ------------------------------------------------------------------------------------------------------

    def _validated(self, X: Any, y: Any = NO_TARGET, **options: Any) -> Any:
        """Validate the rows of a fit, and y if given."""
        refuse_blocks(self, X, self._over_blocks)
        if is_precomputed(self.kernel) and is_sparse(X):
            raise TypeError("Sparse precomputed kernels are not supported; pass K.toarray().")
        checked = validated(self, X, y, **options)
        rows = checked if isinstance(y, str) else checked[0]
        if is_precomputed(self.kernel) and rows.shape[0] != rows.shape[1]:
            raise ValueError(
                f"Precomputed matrix must be a square matrix. Input is a {rows.shape[0]}x{rows.shape[1]} matrix; "
                "pass k(train, train) to fit."
            )
        return checked

    def _training(self, X: Any, sample_weight: Any, order: Index | None = None) -> Training:
        """Drop rows of weight zero and set up the kernel between the others, in the order given."""
        n, X = _num_samples(X), X if is_precomputed(self.kernel) else wide(X)
        refuse_device(self)
        weight = row_weights(sample_weight, X, negative=True)
        kept = np.arange(n) if order is None else order
        kept = kept[weight[kept] > 0]
        kernel = self._resolved(*((X, weight) if kept.size == n else (X[np.sort(kept)], weight[np.sort(kept)])))
        if self.approximation is not None:
            rows: Any = self._feature_matrix(X, kernel, kept)
            return Training(kept, weight[kept], rows.features.kernel_, rows)
        return Training(kept, weight[kept], kernel, self._gram_rows(X, kernel, kept))

    def _gram_rows(self, X: Any, kernel: Kernel, kept: Index) -> GramRows:
        precomputed = is_precomputed(self.kernel)
        if isinstance(kernel, Table):
            ids = X[kept, 0].astype(np.intp)
            return StoredMatrix(self._gram(kernel, X[kept]), None, True, matrix=kernel.matrix, ids=ids)
        if is_sparse(X) and _small(X, kernel):
            X = X.toarray()
        direct = self._is_direct(X, kernel)
        rows = X[np.ix_(kept, kept)] if precomputed else X[kept]
        if self.device is not None and (gram := self._gram(kernel, rows)).card is not None:
            return CardMatrix(gram, None, True)
        if precomputed:
            K, ids = np.ascontiguousarray(rows), np.arange(kept.size)
            return StoredMatrix(self._gram(kernel, K), None, False, matrix=K, ids=ids)
        single = self._narrow(kernel, X, kept)
        if single is None:
            return GramRows(self._gram(kernel, rows), None, direct)
        full = Wide(lambda i, j: kernel(X[kept[i]], X[kept[j]]), cache(lambda: self._gram(kernel, X[kept])))
        return GramRows(single, full, direct)

    def _is_direct(self, X: Any, kernel: Kernel) -> bool:
        """Whether kernel values are cheaper to recompute than to cache."""
        vectors = isinstance(X, np.ndarray) and X.ndim == 2 and not is_precomputed(self.kernel)
        return vectors and X.shape[1] <= DIRECT_INPUTS and isinstance(kernel, Dot | Radial)

    def _gram(self, kernel: Kernel, rows: Any) -> Gram:
        return Gram(kernel, rows, memory=self.memory, n_jobs=self.n_jobs, device=self.device)

    def _feature_matrix(self, X: Any, kernel: Kernel, kept: Index) -> FeatureMatrix:
        """The features of the rows; the map is fitted in the user's row order, so its choices do not depend on ours."""
        rows = np.sort(kept)
        features = adapted(self, kernel)
        F = features_of(features, X[np.ix_(rows, rows)] if is_precomputed(self.kernel) else X[rows], self.memory)
        F = F if np.array_equal(rows, kept) else F[np.searchsorted(rows, kept)]
        return FeatureMatrix(F, features, rows, worker_count(self.n_jobs))

    def _kernel_on(self, X: Any, sample_weight: Any) -> Kernel:
        """The kernel that a fit to these rows uses: X (n, d), sample_weight (n,)."""
        weight = row_weights(sample_weight, X, negative=True)
        kept = slice(None) if weight.all() else np.flatnonzero(weight > 0)
        return self._resolved(X[kept], weight[kept])

    def _resolved(self, X: Any, weight: Vector) -> Kernel:
        check_named(self)
        self._gamma = 0.0
        if isinstance(self.kernel, str) and self.kernel in WITH_GAMMA:
            # Weighted variance: a row of weight two counts as two rows.
            try:
                self._gamma = resolve_gamma(self.gamma, X, weights=weight if np.ptp(weight) > 0 else None)
            except ValueError as error:
                raise ValueError(f"The dual coefficients or intercepts are not finite: {error}") from error
        options: Any = {"degree": self.degree, "coef0": self.coef0, "vectorized": True}
        return resolve(self.kernel, X, gamma=self._gamma, **options)

    def _narrow(self, kernel: Kernel, X: Any, kept: Index) -> Gram | None:
        """The kernel matrix in float32, or None if that would not pay off or is not precise enough."""
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

    @classmethod
    def _in_turn(cls, machines: Any) -> Iterator[tuple[Any, float]]:
        """Machines by ascending C, each with the ratio of its C to the previous one; 0 for a cold start.

        ν fixes the sums of the dual variables, so the previous solution is not feasible for the next ν.
        """
        if "C" not in cls._along or "nu" in cls._along:
            yield from ((machine, 0.0) for machine in machines)
            return
        last = math.inf
        for machine in sorted(machines, key=lambda machine: machine.C):
            growth = machine.C / last
            yield machine, growth if math.isfinite(growth) and getattr(machine, "fit_intercept", True) else 0.0
            last = machine.C

    def _attributes(self) -> dict[str, Any]:
        """The attributes set by a set-up, to be copied to machines that share it."""
        return {name: value for name, value in vars(self).items() if name.endswith("_") or name in FOUND}

    @staticmethod
    def _strictest(machines: Any) -> Any:
        """The machine that needs the most precise kernel rows: the one with the largest C."""
        return max(machines, key=lambda machine: getattr(machine, "C", 1.0))

    def _solver_options(self) -> dict[str, Any]:
        return {"tol": self.tol, "max_iter": self.max_iter, "shrinking": self.shrinking}

    def _check_symmetric(self, kernel: Kernel, X: Any) -> None:
        """Raise an error if a kernel function or matrix given by the user is not symmetric."""
        if isinstance(kernel, Callable | Precomputed):
            self._gram(kernel, X).check_symmetric()

    def _keep(self, X: Any, training: Training, used: Index, dual: Vector, kind: Index) -> None:
        """Store the dual coefficients, and the support vectors unless an approximation predicts without them."""
        forget(self)
        rows, vectors = training.rows, training.kept[used]
        self._kernel = training.kernel
        self.support_ = vectors.astype(np.int32)
        self.shape_fit_ = tuple(np.shape(X))
        self.dual_coef_ = sp.csr_array(dual) if is_sparse(X) else dual
        self.kinds_ = np.full(self.shape_fit_[0], KINDS[0])
        self.kinds_[training.kept] = KINDS[kind]
        if isinstance(rows, FeatureMatrix):
            self.approximation_, self._mapped_rows = rows.features, rows.fitted
            self._feature_weights = rows.F[used].T @ self._expansions().T
        if is_precomputed(self.kernel):
            self.support_vectors_ = np.empty((0, 0), dtype=X.dtype)
        else:
            self.support_vectors_ = X[vectors[:0] if isinstance(rows, FeatureMatrix) else vectors]

    def _report(self, solutions: list[Solution]) -> None:
        """Store the certificates, and warn if the fit did not converge."""
        self.certificates_ = [s.certificate for s in solutions]
        self.certificate_ = max(self.certificates_, key=lambda c: (not c.converged, c.figure))
        self.fit_status_ = int(not self.certificate_.converged)
        if not all(s.convex for s in solutions):
            warnings.warn(
                f"{type(self).__name__}: the kernel is not positive semi-definite on these data, so the fit is a "
                "stationary point and perhaps not an optimum; check the kernel with gramian.kernels.is_kernel.",
                ConvergenceWarning,
                stacklevel=4,
            )
        early = not self.certificate_.converged and 0 <= self.max_iter <= self.certificate_.iterations
        warn_unless_converged(self.certificate_, self, EARLY.format(self.max_iter) if early else "")

    # ---- predict ----------------------------------------------------------------------------------------------------

    def _validated_for_predict(self, X: Any) -> Any:
        check_is_fitted(self)
        return validated(self, X, reset=False)

    def _mapped_values(self, X: Any) -> Vector:
        """The decision values without the bias, computed from the features of the approximation: → (m, columns)."""
        rows = X[:, self._mapped_rows] if is_precomputed(self.kernel) else X
        return np.asarray(self.approximation_.evaluate(rows, self._feature_weights, self.memory), dtype=np.float64)

    def _single(self, X: Any) -> Vector:
        """The decision values without the bias of a machine with one function, for validated X: → (m,)."""
        if hasattr(self, "approximation_"):
            return self._mapped_values(X)[:, 0]
        return self._expand(X, dense(self.dual_coef_)[0])

    def _expand(self, X: Any, coefficients: Vector, part: slice = slice(None)) -> Vector:
        """Σ_s coefficients_s k(x, s) over a part of the support vectors, for validated X."""
        if is_precomputed(self.kernel):
            return np.asarray(X[:, self.support_[part]] @ coefficients, dtype=np.float64)
        if not coefficients.shape[0]:
            return np.zeros((_num_samples(X), *coefficients.shape[1:]))
        vectors: Any = self.support_vectors_
        if (is_sparse(X) or is_sparse(vectors)) and all(_small(rows, self._kernel) for rows in (X, vectors)):
            X, vectors = dense(X), dense(vectors)
        if is_sparse(X) == is_sparse(vectors) and part == slice(None):
            return columns_of(self, self._kernel, vectors).times(wide(X), coefficients)
        if is_sparse(X) != is_sparse(vectors):
            X, vectors = sp.csr_array(X), sp.csr_array(vectors)
        K = Gram(self._kernel, wide(X), wide(vectors[part]), self.memory, self.n_jobs, self.device)
        return np.asarray(K @ coefficients)

    def _times(self, X: Any, rows: Index) -> Callable_[[Vector], Vector]:
        """Return the function V ↦ K V, with K the kernel matrix of some of the validated training rows."""
        if hasattr(self, "approximation_"):
            X = X[:, self._mapped_rows] if is_precomputed(self.kernel) else X
            F = np.asarray(dense(self.approximation_.transform(X[rows])), dtype=np.float64)
            return lambda V: np.asarray(F @ (F.T @ V))
        K = self._gram(self._kernel, X[np.ix_(rows, rows)] if is_precomputed(self.kernel) else wide(X[rows]))
        return lambda V: np.asarray(K @ V)

    def _few(self, X: Any) -> Vector | None:
        """K(X, support vectors) if it is small; None if it is large, sparse, precomputed, or not on numeric vectors."""
        if is_precomputed(self.kernel) or is_sparse(X) or is_sparse(self.support_vectors_):
            return None
        vectors = self.support_vectors_
        K = columns_of(self, self._kernel, vectors).tile(wide(X))
        if K is not None or not isinstance(X, np.ndarray) or X.size == 0 or len(X) * len(vectors) > FEW_CELLS:
            return K
        gram = Gram(self._kernel, wide(X), wide(vectors), memory=self.memory, n_jobs=self.n_jobs)
        return np.asarray(gram.dense(), dtype=np.float64) if gram.fits else None

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
        rows: Any = self._expansions()
        coef = (sp.csr_array(rows) if is_sparse(self.support_vectors_) else rows) @ self.support_vectors_
        numbers: Any = coef.data if is_sparse(coef) else coef
        numbers.flags.writeable = False
        return coef

    @property
    def function_(self) -> Any:
        """The kernel expansion without the bias, as a function of the RKHS; one for every pair of classes."""
        check_is_fitted(self)
        if is_precomputed(self.kernel):
            raise AttributeError("function_ needs the support vectors, and a precomputed kernel does not hold them")
        points, rows = self.support_vectors_, self._expansions()
        if hasattr(self, "approximation_"):
            if not has_landmarks(self.approximation_):
                raise AttributeError(
                    "function_ needs landmarks, and this approximation has none; coef_ has its weights"
                )
            points, rows = self.approximation_.components_, self.approximation_.expansion(self._feature_weights).T
        found = [Function(self._kernel, points, row, memory=self.memory, n_jobs=self.n_jobs) for row in rows]
        return as_array(found, len(found) == 1)

    def _expansions(self) -> NDArray[Any]:
        """Coefficients of the support vectors, one row per decision value."""
        return dense(self.dual_coef_)

    @property
    def multipliers_(self) -> Vector:
        """The multipliers λ >= 0 of all training rows: (n,); for more than two classes, one column per pair."""
        check_is_fitted(self)
        found = np.zeros((self.shape_fit_[0], len(self._expansions())))
        found[self.support_] = np.abs(self._expansions()).T
        return found[:, 0] if found.shape[1] == 1 else found

    @property
    def n_support_(self) -> NDArray[np.int32]:
        """Number of support vectors; for classifiers, one number per class."""
        check_is_fitted(self)
        return self._n_support


def _small(X: Any, kernel: Kernel) -> bool:
    """Whether X is small enough to be made dense."""
    return isinstance(kernel, Dot | Radial) and X.shape[0] * X.shape[1] <= SMALL_CELLS


def kinds(beta: Vector, lower: Vector, upper: Vector) -> Index:
    """Return the kind of each variable: 0 peripheral, 1 on the margin, 2 violator. beta, lower, upper (m,)."""
    at_bound = (beta == lower) | (beta == upper)
    return np.where(beta == 0, 0, np.where(at_bound, 2, 1))


def dense(a: Any) -> NDArray[Any]:
    """Return a dense or sparse matrix as a dense array."""
    return np.asarray(a.toarray() if is_sparse(a) else a)
