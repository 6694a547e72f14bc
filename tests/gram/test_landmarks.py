"""Landmark rules: the factor they promise, their laws, and who wins where."""

from collections import Counter

import numpy as np
import pytest
from scipy import stats
from sklearn.cluster import MiniBatchKMeans
from threadpoolctl import threadpool_info, threadpool_limits

import reference
from gramian import kernels as gk
from gramian.gram import Gram, draw_landmarks, greedy, kmeans, leverage, rpcholesky, select, uniform
from gramian.gram.landmarks import RULES
from gramian.gram.pivoted_cholesky import factorise


@pytest.fixture(name="X")
def rows(rng):
    return rng.random((120, 3))


@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_factor_is_nystroem(rule, dtype, X):
    X = X.astype(dtype)
    gram = Gram(gk.RBF(0.6), X)
    p = select(rule, gram, 15, 0, X=X)
    K = gk.RBF(0.6)(X.astype(np.float64))
    tol = 1e-9 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(p.factor @ p.factor.T, reference.nystrom(K, p.indices), atol=tol)
    assert p.factor.shape == (120, p.rank)
    assert len(set(p.indices.tolist())) == p.rank <= 15
    residual = np.diag(K) - np.einsum("ij,ij->i", p.factor, p.factor)
    np.testing.assert_allclose(p.residual, np.maximum(residual, 0), atol=tol)
    assert p.trace_error == pytest.approx(residual.sum() / np.trace(K), abs=tol)
    assert np.all(p.residual >= 0)
    np.testing.assert_array_equal(p.indices, select(rule, gram, 15, 0, X=X).indices)


def law(K, rank):
    """The probability of every ordered choice of pivots, by the definition: each with its share of the residual."""
    if rank == 0:
        return {(): 1.0}
    shares, found = np.diag(K) / np.trace(K), {}
    for i in np.flatnonzero(shares > 1e-12):
        rest = law(K - np.outer(K[:, i], K[i]) / K[i, i], rank - 1)
        found |= {(int(i), *others): shares[i] * p for others, p in rest.items()}
    return found


def follow(draws, expected):
    """Whether drawn pivots have a law, by a chi-squared test with rare outcomes taken together."""
    counts = Counter(tuple(index.tolist()) for index in draws)
    assert counts.keys() <= expected.keys()
    table = np.array([(counts[outcome], len(draws) * p) for outcome, p in expected.items()])
    rare = table[:, 1] < 5
    table = np.vstack([table[~rare], table[rare].sum(axis=0)])
    return stats.chisquare(*table[table[:, 1] > 0].T).pvalue > 1e-3


@pytest.mark.parametrize("block", [1, 4, 11])
def test_accelerated_rpcholesky_has_the_law_of_one_at_a_time(block):
    X = np.array([[0.0], [0.1], [0.7], [1.5], [1.6]])
    k = (1.0 + gk.Linear()) * gk.RBF(0.5)
    gram, rng = Gram(k, X), np.random.RandomState(0)
    assert follow([rpcholesky(gram, 3, rng, block=block).indices for _ in range(2000)], law(k(X), 3))


def test_greedy_takes_the_worst_row(X):
    k = gk.RBF(0.6)
    K = k(X)
    residual = K.copy()
    expected = []
    for _ in range(8):
        i = int(np.argmax(np.diag(residual)))
        expected.append(i)
        residual = residual - np.outer(residual[:, i], residual[i]) / residual[i, i]
    assert greedy(Gram(k, X), 8).indices.tolist() == expected


def test_random_pivots_win_on_uneven_clusters():
    rng = np.random.default_rng(1)
    sizes = np.maximum((2000 * 0.85 ** np.arange(60)).astype(int) // 6, 2)
    X = np.concatenate([rng.uniform(-30, 30, 2) + 0.4 * rng.standard_normal((s, 2)) for s in sizes])
    gram = Gram(gk.RBF(1.0), X)

    def error(rule):
        return np.mean([RULES[rule](gram, 100, seed).trace_error for seed in range(5)])

    assert error("rpcholesky") < 0.7 * error("uniform")
    assert error("rpcholesky") < 0.7 * error("greedy")
    assert error("leverage") < error("uniform")


def test_numerical_rank_ends_the_search():
    X = np.repeat(np.arange(4.0), 5)[:, None]
    for rule in sorted(RULES):
        p = select(rule, Gram(gk.RBF(0.5), X), 20 if rule != "kmeans" else 4, 0, X=X)
        assert p.rank == 4, rule
        assert p.trace_error < 1e-12
    for rule in (rpcholesky, greedy, uniform, leverage):
        assert rule(Gram(gk.Constant(0.0), X), 3, 0).rank == 0
    noisy = np.repeat(np.random.default_rng(0).standard_normal((30, 20)), 2, axis=0)
    assert greedy(Gram(gk.RBF(0.5), noisy), 40).rank == 30


def test_growing_until_the_trace_error_is_met(X):
    gram = Gram(gk.RBF(0.6), X)
    for rule in (rpcholesky, greedy):
        p = rule(gram, 120, 0, tol=1e-2)
        assert p.trace_error <= 1e-2
        assert p.rank < 100


def test_given_landmarks(X):
    p = factorise(Gram(gk.RBF(0.6), X), np.array([3, 3, 7]))
    assert sorted(p.indices.tolist()) == [3, 7]


def test_objects_and_sparse_rows_have_landmarks(rng):
    texts = [" ".join(rng.choice(["a", "b", "c", "d", "e"], 4)) for _ in range(30)]
    assert rpcholesky(Gram(gk.WordCount(), texts), 5, 0).trace_error < 1e-9


def test_errors(X):
    gram = Gram(gk.RBF(0.6), X)
    for wrong in (0, 121, 1.5, 5.0, True):
        with pytest.raises(ValueError, match="rank must be a whole number between 1 and the number of rows, 120"):
            uniform(gram, wrong)
    with pytest.raises(ValueError, match="block must be a natural number"):
        rpcholesky(gram, 3, block=0)
    for rule in (rpcholesky, greedy):
        with pytest.raises(ValueError, match="tol must be a number >= 0"):
            rule(gram, 3, tol=np.nan)
    with pytest.raises(ValueError, match="needs the 120 rows"):
        kmeans(gram, 3, X=X[:20])
    with pytest.raises(ValueError, match="selection must be one of"):
        select("best", gram, 3)
    with pytest.raises(ValueError, match="pass X="):
        kmeans(gram, 3)
    with pytest.raises(ValueError, match="so it is not positive semi-definite"):
        leverage(Gram(gk.AdditiveChi2() * gk.Constant(1.0) + gk.Sigmoid(1.0, offset=-5.0), X), 3)
    with pytest.raises(ValueError, match="has a diagonal"):
        uniform(Gram(gk.RBF(), X, X[:5]), 3)


def test_single_precision_factor_serves_as_well(rng):
    gram = Gram(gk.RBF(1.0), rng.standard_normal((3000, 3)))
    narrow, wide = (rpcholesky(gram, 60, 0, dtype=dtype) for dtype in (np.float32, np.float64))
    assert narrow.factor.dtype == np.float32
    np.testing.assert_array_equal(narrow.indices, wide.indices)
    np.testing.assert_allclose(narrow.factor, wide.factor, atol=1e-4)
    np.testing.assert_allclose(narrow.trace_error, wide.trace_error, rtol=1e-3)


def test_single_precision_stops_where_only_rounding_is_left(rng):
    found = rpcholesky(Gram(gk.RBF(10.0), rng.standard_normal((500, 1))), 100, 0, dtype=np.float32)
    assert found.rank < 30
    assert np.all(np.isfinite(found.factor))


def test_the_law_is_that_of_rpcholesky(rng):
    X = rng.random((16, 2))
    gram = Gram(gk.RBF(0.5), X)
    assert follow([draw_landmarks(gram, 2, seed) for seed in range(2000)], law(gk.RBF(0.5)(X), 2))


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


def test_landmarks_go_on_from_others(X):
    gram = Gram(gk.RBF(0.6), X)
    first = rpcholesky(gram, 5, 0).indices
    p = rpcholesky(gram, 15, 1, start=first)
    np.testing.assert_array_equal(p.indices[:5], first)
    np.testing.assert_allclose(p.factor @ p.factor.T, reference.nystrom(gk.RBF(0.6)(X), p.indices), atol=1e-9)


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


@pytest.mark.parametrize(("n", "rank", "n_jobs", "threads"), [(120, 5, 2, 1), (1200, 100, 2, 2), (1200, 100, 1, 1)])
def test_k_means_takes_threads_for_many_rows_only(n, rank, n_jobs, threads, rng, monkeypatch):
    seen, fit = [], MiniBatchKMeans.fit

    def recorded(self, *args, **options):
        seen.extend(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "openmp")
        return fit(self, *args, **options)

    monkeypatch.setattr(MiniBatchKMeans, "fit", recorded)
    X = rng.random((n, 3))
    with threadpool_limits(2, user_api="openmp"):
        kmeans(Gram(gk.RBF(0.5), X, n_jobs=n_jobs), rank, 0, X=X)
    assert set(seen) == {threads}
