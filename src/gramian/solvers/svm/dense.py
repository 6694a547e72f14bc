"""Small problems on one dense matrix, all of them solved in one compiled call.

What ``smo`` does with working sets, caches and threads is not worth its overhead below some two thousand rows. Here
pair steps and the active-set method run on K itself. Only an answer whose certificate holds is returned, so that
``smo`` has the last word on anything difficult.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.progress import Clock
from gramian.resources import run, spans
from gramian.solvers.svm.row_cache import Index
from gramian.solvers.svm.tasks import Solution, Task

DENSE = 2048
"""Rows up to which the whole matrix is made."""
STEPS = 20
"""Pair steps for each variable, at most: then the problem is not an easy one."""
WORK = 3e7
"""Operations of the active-set method on one problem, at most."""
THREADED = 4000
"""Variables of all problems together that are worth a second thread."""
FINER = 3
"""How often the tolerance is lowered for the sake of the gap."""
NOISE = 1e-9
"""Negative curvature, relative to the diagonal, that rounding of the kernel can explain."""
VANISHED = 1e-9
"""Two hulls meet where their squared distance, relative to the largest among objects, is below this."""
FEASIBLE = 1e-12
"""What a sum of variables may be off, relative to the sum of their sizes."""
NOTHING = 1e-10
"""An objective below this share of what it is made of, C |y| or the squared norms of objects, is taken for zero."""
PAIR = 4.0
"""A violation is a difference of two values, each of them with the rounding of its sum and of its kernel values."""
EPSILON = float(np.finfo(np.float64).eps)
TINIEST = float(np.finfo(np.float64).tiny)


def solve_dense(
    K: NDArray[np.float64],
    problems: Sequence[tuple[Task, Index]],
    tol: float,
    rounding: float,
    polished: int,
    max_iter: int = -1,
    workers: int = 1,
) -> list[Solution | None]:
    """Solve tasks of one kind, each of the rows of K behind its variables; None where the certificate does not hold."""
    from gramian.solvers.svm import dense_inner as inner

    clock, kind, rounding = Clock(), problems[0][0], max(EPSILON, rounding)
    sizes = np.array([ids.size for _, ids in problems])
    edges = np.concatenate([[0], np.cumsum(sizes)])
    ids = np.concatenate([ids for _, ids in problems])
    linear, lower, upper, beta = (
        np.concatenate([getattr(task, name) for task, _ in problems]) for name in ("linear", "lower", "upper", "start")
    )
    splits = np.array([task.split for task, _ in problems])
    scale = float(np.abs(K.diagonal()).max(initial=0.0)) or 1.0
    pulled = bool(linear.any())
    most = np.maximum(np.abs(lower), np.abs(upper))
    worth = np.add.reduceat(most * (np.abs(linear) + kind.kink) if pulled else most, edges[:-1])
    worth = worth if pulled else scale * worth * np.add.reduceat(np.abs(beta), edges[:-1])
    unit = 1.0 if pulled or kind.scaled else scale * float(upper.max())
    # Targets much smaller than one want a finer tolerance from the start, for the sake of the gap.
    fine, values = tol * min(float(np.ptp(linear)) or 1.0, 1.0), np.empty(beta.size)
    limit = int(min(STEPS * sizes.max(), math.inf if max_iter < 0 else max_iter))
    steps = np.zeros(sizes.size)

    def share(options: tuple[Any, ...], figures: NDArray[np.float64], part: slice) -> None:
        bounds = edges[part.start : part.stop + 1]
        arrays = (a[bounds[0] : bounds[-1]] for a in (ids, linear, lower, upper))
        answers = (a[bounds[0] : bounds[-1]] for a in (beta, values))
        inner.solve_all(K, bounds - bounds[0], splits[part], *arrays, *options, *answers, figures[part])

    for _ in range(FINER):
        figures = np.zeros((sizes.size, inner.FIGURES))
        options = float(kind.kink), fine, limit, polished, WORK, NOISE, rounding * scale, kind.scaled, unit

        workers = workers if ids.size > THREADED else 1
        run(partial(share, options, figures), spans(sizes.size, -(-sizes.size // workers)), workers)
        steps += figures[:, inner.STEPS]
        figures[:, inner.STEPS] = steps
        units = np.full(sizes.size, unit)
        if kind.scaled:
            units = np.maximum(0.5 * (figures[:, inner.FIRST] - figures[:, inner.SECOND]), TINIEST)
        dual, gap = figures[:, inner.DUAL], np.maximum(figures[:, inner.GAP], 0.0)
        size = np.maximum.reduce([np.abs(dual), np.abs(dual + gap), NOTHING * worth, np.full(dual.size, TINIEST)])
        violation = figures[:, inner.VIOLATION] / units
        met = violation + PAIR * rounding * scale * figures[:, inner.LENGTH] / units <= tol
        met &= (figures[:, inner.CAREFUL_GAP] <= tol * size) & (figures[:, inner.OFF] <= FEASIBLE)
        if kind.scaled:
            nothing = np.maximum(VANISHED * figures[:, inner.SPREAD], 64.0 * EPSILON * scale)
            met &= figures[:, inner.NORM2] > nothing * (0.5 * figures[:, inner.SIZE]) ** 2
        failed = figures[:, inner.FAILED] > 0.0
        if met.all() or failed.any() or sizes.max() <= polished:
            break
        fine *= 0.3
    met &= ~failed
    if max_iter >= 0:  # the general solver says that it was reached
        met &= steps < max_iter
    seconds = clock.seconds / sizes.size
    columns = (
        met,
        edges,
        edges[1:],
        dual,
        gap,
        gap / size,
        violation,
        steps,
        figures[:, inner.FIRST],
        figures[:, inner.SECOND],
    )
    found: list[Solution | None] = []
    for good, a, z, low, excess, relative, worst, taken, first, second in zip(
        *(c.tolist() for c in columns), strict=False
    ):
        certificate = good and Certificate(
            kind="duality gap",
            primal=low + excess,
            dual=low,
            gap=relative,
            violation=max(worst, 0.0),
            converged=True,
            iterations=int(taken),
            seconds=seconds,
        )
        multipliers = first, second
        found.append(Solution(beta[a:z], values[a:z], multipliers, certificate, True, False) if certificate else None)
    return found
