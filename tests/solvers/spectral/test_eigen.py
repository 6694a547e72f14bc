"""Eigensolvers: the same pairs as LAPACK, residuals that are true, honest stops."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.progress import Clock
from gramian.solvers.spectral.eigen import CentredOperator, Request, Rounding, arpack, dense, lanczos, randomized


def matrix(values, seed=0):
    n = len(values)
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    return (Q * values) @ Q.T


def residual(A, pairs):
    """The worst residual relative to its own eigenvalue; to the largest where it is rounding."""
    size = np.linalg.norm(A @ pairs.vectors - pairs.vectors * pairs.values, axis=0)
    return np.max(size / np.where(size > 64 * np.finfo(float).eps * pairs.values[0], pairs.values, pairs.values[0]))


SPECTRA = {
    "polynomial": 1.0 / np.arange(1.0, 301.0) ** 2,
    "exponential": 0.9 ** np.arange(300.0),
    "clustered": np.r_[np.full(7, 3.0), np.full(9, 2.0), np.linspace(1.0, 0.0, 284)],
    "indefinite": np.r_[np.linspace(5.0, 1.0, 30), np.full(240, 0.0), np.linspace(-1.0, -4.0, 30)],
    "low rank": np.r_[np.arange(5.0, 0.0, -1.0), np.zeros(295)],
    "zero": np.zeros(300),
    "identity": np.ones(300),
}


@pytest.mark.parametrize("values", SPECTRA.values(), ids=SPECTRA)
@pytest.mark.parametrize("block", [None, 7])
def test_lanczos_finds_the_largest(values, block):
    A = matrix(values)
    pairs = lanczos(A, Request(12, 1e-7, max_iter=2000), block=block)
    assert pairs.certificate.converged
    assert pairs.certificate.kind == "eigen-residual"
    np.testing.assert_allclose(pairs.values, np.sort(values)[::-1][:12], atol=1e-7 * max(values.max(), 1e-9))
    np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(12), atol=1e-10)
    if values.max() > 0:
        assert residual(A, pairs) == pytest.approx(pairs.certificate.violation, abs=1e-10)


@pytest.mark.parametrize("solve", [lanczos, arpack, randomized, lambda A, ask: dense(A, A, ask)])
def test_small_eigenvalues_are_as_true_as_large_ones(solve):
    values = np.r_[1e6, 1e4, 1e2, 1.0, 1e-2, np.zeros(295)]
    A = matrix(values)
    pairs = solve(A, Request(7, power=7))
    assert pairs.certificate.converged
    np.testing.assert_allclose(pairs.values[:5], values[:5], rtol=1e-6)
    np.testing.assert_allclose(residual(A, pairs), pairs.certificate.violation, atol=1e-12)


def test_a_residual_is_relative_to_its_own_eigenvalue():
    A = np.diag(np.r_[1.0, 1e-5, 1e-6, np.zeros(50)])
    wrong = np.eye(53)[:, :2]
    wrong[1:3, 1] = np.cos(0.3), np.sin(0.3)  # between two eigenvectors, but near zero beside the largest
    value = wrong[:, 1] @ A @ wrong[:, 1]
    residuals = np.linalg.norm(A @ wrong - wrong * [1.0, value], axis=0)
    assert Rounding()._worst(residuals, np.array([1.0, value]), 53) > 0.1
    assert Rounding(offset=3e8)._worst(residuals, np.array([1.0, value]), 53) > 0.1  # lost to rounding: no excuse


def test_lanczos_restarts():
    A = matrix(1.0 / np.arange(1.0, 801.0))
    pairs = lanczos(A, Request(5, 1e-6), block=2)
    assert pairs.certificate.iterations * 2 > 29  # more vectors than the basis has room for
    np.testing.assert_allclose(pairs.values, 1.0 / np.arange(1.0, 6.0), rtol=1e-9)


@pytest.mark.parametrize("solve", [lanczos, arpack, randomized])
def test_solvers_agree_with_lapack(solve):
    A = matrix(0.8 ** np.arange(200.0))
    exact, found = dense(A, A, Request(6)), solve(A, Request(6, power=30))
    np.testing.assert_allclose(found.values, exact.values, rtol=1e-8)
    np.testing.assert_allclose(np.abs(np.sum(found.vectors * exact.vectors, axis=0)), 1.0, atol=1e-7)
    assert found.certificate.converged


def test_centred(rng):
    A = matrix(np.arange(1.0, 21.0))
    J = np.eye(20) - 1.0 / 20
    V = rng.standard_normal((20, 3))
    np.testing.assert_allclose(CentredOperator(A) @ V, J @ A @ J @ V, atol=1e-12)


def test_what_stops_short_says_so():
    A = matrix(np.linspace(1.0, 0.99, 400))
    pairs = lanczos(A, Request(10, 1e-9, max_iter=4))
    assert not pairs.certificate.converged
    assert pairs.exhausted
    assert "max_iter=4 products" in pairs.certificate.message
    assert "max_time" in lanczos(A, Request(10, 1e-12, clock=Clock(1e-9))).certificate.message
    assert "iterated_power" in randomized(A, Request(10, 1e-6, power=0)).certificate.message
    with pytest.raises(TimeoutError, match="use 'lanczos'"):
        arpack(A, Request(10, clock=Clock(1e-9)))
    with pytest.raises(np.linalg.LinAlgError, match="raise max_iter"):
        arpack(A, Request(10, max_iter=1))


def test_smallest_is_an_upper_bound():
    A = matrix(SPECTRA["indefinite"])
    assert -4.0 - 1e-9 <= lanczos(A, Request(5)).smallest < -3.0
