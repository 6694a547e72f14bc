"""Rows of F Fᵀ against the product itself."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.solvers.svm.feature_rows import FeatureRows


@pytest.mark.parametrize("workers", [1, 2])
def test_all_parts_of_the_matrix(workers):
    F = np.random.default_rng(0).standard_normal((10, 3))
    K = F @ F.T
    rows = FeatureRows(F, workers)
    some, others, weights = np.array([0, 4, 9]), np.array([2, 8]), np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(rows.diagonal(), K.diagonal())
    np.testing.assert_allclose(rows.square(some), K[np.ix_(some, some)], atol=1e-14)
    np.testing.assert_allclose(rows.exact(some, others), K[np.ix_(some, others)], atol=1e-14)
    np.testing.assert_allclose(rows.exact_sum(some, weights), weights @ K[some], atol=1e-14)
    assert not rows.upgrade()
