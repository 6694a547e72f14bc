"""Why a matrix cannot be inverted, in words and numbers."""

import numpy as np
import pytest

from gramian.gram import Gram
from gramian.kernels import RBF, Precomputed, Sigmoid
from gramian.solvers.linear.diagnose import coinciding_rows, diagnosis, smallest_eigenvalue


def test_rows_that_coincide_are_named():
    gram = Gram(RBF(1.0), np.array([[0.0], [1.0], [2.0], [1.0], [0.0]]))
    assert coinciding_rows(gram) == [(1, 3), (0, 4)]
    assert "rows coincide (11 and 13, 10 and 14)" in diagnosis(gram, np.arange(10, 15))
    assert "and 3 more" in diagnosis(Gram(RBF(1.0), np.zeros((9, 1))))
    assert "no two rows coincide" in diagnosis(Gram(RBF(30.0), np.linspace(0, 1, 20)[:, None]))


def test_a_negative_eigenvalue_is_named(rng):
    Q, _ = np.linalg.qr(rng.standard_normal((30, 30)))
    K = (Q * np.linspace(-2.5, 4.0, 30)) @ Q.T
    gram = Gram(Precomputed(), (K + K.T) / 2)
    assert smallest_eigenvalue(gram) == pytest.approx(-2.5)
    assert "eigenvalue -2.5 < 0" in diagnosis(gram)


@pytest.mark.parametrize("kernel", [Sigmoid(0.6, offset=-2.0), RBF(1.0)])
def test_smallest_eigenvalue_by_iteration(kernel, rng):
    gram = Gram(kernel, rng.standard_normal((150, 2)))
    assert smallest_eigenvalue(gram, dense_rows=10) == pytest.approx(smallest_eigenvalue(gram), rel=1e-2, abs=1e-2)
