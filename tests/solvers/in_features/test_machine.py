"""Machines in coordinates of a map beside the exact machine on the kernel of the map."""

from __future__ import annotations

import numpy as np
import pytest

from gramian import losses
from gramian.data.passes import Held
from gramian.gram import Gram
from gramian.kernels import Linear
from gramian.progress import Clock
from gramian.solvers.in_features.machine import solve
from gramian.solvers.machine.data_term import DataFit
from gramian.solvers.machine.function_space import ExactSpace
from gramian.solvers.machine.penalties import Goal, choose
from gramian.solvers.machine.solve import Problem
from gramian.solvers.machine.solve import solve as solve_exactly
from machine_problems import targets
from own_features import OwnTargets, own_features

ALL = [cls() for cls in losses.names().values()]
LAM = 1e-2


def in_features(F, y, w, loss, penalty, strength, **options):
    goal = Goal(choose(loss).name, penalty, strength, **options)
    with Held(F, y, w).passes() as passes:
        return solve(passes, own_features(F.shape[1]), goal, OwnTargets(loss), passes.blocks.all, [None])[0]


CASES = [(loss, "squared") for loss in ALL] + [
    (losses.Logistic(), "norm"),
    (losses.Logistic(), "ball"),
    (losses.Absolute(), "ball"),
]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("loss", "penalty"), CASES, ids=repr)
def test_the_optimum_is_that_of_the_exact_machine(loss, intercept, penalty, rng):
    F, w = rng.standard_normal((150, 6)), rng.uniform(0.5, 2.0, 150)
    y = targets(loss, rng, 150)
    strength = 0.4 if penalty == "ball" else LAM
    found = in_features(F, y, w, loss, penalty, strength, intercept=intercept)
    space = ExactSpace(Gram(Linear(), F))
    goal = Goal(choose(loss).name, penalty, strength, intercept)
    exact = solve_exactly(Problem(space, DataFit(loss, y, w), goal))
    assert found.certificate.converged
    assert found.certificate.kind == exact.certificate.kind
    if getattr(loss, "convex", True):
        assert found.certificate.primal == pytest.approx(exact.certificate.primal, rel=2e-6)
        assert found.certificate.dual <= exact.certificate.primal + 1e-12


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Hinge()], ids=repr)
def test_limits_end_it_and_are_named(loss, rng):
    F = rng.standard_normal((100, 4))
    y = np.sign(F[:, :1] + rng.standard_normal((100, 1)))
    short = in_features(F, y, np.ones(100), loss, "squared", 1e-4, max_iter=1)
    assert "max_iter=1 was reached" in short.certificate.message
    late = in_features(F, y, np.ones(100), loss, "squared", 1e-4, clock=Clock(1e-9))
    assert "max_time" in late.certificate.message


@pytest.mark.parametrize("loss", [losses.Huber(), losses.Logistic(), losses.SquaredHinge()], ids=repr)
def test_features_far_from_the_origin_have_the_same_optimum(rng, loss):
    """An intercept that is not penalised takes up any shift of the features."""
    F, w, y = rng.standard_normal((60, 4)), 10.0 ** rng.uniform(-2.0, 2.0, 60), targets(loss, rng, 60)
    scale, far = 1e7, 128.0
    near, shifted = (
        in_features(scale * (F + shift), y, w, loss, "squared", 1e-2 * scale**2).certificate for shift in (0.0, far)
    )
    assert near.converged
    assert shifted.converged
    assert shifted.primal == pytest.approx(near.primal, rel=1e-6)
