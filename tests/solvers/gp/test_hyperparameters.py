"""The search for the highest evidence, from several starts."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.kernels import RBF, Constant, Linear, Spectrum, White
from gramian.progress import Clock
from gramian.solvers.gp.hyperparameters import data_starts, maximise, noise_of_repeats, widened

BOX = np.array([[-3.0, 3.0], [-3.0, 3.0]])


def two_hills(t):
    """A low hill at -2 and a high one at +2, along the first coordinate."""
    value, slope = 0.0, np.zeros(2)
    for height, centre in ((1.0, -2.0), (2.0, 2.0)):
        off = t - np.array([centre, 0.0])
        bump = height * np.exp(-off @ off)
        value, slope = value + bump, slope - 2.0 * off * bump
    return value, slope


def test_restarts_find_the_higher_hill():
    low, high = np.array([-1.8, 0.1]), np.array([1.5, -0.2])
    assert maximise(two_hills, [low], BOX).value == pytest.approx(1.0, abs=1e-3)
    best = maximise(two_hills, [low, high], BOX)
    assert best.value == pytest.approx(2.0, abs=1e-3)
    assert best.certificate.converged
    assert best.certificate.kind == "evidence"
    assert best.certificate.primal == best.value


def counted(objective):
    """The objective, and the list of the places where it is called."""
    places = []

    def called(t):
        places.append(t)
        return objective(t)

    return called, places


def test_the_hessian_of_the_screen_saves_evaluations():
    A, top = np.array([[3.0, 1.0], [1.0, 40.0]]), np.array([1.0, -2.0])

    def hill(t, rows=1.0):
        off = t - top
        return -0.5 * rows * float(off @ A @ off), -rows * (A @ off)

    starts = [np.zeros(2), np.array([-3.0, 3.0])]
    objective, places = counted(hill)
    best = maximise(objective, starts, BOX, screen=lambda t: hill(t, 0.25), share=0.25)
    np.testing.assert_allclose(best.theta, top, atol=1e-6)
    assert best.certificate.converged
    assert len(places) <= 6  # a quadratic: one step, and a few for the differences' error and the certificate


def test_l_bfgs_takes_over_where_quasi_newton_steps_creep():
    starts, away = [np.array([-1.2, 1.0]), np.array([-1.0, 2.0])], np.array([2.5, -2.5])

    def elsewhere(t):
        off = t - away
        return -float(off @ off), -2.0 * off

    best = maximise(valley, starts, BOX, screen=elsewhere, share=1e-6)  # a Hessian that is a million times too large
    np.testing.assert_allclose(best.theta, [1.0, 1.0], atol=1e-3)
    assert best.certificate.converged


def test_a_users_optimizer_keeps_scikit_learns_contract():
    def optimizer(obj_func, initial_theta, bounds):
        value, slope = obj_func(initial_theta)
        assert obj_func(initial_theta, eval_gradient=False) == value
        assert slope.shape == (2,)
        np.testing.assert_array_equal(bounds, BOX)
        return np.array([2.0, 0.0]), obj_func(np.array([2.0, 0.0]), eval_gradient=False)

    best = maximise(two_hills, [np.zeros(2)], BOX, optimizer=optimizer)
    np.testing.assert_array_equal(best.theta, [2.0, 0.0])


def valley(t):
    """Minus Rosenbrock's function."""
    bend, rest = t[1] - t[0] ** 2, 1 - t[0]
    return -float(100 * bend**2 + rest**2), np.array([400 * t[0] * bend + 2 * rest, -200 * bend])


def test_time_and_steps_that_run_out_are_told():
    start = np.array([-1.2, 1.0])
    short = maximise(valley, [start], BOX, max_iter=2).certificate
    assert not short.converged
    assert "max_iter" in short.message
    late = maximise(valley, [start, start], BOX, clock=Clock(1e-9)).certificate
    assert not late.converged
    assert late.iterations == 1
    assert "max_time" in late.message


@pytest.mark.parametrize(("slopes", "met"), [((0, 0, 0, 4), False), ((0, 0, 0, 0), True), ((0.1, 0.11), True)])
def test_slopes_that_rounding_may_hide_are_not_called_flat(slopes, met):
    """Slopes in units of 2⁻¹⁰, a multiple of which each of them is if the terms of its sum are about 2⁴²."""
    told = iter([*slopes, *(0.5 * slopes[-1] for _ in range(3))])
    rough = maximise(
        lambda theta: (0.0, np.full(1, next(told) / 1024)),
        [np.zeros(1)],
        np.array([[-1.0, 1.0]]),
        optimizer=lambda obj_func, initial_theta, bounds: (initial_theta, 0.0),
    )
    assert rough.certificate.converged == met
    assert rough.certificate.violation <= 1e-3 or "rounding hides it" in rough.certificate.message


def test_a_value_that_is_never_finite_is_told():
    best = maximise(lambda t: (-np.inf, np.zeros(2)), [np.zeros(2)], BOX)
    assert not best.certificate.converged
    assert "positive definite" in best.certificate.message


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
