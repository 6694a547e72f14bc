"""A primal active-set method for a small quadratic program, started next to the optimum.

SMO leaves a violation of about its tolerance, and which point it stops at depends on the order of the rows. Here the
KKT equations of the variables inside their bounds are solved as the linear system that they are, in the space in which
the sums of the groups do not change; a step is never longer than the bounds and the objective allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from gramian.progress import Clock

__all__ = ["polish"]

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]
ROUNDS = 5
"""Rounds for each variable, at most."""
RIDGE = 1e-14
"""Added to the diagonal of the system, relative to its largest entry; the kernel need not have full rank."""
FOREVER = Clock()
EPSILON = float(np.finfo(np.float64).eps)


@dataclass
class _Segments:
    """The linear pieces of the problem on which the moving variables are; the others rest."""

    moving: Mask
    low: Vector
    high: Vector
    offset: Vector


def polish(
    K: Any,
    objects: NDArray[np.intp],
    linear: Vector,
    lower: Vector,
    upper: Vector,
    beta: Vector,
    split: int,
    kink: float,
    clock: Clock = FOREVER,
) -> Vector:
    """Improve a feasible β until its KKT conditions hold to rounding, as far as the kernel's rank allows."""
    groups = [g for g in (np.arange(split), np.arange(split, beta.size)) if g.size]
    sums = [float(beta[g].sum()) for g in groups]
    start, beta = beta, beta.copy()
    root = np.sqrt(np.abs(K.diagonal()))

    def summed(v: Vector) -> Vector:
        return np.asarray(np.bincount(objects, weights=v, minlength=root.size), dtype=np.float64)

    segments = _start(beta, lower, upper, kink)
    gradient, fresh, spread = (K @ summed(beta))[objects] + linear, True, np.inf
    for _ in range(ROUNDS * beta.size):
        noise = EPSILON * (float(root.max()) * float(root @ np.abs(summed(beta))) + float(np.abs(linear).max()))
        before, slope = beta.copy(), gradient + segments.offset
        stopped = _advance(beta, _newton(K, objects, slope, segments.moving, groups, noise), segments)
        gradient += _product(K, summed(beta - before))[objects]
        fresh &= bool(np.array_equal(beta, before))
        if stopped:
            continue
        up = np.where(beta < upper, gradient + np.where(beta >= 0, kink, -kink), np.inf)
        down = np.where(beta > lower, gradient + np.where(beta > 0, kink, -kink), -np.inf)
        found = _violators(up, down, groups, segments.moving, 4.0 * noise)
        _release(found, beta, lower, upper, kink, segments)
        if clock.expired:
            break
        if found:
            spread = np.inf
        elif not fresh:
            gradient, fresh = (K @ summed(beta))[objects] + linear, True
        else:
            # Nobody wants to move; another step removes what rounding left of the last one, if anything.
            last, spread = spread, _spread(gradient + segments.offset, segments.moving, groups)
            if not noise < spread < 0.5 * last:
                break
    for g, total in zip(groups, sums, strict=True):
        beta[g] = _repaired(beta[g], lower[g], upper[g], total)
    # Half the sum of both gradients times the way: the difference of two objectives, without their rounding.
    middle = 0.5 * (K @ summed(beta + start))[objects] + linear
    rise = float(middle @ (beta - start) + kink * (np.abs(beta) - np.abs(start)).sum())
    return beta if rise <= 0.0 else start


def _product(K: Any, step: Vector) -> Vector:
    """K times a step of few variables."""
    if not isinstance(K, np.ndarray):
        return np.asarray(K @ step)
    (moved,) = np.nonzero(step)
    return np.asarray(step[moved] @ K[moved])


def _repaired(beta: Vector, lower: Vector, upper: Vector, total: float) -> Vector:
    """β within its bounds and with a given sum; free variables first take up what is missing, in turn."""
    beta = np.clip(beta, lower, upper)
    free = (beta > lower) & (beta < upper)
    for v in (*np.flatnonzero(free), *np.flatnonzero(~free)):
        rest = total - float(beta.sum())
        if abs(rest) <= EPSILON * float(np.abs(beta).sum()):
            break
        beta[v] = np.clip(beta[v] + rest, lower[v], upper[v])
    return np.asarray(beta)


def _start(beta: Vector, lower: Vector, upper: Vector, kink: float) -> _Segments:
    moving = (beta > lower) & (beta < upper) & ((beta != 0) | (kink == 0))
    low = np.where((kink > 0) & (beta > 0), 0.0, lower)
    high = np.where((kink > 0) & (beta < 0), 0.0, upper)
    return _Segments(moving, low, high, kink * np.sign(beta))


def _newton(
    K: Any, objects: NDArray[np.intp], slope: Vector, moving: Mask, groups: list[NDArray[np.intp]], noise: float
) -> Vector:
    """The step of the moving variables to where their slopes are equal, group by group, or far down where they fall."""
    (free,) = np.nonzero(moving)
    step = np.zeros(moving.size)
    parts = [np.flatnonzero(np.isin(free, g, assume_unique=True)) for g in groups]
    slope = _centred(slope[free], parts)
    if not free.size or float(np.abs(slope).max()) <= noise:
        return step
    block = np.asarray(K[np.ix_(objects[free], objects[free])])
    centred = _centred(_centred(block, parts).T, parts)
    ridge = RIDGE * (float(np.abs(centred).max()) or 1.0)
    while True:
        try:
            factor = cho_factor(centred + ridge * np.eye(free.size), overwrite_a=True, check_finite=False)
            break
        except LinAlgError:
            ridge *= 100.0
    found = _centred(-cho_solve(factor, slope, check_finite=False), parts)
    curvature, fall = float(found @ (centred @ found)), -float(slope @ found)
    if fall > 0.0:
        step[free] = found * (fall / curvature if curvature > EPSILON * fall else 1.0 / EPSILON)
    return step


def _centred(a: Vector, parts: list[NDArray[np.intp]]) -> Vector:
    """The rows less the mean of their group."""
    a = a.copy()
    for part in parts:
        if part.size:
            a[part] -= a[part].mean(axis=0)
    return a


def _advance(beta: Vector, step: Vector, segments: _Segments) -> bool:
    """Go as far as the segments allow; tell whether a variable was stopped by an end."""
    room = np.where(step > 0, segments.high - beta, beta - segments.low)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(segments.moving & (step != 0), room / np.abs(step), np.inf)
    length = min(float(share.min(initial=np.inf)), 1.0)
    stopped = segments.moving & (share <= length)
    beta += length * step
    beta[stopped] = np.where(step > 0, segments.high, segments.low)[stopped]
    segments.moving &= ~stopped
    return bool(stopped.any())


def _spread(slope: Vector, moving: Mask, groups: list[NDArray[np.intp]]) -> float:
    """The largest difference between slopes that should be equal."""
    return max(float(np.ptp(slope[g][moving[g]])) if moving[g].any() else 0.0 for g in groups)


def _violators(
    up: Vector, down: Vector, groups: list[NDArray[np.intp]], moving: Mask, noise: float
) -> list[tuple[int, bool]]:
    """Who should move, and whether up: the worst of a group that has moving variables, the worst pair of another."""
    worst, found = noise, []
    for g in groups:
        own = moving[g]
        i, j = int(g[np.argmin(np.where(own, np.inf, up[g]))]), int(g[np.argmax(np.where(own, -np.inf, down[g]))])
        if not own.any():
            violation, pair = float(down[j] - up[i]), [(i, True), (j, False)]
        else:
            level = float(np.mean(0.5 * (up[g][own] + down[g][own])))
            rise, fall = level - float(up[i]), float(down[j]) - level
            violation, pair = (rise, [(i, True)]) if rise >= fall else (fall, [(j, False)])
        if violation > worst:
            worst, found = violation, pair
    return found


def _release(
    found: list[tuple[int, bool]], beta: Vector, lower: Vector, upper: Vector, kink: float, segments: _Segments
) -> None:
    """Let variables move on the piece that lies in their direction."""
    for v, rising in found:
        above = beta[v] >= 0 if rising else beta[v] > 0
        segments.moving[v] = True
        segments.offset[v] = kink if above else -kink
        segments.low[v] = 0.0 if kink > 0 and above else lower[v]
        segments.high[v] = 0.0 if kink > 0 and not above else upper[v]
