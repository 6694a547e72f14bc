"""Hashes of training rows."""

import numpy as np
import pytest

from gramian.estimators.auto import row_hashes as module
from gramian.estimators.auto.row_hashes import find_rows, indexed_hashes, row_hashes, share_seen

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n", [500, 40_000])  # all hashes are kept, and a quarter of them
def test_rows_are_recognised(n):
    Z = RNG.standard_normal((n, 3)).round(2)
    Z[:, 1] = np.abs(Z[:, 1]) > 1.0
    kept = row_hashes(Z)
    assert kept.size == min(np.unique(Z, axis=0).shape[0], module.KEPT)
    new = RNG.standard_normal((2000, 3))
    assert share_seen(kept, Z) == 1.0
    assert share_seen(kept, Z[::-7]) == 1.0
    assert share_seen(kept, new) == 0.0
    assert share_seen(kept, np.vstack([Z[:2000], new])) > 0.1
    assert share_seen(kept, np.where(Z == 0.0, -0.0, Z)) == 1.0


def test_a_row_outside_the_range_of_the_hashes_tells_nothing():
    kept = row_hashes(np.arange(100_000.0)[:, None])
    told = [share_seen(kept, np.array([[float(i)]])) for i in range(300)]
    assert set(told) == {1.0, None}
    assert told.count(1.0) == pytest.approx(30, abs=20)


def test_rows_that_differ_in_one_bit_or_in_order_have_different_hashes():
    Z = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, np.nextafter(2.0, 3.0)], [0.0, 0.0], [np.nan, 0.0]])
    assert row_hashes(Z).size == len(Z)


def test_rows_are_found_among_others():
    Z = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [5.0, 6.0]])
    kept, first = indexed_hashes(Z)
    rows, places = find_rows(kept, np.array([[5.0, 6.0], [9.0, 9.0], [1.0, 2.0]]))
    np.testing.assert_array_equal(rows, [0, 2])
    np.testing.assert_array_equal(first[places], [3, 0])
