"""Parameters that have no part in a fit are refused, and so are rows that a parameter cannot be read from."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import svm
from sklearn.base import clone
from sklearn.gaussian_process import kernels as peer
from sklearn.model_selection import GridSearchCV

import gramian
from gramian.data import Blocks
from gramian.kernels import RBF, Constant, Precomputed, White
from gramian.kernels.resolve import scale_gamma

MODELS = [
    gramian.KernelRidge(),
    gramian.KernelInterpolator(),
    gramian.KernelMachineRegressor(),
    gramian.KernelMachineClassifier(),
    gramian.PegasosClassifier(),
    gramian.KernelPCA(),
    gramian.SVC(),
    gramian.NuSVC(),
    gramian.SVR(),
    gramian.NuSVR(),
    gramian.OneClassSVM(),
]


@pytest.fixture
def data(rng):
    X = rng.standard_normal((20, 2))
    return X, (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_kernel_with_parameters_of_its_own_takes_none_from_the_estimator(model, data):
    X, y = data
    name = type(model).__name__
    with pytest.raises(ValueError, match=f"gamma of {name} belongs to a kernel given by name, but kernel=RBF"):
        clone(model).set_params(kernel=RBF(1.0), gamma=2.0).fit(X, y)
    with pytest.raises(ValueError, match=f"degree and coef0 of {name} belong to a kernel given by name"):
        clone(model).set_params(kernel=RBF(1.0), degree=2, coef0=0.5).fit(X, y)
    if hasattr(model, "kernel_params"):
        with pytest.raises(ValueError, match=f"kernel_params of {name}"):
            clone(model).set_params(kernel=RBF(1.0), kernel_params={"a": 1}).fit(X, y)


def test_parameters_of_other_estimators_are_refused_with_ours_in_their_place():
    with pytest.raises(TypeError, match=r"KernelRidge has no parameter 'lam'; write alpha=n\*lam"):
        gramian.KernelRidge(lam=1.0)
    with pytest.raises(ValueError, match=r"Invalid parameter 'lam' for estimator KernelRidge; write alpha=n\*lam"):
        gramian.KernelRidge().set_params(lam=1.0)


def test_over_blocks_too(data):
    X, y = data
    for model in (gramian.KernelPCA(n_components=1), gramian.KernelRidge()):
        model.set_params(kernel=RBF(1.0), gamma=2.0, approximation=gramian.Nystroem(n_components=5))
        with pytest.raises(ValueError, match="belongs to a kernel given by name"):
            model.fit(Blocks(X, y))


@pytest.mark.parametrize("shift", [0.0, 1e8])
def test_gamma_scale_by_weight_is_that_of_repetitions(rng, shift):
    X, weights = shift + rng.standard_normal((40, 3)), rng.integers(1, 4, 40)
    X[::4, 1] = 0.0
    copies = np.repeat(X, weights, axis=0)
    expected = 1.0 / (3 * copies.var())
    for rows in (X, sp.csr_array(X), sp.csc_matrix(X)):
        assert scale_gamma(rows, weights) == pytest.approx(expected, rel=1e-12)
    assert scale_gamma(sp.coo_array(copies)) == pytest.approx(expected, rel=1e-12)


def test_weights_of_far_rows_keep_the_digits_of_gamma(rng):
    X, weights = rng.standard_normal((40, 2)), rng.integers(1, 4, 40)
    y = X[:, 0] > 0
    far = gramian.SVC(tol=1e-8).fit(X + 1e8, y, sample_weight=weights)
    near = svm.SVC(tol=1e-8).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(far.decision_function(X + 1e8), near.decision_function(X), atol=1e-5)


@pytest.mark.parametrize(
    "model", [gramian.SVC(), gramian.NuSVC(), gramian.SVR(), gramian.NuSVR(), gramian.OneClassSVM()]
)
def test_gamma_scale_of_rows_whose_variance_overflows(model, data):
    X, y = data
    with pytest.raises(ValueError, match="this variance overflows; rescale X"):
        model.fit(1e200 * X, y)


def test_probabilities_from_a_precomputed_matrix_are_refused(data):
    X, y = data
    K, new = RBF(1.0)(X), RBF(1.0)(X[:3], X)
    two = gramian.GaussianProcessClassifier(Precomputed(), optimizer=None).fit(K, y)
    rows = gramian.GaussianProcessClassifier(RBF(1.0), optimizer=None).fit(X, y)
    np.testing.assert_array_equal(two.predict(new), rows.predict(X[:3]))
    three = gramian.GaussianProcessClassifier(Precomputed(), optimizer=None).fit(K, np.arange(20) % 3)
    for method in (two.predict_proba, two.latent_mean_and_variance, three.predict):
        with pytest.raises(ValueError, match="does not hold"):
            method(new)


@pytest.mark.parametrize(
    "model",
    [
        *MODELS,
        gramian.GaussianProcessRegressor(),
        gramian.GaussianProcessClassifier(),
        gramian.AutoKernelRegressor(),
        gramian.AutoKernelClassifier(),
        gramian.Nystroem(),
        gramian.FourierFeatures(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_parameters_of_a_parameter_that_has_none_are_refused(model):
    model = clone(model)
    with pytest.raises(
        ValueError, match=r"kernel='rbf' is a name and has no parameters.*kernel=RBF\(lengthscale=2.0\)"
    ):
        model.set_params(kernel="rbf", kernel__lengthscale=1.0)
    assert model.set_params(kernel=RBF(1.0), kernel__lengthscale=2.0).kernel == RBF(2.0)
    assert model.set_params(kernel__lengthscale=3.0).get_params()["kernel__lengthscale"] == 3.0
    assert model.set_params(**model.get_params()).kernel == RBF(3.0)
    with pytest.raises(ValueError, match=r"RBF\(3.0\) has parameters \['lengthscale'.*not \['length'\]"):
        model.set_params(kernel__length=2.0)
    with pytest.raises(ValueError, match="Invalid parameter 'nothing'"):
        model.set_params(nothing__lengthscale=2.0)
    if hasattr(model, "approximation"):
        with pytest.raises(ValueError, match=r"approximation=None is no estimator.*a parameter n_components"):
            model.set_params(approximation=None, approximation__n_components=5)
        assert (
            model.set_params(approximation=gramian.Nystroem(), approximation__n_components=5).approximation.n_components
            == 5
        )


def test_kernels_of_scikit_learn_keep_their_nested_parameters():
    model = gramian.GaussianProcessRegressor(peer.RBF(1.0)).set_params(kernel__length_scale=2.0)
    assert model.kernel.length_scale == 2.0


def test_a_grid_over_the_parameters_of_a_kernel(rng):
    X = rng.uniform(-3.0, 3.0, (80, 1))
    model = gramian.KernelRidge(1e-3, kernel=Constant(1.0) * RBF(1.0) + White(0.1))
    grid = {"kernel__left__right__lengthscale": [0.01, 1.0, 100.0], "kernel__right__noise": [1e-3]}
    found = GridSearchCV(model, grid, cv=3).fit(X, np.sin(2.0 * X[:, 0]))
    assert found.best_params_["kernel__left__right__lengthscale"] == 1.0
    assert found.best_estimator_.kernel == Constant(1.0) * RBF(1.0) + White(1e-3)
    assert model.kernel == Constant(1.0) * RBF(1.0) + White(0.1)
    replaced = clone(model).set_params(kernel__left=RBF(5.0), kernel__left__lengthscale=2.0)
    assert replaced.kernel == RBF(2.0) + White(0.1)


@pytest.mark.parametrize(
    "model",
    [gramian.SVC(), gramian.NuSVC(nu=0.2), gramian.KernelMachineClassifier(), gramian.AutoKernelClassifier(None)],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_class_weights_are_finite_and_not_negative(model, weight, data):
    with pytest.raises(ValueError, match=rf"class_weight of class 0 must be a finite number >= 0, got {weight:g}"):
        clone(model).set_params(class_weight={0: weight, 1: 1.0}).fit(*data)


def test_a_class_of_weight_zero(data):
    X, y = data
    assert gramian.SVC(class_weight={0: 0.0}).fit(X, y).predict(X).all()
    for model, weights in ((gramian.SVC(), {0: 0, 1: 0}), (gramian.KernelMachineClassifier(), {0: 0})):
        with pytest.raises(ValueError, match="class 0 must be a finite number > 0, got 0; leave its rows out"):
            model.set_params(class_weight=weights).fit(X, y)


@pytest.mark.parametrize(
    "model",
    [
        gramian.GaussianProcessRegressor(RBF(1.0) + White(0.1)),
        gramian.GaussianProcessRegressor(RBF(1.0), alpha=0.1, optimizer=None, solver="pcg"),
        gramian.GaussianProcessClassifier(RBF(1.0)),
        gramian.KernelRidge(0.1, gamma=0.5, solver="pcg"),
        gramian.KernelMachineRegressor("squared", gamma=0.5, memory="1MB"),
        gramian.KernelPCA(2, kernel="rbf", eigen_solver="arpack"),
    ],
    ids=repr,
)
def test_two_fits_without_a_seed_are_equal(model, rng):
    X = rng.standard_normal((350, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(350)
    y = y > 0 if isinstance(model, gramian.GaussianProcessClassifier) else y
    first, second = (_values(clone(model).fit(X, y), X) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def _values(model, X):
    return model.transform(X) if hasattr(model, "transform") else getattr(model, "predict_proba", model.predict)(X)


@pytest.mark.parametrize("name", ["FourierFeatures", "RBFSampler", "PolynomialMap", "MetricMap", "Nystroem", "SVC"])
def test_threads_and_devices_are_checked_by_every_fit(name, data):
    with pytest.raises(ValueError, match="n_jobs must be a whole number other than zero"):
        getattr(gramian, name)(n_jobs=0).fit(*data)
    if "device" in getattr(gramian, name)().get_params():
        with pytest.raises(ValueError, match="device must be None, 'cuda'"):
            getattr(gramian, name)(device="tpu").fit(*data)
