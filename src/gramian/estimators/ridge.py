"""Kernel ridge regression: exact, iterative or in the space of a map, with leave-one-out and a certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, _num_samples

from gramian.data.blocks import is_blocks
from gramian.estimators.approximation import APPROXIMATION, adapted, features_of, has_landmarks
from gramian.estimators.base import (
    COMMON,
    KERNEL,
    KernelExpansion,
    as_array,
    as_grid,
    restored_on_failure,
    rows_of,
    warn_unless_converged,
    wide,
)
from gramian.estimators.over_blocks.ridge import fit_ridge
from gramian.gram import Gram
from gramian.gram.operator import as_predicted
from gramian.kernels import Kernel
from gramian.kernels.resolve import is_precomputed
from gramian.progress import Clock, progress
from gramian.resources import readable, spans
from gramian.rkhs import Function
from gramian.solvers.choice import Choice, choose, worthwhile_iterations
from gramian.solvers.in_features.nystrom_least_squares import by_landmarks
from gramian.solvers.linear import pcg
from gramian.solvers.linear.least_squares import (
    LeastSquares,
    Moments,
    by_cholesky,
    by_eigenvectors,
    by_features,
    measured,
)

__all__ = ["KernelRidge"]

EXPANSION = ("dual_coef_", "X_fit_", "function_")
EIGEN_MATRICES = 4
"""K, its eigenvectors, and twice as much workspace in LAPACK's divide and conquer."""
OPTIONAL = (*EXPANSION, "coef_", "loo_residuals_", "alphas_", "loo_path_", "approximation_", "_landmarks", "_moments")
"""What one fit has and the next may not."""
BLOCK_ROWS = 4096
"""Rows whose features are held at once where only their moments are wanted."""


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


@dataclass(frozen=True, eq=False)
class _Fit:
    """What a fit leaves behind.

    Without ``dual`` the function is no expansion at rows ``X``, but has the weights ``found.x`` of the features.
    """

    found: LeastSquares
    choice: Choice
    X: Any = None
    dual: NDArray[np.float64] | None = None
    functions: list[Function] | None = None
    features: Any = None
    landmarks: NDArray[np.intp] | None = None


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
        if is_blocks(X):
            return fit_ridge(self, X, y, sample_weight)
        clock = Clock(self.max_time)
        with restored_on_failure(self):
            X, y = self._validated(X, y)
            problem = self._problem(X, y, sample_weight)
            solve = self._solve if self.approximation is None else self._solve_in_features
            self._keep(y.ndim == 1, problem, solve(problem, clock))
        warn_unless_converged(self.certificate_, self)
        return self

    def _problem(self, X: Any, y: NDArray[np.float64], sample_weight: Any) -> _Problem:
        Y = y.reshape(y.shape[0], -1)
        weights = np.ones(Y.shape[0])
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
        rows = np.flatnonzero(weights)
        if rows.size == 0:
            raise ValueError("sample_weight must be positive for at least one row; all weights are zero.")
        ridge, grid = self._regularisation(Y.shape[1])
        return _Problem(self._resolved(X), X, rows, Y[rows], weights[rows], ridge, grid)

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

    def _solve(self, p: _Problem, clock: Clock) -> _Fit:
        gram = self._gram(p.kernel, p.X, p.rows)
        found, choice = self._solve_exactly(gram, p, clock)
        found = self._as_predicted(found, gram, p)
        functions = self._functions(p.kernel, rows_of(p.kernel, p.X, p.rows), found.x)
        functions = [replace(f, ridge=r / p.weights, noise=r) for f, r in zip(functions, found.ridge, strict=True)]
        return _Fit(found, choice, p.X, _spread(found.x, p, 0.0), functions)

    def _as_predicted(self, found: LeastSquares, gram: Gram, p: _Problem) -> LeastSquares:
        """The solution with the residual of what it predicts."""
        root = np.sqrt(p.weights)[:, None]
        values = as_predicted(gram, wide(rows_of(p.kernel, p.X, p.rows)), found.x)
        return measured(found, root * (p.Y - values) - found.ridge * (found.x / root), root * p.Y, self.tol)

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

    def _solve_in_features(self, p: _Problem, clock: Clock) -> _Fit:
        self._check_features(p)
        features, rows = adapted(self, p.kernel), wide(rows_of(p.kernel, p.X, p.rows))
        plain = p.ridge is not None and not self.store_loo
        if plain and has_landmarks(features) and not features.needs_features:
            found = self._by_landmarks(features, rows, p, clock)
            if found is not None:
                return self._in_features(found, features, p)
        if has_landmarks(features) or not plain:
            F = features_of(features, rows, self.memory)
            options: Any = {"grid": p.grid, "loo": self.store_loo, "tol": self.tol, "clock": clock}
            found = by_features(F, p.Y, p.ridge, p.weights, **options)
            return self._in_features(self._as_evaluated(found, features, rows, p, F.T.__matmul__), features, p)
        moments = self._moments_of(features.fit(rows), rows, p)
        return self._in_features(moments.solve(np.asarray(p.ridge), tol=self.tol, clock=clock), features, p)

    def _by_landmarks(self, features: Any, rows: Any, p: _Problem, clock: Clock) -> LeastSquares | None:
        """The fit from kernel values, where the landmarks are independent enough for it."""
        try:
            values = features.fit_values(rows)
        except np.linalg.LinAlgError:
            return None
        fit = by_landmarks(values.K, values.lower, p.Y, np.asarray(p.ridge), p.weights, tol=self.tol, clock=clock)
        if fit is None:
            return None
        features.trace_error_ = max(1.0 - fit.trace / values.trace, 0.0) if values.trace > 0 else 0.0
        into = partial(solve_triangular, values.lower, lower=True)
        return self._as_evaluated(fit.found, features, rows, p, lambda V: into(values.K @ V))

    def _as_evaluated(
        self, found: LeastSquares, features: Any, rows: Any, p: _Problem, pulled: Callable[..., NDArray[np.float64]]
    ) -> LeastSquares:
        """The solution with the residual of what it predicts; ``pulled`` is Fᵀ times something."""
        W, f = p.weights[:, None], features.evaluate(rows, found.x, self.memory)
        return measured(found, pulled(W * (p.Y - f)) - found.ridge * found.x, pulled(W * p.Y), self.tol)

    def _check_features(self, p: _Problem) -> None:
        if self.solver != "auto":
            raise ValueError(f"solver={self.solver!r} has no part where approximation= is given; leave solver='auto'.")
        if p.ridge is not None and p.ridge.min() == 0:
            raise ValueError("alpha=0 interpolates, which an approximation of the kernel cannot; use alpha > 0.")

    def _moments_of(self, features: Any, rows: Any, p: _Problem) -> Moments:
        """Moments of the features of some rows, a block of rows at a time."""
        parts = spans(rows.shape[0], BLOCK_ROWS)
        first, *rest = (Moments.of(features.transform(rows[part]), p.Y[part], p.weights[part]) for part in parts)
        return sum(rest, first)

    def _in_features(self, found: LeastSquares, features: Any, p: _Problem, past: bool = False) -> _Fit:
        """The fit by its features; at the landmarks, which are rows of p unless they come from a past part."""
        choice = Choice("features", f"least squares in the space of {found.x.shape[0]} features")
        if not has_landmarks(features):
            return _Fit(found, choice, features=features)
        landmarks: Any = self._landmarks if past else p.rows[features.component_indices_]
        X = self.X_fit_ if past else rows_of(p.kernel, p.X, landmarks)
        return self._at_landmarks(found, choice, features, X, landmarks)

    def _at_landmarks(self, found: LeastSquares, choice: Choice, features: Any, X: Any, landmarks: Any) -> _Fit:
        dual = features.expansion(found.x)
        return _Fit(found, choice, X, dual, self._functions(features.kernel_, X, dual), features, landmarks)

    def _keep_over_blocks(self, ravel: bool, found: LeastSquares, choice: Choice, features: Any) -> None:
        fit = _Fit(found, choice, features=features)
        if has_landmarks(features):
            X, landmarks = features.components_, features.component_indices_
            fit = self._at_landmarks(found, choice, features, X, landmarks)
        self._keep(ravel, None, fit)

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
            past = getattr(self, "_moments", None)
            X, y = self._validated(X, y, reset=past is None)
            p = self._problem(X, y, sample_weight)
            self._check_partial(p, past)
            rows = wide(rows_of(p.kernel, p.X, p.rows))
            features = adapted(self, p.kernel).fit(rows) if past is None else self.approximation_
            moments = self._moments_of(features, rows, p)
            moments = moments if past is None else past + moments
            found = moments.solve(np.asarray(p.ridge), tol=self.tol, clock=clock)
            self._keep(y.ndim == 1, p, self._in_features(found, features, p, past is not None))
            self._moments = moments
        warn_unless_converged(self.certificate_, self)
        return self

    def _check_partial(self, p: _Problem, past: Moments | None) -> None:
        self._check_features(p)
        if p.ridge is None or self.store_loo:
            raise ValueError("leave-one-out needs all rows at once: use fit, or give alpha as a number.")
        if is_precomputed(p.kernel):
            raise ValueError("partial_fit needs rows, not a precomputed Gram matrix.")
        if past is not None and past.right.shape[1] != p.Y.shape[1]:
            raise ValueError(f"y has {p.Y.shape[1]} targets, and had {past.right.shape[1]} in earlier parts.")

    def _keep(self, ravel: bool, p: _Problem | None, fit: _Fit) -> None:
        for name in OPTIONAL:
            self.__dict__.pop(name, None)
        found = fit.found
        self.kernel_ = p.kernel if p is not None and fit.features is None else fit.features.kernel_
        self.solver_, self.certificate_ = fit.choice, found.certificate
        self.n_iter_ = max(found.certificate.iterations, 1)
        self.alpha_ = float(found.ridge[0]) if ravel else found.ridge
        if fit.dual is None or fit.functions is None:
            self.coef_ = found.x.ravel() if ravel else found.x
        else:
            self.X_fit_, self.dual_coef_ = fit.X, fit.dual.ravel() if ravel else fit.dual
            self.function_ = as_array(fit.functions, ravel)
        if p is not None and found.loo is not None:
            loo = _spread(found.loo, p, np.nan)
            self.loo_residuals_ = loo.ravel() if ravel else loo
        if found.path is not None:
            self.alphas_, self.loo_path_ = found.grid, found.path.ravel() if ravel else found.path
        if fit.features is not None:
            self.approximation_, self._landmarks = fit.features, fit.landmarks


def _spread(values: NDArray[np.float64], p: _Problem, fill: float) -> NDArray[np.float64]:
    """Put what was computed for the rows that count in its place among all rows."""
    n = _num_samples(p.X)
    if p.rows.size == n:
        return values
    out = np.full((n, values.shape[1]), fill)
    out[p.rows] = values
    return out
