"""The posterior, exact and projected, against explicit inverses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_gp as reference
from gramian.gram import Gram, LowRank, rpcholesky
from gramian.kernels import RBF, Linear, Matern, Sigmoid, White
from gramian.solvers.gp import posterior as module
from gramian.solvers.gp.posterior import exact_posterior, projected_posterior

LIMITS = {"memory": 10**8, "workers": 1}


def data(n=80, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, d))
    return X, np.column_stack([np.sin(X).sum(axis=1), X[:, 0]]), rng.uniform(-3, 3, (33, d))


@pytest.mark.parametrize("noise", [0.1, np.linspace(0.01, 0.3, 80)], ids=["one", "each"])
def test_exact_is_the_textbook(noise, monkeypatch):
    monkeypatch.setattr(module, "ROWS", 32)
    monkeypatch.setattr(module, "CHUNK", 10)
    X, Y, Z = data()
    kernel = 1.5 * Matern(0.8, nu=1.5)
    at = exact_posterior(kernel, X, Y, noise, **LIMITS)
    mean, covariance = reference.posterior(kernel, X, Y, noise, Z)
    np.testing.assert_allclose(at.mean(Z), mean, atol=1e-10)
    np.testing.assert_allclose(at.covariance(Z), covariance, atol=1e-10)
    np.testing.assert_allclose(at.variance(Z), np.diag(covariance), atol=1e-10)
    few = at.under(None, None)  # in one piece, with columns that are kept
    assert at.few(Z) is None
    assert few.few(Z) is not None
    np.testing.assert_allclose(few.mean(Z), mean, atol=1e-10)
    np.testing.assert_allclose(few.variance(Z), np.diag(covariance), atol=1e-10)
    assert at.evidence == pytest.approx(reference.log_evidence(kernel, X, Y, noise))
    assert at.certificate.converged
    assert np.all(np.triu(at.L, 1) == 0.0)
    np.testing.assert_allclose(at.L @ at.L.T, kernel(X) + np.diag(np.broadcast_to(noise, 80)), atol=1e-12)


def test_white_noise_is_part_of_a_new_observation():
    X, Y, Z = data()
    with_noise = exact_posterior(RBF(1.0) + White(0.2), X, Y, 0.0, **LIMITS)
    without = exact_posterior(RBF(1.0), X, Y, 0.2, **LIMITS)
    np.testing.assert_allclose(with_noise.mean(Z), without.mean(Z))
    np.testing.assert_allclose(with_noise.variance(Z), without.variance(Z) + 0.2)


def test_a_projection_on_everything_is_exact():
    X, Y, Z = data()
    exact = exact_posterior(RBF(0.7), X, Y, 0.1, **LIMITS)
    projected = projected_posterior(RBF(0.7), X, Y, 0.1, rank=80, tol=1e-10, random_state=0, **LIMITS)
    np.testing.assert_allclose(projected.mean(Z), exact.mean(Z), atol=1e-7)
    np.testing.assert_allclose(projected.covariance(Z), exact.covariance(Z), atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.floats(0.1, 3.0), st.floats(1e-4, 1.0), st.booleans())
def test_a_projection_is_never_surer_than_the_data(seed, rank, scale, noise, uneven):
    X, Y, Z = data(60, seed=seed)
    D = noise * np.random.default_rng(seed).uniform(0.1, 10, 60) if uneven else noise
    Z = np.concatenate([Z, X])
    exact = exact_posterior(RBF(scale), X, Y, D, **LIMITS).variance(Z)
    projected = projected_posterior(RBF(scale), X, Y, D, rank=rank, random_state=seed, max_iter=1, **LIMITS).variance(Z)
    assert np.all(projected >= exact - 1e-9)
    assert np.all(projected <= 1.0 + 1e-12)


def test_the_usual_nystrom_variance_can_be_too_sure():
    """Why the projection: rows (1, 0) and (1, 1) of a linear kernel, the first the landmark, and unit noise."""
    X = np.array([[1.0, 0.0], [1.0, 1.0]])
    F = np.array([[1.0], [1.0]])
    phi = np.array([1.0])
    usual = 1.0 - phi @ phi + phi @ np.linalg.solve(np.eye(1) + F.T @ F, phi)
    exact = exact_posterior(Linear(), X, np.zeros((2, 1)), 1.0, **LIMITS).variance(X[:1])[0]
    assert exact == pytest.approx(0.4)
    assert usual == pytest.approx(1 / 3)
    G = F / np.linalg.norm(F)
    K = X @ X.T
    projected = 1.0 - (K[0] @ G)[0] ** 2 / (G.T @ (K + np.eye(2)) @ G).item()
    assert projected >= exact


def test_projected_mean_solves_the_weighted_system():
    X, Y, Z = data()
    noise = np.linspace(0.05, 0.5, 80)
    at = projected_posterior(RBF(1.0) + White(0.1), X, Y, noise, tol=1e-10, random_state=0, **LIMITS)
    mean, _ = reference.posterior(RBF(1.0), X, Y, noise + 0.1, Z)
    np.testing.assert_allclose(at.mean(Z), mean, atol=1e-7)
    assert at.certificate.converged
    assert at.evidence is None


@pytest.mark.parametrize("seed", range(6))
def test_the_residual_of_uneven_noise_is_that_of_all_rows_alike(seed):
    """Weighted by 1/D, the residual of the first of them is a twentieth of this one."""
    rng = np.random.default_rng(148 + seed)
    X, y, D = rng.standard_normal((120, 2)), rng.standard_normal((120, 1)), 10.0 ** rng.uniform(-6, 6, 120)
    kernel = 1e4 * RBF(0.5)
    at = projected_posterior(kernel, X, y, D, tol=1e-3, max_iter=10_000, random_state=0, **LIMITS)
    missed = y - kernel(X) @ at.alpha - D[:, None] * at.alpha
    assert at.certificate.violation == pytest.approx(np.linalg.norm(missed) / np.linalg.norm(y), rel=1e-3)
    assert at.certificate.converged
    assert at.certificate.violation <= 1e-3


def test_conjugate_gradients_need_noise():
    X, Y, _ = data()
    with pytest.raises(ValueError, match=r"needs noise on every row"):
        projected_posterior(RBF(1.0), X, Y, 0.0, **LIMITS)


def test_not_positive_definite_names_the_eigenvalue():
    X, Y, _ = data()
    kernel = Sigmoid(1.0, -2.0)
    least = np.linalg.eigvalsh(kernel(X))[0]
    with pytest.raises(np.linalg.LinAlgError, match=f"K has the eigenvalue {least:.3g} < 0.*raise alpha"):
        exact_posterior(kernel, X, Y, 0.0, **LIMITS)


def test_under_shares_the_arrays():
    X, Y, Z = data()
    at = exact_posterior(RBF(1.0), X, Y, 0.1, **LIMITS)
    small = at.under(10_000, 2)
    assert small.L is at.L
    assert at.memory == 10**8
    np.testing.assert_allclose(small.variance(Z), at.variance(Z), atol=1e-12)
    np.testing.assert_allclose(small.mean(Z), at.mean(Z), atol=1e-12)


def test_low_rank_basis_is_the_one_that_nystroms_mean_looks_at():
    """The span of D⁻¹F holds (F Fᵀ + D)⁻¹ F, by Woodbury."""
    X, _, _ = data()
    F = rpcholesky(Gram(RBF(1.0), X), 10, 0).factor
    D = np.linspace(0.1, 1.0, 80)
    weights = LowRank(F, D).solve(F)
    basis = np.linalg.qr(F / D[:, None])[0]
    np.testing.assert_allclose(basis @ (basis.T @ weights), weights, atol=1e-9)
