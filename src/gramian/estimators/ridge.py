"""Kernel ridge regression: exact, iterative or in the features of a map, with leave-one-out and a certificate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions

from gramian.data.passes import Held, Part, Passes
from gramian.docstrings import documented
from gramian.estimators.base import (
    COMMON,
    KernelExpansion,
    adapted,
    as_grid,
    fitting,
    forget,
    is_blocks,
    kept_in_features,
    opened,
    refuse,
    refuse_device,
    resolved,
    row_weights,
    rows_of,
    sampled,
)
from gramian.features.base import WorkerMap, available_if, fit_map, parameters_checked
from gramian.gram import Gram
from gramian.gram.operator import wide
from gramian.kernels import Kernel
from gramian.kernels.conditional import refuse_conditional
from gramian.kernels.resolve import is_precomputed
from gramian.progress import Clock
from gramian.rkhs import Function
from gramian.solvers.choice import Choice
from gramian.solvers.in_features.least_squares import moments, solve, targets_of
from gramian.solvers.linear.folds import Folds
from gramian.solvers.linear.ridge import Moments, RidgeProblem
from gramian.solvers.solution import Solution
from gramian.warning import warn


@documented
@dataclass(eq=False, repr=False)
class KernelRidge(KernelExpansion):
    """Kernel ridge regression: the f that minimises ``Σ_i w_i (f(x_i) - y_i)² + alpha ‖f‖²``.

    Parameters, defaults and attributes are those of scikit-learn. In addition, K need not fit in memory, and there are
    exact leave-one-out and a certificate.

    Parameters
    ----------
    alpha : float, array-like of shape (k,) or "loo", default=1
        Regularisation, >= 0; one for all targets or one for each. Zero interpolates. ``"loo"`` takes, for each target,
        the value of ``alphas`` with the least leave-one-out error.
    kernel : str, Kernel or callable, default="linear"
        The kernel; ``"precomputed"`` if X is the Gram matrix.
    fit_intercept : bool, default=False
        Whether to add a constant that is not penalised: ``f(x) + intercept_``.
    alphas : array-like of shape (g,) or None, default=None
        The grid for ``alpha="loo"``; by default 25 values over ten decades below the largest eigenvalue of K.
    store_loo : bool, default=False
        Whether to keep ``loo_residuals_``.
    solver : {"auto", "cholesky", "pcg"}, default="auto"
        ``"cholesky"`` factorises K in one n x n float64 array; ``"pcg"`` is preconditioned conjugate gradients, for
        which K need not fit in memory. ``"auto"`` decides by n, ``memory``, ``tol`` and alpha; see ``solver_``.
    approximation : map or None, default=None
        An unfitted ``Nystroem``, ``FourierFeatures`` or ``PolynomialMap``: the regression is then solved in its
        features, and ``partial_fit`` takes the rows in parts. Set the kernel here and leave that of the map at its
        default; ``PolynomialMap`` defines its own kernel, and the kernel here is left at its default.
    tol : float, default=1e-6
        The relative residual to reach and certify.
    max_iter : int, default=1000
        The most iterations of ``"pcg"``.
    max_time : float or None, default=None
        Seconds after which ``"pcg"`` returns the best so far with a warning; ``"cholesky"`` raises ``TimeoutError``.
    device : {"cuda", "cuda:0", ..., "auto"} or None, default=None
        Where K is computed and multiplied: by default on the CPU; on a GPU, through torch
        (``pip install '.[gpu]'``); or, with ``"auto"``, on a GPU if there is one and the kernel can run there.
        It is not saved with the model.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the landmarks of the preconditioner of ``"pcg"``, which are always the same with ``None``, and of
        ``approximation``.
    warm_start : bool, default=False
        Whether ``"pcg"`` starts from the coefficients of the last fit; the other solvers need no start.
    {those of KernelParameters}

    Attributes
    ----------
    dual_coef_ : array of shape (n,) or (n, k)
        Coefficients in float64, with ``Nystroem`` those at its landmarks; absent with other maps.
    coef_ : array of shape (m,) or (m, k)
        With a map that has no landmarks: the weights of its features, instead of ``dual_coef_``, ``X_fit_`` and
        ``function_``.
    intercept_ : float or array of shape (k,)
        With ``fit_intercept``: the constant; the dual coefficients then sum to zero.
    X_fit_ : array, CSR or array of object of shape (n, d)
        The rows that the coefficients belong to.
    function_ : Function or array of Function
        The fitted function, or one per target, without the constant; an expansion at the rows of positive weight.
    alpha_ : float or array of shape (k,)
        The regularisation used.
    certificate_ : Certificate
        The relative residual, recomputed in float64.
    n_iter_ : int
        Iterations of ``"pcg"``; one for a direct solver.
    solver_ : Choice
        Which solver was used, and why.
    loo_residuals_ : array of shape (n,) or (n, k)
        With ``store_loo`` or ``alpha="loo"``: each target minus its prediction by the fit without its row; ``nan`` for
        rows of weight zero.
    alphas_ : array of shape (g,)
        With ``alpha="loo"``: the grid.
    loo_path_ : array of shape (g,) or (g, k)
        With ``alpha="loo"``: the weighted mean squared leave-one-out errors.
    approximation_ : estimator
        The fitted map, if there is one.
    {those of KernelParameters}

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.ridge import KernelRidge
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> model = KernelRidge(alpha="loo", kernel="rbf").fit(X, np.sin(X[:, 0]))
    >>> model.predict([[1.0]]).round(3)
    array([0.841])
    >>> model.certificate_.converged
    True
    >>> model.solver_.name
    'eigenvectors'
    """

    alpha: Any = 1
    _: KW_ONLY
    kernel: Any = "linear"
    fit_intercept: bool = False
    alphas: Any = None
    store_loo: bool = False
    solver: str = "auto"
    approximation: Any = None
    tol: float = 1e-6
    max_iter: int = 1000
    device: str | None = None
    random_state: Any = None
    warm_start: bool = False

    _elsewhere: ClassVar[dict[str, str]] = {
        "lam": "write alpha=n*lam, for the mean of squares plus lam ‖f‖².",
        "C": "write alpha=1/(2*C).",
    }
    _along = ("alpha",)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"loo"}), "array-like"],
        "fit_intercept": ["boolean"],
        "alphas": ["array-like", None],
        "store_loo": ["boolean"],
        "solver": [StrOptions({"auto", "cholesky", "pcg"})],
    }

    # ---- fit ----------------------------------------------------------------------------------------------------

    @parameters_checked
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the function.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), Blocks, path or Dask collection
            Rows; the square Gram matrix if the kernel is precomputed; objects if the kernel compares objects.
        y : array-like of shape (n,) or (n, k)
            Targets; ``Blocks`` contain theirs.
        sample_weight : float, array-like of shape (n,) or None, default=None
            Weights >= 0; a row of weight zero is left out.
        """
        with fitting(self) as clock:
            refuse_device(self)
            if self.approximation is None:
                self._fit_exactly(X, y, sample_weight, clock)
            else:
                with self._passes(X, y, sample_weight) as passes:
                    self._fit_in_features(passes, clock)
        return self

    @classmethod
    def _fit_path(cls, machines: Sequence[Any], X: Any, y: Any = None, sample_weight: Any = None) -> None:
        """Fit machines that differ only in alpha, as targets of one fit that share each product with K."""
        Y = np.asarray(y)
        together = [m for m in machines if np.ndim(m.alpha) == 0 and not isinstance(m.alpha, str) and not m.store_loo]
        for machine in machines:
            if machine not in together or len(together) == 1:
                machine.fit(X, y, sample_weight)
        if len(together) < 2:
            return
        for machine in together:
            machine._validate_params()
        all_of_them, k = cls(**together[0].get_params(deep=False)), 1 if Y.ndim == 1 else Y.shape[1]
        all_of_them.alpha = np.repeat([float(machine.alpha) for machine in together], k)
        all_of_them.fit(X, np.tile(Y.reshape(len(Y), -1), len(together)), sample_weight)
        learned = {name: value for name, value in vars(all_of_them).items() if name.endswith("_")}
        for i, machine in enumerate(together):
            dual = all_of_them.dual_coef_[:, i * k : (i + 1) * k].reshape(Y.shape)
            ridge = np.asarray(all_of_them.alpha_)[i * k : (i + 1) * k]
            alpha = float(ridge[0]) if Y.ndim == 1 else ridge
            vars(machine).update(learned, dual_coef_=dual, alpha_=alpha, _weights=all_of_them._weights)
            if machine.fit_intercept:
                constants = np.asarray(all_of_them.intercept_)[i * k : (i + 1) * k]
                machine.intercept_ = float(constants[0]) if Y.ndim == 1 else constants

    @classmethod
    def _across_folds(
        cls, machines: Sequence[Any], gram: Gram, K: Any, y: Any, sample_weight: Any, trains: Sequence[Any]
    ) -> Iterator[NDArray[np.float64]] | None:
        """Predictions at all rows of machines that differ only in alpha, each fitted to several parts of the rows.

        Yields one array (parts, n) or (parts, n, k) per machine; None if fitting one by one is better.
        """
        for machine in machines:
            machine._validate_params()
        first, numbers = machines[0], all(not isinstance(m.alpha, str) and np.ndim(m.alpha) == 0 for m in machines)
        if not numbers or first.fit_intercept or first.solver != "auto":
            return None
        Y = check_array(y, dtype=np.float64, ensure_2d=False)
        weights = np.zeros((len(Y), len(trains)))
        for part, rows in zip(weights.T, trains, strict=True):
            part[rows] = row_weights(sample_weight, Y)[rows]
        ridges, columns = np.array([float(m.alpha) for m in machines]), Y.reshape(len(Y), -1)
        found = Folds(gram, K, columns, weights, ridges, first.tol, first.random_state).predictions()
        return None if found is None else (values.reshape(len(trains), *Y.shape) for values in found)

    def _regularisation(self, targets: int) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        """One alpha per target, or None and the grid to choose it from."""
        if isinstance(self.alpha, str):
            if self.solver != "auto":
                raise ValueError(
                    f"alpha='loo' decomposes K into eigenvectors; leave solver='auto', got {self.solver!r}."
                )
            return None, None if self.alphas is None else as_grid("alphas", self.alphas)
        if self.alphas is not None:
            raise ValueError(f"alphas is the grid of alpha='loo', but alpha={self.alpha!r}; set one of the two.")
        alpha = np.atleast_1d(np.asarray(self.alpha, dtype=np.float64))
        if alpha.ndim != 1 or alpha.size not in (1, targets):
            raise ValueError(
                f"Number of targets and number of penalties do not correspond: alpha has shape {alpha.shape}, y has "
                f"{targets} targets; pass one number or {targets}."
            )
        if not np.all(np.isfinite(alpha)) or np.any(alpha < 0):
            raise ValueError(f"alpha must be finite and >= 0, got {self.alpha!r}.")
        return np.broadcast_to(alpha, (targets,)).copy(), None

    def _keep(self, found: Solution, choice: Choice, kernel: Kernel, shape: tuple[int, ...]) -> None:
        """Set the attributes of every fit, and delete those of earlier ones; ``shape`` is that of one target."""
        forget(self)
        self.kernel_, self.solver_, self.certificate_ = kernel, choice, found.certificate
        self.n_iter_ = max(found.certificate.iterations, 1)
        self.alpha_ = found.ridge if shape else float(found.ridge[0])
        if found.path is not None:
            self.alphas_, self.loo_path_ = found.grid, found.path.reshape(-1, *shape)

    def _keep_left_out(self, found: Solution, rows: NDArray[Any], n: int, shape: tuple[int, ...]) -> None:
        if found.loo is not None:
            self.loo_residuals_ = np.full((n, *shape), np.nan)
            self.loo_residuals_[rows] = found.loo.reshape(-1, *shape)

    # ---- with all of K ------------------------------------------------------------------------------------------

    def _fit_exactly(self, X: Any, y: Any, sample_weight: Any, clock: Clock) -> None:
        if is_blocks(X):
            refuse(self)
        X, y = self._validated(X, y)
        all_weights, shape = row_weights(sample_weight, X), y.shape[1:]
        kernel = self._resolved(X, all_weights)
        conditional = kernel.conditional_order
        if conditional > 1:
            refuse_conditional(kernel)
        rows = np.flatnonzero(all_weights)
        Y, weights, points = y.reshape(y.shape[0], -1)[rows], all_weights[rows], rows_of(kernel, X, rows)
        ridge, grid = self._regularisation(Y.shape[1])
        start = getattr(self, "dual_coef_", None) if self.warm_start else None
        start = start.reshape(-1, Y.shape[1])[rows] if start is not None and start.size == y.size else None
        how: Any = {name: getattr(self, name) for name in ("solver", "tol", "max_iter", "random_state", "verbose")}
        how |= {"loo": self.store_loo, "clock": clock}
        if conditional and self.solver == "auto":
            how["solver"] = "cholesky"  # conjugate gradients need a kernel that is positive semi-definite
        trend = np.ones((rows.size, 1)) if self.fit_intercept else None
        problem = RidgeProblem(self._gram(kernel, points), Y, weights, ridge, grid, start, trend, rows, **how)
        found, choice = problem.solve(wide(points))
        if choice.name == "least squares":
            message = f"Singular matrix in solving dual problem. Using least-squares solution instead: {choice.reason}"
            warn(message)
        self._keep(found, choice, kernel, shape)
        self._keep_left_out(found, rows, y.shape[0], shape)
        self.X_fit_, self.dual_coef_, self._weights = X, np.zeros(y.shape), all_weights
        self.dual_coef_[rows] = found.x.reshape(-1, *shape)
        if found.trend is not None:
            self.intercept_ = found.trend[0] if shape else float(found.trend[0, 0])

    def _functions(self, kernel: Kernel, X: Any, dual: NDArray[np.float64]) -> list[Function]:
        if not hasattr(self, "_weights"):  # in the features of a map
            return super()._functions(kernel, X, dual)
        rows = np.flatnonzero(self._weights)
        points, dual, weights = rows_of(kernel, X, rows), dual[rows], self._weights[rows]
        if hasattr(self, "intercept_"):  # no power function: that of f ignores the uncertainty of the constant
            return super()._functions(kernel, points, dual)
        ridges = np.atleast_1d(self.alpha_)
        return [self._function(kernel, points, a, r / weights, r) for a, r in zip(dual.T, ridges, strict=True)]

    def _resolved(self, X: Any, weights: Any = None) -> Kernel:
        return resolved(self, X, weights, conditional=self.fit_intercept and self.solver != "pcg")

    def _beside(self, X: Any) -> Any:
        return getattr(self, "intercept_", 0.0)

    # ---- in the features of a map -------------------------------------------------------------------------------

    def _passes(self, X: Any, y: Any, sample_weight: Any, *, reset: bool = True) -> AbstractContextManager[Passes]:
        """Open passes over rows, in memory or in blocks."""
        if self.fit_intercept:
            raise ValueError(
                "fit_intercept=True cannot be combined with approximation=; use "
                "KernelMachineRegressor('squared', lam=alpha/n, approximation=...), which has a constant there too."
            )
        if not is_blocks(X):
            if self.solver != "auto":
                raise ValueError(f"solver={self.solver!r} cannot be combined with approximation=; leave solver='auto'.")
            X, y = self._validated(X, y, reset=reset)
            weights = None if sample_weight is None else row_weights(sample_weight, X)
            X = Held(X, y, weights, memory=self.memory)
        return opened(self, X, y, sample_weight)

    def _penalties(self, sample: Part) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        ridge, grid = self._regularisation(targets_of(sample).shape[1])
        if ridge is not None and ridge.min() == 0:
            raise ValueError("alpha=0 interpolates, which an approximation of the kernel cannot do; use alpha > 0.")
        return ridge, grid

    def _fitted_map(self, passes: Passes, sample: Part) -> Any:
        return fit_map(adapted(self, self._resolved(wide(sample.X), sample.weight)), passes, sample, error=False)

    def _fit_in_features(self, passes: Passes, clock: Clock) -> None:
        held = passes.blocks if isinstance(passes.blocks, Held) else None
        if self.store_loo and held is None:
            raise ValueError("store_loo=True keeps a number for every row; over blocks leave store_loo=False.")
        sample = sampled(self, passes)
        ridge, grid = self._penalties(sample)
        features = self._fitted_map(passes, sample)
        options: Any = {"solver": self.solver, "tol": self.tol, "max_iter": self.max_iter, "clock": clock}
        loo = held is not None and (self.store_loo or ridge is None)
        fit = solve(passes, WorkerMap.of(features, sample.X[:1]), sample, ridge, grid=grid, loo=loo, **options)
        if hasattr(features, "trace_error_"):
            features.trace_error_ = fit.error
        shape = self._keep_in_features(fit.found, fit.choice, features, sample)
        if held is None:
            self._moments = fit.moments
        else:
            self._keep_left_out(fit.found, held.all.index, held.total, shape)

    def _keep_in_features(self, found: Solution, choice: Choice, features: Any, sample: Part) -> tuple[int, ...]:
        """Store a fit by its weights, or as an expansion at the map's landmarks; return the shape of one target."""
        shape = sample.y.shape[1:] if sample.y is not None else ()
        self._keep(found, choice, features.kernel_, shape)
        self.__dict__.update(kept_in_features(features, found.x.reshape(-1, *shape), sample.X.dtype))
        return shape

    @available_if(lambda self: self.approximation is not None)
    @parameters_checked
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add rows to a fit in the features of ``approximation``, which is fitted to the rows of the first call.

        The result is the same as fitting all rows so far at once, except that what the map learns from rows (the
        landmarks of ``Nystroem``, the default gamma) comes from the first call only.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, k)
            Targets.
        sample_weight : float, array-like of shape (n,) or None, default=None
            Weights >= 0.
        """
        with fitting(self) as clock:
            past: Moments | None = getattr(self, "_moments", None)
            if is_precomputed(self.kernel):
                raise ValueError("partial_fit needs rows, not a precomputed Gram matrix.")
            with self._passes(X, y, sample_weight, reset=past is None) as passes:
                sample = sampled(self, passes)
                ridge = self._penalties(sample)[0]
                if ridge is None or self.store_loo:
                    raise ValueError("leave-one-out needs all rows at once: use fit, or give alpha as a number.")
                if past is not None and past.right.shape[1] != ridge.size:
                    raise ValueError(f"y has {ridge.size} targets, but had {past.right.shape[1]} in earlier parts.")
                features = self.approximation_ if past is not None else self._fitted_map(passes, sample)
                sums, error = moments(passes, WorkerMap.of(features, sample.X[:1]))
            if past is not None:
                sums = past + sums
            elif hasattr(features, "trace_error_"):
                features.trace_error_ = error
            choice = Choice("moments", "sums to which further rows can be added")
            self._keep_in_features(sums.solve(ridge, tol=self.tol, clock=clock), choice, features, sample)
            self._moments = sums
        return self
