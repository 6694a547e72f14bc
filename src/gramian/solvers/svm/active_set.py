"""A primal active-set method for a small quadratic program, started next to the optimum.

SMO leaves a violation of about its tolerance, and which point it stops at depends on the order of the rows. Here the
KKT equations of the variables inside their bounds are solved as the linear system that they are, in the space in which
the sums of the groups do not change; a step is never longer than the bounds and the objective allow.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from gramian.progress import Clock
from gramian.solvers.svm.tasks import State, Vector

Mask = NDArray[np.bool_]
ROUNDS = 5
"""Rounds for each variable, at most."""
RIDGE = 1e-14
"""Added to the diagonal of the system, relative to its largest entry; the kernel need not have full rank."""
FOREVER = Clock()
EPSILON = float(np.finfo(np.float64).eps)


def polish(K: Vector, state: State, clock: Clock = FOREVER) -> Vector:
    """Improve a feasible β until its KKT conditions hold to rounding, as far as the kernel's rank allows."""
    task, start = state.task, state.beta
    groups = [np.arange(g.start, g.stop) for g in state.groups if g.stop > g.start]
    beta, root = start.copy(), np.sqrt(np.abs(K.diagonal()))
    state = replace(state, beta=beta, values=K @ state.by_object)
    # The linear piece of the objective on which each variable is, and whether it moves there or rests.
    sign = np.sign(beta)
    moving = (beta > task.lower) & (beta < task.upper) & ((sign != 0) | (task.kink == 0))
    fresh, spread = True, np.inf
    for _ in range(ROUNDS * beta.size):
        noise = EPSILON * (float(root.max()) * float(root @ np.abs(state.by_object)) + float(np.abs(task.linear).max()))
        low = np.where((task.kink > 0) & (sign > 0), 0.0, task.lower)
        high = np.where((task.kink > 0) & (sign < 0), 0.0, task.upper)
        before, slope = beta.copy(), state.gradient + task.kink * sign
        stopped = _advance(beta, _newton(K, task.objects, slope, moving, groups, noise), moving, low, high)
        state.values += K @ state.summed(beta - before)
        fresh &= bool(np.array_equal(beta, before))
        if stopped:
            continue
        found = _violators(*state.slopes(), groups, moving, 4.0 * noise)
        for v, rising in found:
            moving[v], sign[v] = True, 1.0 if beta[v] > 0 or (rising and beta[v] == 0) else -1.0
        if clock.expired:
            break
        if found:
            spread = np.inf
        elif not fresh:
            state.values, fresh = K @ state.by_object, True
        else:
            # No variable is to move; another step removes what rounding left of the last one, if anything.
            last, spread = spread, _spread(state.gradient + task.kink * sign, moving, groups)
            if not noise < spread < 0.5 * last:
                break
    for g in groups:
        beta[g] = _repaired(beta[g], task.lower[g], task.upper[g], float(start[g].sum()))
    # Half the sum of both gradients times the way: the difference of two objectives, without their rounding.
    middle = 0.5 * (K @ state.summed(beta + start))[task.objects] + task.linear
    rise = float(middle @ (beta - start) + task.kink * (np.abs(beta) - np.abs(start)).sum())
    return beta if rise <= 0.0 else start


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


def _newton(
    K: Vector, objects: NDArray[np.intp], slope: Vector, moving: Mask, groups: list[NDArray[np.intp]], noise: float
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


def _advance(beta: Vector, step: Vector, moving: Mask, low: Vector, high: Vector) -> bool:
    """Go as far as the ends of the pieces allow; tell whether a variable was stopped by one, and now rests."""
    room = np.where(step > 0, high - beta, beta - low)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(moving & (step != 0), room / np.abs(step), np.inf)
    length = min(float(share.min(initial=np.inf)), 1.0)
    stopped = moving & (share <= length)
    beta += length * step
    beta[stopped] = np.where(step > 0, high, low)[stopped]
    moving &= ~stopped
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
