"""Mixtures of any family of densities, by expectation-maximisation."""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from gramian.certificates import Certificate
from gramian.estimators.base import COMMON, refuse_blocks, restored_on_failure, row_weights, warn_unless_converged
from gramian.estimators.mixture.density import MixturePredictions
from gramian.estimators.mixture.density import split as evidence_split
from gramian.estimators.mixture.starts import k_means
from gramian.features.base import parameters_checked
from gramian.progress import Clock
from gramian.resources import random_of
from gramian.solvers.mixture.em import EvidenceSplit
from gramian.solvers.mixture.families import FAMILIES

Array = NDArray[np.float64]
SPREAD_SHARE = 0.1
"""Part of the starting responsibilities spread over all components, so that no density starts at zero anywhere."""
ROUNDING = 1e-9
"""Decrease of the likelihood per sample that rounding may cause, relative to its size."""


@dataclass(eq=False, repr=False)
class FamilyMixture(MixturePredictions, DensityMixin, BaseEstimator):
    """Mixture ``p(x) = Σ_k π_k p(x | θ_k)`` of any family of densities, fitted by expectation-maximisation.

    A family consists of a log density, a weighted fit and a sampler. EM checks that the likelihood never decreases.
    ``GaussianMixture`` does the same for Gaussians, faster and with more options.

    Parameters
    ----------
    n_components : int, default=1
        The number K of components.
    family : {"gaussian", "bernoulli", "poisson"} or object, default="gaussian"
        Independent inputs that are Gaussian, binary, or counts; or an object with ``log_density(X, theta)``,
        ``fit(X, weights)`` and ``sample(theta, size, rng)``: see ``gramian.solvers.mixture.families.Family``.
    tol : float, default=1e-6
        EM stops when an iteration adds less than this to the log-likelihood per sample.
    max_iter : int, default=1000
        The most iterations of EM.
    n_init : int, default=1
        Number of starts, by k-means; the best is kept.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the starts and of ``sample``.
    max_time : float or None, default=None
        Seconds after which EM stops.

    Attributes
    ----------
    weights_ : array of shape (n_components,)
        The proportions π.
    parameters_ : array of shape (n_components, ...)
        The parameters θ of each component: the means for Bernoulli and Poisson; means above variances, (2, d), for
        Gaussian components.
    means_, covariances_ : array of shape (n_components, d) and (n_components, d, d)
        Moments of the samples of each component, weighted by responsibilities.
    evidence_ : list of EvidenceSplit
        Log-likelihood, bound and divergence per sample after every M-step.
    certificate_ : Certificate
        The log-likelihood, and its increase in the last iteration.
    converged_ : bool
        Whether that increase was less than ``tol``.
    n_iter_ : int
        Iterations of the best start.
    n_features_in_, feature_names_in_ : int, array of shape (n_features_in_,)
        Number of columns of X, and their names if X has names.
    family_ : object
        The family.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian import FamilyMixture
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson([[1.0, 9.0]] * 100 + [[8.0, 2.0]] * 100)
    >>> model = FamilyMixture(2, "poisson", random_state=0).fit(X)
    >>> np.sort(model.parameters_[:, 0]).round(1)
    array([0.9, 7.5])
    """

    n_components: int = 1
    family: Any = "gaussian"
    _: KW_ONLY
    tol: float = 1e-6
    max_iter: int = 1000
    n_init: int = 1
    random_state: Any = None
    max_time: float | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "family": [StrOptions(set(FAMILIES)), HasMethods(["log_density", "fit", "sample"])],
        "n_init": [Interval(Integral, 1, None, closed="left")],
    }
    covariance_type = "full"  # of the moments, for plots

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.family in ("bernoulli", "poisson")
        return tags

    @parameters_checked
    def fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Estimate the parameters by EM, from ``n_init`` starts, and keep the best.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : Ignored
            Not used; for compatibility with scikit-learn.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0; samples of weight zero are left out.
        """
        refuse_blocks(self, X, "GaussianMixture, or fit to blocks.sample(size).X")
        clock = Clock(self.max_time)
        with restored_on_failure(self):
            X = self._checked(X, reset=True)
            w = row_weights(sample_weight, X)
            X, w = X[w > 0], w[w > 0] / w.sum()
            if len(X) < self.n_components:
                raise ValueError(
                    f"Expected n_samples >= n_components but got n_components = {self.n_components}, n_samples = "
                    f"{len(X)}; each component needs a sample."
                )
            rng = random_of(self.random_state)
            ends = [self._em(X, w, self._start(X, w, rng), clock) for _ in range(self.n_init)]
            best = max(ends, key=lambda end: end[2][-1].log_likelihood)
            self._keep(X, w, *best, clock)
        warn_unless_converged(self.certificate_, self)
        return self

    def _checked(self, X: Any, *, reset: bool) -> Array:
        X = np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], reset=reset), dtype=np.float64)
        family = FAMILIES[self.family]() if isinstance(self.family, str) else self.family
        if hasattr(family, "check"):
            family.check(X)
        if reset:
            self.family_ = family
        return X

    def _start(self, X: Array, w: Array, rng: np.random.RandomState) -> Array:
        """Responsibilities for the first M-step."""
        K = self.n_components
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct samples than components
            codes = k_means(X, K, w, rng, None)
        drawn = rng.random_sample((len(X), K))  # so that components equal after k-means differ
        return (1.0 - SPREAD_SHARE) * np.eye(K)[codes] + SPREAD_SHARE * drawn / drawn.sum(axis=1, keepdims=True)

    def _em(self, X: Array, w: Array, q: Array, clock: Clock) -> tuple[Array, list[Any], list[EvidenceSplit], bool]:
        """Alternate M-steps and E-steps, starting from responsibilities q."""
        evidence: list[EvidenceSplit] = []
        value, gain, theta = -math.inf, math.inf, [None] * self.n_components
        while len(evidence) < self.max_iter and not gain < self.tol and not (evidence and clock.expired):
            mass = w[:, None] * q
            weights = mass.sum(axis=0)
            # An empty component keeps its parameters.
            theta = [self.family_.fit(X, m) if m.any() else old for m, old in zip(mass.T, theta, strict=True)]
            joint = self._joint(X, weights / weights.sum(), theta)
            split = evidence_split(joint, q, w)
            last, value = value, split.log_likelihood
            gain = value - last
            if not gain >= -ROUNDING * (1.0 + abs(value)):
                raise ValueError(
                    f"the log-likelihood fell from {last:.6g} to {value:.6g} per sample, so fit(X, weights) of "
                    f"{type(self.family_).__name__} does not maximise Σ weights_i log_density(x_i); correct one."
                )
            evidence.append(split)
            q = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        return weights / weights.sum(), theta, evidence, bool(gain < self.tol)

    def _joint(self, X: Array, weights: Array, theta: Any) -> Array:
        """log π_k p(x | θ_k): X (n, d) → (n, K)."""
        found = [np.asarray(self.family_.log_density(X, each), dtype=np.float64) for each in theta]
        for each in found:
            if each.shape != (len(X),) or np.any(np.isnan(each)) or np.any(each == np.inf):
                raise ValueError(
                    f"log_density of {type(self.family_).__name__} must return {len(X)} numbers below infinity, one "
                    f"for each sample; got shape {each.shape} with {np.count_nonzero(~(each < np.inf))} that are not."
                )
        with np.errstate(divide="ignore"):
            return np.column_stack(found) + np.log(weights)

    def _keep(
        self, X: Array, w: Array, weights: Array, theta: Any, evidence: list[EvidenceSplit], met: bool, clock: Clock
    ) -> None:
        self.weights_, self.parameters_ = weights, np.array(theta, dtype=np.float64)
        self.evidence_, self.n_iter_, self.converged_ = evidence, len(evidence), met
        mass = w[:, None] * self._posterior(self._joint(X, weights, theta))
        mass = mass / np.where(mass.sum(axis=0) > 0, mass.sum(axis=0), 1.0)
        self.means_ = mass.T @ X
        self.covariances_ = np.array([((X - m).T * r) @ (X - m) for m, r in zip(self.means_, mass.T, strict=True)])
        last = evidence[-1]
        gain = last.log_likelihood - evidence[-2].log_likelihood if len(evidence) > 1 else math.inf
        course = f"The likelihood never fell; the last iteration added {gain:.1e} per sample."
        why = "max_time ran out" if clock.expired else "max_iter was reached"
        self.certificate_ = Certificate(
            kind="evidence",
            primal=last.log_likelihood,
            dual=last.bound,
            violation=max(gain, 0.0),
            converged=met,
            iterations=len(evidence),
            seconds=clock.seconds,
            message=course if met else f"{course} {why}: raise it, or tol.",
        )

    # ---- predictions --------------------------------------------------------------------------------------------

    def _figure(self, figure: str, X: Any, dtype: Any = None) -> NDArray[Any]:
        """Compute "labels", "posterior", "log_density" or "log_joint" of every row, in float64."""
        check_is_fitted(self)
        joint = self._joint(self._checked(X, reset=False), self.weights_, self.parameters_)
        if figure == "log_joint":
            return joint
        if figure == "log_density":
            return np.asarray(logsumexp(joint, axis=1))
        q = self._posterior(joint)
        return q if figure == "posterior" else q.argmax(axis=1).astype(np.int64)

    def _posterior(self, joint: Array) -> Array:
        """Responsibilities; the proportions if every component has density zero at a sample."""
        total = logsumexp(joint, axis=1, keepdims=True)
        known = np.isfinite(total)
        return np.where(known, np.exp(joint - np.where(known, total, 0.0)), getattr(self, "weights_", 0.0))

    def _draws(self, counts: Any, rng: np.random.RandomState) -> list[Array]:
        return [self.family_.sample(t, int(c), rng) for t, c in zip(self.parameters_, counts, strict=True) if c]
