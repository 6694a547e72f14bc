"""Gram matrices whose rows are prepared late: the same numbers, and no more rows than were asked for."""

import numpy as np
import pytest

import gramian.kernels as gk
from gramian.gram import Gram, draw_landmarks
from gramian.gram.operator import Deferred
from gramian.gram.pivoted_cholesky import landmarks_and_factor


@pytest.fixture
def X(rng):
    return rng.standard_normal((300, 3))


@pytest.mark.parametrize("kernel", [gk.RBF(0.7), 2.0 * gk.Matern(1.0, nu=1.5) + gk.RBF(0.1), gk.Laplace(1.0)])
def test_it_is_the_matrix(kernel, X):
    late, K = Deferred(kernel, X, None, 1), kernel(X)
    some = np.array([7, 3, 200])
    np.testing.assert_allclose(late.submatrix(some).dense(), K[np.ix_(some, some)], atol=1e-13)
    np.testing.assert_array_equal(late.diagonal(), K.diagonal())
    assert "left" not in vars(late)
    np.testing.assert_allclose(late @ np.ones(300), K.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(late.submatrix(some).dense(), K[np.ix_(some, some)], atol=1e-13)


def test_a_kernel_that_is_not_stationary_is_refused(X):
    with pytest.raises(TypeError, match="not stationary"):
        Deferred(gk.Linear(), X, None, 1)
    with pytest.raises(AttributeError, match="nothing"):
        _ = Deferred(gk.RBF(1.0), X, None, 1).nothing


@pytest.mark.parametrize(("lengthscale", "whole"), [(0.2, False), (5.0, True)])
def test_landmarks_are_those_of_the_prepared_matrix(lengthscale, whole, X):
    kernel = gk.RBF(lengthscale)
    late = Deferred(kernel, X, None, 1)
    index, lower = landmarks_and_factor(late, 60, 0)
    assert ("left" in vars(late)) == whole
    np.testing.assert_array_equal(index, draw_landmarks(Gram(kernel, X), 60, 0))
    np.testing.assert_allclose(lower @ lower.T, kernel(X[index]), atol=1e-12)
