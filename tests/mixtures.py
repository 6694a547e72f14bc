"""Data and starting parameters for the tests of mixtures."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

TYPES = ["full", "tied", "diag", "spherical"]
STARTS = ["kmeans", "k-means++", "random", "random_from_data"]


def clusters(n=600, d=3, K=3, seed=0, shift=0.0, spread=4.0):
    """Rows around K centres, with correlated noise."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
    return noise + spread * rng.normal(size=(K, d))[rng.integers(K, size=n)] + shift


def starting_parameters(X, K, covariance_type):
    """Weights, means and precisions that need no random numbers."""
    d = X.shape[1]
    precisions = {
        "full": np.tile(np.eye(d), (K, 1, 1)),
        "tied": np.eye(d),
        "diag": np.ones((K, d)),
        "spherical": np.ones(K),
    }[covariance_type]
    return {"weights_init": np.full(K, 1 / K), "means_init": X[:K].astype(float), "precisions_init": precisions}


def quietly(estimator, X, **fit_params):
    """Fit, whatever there is to warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, **fit_params)
