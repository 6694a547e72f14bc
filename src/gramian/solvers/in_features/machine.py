"""A machine with any loss and any penalty in coordinates of a map, over passes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.data.parts import Part
from gramian.data.passes import Held, Passes
from gramian.losses import offers
from gramian.solvers.in_features.newton import Limits, Optimum, Start, minimise
from gramian.solvers.in_features.objective import Ask, Functions, Point, concave, local
from gramian.solvers.in_features.worker_map import WorkerMap
from gramian.solvers.machine.data_term import DataFit, best_constant, least_scale
from gramian.solvers.machine.dual_point import gap_certificate
from gramian.solvers.machine.penalties import SLACK, check_conjugate, search
from gramian.solvers.machine.problem import choose

__all__ = ["FeatureFit", "Room", "solve", "started"]

Array = NDArray[np.float64]

EACH, LEAST = 4, 2000
"""Rows of the sample at whose optimum a fit begins: so many for each feature, or so many."""
ROUGH = 1e-3
"""A gap that is far below what a sample tells of all rows."""
WIDER = 16.0
"""From one problem to the next, the envelope begins so much wider than the last ended."""
COUPLED = 3000
"""Unknowns of coupled functions up to which their whole Hessian is factorised."""
ROUNDS = 100
"""Convex problems that stand for one that is not, at most; a handful is usual."""
SETTLED = 1e-12
"""What the gap of a smooth loss falls to within a step or two more."""
ENDLESS = 1e15
"""A multiplier that leaves nothing but a constant."""


@dataclass(frozen=True, eq=False)
class FeatureFit:
    """A fitted function, or group of functions."""

    theta: Array  # (m, k) or (m + 1, k): Weights, with constants below
    width: float  # Of the last envelope
    certificate: Certificate  # How far from optimal
    multiplier: float  # The lam of the squared penalty that has the same solution; infinite where f is zero
    error: float  # What the map leaves of the trace of the kernel

    def next(self, last: Start) -> Start:
        """Return where a problem like this one begins, from where this one did."""
        return replace(last, theta=self.theta, width=WIDER * self.width)


@dataclass(frozen=True, eq=False)
class Room:
    """Rows and the space of a map: all that a problem is solved in."""

    passes: Passes
    lift: WorkerMap
    limits: Limits

    def value(self, functions: Functions, which: int, theta: Array) -> float:
        """Return the data term at a point."""
        point = Point(self.lift, functions, (Ask(which, theta, 1.0, hessian=False),))
        return float(self.passes.sum(local, point)["value0"])


def solve(
    room: Room, functions: Functions, solver: str, penalty: str, strength: float, starts: list[Start]
) -> list[FeatureFit]:
    """Fit functions by any solver, under any penalty."""
    functions = replace(functions, kinks=solver == "proximal")
    most = max((start.theta.size for start in starts), default=0)
    functions = replace(functions, diagonal=most > COUPLED)
    if solver == "ccp":
        return [_by_tangents(room, functions, i, penalty, strength, start) for i, start in enumerate(starts)]
    return _penalised(room, functions, penalty, strength, dict(enumerate(starts)))


def _penalised(
    room: Room, functions: Functions, penalty: str, strength: float, starts: dict[int, Start]
) -> list[FeatureFit]:
    if penalty == "squared":
        found = _squared(room, functions, strength, starts)
        return [_fit(room, functions, i, found[i], found[i].primal, found[i].dual, strength) for i in starts]
    by = _by_norm if penalty == "norm" else _by_ball
    return [by(room, functions, i, strength, start) for i, start in starts.items()]


def _fit(
    room: Room,
    functions: Functions,
    i: int,
    found: Optimum,
    primal: float,
    dual: float,
    multiplier: float,
    violation: float | None = None,
) -> FeatureFit:
    said = gap_certificate(
        primal,
        dual,
        found.scale,
        found.total,
        room.limits.tol,
        found.violation if violation is None else violation,
        found.steps,
        room.limits.clock,
        found.why,
        known=offers(functions.losses[i], "conjugate") or bool(functions.tangents),
    )
    return FeatureFit(found.theta, found.width, said, multiplier, found.error)


def _squared(room: Room, functions: Functions, lam: float, starts: dict[int, Start]) -> dict[int, Optimum]:
    """Minimise with the squared penalty; a loss known by its gradient alone may turn out to have kinks."""
    functions = replace(functions, lam=lam)
    found = minimise(room.passes, room.lift, functions, starts, room.limits)
    bent = {
        i: replace(starts[i], theta=each.theta)
        for i, each in found.items()
        if each.gap > room.limits.tol and not functions.kinks and _may_bend(functions.losses[i])
    }
    if bent and not room.limits.clock.expired:
        found |= minimise(room.passes, room.lift, replace(functions, kinks=True), bent, room.limits)
    return found


def _may_bend(loss: Any) -> bool:
    return not offers(loss, "curvature") and not getattr(loss, "coupled", False) and getattr(loss, "convex", True)


# ---- other penalties ------------------------------------------------------------------------------------------------


def _finer(room: Room, functions: Functions) -> Room:
    """The same with a smaller tolerance, so that the multiplier decides the gap; a smooth loss meets any."""
    tol = SLACK * room.limits.tol if functions.kinks else min(SLACK * room.limits.tol, SETTLED)
    return replace(room, limits=replace(room.limits, tol=tol))


def _by_norm(room: Room, functions: Functions, i: int, lam: float, start: Start) -> FeatureFit:
    """Minimise ``mean loss + lam ‖f‖``: f is zero where lam is large enough."""
    check_conjugate(functions.losses[i])
    m = room.lift.width
    fine = _finer(room, functions)

    def fitted(of: Optimum, value: float, theta: Array, multiplier: float) -> FeatureFit:
        size, weight = float(np.linalg.norm(theta[:m])), lam * of.total
        shrink = min(1.0, weight / of.slopes.norm) if of.slopes.norm > 0 else 1.0
        dual = -(shrink * of.slopes.conjugate + (1.0 - shrink) * of.slopes.at_zero)
        violation = 1.0 - shrink if np.isinf(multiplier) else abs(multiplier * size / lam - 1.0)
        at = replace(of, theta=theta)
        return _fit(room, functions, i, at, value + weight * size, max(dual, -of.slopes.at_zero), multiplier, violation)

    def value_of(found: Optimum, multiplier: float) -> float:
        return found.primal - 0.5 * multiplier * found.total * float(np.sum(found.theta[:m] ** 2))

    nothing = _squared(fine, functions, ENDLESS, {i: start})[i]
    zero, level = nothing.theta.copy(), value_of(nothing, ENDLESS)
    zero[:m] = 0.0

    def trial(multiplier: float, start: Start) -> tuple[float, FeatureFit, Start]:
        found = _squared(fine, functions, multiplier, {i: start})[i]
        own = fitted(found, value_of(found, multiplier), found.theta, multiplier)
        best = min([fitted(found, level, zero, np.inf), own], key=lambda each: each.certificate.gap)
        excess = np.log(max(multiplier * float(np.linalg.norm(found.theta[:m])), 1e-300) / lam)
        return float(excess), best, own.next(start)

    plain = fitted(nothing, level, zero, np.inf)
    return plain if plain.certificate.converged else search(trial, lam, start, room.limits.tol, room.limits.clock)


def _by_ball(room: Room, functions: Functions, i: int, radius: float, start: Start) -> FeatureFit:
    """Minimise the mean loss over ``‖f‖ <= radius``."""
    check_conjugate(functions.losses[i])
    m = room.lift.width
    fine = _finer(room, functions)

    def trial(multiplier: float, start: Start) -> tuple[float, FeatureFit, Start]:
        found = _squared(fine, functions, multiplier, {i: start})[i]
        size, theta = float(np.linalg.norm(found.theta[:m])), found.theta
        value = found.primal - 0.5 * multiplier * found.total * size**2
        if size > radius:
            theta = theta.copy()
            theta[:m] *= radius / size
            value = room.value(functions, i, theta)
        dual = max(-found.slopes.conjugate - radius * found.slopes.norm, -found.slopes.at_zero)
        at = replace(found, theta=theta)
        fitted = _fit(room, functions, i, at, value, dual, multiplier, abs(size / radius - 1.0))
        again = replace(start, theta=found.theta, width=WIDER * found.width)
        return -float(np.log(max(size, 1e-300) / radius)), fitted, again

    fitted: FeatureFit = search(trial, 1.0, start, room.limits.tol, room.limits.clock)
    return fitted


# ---- losses that are not convex -------------------------------------------------------------------------------------


def _by_tangents(room: Room, functions: Functions, i: int, penalty: str, strength: float, start: Start) -> FeatureFit:
    """Find a stationary point: the concave part is replaced by its tangent, again and again (``machine.ccp``)."""
    part = choose(functions.losses[i].convex_part()).name
    tangents = [np.empty(0)] * len(functions.losses)
    functions = replace(functions, kinks=part == "proximal", tangents=tuple(tangents))
    steps, settled = 0, False
    for _ in range(ROUNDS):
        fitted = _penalised(room, functions, penalty, strength, {i: start})[0]
        steps += fitted.certificate.iterations
        seen = room.passes.sum(concave, Point(room.lift, functions, (Ask(i, fitted.theta, 1.0),)))
        settled = float(seen["turned0"]) == 0.0
        if settled or room.limits.clock.expired:
            break
        tangents[i] = fitted.theta
        functions, start = replace(functions, tangents=tuple(tangents)), fitted.next(start)
    last, total = fitted.certificate, float(seen["weight0"])
    met = settled and last.converged
    why = last.message if settled else "the tangents still changed; allow more time or iterations."
    said = replace(
        last,
        kind="stationary",
        primal=last.primal + float(seen["excess0"]) / total,
        dual=np.nan,
        gap=np.nan,
        violation=last.gap,
        converged=met,
        iterations=steps,
        seconds=room.limits.clock.seconds,
        message=f"a stationary point, not an optimum; training 0-1 loss {float(seen['wrong0']) / total:.4g}"
        + ("" if met else f"; {why}"),
    )
    return replace(fitted, certificate=said)


# ---- where it begins ------------------------------------------------------------------------------------------------


def started(
    room: Room,
    functions: Functions,
    solver: str,
    penalty: str,
    strength: float,
    sample: Part,
    given: list[Start | None] | None = None,
) -> list[Start]:
    """Return where functions begin: where they are told to, or at the optimum of a few of many rows."""
    size = max(EACH * room.lift.width, LEAST)
    part = sample.take(np.arange(0, sample.index.size, -(-sample.index.size // size)))
    targets, weights = functions.targets.of(part)
    fits = [DataFit(loss, y, weights) for loss, y in zip(functions.losses, targets, strict=True)]
    begun = [_origin(fit, room.lift.width, functions.intercept) for fit in fits]
    if given is not None and all(start is not None for start in given):
        told = [start for start in given if start is not None]
        return [
            replace(own, theta=start.theta[: len(own.theta)], width=start.width)
            for start, own in zip(told, begun, strict=True)
        ]
    few = room.passes.blocks.n_rows < 2 * part.index.size
    if few or solver == "ccp" or penalty != "squared" or any(np.any(np.ptp(y, axis=0) == 0.0) for y in targets):
        # Of a class that is not in the sample, or of events that are not, the best constant may be at infinity.
        return begun
    limits = replace(room.limits, tol=max(ROUGH, room.limits.tol))
    with Held(part.X, part.y, part.weight).passes() as passes:
        found = solve(Room(passes, room.lift, limits), functions, solver, penalty, strength, begun)
    return [fit.next(start) for fit, start in zip(found, begun, strict=True)]


def _origin(fit: DataFit, m: int, intercept: bool) -> Start:
    """The best constant, and an envelope that reaches as far as targets do."""
    theta = np.zeros((m + int(intercept), fit.y.shape[1]))
    zero, total = np.zeros_like(fit.y), float(fit.w.sum())
    if intercept and not np.any(np.ptp(fit.y, axis=0) == 0.0):
        theta[m] = best_constant(fit, zero, np.zeros(fit.y.shape[1]))
    slope, typical = np.abs(fit.gradient(zero + (theta[m] if intercept else 0.0))), total / fit.w.size
    steep = max(float(np.mean(slope[slope > 0])) if slope.any() else typical, 1e-3 * typical)
    reach = max(float(np.mean(np.abs(fit.y))), 1e-12)
    return Start(theta, reach / steep, reach / steep, least_scale(fit, intercept) / total)
