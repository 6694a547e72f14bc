"""Base class of the support vector machines: validation, the kernel matrix that the solver reads, fitted attributes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _num_samples

from gramian.certificates import Certificate
from gramian.estimators.base import (
    COMMON,
    NO_TARGET,
    adapted,
    check_named,
    features_of,
    forget,
    kernel_tags,
    refuse_blocks,
    refuse_device,
    restored_on_failure,
    row_weights,
    validated,
    warn_unless_converged,
)
from gramian.estimators.svm.expansion import SupportVectorExpansion, Vector, small
from gramian.features.base import parameters_checked
from gramian.gram import Gram
from gramian.gram.operator import wide
from gramian.kernels import Callable, Dot, Kernel, Precomputed, Radial, resolve
from gramian.kernels.objects import Table
from gramian.kernels.points import is_sparse
from gramian.kernels.resolve import WITH_GAMMA, is_precomputed, resolve_gamma
from gramian.resources import run, spans, worker_count
from gramian.solvers.svm.dense import SMALL
from gramian.solvers.svm.row_cache import (
    NARROW_LOSS,
    CardCache,
    CardRows,
    FeatureRows,
    Index,
    KernelRows,
    RowCache,
    StoredRows,
    Wide,
)
from gramian.solvers.svm.smo import HELD, POLISHED
from gramian.warning import warn

EARLY = "Solver terminated early (max_iter={}).  Consider pre-processing your data with StandardScaler or MinMaxScaler."
"""scikit-learn's message for a fit that ``max_iter`` stopped."""
KINDS = np.array(["peripheral", "margin", "violator"])
NARROW_ROWS, NARROW_TOL = 2000, 1e-5
"""From this many rows on, and this tolerance, kernel rows are kept in float32, where that is precise enough."""
DIRECT_INPUTS = 64
"""Up to this many inputs, recomputing a block of a GEMM kernel is faster than gathering it from the cache."""
PROBES, PROBED = 8, 1000
"""The float32 error is measured on the kernel values between PROBES rows and PROBED rows."""
MEGABYTE = 2**20
ALONE = 1500
"""Up to this many rows the whole matrix is computed for a single problem; beyond, most rows are never needed."""
KEPT = 2**19
"""Least number of entries allocated: smaller arrays go back to the system, and each fit then faults in new pages."""
STRIP, THREADED = 192, 800
"""Rows per strip of a small matrix; number of rows above which strips are computed in threads."""
TESTED_ROWS, INDEFINITE = 1024, 1e-5
"""Up to this many rows, a similarity is tested for negative eigenvalues; their size, relative to the diagonal."""
DIRECT_CACHE = 256e6
"""Cache limit in bytes for kernels that are cheap to compute: touching new memory costs more than recomputing a row."""


@dataclass(frozen=True)
class TrainingRows:
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

    def reader(self, caches: list[RowCache]) -> KernelRows:
        """Return the object from which the solver reads kernel rows."""
        return KernelRows(caches, self.gram.workers, self.direct, self.definite, self.alone)

    @property
    def alone(self) -> Vector | None:
        """The whole matrix, if it is worth computing for a single problem."""
        return self.whole if self.gram.shape[0] <= ALONE else None

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
    """The kernel matrix of some rows on a GPU, whose memory holds the row caches."""

    def caches(self, blocks: list[slice], budget: float) -> list[RowCache]:
        """Return one row cache for each block of columns, sharing the memory of the matrix by width."""
        columns = [np.arange(b.start, b.stop) for b in blocks]
        share = self.gram.memory / sum(c.size for c in columns)
        return [CardCache(self.gram, c, int(share * c.size)) for c in columns]

    def reader(self, caches: list[RowCache]) -> CardRows:
        return CardRows(caches, self.definite, self.whole)


@dataclass(frozen=True, kw_only=True)
class StoredMatrix(GramRows):
    """A kernel matrix that is already in memory, possibly as part of a larger one."""

    matrix: Vector  # The larger matrix
    ids: Index  # (n,): Rows of the larger matrix used here
    alone: ClassVar[None] = None  # A single problem reads the larger matrix in place

    def caches(self, blocks: list[slice], budget: float) -> list[Any]:
        """Return the row numbers of each block: there is nothing to cache."""
        return [self.ids[block] for block in blocks]

    def reader(self, caches: list[Any]) -> Any:
        is_small = self.ids.size <= ALONE and self.definite and self.matrix.dtype == np.float64
        return StoredRows(self.matrix, np.concatenate(caches), self.rounding, self.definite, is_small, self.workers)


@dataclass(frozen=True)
class FeatureMatrix:
    """The features of some rows: the kernel matrix is F Fᵀ."""

    F: Vector  # (n, m)
    features: Any  # The fitted map
    fitted: Index  # Indices of the user's rows that it was fitted to, in its order
    workers: int  # Threads
    alone: ClassVar[None] = None
    whole: ClassVar[None] = None
    rounding: ClassVar[float] = float(np.finfo(np.float64).eps)

    def diagonal(self) -> Vector:
        """Return ‖ψ(x)‖² of the rows: → (n,)."""
        return np.einsum("ij,ij->i", self.F, self.F)

    def on(self, workers: int) -> FeatureMatrix:
        """Return the same features, for another number of threads."""
        return replace(self, workers=workers)

    def caches(self, blocks: list[slice], budget: float) -> list[Vector]:
        """Return the features of each block: there are no kernel rows to cache."""
        return [self.F[block] for block in blocks]

    def reader(self, caches: list[Vector]) -> FeatureRows:
        """Return the object from which the solver reads kernel values."""
        return FeatureRows(caches[0] if len(caches) == 1 else np.concatenate(caches), self.workers)


@dataclass(eq=False, repr=False, kw_only=True)
class SupportVectorMachine(SupportVectorExpansion):
    """Parameters and set-up of a fit; a subclass defines its optimisation problem. Not for direct use.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A gramian kernel, a name that scikit-learn knows, ``"precomputed"``, or a function of two matrices.
    degree : int, default=3
        Degree of the polynomial kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Inverse width of the named kernels: ``"scale"`` is 1 / (d var(X)), ``"auto"`` is 1 / d.
    coef0 : float, default=0.0
        Constant term of the polynomial and sigmoid kernels.
    tol : float, default=1e-3
        Bound on the worst KKT violation and on the relative duality gap.
    shrinking : bool, default=True
        Whether to set aside variables that stay at a bound, when the kernel rows do not fit the cache.
    cache_size : float, default=200
        Megabytes of kernel rows to cache at most; kernels that are cheap to recompute use at most 256. On a GPU,
        ``memory`` is the limit instead.
    verbose : bool, default=False
        Whether to show progress: steps, duality gap and violation.
    max_iter : int, default=-1
        Limit on pair steps; -1 for none, except that problems of more than 2,048 variables give up after 10,000 steps
        for each.
    approximation : map or None, default=None
        ``Nystroem`` or another map ψ: the machine, and its certificate, are then those of the kernel ``<ψ(x), ψ(z)>``.
    max_time : float or None, default=None
        Time limit in seconds.
    n_jobs : int or None, default=None
        Threads; by default all cores.
    memory : int, str or None, default=None
        Bytes for tiles of the kernel matrix in ``predict``.
    device : {"cuda", "cuda:0", ..., "auto"} or None, default=None
        A GPU that computes kernel rows (``pip install '.[gpu]'``), with ``"auto"`` if it can. Not saved with the model.

    Attributes
    ----------
    support_vectors_ : array or CSR of shape (s, d)
        The support vectors; empty for a precomputed kernel and with ``approximation``.
    fit_status_ : int
        0 if the fit converged, else 1.
    shape_fit_ : tuple of int
        Shape of the training rows.
    approximation_ : estimator
        The fitted map, if ``approximation`` is given.
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
    _set_up: ClassVar[Any]
    """Validate the data, and prepare what fits share that differ only in ``_along``."""
    _learn: ClassVar[Any]
    """Solve the problem and set the fitted attributes; return where to start if C grows by a factor."""
    _over_blocks: ClassVar[str]
    """The estimator to use instead for rows that come in blocks, as named in the error."""
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "degree": [Interval(Integral, 0, None, closed="left")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
        "shrinking": ["boolean"],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
    }

    def __sklearn_tags__(self) -> Any:
        tags = kernel_tags(super().__sklearn_tags__(), self.kernel)
        tags.input_tags.sparse &= not is_precomputed(self.kernel)
        return tags

    @parameters_checked
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), or (n, n) for ``kernel="precomputed"``
            Training rows.
        y : array-like of shape (n,)
            Targets, or class labels of any type; ``OneClassSVM`` ignores it.
        sample_weight : array-like of shape (n,) or None, default=None
            Multiplies C row by row; zero removes a row, a whole number repeats it. A negative one removes the row too,
            as in scikit-learn, with a warning.
        """
        with restored_on_failure(self):
            self._learn(self._set_up(X, y, sample_weight))
        return self

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

    def _training(self, X: Any, sample_weight: Any, order: Index | None = None) -> TrainingRows:
        """Drop rows of weight zero and set up the kernel between the others, in the order given."""
        n, X = _num_samples(X), X if is_precomputed(self.kernel) else wide(X)
        refuse_device(self)
        weight = row_weights(sample_weight, X, negative=True)
        kept = np.arange(n) if order is None else order
        kept = kept[weight[kept] > 0]
        used = slice(None) if kept.size == n else np.sort(kept)
        kernel = self._resolved(X[used], weight[used])
        if self.approximation is not None:
            rows: Any = self._feature_matrix(X, kernel, kept)
            return TrainingRows(kept, weight[kept], rows.features.kernel_, rows)
        return TrainingRows(kept, weight[kept], kernel, self._gram_rows(X, kernel, kept))

    def _gram_rows(self, X: Any, kernel: Kernel, kept: Index) -> GramRows:
        precomputed = is_precomputed(self.kernel)
        if isinstance(kernel, Table):
            ids = X[kept, 0].astype(np.intp)
            return StoredMatrix(self._gram(kernel, X[kept]), None, True, matrix=kernel.matrix, ids=ids)
        if is_sparse(X) and small(X, kernel):
            X = X.toarray()
        rows = X[np.ix_(kept, kept)] if precomputed else X[kept]
        if self.device is not None and (gram := self._gram(kernel, rows)).card is not None:
            return CardMatrix(gram, None, True)
        if precomputed:
            K = np.ascontiguousarray(rows)
            return StoredMatrix(self._gram(kernel, K), None, False, matrix=K, ids=np.arange(kept.size))
        direct = isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] <= DIRECT_INPUTS
        direct = direct and isinstance(kernel, Dot | Radial)
        single = self._narrow(kernel, X, kept)
        if single is None:
            return GramRows(self._gram(kernel, rows), None, direct)
        full = Wide(lambda i, j: kernel(X[kept[i]], X[kept[j]]), cache(lambda: self._gram(kernel, X[kept])))
        return GramRows(single, full, direct)

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
        worth = n >= NARROW_ROWS and self.tol >= NARROW_TOL and not math.isinf(getattr(self, "C", 1.0))
        if not worth or is_precomputed(self.kernel) or not isinstance(X, np.ndarray) or X.dtype != np.float64:
            return None
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                gram = self._gram(kernel, X.astype(np.float32)[kept])
        except ValueError:  # rows or kernel values overflow float32
            return None
        probes, others = (np.linspace(0, n - 1, min(count, n)).astype(np.intp) for count in (PROBES, PROBED))
        exact = kernel(X[kept[probes]], X[kept[others]])
        lost = np.abs(gram.rows(probes, others) - exact).max()
        largest = float(np.abs(exact).max())
        return gram if lost <= NARROW_LOSS * largest and HELD[0] < largest < HELD[1] else None

    @classmethod
    def _fit_path(cls, machines: Sequence[Any], X: Any, y: Any = None, sample_weight: Any = None) -> None:
        """Fit machines that differ only in ``_along`` on shared kernel rows, each warm-started from the one before."""
        for machine in machines:
            machine._validate_params()
        strictest = max(machines, key=lambda machine: getattr(machine, "C", 1.0))  # needs the most precise kernel rows
        prepared = strictest._set_up(X, y, sample_weight)
        learned = [name for name in vars(strictest) if name.endswith("_") or name in ("_fitted_to", "_gamma")]
        found = {name: vars(strictest)[name] for name in learned}
        start: Any = None
        for machine, growth in cls._in_turn(machines):
            vars(machine).update(found)
            start = machine._learn(prepared, start(growth) if growth else None)

    @classmethod
    def _in_turn(cls, machines: Any) -> Iterator[tuple[Any, float]]:
        """Machines by ascending C, each with the ratio of its C to the previous one; 0 for a cold start."""
        # ν fixes the sums of the dual variables, so the previous solution is not feasible for the next ν.
        if "C" not in cls._along or "nu" in cls._along:
            yield from ((machine, 0.0) for machine in machines)
            return
        last = math.inf
        for machine in sorted(machines, key=lambda machine: machine.C):
            growth = machine.C / last
            yield machine, growth if math.isfinite(growth) and getattr(machine, "fit_intercept", True) else 0.0
            last = machine.C

    def _solver_options(self) -> dict[str, Any]:
        return {"tol": self.tol, "max_iter": self.max_iter, "shrinking": self.shrinking}

    def _check_symmetric(self, kernel: Kernel, X: Any) -> None:
        """Raise an error if a kernel function or matrix given by the user is not symmetric."""
        if isinstance(kernel, Callable | Precomputed):
            self._gram(kernel, X).check_symmetric()

    def _keep(self, X: Any, training: TrainingRows, used: Index, dual: Vector, kind: Index) -> None:
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

    def _report(self, certificates: list[Certificate], convex: bool) -> None:
        """Store the certificates, and warn if the fit did not converge."""
        self.certificates_ = certificates
        self.certificate_ = max(self.certificates_, key=lambda c: (not c.converged, c.figure))
        self.fit_status_ = int(not self.certificate_.converged)
        if not convex:
            warn(
                f"{type(self).__name__}: the kernel is not positive semi-definite on these data, so the fit is a "
                "stationary point and perhaps not an optimum; check the kernel with gramian.kernels.is_kernel.",
                ConvergenceWarning,
            )
        early = not self.certificate_.converged and 0 <= self.max_iter <= self.certificate_.iterations
        warn_unless_converged(self.certificate_, self, f"{EARLY.format(self.max_iter)} " if early else "")


def kinds(beta: Vector, lower: Vector, upper: Vector) -> Index:
    """Return the kind of each variable: 0 peripheral, 1 on the margin, 2 violator. beta, lower, upper (m,)."""
    at_bound = (beta == lower) | (beta == upper)
    return np.where(beta == 0, 0, np.where(at_bound, 2, 1))
