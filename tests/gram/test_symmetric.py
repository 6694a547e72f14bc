"""Half a Gram matrix multiplies as the whole does, however much of it is stored."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.gram import Gram, SymmetricGram
from gramian.kernels import RBF, Precomputed, White


@pytest.mark.parametrize("n", [1, 511, 512, 1300])
@pytest.mark.parametrize("memory", [0, 3_000_000, 10**9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_product_is_the_dense_one(n, memory, dtype):
    rng = np.random.default_rng(n)
    X, V = rng.standard_normal((n, 2)), rng.standard_normal((n, 3))
    gram = Gram(RBF(1.0) + White(0.1), X)
    half = SymmetricGram(gram, memory, dtype)
    exact = gram.dense() @ V
    np.testing.assert_allclose(half @ V, exact, atol=1e-12 * n if dtype == np.float64 else 1e-5 * np.sqrt(n))
    np.testing.assert_allclose(half @ V[:, 0], (half @ V)[:, 0], atol=1e-5 * np.sqrt(n))
    assert half.nbytes <= memory
    assert half.stored == 1.0 or memory < 10**9


def test_workers_and_runs_agree():
    X = np.random.default_rng(0).standard_normal((1200, 2))
    v = np.ones(1200)
    products = [SymmetricGram(Gram(RBF(1.0), X, n_jobs=jobs), 10**6) @ v for jobs in (1, 2, 2)]
    np.testing.assert_array_equal(products[1], products[2])
    np.testing.assert_allclose(products[0], products[1], rtol=1e-12)


def test_each_pair_is_computed_once(monkeypatch):
    seen = []
    plain = Precomputed._tile

    def counting(self, A, B, out):
        seen.append(len(A) * len(B))
        return plain(self, A, B, out)

    gram = Gram(Precomputed(), np.eye(1500))
    stored = SymmetricGram(gram, 10**9)
    monkeypatch.setattr(Precomputed, "_tile", counting)
    stored @ np.ones(1500)
    assert not seen
    SymmetricGram(gram, 0, np.float64) @ np.ones(1500)
    assert sum(seen) < 0.68 * 1500**2


def test_misuse():
    gram = Gram(RBF(1.0), np.ones((3, 1)), np.ones((2, 1)))
    with pytest.raises(ValueError, match="X with itself"):
        SymmetricGram(gram)
    with pytest.raises(ValueError, match="V must have 3 rows"):
        SymmetricGram(Gram(RBF(1.0), np.ones((3, 1)))) @ np.ones(2)


@pytest.mark.parametrize("size", [1e39, 1e-50])
def test_vectors_beyond_single_precision(rng, size):
    gram = Gram(RBF(1.0), rng.standard_normal((30, 2)))
    V, sizes = rng.random((30, 3)), np.array([1.0, size, 0.0])
    product = SymmetricGram(gram, dtype=np.float32) @ (V * sizes)
    np.testing.assert_allclose(product, (gram.dense() @ V) * sizes, rtol=1e-5)
