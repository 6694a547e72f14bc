"""Newton's method in coordinates of a map: parts of the Hessian, far starts."""

from __future__ import annotations

import numpy as np
import pytest

from gramian import losses
from gramian.data.passes import Held
from gramian.solvers.in_features.newton import FeatureStart, minimise
from gramian.solvers.in_features.objective import Functions
from gramian.solvers.machine.penalties import Goal
from own_features import OwnTargets, own_features

LAM = 1e-2


def test_coupled_functions_by_their_own_blocks_of_the_hessian(rng):
    F, loss = rng.standard_normal((300, 5)), losses.Multinomial()
    y = np.eye(4)[np.digitize(F[:, 0] + 0.5 * rng.standard_normal(300), [-1, 0, 1])]
    primals = []
    for diagonal in (False, True):
        functions = Functions(OwnTargets(loss), True, LAM, kinks=False, diagonal=diagonal)
        with Held(F, y).passes() as passes:
            start = {0: FeatureStart(np.zeros((6, 4)))}
            found = minimise(passes, own_features(5), functions, start, Goal("newton", tol=1e-8, max_iter=300))[0]
        assert found.gap <= 1e-8
        primals.append(found.primal)
    assert primals[0] == pytest.approx(primals[1], rel=1e-7)


def test_a_start_far_from_the_optimum_with_a_narrow_envelope(rng):
    F = rng.standard_normal((200, 4))
    y = np.sign(F[:, :1] + 0.5 * rng.standard_normal((200, 1)))
    functions = Functions(OwnTargets(losses.Hinge()), True, LAM, kinks=True)
    with Held(F, y).passes() as passes:
        start = {0: FeatureStart(np.full((5, 1), 3.0), 1e-8, 1.0)}
        assert minimise(passes, own_features(4), functions, start, Goal("proximal", max_iter=200))[0].gap <= 1e-6
