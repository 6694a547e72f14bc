"""GaussianProcessClassifier: scikit-learn's contract and numbers, and a certificate."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier as Peer
from sklearn.gaussian_process import kernels as sk
from sklearn.utils.estimator_checks import parametrize_with_checks

import reference_gp as reference
from gramian.estimators.gp.classifier import GaussianProcessClassifier
from gramian.kernels import RBF, Linear, Sigmoid, Spectrum, White


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([GaussianProcessClassifier(), GaussianProcessClassifier(1.0 * RBF(1.0), warm_start=True)])
def test_scikit_learns_contract(estimator, check):
    check(estimator)


def data(n=70, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    score = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(n)
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    return X, np.array(["a", "b", "c", "d"])[y], rng.uniform(-2, 2, (23, 2))


PAIRS = [
    (None, None),
    (2.0 * RBF([0.5, 1.0]), sk.ConstantKernel(2.0) * sk.RBF([0.5, 1.0])),
    (Linear() + White(0.1), sk.DotProduct(0.0, "fixed") + sk.WhiteKernel(0.1)),
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=repr)
def test_numbers_are_scikit_learns(ours, theirs):
    X, y, Z = data()
    a = GaussianProcessClassifier(ours, optimizer=None).fit(X, y)
    b = Peer(theirs, optimizer=None).fit(X, y)
    np.testing.assert_array_equal(a.predict(Z), b.predict(Z))
    for left, right in zip(a.latent_mean_and_variance(Z), b.latent_mean_and_variance(Z), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-5)
    # scikit-learn approximates the logistic function by error functions, to about 3e-4.
    np.testing.assert_allclose(a.predict_proba(Z), b.predict_proba(Z), atol=5e-4)
    assert a.log_marginal_likelihood_value_ == pytest.approx(b.log_marginal_likelihood_value_, abs=2e-6)
    _, exact = reference.laplace(np.asarray(a.kernel_(X)) + 1e-10 * np.eye(len(X)), (y == "b").astype(float))
    assert a.log_marginal_likelihood_value_ == pytest.approx(exact, abs=1e-5)
    np.testing.assert_allclose(a.base_estimator_.pi_, b.base_estimator_.pi_, atol=1e-5)
    if ours is not None:
        left = a.log_marginal_likelihood(a.kernel_.theta, eval_gradient=True)
        right = b.log_marginal_likelihood(b.kernel_.theta, eval_gradient=True)
        np.testing.assert_allclose(left[1], right[1], atol=1e-4)
    assert a.certificate_.converged
    assert a.certificate_.kind == "duality gap"


@pytest.mark.parametrize("multi_class", ["one_vs_rest", "one_vs_one"])
def test_several_classes(multi_class):
    X, y, Z = data(90, classes=3)
    ours, theirs = 2.0 * RBF(0.8), sk.ConstantKernel(2.0) * sk.RBF(0.8)
    a = GaussianProcessClassifier(ours, optimizer=None, multi_class=multi_class).fit(X, y)
    b = Peer(theirs, optimizer=None, multi_class=multi_class).fit(X, y)
    assert np.mean(a.predict(Z) == b.predict(Z)) > 0.95
    assert a.n_classes_ == 3
    assert a.kernel_ == (ours,) * 3
    assert a.log_marginal_likelihood() == pytest.approx(b.log_marginal_likelihood(), abs=1e-5)
    theta = np.log([3.0, 0.5])
    assert a.log_marginal_likelihood(theta) == pytest.approx(b.log_marginal_likelihood(theta), abs=1e-5)
    each = np.tile(theta, 3)
    assert a.log_marginal_likelihood(each) == pytest.approx(a.log_marginal_likelihood(theta))
    _, shared = a.log_marginal_likelihood(theta, eval_gradient=True)
    _, apart = a.log_marginal_likelihood(each, eval_gradient=True)
    np.testing.assert_allclose(apart.reshape(3, 2).sum(axis=0), shared)
    slow = reference.numerical_gradient(a.log_marginal_likelihood, theta, 1e-4)
    np.testing.assert_allclose(shared, slow, rtol=1e-4)
    with pytest.raises(ValueError, match="Shape of theta must be either 2 or 6"):
        a.log_marginal_likelihood(np.zeros(3))
    with pytest.raises(ValueError, match="only supported for binary"):
        a.latent_mean_and_variance(Z)
    if multi_class == "one_vs_one":
        with pytest.raises(ValueError, match="does not support predicting probability"):
            a.predict_proba(Z)
    else:
        np.testing.assert_allclose(a.predict_proba(Z).sum(axis=1), 1.0)
        np.testing.assert_allclose(a.predict_proba(Z), b.predict_proba(Z), atol=1e-3)
        # What scikit-learn's own classifier of several makes of the same machines.
        np.testing.assert_allclose(a.predict_proba(Z), a.base_estimator_.predict_proba(Z), rtol=1e-12)
        np.testing.assert_array_equal(a.predict(Z), a.base_estimator_.predict(Z))
        many = np.tile(Z, (20, 1))  # by tiles
        np.testing.assert_allclose(a.predict_proba(many)[-23:], a.predict_proba(Z), rtol=1e-10)


def test_learning_reaches_the_peers_optimum():
    X, y, _ = data(120)
    ours = GaussianProcessClassifier(1.0 * RBF([1.0, 1.0]), random_state=0).fit(X, y)
    theirs = Peer(sk.ConstantKernel() * sk.RBF([1.0, 1.0])).fit(X, y)
    assert ours.log_marginal_likelihood_value_ >= theirs.log_marginal_likelihood_value_ - 1e-3
    assert ours.certificate_.converged
    assert ours.certificate_.kind == "evidence"
    given = GaussianProcessClassifier(
        1.0 * RBF([1.0, 1.0]), start="given", n_restarts_optimizer=1, warm_start=True, random_state=0
    ).fit(X, y)
    assert given.log_marginal_likelihood_value_ >= theirs.log_marginal_likelihood_value_ - 1e-3


def test_warm_start_between_fits():
    X, y, _ = data()
    gp = GaussianProcessClassifier(2.0 * RBF(0.8), optimizer=None, warm_start=True).fit(X, y)
    cold, value = gp.certificate_.iterations, gp.log_marginal_likelihood_value_
    gp.fit(X, y)
    assert gp.certificate_.iterations < cold
    assert gp.log_marginal_likelihood_value_ == pytest.approx(value)


def test_dtype_sparse_and_objects():
    X, y, Z = data()
    X[np.abs(X) < 0.5] = 0.0
    gp = GaussianProcessClassifier(optimizer=None).fit(X, y)
    narrow = GaussianProcessClassifier(optimizer=None).fit(X.astype(np.float32), y)
    p = narrow.predict_proba(Z.astype(np.float32))
    assert p.dtype == np.float32
    np.testing.assert_allclose(p, gp.predict_proba(Z), atol=1e-5)
    sparse = GaussianProcessClassifier(optimizer=None).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.predict_proba(sp.csr_array(Z)), gp.predict_proba(Z), atol=1e-7)
    words = GaussianProcessClassifier(5.0 * Spectrum(2).normalized(), optimizer=None)
    words.fit(["banana", "bandana", "cobra", "python"], [0, 0, 1, 1])
    assert words.predict(["ananas"])[0] == 0


def test_bad_input():
    X, y, _ = data()
    with pytest.raises(ValueError, match=r"requires 2 or more distinct classes; got 1 class"):
        GaussianProcessClassifier().fit(X, np.zeros(70))
    with pytest.raises(np.linalg.LinAlgError, match=r"K has the eigenvalue -"):
        GaussianProcessClassifier(100.0 * Sigmoid(1.0, -2.0), optimizer=None).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        GaussianProcessClassifier().fit(np.where(X > 1.9, np.nan, X), y)
    with pytest.warns(ConvergenceWarning, match="1 Newton steps"):
        GaussianProcessClassifier(3.0 * RBF(1.0), optimizer=None, max_iter_predict=1).fit(X, y)
    gp = GaussianProcessClassifier().fit(X, y)
    with pytest.raises(ValueError, match="theta!=None"):
        gp.log_marginal_likelihood(eval_gradient=True)


def test_an_exact_tie_is_the_same_class_by_every_way():
    # K of these rows makes f(2) = f(0) + f(1), and the labels pull equally: the mode is zero.
    K = np.array([[1.0, 0.5, 1.5], [0.5, 1.0, 1.5], [1.5, 1.5, 3.0]])
    gp = GaussianProcessClassifier(lambda a, b: K[int(a[0]), int(b[0])]).fit([[0.0], [1.0], [2.0]], [1, 1, 0])
    probabilities = gp.predict_proba([[0.0], [1.0], [2.0]])
    np.testing.assert_allclose(probabilities, 0.5)
    labels = gp.predict([[0.0], [1.0], [2.0]])
    np.testing.assert_array_equal(labels, probabilities.argmax(axis=1))
    np.testing.assert_array_equal(labels, probabilities[:, 1] >= 0.5)
