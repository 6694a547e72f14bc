"""The penalties of a machine: the squared one, and the others by a search over it.

By the representer theorem every penalty that grows with ‖f‖ leads to the same functions as the squared one, for some
multiplier lam: ``λ‖f‖`` where ``lam ‖f‖ = λ``, the ball where ``‖f‖ = radius``. Both sides are monotone in lam, so
each is a search over a path of squared problems, and each is certified by the gap of its own dual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gramian.losses import missing, offers
from gramian.progress import Clock
from gramian.solvers.machine import box_dual as boxed
from gramian.solvers.machine import newton, proximal
from gramian.solvers.machine.data_term import best_constant
from gramian.solvers.machine.dual_point import certificate, lower_bound, objective
from gramian.solvers.machine.newton import Iterate, NewtonResult
from gramian.solvers.machine.problem import Fitted, Problem

__all__ = ["PENALTIES", "SLACK", "by_ball", "by_norm", "by_squared", "check_conjugate", "search"]

POLISH_SIZE = 1000
"""Unknowns up to which a fit goes on to rounding: steps then cost next to nothing."""
SEARCH = 60
"""Squared problems that the search for a multiplier may solve."""
FAR = 60.0
"""Logarithm of a multiplier beyond which none is looked for."""
MARGIN = 0.9
"""A search ends at this part of the tolerance: what is predicted differs a little from what is searched with."""
SLACK = 0.1
"""A path is solved to this part of the tolerance, so that the multiplier decides the gap."""


# ---- one multiplier ---------------------------------------------------------------------------------------------


def _squared(p: Problem, lam: float, start: Iterate) -> NewtonResult:
    """Minimise with the squared penalty; a loss known by its gradient alone may turn out to have kinks."""
    mu = lam * p.total
    goal = 0.0 if p.polish and start.alpha.size <= POLISH_SIZE else p.tol
    options: Any = {"intercept": p.intercept, "max_iter": p.max_iter, "clock": p.clock, "tick": p.tick}
    if p.solver == "proximal":
        if goal > 0 and boxed.suits(p.fit, p.intercept):
            found = boxed.minimise(p.space, p.fit, mu, intercept=p.intercept, goal=goal, clock=p.clock, tick=p.tick)
            start = found.at
            if found.gap <= goal * abs(p.fit.value(start.f) + 0.5 * mu * start.norm2):
                return found
        return proximal.minimise(p.space, p.fit, mu, start, goal=goal, **options)
    found = newton.minimise(p.space, p.fit, mu, start, goal=goal, **options)
    stuck = found.gap > p.tol * abs(p.fit.value(found.at.f) + 0.5 * mu * found.at.norm2)
    if stuck and not p.fit.smooth and getattr(p.fit.loss, "convex", True) and not p.clock.expired:
        return proximal.minimise(p.space, p.fit, mu, found.at, goal=goal, **options)
    return found


def by_squared(p: Problem, lam: float, start: Iterate) -> Fitted:
    """Minimise ``mean loss + (lam/2) ‖f‖²``."""
    found = _squared(p, lam, start)
    mu = lam * p.total
    known = offers(p.fit.loss, "conjugate")
    primal = objective(p, "squared", lam, found.at)
    dual = lower_bound(p, "squared", lam, found.at, found.u, _dual_norm(found) ** 2) if known else primal - found.gap
    r, Kr = found.u + mu * found.at.alpha, found.Ku + mu * found.at.values
    violation = np.sqrt(max(float(np.sum(r * Kr)), 0.0)) / (_dual_norm(found) or 1.0)
    said = certificate(p, primal, dual, violation, found.steps, found.why, known=known)
    return Fitted(found.at, found.u, said, lam, found.why)


def _dual_norm(found: NewtonResult) -> float:
    """‖u‖_K."""
    return float(np.sqrt(max(float(np.sum(found.u * found.Ku)), 0.0)))


# ---- other penalties --------------------------------------------------------------------------------------------


def by_norm(p: Problem, lam: float, start: Iterate) -> Fitted:
    """Minimise ``mean loss + lam ‖f‖``: f is zero where lam is large enough."""
    weight = lam * p.total
    zero = newton.origin(p.fit, p.intercept)

    def certified(found: NewtonResult, at: Iterate, multiplier: float) -> Fitted:
        primal = objective(p, "norm", lam, at)
        dual = lower_bound(p, "norm", lam, at, found.u, _dual_norm(found) ** 2)
        shrink = min(1.0, weight / (_dual_norm(found) or 1.0))
        violation = 1.0 - shrink if at is zero else abs(multiplier * np.sqrt(at.norm2) / lam - 1.0)
        said = certificate(p, primal, dual, violation, found.steps, found.why)
        return Fitted(at, found.u, said, multiplier, found.why)

    def trial(multiplier: float, start: Iterate) -> tuple[float, Fitted, Iterate]:
        found = _squared(replace(p, tol=SLACK * p.tol), multiplier, start)
        fitted = [certified(found, zero, np.inf), certified(found, found.at, multiplier)]
        best = min(fitted, key=lambda each: each.certificate.gap)
        excess = np.log(max(multiplier * np.sqrt(found.at.norm2), 1e-300) / lam)
        return float(excess), best, found.at

    check_conjugate(p.fit.loss)
    u = p.fit.gradient(zero.f)
    nothing = certified(NewtonResult(zero, u, p.space @ u, 0.0, 0), zero, np.inf)
    return nothing if nothing.certificate.converged else search(trial, lam, start, p.tol, p.clock)


def by_ball(p: Problem, radius: float, start: Iterate) -> Fitted:
    """Minimise the mean loss over ``‖f‖ <= radius``."""

    def trial(multiplier: float, start: Iterate) -> tuple[float, Fitted, Iterate]:
        found = _squared(replace(p, tol=SLACK * p.tol), multiplier, start)
        size = np.sqrt(found.at.norm2)
        inside = min(1.0, radius / size) if size > 0 else 1.0
        at = replace(found.at, alpha=inside * found.at.alpha, values=inside * found.at.values)
        if p.intercept and inside < 1.0:
            at = replace(at, b=best_constant(p.fit, at.values, at.b))
        dual = lower_bound(p, "ball", radius, at, found.u, _dual_norm(found) ** 2)
        violation = abs(size / radius - 1.0)
        said = certificate(p, objective(p, "ball", radius, at), dual, violation, found.steps, found.why)
        fitted = Fitted(at, found.u, said, multiplier, found.why)
        return -float(np.log(max(size, 1e-300) / radius)), fitted, found.at

    check_conjugate(p.fit.loss)
    return search(trial, 1.0, start, p.tol, p.clock)


PENALTIES: dict[str, Callable[[Problem, float, Iterate], Fitted]] = {
    "squared": by_squared,
    "norm": by_norm,
    "ball": by_ball,
}
"""A function for each penalty."""


def check_conjugate(loss: Any) -> None:
    """Refuse a loss without a conjugate under a penalty that needs one."""
    if missing(loss, ("conjugate",)):
        raise ValueError(
            f"penalties other than 'squared' need conjugate of a loss, which certifies the multiplier; "
            f"{type(loss).__name__} lacks it. Define conjugate(u, y), or use penalty='squared'."
        )


def search(
    trial: Callable[[float, Any], tuple[float, Any, Any]], first: float, start: Any, tol: float, clock: Clock
) -> Any:
    """Find the root of ``trial``, which grows with the multiplier, until the penalty's own gap is small enough.

    A trial takes a multiplier and a start, and returns a number, a fit with its certificate, and the next start.
    """
    here, met, steps, found = float(np.log(first)), [], 0, []
    for _ in range(SEARCH):
        value, fitted, start = trial(float(np.exp(here)), start)
        steps += fitted.certificate.iterations
        found.append(fitted)
        met.append((here, value))
        if fitted.certificate.gap <= MARGIN * max(tol, 1e-12) or clock.expired or abs(here) > FAR:
            break
        here = _next(met)
    best = min(found, key=lambda each: each.certificate.gap)
    return replace(best, certificate=replace(best.certificate, iterations=steps, seconds=clock.seconds))


def _next(met: list[tuple[float, float]]) -> float:
    """Beyond the points met so far, or between the two around the root, by secant and bisection in turn."""
    low = max((point for point in met if point[1] < 0), default=None)
    high = min((point for point in met if point[1] >= 0), default=None)
    if low is None or high is None:
        stride = min(2.0 ** len(met), 8.0)
        return met[-1][0] + (stride if high is None else -stride)
    width = high[0] - low[0]
    share = 0.5 if len(met) % 3 == 0 else -low[1] / (high[1] - low[1])
    return low[0] + float(np.clip(share, 0.01, 0.99)) * width
