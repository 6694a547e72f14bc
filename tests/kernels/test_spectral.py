"""Spectral densities beside the integrals of Bochner's theorem, by quadrature and by sums over grids."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from gramian.kernels import (
    RBF,
    Constant,
    Laplace,
    Linear,
    Matern,
    Periodic,
    RationalQuadratic,
    White,
    exp,
    polynomial,
)

STATIONARY = [
    RBF(0.7),
    Matern(0.7, nu=0.5),
    Matern(0.7, nu=0.3),
    Matern(1.3, nu=1.5),
    Matern(1.3, nu=7.2),
    Matern(1.3, nu=80.0),
    Matern(0.7, nu=np.inf),
    Laplace(0.7),
    RationalQuadratic(0.7, 2.0),
    RationalQuadratic(0.7, 0.8),
    RationalQuadratic(0.7, 90.0),
    2.0 * RBF(0.3) + Matern(1.0),
    (2.0 * RBF(0.3) + Matern(1.0)).normalized(),
    RBF(1.0) * Matern(0.7, nu=0.5),
    RBF(1.0) * Laplace(0.7),
    Laplace(1.0) * Laplace(0.7),
    Matern(1.0, nu=2.5) * RationalQuadratic(0.5, 1.0),
    Matern(1.0) * Laplace(0.5) * RBF(1.0),
    RBF(2.0) * Periodic(1.0, period=2.0),
    RBF(1.0) ** 3,
    polynomial(RBF(1.0), [0.0, 1.0, 0.5]),
]


@pytest.mark.parametrize("k", STATIONARY, ids=repr)
def test_density_is_the_cosine_transform_of_the_kernel(k):
    for omega in (0.0, 1.0, 5.0):

        def at(t):
            return k([[0.0]], [[t]])[0, 0]

        how = {"weight": "cos", "wvar": omega, "limlst": 300} if omega else {}
        expected = quad(at, 0.0, np.inf, limit=300, **how)[0] / np.pi
        assert k.spectral_density([[omega]])[0] == pytest.approx(expected, rel=1e-7, abs=1e-9)
        assert k.spectral_density([[-omega]])[0] == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize(
    "k",
    [
        RBF([0.7, 1.2]),
        Matern([1.0, 1.5], nu=2.5),
        RationalQuadratic([1.0, 0.8], 3.0),
        RBF([0.7, 1.2]) * Matern(1.5, nu=3.5),
        RBF(1.0).on(0) * Matern(1.0, nu=3.5).on(1) + 0.5 * RBF(1.0),
        Periodic(2.0, 3.0) * RBF([1.0, 1.5]),
    ],
    ids=repr,
)
def test_bochner_in_two_dimensions(k):
    """κ(t) = ∫ S(ω) cos(ωᵀt) dω, by a sum over a grid that reaches to where little of S is left."""
    step, reach = 0.25, 25.0
    w = np.arange(-reach, reach, step)
    grid = np.column_stack([a.ravel() for a in np.meshgrid(w, w, indexing="ij")])
    S = k.spectral_density(grid) * step**2
    for t in ([0.0, 0.0], [0.5, 0.0], [0.3, -0.9], [1.5, 1.0]):
        expected = k([[0.0, 0.0]], [t])[0, 0]
        assert S @ np.cos(grid @ np.array(t)) == pytest.approx(expected, abs=2e-3)


def test_products_over_inputs():
    """exp(-|t_1|/2 - |t_2|/2) exp(-s/2) is a product of kernels of one input, and so is its density."""
    W = np.array([[0.0, 0.0], [1.0, -2.0], [0.3, 4.0]])
    both = (Laplace(2.0) * RBF([0.7, 0.9])).spectral_density(W)
    one, two = ((Laplace(2.0) * RBF(s)).spectral_density(W[:, [j]]) for j, s in enumerate((0.7, 0.9)))
    np.testing.assert_allclose(both, one * two)
    apart = (Matern(0.7).on(1) * Laplace(2.0).on(0)).spectral_density(W)
    expected = Laplace(2.0).spectral_density(W[:, [0]]) * Matern(0.7).spectral_density(W[:, [1]])
    np.testing.assert_allclose(apart, expected)


def test_draws_have_the_density(rng):
    """The mean of a bounded function over draws of frequencies is its integral under S."""
    for k in (Matern(0.8, nu=1.5), RBF(1.0) * Matern(0.7, nu=0.5), Laplace(1.0)):
        draws = k.frequencies(1, 200_000, rng)[:, 0]
        expected = quad(lambda w, k=k: np.exp(-abs(w)) * k.spectral_density([[w]])[0], -40, 40, points=[0.0])[0]
        assert np.exp(-np.abs(draws)).mean() == pytest.approx(expected, abs=5e-3)


def test_extreme_smoothness():
    near, limit = Matern(1.0, nu=1e15), RBF(1.0)
    assert near.spectral_density([[1.0]])[0] == pytest.approx(limit.spectral_density([[1.0]])[0])
    for nu in (1e-3, 1e12):
        rough = Matern(1.0, nu=nu)
        assert rough._spectral(1).density(np.array([[1.0]]))[0] == pytest.approx(rough.spectral_density([[1.0]])[0])
    assert RationalQuadratic(1.0, 0.3).spectral_density([[0.0]])[0] == np.inf  # its tail is not integrable
    assert 0 < Matern(1.0).spectral_density(np.full((1, 400), 0.1))[0] < np.inf


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (Periodic(), "has atoms"),
        (Constant(1.0), "has atoms"),
        (RBF(1.0) + 1.0, "has atoms"),
        (RBF(1.0).on(0), "has atoms"),
        (RBF(1.0) + White(0.1), "not continuous"),
        (Linear(), "of Linear is not known"),
        (exp(RBF(1.0)), "of Exp is not known"),
        (RBF(1.0).compose(np.abs), "of Composed is not known"),
    ],
    ids=repr,
)
def test_no_density(k, message):
    with pytest.raises(TypeError, match=f"has no spectral density: .*{message}"):
        k.spectral_density([[1.0, 1.0]])


def test_misuse():
    with pytest.raises(ValueError, match=r"omega must have shape \(m, d\)"):
        RBF(1.0).spectral_density([1.0, 2.0])
    with pytest.raises(ValueError, match="too many parts"):
        (Matern(1.0) ** 3).spectral_density([[1.0]])
