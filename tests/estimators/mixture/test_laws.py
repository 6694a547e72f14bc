"""Laws of GaussianMixture: weights, order, origin, linear maps, threads, precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from gramian.estimators.mixture.gaussian import GaussianMixture
from mixtures import STARTS, TYPES, clusters, quietly, starting_parameters

# -- weights ---------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    covariance_type=st.sampled_from(TYPES),
    assignment=st.sampled_from(["soft", "hard"]),
)
def test_whole_weights_are_repetitions_and_zeros_are_absences(seed, covariance_type, assignment):
    X = clusters(60, seed=seed)
    weights = np.random.default_rng(seed).integers(0, 4, len(X))
    params = {"covariance_type": covariance_type, "assignment": assignment, "max_iter": 10, "tol": 0.0}
    params |= starting_parameters(X, 3, covariance_type)
    weighted = quietly(GaussianMixture(3, **params), X, sample_weight=weights)
    repeated = quietly(GaussianMixture(3, **params), np.repeat(X, weights, axis=0))
    # Rounding may let hard assignment see that it stands still one iteration later.
    both = min(weighted.n_iter_, repeated.n_iter_)
    assert_allclose(weighted.lower_bounds_[:both], repeated.lower_bounds_[:both], rtol=1e-9)
    assert_allclose(weighted.means_, repeated.means_, rtol=1e-6, atol=1e-8)
    assert weighted.bic(X, sample_weight=weights) == pytest.approx(repeated.bic(np.repeat(X, weights, axis=0)))


@pytest.mark.parametrize("init_params", STARTS)
def test_rows_without_weight_do_not_count(init_params):
    X = clusters(200)
    weights = np.random.default_rng(0).uniform(0, 2, 200) * (np.arange(200) % 3 > 0)
    params = {"init_params": init_params, "random_state": 0}
    whole = quietly(GaussianMixture(3, **params), X, sample_weight=weights)
    part = quietly(GaussianMixture(3, **params), X[weights > 0], sample_weight=weights[weights > 0])
    assert_allclose(whole.means_, part.means_)


def test_equal_weights_are_none():
    X = clusters(200)
    unweighted = GaussianMixture(3, random_state=0).fit(X)
    weighted = GaussianMixture(3, random_state=0).fit(X, sample_weight=np.full(len(X), 1e-3))
    assert_allclose(weighted.means_, unweighted.means_, rtol=1e-6)
    assert weighted.score(X, sample_weight=np.full(len(X), 7.0)) == pytest.approx(weighted.score(X))


@pytest.mark.parametrize("wrong", [-np.ones(60), np.zeros(60), np.ones(59), np.full(60, np.nan)])
def test_weights_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        GaussianMixture(2).fit(clusters(60), sample_weight=wrong)


# -- laws ------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), covariance_type=st.sampled_from(TYPES), shift=st.floats(-1e4, 1e4))
def test_order_and_origin_of_rows_do_not_matter(seed, covariance_type, shift):
    X = clusters(80, seed=seed)
    params = {"covariance_type": covariance_type, "max_iter": 8, "tol": 0.0} | starting_parameters(
        X, 3, covariance_type
    )
    fitted = quietly(GaussianMixture(3, **params), X)
    permuted = quietly(GaussianMixture(3, **params), np.random.default_rng(seed).permutation(X))
    assert_allclose(permuted.lower_bounds_, fitted.lower_bounds_, rtol=1e-9)
    shifted = quietly(GaussianMixture(3, **{**params, "means_init": params["means_init"] + shift}), X + shift)
    assert_allclose(shifted.lower_bounds_, fitted.lower_bounds_, rtol=1e-7)
    assert_allclose(shifted.means_ - shift, fitted.means_, atol=1e-5)


@pytest.mark.parametrize("covariance_type", ["full", "tied"])
def test_a_linear_map_of_the_rows_is_one_of_the_mixture(covariance_type):
    X = clusters(300)
    rng = np.random.default_rng(1)
    A = rng.normal(size=(3, 3)) + 2 * np.eye(3)
    params = {"covariance_type": covariance_type, "max_iter": 8, "tol": 0.0, "reg_covar": 0.0}
    start = starting_parameters(X, 3, covariance_type)
    inverse = np.linalg.inv(A)
    mapped = {
        **start,
        "means_init": start["means_init"] @ A.T,
        "precisions_init": inverse.T @ start["precisions_init"] @ inverse,
    }
    plain, other = (
        quietly(GaussianMixture(3, **params, **start), X),
        quietly(GaussianMixture(3, **params, **mapped), X @ A.T),
    )
    assert_allclose(other.means_, plain.means_ @ A.T, rtol=1e-6)
    log_det = np.linalg.slogdet(A)[1]
    assert_allclose(np.array(other.lower_bounds_) + log_det, plain.lower_bounds_, rtol=1e-7)


def test_the_number_of_threads_does_not_matter():
    X = clusters(30_000, d=5, K=5)
    fits = [GaussianMixture(5, random_state=0, n_jobs=n_jobs).fit(X) for n_jobs in (1, 2, 3)]
    for fitted in fits[1:]:
        assert_array_equal(fitted.means_, fits[0].means_)
        assert_array_equal(fitted.predict_proba(X), fits[0].predict_proba(X))


# -- float32 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance_type", TYPES)
def test_float32_far_from_the_origin(covariance_type):
    X = clusters(5000, d=5, K=4, shift=1000.0).astype(np.float32)
    params = {"covariance_type": covariance_type, "tol": 0.0, "max_iter": 20} | starting_parameters(
        X, 4, covariance_type
    )
    single, double = quietly(GaussianMixture(4, **params), X), quietly(GaussianMixture(4, **params), X.astype(float))
    for name in ("weights_", "means_", "covariances_", "precisions_cholesky_"):
        assert getattr(single, name).dtype == np.float64  # what is certified is what predicts
    assert_allclose(single.lower_bounds_, double.lower_bounds_, rtol=1e-12)
    assert single.score(X) == pytest.approx(double.score(X), rel=1e-4)
    assert_allclose(single.covariances_, double.covariances_, rtol=1e-4, atol=1e-5)
    assert single.predict_proba(X).dtype == single.score_samples(X).dtype == np.float32
    assert_allclose(single.score_samples(X), double.score_samples(X), rtol=2e-4)
