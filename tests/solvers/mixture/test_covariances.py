"""Families of covariances, one law at a time."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference_em as reference
from gramian.solvers.mixture.covariances import COVARIANCE_TYPES, family, quadratics

K, D = 3, 4


@pytest.fixture(params=list(COVARIANCE_TYPES))
def kind(request):
    return family(request.param, K, D)


def covariances(kind, rng):
    """Random ones, of the family's shape."""
    second = np.stack([quadratics(kind, rng.normal(size=(20, D))).mean(axis=0) for _ in range(K)])
    return kind.covariances(second, np.full(K, 1 / K), 0.1)


def as_matrices(kind, values):
    return reference.matrices(values, kind.name, K, D)


def test_factors_are_roots_of_the_inverse(kind):
    sigma = covariances(kind, np.random.default_rng(0))
    factors = kind.factor(sigma)
    assert sigma.shape == factors.shape == kind.shape
    inverses = np.linalg.inv(as_matrices(kind, sigma))
    assert_allclose(as_matrices(kind, kind.precisions(factors)), inverses, atol=1e-10)
    assert_allclose(kind.factor_precisions(kind.precisions(factors)), factors, atol=1e-10)
    assert_allclose(kind.invert(factors), sigma, rtol=1e-10)
    assert_allclose(kind.departure(kind.stack(factors), sigma), 0, atol=1e-10)
    assert_allclose(kind.departure(kind.stack(factors), 3 * sigma), 2 * np.sqrt(D))
    assert_allclose(kind.log_det(kind.stack(factors)), 0.5 * np.linalg.slogdet(inverses)[1])


def test_coefficients_and_whitening_give_the_quadratic_form(kind):
    rng = np.random.default_rng(1)
    sigma, x = covariances(kind, rng), rng.normal(size=(5, D))
    stacked = kind.stack(kind.factor(sigma))
    expected = np.einsum("ni,kij,nj->kn", x, np.linalg.inv(as_matrices(kind, sigma)), x)
    assert_allclose(kind.coefficients(stacked) @ quadratics(kind, x).T, expected)
    assert_allclose([np.sum(kind.whiten(P, x.T) ** 2, axis=0) for P in stacked], expected)


def test_scatter_is_the_weighted_sum_of_quadratics(kind):
    rng = np.random.default_rng(2)
    x, r = rng.normal(size=(2, D, 6)), rng.uniform(size=(2, 6))
    expected = sum(r[t] @ quadratics(kind, x[t].T) for t in range(2))
    assert_allclose(kind.scatter(x, r), expected)


def test_variances_are_eigenvalues(kind):
    sigma = covariances(kind, np.random.default_rng(3))
    columns = np.array([True, False, True, True])
    expected = np.linalg.eigvalsh(as_matrices(kind, sigma)[:, columns][:, :, columns])
    assert_allclose(np.sort(kind.variances(sigma, columns)), expected, rtol=1e-10)


@pytest.mark.parametrize("nearly", [0.0, 1e-16])
def test_a_covariance_without_a_correct_digit_is_singular(nearly):
    with pytest.raises(ValueError, match="component 1"):
        family("full", 2, 2).factor(np.stack([np.eye(2), [[1.0, 1.0], [1.0, 1.0 + 2 * nearly]]]))
