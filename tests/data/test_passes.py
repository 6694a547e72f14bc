"""Passes: sums, samples, and what is kept between passes over rows in memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from gramian.data.blocks import Blocks
from gramian.data.passes import HELD_ROWS as ROWS
from gramian.data.passes import Held, Sums, Tree, plus, row_keys, threshold

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2 * ROWS + 5, 3))
y = X[:, 0]


def _moments(part):
    weighted = part.weights[:, None] * part.X
    return Sums.of(second=part.X.T @ weighted, right=weighted.T @ part.y)


class Squares:
    """A map that counts how often it is asked."""

    calls = 0

    def __call__(self, rows):
        self.calls += 1
        return rows**2


def _squares(part, maker):
    return Sums.of(total=part.made(maker).sum())


def test_sums_equal_those_of_the_matrix() -> None:
    weight = np.abs(y)
    weight[::7] = 0.0
    with Held(X, y, weight).passes() as passes:
        sums = passes.sum(_moments)
    np.testing.assert_allclose(sums["second"], X.T @ (weight[:, None] * X), rtol=1e-12)
    np.testing.assert_allclose(sums["right"], X.T @ (weight * y), rtol=1e-10, atol=1e-10)


def test_a_sample_has_the_rows_of_the_same_sample_of_blocks() -> None:
    with Held(X, y).passes() as passes:
        held = passes.sample(100, 3)
    read = Blocks(X, target=y, rows=1000).sample(100, 3)
    np.testing.assert_array_equal(held.index, read.index)
    np.testing.assert_array_equal(held.X, read.X)


@pytest.mark.parametrize(("memory", "calls"), [("1GB", 3), (8, 6)])
def test_what_maps_make_is_kept_where_it_fits(memory, calls: int) -> None:
    maker = Squares()
    with Held(X, memory=memory).passes(n_jobs=1) as passes:
        found = [passes.sum(_squares, maker)["total"] for _ in range(2)]
    assert maker.calls == calls
    np.testing.assert_allclose(found, np.sum(X**2), rtol=1e-12)


def test_sparse_rows_and_objects_pass_through() -> None:
    words = np.array(["a", "bc", "d"] * 10, dtype=object)
    for rows in (sparse.csr_array(X[:30]), words):
        with Held(rows, y[:30]).passes() as passes:
            assert sum(passes.map(_count, None)) == 30
            assert passes.sample(7, 0).X.shape[0] == 7


def _count(shared, parts):
    return sum(part.X.shape[0] for part in parts)


def test_all_weights_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="positive for at least one row"):
        Held(X, y, np.zeros(y.size))


@given(st.integers(1, 70), st.sampled_from([1, 2, 4, 8, 16]))
@settings(max_examples=60, deadline=None)
def test_the_tree_depends_on_the_number_of_leaves_alone(leaves, segment):
    """In order, in segments, or level by level: the same additions."""
    values = [Sums.of(x=v) for v in np.random.default_rng(leaves).standard_normal(leaves) * 10.0 ** np.arange(leaves)]
    one = Tree()
    for value in values:
        one.push(value)
    several = Tree()
    for start in range(0, leaves, segment):
        part = Tree()
        for value in values[start : start + segment]:
            part.push(value)
        several.push(part.root(), len(values[start : start + segment]))
    level = values
    while len(level) > 1:
        pairs = [plus(a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + (level[-1:] if len(level) % 2 else [])
    assert one.root()["x"] == several.root()["x"] == level[0]["x"]


def test_a_sample_is_uniform():
    counts = np.zeros(200)
    for seed in range(400):
        counts[np.argsort(row_keys(seed, np.arange(200)))[:20]] += 1
    # Each row is drawn 40 times, with deviation 6.
    assert abs(counts.mean() - 40) < 1e-9
    assert counts.min() > 10
    assert counts.max() < 70


def test_a_threshold_leaves_enough_rows():
    n = 100_000
    for seed in range(20):
        assert 500 <= np.count_nonzero(row_keys(seed, np.arange(n)) <= np.uint64(threshold(500, n))) < 800


def test_answers_do_not_depend_on_the_number_of_threads() -> None:
    found = []
    for n_jobs in (1, 2, 5):
        with Blocks(X[:1000], y[:1000], rows=13, client=False).passes(n_jobs=n_jobs) as passes:
            found.append(passes.sum(_moments))
    assert all(np.array_equal(found[0]["second"], other["second"]) for other in found[1:])
