"""What a pass says of an objective in coordinates, against differences of its value."""

from __future__ import annotations

import numpy as np
import pytest

from gramian import losses
from gramian.data.passes import Held
from gramian.solvers.in_features.objective import LENGTHS, Ask, Functions, Point, along, local
from own_features import OwnTargets, own_features


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Hinge(), losses.Multinomial()], ids=repr)
def test_slopes_and_hessians_are_differences(loss, intercept, rng):
    n, m, k = 70, 4, 3 if loss.coupled else 1
    F = rng.standard_normal((n, m))
    y = np.eye(3)[rng.integers(0, 3, n)] if loss.coupled else rng.choice([-1.0, 1.0], (n, 1))
    kinks = isinstance(loss, losses.Hinge)
    functions = Functions(OwnTargets(loss), intercept, 1e-9, kinks)
    theta, step = rng.standard_normal((2, m + intercept, k))
    with Held(F, y, rng.uniform(0.5, 2.0, n)).passes() as passes:

        def at(theta, **options):
            ask = Ask(0, theta, 0.7, **options)
            return passes.sum(along if options else local, Point(own_features(m), functions, (ask,)))

        here, values, h = at(theta), at(theta, step=step)["objective0"], 1e-5
        around = [at(theta + sign * h * step) for sign in (1, -1)]
        assert values[0] == pytest.approx(float(at(theta + step)["objective0"]))
        assert values[2] == pytest.approx(float(at(theta + LENGTHS[2] * step)["objective0"]))
    slope = (around[0]["objective0"] - around[1]["objective0"]) / (2 * h)
    assert slope == pytest.approx(np.sum(here["gradient0"] * step), rel=1e-6)
    if not kinks:
        change = (around[0]["gradient0"] - around[1]["gradient0"]) / (2 * h)
        np.testing.assert_allclose(here["hessian0"] @ step.T.ravel(), change.T.ravel(), rtol=1e-5, atol=1e-5)
    assert here["value0"] + here["conjugate0"] >= np.sum(here["gradient0"] * theta) - 1e-9
