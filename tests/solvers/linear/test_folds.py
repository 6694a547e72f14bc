"""Fits to many parts of the same rows predict what fits to each part by itself predict."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.gram import Gram
from gramian.kernels import RBF
from gramian.solvers.linear import folds
from gramian.solvers.linear.folds import Folds

N = 120
rng = np.random.default_rng(0)
X = rng.standard_normal((N, 3))
Y = np.column_stack([np.sin(X[:, 0]), 1e3 * X[:, 1] ** 2 + 5.0])
K = RBF(1.5)(X)
RIDGES = np.array([1e-3, 1.0, 30.0])


def slowly(weights, ridges):
    """One dense system for every part and ridge: → (ridges, parts, n, k)."""
    found = np.empty((len(ridges), weights.shape[1], *Y.shape))
    for p, w in enumerate(weights.T):
        (t,) = np.nonzero(w)
        for r, ridge in enumerate(ridges):
            found[r, p] = K[:, t] @ np.linalg.solve(K[np.ix_(t, t)] + ridge * np.diag(1.0 / w[t]), Y[t])
    return found


def parts(count, weighted):
    own = rng.uniform(0.5, 2.0, N) if weighted else np.ones(N)
    left_out = np.arange(N)[:, None] % count == np.arange(count)
    return np.where(left_out, 0.0, own[:, None])


def found(weights, **options):
    return Folds(Gram(RBF(1.5), X), K, Y, weights, RIDGES, random_state=0, **options).predictions()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("count", [6, N], ids=["folds", "leave-one-out"])
def test_by_one_inverse(count, weighted):
    weights = parts(count, weighted)
    values = np.array(list(found(weights)))
    np.testing.assert_allclose(values, slowly(weights, RIDGES), rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("patience", [1, 10**6], ids=["factorised", "iterated"])
def test_by_conjugate_gradients(weighted, patience, monkeypatch):
    monkeypatch.setattr(folds, "DIRECT_ROWS", 0)
    monkeypatch.setattr(folds, "ROWS_PER_ITERATION", N if patience == 1 else 1e-3)
    weights = parts(4, weighted)
    expected = slowly(weights, RIDGES)
    values = np.array(list(found(weights, tol=1e-9)))
    scale = np.abs(Y).max(axis=0)
    np.testing.assert_allclose(values / scale, expected / scale, atol=1e-6)


def test_parts_that_are_not_complements(monkeypatch):
    weights = rng.integers(0, 3, (N, 4)).astype(float)
    assert found(weights) is None  # few rows, few parts
    monkeypatch.setattr(folds, "DIRECT_ROWS", 0)
    values, scale = np.array(list(found(weights, tol=1e-9))), np.abs(Y).max(axis=0)
    np.testing.assert_allclose(values / scale, slowly(weights, RIDGES) / scale, atol=1e-6)


def test_what_is_better_done_one_by_one(monkeypatch):
    weights = parts(N, weighted=False)
    few = Gram(RBF(1.5), X, memory=K.nbytes)
    assert Folds(few, K, Y, weights, RIDGES).predictions() is None
    assert Folds(Gram(RBF(1.5), X), K, Y, weights, np.array([1e-9])).predictions() is None
    monkeypatch.setattr(folds, "DIRECT_ROWS", 0)
    assert Folds(few, K, Y, weights, RIDGES).predictions() is None
    assert Folds(Gram(RBF(1.5), X), K, Y, weights, RIDGES, tol=1e-12).predictions() is None
