"""Steps towards the highest evidence."""

from __future__ import annotations

import threading

import numpy as np

from gramian.progress import Clock, silent
from gramian.solvers.gp.ascent import Ascent


def test_a_hessian_ends_with_the_time():
    """It takes an evaluation for each parameter."""
    stop, calls = threading.Event(), []

    def bowl(t):
        calls.append(t)
        if len(calls) == 4:
            stop.set()
        return -0.5 * float(t @ t), -t

    box = np.tile([-3.0, 3.0], (10, 1))
    ascent = Ascent(bowl, box, 1e-3, 100, Clock(stop=stop), silent)
    run, free = ascent.at(np.ones(10)), np.ones(10, dtype=bool)
    assert ascent.curvature(run, free, timed=True) is None
    assert len(calls) == 4
    np.testing.assert_allclose(ascent.curvature(run, free), np.eye(10), atol=1e-8)
