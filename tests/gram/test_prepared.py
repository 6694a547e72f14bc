"""Columns that are prepared once give what the kernel gives, or say that they cannot."""

import numpy as np
import pytest

from gramian import SVC, KernelRidge
from gramian.gram.prepared import WHOLE, PreparedColumns, columns_of
from gramian.kernels import RBF, Constant, Laplace, Linear, Matern, Periodic, Polynomial, RationalQuadratic, White

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((3, 4)), RNG.standard_normal((25, 4)) + 5.0
APART = [
    RBF(0.7),
    RBF((0.5, 1.0, 2.0, 3.0)),
    Matern(1.3, 2.5),
    Matern(1.3, 0.5),
    RationalQuadratic(1.0, 2.0),
    Linear(),
    Polynomial(3, 0.2, 1.0),
    2.0 * RBF(0.7) + Linear() * Matern(2.0, 1.5) + White(0.3) + Constant(0.1),
]
TOGETHER = [Laplace(1.0), Periodic(1.0, 2.0), RBF(1.0).on(0, 2), RBF(1.0).normalized()]


@pytest.mark.parametrize("kernel", APART, ids=str)
def test_rows_prepared_apart_give_the_kernel(kernel):
    columns = PreparedColumns(kernel, Y, None, None)
    for _ in range(2):  # the second time with what was kept
        np.testing.assert_allclose(columns.tile(X), kernel(X, Y), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kernel", TOGETHER, ids=str)
def test_other_kernels_look_at_both_sides(kernel):
    columns = PreparedColumns(kernel, Y, None, None)
    assert columns.tile(X) is None
    np.testing.assert_allclose(columns.times(X, np.ones(25)), kernel(X, Y).sum(axis=1), rtol=1e-12)


def test_rows_far_away_are_measured_by_differences():
    columns, far = PreparedColumns(RBF(1.0), Y, None, None), X + 1e6
    assert columns.tile(far) is None
    np.testing.assert_array_equal(columns.times(far, np.ones(25)), np.zeros(3))


def test_many_rows_a_limit_or_narrow_numbers_go_by_tiles():
    assert PreparedColumns(RBF(1.0), Y, None, None).tile(np.zeros((WHOLE // 25 + 1, 4))) is None
    assert PreparedColumns(RBF(1.0), Y, "1MB", None).tile(X) is None
    assert PreparedColumns(RBF(1.0), Y.astype(np.float32), None, None).tile(X) is None
    assert PreparedColumns(RBF(1.0), Y, None, None).tile(X.astype(np.float32)) is None


def test_a_new_fit_has_new_columns():
    y = RNG.standard_normal(25)
    model = KernelRidge(kernel="rbf").fit(Y, y)
    first = columns_of(model, model.kernel_, model.X_fit_)
    assert columns_of(model, model.kernel_, model.X_fit_) is first
    model.predict(X)
    model.fit(2.0 * Y, y)
    np.testing.assert_allclose(model.predict(X), model.kernel_(X, 2.0 * Y) @ model.dual_coef_, rtol=1e-12)


def test_pairs_of_classes_from_one_product():
    model = SVC(decision_function_shape="ovo").fit(Y, np.arange(25) % 4)
    repeated = np.tile(X, (WHOLE // 25, 1))
    np.testing.assert_allclose(
        model.decision_function(X), model.decision_function(repeated)[:3], rtol=1e-10, atol=1e-12
    )
    np.testing.assert_array_equal(model.predict(X), model.predict(repeated)[:3])
