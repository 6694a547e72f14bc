"""Targets and problems that suit each loss."""

import numpy as np

from gramian import losses
from gramian.gram import Gram
from gramian.kernels import RBF
from gramian.solvers.machine.data_term import DataFit
from gramian.solvers.machine.function_space import ExactSpace
from gramian.solvers.machine.penalties import Goal, choose
from gramian.solvers.machine.solve import Problem

CONVEX = [cls() for cls in losses.names().values() if cls.convex]


def noisy_sine(n):
    """Rows, targets, a kernel and its Gram matrix."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, (n, 1))
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n), RBF(1.0), RBF(1.0)(X)


def targets(loss, rng, n):
    if loss.coupled:
        return np.eye(3)[rng.integers(0, 3, n)]
    if loss.task == "classification":
        return rng.choice([-1.0, 1.0], (n, 1))
    return rng.poisson(2.0, (n, 1)).astype(float) if getattr(loss, "positive", False) else rng.normal(size=(n, 1))


def problem(loss, rng, n=60, penalty="squared", strength=1e-2, **options):
    X = rng.standard_normal((n, 2))
    fit = DataFit(loss, targets(loss, rng, n), rng.uniform(0.5, 2.0, n))
    goal = Goal(choose(loss).name, penalty, strength, **options)
    return Problem(ExactSpace(Gram(RBF(1.0), X)), fit, goal)
