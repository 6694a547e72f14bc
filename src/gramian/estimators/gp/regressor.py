"""GaussianProcessRegressor: Gaussian process regression with learned hyperparameters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from gramian.estimators.base import (
    as_array,
    is_blocks,
    kernel_tags,
    refuse_device,
    restored_on_failure,
    rows_of,
    validated,
    warn_unless_converged,
)
from gramian.estimators.gp.predictions import DEFAULT, LEARNING, Noise
from gramian.estimators.gp.sparse import SparseProcess, held_rows
from gramian.estimators.trend import TREND, fitted_trend
from gramian.features.base import parameters_checked
from gramian.gram.operator import units, wide
from gramian.kernels import Kernel, White, resolve
from gramian.kernels.resolve import is_precomputed, like_given
from gramian.progress import Clock, progress
from gramian.resources import blas_threads, memory_budget, worker_count
from gramian.rkhs import Function
from gramian.solvers.choice import choose_posterior
from gramian.solvers.gp.evidence import Evidence, LogEvidence, signal_and_noise
from gramian.solvers.gp.hyperparameters import Optimum, learn_from_rows, noise_of_repeats, search_random, widened
from gramian.solvers.gp.posterior import (
    CardPosterior,
    ExactPosterior,
    TrendPosterior,
    exact_posterior,
    projected_posterior,
)
from gramian.solvers.in_features.sparse_gp import CollapsedBound, FeaturePosterior, LandmarkPosterior
from gramian.solvers.linear.trend import TrendBasis, columns
from gramian.warning import warn

EVIDENCE_ROWS = 3000
"""Rows from which hyperparameters are learned with ``evidence="auto"``."""
NOISE_START = 0.1
"""Starting value of a learned noise, relative to the mean square of the targets."""
NOISE_RANGE = (1e-8, 10.0)
"""Its bounds, in the same units."""
NOT_DEFINITE = (
    "The kernel, {}, is not returning a positive definite matrix. Try gradually increasing the 'alpha' parameter of "
    "your GaussianProcessRegressor estimator. {}"
)
TOO_NOISY = 10.0
"""A fixed ``alpha`` above this many mean squares of the targets leaves nothing to explain."""


@dataclass(eq=False, repr=False)
class GaussianProcessRegressor(SparseProcess, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Gaussian process regression.

    The prior is a kernel; the posterior mean is ``k(x, X) (K + D)⁻¹ y``, kernel ridge with alpha = σ², and the variance
    ``k(x, x) - k(x, X) (K + D)⁻¹ k(X, x)`` does not depend on y. Hyperparameters maximise the evidence of some rows;
    the posterior always uses all rows.

    Parameters
    ----------
    kernel : Kernel, str, callable, a kernel object of scikit-learn, or None, default=None
        The prior covariance; ``None`` means ``1.0 * RBF(1.0)``. ``kernel_`` is always a kernel of this library; its
        ``theta`` lists the parameters in the order of the expression, see ``kernel_.theta_names``.
    alpha : float or array-like of shape (n,), default=1e-10
        Variance of the noise of the training targets, one for all or one for each. As in scikit-learn it is not part
        of the predicted standard deviation, unlike noise in the kernel (``White``, or ``noise="learn"``).
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        The optimiser of the evidence: L-BFGS, or ``optimizer(obj_func, initial_theta, bounds)`` that returns theta and
        the least value of ``obj_func``; ``None`` keeps the kernel as it is.
    n_restarts_optimizer : int, default=0
        Further runs from random points within the kernel's bounds. Default bounds are widened by the mean square of
        the targets, and by the spread of the rows if it is far from one, so that units do not matter.
    normalize_y : bool, default=False
        Whether to shift and scale the targets to mean zero and standard deviation one for the fit.
    copy_X_train : bool, default=True
        Whether ``X_train_`` is a copy.
    n_targets : int or None, default=None
        Number of targets of the prior, before a fit; ``y`` must have as many.
    noise : "learn", float or None, default=None
        The variance of the noise of observations: ``"learn"`` adds ``White`` to the kernel and learns its variance
        with the other parameters (``noise_``); a number, in the units of y squared, adds it with that variance.
        Standard deviations and intervals are then those of new observations.
    trend : {"constant", "linear"}, map, callable or None, default=None
        Universal kriging: functions with unpenalised coefficients added to the process: a constant; a constant and the
        inputs; or the columns of a map such as ``PolynomialMap(2)`` or of a function of X. Standard deviations include
        the uncertainty of the coefficients, and the evidence is the restricted likelihood, that of contrasts
        independent of the coefficients. ``None`` adds only what a conditionally positive definite kernel
        (``ThinPlate``, ``Multiquadric``) needs. Only with all rows in memory and ``solver="cholesky"``.
    start : {"data", "given"}, default="data"
        Where the optimiser starts. ``"data"``: at the kernel's own values and at lengthscales and variances estimated
        from the data; the runs compete on at most 500 rows and the best one continues. ``"given"``: only at the former.
    evidence : {"auto", "full"} or int, default="auto"
        How many rows, drawn at random, the hyperparameters are learned from; ``"auto"`` uses at most 3,000.
    solver : {"auto", "cholesky", "pcg"}, default="auto"
        How the posterior is computed. ``"auto"`` is Cholesky if its n x n array fits ``memory``, else preconditioned
        conjugate gradients for the mean and a projection of the data on a low-rank basis for the variance, which is
        never below the exact variance. ``solver_`` says which was used, and why.
    approximation : map or None, default=None
        ``Nystroem(...)``: the variational sparse process. Landmarks are chosen after hyperparameters are learned from
        the evidence rows, and stay fixed while these are refined on the collapsed bound of all rows; the bound is
        ``log_marginal_likelihood_value_``. ``FourierFeatures(...)``: Bayesian linear regression on the features, with
        hyperparameters learned from the evidence rows; far from the data its variance is too small.
        ``PolynomialMap(...)``: the same, exact for its own kernel; leave ``kernel`` at the default.
    tol : float, default=1e-6
        The search stops when no entry of the gradient of the evidence in theta, projected on the bounds, exceeds √tol;
        also the relative residual for ``"pcg"``.
    max_iter : int, default=1000
        Steps of the optimiser in each run, and of ``"pcg"``.
    max_time : float or None, default=None
        Seconds after which the search for hyperparameters, or ``"pcg"``, stops; a factorisation is always finished.
    memory : int, str or None, default=None
        The most bytes that the fit may hold, and a prediction in addition to the fitted model: a number or ``"2GB"``;
        by default half of what is available.
    n_jobs : int or None, default=None
        Threads; by default all.
    device : {"cuda", "cuda:0", ..., "auto"} or None, default=None
        A GPU on which evidence, factor and predictions are computed, through torch (``pip install '.[gpu]'``); the
        factor stays there, in single precision with refined solutions if float64 does not fit, in which case the
        model cannot be saved and its evidence is not known. ``"auto"`` takes a GPU if there is one and the kernel can
        run on it; ``None`` is the CPU.
        Saved models do not keep it.
    verbose : int, default=0
        Whether to show progress.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the restarts and of the choice of rows. Without restarts, ``None`` gives the same answer at every fit.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with learned parameters.
    X_train_, y_train_ : array
        Training rows and targets, the latter as fitted: normalised with ``normalize_y``. Over blocks, the sample that
        the evidence rows are taken from.
    L_ : array of shape (n, n)
        Lower Cholesky factor of K + D; only if ``solver_`` is Cholesky, and without a trend.
    trend_ : str, map, callable or None
        The trend used, fitted.
    trend_coef_ : array of shape (q,) or (q, t)
        Its coefficients, if there is one; with ``normalize_y``, for the normalised targets.
    alpha_ : array of shape (n,) or (n, t)
        Dual coefficients ``(K + D)⁻¹ y``; with an approximation, coefficients of the landmarks or of the features.
    approximation_ : map
        The fitted map, if ``approximation`` is given.
    log_marginal_likelihood_value_ : float
        log p(y | X) at ``kernel_.theta``: of all rows if K + D was factorised, else of the evidence rows (nan if
        nothing was learned).
    evidence_rows_ : array of int
        The rows that the hyperparameters were learned from.
    noise_ : float
        Variance of the white noise in ``kernel_``, in units of ``y_train_``.
    jitter_ : float
        The value that had to be added to the diagonal for the factorisation to succeed.
    solver_ : Choice
        How the posterior was computed, and why.
    n_iter_ : int
        Steps of the optimiser, at least one.
    posterior_ : Posterior
        Mean and variance as functions.
    function_ : Function, or array of Function of shape (t,)
        The mean as an element of the RKHS; with ``normalize_y``, without the mean of the targets.
    certificate_ : Certificate
        If parameters were learned, the evidence and the largest entry of its projected gradient; else the residual of
        ``alpha_``.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.gp.regressor import GaussianProcessRegressor
    >>> from gramian.kernels import RBF
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> gp = GaussianProcessRegressor(1.0 * RBF(1.0), noise="learn", random_state=0).fit(X, np.sin(X[:, 0]))
    >>> mean, lower, upper = gp.predict([[1.5]], return_interval=0.9)
    >>> bool(lower[0] < np.sin(1.5) < upper[0])
    True
    """

    kernel: Any = None
    _: KW_ONLY
    alpha: float | ArrayLike = 1e-10
    optimizer: Any = "fmin_l_bfgs_b"
    n_restarts_optimizer: int = 0
    normalize_y: bool = False
    copy_X_train: bool = True
    n_targets: int | None = None
    noise: float | str | None = None
    trend: Any = None
    start: str = "data"
    evidence: str | int = "auto"
    solver: str = "auto"
    approximation: Any = None
    tol: float = 1e-6
    max_iter: int = 1000
    max_time: float | None = None
    memory: int | str | None = None
    n_jobs: int | None = None
    device: str | None = None
    verbose: int = 0
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LEARNING,
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "normalize_y": ["boolean"],
        "n_targets": [Interval(Integral, 1, None, closed="left"), None],
        "noise": [StrOptions({"learn"}), Interval(Real, 0, None, closed="left"), None],
        "trend": TREND,
        "evidence": [StrOptions({"auto", "full"}), Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions({"auto", "cholesky", "pcg"})],
    }

    def __sklearn_tags__(self) -> Any:
        tags = kernel_tags(super().__sklearn_tags__(), self.kernel)
        tags.requires_fit = False
        return tags

    # ---- fit ----------------------------------------------------------------------------------------------------

    @parameters_checked
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the hyperparameters and condition on the data.

        Parameters
        ----------
        X : array-like of shape (n, d), Blocks, path or Dask collection
            Rows; a list of objects for a kernel on objects.
        y : array-like of shape (n,) or (n, t)
            Targets.
        """
        clock = Clock(self.max_time)
        if self.trend is not None and (self.approximation is not None or is_blocks(X)):
            raise ValueError("trend= needs all rows in memory and no approximation; leave trend=None.")
        refuse_device(self)
        with restored_on_failure(self), blas_threads(self.n_jobs):
            self.trend_ = None
            for name in ("approximation_", "_over_blocks", "L_", "trend_coef_"):
                self.__dict__.pop(name, None)
            learned = self._fit_blocks(X, y, clock) if is_blocks(X) else self._fit_rows(X, y, clock)
            self.posterior_ = self.posterior_.under(self.memory, self.n_jobs)
            self._publish(learned)
        return self

    def _fit_rows(self, X: Any, y: Any, clock: Clock) -> Optimum | None:
        X, y = validated(self, X, y, multi_output=True, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        self._check_targets(y)
        centre, scale = _location(y) if self.normalize_y else (np.zeros(y.shape[1:]), np.ones(y.shape[1:]))
        y = (y - centre) / scale
        X = X.copy() if self.copy_X_train else X
        rows, Y, noise = wide(X), y.reshape(y.shape[0], -1), self._noise(y.shape[0])
        self.X_train_, self.y_train_ = X, y
        self._y_train_mean, self._y_train_std = centre, scale
        if self.approximation is not None:
            return self._fit_held(rows, Y, noise, clock)
        prior = self._given_kernel(rows)
        plain = self.trend is None and not prior.conditional_order
        self.trend_ = None if plain else fitted_trend(self.trend, prior, rows)
        left = Y if self.trend_ is None else TrendBasis.of(columns(self.trend_, rows)).residual(Y)
        kernel = self._prior(rows, left)
        self.evidence_rows_, learned = self._learn(kernel, rows, left, noise, clock)
        if learned is not None:
            kernel = kernel.with_theta(learned.theta)
        memory = memory_budget(self.memory)
        self.solver_ = choose_posterior(Y.shape[0], memory, self.solver)
        if self.trend_ is not None and self.solver_.name != "cholesky":
            raise ValueError(
                f"a trend needs the n x n matrix, not conjugate gradients ({self.solver_.reason}); raise memory=."
            )
        with progress(self.verbose, "posterior", total=1.0) as tick:
            options: Any = {"memory": memory, "workers": worker_count(self.n_jobs), "clock": clock, "tick": tick}
            options["device"] = self.device
            if self.solver_.name == "cholesky":
                try:
                    self.posterior_ = exact_posterior(kernel, rows, Y, noise, trend=self.trend_, **options)
                except np.linalg.LinAlgError as error:
                    raise np.linalg.LinAlgError(NOT_DEFINITE.format(self.kernel or kernel, error)) from error
            else:
                options |= {"tol": self.tol, "max_iter": self.max_iter, "random_state": self.random_state}
                self.posterior_ = projected_posterior(kernel, rows, Y, noise, **options)
        self.kernel_ = like_given(widened(kernel, rows, float(np.mean(Y**2)), back=True), self.kernel)
        return learned

    def _check_targets(self, y: NDArray[np.float64]) -> None:
        seen = 1 if y.ndim == 1 else y.shape[1]
        if self.n_targets is not None and seen != self.n_targets:
            raise ValueError(
                f"The number of targets seen in `y` is different from the parameter `n_targets`: {seen} != "
                f"{self.n_targets}; pass y with {self.n_targets} columns, or n_targets={seen}."
            )
        if self.noise == "learn" and self.optimizer is None:
            raise ValueError("noise='learn' needs an optimizer; with optimizer=None set the noise by alpha= or White.")

    def _noise(self, n: int) -> Noise:
        noise = np.asarray(self.alpha, dtype=np.float64)
        if noise.shape not in ((), (1,), (n,)):
            raise ValueError(
                f"alpha must be a scalar or an array with same number of entries as y, {n}; got shape {noise.shape}."
            )
        if not np.all(np.isfinite(noise)) or np.any(noise < 0):
            raise ValueError(f"alpha must be finite and >= 0, a variance; got {noise.min():.3g} among its entries.")
        return float(noise.item()) if noise.size == 1 else noise

    def _given_kernel(self, X: Any) -> Kernel:
        conditional = self.approximation is None
        return DEFAULT if self.kernel is None else resolve(self.kernel, X, conditional=conditional)

    def _prior(self, X: Any, Y: NDArray[np.float64]) -> Kernel:
        """The kernel before learning, with bounds adapted to the data and ``White`` noise if ``noise`` is given."""
        kernel = self._given_kernel(X)
        if self.approximation is not None:
            kernel = self._prior_of_map(kernel, X)
        size, least = float(np.mean(Y**2)), float(np.min(self.alpha))
        if 0 < TOO_NOISY * size < least and not self.normalize_y:
            warn(
                f"{type(self).__name__}: alpha={least:.3g} is noise far above the targets, whose mean square is "
                f"{size:.1e}, so the fit explains hardly any of them; lower alpha, or set normalize_y=True.",
            )
        kernel = widened(kernel, X, size)
        if self.noise is None:
            return kernel
        if not isinstance(self.noise, str):
            return kernel + White(self.noise / self._common_scale() ** 2, "fixed")
        low, high = (bound * (size or 1.0) for bound in NOISE_RANGE)
        # Repeated rows bound the noise from below; the evidence rows hold few of them, all rows perhaps many.
        low = low if is_precomputed(kernel) else min(max(low, noise_of_repeats(X, Y)), high)
        return kernel + White(min(max(NOISE_START * (size or 1.0), low), high), (low, high))

    def _common_scale(self) -> float:
        """The scale by which ``normalize_y`` divides all targets, to convert a given noise."""
        scales = np.unique(self._y_train_std)
        if scales.size > 1:
            raise ValueError(
                f"noise={self.noise!r} is one variance in the units of y, but normalize_y gives every target a scale "
                "of its own; scale the targets yourself, or use noise='learn'."
            )
        return float(scales[0])

    def _learn(
        self, kernel: Kernel, X: Any, Y: NDArray[np.float64], noise: Noise, clock: Clock
    ) -> tuple[NDArray[np.intp], Optimum | None]:
        """The indices of the evidence rows, and the best parameters if there are any to learn."""
        rng, n = search_random(self.random_state, self.n_restarts_optimizer), Y.shape[0]
        wanted = self._evidence_size(n)
        index = np.arange(n) if n <= wanted else rng.permutation(n)[:wanted]
        if self.optimizer is None or kernel.theta.size == 0:
            return index, None

        def evidence_of(index: NDArray[np.intp]) -> LogEvidence:
            own = noise if isinstance(noise, float) else noise[index]
            rows = rows_of(kernel, X, index)
            return LogEvidence(rows, Y[index], own, self.memory, self.n_jobs, self._basis(rows), self.device)

        size = float(np.mean(Y**2))
        with self._search(clock) as options:
            options |= {"start": self.start, "restarts": self.n_restarts_optimizer}
            return index, learn_from_rows(kernel, evidence_of, index, X, size, rng, **options)

    def _basis(self, X: Any) -> TrendBasis | None:
        """The trend's basis at some rows."""
        trend = getattr(self, "trend_", None)  # older model files have none
        return None if trend is None else TrendBasis.of(columns(trend, X))

    def _evidence_size(self, n: int) -> int:
        """How many of n rows the hyperparameters are learned from."""
        affordable = max(math.isqrt(memory_budget(self.memory) // 16), 1)
        named = {"full": n, "auto": min(EVIDENCE_ROWS, affordable)}
        return min(named.get(str(self.evidence)) or int(self.evidence), n)

    @contextmanager
    def _search(self, clock: Clock) -> Iterator[dict[str, Any]]:
        """Options of a search for hyperparameters, with a progress bar while the ``with`` block runs."""
        with progress(self.verbose, "evidence") as tick:
            options = {"optimizer": self.optimizer, "tol": self.tol, "max_iter": self.max_iter}
            yield {**options, "clock": clock, "tick": tick}

    def _publish(self, learned: Optimum | None) -> None:
        """Set the remaining attributes from the posterior, and issue warnings."""
        posterior = self.posterior_
        self.alpha_ = posterior.alpha.reshape(-1, *self.y_train_.shape[1:])
        self.jitter_ = posterior.jitter
        self.noise_ = signal_and_noise(self.kernel_)[1]
        if isinstance(posterior, TrendPosterior):
            self.trend_coef_ = posterior.beta.reshape(-1, *self.y_train_.shape[1:])
        elif isinstance(posterior, ExactPosterior):
            self.L_ = posterior.L
        of_rows = math.nan if learned is None else learned.value
        self.log_marginal_likelihood_value_ = of_rows if posterior.evidence is None else posterior.evidence
        solved = posterior.certificate
        if posterior.singular:
            added = f"; {self.jitter_:.1e} was added to its diagonal" if self.jitter_ > 0 else ""
            note = f"{posterior.singular}{added}; raise alpha, or learn the noise."
            warn(f"{type(self).__name__}: {note}")
            solved = replace(solved, message=f"{note} {solved.message}".strip())
        self.certificate_ = solved if learned is None else learned.certified(solved)
        for name, message in learned.binding(self.kernel_) if learned is not None else ():
            if self.noise is None or name != "right.noise":
                warn(message, ConvergenceWarning)
        self.n_iter_ = max(self.certificate_.iterations, 1)
        warn_unless_converged(self.certificate_, self)

    def __getattr__(self, name: str) -> Any:
        """Compute ``function_`` on access, one for each target, without the mean that ``normalize_y`` subtracts."""
        posterior = vars(self).get("posterior_")
        if name == "L_" and isinstance(posterior, CardPosterior) and posterior.evidence is not None:
            return posterior.here().L
        if name != "function_" or posterior is None or isinstance(posterior, FeaturePosterior):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        dual, sparse = np.atleast_1d(self._y_train_std) * posterior.alpha, hasattr(self, "approximation_")
        given = 0.0 if sparse else self._noise(dual.shape[0])
        ridge = None if sparse or hasattr(self, "trend_coef_") else self.noise_ + given + self.jitter_
        observed = self.noise_ + given if isinstance(given, float) else None
        signal, X = signal_and_noise(self.kernel_)[0], posterior.X if sparse else self.X_train_
        functions = [Function(signal, X, alpha, ridge, observed, self.memory, self.n_jobs) for alpha in dual.T]
        return as_array(functions, self.y_train_.ndim == 1)

    # ---- evidence ------------------------------------------------------------------------------------------------

    def log_marginal_likelihood(
        self, theta: ArrayLike | None = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> Any:
        """Return the log evidence of all training rows; for a sparse process, the collapsed bound on it.

        Parameters
        ----------
        theta : array-like of shape (p,) or None, default=None
            The parameters, in the order of ``kernel_.theta_names``; ``None`` returns
            ``log_marginal_likelihood_value_``.
        eval_gradient : bool, default=False
            Whether to return the gradient too; theta must then be given.
        clone_kernel : bool, default=True
            As in scikit-learn: with ``False``, ``kernel_`` becomes the kernel at theta.

        Returns
        -------
        value : float
            log p(y | X, theta).
        gradient : array of shape (p,)
            With ``eval_gradient``.
        """
        if theta is None:
            if eval_gradient:
                raise ValueError("Gradient can only be evaluated for theta!=None")
            return self.log_marginal_likelihood_value_
        if hasattr(self, "_over_blocks"):
            raise ValueError("the training rows came by blocks and were not kept; leave theta=None.")
        kernel = like_given(self.kernel_.with_theta(np.asarray(theta)), self.kernel)
        with blas_threads(self.n_jobs):
            at = self._evidence_at(kernel, eval_gradient)
        if not clone_kernel:
            self.kernel_ = kernel
        value = np.float64(at.value)
        return (value, at.gradient) if eval_gradient else value

    def _evidence_at(self, kernel: Kernel, gradient: bool) -> Evidence:
        X, Y = wide(self.X_train_), self.y_train_.reshape(self.y_train_.shape[0], -1)
        noise = self._noise(Y.shape[0])
        if not isinstance(self.posterior_, LandmarkPosterior):
            evidence = LogEvidence(X, Y, noise, self.memory, self.n_jobs, self._basis(X), self.device)
            return evidence(kernel, gradient=gradient)
        held, observations = held_rows(X, Y, noise, self.memory)
        with held.passes(n_jobs=self.n_jobs) as passes:
            return CollapsedBound(passes, observations, self.posterior_.X)(kernel, gradient=gradient)


def _location(y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each target: y (n,) or (n, t)."""
    # Divided by powers of two, so that squares neither overflow nor underflow.
    size = units(y)
    mean, deviation = size * np.mean(y / size, axis=0), size * np.std(y / size, axis=0)
    # Rounding gives a constant column a standard deviation of a few ulps of its mean.
    floor = 10.0 * np.finfo(np.float64).eps * np.abs(mean)
    return mean, np.where(deviation > floor, deviation, 1.0)
