"""The climb of the evidence, from several starts."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.progress import Clock
from gramian.solvers.gp.hyperparameters import maximise

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


def test_a_value_that_is_never_finite_is_told():
    best = maximise(lambda t: (-np.inf, np.zeros(2)), [np.zeros(2)], BOX)
    assert not best.certificate.converged
    assert "positive definite" in best.certificate.message
