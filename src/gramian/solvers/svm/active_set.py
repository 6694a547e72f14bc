"""Newton's method on the free variables of a quadratic program, in the space in which the sums of groups do not change.

Pair steps need very many steps where the kernel matrix of the free variables is ill-conditioned. ``minimum_on_face``
solves for all of them at once: a step ends at the first bound, that variable is fixed, and the next step follows from
the same Cholesky factor by a rank-one correction.

``polish`` is a primal active-set method, for small problems that are nearly solved: SMO leaves a violation of about
its tolerance, and where it stops depends on the order of the rows. Steps are taken by the compiled code that ``dense``
uses too. That solves its small systems in compiled code; here they are larger, and solved by LAPACK.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack

from gramian.progress import Clock
from gramian.solvers.svm.tasks import EPSILON, State, Vector, slopes

Mask = NDArray[np.bool_]
ROUNDS = 5
"""Limit on rounds, per variable."""
RIDGE = 1e-14
"""Added to the diagonal of the system, relative to its largest entry; the kernel need not have full rank."""
LARGEST_RIDGE = 1e-7
"""Newton's method is not used where the Cholesky factor needs a larger ridge."""
MOST_FIXED = 256
"""Limit on variables fixed with one Cholesky factor."""
FOREVER = Clock()


def minimum_on_face(
    K: Vector, slope: Vector, beta: Vector, lower: Vector, upper: Vector, groups: list[slice]
) -> Vector | None:
    """Minimise over variables between their bounds, and fix each that reaches one: K (f, f), overwritten → β (f,).

    The result is not yet a minimum if more than ``MOST_FIXED`` reach one; None if K has no Cholesky factor.
    """
    factor, total = _factor(K), [float(beta[g].sum()) for g in groups]
    if factor is None:
        return None

    def solve(B: Vector) -> Vector:
        return np.ascontiguousarray(lapack.dpotrs(factor, B.T, lower=1)[0].T)

    beta, members = beta.copy(), np.zeros((len(groups), beta.size))
    for line, g in zip(members, groups, strict=True):
        line[g] = 1.0
    # The inverse of K between the variables that are not fixed, times the slopes and each group's indicator; it is
    # the inverse of all of K minus WᵀW.
    X, W = solve(np.vstack([slope, members])), np.empty((MOST_FIXED, beta.size))
    columns: dict[int, Vector] = {}
    for fixed in range(MOST_FIXED):
        pull = np.linalg.solve(members @ X[1:].T, members @ X[0]) @ X[1:]
        step = pull - X[0]
        room = np.full(step.size, np.inf)
        np.divide(np.where(step > 0.0, upper, lower) - beta, step, out=room, where=step != 0.0)
        i = int(room.argmin())
        if not room[i] < 1.0:
            beta += step
            break
        length = max(float(room[i]), 0.0)
        beta += length * step
        X[0] += length * step
        if not fixed:
            ahead = np.flatnonzero(room < 1.0).tolist()
            columns = dict(zip(ahead, solve(_units(ahead, beta.size)), strict=True))
        beta[i] = upper[i] if step[i] > 0.0 else lower[i]
        column = columns[i] if i in columns else solve(_units([i], beta.size))[0]
        column = (column - W[:fixed, i] @ W[:fixed]) * members.any(axis=0)  # exactly zero for fixed variables
        if not column[i] > 0.0:
            break
        W[fixed] = column / np.sqrt(column[i])
        X -= np.outer(X[:, i] / column[i], column)
        X[:, i] = members[:, i] = 0.0
        if not members.any(axis=1).all():
            break
    for g, all_of_them in zip(groups, total, strict=True):
        beta[g] = _repaired(beta[g], lower[g], upper[g], all_of_them)
    return beta


def _factor(K: Vector) -> Vector | None:
    """The lower Cholesky factor with the least ridge for which it exists, in the memory of K."""
    diagonal, ridge = K.diagonal().copy(), RIDGE
    while ridge <= LARGEST_RIDGE:
        np.fill_diagonal(K, diagonal + ridge * float(diagonal.max()))
        factor, failed = lapack.dpotrf(K.T, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return np.asarray(factor)
        for i in range(len(K)):  # LAPACK has left the triangle below the diagonal
            K[i, i:] = K[i:, i]
        ridge *= 100.0
    return None


def _units(places: list[int], size: int) -> Vector:
    found = np.zeros((len(places), size))
    found[np.arange(len(places)), places] = 1.0
    return found


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
