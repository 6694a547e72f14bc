"""Polynomial maps: dimensions, exact kernels, names, refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian.features.polynomial import PolynomialMap


@parametrize_with_checks([PolynomialMap(), PolynomialMap(2, "box"), PolynomialMap(3, "ordered")])
def test_sklearn_contract(estimator, check):
    check(estimator)


def kernel_by_hand(basis, x, z, k, offset):
    if basis == "total":
        return (offset + x @ z) ** k
    if basis == "box":
        return math.prod(sum((a * b) ** j for j in range(k + 1)) for a, b in zip(x, z, strict=True))
    return sum((x @ z) ** r for r in range(k + 1))


@pytest.mark.parametrize("basis", ["total", "box", "ordered"])
@pytest.mark.parametrize(("degree", "d"), list(itertools.product([1, 2, 4], [1, 2, 3])))
def test_inner_products_are_the_kernel_exactly(basis, degree, d, rng):
    X = rng.standard_normal((6, d))
    offset = 2.5 if basis == "total" else 1.0
    psi = PolynomialMap(degree, basis, offset).fit(X)
    F = psi.transform(X)
    K = [[kernel_by_hand(basis, x, z, degree, offset) for z in X] for x in X]
    np.testing.assert_allclose(F @ F.T, K)
    np.testing.assert_allclose(psi.kernel_(X), K)
    expected = {
        "total": math.comb(d + degree, degree),
        "box": (degree + 1) ** d,
        "ordered": degree + 1 if d == 1 else (d ** (degree + 1) - 1) // (d - 1),
    }[basis]
    assert F.shape[1] == psi.n_output_features_ == psi.output_size(d) == expected == len(psi.get_feature_names_out())
    sparse = psi.transform(sp.csr_array(X))
    assert sp.issparse(sparse)
    np.testing.assert_allclose(sparse.toarray(), F)


def test_no_offset_leaves_the_highest_degree(rng):
    X = rng.standard_normal((5, 3))
    psi = PolynomialMap(2, offset=0.0).fit(X)
    assert psi.get_feature_names_out(["a", "b", "c"]).tolist() == ["a^2", "a b", "a c", "b^2", "b c", "c^2"]
    np.testing.assert_allclose(psi.transform(X) @ psi.transform(X).T, (X @ X.T) ** 2)


def test_names_of_the_other_bases():
    X = np.ones((1, 2))
    assert PolynomialMap(2, "ordered").fit(X).get_feature_names_out().tolist() == [
        "1", "x0", "x1", "x0^2", "x0 x1", "x1 x0", "x1^2",
    ]  # fmt: skip
    assert set(PolynomialMap(1, "box").fit(X).get_feature_names_out()) == {"1", "x0", "x1", "x0 x1"}


def test_float32_and_threads(rng):
    X = rng.standard_normal((3000, 8)).astype(np.float32)
    psi = PolynomialMap(3, n_jobs=1).fit(X)
    F = psi.transform(X)
    assert F.dtype == np.float32
    np.testing.assert_array_equal(F, psi.set_params(n_jobs=4).transform(X))
    assert psi.error(X.astype(float)).maximum < 1e-6 * psi.kernel_.diag(X).max()


def test_what_does_not_fit_is_refused_with_its_size():
    with pytest.raises(MemoryError, match=r"1,208,925,819,614,629,174,706,176 features"):
        PolynomialMap(3, "box").fit(np.ones((5, 40)))
    # C(43, 3) = 12,341 products, at 40 bytes each, and 8 for each of 100 rows.
    with pytest.raises(MemoryError, match=r"products takes 494 KB, and 100 rows of them 9\.87 MB; memory is 1 MB"):
        PolynomialMap(3, memory="1MB").fit(np.ones((100, 40)))
    with pytest.raises(MemoryError, match="products takes 494 KB; memory is 100 KB"):
        PolynomialMap(3, memory="100kB").fit(sp.csr_array(np.ones((100, 40))))
    with pytest.raises(ValueError, match="offset belongs to basis='total'"):
        PolynomialMap(2, "box", 2.0).fit(np.ones((2, 2)))


@pytest.mark.parametrize("x", [np.array([-2, -1, 1, 2, 3]), np.arange(-10, 11)])
def test_sets_of_the_line_become_separable(x):
    y = np.isin(x, [1, 2]) if x.size == 5 else np.abs(x) > 2
    assert np.count_nonzero(np.diff(y)) > 1  # no threshold does it
    F = PolynomialMap(2).fit_transform(x[:, None].astype(float))
    lifted = F[:, 1:] / F[:, 1:].std(axis=0)
    # Separable: the least-squares classifier on a large multiple of the features is right everywhere.
    w = np.linalg.lstsq(np.column_stack([lifted, np.ones(len(x))]), 2.0 * y - 1.0, rcond=None)[0]
    scores = np.column_stack([lifted, np.ones(len(x))]) @ w
    assert scores[y].min() > scores[~y].max()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_that_overflow_are_refused(dtype):
    X = np.full((3, 2), np.sqrt(np.finfo(dtype).max) * 2, dtype=dtype)
    for rows in (X, sp.csr_array(X)):
        with pytest.raises(ValueError, match=f"products of these inputs overflow {np.dtype(dtype)}; scale the rows"):
            PolynomialMap(2).fit_transform(rows)


@pytest.mark.parametrize("basis", ["total", "box", "ordered"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_without_the_constant(rng, basis, d):
    X, Z = rng.standard_normal((6, d)), rng.standard_normal((4, d))
    offset = {"offset": 0.7} if basis == "total" else {}
    whole = PolynomialMap(3, basis, **offset).fit(X)
    psi = PolynomialMap(3, basis, include_constant=False, **offset).fit(X)
    assert psi.n_output_features_ == psi.output_size(d) == psi.transform(X).shape[1] == whole.n_output_features_ - 1
    np.testing.assert_allclose(psi.transform(X), whole.transform(X)[:, 1:])
    np.testing.assert_allclose(psi.kernel_(X, Z), psi.transform(X) @ psi.transform(Z).T, atol=1e-10)
    constant = 0.7**3 if basis == "total" else 1.0
    np.testing.assert_allclose(psi.kernel_(X, Z), whole.kernel_(X, Z) - constant, atol=1e-10)
    assert list(psi.get_feature_names_out()) == list(whole.get_feature_names_out())[1:]
    sparse = psi.transform(sp.csr_array(X))
    np.testing.assert_allclose(sparse.toarray(), psi.transform(X))


def test_x_and_its_square():
    psi = PolynomialMap(2, "box", include_constant=False)
    np.testing.assert_array_equal(psi.fit_transform([[-2.0], [3.0]]), [[-2.0, 4.0], [3.0, 9.0]])
    assert PolynomialMap(2, offset=0.0, include_constant=False).fit([[1.0]]).n_output_features_ == 1
