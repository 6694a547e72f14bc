"""Kernel ridge regression: exact, iterative or in the space of a map, with leave-one-out and a certificate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, _num_samples

from gramian.data.held import Held
from gramian.data.parts import Part
from gramian.data.passes import Passes
from gramian.estimators.approximation import APPROXIMATION, adapted, opened, refuse, sampled
from gramian.estimators.base import (
    COMMON,
    KERNEL,
    KernelExpansion,
    as_array,
    as_grid,
    is_blocks,
    restored_on_failure,
    rows_of,
    warn_unless_converged,
    wide,
)
from gramian.features.fitting import fit_map
from gramian.gram import Gram
from gramian.gram.operator import as_predicted
from gramian.kernels import Kernel
from gramian.kernels.resolve import is_precomputed
from gramian.progress import Clock, progress
from gramian.resources import readable
from gramian.solvers.choice import Choice, choose, worthwhile_iterations
from gramian.solvers.in_features.least_squares import moments, solve, targets_of
from gramian.solvers.in_features.worker_map import WorkerMap
from gramian.solvers.linear import pcg
from gramian.solvers.linear.least_squares import LeastSquares, Moments, by_cholesky, by_eigenvectors, measured

__all__ = ["KernelRidge"]

EIGEN_MATRICES = 4
"""K, its eigenvectors, and twice as much workspace in LAPACK's divide and conquer."""
OPTIONAL = ("dual_coef_", "X_fit_", "function_", "coef_", "loo_residuals_", "alphas_", "loo_path_", "approximation_")
"""What one fit has and the next may not."""


@dataclass(frozen=True, eq=False)
class _Problem:
    """The rows that count, their targets, and what is asked for."""

    kernel: Kernel
    X: Any
    rows: NDArray[np.intp]
    Y: NDArray[np.float64]
    weights: NDArray[np.float64]
    ridge: NDArray[np.float64] | None
    grid: NDArray[np.float64] | None


class KernelRidge(KernelExpansion):
    """Kernel ridge regression: the f that minimises ``Σ_i w_i (f(x_i) - y_i)² + alpha ‖f‖²``.

    Parameters, defaults and attributes are scikit-learn's; more rows than fit in memory, exact leave-one-out and a
    certificate are added.

    Parameters
    ----------
    alpha : float, array-like of shape (k,) or "loo", default=1
        Regularisation, >= 0; one for all targets or one each. Zero interpolates. ``"loo"`` takes, for each target, the
        value of ``alphas`` with the least leave-one-out error.
    kernel : str, Kernel or callable, default="linear"
        The kernel; ``"precomputed"`` where X is the Gram matrix.
    gamma : float or None, default=None
        Of a kernel given by name; ``None`` for 1 / d.
    degree : float, default=3
        Of the polynomial kernel.
    coef0 : float, default=1
        Of the polynomial and sigmoid kernels.
    kernel_params : dict or None, default=None
        Further keyword arguments of a callable kernel.
    alphas : array-like of shape (g,) or None, default=None
        The grid of ``alpha="loo"``; by default 25 values over ten decades below the largest eigenvalue of K.
    store_loo : bool, default=False
        Whether to keep ``loo_residuals_``.
    solver : {"auto", "cholesky", "pcg"}, default="auto"
        ``"cholesky"`` factorises K in one n x n float64 array; ``"pcg"`` is preconditioned conjugate gradients, for
        which K need not fit in memory. ``"auto"`` decides by n, ``memory``, ``tol`` and alpha; see ``solver_``.
    approximation : map or None, default=None
        An unfitted ``Nystroem``, ``FourierFeatures`` or ``PolynomialMap``: the ridge is then solved in its space, for
        the kernel that it makes explicit, and ``partial_fit`` takes the rows in parts. The kernel is set here and left
        at the default there; ``PolynomialMap`` has a kernel of its own, and the kernel here is left at the default.
    memory : int, str or None, default=None
        Bytes to hold at most, as a number or ``"2GB"``; by default half of what is available.
    tol : float, default=1e-6
        Relative residual to reach and to certify.
    max_iter : int, default=1000
        Iterations of ``"pcg"`` at most.
    max_time : float or None, default=None
        Seconds; ``"pcg"`` then returns the best so far with a warning, ``"cholesky"`` raises ``TimeoutError``.
    n_jobs : int or None, default=None
        Threads; ``None`` for every core.
    verbose : int or bool, default=False
        Whether to show a progress bar.
    random_state : int, RandomState or None, default=None
        Draws the landmarks of ``"pcg"``'s preconditioner and of ``approximation``.
    warm_start : bool, default=False
        Whether ``"pcg"`` starts from the coefficients of the last fit; the other solvers need no start.

    Attributes
    ----------
    dual_coef_ : array of shape (n,) or (n, k)
        Coefficients, float64; at the landmarks of a ``Nystroem`` approximation, and absent with other maps.
    coef_ : array of shape (m,) or (m, k)
        With a map that has no landmarks: the weights of its features, in place of ``dual_coef_``, ``X_fit_`` and
        ``function_``.
    X_fit_ : array, CSR or array of object of shape (n, d)
        The rows they belong to.
    function_ : Function or array of Function
        The fitted function, or one per target, on the rows of positive weight.
    alpha_ : float or array of shape (k,)
        The regularisation used.
    certificate_ : Certificate
        The relative residual, recomputed in float64.
    n_iter_ : int
        Iterations of ``"pcg"``; one for a direct solver.
    solver_ : Choice
        Which solver was used, and why.
    kernel_ : Kernel
        The kernel used.
    loo_residuals_ : array of shape (n,) or (n, k)
        With ``store_loo`` or ``alpha="loo"``: each target less its prediction by the fit without its row; ``nan`` for
        rows of weight zero.
    alphas_ : array of shape (g,)
        With ``alpha="loo"``: the grid.
    loo_path_ : array of shape (g,) or (g, k)
        With ``alpha="loo"``: the weighted mean squared leave-one-out errors.
    approximation_ : estimator
        The fitted map, where there is one.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, where X had names.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"loo"}), "array-like"],
        **KERNEL,
        "alphas": ["array-like", None],
        "store_loo": ["boolean"],
        "solver": [StrOptions({"auto", "cholesky", "pcg"})],
        "approximation": APPROXIMATION,
        "random_state": COMMON["random_state"],
        "warm_start": COMMON["warm_start"],
    }

    def __init__(
        self,
        alpha: Any = 1,
        *,
        kernel: Any = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        alphas: Any = None,
        store_loo: bool = False,
        solver: str = "auto",
        approximation: Any = None,
        memory: int | str | None = None,
        tol: float = 1e-6,
        max_iter: int = 1000,
        max_time: float | None = None,
        n_jobs: int | None = None,
        verbose: int | bool = False,
        random_state: Any = None,
        warm_start: bool = False,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.alphas = alphas
        self.store_loo = store_loo
        self.solver = solver
        self.approximation = approximation
        self.memory = memory
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.warm_start = warm_start

    # ---- fit ----------------------------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the function.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), Blocks, path or Dask collection
            Rows; the square Gram matrix where the kernel is precomputed; objects where the kernel compares objects.
        y : array-like of shape (n,) or (n, k)
            Targets; ``Blocks`` have their own.
        sample_weight : float, array-like of shape (n,) or None, default=None
            Weights >= 0; a row of weight zero is as good as absent.

        Returns
        -------
        KernelRidge
            The fitted estimator.
        """
        clock = Clock(self.max_time)
        with restored_on_failure(self):
            if self.approximation is None:
                self._fit_exactly(X, y, sample_weight, clock)
            else:
                with self._passes(X, y, sample_weight) as passes:
                    self._fit_in_features(passes, clock)
        warn_unless_converged(self.certificate_, self)
        return self

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

    def _keep(self, found: LeastSquares, choice: Choice, kernel: Kernel, ravel: bool) -> None:
        """Keep what every fit leaves behind, and forget what this one does not."""
        for name in (*OPTIONAL, "_landmarks", "_moments"):
            self.__dict__.pop(name, None)
        self.kernel_, self.solver_, self.certificate_ = kernel, choice, found.certificate
        self.n_iter_ = max(found.certificate.iterations, 1)
        self.alpha_ = float(found.ridge[0]) if ravel else found.ridge
        if found.path is not None:
            self.alphas_, self.loo_path_ = found.grid, found.path.ravel() if ravel else found.path

    def _keep_expansion(self, X: Any, dual: NDArray[np.float64], functions: list[Any], ravel: bool) -> None:
        self.X_fit_, self.dual_coef_ = X, dual.ravel() if ravel else dual
        self.function_ = as_array(functions, ravel)

    def _keep_left_out(self, loo: NDArray[np.float64] | None, rows: NDArray[Any], n: int, ravel: bool) -> None:
        if loo is not None:
            loo = _spread(loo, rows, n, np.nan)
            self.loo_residuals_ = loo.ravel() if ravel else loo

    # ---- with all of K ------------------------------------------------------------------------------------------

    def _fit_exactly(self, X: Any, y: Any, sample_weight: Any, clock: Clock) -> None:
        if is_blocks(X):
            refuse(self)
        X, y = self._validated(X, y)
        p, ravel, n = self._problem(X, y, sample_weight), y.ndim == 1, _num_samples(X)
        gram = self._gram(p.kernel, p.X, p.rows)
        found, choice = self._solve_exactly(gram, p, clock)
        root = np.sqrt(p.weights)[:, None]
        values = as_predicted(gram, wide(rows_of(p.kernel, p.X, p.rows)), found.x)
        found = measured(found, root * (p.Y - values) - found.ridge * (found.x / root), root * p.Y, self.tol)
        functions = self._functions(p.kernel, rows_of(p.kernel, p.X, p.rows), found.x)
        functions = [replace(f, ridge=r / p.weights, noise=r) for f, r in zip(functions, found.ridge, strict=True)]
        self._keep(found, choice, p.kernel, ravel)
        self._keep_expansion(X, _spread(found.x, p.rows, n, 0.0), functions, ravel)
        self._keep_left_out(found.loo, p.rows, n, ravel)

    def _problem(self, X: Any, y: NDArray[np.float64], sample_weight: Any) -> _Problem:
        Y, weights = y.reshape(y.shape[0], -1), np.ones(y.shape[0])
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
        rows = np.flatnonzero(weights)
        if rows.size == 0:
            raise ValueError("sample_weight must be positive for at least one row; all weights are zero.")
        ridge, grid = self._regularisation(Y.shape[1])
        return _Problem(self._resolved(X), X, rows, Y[rows], weights[rows], ridge, grid)

    def _solve_exactly(self, gram: Gram, p: _Problem, clock: Clock) -> tuple[LeastSquares, Choice]:
        if p.ridge is None:
            return self._by_leave_one_out(gram, p, clock)
        choice = self._choice(gram, p.ridge)
        if choice.name == "pcg":
            # Where K fits, the iteration may cost no more than the factorisation that would do instead.
            spare = self.solver == "auto" and gram.fits
            most = min(self.max_iter, worthwhile_iterations(gram.shape[0])) if spare else self.max_iter
            found = self._iterate(gram, p, most, clock)
            done = found.certificate
            if done.converged or not spare or clock.expired:
                return found, choice
            choice = Choice("cholesky", f"pcg was at residual {done.violation:.0e} after {done.iterations} iterations")
        with progress(self.verbose, "KernelRidge, cholesky", 1.0) as tick:
            options: Any = {"loo": self.store_loo, "tol": self.tol, "names": p.rows, "clock": clock, "tick": tick}
            return by_cholesky(gram, p.Y, p.ridge, p.weights, **options), choice

    def _by_leave_one_out(self, gram: Gram, p: _Problem, clock: Clock) -> tuple[LeastSquares, Choice]:
        needed = EIGEN_MATRICES * gram.nbytes
        if needed > gram.memory:
            raise MemoryError(
                f"alpha='loo' needs {readable(needed)} for the Gram matrix, its eigenvectors and their workspace, and "
                f"memory is {readable(gram.memory)}; raise memory= or use approximation=Nystroem(...)."
            )
        found = by_eigenvectors(gram, p.Y, p.grid, p.weights, tol=self.tol, clock=clock)
        return found, Choice("eigenvectors", "one decomposition serves the whole grid of alpha='loo'")

    def _choice(self, gram: Gram, ridge: NDArray[np.float64]) -> Choice:
        if self.solver == "auto":
            return choose(gram, float(ridge.min()), self.tol, factor=self.store_loo)
        if self.solver == "pcg" and (self.store_loo or ridge.min() == 0):
            wanted = "store_loo=True" if self.store_loo else "alpha=0"
            raise ValueError(f"{wanted} needs a factorisation; use solver='cholesky' or 'auto' instead of 'pcg'.")
        return Choice(self.solver, "as asked")

    def _iterate(self, gram: Gram, p: _Problem, max_iter: int, clock: Clock) -> LeastSquares:
        ridge = np.asarray(p.ridge)
        options: Any = {"weights": p.weights, "start": self._start(p), "tol": self.tol, "max_iter": max_iter}
        with progress(self.verbose, "KernelRidge, pcg") as tick:
            found = pcg.solve(gram, p.Y, ridge, **options, random_state=self.random_state, clock=clock, tick=tick)
        return LeastSquares(found.x, found.certificate, ridge)

    def _start(self, p: _Problem) -> NDArray[np.float64] | None:
        """The coefficients of the last fit, where they are wanted and of the right shape."""
        last = getattr(self, "dual_coef_", None) if self.warm_start else None
        if last is None or last.size != _num_samples(p.X) * p.Y.shape[1]:
            return None
        return np.asarray(last.reshape(-1, p.Y.shape[1])[p.rows])

    # ---- in the space of a map ----------------------------------------------------------------------------------

    @contextmanager
    def _passes(self, X: Any, y: Any, sample_weight: Any, *, reset: bool = True) -> Iterator[Passes]:
        """Passes over rows, wherever they are."""
        if is_blocks(X):
            with opened(self, X, y, sample_weight) as passes:
                yield passes
            return
        if self.solver != "auto":
            raise ValueError(f"solver={self.solver!r} cannot be combined with approximation=; leave solver='auto'.")
        X, y = self._validated(X, y, reset=reset)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
        held = Held(X, y, sample_weight, memory=self.memory)
        with held.passes(n_jobs=self.n_jobs, verbose=self.verbose, label="KernelRidge") as passes:
            yield passes

    def _penalties(self, sample: Part) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        ridge, grid = self._regularisation(targets_of(sample).shape[1])
        if ridge is not None and ridge.min() == 0:
            raise ValueError("alpha=0 interpolates, which an approximation of the kernel cannot; use alpha > 0.")
        return ridge, grid

    def _fitted_map(self, passes: Passes, sample: Part) -> Any:
        return fit_map(adapted(self, self._resolved(wide(sample.X))), passes, sample, error=False)

    def _fit_in_features(self, passes: Passes, clock: Clock) -> None:
        held = passes.blocks if isinstance(passes.blocks, Held) else None
        if self.store_loo and held is None:
            raise ValueError("store_loo=True keeps a number for every row, which blocks are there to avoid.")
        sample = sampled(self, passes)
        ridge, grid = self._penalties(sample)
        features = self._fitted_map(passes, sample)
        options: Any = {"solver": self.solver, "tol": self.tol, "max_iter": self.max_iter, "clock": clock}
        loo = held is not None and (self.store_loo or ridge is None)
        fit = solve(passes, WorkerMap.of(features, sample.X[:1]), sample, ridge, grid=grid, loo=loo, **options)
        if hasattr(features, "trace_error_"):
            features.trace_error_ = fit.error
        self._keep_in_features(fit.found, fit.choice, features, sample)
        if held is None:
            self._moments = fit.moments
        else:
            self._keep_left_out(fit.found.loo, held.all.index, held.total, _single(sample))

    def _keep_in_features(self, found: LeastSquares, choice: Choice, features: Any, sample: Part) -> None:
        """Keep an expansion at the landmarks where there are any, else weights of features."""
        ravel = _single(sample)
        self._keep(found, choice, features.kernel_, ravel)
        self.approximation_, self._landmarks = features, getattr(features, "component_indices_", None)
        if self._landmarks is None:
            self.coef_ = found.x.ravel() if ravel else found.x
            return
        X = features.components_.astype(sample.X.dtype, copy=False)
        X = X[:, self._landmarks] if is_precomputed(features.kernel_) else X
        dual = features.expansion(found.x)
        self._keep_expansion(X, dual, self._functions(features.kernel_, X, dual), ravel)

    @available_if(lambda self: self.approximation is not None)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add rows to the fit, in the space of ``approximation``, which the first rows determine.

        The result is that of all rows so far at once, but for a map that looks at its rows (the landmarks of
        ``Nystroem``, the default gamma): it sees the first only.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, k)
            Targets.
        sample_weight : float, array-like of shape (n,) or None, default=None
            Weights >= 0.

        Returns
        -------
        KernelRidge
            The fitted estimator.
        """
        clock = Clock(self.max_time)
        with restored_on_failure(self):
            past: Moments | None = getattr(self, "_moments", None)
            if is_precomputed(self.kernel):
                raise ValueError("partial_fit needs rows, not a precomputed Gram matrix.")
            with self._passes(X, y, sample_weight, reset=past is None) as passes:
                sample = sampled(self, passes)
                ridge = self._penalties(sample)[0]
                if ridge is None or self.store_loo:
                    raise ValueError("leave-one-out needs all rows at once: use fit, or give alpha as a number.")
                if past is not None and past.right.shape[1] != ridge.size:
                    raise ValueError(f"y has {ridge.size} targets, and had {past.right.shape[1]} in earlier parts.")
                features = self.approximation_ if past is not None else self._fitted_map(passes, sample)
                sums, error = moments(passes, WorkerMap.of(features, sample.X[:1]))
            if past is not None:
                sums = past + sums
            elif hasattr(features, "trace_error_"):
                features.trace_error_ = error
            choice = Choice("moments", "sums to which further rows can be added")
            self._keep_in_features(sums.solve(ridge, tol=self.tol, clock=clock), choice, features, sample)
            self._moments = sums
        warn_unless_converged(self.certificate_, self)
        return self


def _single(part: Part) -> bool:
    """Tell whether there is one target, given as a vector."""
    return part.y is not None and part.y.ndim == 1


def _spread(values: NDArray[np.float64], rows: NDArray[Any], n: int, fill: float) -> NDArray[np.float64]:
    """Put what was computed for some of n rows in its place among all of them."""
    if rows.size == n:
        return values
    out = np.full((n, values.shape[1]), fill)
    out[rows] = values
    return out
