"""The data term: best constants, Moreau envelopes, tilts."""

import numpy as np
import pytest

from gramian.losses import Absolute, Hinge, Logistic, Multinomial
from gramian.solvers.machine.data_term import DataFit, Envelope, Tilted, best_constant, least_scale
from machine_problems import CONVEX, targets


@pytest.mark.parametrize("loss", CONVEX, ids=repr)
def test_values_gradients_and_conjugates_are_sums_over_rows(loss, rng):
    fit = DataFit(loss, targets(loss, rng, 12), rng.uniform(0.5, 2.0, 12))
    f = rng.standard_normal(fit.y.shape)
    u = fit.gradient(f)
    each = [DataFit(loss, fit.y[[i]], fit.w[i]) for i in range(12)]
    assert fit.value(f) == pytest.approx(sum(row.value(f[[i]]) for i, row in enumerate(each)))
    assert fit.conjugate(u) == pytest.approx(sum(row.conjugate(u[[i]]) for i, row in enumerate(each)))
    assert fit.value(f) + fit.conjugate(u) == pytest.approx(float(np.sum(u * f)))  # Fenchel's equality
    low, high = fit.box()
    assert np.all((low - 1e-12 <= u) & (u <= high + 1e-12))


def test_best_constants(rng):
    for loss in CONVEX:
        fit = DataFit(loss, targets(loss, rng, 40), rng.uniform(0.5, 2.0, 40))
        f = rng.standard_normal(fit.y.shape)
        b = best_constant(fit, f, np.zeros(fit.y.shape[1]), middle=True)
        for _ in range(20):
            assert fit.value(f + b) <= fit.value(f + b + 0.1 * rng.standard_normal(b.shape)) + 1e-9
    odd = DataFit(Absolute(), np.array([[0.0], [1.0], [2.0], [5.0]]), np.ones(4))
    assert best_constant(odd, np.zeros((4, 1)), np.zeros(1), middle=True) == pytest.approx(1.5)


def test_best_constants_beside_values_that_overflow():
    fit = DataFit(Multinomial(), np.eye(3)[[0, 1, 2, 0]], np.full(4, 1e308))
    with np.errstate(over="ignore", invalid="ignore"):
        b = best_constant(fit, 1e3 * np.eye(3)[[1, 2, 0, 0]], np.zeros(3))
    assert np.all(np.isfinite(b))


def test_the_best_constant_beside_slopes_whose_product_is_zero():
    y = np.append(np.ones(1000), -1.0)[:, None]
    b = best_constant(DataFit(Logistic(), y, np.ones(1001)), 460.0 * y, np.zeros(1))
    assert b == pytest.approx(0.5 * np.log(1000.0), rel=1e-9)


def test_the_envelope_is_below_and_its_gradient_is_a_slope(rng):
    fit = DataFit(Absolute(), rng.standard_normal((30, 1)), rng.uniform(0.5, 2.0, 30))
    f = rng.standard_normal((30, 1))
    envelope = Envelope(fit, 0.3, np.zeros((30, 1)))
    assert envelope.value(f) <= fit.value(f)
    h, direction = 1e-6, rng.standard_normal((30, 1))
    slope = (envelope.value(f + h * direction) - envelope.value(f - h * direction)) / (2 * h)
    assert slope == pytest.approx(float(np.sum(envelope.gradient(f) * direction)), rel=1e-6)
    assert fit.conjugate(envelope.gradient(f)) < np.inf
    curvature = envelope.half_curvature(f) ** 2 * 0.3
    assert set(np.round(curvature.ravel(), 6)) <= {0.0, 1.0}


def test_a_tilt_moves_the_conjugate(rng):
    y, w, c = rng.choice([-1.0, 1.0], (20, 1)), rng.uniform(0.5, 2.0, 20), rng.standard_normal((20, 1))
    tilted = Tilted(Hinge(), y, w, c)
    f = rng.standard_normal((20, 1))
    u = tilted.gradient(f)
    assert tilted.value(f) + tilted.conjugate(u) == pytest.approx(float(np.sum(u * f)))
    z = tilted.prox(f, 0.7)
    assert tilted.value(z) + tilted.conjugate((f - z) / 0.7) == pytest.approx(float(np.sum((f - z) / 0.7 * z)))


def test_the_least_scale_is_that_of_the_best_constant(rng):
    y, w = rng.standard_normal((30, 1)), rng.uniform(0.5, 2.0, 30)
    fit = DataFit(Absolute(), 1e5 + y, w)
    assert least_scale(fit, intercept=False) > 1e3 * least_scale(fit, intercept=True) > 0.0
