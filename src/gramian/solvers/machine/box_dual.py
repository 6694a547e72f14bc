"""Losses whose conjugate is linear on an interval: their dual is a quadratic program on a box, the one of ``smo``.

With ``ℓ*(u) = u y + ε |u|`` on [low, high], the coefficients ``α = -u/μ`` of ``min Σ w ℓ(f + b) + (μ/2) ‖f‖²`` solve

    min ½ αᵀKα - yᵀα + ε Σ|α|   subject to   -w high / μ ≤ α ≤ -w low / μ,   Σα = 0.

Without the constant b there is no equality; an object at the origin absorbs it (``AnchoredRows``).

Pair steps are quick where most α end at a bound or at zero, and slow where few do; so they get a budget, and
``proximal`` goes on from where they end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.losses import offers
from gramian.progress import Clock, Tick, silent
from gramian.solvers.machine.data_term import DataFit, best_constant
from gramian.solvers.machine.newton import Iterate, NewtonResult
from gramian.solvers.machine.origin_row import AnchoredRows
from gramian.solvers.svm import smo
from gramian.solvers.svm.tasks import Task

STEPS_PER_ROW = 20
"""Pair steps, for each row, within which the quick cases are done."""

Array = NDArray[np.float64]


def suits(fit: Any, intercept: bool) -> bool:
    """Tell whether a data term has such a dual."""
    if type(fit) is not DataFit or fit.y.shape[1] > 1 or not offers(fit.loss, "tube"):
        return False
    return intercept or fit.loss.tube() == 0.0


def minimise(
    space: Any, fit: DataFit, mu: float, *, intercept: bool, goal: float, clock: Clock, tick: Tick = silent
) -> NewtonResult:
    """Minimise ``D(f + b) + (μ/2) ‖f‖²`` as far as a budget of pair steps goes."""
    n = fit.y.shape[0]
    low, high = (fit.w * end for end in fit.loss.domain(fit.y))
    rows = space.rows() if intercept else AnchoredRows(space.rows())
    task = _task(fit, -high[:, 0] / mu, -low[:, 0] / mu, anchored=not intercept)
    budget = STEPS_PER_ROW * n
    found = smo.solve(task, rows, tol=max(goal, 1e-12), max_iter=budget, clock=clock, tick=tick)
    alpha, values = found.beta[:n, None], found.values[:n, None]
    b = best_constant(fit, values, np.array([found.bias]), middle=True) if intercept else np.zeros(1)
    at = Iterate(alpha, values, b)
    u = np.clip(-mu * alpha, low, high)
    dual = -fit.conjugate(u) - 0.5 * mu * at.norm2
    gap = fit.value(at.f) + 0.5 * mu * at.norm2 - dual
    return NewtonResult(at, u, -mu * values, max(gap, 0.0), found.certificate.iterations)


def _task(fit: DataFit, lower: Array, upper: Array, *, anchored: bool) -> Task:
    linear, kink = -fit.y[:, 0], float(fit.loss.tube())
    if anchored:
        # Room for all that the others can sum to.
        room = float(np.sum(upper - lower))
        linear, lower, upper = np.append(linear, 0.0), np.append(lower, -room), np.append(upper, room)
    m = linear.size
    return Task(linear, lower, upper, np.zeros(m), np.arange(m), m, kink=kink)
