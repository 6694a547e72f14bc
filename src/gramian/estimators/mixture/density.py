"""Predictions of a fitted mixture: components, posteriors, densities, information criteria, draws."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from gramian.data.blocks import by_blocks
from gramian.estimators.base import row_weights
from gramian.solvers.mixture.covariances import Floats, family
from gramian.solvers.mixture.e_step import evaluate
from gramian.solvers.mixture.gaussians import Mixture
from gramian.solvers.mixture.row_tiles import Rows, Workers


class MixtureDensity:
    """The part of a mixture that needs its parameters only, however they were learned."""

    if TYPE_CHECKING:  # parameters, and what is learned, belong to the estimator

        def __getattr__(self, name: str) -> Any: ...

    @by_blocks
    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the most probable component of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Numbers of components.
        """
        return self._figure("labels", X, np.int64)

    @by_blocks
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the posterior probability of each component for each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Of the dtype of X.
        """
        return self._figure("posterior", X)

    @by_blocks
    def score_samples(self, X: Any) -> NDArray[Any]:
        """Return the log-density of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            ``log p(x)``, of the dtype of X.
        """
        return self._figure("log_density", X)

    def score(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the log-likelihood per sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : Ignored
            For scikit-learn's sake.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        float
            The mean of ``score_samples``.
        """
        return self._log_likelihood(X, sample_weight)[0]

    def bic(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the Bayesian information criterion, which is the lower the better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; their sum is the number of samples.

        Returns
        -------
        float
            ``-2 log p(X) + (number of parameters) · log n``.
        """
        mean, n = self._log_likelihood(X, sample_weight)
        return -2 * mean * n + self._n_parameters() * math.log(n)

    def aic(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the Akaike information criterion, which is the lower the better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; their sum is the number of samples.

        Returns
        -------
        float
            ``-2 log p(X) + 2 · (number of parameters)``.
        """
        mean, n = self._log_likelihood(X, sample_weight)
        return -2 * mean * n + 2 * self._n_parameters()

    def sample(self, n_samples: int = 1) -> tuple[Floats, NDArray[np.int64]]:
        """Draw samples from the mixture.

        Parameters
        ----------
        n_samples : int, default=1
            How many.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Samples, ordered by component.
        y : ndarray of shape (n_samples,)
            Their components.
        """
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"Invalid value for 'n_samples': {n_samples} . The sampling requires at least one sample.")
        rng = check_random_state(self.random_state)
        mixture = self._mixture(centre=np.zeros(self.means_.shape[1]))
        counts = rng.multinomial(n_samples, mixture.weights / mixture.weights.sum())
        spreads = mixture.family.stack(mixture.covariances)
        drawn = [_normal(rng, *component) for component in zip(mixture.means, spreads, counts, strict=True)]
        return np.vstack(drawn), np.repeat(np.arange(len(counts)), counts)

    def _figure(self, figure: str, X: Any, dtype: Any = None) -> NDArray[Any]:
        """A figure of every row; by default in the dtype of X."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        centre = self.weights_.astype(np.float64) @ self.means_.astype(np.float64)
        out = np.empty((len(X), len(self.weights_)) if figure == "posterior" else len(X), dtype or X.dtype)
        return evaluate(Rows.of(X, centre=centre), self._mixture(centre), Workers(self.n_jobs), figure, out)

    def _mixture(self, centre: Floats) -> Mixture:
        """The fitted mixture in float64, seen from a centre."""
        learned = (self.weights_, self.means_, self.covariances_, self.precisions_cholesky_)
        weights, means, covariances, factors = (np.asarray(values, dtype=np.float64) for values in learned)
        return Mixture(family(self.covariance_type, *means.shape), weights, means - centre, covariances, factors)

    def _n_parameters(self) -> int:
        K, d = self.means_.shape
        return family(self.covariance_type, K, d).n_parameters + K * d + K - 1

    def _log_likelihood(self, X: Any, sample_weight: ArrayLike | None) -> tuple[float, float]:
        """Log-likelihood per sample, and the number of samples."""
        densities = self._figure("log_density", X, np.float64)
        weights = row_weights(sample_weight, densities)
        return float(np.average(densities, weights=weights)), float(weights.sum())


def _normal(rng: np.random.RandomState, mean: Floats, spread: Floats, count: int) -> Floats:
    """Draws from one component, whose spread is a covariance matrix or a vector of variances."""
    if spread.ndim == 2:
        return rng.multivariate_normal(mean, spread, count)
    return np.asarray(mean + rng.standard_normal(size=(count, len(mean))) * np.sqrt(spread))
