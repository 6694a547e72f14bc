"""The Laplace approximation against plain Newton steps, quadrature and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit

import reference_gp as reference
from gramian import GaussianProcessClassifier, verify
from gramian.kernels import RBF, Linear, Sigmoid, White
from gramian.solvers.gp.laplace import LaplaceEvidence, logistic_gaussian, mode


def data(n=60):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, 2))
    return X, (X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(n) > 0).astype(float)


@pytest.mark.parametrize("factor", [0.1, 1.0, 30.0])
def test_mode_and_evidence(factor):
    X, y = data()
    K = (factor * RBF(0.8) + White(1e-3))(X)
    found = mode(K, y)
    f, evidence = reference.laplace(K, y)
    np.testing.assert_allclose(found.f, f, atol=1e-6)
    assert found.evidence == pytest.approx(evidence, abs=1e-6)
    certificate = found.certificate
    assert certificate.converged
    assert certificate.kind == "duality gap"
    assert 0.0 <= certificate.gap <= 1e-9
    assert certificate.dual <= certificate.primal + 1e-9
    # Stationarity: f = K (y - π).
    np.testing.assert_allclose(K @ found.coefficients, found.f, atol=1e-5 * max(1.0, factor))


@pytest.mark.parametrize("factor", [1e4, 1e7])
def test_huge_priors_need_the_halved_steps(factor):
    X, y = data()
    found = mode((factor * RBF(0.8))(X), y)
    assert found.certificate.converged


def test_the_gap_of_labels_that_are_all_but_certain_is_absolute():
    """As docs/certificates.md says: there y - π is 1e-14 and has two digits, and so have the objectives."""
    X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    model = GaussianProcessClassifier(np.exp(35.0) * Linear(), optimizer=None).fit(X, y)
    for certificate in (model.certificate_, verify(model, X, y)):
        assert certificate.primal < 1e-12
        assert certificate.gap == pytest.approx(certificate.primal - certificate.dual, rel=1e-6)
        assert certificate.converged


def test_a_warm_start_takes_fewer_steps():
    X, y = data()
    K = (3.0 * RBF(0.8))(X)
    cold = mode(K, y)
    warm = mode(K, y, start=cold.f)
    assert warm.certificate.iterations < cold.certificate.iterations
    assert warm.evidence == pytest.approx(cold.evidence, abs=1e-8)


def test_stopping_short_is_told():
    X, y = data()
    K = (3.0 * RBF(0.8))(X)
    short = mode(K, y, max_iter=1).certificate
    assert not short.converged
    assert "1 Newton steps" in short.message


@pytest.mark.parametrize("kernel", [2.0 * RBF(0.8), 2.0 * RBF([0.5, 1.5]) + White(0.1)], ids=repr)
def test_gradient(kernel):
    X, y = data()
    evidence = LaplaceEvidence(X, y)
    at = evidence(kernel, gradient=True)
    slow = reference.numerical_gradient(lambda t: evidence(kernel.with_theta(t)).value, kernel.theta, 1e-4)
    np.testing.assert_allclose(at.gradient, slow, rtol=1e-4, atol=1e-5)


def test_evidence_does_not_depend_on_the_warm_start():
    X, y = data()
    kernel = 1.0 * RBF(1.0)
    cold = LaplaceEvidence(X, y)(kernel).value
    for far in (5.0 * RBF(0.5), 1e6 * RBF(3.0), 1e-6 * RBF(0.01), RBF(2.0)):
        warm = LaplaceEvidence(X, y)
        warm(far)
        assert warm(kernel).value == pytest.approx(cold, abs=1e-7)


def test_newton_starts_at_the_mode_of_the_nearest_kernel():
    X, y = data()
    evidence = LaplaceEvidence(X, y)
    near, far = evidence.mode(1.0 * RBF(1.0)), evidence.mode(1e3 * RBF(0.1))
    again = evidence.mode(1.0 * RBF(1.0))
    assert again.certificate.iterations == 0 < near.certificate.iterations
    np.testing.assert_allclose(again.f, near.f, atol=1e-7)
    assert np.abs(far.f - near.f).max() > 1.0


def test_memory_is_refused_before_it_is_taken():
    X, y = data(1000)
    with pytest.raises(MemoryError, match=r"the evidence of 1,000 rows takes 16 MB and memory is 10 MB"):
        LaplaceEvidence(X, y, memory="10MB")


def test_what_is_no_kernel_is_told():
    X, y = data()
    with pytest.raises(np.linalg.LinAlgError, match=r"K has the eigenvalue -\d"):
        LaplaceEvidence(X, y)(50.0 * Sigmoid(1.0, -2.0))


@pytest.mark.parametrize("mean", [0.0, 0.5, -2.0, 5.0])
@pytest.mark.parametrize("variance", [0.0, 1e-3, 0.3, 0.99, 1.0, 1.01, 10.0, 1e4])
def test_logistic_gaussian(mean, variance):
    s = np.sqrt(variance)
    centre = [-mean / s] if s and abs(mean / s) < 12 else None
    slow = quad(
        lambda t: expit(mean + s * t) * np.exp(-t * t / 2) / np.sqrt(2 * np.pi),
        -12,
        12,
        points=centre,
        epsabs=1e-13,
        limit=500,
    )[0]
    assert logistic_gaussian(np.array([mean]), np.array([variance]))[0] == pytest.approx(slow, abs=1e-11)
