"""Gaussian processes: bands, functions, coverage."""

import numpy as np
import pytest
from scipy.stats import norm

from gramian import GaussianProcessRegressor, KernelRidge
from gramian.kernels import RBF
from gramian.plots import CoverageDisplay, GaussianProcessDisplay


@pytest.fixture
def process(rng):
    X = np.sort(rng.uniform(0, 6, 40))[:, None]
    y = 10 + 3 * np.sin(X[:, 0]) + 0.3 * rng.standard_normal(40)
    return GaussianProcessRegressor(1.0 * RBF(1.0), noise="learn", normalize_y=True).fit(X, y), X, y


def test_bands_are_quantiles_of_the_posterior(process):
    gp, X, y = process
    display = GaussianProcessDisplay.from_estimator(gp, n_points=50)
    mean, lower, upper = gp.predict(display.x[:, None], return_interval=0.9)
    assert np.allclose(display.mean_.get_ydata(), mean)
    wide = display.bands_[0].get_paths()[0].vertices
    assert wide[:, 1].min() == pytest.approx(lower.min())
    assert wide[:, 1].max() == pytest.approx(upper.max())
    assert [band.get_label() for band in display.bands_] == ["90% band", "50% band"]
    assert np.array_equal(display.data_.get_xdata(), X[:, 0])
    assert np.allclose(display.data_.get_ydata(), y)
    assert display.ax_.get_ylabel() == "observation"
    assert display.ax_.get_xlim()[0] < X.min() < X.max() < display.ax_.get_xlim()[1]


def test_functions_are_smooth_and_scatter_like_the_posterior(process):
    gp, _, _ = process
    display = GaussianProcessDisplay.from_estimator(gp, n_samples=400, n_points=40)
    assert display.samples.shape == (40, 400)
    noise = gp.noise_ * gp._y_train_std**2
    expected = np.sqrt(np.maximum(display.deviation**2 - noise, 0))
    assert np.allclose(display.samples.std(axis=1), expected, rtol=0.2, atol=0.02)
    jumps = np.abs(np.diff(display.samples, axis=0)).max()
    assert jumps < 3 * np.abs(np.diff(display.mean)).max()  # no noise in them


def test_other_inputs_are_held_at_their_medians(rng):
    X = rng.standard_normal((30, 3))
    gp = GaussianProcessRegressor(RBF(2.0), alpha=0.1, optimizer=None).fit(X, X[:, 1])
    display = GaussianProcessDisplay.from_estimator(gp, feature=1, n_samples=0, n_points=20)
    rows = np.tile(np.median(X, axis=0), (20, 1))
    rows[:, 1] = display.x
    assert np.allclose(display.mean, gp.predict(rows))
    assert display.ax_.get_xlabel() == "x2"
    assert display.ax_.get_ylabel() == "function value"
    assert display.samples_ == []
    with pytest.raises(ValueError, match="feature must be one of the inputs 0 … 2"):
        GaussianProcessDisplay.from_estimator(gp, feature=3)
    two = GaussianProcessRegressor(RBF(2.0), alpha=0.1, optimizer=None).fit(X, X[:, :2])
    with pytest.raises(ValueError, match="this process has 2"):
        GaussianProcessDisplay.from_estimator(two)


def test_coverage_counts_what_lies_inside(rng):
    y = rng.standard_normal(300)
    display = CoverageDisplay.from_predictions(y, np.zeros(300), np.full(300, 0.5))
    for level, observed in zip(display.levels, display.observed, strict=True):
        reach = 0.5 * norm.ppf(0.5 + level / 2)
        assert observed == pytest.approx(np.mean(np.abs(y) <= reach))
    assert np.all(display.observed < display.levels)  # too sure
    assert np.array_equal(display.line_.get_ydata(), display.observed)
    assert display.ax_.get_xlim() == display.ax_.get_ylim() == (0.0, 1.0)
    band = display.band_.get_paths()[0].vertices
    assert np.all((band >= 0) & (band <= 1))


def test_coverage_of_a_process(process, rng):
    gp, _, _ = process
    new = rng.uniform(0, 6, 200)[:, None]
    truth = 10 + 3 * np.sin(new[:, 0]) + 0.3 * rng.standard_normal(200)
    display = CoverageDisplay.from_estimator(gp, new, truth)
    assert np.abs(display.observed - display.levels).max() < 0.12
    with pytest.raises(ValueError, match="must agree"):
        CoverageDisplay.from_predictions([1.0], [1.0, 2.0], [1.0])
    with pytest.raises(TypeError, match="return_std"):
        CoverageDisplay.from_estimator(KernelRidge().fit(new, truth), new, truth)


def test_a_deviation_of_zero_holds_only_the_truth():
    display = CoverageDisplay.from_predictions([1.0, 2.0], [1.0, 0.0], [0.0, 0.0])
    assert np.allclose(display.observed, 0.5)
