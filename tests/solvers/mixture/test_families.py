"""Families of components: densities that sum to one, fits that maximise them, draws that have their moments."""

import numpy as np
import pytest
from scipy import stats

from gramian.solvers.mixture.families import Bernoulli, Gaussian, Poisson

rng = np.random.default_rng(0)
BITS = (rng.random((200, 6)) < rng.uniform(0.1, 0.9, 6)) * 1.0
COUNTS = rng.poisson([1.0, 9.0], (200, 2)).astype(float)
NUMBERS = rng.normal([0.0, 4.0], [1.0, 0.5], (200, 2))
CASES = [(Bernoulli(), BITS), (Poisson(), COUNTS), (Gaussian(), NUMBERS)]


@pytest.mark.parametrize(("family", "X"), CASES, ids=lambda v: type(v).__name__)
def test_densities_by_another_library(family, X):
    theta = family.fit(X, np.ones(len(X)))
    theirs = {
        Bernoulli: lambda: stats.bernoulli.logpmf(X, theta),
        Poisson: lambda: stats.poisson.logpmf(X, theta),
        Gaussian: lambda: stats.norm.logpdf(X, theta[0], np.sqrt(theta[1])),
    }[type(family)]()
    np.testing.assert_allclose(family.log_density(X, theta), theirs.sum(axis=1))


def test_weighted_fits_maximise_their_likelihood():
    w = rng.uniform(0.1, 1, 200)
    for family, X in ((Bernoulli(), BITS), (Poisson(), COUNTS), (Gaussian(), NUMBERS)):
        theta = family.fit(X, w)
        best = w @ family.log_density(X, theta)
        for _ in range(20):
            other = theta * np.exp(0.03 * rng.standard_normal(theta.shape))
            assert (
                w @ family.log_density(X, np.minimum(other, 0.999) if isinstance(family, Bernoulli) else other) < best
            )


@pytest.mark.parametrize(("family", "X"), CASES, ids=lambda v: type(v).__name__)
def test_draws_have_the_mean(family, X):
    theta = family.fit(X, np.ones(len(X)))
    drawn = family.sample(theta, 20_000, np.random.RandomState(0))
    np.testing.assert_allclose(drawn.mean(axis=0), X.mean(axis=0), atol=5 * drawn.std() / 20_000**0.5)


def test_inputs_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="0 or 1"):
        Bernoulli().check(np.array([[0.5]]))
    with pytest.raises(ValueError, match="counts"):
        Poisson().check(np.array([[-1.0]]))
