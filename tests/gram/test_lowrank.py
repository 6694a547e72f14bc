"""Woodbury against dense algebra."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gramian.gram import LowRank

entries = st.floats(-3, 3)


@given(arrays(float, (6, 3), elements=entries), arrays(float, 6, elements=st.floats(0.1, 5)))
@settings(max_examples=50, deadline=None)
def test_solve_logdet_and_product(F, d):
    for diagonal in (d, float(d[0])):
        A = LowRank(F, diagonal)
        dense = F @ F.T + np.diag(np.broadcast_to(diagonal, 6))
        np.testing.assert_allclose(A.dense(), dense)
        B = np.arange(12.0).reshape(6, 2)
        np.testing.assert_allclose(A.solve(B), np.linalg.solve(dense, B), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(A.solve(B[:, 1]), np.linalg.solve(dense, B[:, 1]), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(A @ B, dense @ B, rtol=1e-10, atol=1e-10)
        assert A.logdet() == pytest.approx(np.linalg.slogdet(dense)[1], rel=1e-9, abs=1e-9)


def test_rank_zero_is_the_diagonal():
    A = LowRank(np.zeros((4, 0)), 2.0)
    np.testing.assert_allclose(A.solve(np.ones(4)), 0.5)
    assert A.logdet() == pytest.approx(4 * np.log(2))
    assert (A.shape, A.rank) == ((4, 4), 0)


def test_float32_factors_are_solved_in_float64(rng):
    F = rng.standard_normal((50, 5)).astype(np.float32)
    A = LowRank(F, 1e-4)
    b = rng.standard_normal(50)
    wide = F.astype(np.float64)
    np.testing.assert_allclose(A.solve(b), np.linalg.solve(wide @ wide.T + 1e-4 * np.eye(50), b), rtol=1e-6, atol=1e-6)


def test_shapes_are_checked_and_lists_are_taken():
    A = LowRank([[1.0], [2.0]], 1.0)
    assert A.shape == (2, 2)
    for wrong in (np.ones(1), np.ones((1, 2)), np.ones(3), np.ones((2, 1, 1))):
        with pytest.raises(ValueError, match=r"expected shape \(2,\) or \(2, k\)"):
            A.solve(wrong)
        with pytest.raises(ValueError, match=r"expected shape"):
            A @ wrong
    with pytest.raises(ValueError, match="factor must be finite"):
        LowRank([[np.nan]], 1.0)


@pytest.mark.parametrize(
    ("factor", "diagonal", "message"),
    [
        (np.ones(3), 1.0, "factor must have shape"),
        (np.ones((3, 1)), 0.0, "diagonal must be positive"),
        (np.ones((3, 1)), [1.0, -1.0, 1.0], "diagonal must be positive"),
        (np.ones((3, 1)), np.ones(2), "diagonal must be a number or have shape"),
        (np.ones((3, 1)), np.inf, "diagonal must be positive and finite"),
    ],
)
def test_errors(factor, diagonal, message):
    with pytest.raises(ValueError, match=message):
        LowRank(factor, diagonal)
