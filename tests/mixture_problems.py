"""Rows and mixtures to start from, also in the terms of the reference."""

import numpy as np

import reference_em as reference
from gramian.solvers.mixture.covariances import family, quadratics
from gramian.solvers.mixture.exponential_family import Mixture
from gramian.solvers.mixture.row_tiles import Tiles

TYPES = ["full", "tied", "diag", "spherical"]


def problem(covariance_type, n=90, d=3, K=3, seed=0, weighted=True):
    """Rows, a mixture to start from, and both in the reference's terms."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 4 * rng.normal(size=(K, d))[rng.integers(K, size=n)] + 50
    sample_weight = rng.uniform(0.5, 2, size=n) if weighted else np.ones(n)
    rows = Tiles.of(X, sample_weight if weighted else None)
    kind = family(covariance_type, K, d)
    weights = rng.dirichlet(np.full(K, 5.0))
    second = np.stack([quadratics(kind, rng.normal(size=(20, d)) * 3).mean(axis=0) for _ in range(K)])
    mixture = Mixture.of(kind, weights, X[:K] - rows.centre, kind.covariances(second, weights, 0.1))
    return rows, mixture, X, sample_weight


def plain(mixture, rows):
    """A mixture's parameters as the reference takes them."""
    kind = mixture.family
    covariances = reference.matrices(mixture.covariances, kind.name, kind.n_components, kind.n_features)
    return mixture.weights, rows.centre + mixture.means, covariances
