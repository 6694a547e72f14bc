"""The factor in place: L, what it solves, what it reports, and what it leaves of A."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramian.progress import Clock
from gramian.solvers.linear import cholesky as module
from gramian.solvers.linear.cholesky import NotPositiveDefiniteError, cholesky, solve


def definite(n, seed=0):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((n, n + 3))
    return M @ M.T / n + 0.1 * np.eye(n)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks so small that few rows go through every branch."""
    monkeypatch.setattr(module, "SMALL", 4)
    monkeypatch.setattr(module, "BLOCK", 8)
    monkeypatch.setattr(module, "STRIP", 11)


@settings(deadline=None, max_examples=30)
@given(n=st.integers(1, 60), blocked=st.booleans())
def test_factor_is_lapacks(n, blocked):
    A = definite(n, n)
    with pytest.MonkeyPatch.context() as patch:
        if blocked:
            patch.setattr(module, "SMALL", 4)
            patch.setattr(module, "BLOCK", 8)
            patch.setattr(module, "STRIP", 11)
        factor = cholesky(A.copy())
        np.testing.assert_allclose(factor.lower(), np.linalg.cholesky(A), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(factor.inverse_diagonal(), np.diag(np.linalg.inv(A)), rtol=1e-9)
    assert factor.jitter == 0.0


@pytest.mark.usefixtures("small_blocks")
def test_what_the_factor_answers():
    A, B = definite(40), np.random.default_rng(1).standard_normal((40, 3))
    factor = cholesky(A.copy())
    inverse = np.linalg.inv(A)
    np.testing.assert_allclose(factor.solve(B), inverse @ B, rtol=1e-9)
    np.testing.assert_allclose(factor.solve(B[:, 0]), inverse @ B[:, 0], rtol=1e-9)
    np.testing.assert_allclose((factor.half_solve(B) ** 2).sum(axis=0), np.diag(B.T @ inverse @ B), rtol=1e-9)
    np.testing.assert_allclose(factor @ B, A @ B, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(factor @ B[:, 0], A @ B[:, 0], rtol=1e-12, atol=1e-12)
    assert factor.logdet() == pytest.approx(np.linalg.slogdet(A)[1])
    assert factor.smallest_pivot() >= np.linalg.eigvalsh(A)[0]
    np.testing.assert_array_equal(factor.give_back(), A)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("scale", [1e-60, 1e-20, 1e20])
def test_the_product_does_not_depend_on_the_scale(scale):
    A, V = scale * definite(20), np.random.default_rng(1).standard_normal((20, 2))
    factor = cholesky(A.copy())
    L = factor.lower()
    np.testing.assert_allclose(factor @ V, A @ V, rtol=1e-12, atol=1e-14 * scale)
    np.testing.assert_array_equal(factor.lower(), L)


def test_works_in_the_memory_of_its_argument():
    A = definite(30)
    assert cholesky(A).packed is A


@pytest.mark.usefixtures("small_blocks")
def test_jitter_is_the_least_that_works_and_is_reported():
    v = np.random.default_rng(0).standard_normal((40, 3))
    A = v @ v.T  # rank 3 of 40
    factor = cholesky(A.copy())
    assert 0.0 < factor.jitter <= 1e-10 * np.diag(A).mean()
    L = factor.lower()
    np.testing.assert_allclose(L @ L.T, A + factor.jitter * np.eye(40), atol=1e-12)
    np.testing.assert_allclose(factor @ v, A @ v, atol=1e-12)


@pytest.mark.usefixtures("small_blocks")
def test_failure_gives_the_row_and_leaves_the_matrix():
    A = definite(30)
    A[17, 17] = -1.0
    before = A.copy()
    with pytest.raises(NotPositiveDefiniteError, match="broke down at row 17") as caught:
        cholesky(A, jitter_limit=0.0)
    assert caught.value.pivot == 17
    np.testing.assert_array_equal(A, before)
    with pytest.raises(NotPositiveDefiniteError, match=r"even with .* added"):
        cholesky(A)


@pytest.mark.parametrize("A", [np.eye(3, dtype=np.float32), np.ones((2, 3)), np.asfortranarray(definite(3))])
def test_refuses_what_it_cannot_overwrite(A):
    with pytest.raises(ValueError, match="square C-ordered float64"):
        cholesky(A)


@pytest.mark.usefixtures("small_blocks")
def test_clock_and_tick():
    done = []
    cholesky(definite(30), tick=lambda share: done.append(share))
    assert done == sorted(done)
    assert done[-1] == pytest.approx(1.0)
    with pytest.raises(TimeoutError, match="max_time passed after 0 of 30"):
        cholesky(definite(30), clock=Clock(max_time=1e-9))


def test_solution_carries_its_residual():
    A, B = definite(25), np.random.default_rng(1).standard_normal((25, 2))
    solution, _ = solve(A.copy(), B)
    np.testing.assert_allclose(solution.x, np.linalg.solve(A, B), rtol=1e-9)
    residual = np.linalg.norm(B - A @ solution.x, axis=0) / np.linalg.norm(B, axis=0)
    np.testing.assert_allclose(solution.certificate.violation, residual.max(), atol=1e-15)
    assert solution.certificate.converged


def test_an_ill_conditioned_system_says_so():
    x = np.linspace(0, 1, 60)
    A = np.exp(-((x[:, None] - x) ** 2))
    solution, factor = solve(A, np.random.default_rng(0).standard_normal((60, 1)), jitter_limit=1e-4)
    assert factor.jitter > 0
    assert not solution.certificate.converged
    assert "ill-conditioned" in str(solution.certificate)
