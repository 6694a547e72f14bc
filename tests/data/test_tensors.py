"""Arrays of another library, here array-api-strict's, in and out of estimators; torch's are in tests/estimators."""

import array_api_strict as xp
import numpy as np
import pytest
from sklearn import config_context

from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.estimators.pca import KernelPCA
from gramian.estimators.ridge import KernelRidge
from gramian.estimators.svm import SVC
from gramian.kernels import RBF

X = np.random.default_rng(0).standard_normal((30, 2))
Y = np.sin(X[:, 0])


@pytest.fixture(autouse=True)
def allowed(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # scikit-learn asks for it


def test_what_came_in_comes_out():
    weights = np.linspace(0.1, 1.0, 30)
    want = KernelRidge(0.1, kernel="rbf").fit(X, Y, weights)
    with config_context(array_api_dispatch=True):
        model = KernelRidge(0.1, kernel="rbf").fit(xp.asarray(X), xp.asarray(Y), sample_weight=xp.asarray(weights))
        got = model.predict(xp.asarray(X))
        assert got.__array_namespace__() is xp
        np.testing.assert_array_equal(np.asarray(got), want.predict(X))
        assert isinstance(model.dual_coef_, np.ndarray)
        assert isinstance(model.predict(X), np.ndarray)
        mean, deviation = GaussianProcessRegressor(RBF(1.0), optimizer=None).fit(X, Y).predict(xp.asarray(X), True)
        assert mean.__array_namespace__() is deviation.__array_namespace__() is xp
        assert KernelPCA(2, kernel="rbf").fit_transform(xp.asarray(X)).__array_namespace__() is xp


def test_labels_that_are_text_stay_as_they_are():
    labels = np.where(Y > 0, "up", "down")
    with config_context(array_api_dispatch=True):
        model = SVC().fit(xp.asarray(X), labels)
        assert set(model.predict(xp.asarray(X))) == {"up", "down"}
        assert model.decision_function(xp.asarray(X)).__array_namespace__() is xp


def test_without_dispatch_all_is_numpy():
    assert isinstance(KernelRidge(0.1, kernel="rbf").fit(xp.asarray(X), Y).predict(xp.asarray(X)), np.ndarray)
