from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from gramian.data.blocks import Blocks
from gramian.data.passes import HELD_ROWS as ROWS
from gramian.data.passes import Held, Sums

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
