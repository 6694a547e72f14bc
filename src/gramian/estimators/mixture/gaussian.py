"""Gaussian mixtures: clusters as probability densities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from gramian.certificates import Certificate
from gramian.data.blocks import is_blocks
from gramian.data.tensors import with_tensors
from gramian.estimators.base import COMMON, opened, restored_on_failure, row_weights
from gramian.estimators.mixture.density import MixtureDensity
from gramian.estimators.mixture.starts import INIT_PARAMS, complete, given_parameters, start, start_rows, start_size
from gramian.features.base import sample_seed
from gramian.gram.device import checked_device, device_for, only_wished
from gramian.numerals import listed
from gramian.progress import Clock, Tick, progress
from gramian.resources import one_blas_thread, random_of
from gramian.solvers.mixture.covariances import COVARIANCE_TYPES, CovarianceFamily, Floats, family
from gramian.solvers.mixture.e_step import Statistics, expect, expectation, frame, tally
from gramian.solvers.mixture.em import EMResult, em, maximise
from gramian.solvers.mixture.exponential_family import Mixture
from gramian.solvers.mixture.on_card import CardExpectation
from gramian.solvers.mixture.row_tiles import Block, Tiles, Workers
from gramian.warning import warn

# Largest distance of X from its mean; squares of larger ones overflow.
FARTHEST = 1e150
ALIKE = 1e-2
"""Ratio of the variance between components to that within, up to which components are nearly the same."""
AGREED = 10.0
"""Difference of final objectives, in units of ``tol``, within which starts agree."""
AGREEING = 3
"""Number of best random starts that must agree; two often end at the same poor optimum."""
PATIENCE = 1e-3
"""Factor on ``tol`` while all components are nearly the same."""
TOLERANCE = 1e-6
"""Rounding error of the likelihood per sample."""
LISTED = 8
"""Number of columns or components that a message lists."""


@dataclass(eq=False, repr=False)
class GaussianMixture(MixtureDensity, DensityMixin, BaseEstimator):
    """Mixture of Gaussians ``p(x) = Σ_k π_k N(x | μ_k, Σ_k)``, fitted by expectation-maximisation.

    Parameters, methods and attributes are those of scikit-learn. In addition there are sample weights, hard assignment,
    threads, memory that does not grow with ``n_samples × n_components``, float32 without loss of accuracy, and a record
    of the evidence in every iteration.

    Parameters
    ----------
    n_components : int, default=1
        The number K of components.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        A covariance matrix for each component; one matrix for all; a variance for each component and feature; a
        variance for each component.
    tol : float, default=1e-3
        EM stops when an iteration changes the objective per sample by less than this.
    reg_covar : float, default=1e-6
        Added to the variances in every iteration, so that no component becomes infinitely narrow.
    max_iter : int, default=100
        The most iterations of EM.
    n_init : int, default=1
        Number of starts; the best is kept. With ``init_params="random"``, no further starts are made once the three
        best agree.
    init_params : {"kmeans", "k-means++", "random", "random_from_data"} or array-like, default="kmeans"
        How to start: from the clusters of k-means; at rows far from each other; from random responsibilities; at rows
        drawn at random. With an array of at least K rows: from the clusters of k-means started at its first K rows.
    weights_init : array-like of shape (n_components,), default=None
        Starting weights, instead of those of ``init_params``.
    means_init : array-like of shape (n_components, n_features), default=None
        Starting means.
    precisions_init : array-like, default=None
        Starting precisions (inverses of covariances), in the shape of ``covariances_``.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the starts and of ``sample``.
    warm_start : bool, default=False
        Whether ``fit`` continues from the result of the last call; ``n_init`` then has no effect.
    verbose : int, default=0
        Whether to show progress.
    verbose_interval : int, default=10
        Number of iterations between reports of progress.
    assignment : {"soft", "hard"}, default="soft"
        Whether an E-step assigns a sample to all components by posterior probability, or only to the most probable.
        Hard assignment increases the complete-data likelihood, but not necessarily the likelihood.
    max_time : float or None, default=None
        Seconds after which EM stops, with a warning; the current iteration is completed.
    n_jobs : int or None, default=None
        Threads; ``None`` for all cores that the process may use. Results depend on it only by rounding.
    device : {"cuda", "cuda:0", ..., "auto"} or None, default=None
        A GPU for E-steps and predictions, through torch; ``"auto"`` uses one if there is one. Starts, and fits over
        blocks, are computed on the CPU.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Proportions π; zero for a component that has lost all samples.
    means_ : ndarray of shape (n_components, n_features)
        The means μ.
    covariances_ : ndarray
        The Σ, of shape ``(n_components, n_features, n_features)``, ``(n_features, n_features)``,
        ``(n_components, n_features)`` or ``(n_components,)`` by ``covariance_type``.
    precisions_ : ndarray
        Inverses of the covariances.
    precisions_cholesky_ : ndarray
        Upper triangular P with ``Σ⁻¹ = P Pᵀ``.
    converged_ : bool
        Whether ``tol`` was met. If all components are nearly the same, as after random responsibilities, this is a
        saddle point: EM then continues with a thousandth of ``tol`` until they differ, and warns if they do not.
        Another start may still end at a higher objective.
    n_iter_ : int
        Iterations of the best start.
    lower_bound_ : float
        The objective per sample at the last E-step: the log-likelihood, or with hard assignment the complete-data
        log-likelihood.
    lower_bounds_ : list of float
        The objective at each iteration.
    starts_ : ndarray of shape (s,)
        Final objective of each start; ``lower_bound_`` is the largest.
    evidence_ : list of EvidenceSplit
        For each iteration ``log_likelihood = bound + kl`` per sample, after its M-step.
    certificate_ : Certificate
        Of kind "evidence": log-likelihood, bound, norm of the gradient, the range of the starts, and what was
        degenerate. It certifies a stationary point; other starts may end higher.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if all are strings.

    See Also
    --------
    gramian.select_components : Choose ``n_components`` by an information criterion.

    References
    ----------
    A. P. Dempster, N. M. Laird and D. B. Rubin (1977), Maximum likelihood from incomplete data via the EM algorithm.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.mixture.gaussian import GaussianMixture
    >>> X = np.array([[1, 2], [0, 4], [2, 0], [1, 3], [10, 2], [11, 4], [9, 0], [11, 1]])
    >>> mixture = GaussianMixture(n_components=2, random_state=0).fit(X)
    >>> np.sort(mixture.means_[:, 0])
    array([ 1.  , 10.25])
    >>> mixture.predict([[0, 0], [12, 3]]) == mixture.predict([[1, 1], [10, 1]])
    array([ True,  True])
    >>> print(mixture.certificate_)
    converged: evidence ... The likelihood never fell; the last iteration added ... per sample. It is a stationary ...
    """

    n_components: int = 1
    _: KW_ONLY
    covariance_type: str = "full"
    tol: float = 1e-3
    reg_covar: float = 1e-6
    max_iter: int = 100
    n_init: int = 1
    init_params: str | ArrayLike = "kmeans"
    weights_init: ArrayLike | None = None
    means_init: ArrayLike | None = None
    precisions_init: ArrayLike | None = None
    random_state: Any = None
    warm_start: bool = False
    verbose: int | bool = 0
    verbose_interval: int = 10
    assignment: str = "soft"
    max_time: float | None = None
    n_jobs: int | None = None
    device: str | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "covariance_type": [StrOptions(set(COVARIANCE_TYPES))],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "reg_covar": [Interval(Real, 0.0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "init_params": [StrOptions(set(INIT_PARAMS)), "array-like"],
        "weights_init": ["array-like", None],
        "means_init": ["array-like", None],
        "precisions_init": ["array-like", None],
        "verbose_interval": [Interval(Integral, 1, None, closed="left")],
        "assignment": [StrOptions({"soft", "hard"})],
    }

    @with_tensors
    def fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Estimate the parameters by EM, from ``n_init`` starts, and keep the best.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Blocks, path or Dask collection
            Samples; float32 stays float32.
        y : Ignored
            Not used; for compatibility with scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0. An integer weight w is equivalent to w equal samples.
        """
        clock = Clock(self.max_time)
        with restored_on_failure(self):
            self._validate_params()
            if is_blocks(X):
                self._fit_over_passes(X, sample_weight, clock)
                return self
            X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
            weights = None if sample_weight is None else row_weights(sample_weight, X)
            if weights is not None and not np.all(weights > 0):
                X, weights = X[weights > 0], weights[weights > 0]
            rows = Tiles.of(X, weights)
            self._check_rows(len(X), rows.reach)
            device = device_for(self.device, X)
            step = expect if device is None else CardExpectation(rows, device)
            self._store(self._best_solution(rows, clock, step), rows, clock)
        return self

    def _fit_over_passes(self, X: Any, sample_weight: Any, clock: Clock) -> None:
        """EM over blocks, with a start from a sample, and one pass per iteration."""
        if checked_device(self.device) is not None and not only_wished(self.device):
            raise ValueError(f"device={self.device!r} needs all rows in memory; over blocks leave device=None.")
        with opened(self, X, None, sample_weight, targets=False) as passes:
            seen, count = frame(passes)
            self._check_rows(count, seen.reach)
            size = start_size(self.n_components)
            sample = passes.sample(size, 0 if size >= passes.blocks.n_rows else sample_seed(self.random_state))
            rows = replace(seen, X=sample.X, weights=sample.weight)
            self._store(self._best_solution(rows, clock, expectation(passes, seen)), seen, clock)

    @with_tensors
    def fit_predict(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> NDArray[np.int64]:
        """Fit, and return the component of each sample, as by ``predict``: X (n, d), weights (n,) → (n,)."""
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def _check_rows(self, n: int, reach: Floats) -> None:
        if n < max(2, self.n_components):
            raise ValueError(
                f"Expected n_samples >= n_components but got n_components = {self.n_components}, "
                f"n_samples = {n}; at least 2 samples of positive weight are needed, and one for each component."
            )
        if np.any(reach > FARTHEST):
            raise ValueError(f"X must stay within {FARTHEST:.0e} of its mean, got {reach.max():.1e}; scale X.")

    def _best_solution(self, rows: Tiles, clock: Clock, expect: Callable[..., Statistics] = expect) -> EMResult:
        """The solution of the start with the highest final objective."""
        kind, workers = family(self.covariance_type, self.n_components, rows.X.shape[1]), Workers(self.n_jobs)
        options: Any = {"reg_covar": self.reg_covar, "tol": self.tol, "max_iter": self.max_iter, "clock": clock}
        options |= {"hard": self.assignment == "hard", "expect": expect}
        solutions: list[EMResult] = []
        with one_blas_thread(), progress(self.verbose, "Gaussian mixture", total=self.n_init * self.max_iter) as tick:
            for done, (mixture, previous) in enumerate(self._starts(rows, kind, workers)):
                tell = _every(self.verbose_interval, tick, done * self.max_iter)
                solutions.append(_patient(rows, mixture, workers, previous=previous, tick=tell, **options))
                if solutions[-1].expired or self._agreed(solutions):
                    break
        self.starts_ = np.array([(solution.values or (-math.inf,))[-1] for solution in solutions])
        return max(solutions, key=lambda solution: solution.values[-1:])

    def _agreed(self, solutions: list[EMResult]) -> bool:
        """Whether no further random starts are needed: the best ones agree, and their components differ."""
        if not isinstance(self.init_params, str) or self.init_params != "random" or len(solutions) < AGREEING:
            return False
        *_, best = ranked = sorted(solutions, key=lambda solution: solution.values[-1:])[-AGREEING:]
        if not ranked[0].values or _alike(best.mixture):
            return False
        return best.values[-1] - ranked[0].values[-1] <= AGREED * max(self.tol, TOLERANCE)

    def _starts(self, rows: Tiles, kind: CovarianceFamily, workers: Workers) -> Iterator[tuple[Mixture, float]]:
        """Mixtures to start from, each with the objective of an earlier fit there, or -inf."""
        given = given_parameters(kind, rows.centre, self.weights_init, self.means_init, self.precisions_init)
        if self.warm_start and hasattr(self, "converged_"):
            if self.covariances_.shape != kind.shape:
                raise ValueError(
                    f"warm_start continues from covariances of shape {self.covariances_.shape}, but n_components, "
                    f"n_features and covariance_type now require {kind.shape}; keep them, or set warm_start=False."
                )
            yield self._mixture(rows.centre), self.lower_bound_
            return
        init: Any = self.init_params
        if not isinstance(init, str):
            init = check_array(init)
        elif not complete(given):
            rows = start_rows(rows, self.n_components, self.random_state)
        rng = random_of(self.random_state)
        for _ in range(self.n_init):
            yield start(rows, kind, init, given, self.reg_covar, rng, workers), -math.inf

    def _set_parameters(self, params: Any) -> None:
        """Store weights, means, covariances and Cholesky factors of precisions; the name is scikit-learn's."""
        self.weights_, self.means_, self.covariances_, self.precisions_cholesky_ = params
        self.precisions_ = family(self.covariance_type, *self.means_.shape).precisions(self.precisions_cholesky_)

    def _initialize(self, X: NDArray[Any], resp: NDArray[Any]) -> None:
        """Set parameters from responsibilities; the name is scikit-learn's: X (n, d), resp (n, K)."""
        rows, kind = Tiles.of(X), family(self.covariance_type, resp.shape[1], X.shape[1])
        given = given_parameters(kind, rows.centre, self.weights_init, self.means_init, self.precisions_init)

        def assignment(block: Block) -> Floats:
            return np.asarray(resp[block.rows].reshape(block.tiles, block.size, -1).transpose(0, 2, 1))

        mixture = replace(maximise(tally(rows, kind, assignment, Workers(1)), self.reg_covar), **given)
        self._set_parameters((mixture.weights, rows.centre + mixture.means, mixture.covariances, mixture.factors))

    def _store(self, solution: EMResult, rows: Tiles, clock: Clock) -> None:
        """Set the fitted attributes, and warn if the solution is degenerate or has not converged."""
        mixture = solution.mixture
        self._set_parameters((mixture.weights, rows.centre + mixture.means, mixture.covariances, mixture.factors))
        self.converged_ = solution.converged
        self.n_iter_ = len(solution.values)
        self.lower_bounds_ = list(solution.values)
        self.lower_bound_ = self.lower_bounds_[-1] if self.lower_bounds_ else -math.inf
        self.evidence_ = list(solution.evidence)
        notes = _degeneracies(mixture, rows, self.reg_covar)
        course = [_course(solution, self.assignment == "hard"), *_of_starts(solution, self.starts_), *notes]
        self.certificate_ = _certificate(solution, course, clock.seconds)
        for note in notes:
            warn(note, ConvergenceWarning)
        # With max_iter=0 the user asked for the starting parameters.
        if not self.converged_ and self.max_iter > 0:
            warn(
                "Best performing initialization did not converge. Try different init parameters, or increase max_iter, "
                f"tol, or check for degenerate data. ({self.certificate_})",
                ConvergenceWarning,
            )


def _patient(rows: Tiles, start: Mixture, workers: Workers, *, tol: float, max_iter: int, **options: Any) -> EMResult:
    """EM; if all components are nearly the same, which is a saddle point, it continues with a smaller tolerance."""
    found = em(rows, start, workers, tol=tol, max_iter=max_iter, **options)
    left = max_iter - len(found.values)
    if not found.converged or left < 1 or not _alike(found.mixture):
        return found
    options |= {"previous": found.values[-1], "tol": PATIENCE * tol, "max_iter": left}
    more = em(rows, found.mixture, workers, **options)
    converged = more.converged or (more.gain < tol and not _alike(more.mixture))
    values, evidence = found.values + more.values, found.evidence + more.evidence
    return replace(more, values=values, evidence=evidence, converged=converged)


def _every(interval: int, tick: Tick, offset: int) -> Tick:
    """Return a tick that reports only every ``interval`` iterations."""

    def tell(done: float, **figures: float) -> None:
        if done % interval == 0:
            tick(offset + done, **figures)

    return tell


def _degeneracies(mixture: Mixture, rows: Tiles, reg_covar: float) -> list[str]:
    """Return messages that say what is degenerate, what was done about it and what to try."""
    constant = rows.reach == 0
    live = mixture.weights > 0
    variances = mixture.family.variances(mixture.covariances, ~constant)
    # If a variance is at most twice reg_covar, at least half of it is reg_covar.
    flat = live & (np.min(variances, axis=1, initial=np.inf) <= 2 * reg_covar)
    point = flat & (np.max(variances, axis=1, initial=0.0) <= 2 * reg_covar)
    most = f"reg_covar={reg_covar:g} is most of the variance"
    remedy = "lower n_components, raise reg_covar, or scale X"
    found = [
        ("column", constant, f"constant: reg_covar={reg_covar:g} is all the variance there"),
        ("component", ~live, "empty: of weight 0, spread over all samples; lower n_components, or start elsewhere"),
        ("component", point, f"collapsed to a point: {most}; {remedy}"),
        ("component", flat & ~point, f"flat: {most} in some direction; {remedy}, or choose a simpler covariance_type"),
    ]
    told = [f"{_subject(noun, which)} {state}." for noun, which, state in found if np.any(which)]
    alike = (
        "all components are nearly the same, hardly better than a single one: start elsewhere (init_params='kmeans')"
    )
    return told or ([f"{alike}, or lower n_components or tol."] if _alike(mixture) else [])


def _alike(mixture: Mixture) -> bool:
    """Whether all components are nearly the same, so that the mixture is hardly better than one of them."""
    weights = mixture.weights[:, None]
    if weights.size == 1:
        return False
    variances = mixture.family.variances(mixture.covariances, np.ones(mixture.means.shape[1], dtype=bool))
    within = np.sum(weights * variances, axis=0)
    between = np.sum(weights * (mixture.means - np.sum(weights * mixture.means, axis=0)) ** 2, axis=0)
    spread = np.abs(variances - within).max(axis=0)
    return bool(np.all(between <= ALIKE * within) and np.all(spread <= 10 * ALIKE * within))


def _of_starts(solution: EMResult, ends: Floats) -> list[str]:
    """Message about the starts: the fit is a stationary point, and other starts may end higher."""
    if not solution.values:
        return []
    if ends.size == 1:
        return ["It is a stationary point of one start; others may end higher (n_init)."]
    return [
        f"It is a stationary point, the best of {ends.size} starts, which ended between {ends.min():.4g} and "
        f"{ends.max():.4g} per sample."
    ]


def _certificate(solution: EMResult, notes: Iterable[str], seconds: float) -> Certificate:
    """Return the certificate of a fit."""
    return Certificate(
        kind="evidence",
        primal=solution.log_likelihood,
        dual=solution.evidence[-1].bound if solution.evidence else math.nan,
        violation=solution.gradient_norm,
        converged=solution.converged,
        iterations=len(solution.values),
        seconds=seconds,
        message=" ".join(notes),
    )


def _course(solution: EMResult, hard: bool) -> str:
    """Message about the course of the objective, and why EM stopped."""
    if not solution.values:
        return "No iteration was asked for: these are the starting parameters."
    what = "complete-data likelihood" if hard else "likelihood"
    rest = " (the likelihood itself may fall)" if hard else ""
    fell = f"fell by at most {solution.drop:.1e} per sample, because of reg_covar" if solution.drop else "never fell"
    course = f"The {what} {fell}{rest}; the last iteration added {solution.gain:.1e} per sample."
    if solution.converged:
        return course
    return f"{course} {'max_time ran out' if solution.expired else 'max_iter was reached'}: raise it, or tol."


def _subject(noun: str, which: NDArray[np.bool_]) -> str:
    """For example "columns 1, 3 are"."""
    indices = np.flatnonzero(which)
    if len(indices) == 1:
        return f"{noun} {indices[0]} is"
    return f"{noun}s {listed(indices, LISTED)} are"
