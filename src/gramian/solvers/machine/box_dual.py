"""Losses whose conjugate is linear on an interval: their dual is a quadratic program on a box, the one of ``smo``.

With ``ℓ*(u) = u y + ε |u|`` on [low, high], the coefficients ``α = -u/μ`` of ``min Σ w ℓ(f + b) + (μ/2) ‖f‖²`` solve

    min ½ αᵀKα - yᵀα + ε Σ|α|   subject to   -w high / μ ≤ α ≤ -w low / μ,   Σα = 0.

Without the constant b there is no equality; an object at the origin absorbs it (``AnchoredRows``).

Pair steps are fast if most α end at a bound or at zero, and slow otherwise; so they get a budget, and ``proximal``
continues from where they end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.losses import offers
from gramian.solvers.machine.data_term import DataFit, best_constant
from gramian.solvers.machine.newton import Iterate, NewtonResult, squared_objective
from gramian.solvers.machine.origin_row import AnchoredRows
from gramian.solvers.machine.penalties import Goal
from gramian.solvers.svm import smo
from gramian.solvers.svm.tasks import Task

ROUNDS = 20
"""The budget in rounds, enough for the fast cases; a round counts as a step."""
ROUND = 500
"""Pair steps per round: as many as rows, but at least this many."""
FINER = 1e-6
"""Share of the tolerance to reach: the last steps cost little, and make weights agree with repeated rows."""

Array = NDArray[np.float64]


def suits(fit: Any, intercept: bool) -> bool:
    """Tell whether a data term has such a dual."""
    if type(fit) is not DataFit or fit.y.shape[1] > 1 or not offers(fit.loss, "tube"):
        return False
    return intercept or fit.loss.tube() == 0.0


def minimise(space: Any, fit: DataFit, mu: float, start: Array, goal: Goal, rounds: int = ROUNDS) -> NewtonResult:
    """Minimise ``D(f + b) + (μ/2) ‖f‖²`` within a budget of pair steps: start (n, 1), coefficients."""
    n, intercept = fit.y.shape[0], goal.intercept
    low, high = (fit.w * end for end in fit.loss.domain(fit.y))
    rows = space.rows() if intercept else AnchoredRows(space.rows())
    task = _task(fit, start[:, 0], -high[:, 0] / mu, -low[:, 0] / mu, anchored=not intercept)
    size = max(n, ROUND)
    options: Any = {"max_iter": min(rounds, goal.max_iter) * size, "clock": goal.clock, "tick": goal.tick}
    found = smo.solve(task, rows, tol=max(FINER * goal.tol, 1e-12), **options)
    alpha, values = found.beta[:n, None], found.values[:n, None]
    b = best_constant(fit, values, np.array([found.bias + fit.y.mean()]), middle=True) if intercept else np.zeros(1)
    at = Iterate(alpha, values, b)
    u = np.clip(-mu * alpha, low, high)
    dual = -fit.conjugate(u) - 0.5 * mu * at.norm2
    gap = squared_objective(fit, mu, at) - dual
    return NewtonResult(at, u, -mu * values, max(gap, 0.0), -(-found.certificate.iterations // size))


def _task(fit: DataFit, start: Array, lower: Array, upper: Array, *, anchored: bool) -> Task:
    # With Σα = 0 a constant in the targets changes nothing but rounding.
    linear, kink, m = (0.0 if anchored else fit.y.mean()) - fit.y[:, 0], float(fit.loss.tube()), start.size
    start = np.clip(start, lower, upper)
    if not anchored:  # zero is within the bounds, so a sum of zero is feasible
        off = float(start.sum())
        room = start - lower if off > 0 else upper - start
        start = np.clip(start - off * room / (float(room.sum()) or 1.0), lower, upper)
    task = Task(linear, lower, upper, start, np.arange(m), m, kink=kink)
    return task.anchored(m) if anchored else task
