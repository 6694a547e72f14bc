"""Losses without curvature: the proximal point method on the dual, each of its steps by Newton's method.

``max_u -D*(u) - ‖u‖²_K / (2μ)`` is made smooth by ``-(γ/2) ‖u - u_k‖²``, whose dual is the Moreau envelope of the
data term, shifted by γ u_k: a smooth problem for ``newton.minimise``, in which only the rows at a kink have curvature.
Its gradient is the next u. Piecewise linear losses make the steps end on the exact solution
(Li, Sun and Toh, 2018; an augmented Lagrangian method by another name).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.progress import silent
from gramian.solvers.machine import newton
from gramian.solvers.machine.data_term import DataFit, Envelope, best_constant
from gramian.solvers.machine.newton import Iterate, NewtonResult, squared_objective
from gramian.solvers.machine.penalties import Goal

SHRINK = 0.25
"""The factor of γ from one step to the next: later steps are closer to the true problem."""
SMALLEST = 1e-8
"""The smallest γ, relative to the first."""
INNER = 0.1
"""A step is solved to this share of the current gap."""
FIRST = 1e-3
"""The first step is solved to this gap, relative to its objective."""
ROUNDING = 1e-14
"""A gap below this, relative to the objective, counts as zero."""
STALLED = 0.9
"""A step that leaves more than this share of the gap counts as a failure."""
PATIENCE = 8
"""Failures in a row after which it stops."""

Array = NDArray[np.float64]


def minimise(space: Any, fit: DataFit, mu: float, start: Iterate, goal: Goal, done: int = 0) -> NewtonResult:
    """Minimise ``D(f + b) + (μ/2) ‖f‖²`` for a convex data term that need not be smooth, after ``done`` steps."""
    u = np.clip(-mu * start.alpha, *fit.box())
    gamma = first = _first_gamma(fit, start)
    at, best, steps, why, failures = start, None, done, "", 0
    while not why:
        floor = INNER * best.gap if best else 0.0
        inner = replace(goal, tol=0.0 if best else FIRST, max_iter=max(goal.max_iter - steps, 0), tick=silent)
        envelope = Envelope(fit, gamma, u)
        found = newton.minimise(space, envelope, mu, at, inner, floor)
        steps, u, at = steps + found.steps, found.u, found.iterate
        here = _certified(fit, envelope, mu, found, goal.intercept)
        size = abs(squared_objective(fit, mu, here.iterate))
        goal.tick(steps, gap=here.gap)
        failures = 0 if best is None or here.gap < STALLED * best.gap else failures + 1
        best = here if best is None or here.gap < best.gap else best
        if best.gap <= goal.tol * size:
            break
        why = goal.clock.ended(steps, goal.max_iter)
        if not why and (failures > PATIENCE or (failures and best.gap <= ROUNDING * size)):
            why = "stopped by rounding in float64"
        gamma = max(SHRINK * gamma, SMALLEST * first)
    assert best is not None
    return replace(best, steps=steps, why=why)


def _first_gamma(fit: DataFit, at: Iterate) -> float:
    """The γ at which the width of the envelope is that of the residuals."""
    reach = float(np.mean(np.abs(fit.y - at.f)))
    slope = float(np.mean(np.abs(fit.gradient(at.f))))
    return max(reach, 1e-3 * float(np.abs(fit.y).max(initial=0.0)), 1e-12) / max(slope, 1e-3 * float(fit.w.mean()))


def _certified(fit: DataFit, envelope: Envelope, mu: float, found: NewtonResult, intercept: bool) -> NewtonResult:
    """The better of Newton's function and the one whose coefficients are the dual point, with its gap."""
    conjugate = fit.conjugate_at(found.u, envelope.point(found.iterate.f))
    # Slopes sum to zero up to rounding, which is multiplied by the constant.
    dual = -conjugate - 0.5 * float(np.sum(found.u * found.Ku)) / mu + float(found.u.sum(axis=0) @ found.iterate.b)
    sparse = Iterate(-found.u / mu, -found.Ku / mu, found.iterate.b)
    both = [sparse, found.iterate]
    if intercept:
        both = [replace(at, b=best_constant(fit, at.values, at.b, middle=True)) for at in both]
    gaps = [abs(squared_objective(fit, mu, at) - dual) for at in both]
    # The sparse one unless it is clearly worse: its zeros are exact.
    chosen = 0 if gaps[0] <= 2.0 * gaps[1] else 1
    return replace(found, iterate=both[chosen], gap=gaps[chosen])
