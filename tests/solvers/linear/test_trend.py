"""The bordered system by projection, beside its dense solution."""

import numpy as np
import pytest
import scipy.sparse as sp

from gramian import PolynomialMap
from gramian.kernels import RBF
from gramian.solvers.linear.trend import TrendBasis, columns


def test_projection_solves_the_bordered_system(rng):
    X, Y = rng.standard_normal((30, 2)), rng.standard_normal((30, 2))
    A, T = RBF(1.0)(X) + 0.1 * np.eye(30), columns("linear", X)
    bordered = np.block([[A, T], [T.T, np.zeros((3, 3))]])
    solution = np.linalg.solve(bordered, np.vstack([Y, np.zeros((3, 2))]))
    basis, P = TrendBasis.of(T), A.copy()
    tau = basis.put_into(P)
    assert tau == pytest.approx(np.abs(A).max())
    alpha = np.linalg.solve(P, basis.residual(Y))
    np.testing.assert_allclose(alpha, solution[:30], atol=1e-9)
    np.testing.assert_allclose(basis.coefficients(Y - A @ alpha), solution[30:], atol=1e-9)
    projector = np.eye(30) - T @ np.linalg.pinv(T)
    np.testing.assert_allclose(P, projector @ A @ projector + tau * (np.eye(30) - projector), atol=1e-10)
    np.testing.assert_allclose(basis.leverages(), 1.0 - np.diag(projector), atol=1e-12)


def test_columns_of_every_kind_of_trend(rng):
    X = rng.standard_normal((5, 2))
    np.testing.assert_array_equal(columns("constant", X), np.ones((5, 1)))
    np.testing.assert_array_equal(columns("linear", sp.csr_array(X)), np.column_stack([np.ones(5), X]))
    np.testing.assert_array_equal(columns(lambda rows: rows[:, 0], X), X[:, :1])
    assert columns(PolynomialMap(2).fit(X), X).shape == (5, 6)
    with pytest.raises(ValueError, match="one row of numbers for each of 5 rows"):
        columns(lambda rows: np.ones(3), X)


def test_columns_that_cannot_be_told_apart_are_refused(rng):
    x = rng.standard_normal(6)
    for T in (np.column_stack([x, 2 * x]), np.column_stack([x, 0 * x]), np.ones((1, 2))):
        with pytest.raises(ValueError, match="not identified"):
            TrendBasis.of(T)
    with pytest.raises(ValueError, match="not finite"):
        TrendBasis.of(np.array([[np.inf], [1.0]]))


def test_columns_far_from_zero_keep_their_digits(rng):
    t = rng.integers(-8, 9, (6, 2)) / 8.0
    near, far = (columns("linear", shift + 2.0**-20 * t) for shift in (0.0, 2.0**10))  # both exact
    Y = rng.standard_normal((6, 2))
    ours, theirs = TrendBasis.of(near), TrendBasis.of(far)
    np.testing.assert_allclose(theirs.residual(Y), ours.residual(Y), atol=1e-14)
    np.testing.assert_allclose(theirs.coefficients(Y)[1:], ours.coefficients(Y)[1:], rtol=1e-12)
    np.testing.assert_allclose(theirs.Q @ theirs.R, far, rtol=1e-15)
