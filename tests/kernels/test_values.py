"""Identities between kernels, accuracy in float32 and on spread-out data, sparse rows."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

import reference
from gramian import kernels as gk
from gramian.gram import Gram
from gramian.kernels import distances


def test_normalised_exponential_of_the_dot_product_is_the_rbf(rng):
    X, sigma = rng.standard_normal((20, 4)), 1.3
    k = gk.exp((1 / sigma**2) * gk.Linear()).normalized()
    np.testing.assert_allclose(k(X), gk.RBF(sigma)(X), rtol=1e-12)


def test_gaussian_gram_on_distinct_points_is_nonsingular():
    X = np.linspace(0, 1, 12)[:, None]
    eigenvalues = np.linalg.eigvalsh(gk.RBF(0.08)(X))
    assert eigenvalues[0] > 1e-6


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_closed_forms_of_matern_are_the_bessel_form(nu, rng):
    X = rng.random((10, 3))
    np.testing.assert_allclose(gk.Matern(0.7, nu=nu)(X), gk.Matern(0.7, nu=nu + 1e-9)(X), rtol=1e-6)


def test_matern_grows_into_the_rbf(rng):
    X = rng.random((10, 3))
    np.testing.assert_allclose(gk.Matern(0.7, nu=200.0)(X), gk.RBF(0.7)(X), atol=5e-3)
    np.testing.assert_array_equal(gk.Matern(0.7, nu=math.inf)(X), gk.RBF(0.7)(X))


def test_matern_at_zero_and_far_away():
    k = gk.Matern(1.0, nu=0.3)
    np.testing.assert_allclose(k([[0.0]], [[0.0], [1e-200], [1e4]]), [[1.0, 1.0, 0.0]], atol=1e-12)


def test_laplace_is_a_product_over_inputs(rng):
    X = rng.random((6, 2))
    product = gk.Laplace(0.5).on(0) * gk.Laplace(2.0).on(1)
    np.testing.assert_allclose(gk.Laplace([0.5, 2.0])(X), product(X), rtol=1e-12)


def test_periodic_repeats(rng):
    X = rng.random((6, 2))
    k = gk.Periodic(0.8, period=0.25)
    np.testing.assert_allclose(k(X, X + 0.25 * np.array([3, -2])), k(X), rtol=1e-10)


def test_white_tells_equal_from_same():
    X = np.zeros((3, 1))
    np.testing.assert_array_equal(gk.White(2.0)(X), 2.0 * np.eye(3))
    np.testing.assert_array_equal(gk.White(2.0)(X, X.copy()), np.zeros((3, 3)))


def test_noise_and_constants_go_with_kernels_of_objects():
    k = gk.Spectrum(2).normalized() + gk.White(0.5) + 1.0
    np.testing.assert_allclose(np.diag(k(["abc", "abd"])), [2.5, 2.5])
    np.testing.assert_allclose(k(["abc"], ["abc", "xyz"]), [[2.0, 1.0]])


def test_mixtures_keep_their_brackets():
    X = [[0.0]]
    k = gk.Constant(1.0)
    assert ((2.0 * k + 3.0 * k) * (5.0 * k))(X) == 25.0
    assert (2.0 * k + 3.0 * k * (5.0 * k))(X) == 17.0
    assert repr((k + k) * k) == "(Constant(1.0) + Constant(1.0)) * Constant(1.0)"
    assert repr(k + (k + k)) == "Constant(1.0) + (Constant(1.0) + Constant(1.0))"


def test_numbers_on_both_sides():
    k, X = gk.RBF(1.0), [[0.0], [1.0]]
    for expression in (2.0 * k, k * 2.0, 2 * k, np.float64(2) * k):
        np.testing.assert_allclose(expression(X), 2 * k(X))
    for expression in (1.0 + k, k + 1.0):
        np.testing.assert_allclose(expression(X), 1 + k(X))
    assert sum([k, k]) == k + k
    np.testing.assert_array_equal((0.0 * k)(X), 0.0)


def test_functions_of_whole_numbers_make_real_kernels(rng):
    X, v = rng.standard_normal((6, 2)), rng.standard_normal(6)
    for f in (lambda X: 2 * (X[:, 0] > 0).astype(int), lambda X: X[:, 0] > 0):
        k = gk.RankOne(f)
        K = np.outer(f(X), f(X)).astype(float)
        np.testing.assert_allclose(Gram(k, X) @ v, K @ v)
        np.testing.assert_allclose((k + gk.RBF())(X), (gk.RBF() + k)(X))
        np.testing.assert_allclose((2.5 * k)(X), 2.5 * K)
        assert (k + gk.RBF())(X.astype(np.float32)).dtype == np.float32


def test_compounds_of_a_precomputed_kernel_leave_it_alone(rng):
    F = rng.standard_normal((5, 3))
    K = F @ F.T
    for given in (K, sp.csr_array(K)):
        G = Gram(2.0 * gk.Precomputed(), given)
        for _ in range(2):
            np.testing.assert_allclose(G.diagonal(), 2 * K.diagonal())
        np.testing.assert_allclose(G.dense(), 2 * K)
        np.testing.assert_allclose(gk.exp(gk.Precomputed())(given), np.exp(K))
        np.testing.assert_allclose((gk.Precomputed() ** 2).normalized()(given).diagonal(), 1.0)


@pytest.mark.parametrize("nu", [49.0, 51.0, 200.0, 1e3, 1e5, 1e9])
def test_very_smooth_matern_kernels(nu):
    r = np.array([[0.01], [0.05], [0.1], [0.3], [1.0], [3.0], [30.0]])
    got = gk.Matern(1.0, nu=nu)([[0.0]], r)[0]
    # The first correction to the limit, for large smoothness: k ≈ exp(-r²/2) (1 + (r⁴/8 - r²/2) / ν).
    s = r[:, 0] ** 2
    expected = np.exp(-s / 2) * (1 + (s**2 / 8 - s / 2) / nu)
    np.testing.assert_allclose(got[:6], expected[:6], atol=3.0 / nu**2 + 1e-9)
    assert got[6] < 1e-20


def test_matern_kernels_at_the_ends_of_floating_point():
    X = np.array([[0.0], [1.0], [2.5]])
    np.testing.assert_allclose(gk.Matern(0.7, nu=1e300)(X), gk.RBF(0.7)(X), rtol=1e-14)
    for nu in (1e-300, 0.3, 1.3, 30.0):
        np.testing.assert_allclose(gk.Matern(1e-30, nu=nu)(X), np.eye(3), atol=1e-12)  # all ones, once
    # As nu vanishes the kernel becomes white noise, not a constant.
    np.testing.assert_allclose(gk.Matern(1.0, nu=1e-300)(X), np.eye(3), atol=1e-12)
    for nu in (0.01, 0.3, 1.3):
        np.testing.assert_allclose(gk.Matern(1e80, nu=nu)(X)[0, 1], _matern_by_mpmath(1e-80, nu), rtol=1e-9)
        np.testing.assert_allclose(gk.Matern(1e155, nu=nu)(X)[0, 1], _matern_by_mpmath(1e-155, nu), rtol=1e-9)


def _matern_by_mpmath(r, nu):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(400):
        u = mpmath.sqrt(2 * mpmath.mpf(nu)) * mpmath.mpf(r)
        return float(2 ** (1 - mpmath.mpf(nu)) / mpmath.gamma(nu) * u**nu * mpmath.besselk(nu, u))


@pytest.mark.parametrize("nu", [49.99, 50.0, 50.01])
def test_the_two_ways_to_bessel_meet(nu):
    import mpmath

    for r in (0.2, 1.0, 2.5):
        u = mpmath.sqrt(2 * nu) * r
        exact = 2 ** (1 - mpmath.mpf(nu)) / mpmath.gamma(nu) * u**nu * mpmath.besselk(nu, u)
        assert gk.Matern(1.0, nu=nu)([[0.0]], [[r]])[0, 0] == pytest.approx(float(exact), rel=1e-8)


def test_rows_whose_distances_overflow_are_refused():
    for k in (gk.RBF(1e-10), gk.Matern(1e-10, nu=0.8)):
        with pytest.raises(ValueError, match="distances overflow; rescale X"):
            k([[0.0], [1e300]])
    wide = sp.csr_array(([1e8, 1e8 + 0.5], ([0, 1], [0, 0])), shape=(2, 1_000_000))
    with pytest.raises(ValueError, match=r"sparse rows are up to 1e.*scale the columns"):
        gk.RBF(1.0)(wide)


@pytest.mark.parametrize("cells", [0, 100])
def test_sparse_rows_far_from_the_origin_keep_their_digits(cells, monkeypatch):
    monkeypatch.setattr(distances, "SMALL_CELLS", cells)
    X = np.column_stack([1e8 + 0.5 * np.arange(6), np.arange(6) % 2])
    for k in (gk.RBF(1.0), gk.Matern(1.0, nu=0.5)):
        np.testing.assert_allclose(k(sp.csr_array(X)), k(X), atol=1e-12)


def test_rough_kernels_of_near_duplicates_keep_their_digits(rng):
    X = np.repeat(rng.standard_normal((20, 3)), 2, axis=0) + 1e-9 * rng.standard_normal((40, 3))
    exact = np.exp(-np.sqrt(((X[:, None] - X) ** 2).sum(axis=2)) / 0.2)
    k = gk.Matern(0.2, nu=0.5)
    assert np.abs(k(X) - exact).max() <= k.rounding(k.prepare(X)[0]) < 1e-10


def test_the_normalised_exponential_does_not_overflow(rng):
    X = 5.0 * rng.standard_normal((20, 120))
    np.testing.assert_allclose(gk.exp(gk.Linear()).normalized()(X), gk.RBF(1.0)(X), atol=1e-10)
    np.testing.assert_allclose(gk.exp(gk.Linear()).normalized()(X.astype(np.float32)), gk.RBF(1.0)(X), atol=1e-4)


def test_kernels_that_overflow_say_so(rng):
    X = 1e3 * rng.standard_normal((5, 20))
    for k in (gk.exp(gk.Linear()), gk.Linear() ** 80, gk.polynomial(gk.Linear(), [0.0] * 80 + [1.0])):
        with pytest.raises(ValueError, match="overflows float64 on these rows"):
            k(X)
        with pytest.raises(ValueError, match="overflows float64 on these rows"):
            Gram(k, X)
    for k in (gk.Polynomial(90), gk.Polynomial(90).normalized()):
        with pytest.raises(ValueError, match="overflows float64 on these rows"):
            k(X)


def test_rational_quadratic_grows_into_the_rbf():
    r = np.array([[0.05], [0.1], [0.2], [1.0]])
    for alpha, tol in ((1e5, 1e-5), (1e10, 1e-9), (1e17, 1e-12)):
        got = gk.RationalQuadratic(1.0, alpha=alpha)([[0.0]], r)
        np.testing.assert_allclose(got, gk.RBF(1.0)([[0.0]], r), atol=tol)
    got = gk.RationalQuadratic(1.0, alpha=1e5)(np.zeros((1, 1), np.float32), r.astype(np.float32))
    np.testing.assert_allclose(got, gk.RBF(1.0)([[0.0]], r), atol=1e-5)


def test_an_object_is_at_no_distance_of_itself(rng):
    X = rng.standard_normal((20, 20))
    for k in (gk.Matern(0.01, nu=0.5), gk.Matern(np.ones(20), nu=0.7)):
        np.testing.assert_allclose(k.vjp(X, None, 1e6 * np.eye(20)), 0.0, atol=1e-9)


def test_parameters_keep_their_place_in_theta():
    k = gk.RBF(1.0) + gk.White(1.0)
    assert k.with_theta([0.0, -800.0]).theta.size == 2
    assert k.fix("right.noise").theta_names == ["left.lengthscale"]


# ---- float32 and spread --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "k", [gk.RBF(1.0), gk.RBF(math.sqrt(10)), gk.Matern(2.0, nu=0.5), gk.Matern(2.0), gk.Laplace(5.0), gk.Periodic(1.0)]
)
def test_float32_far_from_the_origin(k, rng):
    X = rng.standard_normal((200, 20))
    shifted = (X + 1000.0).astype(np.float32)
    got = k(shifted)
    assert got.dtype == np.float32
    # The data themselves are rounded to float32; what the kernel adds must be small beside that.
    assert np.abs(got - k(shifted.astype(np.float64))).max() < 2e-6
    if not isinstance(k, gk.Periodic):
        assert np.abs(got - k(X + 1000.0)).max() < 1e-4


def test_laplace_in_float32_on_spread_rows():
    X = np.array([[0.0], [0.1], [1e7]], dtype=np.float32)
    np.testing.assert_allclose(gk.Laplace(1.0)(X)[0, 1], math.exp(-0.1), rtol=1e-6)


def test_float32_clusters_far_apart(rng):
    centres = np.array([[0.0, 0.0], [3e3, 0.0], [0.0, -5e3]])
    X = (np.repeat(centres, 20, axis=0) + rng.standard_normal((60, 2))).astype(np.float32)
    K = gk.RBF(1.0)(X)
    assert K.dtype == np.float32
    np.testing.assert_allclose(K, reference.gram(gk.RBF(1.0), X.astype(np.float64)), atol=1e-5)


@pytest.mark.parametrize("scale", [0.3, (0.3, 0.7)])
@pytest.mark.parametrize("make", [gk.RBF, gk.Matern, gk.Laplace, gk.PowerExponential])
def test_a_far_row_does_not_round_the_others(make, scale, rng):
    X = rng.standard_normal((12, 2))
    X[0] = 3.0e7, -2.0e6
    near = make(scale)(X[1:])  # to 1e-15, as without the far row
    assert np.abs(make(scale)(X)[1:, 1:] - near).max() < 2e-15
    assert np.abs(make(scale)(X[1:4], X)[:, 1:] - near[:3]).max() < 2e-15
    if make is gk.RBF:
        D = (X[:, None].astype(np.longdouble) - X[None]) / np.asarray(scale)
        assert np.abs(make(scale)(X) - np.exp(-(D**2).sum(-1) / 2)).max() < 1e-15


def test_timestamps_unscaled(rng):
    X = 1.7e9 + np.sort(rng.random((50, 1)) * 1e8, axis=0)
    X[1::2] = X[::2] + rng.random((25, 1))
    for k in (gk.RBF(1.0), gk.Matern(1.0, nu=0.5), gk.RationalQuadratic(1.0)):
        np.testing.assert_allclose(k(X), reference.gram(k, X), rtol=1e-9, atol=1e-9)


def test_equal_rows_are_at_distance_zero_for_rough_kernels(rng):
    X = np.repeat(rng.standard_normal((30, 20)), 2, axis=0)
    for dtype, tol in ((np.float64, 1e-6), (np.float32, 1e-6)):
        K = gk.Matern(1.0, nu=0.5)(X.astype(dtype))
        assert np.abs(K[::2, 1::2].diagonal() - 1).max() < tol


def test_derivatives_of_float32_rows_are_summed_in_float64(rng):
    X = rng.random((300, 3)).astype(np.float32)
    k = 2.0 * gk.RBF([0.5, 1.0, 2.0]) + gk.Matern(0.7)
    W = np.ones((300, 300), dtype=np.float32)
    got = k.vjp(X, None, W)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, k.vjp(X.astype(np.float64), None, W), rtol=1e-5)


def test_mixed_precision_is_the_wider(rng):
    X = rng.random((3, 2))
    assert gk.RBF(1.0)(X.astype(np.float32), X).dtype == np.float64
    assert gk.RBF(1.0)(np.arange(6).reshape(3, 2)).dtype == np.float64


# ---- sparse --------------------------------------------------------------------------------------------------------

SPARSE = [
    gk.RBF(0.7),
    gk.RBF([0.4, 1.0, 2.0, 1.0]),
    gk.Matern(0.6, nu=0.5),
    gk.RationalQuadratic(0.6),
    gk.Linear(),
    gk.Polynomial(2),
    gk.Sigmoid(0.5),
    2.0 * gk.RBF(0.5) * gk.Linear() + gk.White(0.1) + 0.5,
    gk.Linear().normalized(),
    gk.RBF(1.0).on(0, 2),
]


@pytest.mark.parametrize("k", SPARSE, ids=repr)
@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("cells", [0, 100])
def test_sparse_rows_equal_dense_rows(k, make, dtype, cells, rng, monkeypatch):
    monkeypatch.setattr(distances, "SMALL_CELLS", cells)
    X = np.where(rng.random((7, 4)) < 0.6, rng.random((7, 4)), 0.0).astype(dtype)
    X[2] = 0.0
    Y = X[::-1][:5].copy()
    tol = {"rtol": 1e-10, "atol": 1e-12} if dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-5}
    assert k.takes_sparse
    assert k(make(X)).dtype == dtype
    np.testing.assert_allclose(k(make(X)), k(X), **tol)
    np.testing.assert_allclose(k(make(X), make(Y)), k(X, Y), **tol)
    np.testing.assert_allclose(k(make(X), Y), k(X, Y), **tol)
    np.testing.assert_allclose(k(X, make(Y)), k(X, Y), **tol)
    np.testing.assert_allclose(k.diag(make(X)), k.diag(X), **tol)
    W = rng.standard_normal((7, 5))
    loose = {"rtol": 1e-8, "atol": 1e-10} if dtype == np.float64 else {"rtol": 1e-3, "atol": 1e-4}
    np.testing.assert_allclose(k.vjp(make(X), make(Y), W), k.vjp(X, Y, W), **loose)
    got = k.grad_inputs(make(X), make(Y), W)
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got, k.grad_inputs(X, Y, W), **loose)


@pytest.mark.parametrize("k", [gk.Sobolev(), gk.Periodic(1.0), gk.Chi2(1.0)], ids=repr)
def test_kernels_without_a_sparse_form_say_so(k):
    assert not k.takes_sparse
    assert not (gk.RBF() + k).takes_sparse
    with pytest.raises(TypeError, match="dense X, got a sparse matrix"):
        k(sp.csr_array(np.ones((3, 1))))


# ---- spectra -------------------------------------------------------------------------------------------------------

SPECTRAL = [
    gk.RBF(0.7),
    gk.RBF([0.5, 1.5]),
    gk.Matern(0.9, nu=1.5),
    gk.Matern([0.9, 0.5], nu=math.inf),
    gk.Laplace([0.8, 1.5]),
    gk.RationalQuadratic(0.8, alpha=1.2),
    gk.Periodic([0.9, 1.4], period=0.8),
    gk.Constant(0.7),
    2.0 * gk.RBF(0.5) + gk.Laplace(1.0),
    gk.RBF(0.5) * gk.Matern(1.0, nu=2.5),
    gk.RBF(0.6) ** 3,
    gk.exp(0.8 * gk.RBF(0.6)),
    gk.polynomial(gk.RBF(0.6), [0.5, 0.0, 1.0]),
    (3.0 * gk.RBF(0.4)).normalized(),
]


@pytest.mark.parametrize("k", SPECTRAL, ids=repr)
def test_frequencies_are_draws_from_the_spectral_measure(k, rng):
    size = 40_000
    x, Z = np.zeros((1, 2)), rng.random((6, 2))
    omega = k.frequencies(2, size, np.random.default_rng(1))
    assert omega.shape == (size, 2)
    estimate = k.amplitude * np.cos((Z - x) @ omega.T).mean(axis=1)
    np.testing.assert_allclose(estimate, k(x, Z)[0], atol=5 * k.amplitude / math.sqrt(size))


def test_frequencies_of_very_wiggly_periodic_kernels():
    for scale in (1e-5, 5e-3, 2e-2):
        omega = gk.Periodic(scale, period=2.0).frequencies(1, 20_000, np.random.default_rng(0))
        turns = omega * 2.0 / (2 * np.pi)
        np.testing.assert_allclose(turns, np.rint(turns), rtol=1e-9, atol=1e-6)
        assert turns.std() == pytest.approx(1 / scale, rel=0.05)


@pytest.mark.parametrize("k", [gk.Linear(), gk.White(1.0), gk.Polynomial(2) + gk.RBF(1.0), gk.Sobolev()], ids=repr)
def test_kernels_without_a_spectral_measure_say_so(k):
    with pytest.raises(TypeError, match=r"spectral measure|not stationary"):
        k.frequencies(2, 5, np.random.default_rng(0))


# ---- monomials -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("degree", "scale", "offset", "d"), [(3, 1.0, 2.0, 2), (2, 0.5, 0.3, 4), (4, 1.0, 0.0, 2)])
def test_monomials_are_the_features_of_the_polynomial_kernel(degree, scale, offset, d, rng):
    k = gk.Polynomial(degree, scale=scale, offset=offset)
    exponents, weights = k.monomial_weights(d)
    X = rng.standard_normal((5, d))
    features = weights * np.prod(X[:, None, :] ** exponents[None], axis=2)
    np.testing.assert_allclose(features @ features.T, k(X), rtol=1e-12, atol=1e-12)
    if offset:
        assert len(weights) == math.comb(d + degree, d)


def test_the_weight_of_a_degree_in_one_input():
    m, R = 5, 3.0
    _, weights = gk.Polynomial(m, offset=R).monomial_weights(1)
    np.testing.assert_allclose(weights, [math.sqrt(math.comb(m, i) * R ** (m - i)) for i in range(m + 1)])


def test_too_many_monomials_are_counted_not_made():
    with pytest.raises(MemoryError, match="monomials in 100 inputs"):
        gk.Polynomial(10).monomial_weights(100)


@pytest.mark.parametrize(
    "k", [gk.RBF(1.0), gk.RBF([1.0, 2.0]), gk.Matern(1.0, 1.5), gk.RationalQuadratic(1.0)], ids=repr
)
def test_a_row_whose_square_overflows_is_at_the_limit_of_a_radial_kernel(k):
    X = np.random.default_rng(0).standard_normal((4, 2))
    far = np.vstack([X, [[1e300, 0.0]]])
    K = k(far, X)
    np.testing.assert_allclose(K[:4], k(X, X.copy()), rtol=1e-9)
    assert np.all(K[4] < 1e-200)
    assert np.isfinite(k.vjp(far, None, np.ones((5, 5)))).all()
    assert np.isfinite(k.grad_inputs(far, X, np.ones((5, 4)))).all()


def test_a_row_that_overflows_a_kernel_of_inner_products_is_named():
    with pytest.raises(ValueError, match="in row 1"):
        gk.Linear()([[1.0], [1e300]], [[1.0]])
