"""Sums of kernel rows against products."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.solvers.svm.row_sums import add_rows


@pytest.mark.parametrize("count", [1, 4, 7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_rows_are_products(count, dtype):
    rng = np.random.default_rng(count)
    store, slots = rng.standard_normal((9, 5000)).astype(dtype), rng.permutation(9)[:count]
    weights, out = rng.standard_normal(count), np.ones(5000)
    add_rows(store, slots, weights, out, 100, 4900)
    want = np.ones(5000)
    want[100:4900] += weights @ store[slots, 100:4900].astype(np.float64)
    np.testing.assert_allclose(out, want, atol=1e-12)
