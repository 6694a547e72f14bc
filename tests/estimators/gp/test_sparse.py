"""Gaussian processes through maps: near the exact process, honest about the rest."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.features.fourier import FourierFeatures
from gramian.features.nystrom import Nystroem
from gramian.features.polynomial import PolynomialMap
from gramian.kernels import Polynomial, White


@pytest.mark.filterwarnings("ignore:n_components = .* is more than")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        GaussianProcessRegressor(noise="learn", approximation=Nystroem(n_components=50)),
        GaussianProcessRegressor(noise="learn", approximation=FourierFeatures()),
    ]
)
def test_sklearn_contract(estimator, check):
    check(estimator)


@pytest.fixture
def waves(rng):
    X = rng.uniform(-3, 3, (200, 1))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(200)


@pytest.mark.parametrize("normalize_y", [False, True])
def test_sparse_process_is_near_the_exact_one(waves, normalize_y):
    X, y = waves
    options = {"noise": "learn", "random_state": 0, "normalize_y": normalize_y}
    exact = GaussianProcessRegressor(**options).fit(X, y + 5.0)
    sparse = GaussianProcessRegressor(**options, approximation=Nystroem(n_components=30)).fit(X, y + 5.0)
    assert sparse.log_marginal_likelihood_value_ <= exact.log_marginal_likelihood(sparse.kernel_.theta) + 1e-6
    assert sparse.log_marginal_likelihood_value_ == pytest.approx(exact.log_marginal_likelihood_value_, abs=0.1)
    assert sparse.log_marginal_likelihood(sparse.kernel_.theta) == pytest.approx(sparse.log_marginal_likelihood_value_)
    Z = np.linspace(-2.5, 2.5, 20)[:, None]
    for ours, theirs in zip(sparse.predict(Z, return_std=True), exact.predict(Z, return_std=True), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.02)
    assert sparse.alpha_.shape == sparse.approximation_.component_indices_.shape
    shift = 0.0 if not normalize_y else np.mean(y + 5.0)
    np.testing.assert_allclose(sparse.function_(Z) + shift, sparse.predict(Z), atol=1e-8)


def test_fourier_process_is_near_the_exact_one(waves):
    X, y = waves
    exact = GaussianProcessRegressor(noise="learn", random_state=0).fit(X, y)
    near = GaussianProcessRegressor(noise="learn", random_state=0, approximation=FourierFeatures(n_components=500)).fit(
        X, y
    )
    assert near.kernel_ == exact.kernel_
    Z = np.linspace(-2.5, 2.5, 20)[:, None]
    for ours, theirs in zip(near.predict(Z, return_std=True), exact.predict(Z, return_std=True), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.05)
    assert not hasattr(near, "function_")


def test_polynomial_map_is_exact(waves):
    X, y = waves
    exact = GaussianProcessRegressor(Polynomial(3).fix() + White(0.1).fix(), optimizer=None).fit(X, y)
    near = GaussianProcessRegressor(alpha=0.1, optimizer=None, approximation=PolynomialMap(3)).fit(X, y)
    np.testing.assert_allclose(near.predict(X), exact.predict(X), atol=1e-6)
    assert near.kernel_ == Polynomial(3).fix()


def test_refit_without_the_map_forgets_it(waves):
    X, y = waves
    model = GaussianProcessRegressor(noise="learn", approximation=FourierFeatures(), random_state=0).fit(X, y)
    model.set_params(approximation=None).fit(X, y)
    assert not hasattr(model, "approximation_")
    assert model.alpha_.shape == y.shape


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"approximation": Nystroem(), "solver": "pcg"}, "leave solver='auto'"),
        ({"approximation": Nystroem(), "kernel": "precomputed"}, "needs rows"),
        ({"approximation": PolynomialMap(), "kernel": Polynomial(2)}, "kernel of its own"),
        ({"approximation": FourierFeatures(), "alpha": 0.0}, "needs noise > 0"),
    ],
)
def test_refusals(parameters, message, waves):
    X, y = waves
    with pytest.raises(ValueError, match=message):
        GaussianProcessRegressor(**parameters).fit(X @ X.T if "precomputed" in parameters.values() else X, y)
