"""Kernel objects of scikit-learn that are called as they are, and what the fitted ones answer."""

import numpy as np
import pytest
import sklearn.gaussian_process as peers
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import kernels as sk

from gramian import GaussianProcessClassifier, GaussianProcessRegressor, KernelMachineClassifier, KernelRidge
from gramian.kernels import RBF, White, resolve
from gramian.kernels.adapted import Adapted

rng = np.random.default_rng(0)
X, Y = rng.standard_normal((12, 2)), rng.standard_normal((5, 2))
y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(12)


class Own(sk.RBF):
    """A user's kernel that is not ours by another name."""

    def __call__(self, X, Y=None, eval_gradient=False):
        found = super().__call__(X, Y, eval_gradient)
        return (found[0] ** 2, 2.0 * found[0][..., None] * found[1]) if eval_gradient else found**2


class Letters(sk.GenericKernelMixin, sk.StationaryKernelMixin, sk.Kernel):
    """A kernel of strings, with one parameter."""

    def __init__(self, same=2.0, same_bounds=(1e-2, 1e2)):
        self.same, self.same_bounds = same, same_bounds

    @property
    def hyperparameter_same(self):
        return sk.Hyperparameter("same", "numeric", self.same_bounds)

    def __call__(self, X, Y=None, eval_gradient=False):
        common = np.array([[float(len(set(a) & set(b))) for b in (X if Y is None else Y)] for a in X])
        return (self.same * common, self.same * common[..., None]) if eval_gradient else self.same * common

    def diag(self, X):
        return self.same * np.array([float(len(set(a))) for a in X])


class Tanh(sk.Kernel):
    """A similarity that is not positive semi-definite."""

    def __init__(self):
        pass

    def __call__(self, X, Y=None, eval_gradient=False):
        return np.tanh(X @ (X if Y is None else Y).T - 1.0)

    def diag(self, X):
        return np.diagonal(self(X))

    def is_stationary(self):
        return False


KERNELS = [
    Own(0.7),
    Own([0.7, 1.5], [(1e-2, 1e2), (1e-3, 1e3)]),
    sk.RBF([0.7, 1.5], [(1e-2, 1e2), (1e-3, 1e3)]),
    sk.RBF(0.7) ** 1.5,
    sk.ConstantKernel(2.0) * Own(0.7) + sk.WhiteKernel(0.1),
]


@pytest.mark.parametrize("theirs", KERNELS)
def test_values_and_gradients_are_theirs(theirs):
    ours = resolve(theirs, X)
    np.testing.assert_allclose(ours(X, Y), theirs(X, Y), rtol=1e-12)
    np.testing.assert_allclose(ours(X), theirs(X), rtol=1e-12)
    np.testing.assert_allclose(ours.diag(X), theirs.diag(X), rtol=1e-12)
    np.testing.assert_allclose(ours.theta, theirs.theta)
    np.testing.assert_allclose(ours.bounds, theirs.bounds)
    W = rng.standard_normal((12, 12))
    np.testing.assert_allclose(ours.vjp(X, None, W), np.einsum("ij,ijp->p", W, theirs(X, eval_gradient=True)[1]))
    moved = theirs.theta + 0.3
    np.testing.assert_allclose(ours.with_theta(moved)(X, Y), theirs.clone_with_theta(moved)(X, Y), rtol=1e-12)
    assert ours.fix().theta.size == 0
    assert ours == resolve(clone(theirs), X)
    assert hash(ours) == hash(resolve(clone(theirs), X))


def test_the_gradient_between_two_sets_of_rows():
    ours, step = Adapted(Own(0.7)), 1e-6
    W = rng.standard_normal((12, 5))
    change = np.sum(W * (ours.with_theta(ours.theta + step)(X, Y) - ours.with_theta(ours.theta - step)(X, Y)))
    np.testing.assert_allclose(ours.vjp(X, Y, W), change / (2 * step), rtol=1e-5)


@pytest.mark.parametrize("kernel", [Own(0.7), sk.ConstantKernel(2.0) * Own(0.7) + sk.WhiteKernel(0.1)])
def test_processes_learn_their_kernels(kernel):
    ours = GaussianProcessRegressor(kernel, start="given").fit(X, y)
    peer = peers.GaussianProcessRegressor(kernel).fit(X, y)
    assert ours.log_marginal_likelihood_value_ >= peer.log_marginal_likelihood_value_ - 1e-4
    np.testing.assert_allclose(ours.kernel_.theta, peer.kernel_.theta, atol=1e-2)


def test_structured_inputs():
    words, kernel = ["ab", "abc", "c", "ca", "bd", "d"], Letters()
    values = np.array([1.0, 2.0, 0.5, 1.5, 1.1, 0.2])
    ours = GaussianProcessRegressor(kernel, alpha=0.1).fit(words, values)
    peer = peers.GaussianProcessRegressor(kernel, alpha=0.1).fit(words, values)
    for mine, known in zip(
        ours.predict(["abd", "c"], return_std=True), peer.predict(["abd", "c"], return_std=True), strict=True
    ):
        np.testing.assert_allclose(mine, known, atol=1e-4)
    labels = values > 1.0
    fixed = Letters(same_bounds="fixed")
    classifier = GaussianProcessClassifier(fixed).fit(words, labels)
    known = peers.GaussianProcessClassifier(fixed).fit(words, labels)
    np.testing.assert_allclose(classifier.predict_proba(words), known.predict_proba(words), atol=2e-3)
    ridge = KernelRidge(0.1, kernel=fixed).fit(words, values)
    np.testing.assert_allclose(ridge.predict(words), ours_ridge(kernel(words), values), rtol=1e-8)


def ours_ridge(K, values):
    return K @ np.linalg.solve(K + 0.1 * np.eye(len(K)), values)


def test_a_similarity_that_is_not_positive_semi_definite_is_not_certified():
    with pytest.warns(ConvergenceWarning, match="K is not positive semi-definite"):
        model = KernelMachineClassifier("logistic", kernel=Tanh(), lam=1.0).fit(X, y > 0)
    assert not model.certificate_.converged


def test_wrong_shapes_are_named():
    class Bad(sk.RBF):
        def __call__(self, X, Y=None, eval_gradient=False):
            return np.ones((1, 1))

    with pytest.raises(ValueError, match=r"must return shape \(12, 5\) for X and Y, got \(1, 1\)"):
        Adapted(Bad())(X, Y)


def test_a_fitted_kernel_answers_for_theirs():
    given = sk.ConstantKernel(1.0) * sk.RBF([1.0, 2.0]) + sk.DotProduct(1.5) + sk.WhiteKernel(0.1)
    given = given + sk.RationalQuadratic(0.5, 2.0) ** 2 + sk.PairwiseKernel(0.3, metric="rbf")
    gp = GaussianProcessRegressor(given, optimizer=None).fit(X, y)
    assert gp.kernel_.get_params().keys() == given.get_params().keys()
    assert [h.name for h in gp.kernel_.hyperparameters] == [h.name for h in given.hyperparameters]
    np.testing.assert_allclose(gp.kernel_.theirs.theta, given.theta)
    moved = gp.kernel_.with_theta(gp.kernel_.theta + 0.2)
    gp.log_marginal_likelihood(moved.theta, clone_kernel=False)
    np.testing.assert_allclose(gp.kernel_.theirs(X), moved(X), rtol=1e-10)
    np.testing.assert_allclose(gp.kernel_.k1.k1.k1.k1.k2.length_scale, np.exp(np.log([1.0, 2.0]) + 0.2))
    assert clone(gp.kernel_) is gp.kernel_
    with pytest.raises(AttributeError, match="no attribute 'length_scale'"):
        _ = RBF(1.0).length_scale
    assert not hasattr(resolve(sk.RBF(1.0)), "get_params")


def test_bounds_that_bind_are_named_as_there():
    with pytest.warns(ConvergenceWarning, match="dimension 0 of parameter k1__noise_level is close to the .* upper"):
        GaussianProcessRegressor(sk.WhiteKernel(noise_level_bounds=(1e-5, 1e-3)) + sk.RBF(1.0)).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="parameter left.noise is close to the specified upper"):
        GaussianProcessRegressor(White(1e-3, (1e-5, 1e-3)) + RBF(1.0)).fit(X, y)
    with pytest.raises(ValueError, match="requires that all bounds are finite"):
        GaussianProcessRegressor(sk.WhiteKernel(noise_level_bounds=(-np.inf, np.inf))).fit(X, y)


def test_kernels_of_several_classes_have_one_theta():
    labels = np.arange(12) % 3
    gp = GaussianProcessClassifier(sk.RBF(1.0)).fit(X, labels)
    assert gp.kernel_.theta.shape == (3,)
    assert gp.kernel_.bounds.shape == (3, 2)
    assert gp.kernel_.kernels[0].length_scale > 0
    assert gp.log_marginal_likelihood(gp.kernel_.theta) == pytest.approx(gp.log_marginal_likelihood_value_, abs=1e-6)
    fixed = GaussianProcessClassifier(sk.RBF(1.0, "fixed")).fit(X, labels)
    value = fixed.log_marginal_likelihood(fixed.kernel_.theta)
    assert value == pytest.approx(fixed.log_marginal_likelihood_value_, abs=1e-6)
