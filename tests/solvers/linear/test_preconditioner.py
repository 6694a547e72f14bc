"""Woodbury by strips is the dense solve, in either precision, whatever the number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.gram import Gram
from gramian.kernels import RBF
from gramian.solvers.linear.preconditioner import Preconditioner, narrow_enough


@pytest.mark.parametrize(("dtype", "tol"), [(np.float64, 1e-10), (np.float32, 1e-4)])
@pytest.mark.parametrize("shape", [(1, 1), (30, 0), (1500, 7)])
def test_solves_as_the_dense_matrix_does(shape, dtype, tol):
    rng = np.random.default_rng(0)
    F, R, ridges = rng.standard_normal(shape).astype(dtype), rng.standard_normal((shape[0], 3)), np.array([0.5, 2, 0.5])
    Z = Preconditioner(F, ridges, workers=2).solve(R, ridges)
    wide = F.astype(np.float64)
    for j, ridge in enumerate(ridges):
        np.testing.assert_allclose(wide @ (wide.T @ Z[:, j]) + ridge * Z[:, j], R[:, j], atol=tol * shape[0])


def test_threads_do_not_change_the_answer():
    rng = np.random.default_rng(1)
    F, R, ridge = rng.standard_normal((5000, 4)), rng.standard_normal((5000, 1)), np.array([0.1])
    one, two = (Preconditioner(F, ridge, workers).solve(R, ridge) for workers in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_single_precision_only_where_it_does_not_hide_the_ridge():
    X = np.random.default_rng(2).standard_normal((2000, 3))
    K, ones = Gram(RBF(1.0), X), np.ones((1, 1))
    greatest = np.linalg.eigvalsh(K.dense())[-1]
    eps = np.finfo(np.float32).eps
    assert narrow_enough(K, ones, 100 * eps * greatest)
    assert not narrow_enough(K, ones, eps * greatest)
    assert not narrow_enough(K, 10 * ones, 100 * eps * greatest)
