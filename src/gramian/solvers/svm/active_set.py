"""A primal active-set method for a small quadratic program, started close to the optimum.

SMO leaves a violation of about its tolerance, and where it stops depends on the order of the rows. Here the KKT
equations of the variables between their bounds are solved as a linear system, in the space in which the sums of the
groups do not change; steps end at the first bound.

Steps are taken by the compiled code that ``dense`` uses too. That solves its small systems in compiled code; here they
are larger, and solved by LAPACK.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from gramian.progress import Clock
from gramian.solvers.svm.tasks import EPSILON, State, Vector, slopes

Mask = NDArray[np.bool_]
ROUNDS = 5
"""Limit on rounds, per variable."""
RIDGE = 1e-14
"""Added to the diagonal of the system, relative to its largest entry; the kernel need not have full rank."""
FOREVER = Clock()


def polish(K: Vector, state: State, clock: Clock = FOREVER) -> Vector:
    """Improve a feasible β until KKT holds to rounding, as far as the rank of the kernel allows."""
    from gramian.solvers.svm.pair_steps import advance

    task, start = state.task, state.beta
    K = np.ascontiguousarray(K[np.ix_(task.objects, task.objects)])
    beta, root, largest = start.copy(), np.sqrt(np.abs(K.diagonal())), float(np.abs(task.linear).max())
    gradient = K @ beta + task.linear
    # The side of the kink on which each variable is, and whether it is free.
    sign = np.sign(beta)
    moving = (beta > task.lower) & (beta < task.upper) & ((sign != 0) | (task.kink == 0))
    memo = np.array([1.0, np.inf])
    for _ in range(ROUNDS * beta.size):
        noise = EPSILON * (float(root.max()) * float(root @ np.abs(beta)) + largest)
        step = _newton(K, gradient + task.kink * sign, moving, state.groups, noise)
        box = task.linear, task.lower, task.upper, float(task.kink), task.split
        if advance(K, *box, noise, step, beta, gradient, sign, moving, memo) or clock.expired:
            break
    for g in state.groups:
        beta[g] = _repaired(beta[g], task.lower[g], task.upper[g], float(start[g].sum()))
    # The mean of both gradients times the step: the difference of the objectives without cancellation.
    middle = 0.5 * (K @ (beta + start)) + task.linear
    rise = float(middle @ (beta - start) + task.kink * (np.abs(beta) - np.abs(start)).sum())
    if abs(rise) > noise * float(np.abs(beta - start).sum()):
        return beta if rise < 0.0 else start
    ends = (slopes(task, b, K @ b + task.linear) for b in (start, beta))
    before, after = (state.violation(*each) for each in ends)
    return beta if after <= before else start


def _newton(K: Vector, slope: Vector, moving: Mask, groups: list[slice], noise: float) -> Vector:
    """The Newton step of the moving variables; a very long one along a direction without curvature."""
    (free,) = np.nonzero(moving)
    step, edges = np.zeros(moving.size), np.searchsorted(free, [g.start for g in groups])
    parts = [slice(a, b) for a, b in zip(edges, [*edges[1:], free.size], strict=True) if a < b]
    slope = _centred(slope[free], parts)
    if not free.size or float(np.abs(slope).max()) <= noise:
        return step
    centred = _centred(_centred(K[np.ix_(free, free)], parts).T, parts)
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


def _centred(a: Vector, parts: list[slice]) -> Vector:
    """Rows minus the mean of their group."""
    a = a.copy()
    for part in parts:
        a[part] -= a[part].mean(axis=0)
    return a


def _repaired(beta: Vector, lower: Vector, upper: Vector, total: float) -> Vector:
    """β clipped to its bounds and restored to a given sum, by changing free variables first."""
    beta = np.clip(beta, lower, upper)
    free = (beta > lower) & (beta < upper)
    for v in (*np.flatnonzero(free), *np.flatnonzero(~free)):
        rest = total - float(beta.sum())
        if abs(rest) <= EPSILON * float(np.abs(beta).sum()):
            break
        beta[v] = np.clip(beta[v] + rest, lower[v], upper[v])
    return np.asarray(beta)
