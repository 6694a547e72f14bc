"""Centred Gram matrices beside scikit-learn's, and beside vectors."""

import numpy as np
import pytest
from sklearn.preprocessing import KernelCenterer as Peer
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian import KernelCenterer


@parametrize_with_checks([KernelCenterer()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_like_scikit_learn(rng, dtype):
    X, Z = rng.standard_normal((8, 3)).astype(dtype), rng.standard_normal((4, 3)).astype(dtype)
    ours, theirs = KernelCenterer().fit(X @ X.T), Peer().fit(X @ X.T)
    found = ours.transform(Z @ X.T)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, theirs.transform(Z @ X.T), atol=1e-5 if dtype == np.float32 else 1e-12)
    np.testing.assert_allclose(ours.K_fit_rows_, theirs.K_fit_rows_, rtol=1e-5)
    assert ours.K_fit_all_ == pytest.approx(theirs.K_fit_all_, rel=1e-5)
    assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())


def test_weights_and_copies(rng):
    X, Z = rng.standard_normal((8, 3)), rng.standard_normal((4, 3))
    w = rng.integers(0, 3, 8).astype(float)
    mean = np.average(X, axis=0, weights=w)
    K = Z @ X.T
    model = KernelCenterer().fit(X @ X.T, sample_weight=w)
    np.testing.assert_allclose(model.transform(K), (Z - mean) @ (X - mean).T, atol=1e-12)
    np.testing.assert_array_equal(K, Z @ X.T)
    assert model.transform(K, copy=False) is K
    with pytest.raises(ValueError, match=r"must be a square matrix\. Input is a 4x8"):
        KernelCenterer().fit(Z @ X.T)
