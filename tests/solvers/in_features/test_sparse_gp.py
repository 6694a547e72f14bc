"""The collapsed bound: dense formula, gradient by differences, never above the evidence; both posteriors."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gramian.data import Blocks
from gramian.data.passes import Held
from gramian.features.fourier import FourierFeatures
from gramian.kernels import RBF, Linear, Matern, White
from gramian.progress import Clock
from gramian.solvers.gp.evidence import signal_and_noise
from gramian.solvers.in_features.sparse_gp import (
    CollapsedBound,
    Observations,
    feature_posterior,
    landmark_posterior,
)
from reference_gp import log_evidence, numerical_gradient, posterior

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
    D = np.diag(np.broadcast_to(noise + white, len(X)))
    Q = signal(X, Z) @ np.linalg.solve(signal(Z), signal(Z, X))
    fit = sum(multivariate_normal(np.zeros(len(X)), Q + D).logpdf(y) for y in Y.T)
    return fit - 0.5 * Y.shape[1] * np.trace(np.linalg.solve(D, signal(X) - Q))


@contextmanager
def source(kind, X, Y, noise):
    """Passes over rows in memory, or over blocks of them, and how their targets are read."""
    alike = np.ndim(noise) == 0
    y = Y if alike else np.column_stack([Y, noise])
    observations = Observations(np.zeros(Y.shape[1]), np.ones(Y.shape[1]), float(noise) if alike else None)
    rows = Held(X, y) if kind == "held" else Blocks(X, y, rows=17)
    with rows.passes() as passes:
        yield passes, observations


OPTIONS = {"memory": 10**9, "workers": 1, "tol": 1e-8, "clock": Clock()}


@pytest.mark.parametrize("kind", ["held", "blocks"])
@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_bound_and_gradient(kernel, alike, kind, problem):
    X, Y, noise = problem
    noise = 0.1 if alike else noise
    with source(kind, X, Y, noise) as rows:
        bound = CollapsedBound(*rows, X[:12])
        at = bound(kernel, gradient=True)
        slopes = numerical_gradient(lambda theta: bound(kernel.with_theta(theta)).value, kernel.theta)
    assert at.value == pytest.approx(by_hand(kernel, X, Y, noise, X[:12]), rel=1e-6)
    assert at.value <= log_evidence(*apart(kernel, noise, X, Y))
    np.testing.assert_allclose(at.gradient, slopes, rtol=1e-4, atol=1e-3)


def apart(kernel, noise, X, Y):
    """What the reference takes: white noise beside the kernel, not in it."""
    signal, white = signal_and_noise(kernel)
    return signal, X, Y, noise + white


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_all_rows_as_landmarks_are_exact(kernel, problem, rng):
    X, Y, noise = problem
    signal, _, _, total = apart(kernel, noise, X, Y)
    with source("held", X, Y, noise) as rows:
        bound = CollapsedBound(*rows, X)
        assert bound(kernel).value == pytest.approx(log_evidence(signal, X, Y, total), abs=1e-4)
        found = landmark_posterior(bound, kernel, **OPTIONS)
    Z = rng.standard_normal((7, 2))
    mean, covariance = posterior(signal, X, Y, total, Z)
    covariance = covariance + signal_and_noise(kernel)[1] * np.eye(7)
    np.testing.assert_allclose(found.mean(Z), mean, atol=1e-5)
    np.testing.assert_allclose(found.covariance(Z), covariance, atol=1e-5)
    np.testing.assert_allclose(found.variance(Z), np.diag(covariance), atol=1e-5)
    assert found.certificate.converged


def test_variance_returns_to_the_prior_far_away(problem):
    X, Y, noise = problem
    kernel = 2.0 * RBF(1.0) + White(0.1)
    with source("held", X, Y, noise) as rows:
        found = landmark_posterior(CollapsedBound(*rows, X[:10]), kernel, **OPTIONS)
    np.testing.assert_allclose(found.variance(np.full((1, 2), 50.0)), 2.1)


@pytest.mark.parametrize("kind", ["held", "blocks"])
def test_features_are_a_process_of_their_own_kernel(kind, problem, rng):
    X, Y, noise = problem
    kernel = RBF(1.0) + White(0.1)
    features = FourierFeatures(RBF(1.0), 40, random_state=0).fit(X)
    with source(kind, X, Y, noise) as rows:
        found = feature_posterior(*rows, features, kernel, X[:1], **OPTIONS)

    def own(A, B=None):
        return features.transform(A) @ features.transform(A if B is None else B).T

    Z = rng.standard_normal((7, 2))
    mean, covariance = posterior(own, X, Y, noise + 0.1, Z)
    covariance = covariance + 0.1 * np.eye(7)
    np.testing.assert_allclose(found.mean(Z), mean, atol=1e-9)
    np.testing.assert_allclose(found.covariance(Z), covariance, atol=1e-9)
    np.testing.assert_allclose(found.variance(Z), np.diag(covariance), atol=1e-9)
    assert found.evidence == pytest.approx(log_evidence(own, X, Y, noise + 0.1))


def test_targets_are_normalised_over_passes(problem):
    X, Y, _ = problem
    Y = np.column_stack([1e6 + Y, np.full(50, 3.0)])
    with source("blocks", X, Y, 0.1) as (passes, observations):
        found = observations.normalised(passes, passes.sample(10, 0))
    np.testing.assert_allclose(found.centre, Y.mean(axis=0))
    np.testing.assert_allclose(found.scale, [*Y[:, :2].std(axis=0), 1.0], rtol=1e-6)  # a constant stays as it is


def test_refusals(problem):
    X, Y, _ = problem
    features = FourierFeatures(RBF(1.0), 40, random_state=0).fit(X)
    with source("held", X, Y, 0.0) as rows:
        with pytest.raises(ValueError, match="needs noise > 0"):
            CollapsedBound(*rows, X[:5])(RBF(1.0))
        with pytest.raises(ValueError, match="needs noise > 0"):
            feature_posterior(*rows, features, RBF(1.0), X[:1], **OPTIONS)
