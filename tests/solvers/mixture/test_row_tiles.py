"""Blocks of rows, and threads to go over them."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from gramian.solvers.mixture.row_tiles import BLOCK_ROWS, Scratch, Tiles, Workers


@settings(deadline=None)
@given(n=st.integers(1, 40_000), width=st.integers(1, 100_000))
def test_blocks_are_a_partition_in_order(n, width):
    blocks = Tiles(np.empty((n, 0)), np.empty(0), np.empty(0)).blocks(width)
    assert [block.rows.start for block in blocks] == [0, *(block.rows.stop for block in blocks[:-1])]
    assert blocks[-1].rows.stop == n
    assert all(0 < block.rows.stop - block.rows.start <= max(BLOCK_ROWS, 64) for block in blocks)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_loaded_rows_are_the_centred_rows(order, dtype):
    X = np.asarray(np.random.default_rng(0).normal(size=(5000, 3)) + 7, dtype=dtype, order=order)
    rows = Tiles.of(X)
    for block in rows.blocks(30):
        loaded = rows.load(block, np.empty((block.tiles, 3, block.size)))
        assert_array_equal(loaded.transpose(0, 2, 1).reshape(-1, 3), X[block.rows].astype(float) - rows.centre)


def test_the_centre_of_a_constant_column_is_its_value():
    rows = Tiles.of(np.full((1001, 1), 0.1))
    assert rows.centre[0] == 0.1
    assert rows.reach[0] == 0


def test_reach_is_the_largest_distance():
    X = np.random.default_rng(0).normal(size=(50, 4))
    rows = Tiles.of(X)
    assert_allclose(rows.reach, np.abs(X - rows.centre).max(axis=0))


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_results_come_in_order(n_jobs):
    def job(item, scratch):
        time.sleep(0.002 * (item % 3))
        return item

    assert list(Workers(n_jobs).map(job, range(100))) == list(range(100))


def test_an_error_in_a_worker_is_raised_and_ends_the_rest():
    begun = []

    def job(item, scratch):
        begun.append(item)
        time.sleep(0.01)
        raise KeyError(item)

    with pytest.raises(KeyError):
        list(Workers(2).map(job, range(500)))
    assert len(begun) < 20


def test_a_thread_keeps_its_buffer():
    scratch = Scratch()
    first = scratch.array("a", (4, 5))
    assert np.shares_memory(first, scratch.array("a", (2, 3)))
    assert not np.shares_memory(first, scratch.array("b", (2, 3)))


def test_numbers_of_threads():
    assert Workers(None).n_jobs == Workers(-1).n_jobs == len(os.sched_getaffinity(0))
    assert Workers(3).n_jobs == 3
    with pytest.raises(ValueError, match="n_jobs"):
        Workers(0)
