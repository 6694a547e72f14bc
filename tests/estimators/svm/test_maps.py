"""Support vector machines through maps: the exact machine of the map's kernel, with its certificate."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM, svm_path
from gramian.features.fourier import FourierFeatures, RBFSampler
from gramian.features.nystrom import Nystroem
from gramian.features.polynomial import PolynomialMap
from gramian.kernels import RBF, Polynomial, Spectrum

MAPS = [
    Nystroem(n_components=25, random_state=0),
    FourierFeatures(n_components=30, random_state=0),
    RBFSampler(n_components=30, random_state=0),
    PolynomialMap(2),
]
MACHINES = [SVC(C=2.0), NuSVC(nu=0.6), SVR(C=2.0), NuSVR(), OneClassSVM(nu=0.2)]


@parametrize_with_checks(
    [
        SVC(approximation=FourierFeatures()),
        SVR(approximation=FourierFeatures(random_state=0)),
        NuSVC(approximation=FourierFeatures()),
        NuSVR(approximation=PolynomialMap(2)),
        OneClassSVM(approximation=FourierFeatures(random_state=0)),
    ]
)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def problem(machine, n=150, classes=2):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 3))
    f = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.standard_normal(n)
    if isinstance(machine, SVC | NuSVC):
        return X, np.array(["a", "b", "c"])[np.digitize(f, np.quantile(f, np.arange(1, classes) / classes))]
    return X, f


def values(machine, X):
    shape = {"decision_function_shape": "ovo"} if hasattr(machine, "decision_function_shape") else {}
    machine.set_params(**shape)
    return machine.predict(X) if isinstance(machine, SVR | NuSVR) else machine.decision_function(X)


@pytest.mark.parametrize("features", MAPS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: type(m).__name__)
def test_it_is_the_exact_machine_of_the_maps_kernel(machine, features):
    X, y = problem(machine)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    fitted = clone(machine).set_params(approximation=features, tol=1e-8).fit(X, y, sample_weight=weight)
    F = fitted.approximation_.transform(X)
    exact = clone(machine).set_params(kernel="precomputed", tol=1e-8).fit(F @ F.T, y, sample_weight=weight)
    assert fitted.certificate_.converged
    assert fitted.certificate_.dual == pytest.approx(exact.certificate_.dual, rel=1e-7)
    np.testing.assert_allclose(values(fitted, X), values(exact, F @ F.T), atol=1e-4)
    # What the expansion in the support vectors says, the weights of the features say too.
    np.testing.assert_allclose(fitted.coef_, fitted.dual_coef_ @ F[fitted.support_], atol=1e-9)
    assert fitted.support_vectors_.shape == (0, 3)
    assert fitted.kinds_.shape == y.shape
    assert np.all(fitted.kinds_[fitted.support_] != "peripheral")


@pytest.mark.parametrize("features", MAPS[:1] + MAPS[3:], ids=lambda m: type(m).__name__)
def test_several_classes_probabilities_and_class_weights(features):
    X, y = problem(SVC(), classes=3)
    options = {"C": 2.0, "tol": 1e-8, "probability": True, "random_state": 0, "class_weight": "balanced"}
    fitted = SVC(**options, approximation=features).fit(X, y)
    F = fitted.approximation_.transform(X)
    exact = SVC(**options, kernel="precomputed").fit(F @ F.T, y)
    np.testing.assert_allclose(fitted.predict_proba(X), exact.predict_proba(F @ F.T), atol=1e-3)
    assert fitted.coef_.shape == (3, F.shape[1])
    assert len(fitted.certificates_) == 3
    assert np.array_equal(fitted.predict(X), exact.predict(F @ F.T))


def test_the_polynomial_map_is_the_polynomial_kernel():
    X, y = problem(SVC())
    exact = SVC(kernel=Polynomial(2), tol=1e-9).fit(X, y)
    mapped = SVC(approximation=PolynomialMap(2), tol=1e-9).fit(X, y)
    np.testing.assert_allclose(mapped.decision_function(X), exact.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("features", MAPS, ids=lambda m: type(m).__name__)
def test_sparse_rows_and_single_precision(features):
    X, y = problem(SVC())
    plain = SVC(approximation=features, tol=1e-8).fit(X, y)
    sparse = SVC(approximation=features, tol=1e-8).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_array(X)), plain.decision_function(X), atol=1e-8)
    np.testing.assert_allclose(sparse.decision_function(X), plain.decision_function(X), atol=1e-8)
    narrow = SVC(approximation=features, tol=1e-8).fit(X.astype(np.float32), y)
    values = narrow.decision_function(X.astype(np.float32))
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, plain.decision_function(X), atol=1e-4)
    np.testing.assert_allclose(narrow.decision_function(X), plain.decision_function(X), atol=1e-3)


def test_precomputed_with_landmarks():
    X, y = problem(SVR())
    weight = np.where(np.arange(len(y)) % 5 == 0, 0.0, 1.0)
    kernel, features = RBF(1.3), Nystroem(n_components=20, random_state=0)
    named = SVR(kernel=kernel, approximation=features, tol=1e-8).fit(X, y, weight)
    given = SVR(kernel="precomputed", approximation=features, tol=1e-8).fit(kernel(X), y, weight)
    np.testing.assert_allclose(given.predict(kernel(X)), named.predict(X), atol=1e-6)
    with pytest.raises(AttributeError, match="precomputed"):
        _ = given.function_


def test_the_function_of_landmarks():
    X, y = problem(SVC(), classes=3)
    fitted = SVC(approximation=MAPS[0], decision_function_shape="ovo").fit(X, y)
    at = np.column_stack([f(X) for f in fitted.function_]) + fitted.intercept_
    np.testing.assert_allclose(at, fitted.decision_function(X), atol=1e-9)
    with pytest.raises(AttributeError, match="landmarks"):
        _ = SVC(approximation=MAPS[1]).fit(X, y).function_


def test_a_new_fit_without_a_map_forgets_it():
    X, y = problem(SVR())
    machine = SVR(approximation=MAPS[0]).fit(X, y)
    exact = SVR().fit(X, y).predict(X)
    np.testing.assert_allclose(machine.set_params(approximation=None).fit(X, y).predict(X), exact)
    assert not hasattr(machine, "approximation_")


def test_path_and_hard_margin():
    X, y = problem(SVC())
    fits = svm_path(X, y, [0.1, 1.0], approximation=MAPS[0], tol=1e-8)
    for fitted, C in zip(fits, [0.1, 1.0], strict=True):
        alone = SVC(C=C, approximation=MAPS[0], tol=1e-8).fit(X, y)
        np.testing.assert_allclose(fitted.decision_function(X), alone.decision_function(X), atol=1e-5)
    with pytest.raises(ValueError, match="cannot be separated"):
        SVC(C=np.inf, approximation=PolynomialMap(1)).fit(X, y)


def test_bad_input_is_named():
    X, y = problem(SVC())
    with pytest.raises(ValueError, match="kernel is set on SVC"):
        SVC(approximation=Nystroem(gamma=2.0)).fit(X, y)
    with pytest.raises(ValueError, match="kernel of its own"):
        SVC(kernel="linear", approximation=PolynomialMap(2)).fit(X, y)
    with pytest.raises(ValueError, match="rows of numbers"):
        SVC(kernel=Spectrum(2), approximation=FourierFeatures()).fit(["abc", "bca", "aab", "bbb"], [0, 0, 1, 1])
    with pytest.raises(ValueError, match="approximation"):
        SVC(approximation="nystroem").fit(X, y)


def test_a_nu_that_leaves_no_margin_is_to_be_raised():
    X, y = problem(NuSVC())
    with pytest.raises(ValueError, match="raise nu"):
        NuSVC(nu=0.1, approximation=PolynomialMap(2)).fit(X, y)
    assert NuSVC(nu=0.6, approximation=PolynomialMap(2)).fit(X, y).margin_ < np.inf
