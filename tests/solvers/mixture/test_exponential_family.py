"""A mixture as an exponential family, beside its densities."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference_em as reference
from gramian.solvers.mixture.covariances import quadratics
from mixture_problems import TYPES, plain, problem


@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_log_joint_density_is_linear_in_phi(covariance_type):
    rows, mixture, X, _ = problem(covariance_type)
    x = X - rows.centre
    phi = np.column_stack([np.ones(len(x)), x, quadratics(mixture.family, x)])
    expected = reference.log_joint(X, *plain(mixture, rows))
    assert_allclose(phi @ mixture.natural.T, expected, rtol=1e-9, atol=1e-9)
    assert_allclose(mixture.log_joint(x.T).T, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_traces_departures_and_magnitudes(covariance_type):
    rows, mixture, _, _ = problem(covariance_type)
    inverses = np.linalg.inv(plain(mixture, rows)[2])
    assert_allclose(mixture.traces, np.trace(inverses, axis1=1, axis2=2))
    assert mixture.departures.max() < 1e-12
    reach = np.array([1.0, 2.0, 3.0])
    assert mixture.magnitude(reach) == pytest.approx(max(reach @ np.abs(A) @ reach for A in inverses))


def test_a_component_of_weight_zero_takes_no_part():
    rows, mixture, X, _ = problem("full")
    without = type(mixture).of(mixture.family, np.array([0.5, 0.5, 0.0]), mixture.means, mixture.covariances)
    joint = without.log_joint((X - rows.centre).T)
    assert np.isfinite(joint).all()
    assert np.exp(joint[2]).max() == 0.0
