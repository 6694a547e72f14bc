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


MEANS = {
    "landmarks": {"LAPACK_ROWS": 0, "ROWS_PER_ITERATION": 1e-3},
    "cut short": {"LAPACK_ROWS": 0, "ROWS_PER_ITERATION": N},
    "factors": {"ROWS_PER_SINGLE": 1e9, "ROWS_PER_JOINED": 1e9},
    "both": {"ROWS_PER_SINGLE": 1e9, "ROWS_PER_JOINED": N / 12},  # twelve: too few only for the smallest ridge
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("means", MEANS)
def test_by_conjugate_gradients(weighted, means, monkeypatch):
    monkeypatch.setattr(folds, "DIRECT_ROWS", 0)
    for name, value in MEANS[means].items():
        monkeypatch.setattr(folds, name, value)
    used, weights, scale = spied(monkeypatch), parts(4, weighted), np.abs(Y).max(axis=0)
    values = np.array(list(found(weights, tol=1e-9)))
    np.testing.assert_allclose(values / scale, slowly(weights, RIDGES) / scale, atol=1e-6)
    expected = {
        "landmarks": {"_Landmarks"},
        "cut short": {"_Landmarks", "_factorised"},
        "factors": {"_Factors"},
        "both": {"_Landmarks", "_Factors"},
    }
    assert used == expected[means]


def spied(monkeypatch):
    """The names of the means that are used from now on."""
    used = set()

    def spy(owner, method, name):
        own = getattr(owner, method)
        monkeypatch.setattr(owner, method, lambda *args: used.add(name(*args)) or own(*args))

    spy(folds.Refinement, "refine", lambda problem, *_: problem.precondition.__qualname__.split(".")[0])
    spy(Folds, "_factorised", lambda *_: "_factorised")
    return used


def test_landmarks_allow_for_what_they_leave(monkeypatch):
    """A ridge far below the smallest eigenvalue of K takes no more iterations than one of its size."""
    for name, value in ({"DIRECT_ROWS": 0} | MEANS["landmarks"]).items():
        monkeypatch.setattr(folds, name, value)
    rows = np.random.default_rng(1).standard_normal((400, 6))
    gram, taken, refine = Gram(RBF(0.6), rows), [], folds.Refinement.refine
    monkeypatch.setattr(
        folds.Refinement, "refine", lambda self, fast: refine(self, fast) or taken.append(self.iterations)
    )
    targets, weights = rows[:, :1] ** 2, np.repeat([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], 100, axis=0)
    for ridge in (1e-3, 0.3):
        assert list(Folds(gram, gram.dense(), targets, weights, np.array([ridge]), 1e-6, 0).predictions())
    assert taken[0] <= taken[1] + 12


@pytest.mark.parametrize("at_once", [0, 1, 3])
def test_as_many_factors_as_memory_holds(at_once, monkeypatch):
    monkeypatch.setattr(folds, "DIRECT_ROWS", 0)
    monkeypatch.setattr(folds, "ROWS_PER_SINGLE", 1e9)
    monkeypatch.setattr(folds, "ROWS_PER_JOINED", 1e9)
    weights, held, solve = parts(4, weighted=False), set(), folds._Factors.solve
    monkeypatch.setattr(folds._Factors, "solve", lambda self, *args: held.add(len(self.lower)) or solve(self, *args))
    memory = Folds(Gram(RBF(1.5), X), K, Y, weights, RIDGES)._bytes + at_once * 4 * N**2
    values = Folds(Gram(RBF(1.5), X, memory=memory), K, Y, weights, RIDGES, 1e-9, 0).predictions()
    scale = np.abs(Y).max(axis=0)
    np.testing.assert_allclose(np.array(list(values)) / scale, slowly(weights, RIDGES) / scale, atol=1e-6)
    assert held == {0: set(), 1: {1}, 3: {3, 1}}[at_once]


def test_a_part_that_single_precision_cannot_factorise(monkeypatch):
    monkeypatch.setattr(folds, "DIRECT_ROWS", 0)
    monkeypatch.setattr(folds, "ROWS_PER_SINGLE", 1e9)
    monkeypatch.setattr(folds, "ROWS_PER_JOINED", 1e9)
    spotrf = folds.scipy.linalg.lapack.spotrf
    monkeypatch.setattr(folds.scipy.linalg.lapack, "spotrf", lambda A, **options: (spotrf(A, **options)[0], 1))
    used, weights, scale = spied(monkeypatch), parts(4, weighted=False), np.abs(Y).max(axis=0)
    values = np.array(list(found(weights, tol=1e-9)))
    np.testing.assert_allclose(values / scale, slowly(weights, RIDGES) / scale, atol=1e-6)
    assert used == {"_Factors", "_factorised"}


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
