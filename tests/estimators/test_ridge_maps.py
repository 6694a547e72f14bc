"""Ridge through maps: the exact problem of the map's kernel, whole or in parts."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian.estimators.ridge import KernelRidge
from gramian.features.fourier import FourierFeatures
from gramian.features.nystrom import Nystroem
from gramian.features.polynomial import PolynomialMap
from gramian.kernels import RBF, Polynomial


@parametrize_with_checks(
    [
        KernelRidge(kernel="rbf", approximation=FourierFeatures()),
        KernelRidge(approximation=PolynomialMap(degree=1)),
    ]
)
def test_sklearn_contract(estimator, check):
    check(estimator)


@pytest.fixture
def problem(rng):
    X = rng.standard_normal((120, 3))
    return X, np.column_stack([np.sin(X).sum(axis=1), X[:, 0] ** 2]), rng.integers(0, 3, 120).astype(float)


def test_it_is_ridge_in_features(problem):
    X, Y, weights = problem
    model = KernelRidge([0.3, 2.0], kernel=RBF(2.0), approximation=FourierFeatures(n_components=40), random_state=0)
    model.fit(X, Y, weights)
    F, W = model.approximation_.transform(X), np.diag(weights)
    for t, alpha in enumerate([0.3, 2.0]):
        w = np.linalg.solve(F.T @ W @ F + alpha * np.eye(40), F.T @ W @ Y[:, t])
        np.testing.assert_allclose(model.coef_[:, t], w, atol=1e-8)
    np.testing.assert_allclose(model.predict(X), F @ model.coef_, atol=1e-9)
    assert not hasattr(model, "dual_coef_")
    assert model.certificate_.converged
    assert model.predict(X.astype(np.float32)).dtype == np.float32


def test_polynomial_map_is_the_polynomial_kernel(problem):
    X, Y, weights = problem
    exact = KernelRidge(0.5, kernel=Polynomial(2)).fit(X, Y, weights)
    near = KernelRidge(0.5, approximation=PolynomialMap(2)).fit(X, Y, weights)
    np.testing.assert_allclose(near.predict(X), exact.predict(X), atol=1e-7)
    sparse = KernelRidge(0.5, approximation=PolynomialMap(2)).fit(sp.csr_array(X), Y, weights)
    np.testing.assert_allclose(sparse.predict(sp.csr_array(X)), exact.predict(X), atol=1e-7)
    assert near.kernel_ == Polynomial(2)


def test_leave_one_out_in_features(problem):
    X, Y, _ = problem
    model = KernelRidge("loo", kernel=RBF(2.0), approximation=FourierFeatures(n_components=30), random_state=0)
    model.fit(X, Y[:, 0])
    F = model.approximation_.transform(X)
    left_out = np.delete(np.arange(120), 5)
    A = F[left_out].T @ F[left_out] + model.alpha_ * np.eye(30)
    error = Y[5, 0] - F[5] @ np.linalg.solve(A, F[left_out].T @ Y[left_out, 0])
    assert model.loo_residuals_[5] == pytest.approx(error, abs=1e-8)


@pytest.mark.parametrize("approximation", [FourierFeatures(n_components=30), PolynomialMap(2)], ids=["fourier", "poly"])
def test_parts_add_up_to_the_whole(problem, approximation):
    X, Y, weights = problem
    kernel = {} if isinstance(approximation, PolynomialMap) else {"kernel": RBF(2.0)}
    whole = KernelRidge(0.1, **kernel, approximation=approximation, random_state=0).fit(X, Y, weights)
    parts = KernelRidge(0.1, **kernel, approximation=approximation, random_state=0)
    for rows in np.array_split(np.arange(120), 4):
        parts.partial_fit(X[rows], Y[rows], weights[rows])
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), atol=1e-8)
    # fit begins anew.
    np.testing.assert_allclose(parts.fit(X, Y, weights).predict(X), whole.predict(X), atol=1e-8)


def test_parts_with_landmarks_of_the_first(problem):
    X, Y, _ = problem
    model = KernelRidge(0.1, kernel=RBF(2.0), approximation=Nystroem(n_components=20), random_state=0)
    for rows in np.split(np.arange(120), [40, 45]):
        model.partial_fit(X[rows], Y[rows])
    F = model.approximation_.transform(X)
    w = np.linalg.solve(F.T @ F + 0.1 * np.eye(20), F.T @ Y)
    np.testing.assert_allclose(model.predict(X), F @ w, atol=1e-7)
    assert model.X_fit_.shape == (20, 3)


def test_refusals(problem):
    X, Y, _ = problem
    assert not hasattr(KernelRidge(), "partial_fit")
    with pytest.raises(ValueError, match="leave-one-out needs all rows"):
        KernelRidge("loo", approximation=PolynomialMap()).partial_fit(X, Y)
    with pytest.raises(ValueError, match="not a precomputed"):
        KernelRidge(kernel="precomputed", approximation=Nystroem()).partial_fit(X @ X.T, Y)
    model = KernelRidge(approximation=PolynomialMap()).partial_fit(X, Y)
    with pytest.raises(ValueError, match="y has 1 targets, but had 2"):
        model.partial_fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="has a kernel of its own"):
        KernelRidge(kernel="rbf", approximation=PolynomialMap()).fit(X, Y)


@pytest.mark.parametrize("weighted", [False, True])
def test_landmarks_by_kernel_values_or_by_features(weighted, rng):
    X, Y = rng.standard_normal((200, 3)), rng.standard_normal((200, 2))
    weights = rng.uniform(0.5, 2.0, 200) if weighted else None
    model = KernelRidge([0.1, 0.5], kernel="rbf", approximation=Nystroem(n_components=30), random_state=0)
    fitted = model.fit(X, Y, weights)
    F = fitted.approximation_.transform(X)
    assert fitted.approximation_.trace_error_ == pytest.approx(1.0 - np.sum(F**2) / 200, rel=1e-6)
    W = np.ones(200) if weights is None else weights
    for j, alpha in enumerate([0.1, 0.5]):
        w = np.linalg.solve((F.T * W) @ F + alpha * np.eye(30), F.T @ (W * Y[:, j]))
        np.testing.assert_allclose(fitted.predict(X)[:, j], F @ w, atol=1e-7)


def test_landmarks_that_nearly_coincide_are_fitted_by_features():
    X = np.linspace(0, 1, 200)[:, None]
    y = np.sin(9 * X[:, 0])
    model = KernelRidge(1e-6, kernel="rbf", gamma=0.5, approximation=Nystroem(n_components=40), random_state=0)
    fitted = model.fit(X, y)
    assert fitted.certificate_.converged
    assert fitted.approximation_.component_indices_.size < 40
    exact = KernelRidge(1e-6, kernel="rbf", gamma=0.5).fit(X, y)
    np.testing.assert_allclose(fitted.predict(X), exact.predict(X), atol=1e-4)
