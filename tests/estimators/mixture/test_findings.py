"""Data that no mixture fits well: told by name, never NaN."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from gramian.estimators.mixture.gaussian import GaussianMixture
from mixtures import STARTS, TYPES, clusters


def finite(fitted, X):
    learned = [value for name, value in vars(fitted).items() if name.endswith("s_") and name != "feature_names_in_"]
    outputs = [fitted.score_samples(X), fitted.predict_proba(X), fitted.sample(5)[0]]
    return all(np.isfinite(np.asarray(value, dtype=float)).all() for value in [*learned, *outputs])


@pytest.mark.parametrize("assignment", ["soft", "hard"])
@pytest.mark.parametrize("covariance_type", TYPES)
def test_collapse_is_named(covariance_type, assignment):
    X = np.vstack([clusters(50, K=1), np.full((5, 3), 100.0)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = GaussianMixture(2, covariance_type=covariance_type, assignment=assignment, random_state=0).fit(X)
    if covariance_type != "tied":  # whose components share their spread
        assert any("collapsed to a point" in str(warning.message) for warning in caught)
        assert "collapsed to a point" in fitted.certificate_.message
    assert finite(fitted, X)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_collapse_without_regularisation_is_a_named_error(covariance_type):
    X = np.vstack([clusters(50, K=1), np.full((5, 3), 100.0)])
    if covariance_type == "tied":
        X = X[-5:]
    with pytest.raises(ValueError, match=r"ill-defined empirical covariance.*(component|shared)"):
        GaussianMixture(1 if covariance_type == "tied" else 2, covariance_type=covariance_type, reg_covar=0).fit(X)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_constant_columns_are_named(covariance_type):
    X = clusters(200)
    X[:, 1] = 0.1
    with pytest.warns(ConvergenceWarning, match="column 1 is constant"):
        fitted = GaussianMixture(2, covariance_type=covariance_type, random_state=0).fit(X)
    assert finite(fitted, X)
    if covariance_type in ("full", "tied"):
        assert_allclose(fitted.covariances_[..., 1, 1], 1e-6)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag"])
def test_constant_columns_without_regularisation_are_a_named_error(covariance_type):
    X = clusters(200)
    X[:, 1] = 0.1
    with pytest.raises(ValueError, match="without variance in columns 1"):
        GaussianMixture(2, covariance_type=covariance_type, reg_covar=0, random_state=0).fit(X)


@pytest.mark.parametrize("init_params", STARTS)
@pytest.mark.parametrize("covariance_type", TYPES)
def test_fewer_distinct_rows_than_components(covariance_type, init_params):
    X = np.repeat([[0.0, 0.0], [1.0, 2.0]], 10, axis=0)
    with pytest.warns(ConvergenceWarning, match="collapsed|flat|empty|distinct"):
        fitted = GaussianMixture(4, covariance_type=covariance_type, init_params=init_params, random_state=0).fit(X)
    assert finite(fitted, X)
    assert fitted.weights_.sum() == pytest.approx(1)


def test_empty_components_are_named():
    X = clusters(100)
    far = np.vstack([X[:1], [[1e4, 1e4, 1e4]]])
    with pytest.warns(ConvergenceWarning, match="component 1 is empty"):
        fitted = GaussianMixture(2, means_init=far, precisions_init=np.tile(np.eye(3), (2, 1, 1)), random_state=0).fit(
            X
        )
    assert_array_equal(fitted.weights_, [1, 0])
    assert finite(fitted, X)


def test_too_few_rows():
    with pytest.raises(ValueError, match="n_samples >= n_components"):
        GaussianMixture(4).fit(clusters(3))
    with pytest.raises(ValueError, match="minimum of 2"):
        GaussianMixture(1).fit(clusters(1))
    with pytest.raises(ValueError, match="positive weight"):
        GaussianMixture(2).fit(clusters(3), sample_weight=[1, 0, 0])


def test_numbers_whose_squares_overflow_are_refused():
    with pytest.raises(ValueError, match="scale X"):
        GaussianMixture(1).fit([[1e200], [-1e200]])
