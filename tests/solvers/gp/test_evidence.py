"""The log evidence and its gradient against dense algebra and finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import reference_gp as reference
from gramian.kernels import RBF, Constant, Linear, Matern, Periodic, RationalQuadratic, Sigmoid, White
from gramian.solvers.gp import evidence as module
from gramian.solvers.gp.evidence import LogEvidence, WeightedEvidence, inverse_below, signal_and_noise
from gramian.solvers.linear.cholesky import cholesky

KERNELS = [
    1.5 * RBF(0.7),
    2.0 * RBF([0.5, 1.0, 2.0]) + White(0.1),
    Matern([1.0, 2.0, 0.5], nu=1.5) * Constant(3.0) + White(0.2) + Linear(),
    0.5 * Matern(1.3, nu=2.5) + RationalQuadratic(1.0, alpha=0.5) + White(0.3),
    Periodic(1.2, period=2.0) + White(0.05, "fixed"),
    White(0.4),
]


def data(n=60, targets=1):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 3))
    return X, rng.standard_normal((n, targets)) + X[:, :1]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("noise", [0.1, np.linspace(0.05, 0.5, 60)], ids=["one", "each"])
def test_value_and_gradient(kernel, noise):
    X, Y = data(targets=2)
    at = LogEvidence(X, Y, noise)(kernel, gradient=True)
    assert at.value == pytest.approx(reference.log_evidence(kernel, X, Y, noise), rel=1e-10)
    slow = reference.numerical_gradient(
        lambda t: reference.log_evidence(kernel.with_theta(t), X, Y, noise), kernel.theta
    )
    np.testing.assert_allclose(at.gradient, slow, rtol=1e-5, atol=1e-5)
    assert at.jitter == 0.0


def test_more_rows_than_a_panel_and_the_buffer_is_reused():
    X, Y = data(300)
    evidence = LogEvidence(X, Y, 0.1)
    first = evidence(KERNELS[1], gradient=True)
    evidence(KERNELS[0], gradient=True)
    again = evidence(KERNELS[1], gradient=True)
    assert first.value == again.value
    np.testing.assert_array_equal(first.gradient, again.gradient)
    slow = reference.numerical_gradient(
        lambda t: reference.log_evidence(KERNELS[1].with_theta(t), X, Y, 0.1), KERNELS[1].theta
    )
    np.testing.assert_allclose(first.gradient, slow, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("n", [1, 5, 20, 37])
def test_inverse_by_blocks(n, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 8)
    G = np.random.default_rng(n).standard_normal((n, n))
    A = G @ G.T + np.eye(n)
    for rows in (0, 1000):
        monkeypatch.setattr(module, "LAPACK_ROWS", rows)
        found = inverse_below(cholesky(A.copy()))
        np.testing.assert_allclose(np.tril(found), np.tril(np.linalg.inv(A)), atol=1e-12)


def test_what_is_not_positive_definite_has_no_evidence():
    X, Y = data()
    at = LogEvidence(X, Y, 0.0)(Sigmoid(1.0, -2.0), gradient=True)
    assert at.value == -np.inf
    assert not at.gradient.any()


def test_memory_is_refused_before_it_is_taken():
    X, Y = data(1000)
    with pytest.raises(MemoryError, match=r"evidence of 1,000 rows takes 8 MB and memory is 1 MB"):
        LogEvidence(X, Y, 0.1, memory="1MB")


def test_signal_and_noise():
    kernel = (RBF(1.0) + White(0.1)) + (Linear() + White(0.2))
    signal, noise = signal_and_noise(kernel)
    assert signal == RBF(1.0) + Linear()
    assert noise == pytest.approx(0.3)
    product = RBF(1.0) * (Constant(1.0) + White(0.1))
    assert signal_and_noise(product) == (product, 0.0)
    assert signal_and_noise(White(0.5)) == (White(0.5), 0.0)


def test_a_row_of_weight_w_is_w_equal_rows(rng):
    X, Y, counts = rng.standard_normal((12, 2)), rng.standard_normal((12, 2)), rng.integers(1, 4, 12)
    kernel = 1.3 * Matern([0.8, 2.0], nu=1.5) + White(0.3)
    once = WeightedEvidence(X, Y, counts.astype(float))(kernel, gradient=True)
    often = LogEvidence(np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0), 0.0)(kernel, gradient=True)
    assert once.value == pytest.approx(often.value)
    np.testing.assert_allclose(once.gradient, often.gradient, rtol=1e-8)
