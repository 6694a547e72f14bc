"""Metric: its place in theta, the gradient by products of matrices, sparse rows, text, and learning by evidence."""

import numpy as np
import pytest
import scipy.sparse as sp

from gramian import GaussianProcessRegressor, KernelRidge, load, save
from gramian.gram import Gram
from gramian.kernels import RBF, Categorical, Matern, Metric, PowerExponential, Precomputed, White, from_dict
from gramian.kernels.parse import parse
from gramian.solvers.gp.evidence import LogEvidence

L = np.array([[1.0, -0.5], [0.2, 0.7], [0.0, 1.5]])


def test_the_gradient_is_the_formula_of_one_product():
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((30, 3)), rng.standard_normal((30, 30))
    W += W.T
    k = RBF(1.0, lengthscale_bounds="fixed").metric(L)
    M = W * -0.5 * k(X)  # dk/dr² of the RBF
    expected = 4 * X.T @ (np.diag(M.sum(axis=1)) - M) @ X @ L
    np.testing.assert_allclose(k.vjp(X, None, W).reshape(3, 2), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(Gram(k, X, memory=2000).vjp(W).reshape(3, 2), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_the_evidence_has_its_gradient(nu):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((40, 3)), rng.standard_normal((40, 2))
    k = 1.3 * Matern(1.0, nu=nu, lengthscale_bounds="fixed").metric(L) + White(0.2)
    assert k.theta_names == [
        "left.factor",
        *[f"left.kernel.L[{i},{j}]" for i in range(3) for j in range(2)],
        "right.noise",
    ]
    evidence = LogEvidence(X, y, 0.0)
    slope = evidence(k, gradient=True).gradient
    for i in range(k.theta.size):
        e = 1e-5 * np.eye(k.theta.size)[i]
        up, down = (evidence(k.with_theta(k.theta + s * e)).value for s in (1, -1))
        assert slope[i] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_a_process_learns_it(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((120, 3))
    y = np.sin(X @ np.array([1.0, 1.0, 0.0])) + 0.01 * rng.standard_normal(120)
    k = 1.0 * RBF(1.0, lengthscale_bounds="fixed").metric(np.eye(3)) + White(0.1)
    model = GaussianProcessRegressor(kernel=k).fit(X, y)
    assert model.certificate_.converged  # a rotation of the columns of L changes nothing: the Hessian is singular
    learned = np.asarray(model.kernel_.all_fields()["left.kernel.L"])
    values, axes = np.linalg.eigh(learned @ learned.T)
    assert values[1] < 0.05 * values[2]
    assert abs(axes[:, 2] @ [1.0, 1.0, 0.0]) / 2**0.5 > 0.999


def test_sparse_rows_and_text():
    X = np.random.default_rng(0).random((6, 3)) * (np.random.default_rng(1).random((6, 3)) < 0.5)
    k = RBF(0.5).metric(L)
    np.testing.assert_allclose(k(sp.csr_array(X)), k(X), rtol=1e-12)
    np.testing.assert_allclose(
        k.vjp(sp.csr_array(X), None, np.ones((6, 6))), k.vjp(X, None, np.ones((6, 6))), atol=1e-12
    )
    assert parse("RBF(0.5).metric([[1.0, -0.5], [0.2, 0.7], [0.0, 1.5]])") == k == from_dict(k.to_dict())


@pytest.mark.parametrize("bad", [[1.0, 2.0], [[np.nan]], np.zeros((0, 2)), [["a"]], [[1.0], [1.0, 2.0]]])
def test_what_is_no_matrix_is_refused(bad):
    with pytest.raises((ValueError, TypeError), match="Metric: L must be a"):
        RBF(1.0).metric(bad)


def test_shapes_and_bounds_are_checked():
    with pytest.raises(ValueError, match="L has 3 rows but X has 2 columns"):
        RBF(1.0).metric(L)(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="L_bounds"):
        Metric(RBF(1.0), L, L_bounds=(2.0, 1.0))
    with pytest.raises(ValueError, match="L_bounds"):
        Metric(RBF(1.0), L, L_bounds="free")
    with pytest.raises(TypeError, match="kernel must be a kernel"):
        Metric(2.0, L)
    with pytest.raises(TypeError, match="no gradient"):
        Precomputed().metric(np.eye(3)).vjp(np.eye(3), None, np.ones((3, 3)))


def test_a_model_file_keeps_it(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    k = PowerExponential([1.0, 2.0], q_bounds=(0.5, 1.5)).metric(L) * Categorical(0.5).on(2)
    model = KernelRidge(kernel=k).fit(X, y)
    save(model, tmp_path / "model.gramian")
    again = load(tmp_path / "model.gramian")
    assert again.kernel == k
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
