"""Categorical: codes are names, weights are one a column, and it stands in the algebra beside other kernels."""

import numpy as np
import pytest

from gramian import GaussianProcessRegressor
from gramian.kernels import Categorical, Matern


def test_codes_have_no_order():
    k = Categorical(0.7)
    np.testing.assert_allclose(k([[1.0]], [[1.0], [2.0], [900.0], [-3.0]]), [[1.0, *[np.exp(-0.7)] * 3]])


def test_beside_kernels_on_other_columns():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal(20), rng.integers(0, 3, 20)])
    k = Matern(1.0).on(0) * Categorical(0.5).on(1)
    equal = X[:, 1][:, None] == X[:, 1][None]
    np.testing.assert_allclose(k(X), Matern(1.0)(X[:, :1]) * np.where(equal, 1.0, np.exp(-0.5)), rtol=1e-12)


def test_a_process_learns_which_column_matters():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (100, 2)).astype(float)
    y = np.array([0.0, 3.0, -1.0, 1.0])[X[:, 0].astype(int)] + 0.1 * rng.standard_normal(100)
    learned = GaussianProcessRegressor(kernel=1.0 * Categorical([1.0, 1.0]), alpha=0.01).fit(X, y).kernel_
    assert learned.kernel.weight[0] > 1.0 > 1e-2 > learned.kernel.weight[1]


def test_misuse_is_told():
    with pytest.raises(ValueError, match="2 weights but X has 3 columns"):
        Categorical([1.0, 2.0])(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="weight must be finite and >= 0"):
        Categorical(-1.0)
    with pytest.raises(TypeError, match="text"):
        Categorical(1.0)(np.array([["red"], ["blue"]], dtype=object))
    with pytest.raises(ValueError, match="NaN"):
        Categorical(1.0)([[np.nan]])
