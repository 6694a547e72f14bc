"""Names, callables and scikit-learn's objects become the same functions that scikit-learn computes."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import kernels as sk
from sklearn.metrics.pairwise import pairwise_kernels

from gramian import kernels as gk
from gramian.kernels.resolve import from_sklearn, names, resolve_gamma

rng = np.random.default_rng(0)
X, Y = rng.random((8, 3)), rng.random((5, 3))


OURS = ("precomputed", "gaussian", "laplace", "matern", "rational_quadratic", "sobolev")


@pytest.mark.parametrize("name", [n for n in names() if n not in OURS])
@pytest.mark.parametrize("gamma", [None, 0.7])
def test_names_are_sklearns(name, gamma):
    params = {}
    if name in ("rbf", "laplacian", "chi2", "poly", "polynomial", "sigmoid") and gamma is not None:
        params["gamma"] = gamma
    if name in ("poly", "polynomial", "sigmoid"):
        params["coef0"] = 0.4
    if name in ("poly", "polynomial"):
        params["degree"] = 2
    expected = pairwise_kernels(X, Y, metric=name, **params)
    k = gk.resolve(name, X, gamma=gamma, degree=2, coef0=0.4)
    np.testing.assert_allclose(k(X, Y), expected, rtol=1e-10)


def test_gamma_rules():
    assert resolve_gamma("auto", X) == pytest.approx(1 / 3)
    assert resolve_gamma("scale", X) == pytest.approx(1 / (3 * X.var()))
    assert resolve_gamma("scale", sp.csr_array(X)) == pytest.approx(1 / (3 * X.var()))
    assert resolve_gamma("scale", np.ones((4, 2))) == 1.0
    assert gk.resolve("rbf", gamma=0.0) == gk.Constant(1.0)
    for wrong in ("scales", -1.0, np.nan):
        with pytest.raises(ValueError, match="gamma must be"):
            resolve_gamma(wrong, X)
    with pytest.raises(ValueError, match="depends on the data"):
        gk.resolve("rbf", gamma="scale")


def test_what_else_resolves():
    k = gk.RBF(2.0)
    assert gk.resolve(k) is k
    assert gk.resolve("precomputed") == gk.Precomputed()
    by_rows = gk.resolve(lambda a, b, p: p * float(a @ b), params={"p": 2.0})
    np.testing.assert_allclose(by_rows(X, Y), 2.0 * X @ Y.T)
    by_matrices = gk.resolve(lambda A, B: A @ B.T, vectorized=True)
    np.testing.assert_allclose(by_matrices(X, Y), X @ Y.T)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ("rfb", ValueError, "unknown kernel 'rfb'; did you mean 'rbf'"),
        (3, TypeError, "kernel must be a Kernel, a name, or a callable"),
        (None, TypeError, "kernel must be"),
        (gk.RBF, TypeError, r"got the class RBF; write RBF\(\)"),
    ],
)
def test_what_does_not(wrong, error, message):
    with pytest.raises(error, match=message):
        gk.resolve(wrong, X)


def test_polynomials_that_are_no_kernels():
    with pytest.raises(ValueError, match="coef0 must be >= 0"):
        gk.resolve("poly", X, coef0=-1.0)
    assert gk.resolve("poly", X, degree=0) == gk.Constant(1.0)


SKLEARN = [
    sk.RBF(0.7),
    sk.RBF([0.5, 1.0, 2.0]),
    sk.Matern(0.8, nu=0.5),
    sk.Matern([0.5, 1.0, 2.0], nu=1.5),
    sk.Matern(0.8, nu=2.2),
    sk.RationalQuadratic(0.7, alpha=0.6),
    sk.DotProduct(1.3),
    sk.ConstantKernel(2.0) * sk.RBF(0.7) + sk.WhiteKernel(0.3),
    (sk.DotProduct(0.5) + sk.RBF(1.0)) ** 2,
    sk.PairwiseKernel(gamma=0.4, metric="laplacian"),
    sk.PairwiseKernel(gamma=0.4, metric="poly", pairwise_kernels_kwargs={"degree": 2, "coef0": 0.5}),
]


@pytest.mark.parametrize("theirs", SKLEARN, ids=repr)
def test_gaussian_process_kernels_are_the_same_functions(theirs):
    ours = gk.resolve(theirs, X)
    np.testing.assert_allclose(ours(X), theirs(X), rtol=1e-9)
    np.testing.assert_allclose(ours(X, Y), theirs(X, Y), rtol=1e-9)
    np.testing.assert_allclose(ours.diag(X), theirs.diag(X), rtol=1e-12)
    assert ours.theta.size == theirs.theta.size


def test_bounds_come_along():
    ours = from_sklearn(sk.RBF(0.7, (0.1, 10.0)) + sk.WhiteKernel(0.1, "fixed"))
    np.testing.assert_allclose(ours.bounds, np.log([[0.1, 10.0]]))
    ours = from_sklearn(sk.DotProduct(2.0, (0.1, 10.0)))
    np.testing.assert_allclose(ours.bounds, np.log([[0.01, 100.0]]))


def test_periodic_translates_for_one_input_only():
    theirs = sk.ExpSineSquared(0.8, periodicity=0.6)
    ours = gk.resolve(theirs, X[:, :1])
    np.testing.assert_allclose(ours(X[:, :1]), theirs(X[:, :1]), rtol=1e-9)
    with pytest.raises(ValueError, match="not positive semi-definite for 3 inputs"):
        gk.resolve(theirs, X)


def test_tables_of_small_whole_numbers_do_not_wrap():
    counts = sp.csr_array(np.array([[200, 0], [0, 250]], dtype=np.uint8))
    assert resolve_gamma("scale", counts) == pytest.approx(resolve_gamma("scale", counts.toarray()))


def test_callable_metrics_keep_gamma_and_params():
    def metric(a, b, gamma, shift):
        return float(np.exp(-gamma * np.sum((a - b) ** 2)) + shift)

    theirs = sk.PairwiseKernel(gamma=0.4, metric=metric, pairwise_kernels_kwargs={"shift": 0.1})
    np.testing.assert_allclose(gk.resolve(theirs, X)(X, Y), theirs(X, Y), rtol=1e-12)


def test_parameters_for_nobody_are_refused():
    with pytest.raises(ValueError, match="kernel_params are arguments of a callable kernel"):
        gk.resolve("rbf", X, params={"a": 1})


def test_their_subclasses_are_not_taken_for_functions():
    class Own(sk.RBF):
        pass

    assert repr(gk.resolve(Own(), X)) == "Adapted(Own(length_scale=1))"
    with pytest.raises(ValueError, match="pass X"):
        gk.resolve(sk.ExpSineSquared())


def test_compound_kernels_are_refused():
    with pytest.raises(ValueError, match="kernel cannot be a CompoundKernel"):
        gk.resolve(sk.CompoundKernel([sk.RBF(), sk.RBF()]), X)


def test_a_polynomial_of_a_degree_that_is_no_whole_number():
    rows = np.abs(X)
    named = {"gamma": 0.3, "coef0": 0.1, "degree": 3.1}
    expected = pairwise_kernels(rows, np.abs(Y), "poly", **named)
    np.testing.assert_allclose(gk.resolve("poly", rows, **named)(rows, np.abs(Y)), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="NaN"):
        gk.resolve("poly", rows, **named)(rows, -10.0 * rows)
