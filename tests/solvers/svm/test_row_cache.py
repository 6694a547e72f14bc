"""The row cache: the right rows, within its bytes, the oldest gone first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramian.gram import Gram
from gramian.kernels import RBF
from gramian.solvers.svm.row_cache import FeatureRows, KernelRows, RowCache, StoredRows, Wide

X = np.random.default_rng(0).standard_normal((30, 4))
K = RBF(1.0)(X)


def cache(rows=5, columns=None, wide=False):
    columns = np.arange(30) if columns is None else np.asarray(columns)
    gram = Gram(RBF(1.0), X)
    if wide:
        return RowCache(
            Gram(RBF(1.0), X.astype(np.float32)), columns, rows * len(columns) * 4, Wide(gram.rows, lambda: gram)
        )
    return RowCache(gram, columns, rows * len(columns) * 8)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 29), min_size=1, max_size=5), max_size=12))
def test_whatever_is_asked_for_is_there(requests):
    held = cache(5)
    for rows in requests:
        slots = held.slots(np.array(rows))
        np.testing.assert_allclose(held.store[slots], K[rows], atol=1e-14)
        assert held.store.nbytes <= 5 * 30 * 8


def test_the_oldest_row_goes_first():
    held = cache(3)
    for row in (0, 1, 2, 0, 3):
        held.slots(np.array([row]))
    assert held.evicted == 1
    held.slots(np.array([0, 2, 3]))
    assert held.computed == 4
    held.slots(np.array([1]))
    assert held.computed == 5


def test_columns_can_go_and_come_back():
    held = cache(4)
    held.slots(np.array([3, 7]))
    keep = np.array([0, 3, 11, 29])
    held.restrict(keep)
    assert held.capacity == 30
    np.testing.assert_allclose(held.store[held.slots(np.array([7, 3, 5]))], K[np.ix_([7, 3, 5], keep)], atol=1e-14)
    assert held.computed == 3
    held.widen(np.arange(30))
    np.testing.assert_allclose(held.store[held.slots(np.array([7]))], K[[7]], atol=1e-14)


def test_rows_become_wide():
    held = cache(5, wide=True)
    assert held.store.dtype == np.float32
    held.slots(np.array([1]))
    assert held.upgrade()
    assert not held.upgrade()
    assert held.store.dtype == np.float64
    np.testing.assert_allclose(held.store[held.slots(np.array([1]))], K[[1]], atol=1e-15)


def square(rows, objects, dtype=np.float64):
    """What ``rows.square`` writes, into memory that it cannot have cleared."""
    out = np.full((objects.size, objects.size), np.nan, dtype)
    rows.square(objects, out)
    return out


@pytest.mark.parametrize("direct", [False, True])
def test_several_caches_side_by_side(direct):
    rows = KernelRows([cache(9, columns=range(4, 12)), cache(9, columns=range(20, 25))], workers=2, direct=direct)
    ids = np.r_[4:12, 20:25]
    some = np.array([0, 5, 8, 12])
    np.testing.assert_allclose(square(rows, some), K[np.ix_(ids[some], ids[some])], atol=1e-14)
    np.testing.assert_allclose(square(rows, some, np.float32), K[np.ix_(ids[some], ids[some])], atol=1e-6)
    assert rows.dtype == np.float64
    total, weights = np.ones(13), np.array([1.0, -2.0, 0.5, 3.0])
    rows.add(some, weights, total)
    np.testing.assert_allclose(total, 1.0 + weights @ K[np.ix_(ids[some], ids)], atol=1e-13)
    np.testing.assert_allclose(rows.exact_sum(some, weights), weights @ K[np.ix_(ids[some], ids)], atol=1e-13)


def test_sums_of_more_rows_than_the_cache_holds():
    rows = KernelRows([cache(2)])
    total, weights = np.zeros(30), np.linspace(-1, 1, 30)
    rows.add(np.arange(30), weights, total)
    np.testing.assert_allclose(total, weights @ K, atol=1e-13)


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_of_a_matrix_in_memory(workers):
    ids, some, weights = np.array([7, 3, 29, 11]), np.array([2, 0]), np.array([1.0, -2.0])
    rows = StoredRows(K, ids, 1e-15, workers=workers)
    np.testing.assert_array_equal(rows.diagonal(), K[ids, ids])
    np.testing.assert_array_equal(square(rows, some), K[np.ix_(ids[some], ids[some])])
    total = np.ones(4)
    rows.add(some, weights, total)
    np.testing.assert_allclose(total, 1.0 + weights @ K[np.ix_(ids[some], ids)], atol=1e-14)
    np.testing.assert_allclose(rows.exact_sum(some, weights), total - 1.0, atol=1e-14)
    assert rows.whole is None
    assert rows.largest_square == 4
    assert not rows.upgrade()


def test_features_stand_in_for_kernel_rows(rng):
    F = rng.standard_normal((40, 6))
    K = F @ F.T
    objects, weights = np.array([3, 17, 39]), np.array([1.0, -2.0, 0.5])
    for rows in (FeatureRows(F), FeatureRows(F, workers=2)):
        np.testing.assert_allclose(square(rows, objects), K[np.ix_(objects, objects)])
        np.testing.assert_allclose(rows.exact(objects, np.arange(40)), K[objects])
        np.testing.assert_allclose(rows.diagonal(), np.diag(K))
        np.testing.assert_allclose(rows.exact_sum(objects, weights), weights @ K[objects])
        assert rows.largest_square == 40
        assert not rows.upgrade()
