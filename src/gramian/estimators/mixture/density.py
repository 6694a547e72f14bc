"""Predictions of a fitted mixture: components, posteriors, densities, information criteria, samples."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, xlogy
from sklearn.utils.validation import check_is_fitted, validate_data

from gramian.data.blocks import by_blocks
from gramian.estimators.base import row_weights
from gramian.gram.device import device_for
from gramian.resources import random_of
from gramian.solvers.mixture.covariances import Floats, family
from gramian.solvers.mixture.e_step import evaluate, evaluate_few
from gramian.solvers.mixture.em import EvidenceSplit
from gramian.solvers.mixture.exponential_family import Mixture
from gramian.solvers.mixture.on_card import CardExpectation
from gramian.solvers.mixture.row_tiles import Tiles, Workers

BY_COMPONENT = ("posterior", "log_joint")
"""Figures that have a column for each component."""
DISTRIBUTION = 1e-6
"""Permitted difference from one of a row of probabilities, for rounding in float32."""


def split(log_joint: Floats, q: Any, sample_weight: ArrayLike | None) -> EvidenceSplit:
    """Return ``log p(X) = L(q) + KL(q ‖ posterior)`` per row, from ``log π_k p_k(x)``: log_joint (n, K)."""
    q = np.asarray(q, dtype=np.float64)
    if q.shape != log_joint.shape:
        raise ValueError(f"q must have shape {log_joint.shape}, a row of probabilities for each sample; got {q.shape}.")
    off = np.abs(q.sum(axis=1) - 1.0)
    if not np.all(q >= 0) or not np.all(off <= DISTRIBUTION):
        wrong = int(np.flatnonzero(~(np.all(q >= 0, axis=1) & (off <= DISTRIBUTION)))[0])
        raise ValueError(
            f"every row of q must be a distribution, numbers >= 0 that sum to one; row {wrong} has the sum "
            f"{q[wrong].sum():.6g} and the least entry {q[wrong].min():.3g}."
        )
    weights = row_weights(sample_weight, q)
    with np.errstate(invalid="ignore"):
        expected = np.where(q > 0, q * log_joint, 0.0).sum(axis=1)
    bound, density = expected - xlogy(q, q).sum(axis=1), logsumexp(log_joint, axis=1)
    mean = float(np.average(density, weights=weights))
    below = float(np.average(bound, weights=weights))
    return EvidenceSplit(mean, below, max(mean - below, 0.0) if math.isfinite(below) else math.inf)


class MixturePredictions:
    """Base class of mixtures: components and densities of samples, their evidence, sampling. Not for direct use."""

    if TYPE_CHECKING:
        weights_: NDArray[Any]
        random_state: Any

        def _figure(self, figure: str, X: Any, dtype: Any = None) -> NDArray[Any]: ...
        def _draws(self, counts: Any, rng: np.random.RandomState) -> list[Floats]: ...

    def lower_bound(self, X: Any, q: ArrayLike, sample_weight: ArrayLike | None = None) -> EvidenceSplit:
        """Return L(q, Θ) and KL(q ‖ posterior) for a given distribution q of the hidden labels.

        ``log p(X | Θ) = L(q, Θ) + KL(q ‖ p(Z | X, Θ))``, so L is a lower bound for every q, and the best q is
        ``predict_proba(X)``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        q : array-like of shape (n_samples, n_components)
            Probabilities of the components, a distribution in every row.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        EvidenceSplit
            ``bound``, ``kl`` and their sum ``log_likelihood``, per sample.
        """
        return split(self._figure("log_joint", X, np.float64), q, sample_weight)

    @by_blocks
    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the most probable component of each sample: X (n, d) → (n,)."""
        return self._figure("labels", X, np.int64)

    @by_blocks
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the posterior probability of each component for each sample: X (n, d) → (n, K)."""
        return self._figure("posterior", X)

    @by_blocks
    def score_samples(self, X: Any) -> NDArray[Any]:
        """Return the log-density of each sample: X (n, d) → (n,)."""
        return self._figure("log_density", X)

    def score(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the log-likelihood per sample, the mean of ``score_samples``: X (n, d), weights (n,) → number."""
        return self._log_likelihood(X, sample_weight)[0]

    def sample(self, n_samples: int = 1) -> tuple[Floats, NDArray[np.int64]]:
        """Draw samples, ordered by component, and their components: n_samples → (n_samples, d), (n_samples,)."""
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"Invalid value for 'n_samples': {n_samples} . The sampling requires at least one sample.")
        rng = random_of(self.random_state)
        weights = np.asarray(self.weights_, dtype=np.float64)
        counts = rng.multinomial(n_samples, weights / weights.sum())
        return np.vstack(self._draws(counts, rng)), np.repeat(np.arange(len(counts)), counts)

    def _log_likelihood(self, X: Any, sample_weight: ArrayLike | None) -> tuple[float, float]:
        """Log-likelihood per sample, and the number of samples."""
        densities = self._figure("log_density", X, np.float64)
        weights = row_weights(sample_weight, densities)
        return float(np.average(densities, weights=weights)), float(weights.sum())


class MixtureDensity(MixturePredictions):
    """Methods of a Gaussian mixture that need only its parameters, not how they were learned."""

    if TYPE_CHECKING:  # the estimator defines parameters and learned attributes

        def __getattr__(self, name: str) -> Any: ...

    def bic(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the BIC, ``-2 log p(X) + log n · (number of parameters)``: X (n, d), weights (n,) → number."""
        mean, n = self._log_likelihood(X, sample_weight)
        return -2 * mean * n + self._n_parameters() * math.log(n)

    def aic(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the AIC, ``-2 log p(X) + 2 · (number of parameters)``: X (n, d), weights (n,) → number."""
        mean, n = self._log_likelihood(X, sample_weight)
        return -2 * mean * n + 2 * self._n_parameters()

    def _figure(self, figure: str, X: Any, dtype: Any = None) -> NDArray[Any]:
        """Compute a figure of every row, by default in the dtype of X."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        few = evaluate_few(X, self._mixture(np.zeros(X.shape[1])), figure)
        if few is not None:
            return few.astype(dtype or X.dtype, copy=False)
        centre = self.weights_.astype(np.float64) @ self.means_.astype(np.float64)
        out = np.empty((len(X), len(self.weights_)) if figure in BY_COMPONENT else len(X), dtype or X.dtype)
        rows, mixture, device = Tiles.of(X, centre=centre), self._mixture(centre), device_for(self.device, X)
        if device is not None:
            return CardExpectation(rows, device).evaluate(mixture, figure, out)
        return evaluate(rows, mixture, Workers(self.n_jobs), figure, out)

    def _draws(self, counts: Any, rng: np.random.RandomState) -> list[Floats]:
        mixture = self._mixture(centre=np.zeros(self.means_.shape[1]))
        spreads = mixture.family.stack(mixture.covariances)
        return [_normal(rng, *component) for component in zip(mixture.means, spreads, counts, strict=True)]

    def _mixture(self, centre: Floats) -> Mixture:
        """The fitted mixture in float64, with means relative to a centre."""
        learned = (self.weights_, self.means_, self.covariances_, self.precisions_cholesky_)
        weights, means, covariances, factors = (np.asarray(values, dtype=np.float64) for values in learned)
        return Mixture(family(self.covariance_type, *means.shape), weights, means - centre, covariances, factors)

    def _n_parameters(self) -> int:
        K, d = self.means_.shape
        return family(self.covariance_type, K, d).n_parameters + K * d + K - 1


def _normal(rng: np.random.RandomState, mean: Floats, spread: Floats, count: int) -> Floats:
    """Samples of one component, whose spread is a covariance matrix or a vector of variances."""
    if spread.ndim == 2:
        return rng.multivariate_normal(mean, spread, count)
    return np.asarray(mean + rng.standard_normal(size=(count, len(mean))) * np.sqrt(spread))
