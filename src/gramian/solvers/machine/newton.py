"""Truncated Newton for min_{f, b} D(f + b) + (μ/2) ‖f‖², f = Kα, where the data term D has curvature.

The constant b is at its best at every point. The duality gap is free: with g = ∇D and r = -(g + μα) it equals, at the
dual point -g/μ, ``‖r‖²_K / (2μ)``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.progress import Clock, Tick, silent
from gramian.solvers.machine.chord_steps import settled, suits
from gramian.solvers.machine.data_term import best_constant
from gramian.solvers.machine.newton_step import System, system_at

__all__ = ["Iterate", "Newton", "minimise", "origin"]

FLAT = 1e-11
"""A slope this small, relative to the objective, cannot be seen in the objective."""

ROUGH = 0.3
"""With a gap above this, relative to the objective, a rough step gains as much as an exact one."""

GOOD = 0.2
"""A step that leaves less than this of the gap was good."""

INDEFINITE = 1e-6
"""How far below zero, relative to the objective, rounding may bring a gap."""

SHORTEST = 1e-8
"""Of a step, relative to Newton's."""
SMOOTH_SHORTEST = 1e-16
"""The same for a smooth loss: where it has no curvature (Huber's far from its targets) that step is as long as 1/μ."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Iterate:
    """A function and a constant."""

    alpha: Array  # (n, k): Coefficients
    values: Array  # (n, k): K @ alpha
    b: Array  # (k,): Constants

    @property
    def f(self) -> Array:
        """Fitted values, with the constant."""
        return self.values + self.b

    @property
    def norm2(self) -> float:
        """‖f‖² without the constant."""
        return max(float(np.sum(self.alpha * self.values)), 0.0)


@dataclass(frozen=True, eq=False)
class Newton:
    """Where Newton's method ended."""

    at: Iterate  # The function
    u: Array  # (n, k): The gradient of the data term there, a dual point
    Ku: Array  # (n, k): K @ u
    gap: float  # ``‖u + μα‖²_K / (2μ)``
    steps: int  # Newton steps
    why: str = ""  # Why it stopped short, where it did


def origin(fit: Any, intercept: bool) -> Iterate:
    """Return the best constant function."""
    zero = np.zeros_like(fit.y)
    b = np.zeros(fit.y.shape[1])
    return Iterate(zero, zero, best_constant(fit, zero, b) if intercept else b)


def minimise(
    space: Any,
    fit: Any,
    mu: float,
    start: Iterate,
    *,
    intercept: bool,
    goal: float,
    floor: float = 0.0,
    settle: float = 0.0,
    max_iter: int = 100,
    clock: Clock | None = None,
    tick: Tick = silent,
) -> Newton:
    """Minimise ``D(f + b) + (μ/2) ‖f‖²``."""
    clock = clock or Clock()
    at = replace(start, b=best_constant(fit, start.values, start.b)) if intercept else start
    best, objective, why, flat, strikes = None, _objective(fit, mu, at), "", False, 0
    system: System | None = None
    before = np.inf
    for step in range(max_iter + 1):
        u = fit.gradient(at.f)
        r = -(u + mu * at.alpha)
        Kr = space @ r
        gap = _gap(r, Kr, mu, objective)
        tick(step, gap=gap)
        # Where the objective no longer shows a difference, the gap alone tells whether steps still gain.
        strikes += int(best is not None and flat and gap > 0.5 * best.gap)
        if best is None or not flat or gap < best.gap:
            best = Newton(at, u, -Kr - mu * at.values, gap, step)
        met = gap <= max(goal * abs(objective), floor)
        # ‖f - f*‖ <= √(2 gap / μ), for the objective curves by μ at least.
        if (met and 2.0 * gap <= mu * settle**2 * at.norm2) or (met and not settle) or strikes > 1:
            break
        if step == max_iter or clock.expired:
            limit = f"max_time={clock.max_time:g} s passed" if clock.expired else f"max_iter={max_iter} was reached"
            why = "" if met else limit
            break
        if met and system is not None and suits(system):
            return _settled(space, fit, mu, best, system, settle, clock)
        rough, good = gap > ROUGH * abs(objective), gap < GOOD * before
        before, last = gap, system if good else None
        if last is None or not met:
            S = fit.half_curvature(at.f)
            last = system_at(S, space, mu, intercept, last=last, rough=rough, stiff=fit.stiff)
        system = last
        at, objective, flat = _step(space, fit, mu, at, system.direction(r, Kr, clock), r, objective, intercept)
    assert best is not None
    if not why and best.gap > max(goal * abs(objective), floor):
        why = "rounding in float64 stops it"
    return replace(best, steps=step, why=why)


def _settled(
    space: Any, fit: Any, mu: float, best: Newton, system: System | None, settle: float, clock: Clock
) -> Newton:
    """The point that the last system leads to, if it is a better one."""
    assert system is not None
    alpha, values, b, steps = settled(space, fit, mu, best.at.alpha, best.at.b, system, settle, clock)
    at = Iterate(alpha, values, b)
    u = fit.gradient(at.f)
    r = -(u + mu * alpha)
    Kr = space @ r
    gap = _gap(r, Kr, mu, _objective(fit, mu, at))
    steps += best.steps
    return Newton(at, u, -Kr - mu * values, gap, steps) if gap < best.gap else replace(best, steps=steps)


def _gap(r: Array, Kr: Array, mu: float, objective: float) -> float:
    """``‖r‖²_K / (2μ)``."""
    size = float(np.sum(r * Kr))
    if size < -INDEFINITE * mu * abs(objective):
        raise ValueError(
            "K is not positive semi-definite on these rows, so it is the Gram matrix of no kernel; see is_kernel, "
            "or raise lam."
        )
    return max(size, 0.0) / (2.0 * mu)


def _objective(fit: Any, mu: float, at: Iterate) -> float:
    return float(fit.value(at.f)) + 0.5 * mu * at.norm2


def _step(
    space: Any, fit: Any, mu: float, at: Iterate, delta: Array, r: Array, objective: float, intercept: bool
) -> tuple[Iterate, float, bool]:
    """One step along delta with a line search; whether the objective no longer shows the difference."""
    values = space @ delta
    slope = -float(np.sum(r * values))
    flat = abs(slope) <= FLAT * abs(objective)
    b, length = at.b, 1.0
    while True:
        trial = Iterate(at.alpha + length * delta, at.values + length * values, b)
        if intercept:
            trial = replace(trial, b=best_constant(fit, trial.values, b))
        reached = _objective(fit, mu, trial)
        if flat or reached <= objective + 1e-4 * length * slope:
            return trial, reached, flat
        length *= 0.5
        if length < (SHORTEST if fit.stiff else SMOOTH_SHORTEST):
            return at, objective, True
