"""The support vector tasks as data for ``smo``: bounds, linear term, groups, and a start that is feasible."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gramian.solvers.svm.smo import Task

__all__ = [
    "classification",
    "hard_margin",
    "largest_nu",
    "novelty",
    "nu_classification",
    "nu_regression",
    "regression",
]

Vector = NDArray[np.float64]


def classification(y: Vector, C: Vector, start: Vector | None = None) -> Task:
    """``½‖w‖² + Σ C_i max(0, 1 - y_i f(x_i))``; β = αy: y (m,), C (m,), start (m,)."""
    signed = C * y
    start = np.zeros(y.size) if start is None else start
    return Task(-y, np.minimum(signed, 0.0), np.maximum(signed, 0.0), start, np.arange(y.size), y.size)


def nu_classification(y: Vector, weight: Vector, nu: float) -> Task:
    """ν classification; the answer has to be divided by ``Solution.unit``: y (m,), weight (m,)."""
    split = int(np.count_nonzero(y > 0))
    total = 0.5 * min(nu, largest_nu(y, weight)) * weight.sum()
    start = np.concatenate([_filled(weight[:split], total), -_filled(weight[split:], total)])
    lower, upper = np.minimum(weight * y, 0.0), np.maximum(weight * y, 0.0)
    return Task(np.zeros(y.size), lower, upper, start, np.arange(y.size), split, scaled=True)


def largest_nu(y: Vector, weight: Vector) -> float:
    """Return the largest ν that both classes have enough rows for: y (m,), weight (m,)."""
    return float(2.0 * min(weight[y > 0].sum(), weight[y < 0].sum()) / weight.sum())


def hard_margin(y: Vector) -> Task:
    """The nearest points of two convex hulls: the hard margin, once divided by ``Solution.unit``. y (m,)."""
    split = int(np.count_nonzero(y > 0))
    start = np.zeros(y.size)
    start[0], start[split] = 1.0, -1.0
    # The sums of one already bound every β by one; at two, nobody is ever at a bound.
    lower, upper = np.minimum(2.0 * y, 0.0), np.maximum(2.0 * y, 0.0)
    return Task(np.zeros(y.size), lower, upper, start, np.arange(y.size), split, scaled=True)


def regression(y: Vector, C: Vector, epsilon: float) -> Task:
    """``½‖w‖² + Σ C_i max(0, |y_i - f(x_i)| - ε)``; β = α - α*: y (m,), C (m,)."""
    return Task(-y, -C, C, np.zeros(y.size), np.arange(y.size), y.size, kink=epsilon)


def nu_regression(y: Vector, C: Vector, nu: float) -> Task:
    """ν regression, whose tube is ``-Solution.unit`` wide to either side: y (m,), C (m,)."""
    zero, start = np.zeros(y.size), _filled(C, 0.5 * nu * C.sum())
    objects = np.tile(np.arange(y.size), 2)
    return Task(
        np.concatenate([-y, -y]),
        np.concatenate([zero, -C]),
        np.concatenate([C, zero]),
        np.concatenate([start, -start]),
        objects,
        y.size,
    )


def novelty(weight: Vector, nu: float) -> Task:
    """The one-class machine: ``½‖w‖² - ρ ν Σweight + Σ weight_i max(0, ρ - f(x_i))``. weight (m,)."""
    zero, start = np.zeros(weight.size), _filled(weight, nu * weight.sum())
    return Task(zero, zero, weight, start, np.arange(weight.size), weight.size)


def _filled(room: Vector, total: float) -> Vector:
    """Fill the places in order until the total is reached."""
    before = np.concatenate([[0.0], np.cumsum(room)[:-1]])
    return np.clip(total - before, 0.0, room)
