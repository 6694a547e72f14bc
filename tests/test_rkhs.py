"""Functions in a kernel's space: the reproducing property, the geometry, the worst case."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gramian.kernels import RBF, Laplace, Linear, Matern, Precomputed, Spectrum, White, mercer
from gramian.rkhs import Function, fourier_norm
from reference_least_squares import inner_product, worst_case_error

KERNEL = Matern(0.8, nu=2.5)


@pytest.fixture
def f(rng):
    return Function(KERNEL, rng.standard_normal((12, 2)), rng.standard_normal(12))


@pytest.fixture
def g(rng):
    rng = np.random.default_rng(5)
    return Function(KERNEL, rng.standard_normal((7, 2)), rng.standard_normal(7))


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 8))
def test_reproducing_property(seed, n):
    rng = np.random.default_rng(seed)
    f = Function(KERNEL, rng.standard_normal((n, 2)), rng.standard_normal(n))
    x = rng.standard_normal((1, 2))
    section = Function(KERNEL, x, [1.0])
    assert f.inner(section) == pytest.approx(f(x)[0], abs=1e-12)
    assert section.inner(f) == pytest.approx(f(x)[0], abs=1e-12)


def test_inner_product_is_the_double_sum(f, g):
    expected = inner_product(KERNEL, f.coefficients, f.X, g.coefficients, g.X)
    assert f.inner(g) == pytest.approx(expected)
    assert f.norm() ** 2 == pytest.approx(inner_product(KERNEL, f.coefficients, f.X, f.coefficients, f.X))


def test_norm_in_the_mercer_basis(f):
    basis = mercer(KERNEL, f.X)
    assert basis.norm(basis.coefficients(f.coefficients)) == pytest.approx(f.norm())


def test_algebra(f, g, rng):
    Z = rng.standard_normal((5, 2))
    np.testing.assert_allclose((2.0 * f - g / 4 + f)(Z), 3.0 * f(Z) - 0.25 * g(Z), atol=1e-12)
    assert len(f + f) == len(f)
    assert len(f + g) == len(f) + len(g)
    assert (f - f).norm() == 0.0
    assert (f + g).norm() <= f.norm() + g.norm()
    assert abs(f.inner(g)) <= f.norm() * g.norm()
    assert (f + g).norm() ** 2 + (f - g).norm() ** 2 == pytest.approx(2 * f.norm() ** 2 + 2 * g.norm() ** 2)


def test_gradient_is_the_difference_quotient(f, rng):
    Z, h = rng.standard_normal((4, 2)), 1e-6
    for k in range(2):
        step = h * np.eye(2)[k]
        np.testing.assert_allclose(f.gradient(Z)[:, k], (f(Z + step) - f(Z - step)) / (2 * h), atol=1e-7)


def test_prune_and_restrict(f, rng):
    Z = rng.standard_normal((5, 2))
    alpha = np.where(np.arange(12) % 3, f.coefficients, 0.0)
    sparse = Function(KERNEL, f.X, alpha)
    assert len(sparse.prune()) == 8
    np.testing.assert_allclose(sparse.prune()(Z), sparse(Z), atol=1e-14)
    assert len((0.0 * f).prune()) == 1
    even = np.arange(12) % 2 == 0
    np.testing.assert_allclose((f.restrict(even) + f.restrict(~even))(Z), f(Z), atol=1e-12)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_three_worst_cases_over_unit_balls(rng, ridge):
    """Each figure is the norm of the error functional of its own space, with the weights of the fit."""
    X, Z = rng.standard_normal((9, 2)), rng.standard_normal((6, 2))
    f = Function(KERNEL, X, rng.standard_normal(9), ridge=ridge, noise=ridge, memory=2000)
    K = KERNEL(X) + ridge * np.eye(9)
    for i, z in enumerate(Z):
        k_x = KERNEL(z[None], X)[0]
        weights = np.linalg.solve(K, k_x)
        assert f.worst_error(Z)[i] == pytest.approx(worst_case_error(KERNEL(X), k_x, 1.0, weights))
        assert f.power(Z, noisy=True)[i] == pytest.approx(worst_case_error(K, k_x, 1.0 + ridge, weights))
        assert f.power(Z)[i] == pytest.approx(np.sqrt(1.0 - k_x @ weights))
    for i, x in enumerate(X):  # where x is a training row, it shares that row's noise
        k_x = KERNEL(x[None], X)[0]
        expected = worst_case_error(K, k_x + ridge * np.eye(9)[i], 1.0 + ridge, np.linalg.solve(K, k_x))
        assert f.power(X, noisy=True)[i] == pytest.approx(expected, abs=1e-7)
    np.testing.assert_allclose((-3.0 * f).power(Z), f.power(Z))
    assert np.all(f.worst_error(Z) <= f.power(Z) + 1e-12)
    # No function of norm one is missed by more, and the worst one by as much.
    for _ in range(20):
        h = Function(KERNEL, rng.standard_normal((4, 2)), rng.standard_normal(4))
        h = h / h.norm()
        guess = KERNEL(Z, X) @ np.linalg.solve(K, h(X))
        assert np.all(np.abs(h(Z) - guess) <= f.worst_error(Z) + 1e-9)
    w = np.linalg.solve(K, KERNEL(X, Z[:1])[:, 0])
    worst = Function(KERNEL, Z[:1], [1.0]) - Function(KERNEL, X, w)
    worst = worst / worst.norm()
    assert worst(Z[:1])[0] - w @ worst(X) == pytest.approx(f.worst_error(Z[:1])[0])


def test_noise_in_the_kernel_is_noise_of_the_rows(rng):
    X, Z = rng.standard_normal((9, 2)), rng.standard_normal((6, 2))
    apart = Function(KERNEL, X, np.ones(9), ridge=0.3, noise=0.3)
    inside = Function(KERNEL + White(0.2), X, np.ones(9), ridge=0.1, noise=0.1)
    for rows in (Z, X):
        np.testing.assert_allclose(inside.power(rows), apart.power(rows))
        np.testing.assert_allclose(inside.power(rows, noisy=True), apart.power(rows, noisy=True))
        np.testing.assert_allclose(inside.worst_error(rows), apart.worst_error(rows), atol=1e-7)


def test_training_rows_are_known_again(rng):
    """Sparse rows and objects too; of rows that are equal any one, and rows of their own noise have theirs."""
    X = np.abs(rng.standard_normal((7, 3)).round(1))
    X[3] = X[1]
    f = Function(RBF(1.0), X, np.ones(7), ridge=0.3, noise=0.3)
    sparse = Function(RBF(1.0), sp.csr_array(X), np.ones(7), ridge=0.3, noise=0.3)
    np.testing.assert_allclose(sparse.power(sp.csr_array(X), noisy=True), f.power(X, noisy=True), atol=1e-7)
    assert f.power(X, noisy=True)[3] == pytest.approx(f.power(X, noisy=True)[1])
    words = ["banana", "ananas", "bandana"]
    g = Function(Spectrum(2), words, np.ones(3), ridge=2.0, noise=2.0)
    K = Spectrum(2)(words)
    weights = np.linalg.solve(K + 2.0 * np.eye(3), K)
    np.testing.assert_allclose(g.power(words, noisy=True) ** 2, g.power(words) ** 2 + 2.0 - 4.0 * weights.diagonal())
    own = Function(RBF(1.0), X, np.ones(7), ridge=np.arange(1.0, 8.0), noise=None)
    assert own.power(X).shape == own.worst_error(X).shape == (7,)
    with pytest.raises(ValueError, match="noise of its own"):
        own.power(X, noisy=True)


def test_power_vanishes_at_the_points_of_an_interpolant(f):
    f = Function(KERNEL, f.X, f.coefficients, ridge=0.0)
    np.testing.assert_allclose(f.power(f.X), 0.0, atol=1e-6)
    copy = pickle.loads(pickle.dumps(f))
    assert "_factor" not in vars(copy)
    np.testing.assert_allclose(copy.power(f.X + 1), f.power(f.X + 1))


def test_other_kinds_of_points(rng):
    X = rng.standard_normal((6, 3)).astype(np.float32)
    alpha = rng.standard_normal(6)
    f = Function(RBF(1.0), X, alpha)
    assert f(X).dtype == np.float32
    rows = sp.csr_array(X.astype(float))
    h = Function(Linear(), rows, alpha)
    assert (h + Function(Linear(), rows.copy(), alpha)).norm() == pytest.approx(2 * h.norm())
    assert len(h + Function(Linear(), rows[:2], alpha[:2])) == 8
    words = Function(Spectrum(2), ["banana", "ananas"], [1.0, -1.0])
    np.testing.assert_allclose(words(["banana"]), Spectrum(2)(["banana"], ["banana", "ananas"]) @ [1.0, -1.0])
    K = RBF(1.0)(X.astype(float))
    ready = Function(Precomputed(), K, alpha)
    assert ready.norm() == pytest.approx(Function(RBF(1.0), X.astype(float), alpha).norm())
    part = ready.restrict([0, 2])
    np.testing.assert_allclose(part(K[:, [0, 2]]), K[:, [0, 2]] @ alpha[[0, 2]])


def test_misuse(f, g):
    with pytest.raises(ValueError, match=r"coefficients must have shape \(2,\)"):
        Function(KERNEL, [[0.0], [1.0]], [1.0])
    other = Function(RBF(1.0), g.X, g.coefficients)
    with pytest.raises(ValueError, match="one space"):
        f + other
    with pytest.raises(ValueError, match="one space"):
        f.inner(other)
    with pytest.raises(TypeError):
        f + 1.0
    with pytest.raises(TypeError):
        f * g
    with pytest.raises(ValueError, match=r"need the weights of a fit"):
        f.power(f.X)
    with pytest.raises(ValueError, match="same Gram matrix"):
        Function(Precomputed(), np.eye(2), [1, 1]) + Function(Precomputed(), 2 * np.eye(2), [1, 1])
    assert repr(f) == "Function(Matern(0.8, nu=2.5), 12 points)"


@pytest.mark.parametrize(
    ("k", "accuracy"),
    [(RBF(0.7), 1e-9), (Matern(0.7, nu=1.5), 1e-4), (Laplace(0.7), 2e-2), (RBF(1.0) * Matern(0.7, nu=2.5), 1e-6)],
    ids=repr,
)
def test_norm_on_a_grid_by_the_fourier_transform(k, accuracy):
    """The norm by the Fourier transform: (2π)^(-d) ∫ |f̂|²/S is αᵀKα."""
    f = Function(k, [[-1.0], [0.5], [1.0]], [1.0, -2.0, 0.7])
    grid = np.arange(-20, 20, 0.02)
    assert fourier_norm(k, f(grid[:, None]), 0.02) == pytest.approx(f.norm(), rel=accuracy)


def test_norm_on_a_grid_of_two_inputs_and_outside_the_space():
    k = Matern([0.7, 1.0], nu=2.5)
    f = Function(k, [[-1.0, 0.0], [0.5, 0.3]], [1.0, -2.0])
    one, two = np.arange(-8, 8, 0.1), np.arange(-10, 10, 0.2)
    rows = np.column_stack([a.ravel() for a in np.meshgrid(one, two, indexing="ij")])
    found = fourier_norm(k, f(rows).reshape(one.size, two.size), (0.1, 0.2))
    assert found == pytest.approx(f.norm(), rel=1e-3)
    # A kink is in the space of Matérn 1/2, whose norm is ∫ f²/(2ℓ) + ℓ f'²/2, and not in that of 3/2.
    norms = {}
    for h in (0.04, 0.02, 0.01, 0.005):
        x = np.arange(-6, 6, h)
        for nu in (0.5, 1.5):
            norms[nu, h] = fourier_norm(Matern(1.0, nu=nu), np.maximum(1.0 - np.abs(x), 0.0), h)
    assert norms[0.5, 0.005] == pytest.approx(np.sqrt((2 / 3) / 2 + 2 / 2), rel=1e-2)
    assert norms[1.5, 0.005] > 1.3 * norms[1.5, 0.01] > 1.6 * norms[1.5, 0.02]
    assert fourier_norm(RBF(1.0), np.zeros(8), 1.0) == 0.0
    for values, spacing, message in ([1.0], 1.0, "two points or more"), (np.ones(4), 0.0, "spacing must be"):
        with pytest.raises(ValueError, match=message):
            fourier_norm(RBF(1.0), values, spacing)
    with pytest.raises(ValueError, match="two points"):
        fourier_norm(RBF(1.0), 1.0, 1.0)
