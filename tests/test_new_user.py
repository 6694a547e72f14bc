"""What a student tries first works, or is answered in one line that says what to write."""

from __future__ import annotations

import numpy as np
import pytest

import gramian
from gramian import (
    SVC,
    FourierFeatures,
    GaussianMixture,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelMachineClassifier,
    KernelPCA,
    KernelRidge,
    Nystroem,
    PegasosClassifier,
)
from gramian import kernels as gk
from gramian.gram import Gram
from gramian.kernels import RBF, Kernel, Laplace, Linear, Matern, Polynomial, RationalQuadratic, Sobolev, White
from gramian.rkhs import Function

RNG = np.random.default_rng(0)
X, y = RNG.standard_normal((20, 2)), RNG.standard_normal(20)


def dot(a, b):
    return float(a @ b)


def test_a_plain_function_goes_anywhere_a_kernel_goes():
    K = X @ X.T
    np.testing.assert_allclose(Gram(dot, X) @ y, K @ y)
    assert Function(dot, X, y).norm() ** 2 == pytest.approx(y @ K @ y)
    np.testing.assert_allclose((RBF(1.0) + dot)(X), RBF(1.0)(X) + K)
    np.testing.assert_allclose((dot * RBF(1.0))(X), RBF(1.0)(X) * K)
    np.testing.assert_allclose(KernelRidge(kernel=dot).fit(X, y).predict(X), KernelRidge().fit(X, y).predict(X))
    linear = SVC(kernel="linear").fit(X, y > 0).decision_function(X)
    np.testing.assert_allclose(SVC(kernel=dot).fit(X, y > 0).decision_function(X), linear, atol=1e-2)
    sets = [{1, 2}, {2, 3}, {4}, {4, 1}]
    both = SVC(kernel=lambda a, b: float(len(a & b))).fit(sets, [0, 0, 1, 1])
    assert list(both.predict(sets)) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (1.0, "got scalar array instead: RBF compares rows, so X must have shape (n, d); pass [[x]]."),
        (np.float64(2.0), "got scalar array"),
        ([1.0, 2.0], "got 1D array instead: RBF compares rows, so X must have shape (n, d); pass np.reshape"),
        (np.array([1, 2]), "got 1D array"),
    ],
    ids=str,
)
def test_numbers_and_vectors_are_told_what_to_be(x, message):
    with pytest.raises(ValueError, match="Expected 2D array") as raised:
        RBF(1.0)(x)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_usual_names():
    gamma = 0.7
    for name, other in (("gaussian", "rbf"), ("laplace", "laplacian")):
        assert gk.resolve(name, gamma=gamma) == gk.resolve(other, gamma=gamma)
        ours, theirs = (SVC(kernel=n).fit(X, y > 0).decision_function(X) for n in (name, other))
        np.testing.assert_array_equal(ours, theirs)
    assert gk.resolve("matern", gamma=gamma) == Matern(1 / np.sqrt(2 * gamma))
    assert gk.resolve("rational_quadratic", gamma=gamma) == RationalQuadratic(1 / np.sqrt(2 * gamma))
    assert gk.resolve("sobolev") == Sobolev()
    assert SVC(kernel="matern", gamma=gamma).fit(X, y > 0).kernel_ == Matern(1 / np.sqrt(2 * gamma))
    with pytest.raises(ValueError, match="did you mean 'gaussian'"):
        KernelRidge(kernel="gausian").fit(X, y)


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: RBF(sigma=1.0), "write lengthscale=sigma"),
        (lambda: RBF(gamma=1.0), r"write lengthscale=1/sqrt\(2\*gamma\)"),
        (lambda: Matern(length_scale=1.0), "did you mean 'lengthscale'"),
        (lambda: Laplace(gamma=1.0), "write lengthscale=1/gamma"),
        (lambda: Polynomial(coef0=1.0), "write offset=coef0"),
        (lambda: Linear(scale=1.0), "Linear has no parameter 'scale'"),
        (lambda: KernelRidge(lam=1.0), r"write alpha=n\*lam"),
        (lambda: KernelRidge(nonsense=1.0), "nonsense"),
    ],
)
def test_parameters_of_other_books_get_a_hint(make, hint):
    with pytest.raises(TypeError, match=hint):
        make()


def test_the_hints_are_true():
    sigma, gamma, lam = 0.8, 0.6, 0.05
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(RBF(lengthscale=sigma)(X), np.exp(-squares / (2 * sigma**2)))
    np.testing.assert_allclose(RBF(lengthscale=1 / np.sqrt(2 * gamma))(X), np.exp(-gamma * squares))
    f = KernelRidge(alpha=20 * lam, kernel=RBF(1.0)).fit(X, y)
    np.testing.assert_allclose(f.dual_coef_, np.linalg.solve(RBF(1.0)(X) + 20 * lam * np.eye(20), y))


@pytest.mark.parametrize("loss", ["zero_one", "0-1", "zero-one", "01"])
def test_the_loss_that_is_np_hard_names_the_one_that_stands_in(loss):
    with pytest.raises(ValueError, match="'ramp' stands in for it"):
        KernelMachineClassifier(loss).fit(X, y > 0)


def test_a_known_noise_is_in_the_intervals():
    told = GaussianProcessRegressor(RBF(1.0), noise=0.04, optimizer=None).fit(X, y)
    A = RBF(1.0)(X) + 0.04 * np.eye(20)
    Z = X[:3] + 0.1
    variance = 1.0 + 0.04 - np.sum(RBF(1.0)(X, Z) * np.linalg.solve(A, RBF(1.0)(X, Z)), axis=0)
    mean, std = told.predict(Z, return_std=True)
    np.testing.assert_allclose(mean, RBF(1.0)(Z, X) @ np.linalg.solve(A, y))
    np.testing.assert_allclose(std, np.sqrt(variance))
    _, low, high = told.predict(Z, return_interval=0.9)
    np.testing.assert_allclose(high - low, 2 * 1.6448536269514722 * np.sqrt(variance))
    learned = GaussianProcessRegressor(1.0 * RBF(1.0), noise=0.04, random_state=0).fit(X, y)
    assert learned.noise_ == 0.04  # it is known, so it is not learned
    scaled = GaussianProcessRegressor(RBF(1.0), noise=0.04, normalize_y=True, optimizer=None).fit(X, 5.0 * y)
    assert scaled.noise_ * np.std(5.0 * y) ** 2 == pytest.approx(0.04)  # in the units of y
    with pytest.raises(ValueError, match="a scale of its own"):
        GaussianProcessRegressor(RBF(1.0), noise=0.04, normalize_y=True).fit(X, np.column_stack([y, 3 * y]))
    with pytest.raises(ValueError, match="noise"):
        GaussianProcessRegressor(noise=-1.0).fit(X, y)


def test_import_star_brings_kernels_only():
    names: dict = {}
    exec("from gramian.kernels import *", names)
    brought = {name: value for name, value in names.items() if name != "__builtins__"}
    assert {"RBF", "White", "Spectrum"} <= set(brought)
    assert all(isinstance(value, type) and issubclass(value, Kernel) for value in brought.values())
    assert gk.is_kernel(RBF(1.0) + White(0.1), X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(kernel="rbf"),
        SVC(),
        PegasosClassifier(lam=0.1, n_iter=100),
        GaussianProcessClassifier(optimizer=None),
        GaussianProcessRegressor(RBF(1.0), alpha=0.1, n_restarts_optimizer=1, max_iter=2),
        KernelPCA(2, kernel="rbf", eigen_solver="randomized"),
        GaussianMixture(2),
        Nystroem(n_components=5),
        FourierFeatures(n_components=10),
        KernelMachineClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_random_state_takes_a_generator(model):
    def fitted(seed):
        model.set_params(random_state=seed).fit(X, y > 0)
        out = next(
            getattr(model, name) for name in ("decision_function", "transform", "predict") if hasattr(model, name)
        )
        return np.asarray(out(X))

    first, again = fitted(np.random.default_rng(3)), fitted(np.random.default_rng(3))
    np.testing.assert_array_equal(first, again)
    if isinstance(model, FourierFeatures):  # and it goes on where it was
        rng = np.random.default_rng(3)
        assert not np.array_equal(fitted(rng), fitted(rng))
    assert gramian.__version__


def test_classes_given_to_a_regressor_name_the_classifier():
    with pytest.raises(ValueError, match=r"could not convert .* Use AutoKernelClassifier for classes"):
        gramian.AutoKernelRegressor().fit([[1.0], [2.0], [3.0]], ["a", "b", "a"])


def test_a_misspelt_name_has_what_python_needs_to_suggest_another():
    with pytest.raises(AttributeError, match="KernelRige") as caught:
        _ = gramian.KernelRige
    assert (caught.value.name, caught.value.obj) == ("KernelRige", gramian)
