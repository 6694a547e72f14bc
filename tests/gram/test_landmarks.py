"""Landmarks without the factor: the same law as with it, and a way out where the law needs all rows."""

import numpy as np
import pytest
from scipy import stats

from gramian import kernels as gk
from gramian.gram import Gram, draw_landmarks, rpcholesky
from gramian.gram.pivots import factorise


def test_the_law_is_that_of_rpcholesky(rng):
    X = rng.random((16, 2))
    gram = Gram(gk.RBF(0.5), X)
    pairs = np.zeros((2, 16, 16))
    for seed in range(3000):
        for table, choose in zip(pairs, (draw_landmarks, one_at_a_time), strict=True):
            index = choose(gram, 2, seed)
            table[index[0], index[1]] += 1
    seen = pairs.sum(axis=0) >= 10
    assert stats.chi2_contingency(pairs[:, seen]).pvalue > 1e-3


def one_at_a_time(gram, rank, seed):
    return rpcholesky(gram, rank, 10_000 + seed, block=1).indices


def test_as_good_as_with_the_factor(rng):
    sizes = (3 ** np.arange(7)).astype(int)
    X = np.concatenate([rng.uniform(-9, 9, 3) + 0.3 * rng.standard_normal((s, 3)) for s in sizes])
    gram = Gram(gk.RBF(0.7), X)
    index = draw_landmarks(gram, 100, 0)
    assert np.unique(index).size == 100
    assert factorise(gram, index).trace_error < 1.2 * rpcholesky(gram, 100, 0).trace_error


@pytest.mark.parametrize("rank", [1, 30, 60, 110])
def test_a_spectrum_that_ends_gives_fewer(rank, rng):
    X = np.repeat(rng.standard_normal((20, 2)), 6, axis=0)
    index = draw_landmarks(Gram(gk.RBF(1.0), X), rank, 0)
    assert index.size == min(rank, 20)


def test_same_seed_same_landmarks(rng):
    gram = Gram(gk.Laplace(1.0), rng.random((300, 3)))
    np.testing.assert_array_equal(draw_landmarks(gram, 40, 3), draw_landmarks(gram, 40, 3))
    alone = Gram(gk.Laplace(1.0), rng.random((300, 3)), n_jobs=1)
    np.testing.assert_array_equal(draw_landmarks(alone, 40, 3), draw_landmarks(alone.on(2), 40, 3))


@pytest.mark.parametrize("rank", [-3, 0, 41, 2.5, True])
def test_a_rank_that_is_none_is_named(rng, rank):
    gram = Gram(gk.RBF(1.0), rng.standard_normal((40, 2)))
    with pytest.raises(ValueError, match=f"between 1 and the number of rows, 40; got {rank!r}"):
        draw_landmarks(gram, rank)
