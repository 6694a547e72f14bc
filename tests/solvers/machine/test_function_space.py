"""The space of a kernel's functions on some rows: the same products, stored whole, by halves or not at all."""

import numpy as np
import pytest

from gramian.gram import Gram
from gramian.kernels import RBF
from gramian.solvers.machine.function_space import ExactSpace


@pytest.mark.parametrize("memory", ["1GB", "2MB", "100KB"])
def test_products_and_blocks_within_any_memory(memory, rng):
    X, V = rng.standard_normal((300, 2)), rng.standard_normal((300, 2))
    K, space = RBF(1.0)(X), ExactSpace(Gram(RBF(1.0), X, memory=memory), random_state=0)
    rows = np.array([3, 250, 17])
    np.testing.assert_allclose(space @ V, K @ V, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(space.fast(V), K @ V, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(space @ V, K @ V, rtol=1e-10, atol=1e-10)  # also after K was stored in part
    np.testing.assert_allclose(space.block(rows), K[np.ix_(rows, rows)], atol=1e-12)
    np.testing.assert_allclose(space.rows().exact(rows, np.arange(300)), K[rows], atol=1e-12)
    error = np.trace(K - space.factor @ space.factor.T) / np.trace(K)
    assert 0.0 <= error + 1e-12 < 0.5
