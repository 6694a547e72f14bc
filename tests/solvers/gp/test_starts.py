"""Starts and bounds of hyperparameters from the data."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.kernels import RBF, Constant, Linear, Spectrum, White
from gramian.solvers.gp.starts import data_starts, noise_of_repeats, widened


def test_data_starts_scale_with_the_data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4)) * [1.0, 10.0, 100.0, 0.0]
    Y = 50.0 * rng.standard_normal((200, 1))
    kernel = 1.0 * RBF([1.0] * 4) + White(0.1)
    starts = data_starts(kernel, X, np.mean(Y**2), np.random.RandomState(0))
    np.testing.assert_array_equal(starts[0], kernel.theta)
    middle = np.exp(starts[5])
    np.testing.assert_allclose(middle[1:4], 2.0 * X.std(axis=0)[:3], rtol=0.3)
    assert middle[4] == pytest.approx(2.0)  # an input that does not vary has no scale of its own
    assert np.exp(starts[2][1]) == pytest.approx(0.04 * X[:, 0].std(), rel=1e-6)  # short ones compete too
    assert np.exp(starts[-1][0]) == pytest.approx(np.mean(Y**2), rel=1e-6)
    assert np.exp(starts[-1][-1]) == pytest.approx(0.1 * np.mean(Y**2), rel=1e-6)
    for start in starts:
        assert np.all((start >= kernel.bounds[:, 0]) & (start <= kernel.bounds[:, 1]))


@pytest.mark.parametrize(
    ("kernel", "X"),
    [
        (Linear() + Constant(2.0), np.ones((3, 2))),
        (Spectrum(2) + White(1.0), np.array(["ab", "ba", "aa"])),
        (RBF(1.0), np.ones((3, 2))),
        (RBF([1.0, 2.0]).on(0, 2), np.random.default_rng(0).standard_normal((3, 3))),
    ],
    ids=["no lengthscale", "strings", "one point", "some columns"],
)
def test_data_starts_where_the_rows_give_no_scale(kernel, X):
    starts = data_starts(kernel, X, 1.0, np.random.RandomState(0))
    np.testing.assert_array_equal(starts[0], kernel.theta)
    assert np.all(np.isfinite(starts))


@pytest.mark.parametrize("X", [np.arange(40.0)[:, None], np.repeat(np.arange(10.0), 2)[:, None], np.array(["a"] * 50)])
def test_too_few_repeats_say_nothing(X):
    assert noise_of_repeats(X, np.arange(len(X), dtype=float)[:, None]) == 0.0


def test_default_bounds_are_widened_by_units_and_back(rng):
    X, Y = 1e5 * rng.standard_normal((20, 2)), 1e8 * rng.standard_normal((20, 1))
    kernel = 1.0 * RBF(1.0) + White(0.1, (1e-3, 1.0))
    wide = widened(kernel, X, np.mean(Y**2))
    assert wide.bounds[0, 1] > kernel.bounds[0, 1]
    assert wide.bounds[1, 1] > kernel.bounds[1, 1]
    np.testing.assert_array_equal(wide.bounds[2], kernel.bounds[2])  # a bound of the user's own stays
    assert widened(wide, X, np.mean(Y**2), back=True) == kernel
