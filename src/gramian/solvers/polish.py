"""The last digits of a small quadratic program: an active-set method that starts next to the optimum.

SMO leaves a violation of about its tolerance, and which point it stops at depends on the order of the rows. Here the
KKT equations of the variables inside their bounds are solved as the linear system that they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["polish"]

Vector = NDArray[np.float64]
ROUNDS = 200
SOLVED = 1e-9
FAR = 1e12
EXACT = 1e-12
"""A violation below this, relative to the gradient, is rounding."""


@dataclass
class _Segments:
    """The linear pieces of the problem on which the moving variables are; the others rest."""

    moving: NDArray[np.bool_]
    low: Vector
    high: Vector
    offset: Vector


def polish(K: Vector, linear: Vector, lower: Vector, upper: Vector, beta: Vector, split: int, kink: float) -> Vector:
    """Improve a nearly optimal β until its KKT conditions hold to rounding, as far as the kernel's rank allows.

    Parameters
    ----------
    K : array of shape (m, m)
        Kernel of the variables.
    linear, lower, upper, beta : array of shape (m,)
        The linear term, the bounds, and where to start.
    split : int
        Variables before it share one equality constraint, those from it on another.
    kink : float
        The ε of ε|β|.

    Returns
    -------
    array of shape (m,)
        A feasible β.
    """
    beta = beta.copy()
    second = np.arange(beta.size) >= split
    segments = _start(beta, lower, upper, kink)
    for _ in range(ROUNDS):
        gradient = K @ beta + linear
        step = _newton(K, gradient + segments.offset, segments.moving, second)
        if _advance(beta, step, segments):
            continue
        gradient = K @ beta + linear
        up = np.where(beta < upper, gradient + np.where(beta >= 0, kink, -kink), np.inf)
        down = np.where(beta > lower, gradient + np.where(beta > 0, kink, -kink), -np.inf)
        if not _release(beta, lower, upper, kink, up, down, second, segments):
            break
    return beta


def _start(beta: Vector, lower: Vector, upper: Vector, kink: float) -> _Segments:
    moving = (beta > lower) & (beta < upper) & ((beta != 0) | (kink == 0))
    low = np.where((kink > 0) & (beta > 0), 0.0, lower)
    high = np.where((kink > 0) & (beta < 0), 0.0, upper)
    return _Segments(moving, low, high, kink * np.sign(beta))


def _newton(K: Vector, slope: Vector, moving: NDArray[np.bool_], second: NDArray[np.bool_]) -> Vector:
    """The step of the moving variables to where their slopes are equal, group by group.

    A kernel of low rank may have no such point: then the objective falls along a straight line, and the step is far
    down that line, for a bound to stop it.
    """
    (free,) = np.nonzero(moving)
    step = np.zeros(moving.size)
    if not free.size:
        return step
    groups = [g for g in (second[free], ~second[free]) if g.any()]
    A = np.array(groups, dtype=np.float64)
    system = np.block([[K[np.ix_(free, free)], A.T], [A, np.zeros((len(A), len(A)))]])
    target = np.concatenate([-slope[free], np.zeros(len(A))])
    size = max(float(np.abs(target).max()), 1.0)
    found = _solved(system, target, size)
    # What a least-squares solution leaves over is orthogonal to the system's range: no curvature, only slope.
    rest = (target - system @ found)[: free.size]
    step[free] = found[: free.size] if np.abs(rest).max() <= SOLVED * size else FAR * rest / np.abs(rest).max()
    return step


def _solved(system: Vector, target: Vector, size: float) -> Vector:
    """The solution of a symmetric system, or of the least-squares problem where it has none."""
    try:
        found = np.linalg.solve(system, target)
        found += np.linalg.solve(system, target - system @ found)
        if np.abs(found).max() < 1e8 * size and np.abs(system @ found - target).max() <= SOLVED * size:
            return np.asarray(found, dtype=np.float64)
    except np.linalg.LinAlgError:
        pass
    return np.asarray(np.linalg.lstsq(system, target, rcond=1e-13)[0], dtype=np.float64)


def _advance(beta: Vector, step: Vector, segments: _Segments) -> bool:
    """Go as far as the segments allow; tell whether a variable was stopped by an end."""
    room = np.where(step > 0, segments.high - beta, beta - segments.low)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(segments.moving & (step != 0), room / np.abs(step), np.inf)
    length = min(float(share.min(initial=np.inf)), 1.0)
    beta += length * step
    stopped = segments.moving & (share <= length)
    if length >= 1.0 and not stopped.any():
        return False
    beta[stopped] = np.where(step > 0, segments.high, segments.low)[stopped]
    segments.moving &= ~stopped
    return True


def _release(
    beta: Vector,
    lower: Vector,
    upper: Vector,
    kink: float,
    up: Vector,
    down: Vector,
    second: NDArray[np.bool_],
    segments: _Segments,
) -> bool:
    """Let the worst violating pair move; tell whether there was one."""
    best = (0.0, -1, -1)
    for group in (~second, second):
        (members,) = np.nonzero(group)
        if members.size:
            i, j = members[np.argmin(up[members])], members[np.argmax(down[members])]
            best = max(best, (float(down[j] - up[i]), int(i), int(j)))
    violation, i, j = best
    finite = up[np.isfinite(up)]
    if not violation > EXACT * max(float(np.abs(finite).max(initial=0.0)), 1.0) or (
        segments.moving[i] and segments.moving[j]
    ):
        return False
    for v, rising in ((i, True), (j, False)):
        above = beta[v] >= 0 if rising else beta[v] > 0
        segments.moving[v] = True
        segments.offset[v] = kink if above else -kink
        segments.low[v] = 0.0 if kink > 0 and above else lower[v]
        segments.high[v] = 0.0 if kink > 0 and not above else upper[v]
    return True
