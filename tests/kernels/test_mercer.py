"""Is it a kernel, and what are its eigenfunctions?"""

import numpy as np
import pytest

from gramian import kernels as gk

X = np.random.default_rng(0).random((40, 2))


def test_kernels_pass_and_others_fail_with_the_reason():
    report = gk.is_kernel(gk.RBF(0.5), X)
    assert report
    assert report.verdict
    assert "a kernel on these data" in str(report)
    K = gk.RBF(0.5)(X)
    assert gk.is_kernel(K)
    assert gk.is_kernel(K.astype(np.float32))
    K[0, 1] += 1e-3
    report = gk.is_kernel(K)
    assert not report
    assert "not symmetric" in str(report)
    assert report.asymmetry == pytest.approx(1e-3)
    report = gk.is_kernel(gk.Sigmoid(1.0, offset=-1.0), X)
    assert not report
    assert report.smallest_eigenvalue < -0.1
    assert "not positive semi-definite" in str(report)


def test_a_user_function_that_is_not_symmetric_is_found():
    report = gk.is_kernel(gk.Callable(lambda a, b: float(a[0] + 2 * b[0])), X)
    assert not report
    assert report.asymmetry > 0.1


def test_tolerance_can_be_given():
    assert gk.is_kernel([[1.0, 1.1], [1.1, 1.0]], tol=0.2)
    assert not gk.is_kernel([[1.0, 1.1], [1.1, 1.0]])


def test_wrong_calls():
    with pytest.raises(ValueError, match="needs X"):
        gk.is_kernel(gk.RBF())
    with pytest.raises(ValueError, match="square"):
        gk.is_kernel(np.ones((2, 3)))
    with pytest.raises(ValueError, match="k must be between 1 and the number of objects, 40"):
        gk.mercer(gk.RBF(), X, 41)
    with pytest.raises(ValueError, match="k must be between"):
        gk.mercer(gk.RBF(), X, 1.5)
    with pytest.raises(TypeError, match="or a matrix alone"):
        gk.is_kernel(np.eye(3), X)


def test_eigenfunctions_are_orthonormal_and_reproduce_the_kernel():
    k = gk.Matern(0.5)
    basis = gk.mercer(k, X)
    phi = basis(X)
    np.testing.assert_allclose(phi.T @ phi / len(X), np.eye(len(X)), atol=1e-9)
    np.testing.assert_allclose((phi * basis.eigenvalues) @ phi.T, k(X), atol=1e-12)
    assert np.all(np.diff(basis.eigenvalues) <= 0)


def test_the_reproducing_property_in_the_basis(rng):
    # <f, k(., x)> = Σ_j f_j (λ_j φ_j(x)) / λ_j = f(x)
    k = gk.Matern(0.5)
    basis = gk.mercer(k, X)
    alpha = rng.standard_normal(len(X))
    f = basis.coefficients(alpha)
    of_x = basis.eigenvalues * basis(X[3:4])[0]
    assert np.sum(f * of_x / basis.eigenvalues) == pytest.approx((k(X[3:4], X) @ alpha)[0], rel=1e-9)
    assert basis.norm(f) == pytest.approx(np.sqrt(alpha @ k(X) @ alpha), rel=1e-9)


def test_functions_can_be_evaluated_anywhere_and_truncated(rng):
    k = gk.RBF(0.3)
    basis = gk.mercer(k, X, 30)
    Z = rng.random((20, 2))
    approximation = (basis(Z) * basis.eigenvalues) @ basis(Z).T
    assert np.abs(approximation - k(Z)).max() < 0.2
    assert len(gk.mercer(gk.Linear(), X).eigenvalues) == 2  # what is lost in rounding is left out


def test_repeated_rows_do_not_fool_the_report(rng):
    X = np.repeat(rng.standard_normal((30, 20)), 2, axis=0)
    for k in (gk.RBF(0.5), gk.RBF(0.1), gk.RBF(0.002), gk.Matern(1.0, nu=0.5)):
        for dtype in (np.float64, np.float32):
            assert gk.is_kernel(k, X.astype(dtype)), repr(k)
    X[0] += 1e4
    assert gk.is_kernel(gk.RBF(1.0), X)


def test_float32_rows_have_clean_eigenfunctions():
    basis = gk.mercer(gk.RBF(0.5), X.astype(np.float32))
    phi = basis()
    np.testing.assert_allclose(phi.T @ phi / len(X), np.eye(phi.shape[1]), atol=1e-9)


def test_noise_lives_on_the_objects_themselves():
    k = gk.RBF(0.5) + gk.White(1.0)
    basis = gk.mercer(k, X)
    np.testing.assert_allclose((basis() * basis.eigenvalues) @ basis().T, k(X), atol=1e-12)


def test_objects_have_eigenfunctions_too():
    texts = ["kernel ridge", "kernel machine", "ridge regression", "gaussian process"]
    k = gk.WordCount()
    basis = gk.mercer(k, texts)
    np.testing.assert_allclose((basis(texts) * basis.eigenvalues) @ basis(texts).T, k(texts), atol=1e-12)


def test_weights_are_another_measure(rng):
    X = rng.standard_normal((8, 2))
    w = np.array([1.0, 2.0, 3.0, 1.0, 1.0, 2.0, 1.0, 1.0])
    k = gk.Matern(1.0, nu=1.5)
    basis, repeated = gk.mercer(k, X, weights=w), gk.mercer(k, np.repeat(X, w.astype(int), axis=0), 8)
    np.testing.assert_allclose(basis.eigenvalues, repeated.eigenvalues)  # a weight of two is a row twice
    phi = basis()
    np.testing.assert_allclose((phi * (w / w.sum())[:, None]).T @ phi, np.eye(8), atol=1e-9)
    np.testing.assert_allclose(phi * basis.eigenvalues @ phi.T, k(X), atol=1e-9)
    np.testing.assert_allclose(basis(X), phi, atol=1e-7)
    alpha = rng.standard_normal(8)
    f = basis.coefficients(alpha)
    np.testing.assert_allclose(phi @ f, k(X) @ alpha, atol=1e-9)
    assert basis.norm(f) ** 2 == pytest.approx(alpha @ k(X) @ alpha)
    w[0] = 0.0  # a row that the measure does not see is a place like any other
    part = gk.mercer(k, X, weights=w)
    np.testing.assert_allclose(part.eigenvalues, gk.mercer(k, X[1:], weights=w[1:]).eigenvalues)
    np.testing.assert_allclose(np.abs(part()[0]), np.abs(gk.mercer(k, X[1:], weights=w[1:])(X[:1])[0]), atol=1e-8)
    with pytest.raises(ValueError, match="weights must be 8 numbers"):
        gk.mercer(k, X, weights=w[1:])


def test_a_quadrature_rule_finds_the_eigenvalues_of_the_operator():
    """Those of Brownian motion on [0, 1], min(x, z), are 1/((j - 1/2)² π²)."""
    nodes, w = np.polynomial.legendre.leggauss(120)
    basis = gk.mercer(lambda x, z: min(x[0], z[0]), (nodes[:, None] + 1.0) / 2.0, 3, weights=w)
    np.testing.assert_allclose(basis.eigenvalues, 1.0 / ((np.arange(1, 4) - 0.5) * np.pi) ** 2, rtol=1e-3)
    x = np.linspace(0.1, 0.9, 5)
    np.testing.assert_allclose(np.abs(basis(x[:, None])[:, 0]), np.sqrt(2) * np.sin(np.pi * x / 2), rtol=1e-2)


def test_plain_functions_and_names():
    assert gk.is_kernel(lambda x, z: min(x, z), [0.5, 1.0, 2.0])
    assert gk.is_kernel(lambda a, b: float(len(a & b)), [{1, 2}, {2}, {3}])
    assert not gk.is_kernel(lambda x, z: -abs(x[0] - z[0]), [[0.0], [1.0]])
    assert gk.is_kernel("gaussian", [[0.0], [1.0]])
    with pytest.raises(ValueError, match="needs X"):
        gk.is_kernel(min)
