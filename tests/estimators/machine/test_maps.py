"""Machines with any loss through maps: the exact problem of the map's kernel."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.estimators.machine.regressor import KernelMachineRegressor
from gramian.features.fourier import FourierFeatures, RBFSampler
from gramian.features.nystrom import Nystroem
from gramian.features.polynomial import PolynomialMap
from gramian.kernels import RBF

MAPS = [
    Nystroem(n_components=20, random_state=0),
    FourierFeatures(n_components=30, random_state=0),
    RBFSampler(n_components=30, random_state=0),
    PolynomialMap(2),
]
REGRESSION = ["squared", "absolute", "huber", "quantile", "epsilon_insensitive", "poisson"]
CLASSIFICATION = ["hinge", "squared_hinge", "logistic", "multinomial", "ramp"]
KINKED = ["absolute", "quantile", "epsilon_insensitive", "hinge", "ramp"]


@parametrize_with_checks(
    [
        KernelMachineRegressor(approximation=FourierFeatures()),
        KernelMachineRegressor("squared", approximation=PolynomialMap(1)),
        KernelMachineClassifier(approximation=FourierFeatures()),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def problem(n=90):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, 3))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2
    return X, f + 0.3 * rng.standard_normal(n), rng.integers(0, 3, n).astype(float)


@pytest.mark.parametrize("features", MAPS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("loss", REGRESSION)
def test_regression_is_that_of_the_maps_kernel(loss, features):
    X, y, weight = problem()
    y = np.round(np.exp(y)) if loss == "poisson" else y
    model = KernelMachineRegressor(loss, lam=1e-2, tol=1e-6 if loss in KINKED else 1e-8, approximation=features).fit(
        X, y, weight
    )
    F = model.approximation_.transform(X)
    exact = KernelMachineRegressor(loss, lam=1e-2, kernel="precomputed").fit(F @ F.T, y, weight)
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=1e-5)
    np.testing.assert_allclose(
        model.predict(X), exact.predict(F @ F.T), rtol=1e-3, atol=2e-2 if loss in KINKED else 1e-3
    )
    assert model.kernel_ == model.approximation_.kernel_


@pytest.mark.parametrize("features", MAPS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("loss", CLASSIFICATION)
@pytest.mark.parametrize("classes", [2, 3])
def test_classification_is_that_of_the_maps_kernel(loss, features, classes):
    X, y, weight = problem()
    labels = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    model = KernelMachineClassifier(loss, lam=1e-2, tol=1e-6 if loss in KINKED else 1e-8, approximation=features).fit(
        X, labels, weight
    )
    F = model.approximation_.transform(X)
    exact = KernelMachineClassifier(loss, lam=1e-2, kernel="precomputed").fit(F @ F.T, labels, weight)
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=1e-5)
    atol = 2e-2 if loss in KINKED else 1e-3
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(F @ F.T), rtol=1e-3, atol=atol)


def test_what_is_kept_of_a_map_without_landmarks():
    X, y, _ = problem()
    model = KernelMachineRegressor("huber", approximation=MAPS[1]).fit(X, np.column_stack([y, -y]))
    F = model.approximation_.transform(X)
    assert model.coef_.shape == (30, 2)
    np.testing.assert_allclose(model.predict(X), F @ model.coef_ + model.intercept_)
    assert not hasattr(model, "dual_coef_")
    assert not hasattr(model, "function_")
    assert model.predict(X.astype(np.float32)).dtype == np.float32
    # The next fit, of another kind, leaves nothing of this one.
    model.set_params(approximation=None).fit(X, y)
    assert model.function_(X) == pytest.approx(model.predict(X) - model.intercept_)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("penalty", ["norm", "ball"])
def test_other_penalties(penalty):
    X, y, _ = problem()
    options = {"penalty": penalty, "lam": 0.05, "radius": 0.7}
    model = KernelMachineRegressor("absolute", **options, approximation=MAPS[3]).fit(X, y)
    F = model.approximation_.transform(X)
    exact = KernelMachineRegressor("absolute", **options, kernel="precomputed").fit(F @ F.T, y)
    np.testing.assert_allclose(model.predict(X), exact.predict(F @ F.T), atol=2e-2)


@pytest.mark.parametrize("features", MAPS, ids=lambda m: type(m).__name__)
def test_cross_validation_and_sparse_rows(features):
    X, y, _ = problem()
    options = {"lam": "cv", "lams": [1.0, 1e-2], "cv": 3, "approximation": features}
    model = KernelMachineRegressor("huber", **options).fit(X, y)
    assert model.lam_ == 1e-2
    sparse = KernelMachineRegressor("huber", **options).fit(sp.csr_array(X), y)
    assert sparse.predict(sp.csr_array(X)).shape == y.shape
    if isinstance(features, PolynomialMap):
        np.testing.assert_allclose(sparse.cv_path_, model.cv_path_, rtol=1e-6)


def test_features_that_do_not_fit_are_refused():
    X, y, _ = problem()
    with pytest.raises(MemoryError, match="use fewer features or raise memory="):
        KernelMachineRegressor(approximation=FourierFeatures(n_components=400), memory=10_000).fit(X, y)


def test_lam_of_a_map_with_a_kernel_of_its_own_is_in_its_unit():
    X, y, _ = problem()
    model = KernelMachineRegressor("squared", lam="cv", approximation=PolynomialMap(2)).fit(X, y)
    assert model.lams_[0] == pytest.approx(np.mean((1 + np.sum(X**2, axis=1)) ** 2))
    assert KernelMachineRegressor("squared", kernel=RBF(), lam="cv").fit(X, y).lams_[0] == 1.0
