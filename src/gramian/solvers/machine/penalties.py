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
from gramian.solvers.machine import box_dual as boxed
from gramian.solvers.machine import newton, proximal
from gramian.solvers.machine.data_term import best_constant
from gramian.solvers.machine.dual_point import certificate, lower_bound, objective
from gramian.solvers.machine.newton import Iterate, Newton
from gramian.solvers.machine.problem import Fitted, Problem

__all__ = ["PENALTIES", "by_ball", "by_norm", "by_squared"]

POLISH_SIZE = 1000
"""Unknowns up to which a fit goes on to rounding: steps then cost next to nothing."""
SETTLED = 1e-8
"""In features, where steps are cheap, a fit goes on to this distance from the optimum, relative to its norm."""
CLOSED = 1e-13
"""The same for losses with kinks, which end at the optimum in a few steps more: a gap relative to the objective."""
SEARCH = 60
"""Squared problems that the search for a multiplier may solve."""
FAR = 60.0
"""Logarithm of a multiplier beyond which none is looked for."""
MARGIN = 0.9
"""A search ends at this part of the tolerance: what is predicted differs a little from what is searched with."""
SLACK = 0.1
"""A path is solved to this part of the tolerance, so that the multiplier decides the gap."""


# ---- one multiplier ---------------------------------------------------------------------------------------------


def _squared(p: Problem, lam: float, start: Iterate) -> Newton:
    """Minimise with the squared penalty; a loss known by its gradient alone may turn out to have kinks."""
    mu = lam * p.total
    goal = 0.0 if p.polish and start.alpha.size <= POLISH_SIZE else p.tol
    settle = SETTLED if p.polish and p.space.low_rank else 0.0
    options: Any = {"intercept": p.intercept, "max_iter": p.max_iter, "clock": p.clock, "tick": p.tick}
    if p.solver == "proximal":
        goal = min(goal, CLOSED) if settle else goal
        if goal > 0 and boxed.suits(p.fit, p.intercept):
            found = boxed.minimise(p.space, p.fit, mu, intercept=p.intercept, goal=goal, clock=p.clock, tick=p.tick)
            start = found.at
            if found.gap <= goal * abs(p.fit.value(start.f) + 0.5 * mu * start.norm2):
                return found
        return proximal.minimise(p.space, p.fit, mu, start, goal=goal, **options)
    found = newton.minimise(p.space, p.fit, mu, start, goal=goal, settle=settle, **options)
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


def _dual_norm(found: Newton) -> float:
    """‖u‖_K."""
    return float(np.sqrt(max(float(np.sum(found.u * found.Ku)), 0.0)))


# ---- other penalties --------------------------------------------------------------------------------------------


def by_norm(p: Problem, lam: float, start: Iterate) -> Fitted:
    """Minimise ``mean loss + lam ‖f‖``: f is zero where lam is large enough."""
    weight = lam * p.total
    zero = newton.origin(p.fit, p.intercept)

    def certified(found: Newton, at: Iterate, multiplier: float) -> Fitted:
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

    _check_conjugate(p)
    u = p.fit.gradient(zero.f)
    nothing = certified(Newton(zero, u, p.space @ u, 0.0, 0), zero, np.inf)
    return nothing if nothing.certificate.converged else _search(p, trial, lam, start)


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

    _check_conjugate(p)
    return _search(p, trial, 1.0, start)


PENALTIES: dict[str, Callable[[Problem, float, Iterate], Fitted]] = {
    "squared": by_squared,
    "norm": by_norm,
    "ball": by_ball,
}
"""A function for each penalty."""


def _check_conjugate(p: Problem) -> None:
    if missing(p.fit.loss, ("conjugate",)):
        raise ValueError(
            f"penalties other than 'squared' need conjugate of a loss, which certifies the multiplier; "
            f"{type(p.fit.loss).__name__} lacks it. Define conjugate(u, y), or use penalty='squared'."
        )


def _search(p: Problem, trial: Callable[..., tuple[float, Fitted, Iterate]], first: float, start: Iterate) -> Fitted:
    """Find the root of ``trial``, which grows with the multiplier, until the penalty's own gap is small enough."""
    here, met, steps, found = float(np.log(first)), [], 0, []
    for _ in range(SEARCH):
        value, fitted, start = trial(float(np.exp(here)), start)
        steps += fitted.certificate.iterations
        found.append(fitted)
        met.append((here, value))
        if fitted.certificate.gap <= MARGIN * max(p.tol, 1e-12) or p.clock.expired or abs(here) > FAR:
            break
        here = _next(met)
    best = min(found, key=lambda each: each.certificate.gap)
    return replace(best, certificate=replace(best.certificate, iterations=steps, seconds=p.clock.seconds))


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
