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
from gramian.solvers.machine.data_term import best_constant
from gramian.solvers.machine.newton_step import System

__all__ = ["Iterate", "NewtonResult", "minimise", "origin"]

FLAT = 1e-11
"""A slope this small, relative to the objective, cannot be seen in the objective."""

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
class NewtonResult:
    """Where Newton's method ended."""

    at: Iterate  # The function
    u: Array  # (n, k): The gradient of the data term there, a dual point
    Ku: Array  # (n, k): K @ u
    gap: float  # ``‖u + μα‖²_K / (2μ)``
    steps: int  # NewtonResult steps
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
    max_iter: int = 100,
    clock: Clock | None = None,
    tick: Tick = silent,
) -> NewtonResult:
    """Minimise ``D(f + b) + (μ/2) ‖f‖²``."""
    clock = clock or Clock()
    at = replace(start, b=best_constant(fit, start.values, start.b)) if intercept else start
    best, objective, why, flat, strikes = None, _objective(fit, mu, at), "", False, 0
    for step in range(max_iter + 1):
        u = fit.gradient(at.f)
        r = -(u + mu * at.alpha)
        Kr = space @ r
        gap = _gap(r, Kr, mu, objective)
        tick(step, gap=gap)
        # Where the objective no longer shows a difference, the gap alone tells whether steps still gain.
        strikes += int(best is not None and flat and gap > 0.5 * best.gap)
        if best is None or not flat or gap < best.gap:
            best = NewtonResult(at, u, -Kr - mu * at.values, gap, step)
        met = gap <= max(goal * abs(objective), floor)
        if met or strikes > 1:
            break
        if step == max_iter or clock.expired:
            limit = f"max_time={clock.max_time:g} s passed" if clock.expired else f"max_iter={max_iter} was reached"
            why = limit
            break
        system = System(space, fit.half_curvature(at.f), mu, intercept, fit.stiff)
        at, objective, flat = _step(space, fit, mu, at, system.direction(r, Kr, clock), r, objective, intercept)
    assert best is not None
    if not why and best.gap > max(goal * abs(objective), floor):
        why = "rounding in float64 stops it"
    return replace(best, steps=step, why=why)


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
