"""Learning a Gaussian process: no units, no missed optimum, and a slope that is as flat as the certificate says."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor as Peer
from sklearn.gaussian_process import kernels as sk

from gramian import GaussianProcessClassifier, GaussianProcessRegressor, verify
from gramian.kernels import RBF, Constant, White
from gramian.verification import agree


def projected_slope(gp):
    """The largest slope that the bounds allow, by scikit-learn's formulas."""
    theta, bounds = gp.kernel_.theta, gp.kernel_.bounds
    peer = Peer(gp.kernel.clone_with_theta(theta), alpha=gp.alpha, optimizer=None).fit(gp.X_train_, gp.y_train_)
    _, slope = peer.log_marginal_likelihood(theta, eval_gradient=True)
    return np.abs(np.clip(theta + slope, *bounds.T) - theta).max()


@pytest.mark.parametrize("unit", [1e-4, 1e4, 1e8])
def test_the_units_of_the_targets_do_not_matter(unit):
    X, y = make_friedman1(150, noise=1.0, random_state=0)
    one = GaussianProcessRegressor(noise="learn", random_state=0).fit(X, y)
    other = GaussianProcessRegressor(noise="learn", random_state=0, alpha=1e-10 * unit**2).fit(X, unit * y)
    assert other.certificate_.converged
    assert other.score(X, unit * y) > 0.9
    np.testing.assert_allclose(other.predict(X), unit * one.predict(X), rtol=1e-3)
    shifted = one.log_marginal_likelihood_value_ - y.size * np.log(unit)
    assert other.log_marginal_likelihood_value_ == pytest.approx(shifted, abs=1e-3)
    theta, bounds = other.kernel_.theta, other.kernel_.bounds
    assert np.all((theta >= bounds[:, 0]) & (theta <= bounds[:, 1]))


def test_bounds_that_somebody_chose_are_kept_and_a_bound_that_binds_warns():
    X, y = make_friedman1(60, noise=1.0, random_state=0)
    kernel = Constant(1.0, (1e-3, 1e3)) * RBF(1.0) + White(1.0)
    message = r"dimension 0 of parameter left.left.value is close to the specified upper bound 1000.0. Increasing the"
    with pytest.warns(ConvergenceWarning, match=message):
        gp = GaussianProcessRegressor(kernel, random_state=0).fit(X, 1e4 * y)
    assert gp.certificate_.converged  # within the bounds, there is nothing better
    assert gp.kernel_.left.left.value == pytest.approx(1e3)
    with pytest.warns(ConvergenceWarning, match=r"left.value is close to the specified lower bound 50.0. Decreasing"):
        GaussianProcessClassifier(Constant(100.0, (50.0, 1e3)) * RBF(1.0)).fit(X, X[:, 0] + X[::-1, 0] > 1)


def test_an_input_that_does_not_matter_may_have_an_endless_lengthscale():
    X, y = make_friedman1(120, n_features=6, noise=0.1, random_state=0)
    gp = GaussianProcessRegressor(1.0 * RBF([1.0] * 6) + White(0.1), random_state=0).fit(X, y)  # no warning
    assert gp.kernel_.left.kernel.lengthscale[5] > 100.0


@pytest.mark.parametrize("lengthscale", [1.0, 10.0, 100.0])
def test_short_lengthscales_compete(lengthscale):
    t = np.arange(120.0)[:, None]
    y = np.sin(2 * np.pi * t[:, 0] / 12) + 0.1 * np.random.default_rng(0).standard_normal(120)
    gp = GaussianProcessRegressor(RBF(lengthscale) + White(1.0), random_state=0).fit(t, y)
    assert gp.log_marginal_likelihood_value_ > 0.0  # where a trend and noise alone are at -130
    assert 2.0 < gp.kernel_.left.lengthscale < 6.0


def random_case(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(15, 70)), int(rng.choice([1, 2, 3]))
    X = rng.uniform(-3, 3, (n, d)) * rng.choice([0.01, 1.0, 100.0])
    f = (np.sin(X).sum(axis=1), np.sign(X[:, 0]), X @ rng.standard_normal(d), np.zeros(n))[seed % 4]
    y = (f + rng.choice([0.01, 0.3]) * rng.standard_normal(n)) * rng.choice([1e-1, 1.0, 1e3]) + rng.choice([0.0, 5.0])
    each = np.ones(d)
    kernel = (
        1.0 * sk.RBF(1.0) + sk.WhiteKernel(1.0),
        sk.RBF(each) + sk.WhiteKernel(0.1),
        1.0 * sk.Matern(each, nu=1.5) + sk.WhiteKernel(1.0),
        1.0 * sk.RBF(1.0),  # no noise but alpha=1e-10
        1.0 * sk.RBF(1.0) + sk.ConstantKernel() + sk.WhiteKernel(0.1),
    )[seed % 5]
    return X, y, kernel


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_slope_is_as_flat_as_the_certificate_says():
    said = 0
    for seed in range(20):
        X, y, kernel = random_case(seed)
        gp = GaussianProcessRegressor(kernel, random_state=seed).fit(X, y)
        if gp.certificate_.converged:
            assert gp.certificate_.violation <= 1e-3
            assert projected_slope(gp) < 0.01
        else:
            assert "rounding hides it" in gp.certificate_.message
        assert agree(gp.certificate_, verify(gp, X, y), gp.tol)
        said += gp.certificate_.converged
    assert said >= 18  # beside noise of 1e-10 alone, rounding may hide the slope


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(100, 108))
def test_restarts_end_as_high_as_scikit_learns(seed):
    X, y, kernel = random_case(seed)
    gp = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=seed).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = Peer(kernel, n_restarts_optimizer=2, random_state=seed).fit(X, y)
    assert gp.log_marginal_likelihood_value_ > peer.log_marginal_likelihood_value_ - 0.5


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_the_units_of_the_rows_do_not_matter(unit):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (80, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(80)
    one, other = (GaussianProcessRegressor(noise="learn", random_state=0).fit(u * X, y) for u in (1.0, unit))
    # There are two maxima, a nat apart; noise alone is at -80.
    assert other.log_marginal_likelihood_value_ == pytest.approx(one.log_marginal_likelihood_value_, abs=1.5)
    label = y > 0
    one, other = (GaussianProcessClassifier(1.0 * RBF(1.0)).fit(u * X, label) for u in (1.0, unit))
    assert other.log_marginal_likelihood_value_ == pytest.approx(one.log_marginal_likelihood_value_, abs=1e-3)


def test_float32_rows_with_targets_that_float32_cannot_hold():
    X = np.linspace(0, 6, 20, dtype=np.float32)[:, None]
    y = 1e100 * np.sin(X[:, 0].astype(np.float64))
    mean, deviation = GaussianProcessRegressor(normalize_y=True).fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(mean, y, atol=1e96)
    assert np.all(np.isfinite(deviation))


def test_noise_far_above_the_targets_is_told():
    X = np.linspace(0, 6, 30)[:, None]
    y = 1e-8 * np.sin(X[:, 0])
    with pytest.warns(UserWarning, match="alpha=1e-10 is noise far above the targets"):
        assert abs(GaussianProcessRegressor().fit(X, y).score(X, y)) < 0.1
    assert GaussianProcessRegressor(normalize_y=True).fit(X, y).score(X, y) > 0.99  # no warning
