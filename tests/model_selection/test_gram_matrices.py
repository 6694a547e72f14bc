"""Tables of kernels from one matrix of distances are those of the kernels themselves."""

import numpy as np
import pytest

from gramian.kernels import RBF, Laplace, Linear, Matern, Periodic, RationalQuadratic, Sigmoid
from gramian.kernels.objects import Table
from gramian.model_selection.gram_matrices import Tables

X = np.random.default_rng(0).standard_normal((40, 3))
SIZE = 8 * 40 * 40


@pytest.mark.parametrize(
    "kernels",
    [
        [RBF(1e-2), RBF(1.0), RBF(30.0)],
        [Matern(0.1, 0.5), Matern(2.0, 0.5)],
        [Matern(0.1, 1.7), Matern(2.0, 1.7)],
        [RationalQuadratic(0.1, 2.0), RationalQuadratic(2.0, 2.0)],
        [Periodic(0.3, 2.0), Periodic(2.0, 2.0)],
        [RBF([1.0, 2.0, 3.0]), RBF([2.0, 2.0, 3.0])],
        [Laplace(1.0), Laplace(2.0)],
        [Linear(), Linear() + RBF(1.0)],
        [Sigmoid(0.1)],
    ],
    ids=repr,
)
@pytest.mark.parametrize("rows", [X, 1e4 + X], ids=["near", "far"])
@pytest.mark.parametrize("room", [SIZE, 2 * SIZE])
def test_values(kernels, rows, room):
    tables = Tables.among(kernels)
    for kernel in kernels[::-1]:
        table = tables.of(kernel, rows, room, 1)
        np.testing.assert_allclose(table.matrix, kernel(rows), atol=1e-10, rtol=1e-9)
        assert tables.held <= room
        assert table.definite == kernel.definite
    shared = isinstance(getattr(kernels[0], "lengthscale", ()), float) and not isinstance(kernels[0], Laplace)
    assert (tables.distances is not None) == (shared and room > SIZE)
    tables.forget()
    assert tables.distances is None


def test_no_room():
    assert Tables.among([RBF(1.0)]).of(RBF(1.0), X, SIZE - 1, 1) is None


def test_rows_are_known_by_their_number():
    K = RBF(1.0)(X)
    table, some, others = Table(K, RBF(1.0), 1e-15), np.array([[3.0], [7.0], [1.0]]), np.array([[2.0], [3.0]])
    np.testing.assert_array_equal(table(some), K[np.ix_([3, 7, 1], [3, 7, 1])])
    np.testing.assert_array_equal(table(some, others), K[np.ix_([3, 7, 1], [2, 3])])
    np.testing.assert_array_equal(table.diag(some), np.ones(3))
    assert table(some.astype(np.float32)).dtype == np.float32
    assert repr(table) == "Table of RBF(1.0)"
