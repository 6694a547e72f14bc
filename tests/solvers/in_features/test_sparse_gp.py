"""The collapsed bound: dense formula, gradient by differences, never above the evidence; both posteriors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gramian.features.fourier import FourierFeatures
from gramian.kernels import RBF, Linear, Matern, White
from gramian.progress import Clock
from gramian.solvers.gp.evidence import LogEvidence, signal_and_noise
from gramian.solvers.in_features.sparse_gp import CollapsedBound, feature_posterior, landmark_posterior

KERNELS = [
    2.0 * RBF([1.0, 2.0]) + White(0.1),
    1.5 * Matern(1.0) + White(0.2) + White(0.1) + 0.3 * Linear(),
    RBF(1.0),
]


@pytest.fixture
def problem(rng):
    X = rng.standard_normal((50, 2))
    Y = np.column_stack([np.sin(X.sum(axis=1)), X[:, 0] ** 2]) + 0.1 * rng.standard_normal((50, 2))
    return X, Y, rng.uniform(0.05, 0.2, 50)


def by_hand(kernel, X, Y, noise, Z):
    signal, white = signal_and_noise(kernel)
    D = np.diag(noise + white)
    Q = signal(X, Z) @ np.linalg.solve(signal(Z), signal(Z, X))
    fit = sum(multivariate_normal(np.zeros(len(X)), Q + D).logpdf(y) for y in Y.T)
    return fit - 0.5 * Y.shape[1] * np.trace(np.linalg.solve(D, signal(X) - Q))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_bound_and_gradient(kernel, problem):
    X, Y, noise = problem
    bound = CollapsedBound(X, Y, noise, X[:12])
    at = bound(kernel, gradient=True)
    assert at.value == pytest.approx(by_hand(kernel, X, Y, noise, X[:12]), rel=1e-6)
    assert at.value <= LogEvidence(X, Y, noise)(kernel).value
    for i, slope in enumerate(at.gradient):
        step = 1e-5 * np.eye(kernel.theta.size)[i]
        up, down = (bound(kernel.with_theta(kernel.theta + s)).value for s in (step, -step))
        assert slope == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_all_rows_as_landmarks_are_exact(kernel, problem, rng):
    X, Y, noise = problem
    bound = CollapsedBound(X, Y, noise, X)
    assert bound(kernel).value == pytest.approx(LogEvidence(X, Y, noise)(kernel).value, abs=1e-4)
    posterior = landmark_posterior(bound, kernel, workers=1, tol=1e-8, clock=Clock())
    signal, white = signal_and_noise(kernel)
    Z = rng.standard_normal((7, 2))
    A = np.linalg.solve(signal(X) + np.diag(noise + white), np.column_stack([Y, signal(X, Z)]))
    np.testing.assert_allclose(posterior.mean(Z), signal(Z, X) @ A[:, :2], atol=1e-5)
    covariance = signal(Z) + white * np.eye(7) - signal(Z, X) @ A[:, 2:]
    np.testing.assert_allclose(posterior.covariance(Z), covariance, atol=1e-5)
    np.testing.assert_allclose(posterior.variance(Z), np.diag(covariance), atol=1e-5)
    assert posterior.certificate.converged


def test_variance_returns_to_the_prior_far_away(problem):
    X, Y, noise = problem
    kernel = 2.0 * RBF(1.0) + White(0.1)
    posterior = landmark_posterior(CollapsedBound(X, Y, noise, X[:10]), kernel, workers=1, tol=1e-8, clock=Clock())
    np.testing.assert_allclose(posterior.variance(np.full((1, 2), 50.0)), 2.1)


def test_features_are_a_process_of_their_own_kernel(problem, rng):
    X, Y, noise = problem
    kernel = RBF(1.0) + White(0.1)
    features = FourierFeatures(RBF(1.0), 40, random_state=0).fit(X)
    options = {"memory": 10**9, "workers": 1, "tol": 1e-8, "clock": Clock()}
    posterior = feature_posterior(features, kernel, X, Y, noise, **options)
    F, G = features.transform(X), features.transform(Z := rng.standard_normal((7, 2)))
    S = F @ F.T + np.diag(noise + 0.1)
    np.testing.assert_allclose(posterior.mean(Z), G @ F.T @ np.linalg.solve(S, Y), atol=1e-9)
    covariance = G @ G.T + 0.1 * np.eye(7) - G @ F.T @ np.linalg.solve(S, F @ G.T)
    np.testing.assert_allclose(posterior.covariance(Z), covariance, atol=1e-9)
    np.testing.assert_allclose(posterior.variance(Z), np.diag(covariance), atol=1e-9)
    evidence = sum(multivariate_normal(np.zeros(50), S).logpdf(y) for y in Y.T)
    assert posterior.evidence == pytest.approx(evidence)


def test_refusals(problem):
    X, Y, noise = problem
    with pytest.raises(MemoryError, match="lower n_components"):
        CollapsedBound(X, Y, noise, X, memory=1000)
    with pytest.raises(ValueError, match="needs noise > 0"):
        CollapsedBound(X, Y, 0.0, X[:5])(RBF(1.0))
    features = FourierFeatures(RBF(1.0), 40, random_state=0).fit(X)
    options = {"workers": 1, "tol": 1e-8, "clock": Clock()}
    with pytest.raises(MemoryError, match="lower n_components"):
        feature_posterior(features, RBF(1.0), X, Y, noise, memory=1000, **options)
    with pytest.raises(ValueError, match="needs noise > 0"):
        feature_posterior(features, RBF(1.0), X, Y, 0.0, memory=10**9, **options)
