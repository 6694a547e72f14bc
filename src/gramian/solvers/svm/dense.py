"""Small problems on one dense matrix, all of them solved in one compiled call.

What ``smo`` does with working sets, caches and threads is not worth its overhead below some two thousand rows. Here
pair steps and the active-set method run on K itself. Only an answer whose certificate holds is returned, so that
``smo`` has the last word on anything difficult.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.progress import Clock
from gramian.resources import run, spans
from gramian.solvers.svm.row_cache import Index
from gramian.solvers.svm.tasks import EPSILON, FEASIBLE, NOTHING, PAIR, TINIEST, VANISHED, Solution, Task
from gramian.solvers.svm.tasks import NOISE as NOISES

Array = NDArray[np.float64]
BOUNDS = ("linear", "lower", "upper")
NOISE = NOISES["float64"]

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


@dataclass(frozen=True, eq=False)
class _Problems:
    """Problems of one kind on the rows of one matrix, one behind the other in flat arrays."""

    K: Array
    edges: Index  # Where each begins, and the last ends
    splits: Index  # Of each, where its second group begins
    ids: Index  # The row of K behind each variable
    linear: Array
    lower: Array
    upper: Array
    kink: float
    scaled: bool
    rounding: float  # Of a kernel value, relative to the largest k(x, x)
    scale: float  # The largest k(x, x)
    unit: float  # What violations are divided by, unless the answer is scaled
    worth: Array  # The scale of each objective

    @classmethod
    def of(cls, K: Array, problems: Sequence[tuple[Task, Index]], rounding: float) -> _Problems:
        """Put tasks one behind the other."""
        kind = problems[0][0]
        edges = np.cumsum([0, *(ids.size for _, ids in problems)])
        linear, lower, upper = (np.concatenate([getattr(task, name) for task, _ in problems]) for name in BOUNDS)
        start = np.concatenate([task.start for task, _ in problems])
        scale = float(np.abs(K.diagonal()).max(initial=0.0)) or 1.0
        most, pulled = np.maximum(np.abs(lower), np.abs(upper)), bool(linear.any())
        worth = np.add.reduceat(most * (np.abs(linear) + kind.kink) if pulled else most, edges[:-1])
        worth = worth if pulled else scale * worth * np.add.reduceat(np.abs(start), edges[:-1])
        unit = 1.0 if pulled or kind.scaled else scale * float(upper.max())
        splits, ids = np.array([task.split for task, _ in problems]), np.concatenate([ids for _, ids in problems])
        numbers = (float(kind.kink), kind.scaled, max(EPSILON, rounding), scale, unit, worth)
        return cls(K, edges, splits, ids, linear, lower, upper, *numbers)

    def solve(self, beta: Array, values: Array, tol: float, limit: int, polished: int, workers: int) -> Array:
        """Go on from β, which is overwritten, as are the values Kβ; return the figures of each: → (p, figures)."""
        figures = np.zeros((self.splits.size, inner().FIGURES))
        options = self.kink, tol, limit, polished, WORK, NOISE, self.rounding * self.scale, self.scaled, self.unit

        def share(part: slice) -> None:
            bounds = self.edges[part.start : part.stop + 1]
            given = (a[bounds[0] : bounds[-1]] for a in (self.ids, self.linear, self.lower, self.upper))
            answers = (a[bounds[0] : bounds[-1]] for a in (beta, values))
            inner().solve_all(self.K, bounds - bounds[0], self.splits[part], *given, *options, *answers, figures[part])

        workers = workers if self.ids.size > THREADED else 1
        run(share, spans(self.splits.size, -(-self.splits.size // workers)), workers)
        return figures

    def judged(self, figures: Array, tol: float) -> _Verdicts:
        """Say of each problem whether its certificate holds, by the rules of ``smo``."""
        at = inner()
        units = np.full(len(figures), self.unit)
        if self.scaled:
            units = np.maximum(0.5 * (figures[:, at.FIRST] - figures[:, at.SECOND]), TINIEST)
        dual, gap = figures[:, at.DUAL], np.maximum(figures[:, at.GAP], 0.0)
        size = np.maximum.reduce([np.abs(dual), np.abs(dual + gap), np.maximum(NOTHING * self.worth, TINIEST)])
        violation = figures[:, at.VIOLATION] / units
        met = violation + PAIR * self.rounding * self.scale * figures[:, at.LENGTH] / units <= tol
        met &= (figures[:, at.CAREFUL_GAP] <= tol * size) & (figures[:, at.OFF] <= FEASIBLE)
        if self.scaled:
            nothing = np.maximum(VANISHED * figures[:, at.SPREAD], 64.0 * EPSILON * self.scale)
            met &= figures[:, at.NORM2] > nothing * (0.5 * figures[:, at.SIZE]) ** 2
        return _Verdicts(met, figures[:, at.FAILED] > 0.0, dual, gap, gap / size, np.maximum(violation, 0.0))


@dataclass(frozen=True, eq=False)
class _Verdicts:
    """What is known of each problem at the end."""

    met: NDArray[np.bool_]
    failed: NDArray[np.bool_]
    dual: Array
    gap: Array
    relative: Array
    violation: Array


def inner() -> Any:
    """The compiled part, whose import costs a good part of a second."""
    from gramian.solvers.svm import dense_inner

    return dense_inner


def solve_dense(
    K: Array,
    problems: Sequence[tuple[Task, Index]],
    tol: float,
    rounding: float,
    polished: int,
    max_iter: int = -1,
    workers: int = 1,
) -> list[Solution | None]:
    """Solve tasks of one kind, each of the rows of K behind its variables; None where the certificate does not hold."""
    clock, all_of, at = Clock(), _Problems.of(K, problems, rounding), inner()
    beta = np.concatenate([task.start for task, _ in problems])
    values, largest = np.empty(beta.size), int(np.diff(all_of.edges).max())
    # Targets much smaller than one want a finer tolerance from the start, for the sake of the gap.
    fine = tol * min(float(np.ptp(all_of.linear)) or 1.0, 1.0)
    limit = int(min(STEPS * largest, math.inf if max_iter < 0 else max_iter))
    steps = np.zeros(len(problems))
    for _ in range(FINER):
        figures = all_of.solve(beta, values, fine, limit, polished, workers)
        steps += figures[:, at.STEPS]
        told = all_of.judged(figures, tol)
        if told.met.all() or told.failed.any() or largest <= polished:
            break
        fine *= 0.3
    met = told.met & ~told.failed
    if max_iter >= 0:  # the general solver says that it was reached
        met &= steps < max_iter
    seconds = clock.seconds / len(problems)
    found: list[Solution | None] = []
    for p, (start, stop) in enumerate(pairwise(all_of.edges.tolist())):
        certificate = Certificate(
            kind="duality gap",
            primal=float(told.dual[p] + told.gap[p]),
            dual=float(told.dual[p]),
            gap=float(told.relative[p]),
            violation=float(told.violation[p]),
            converged=True,
            iterations=int(steps[p]),
            seconds=seconds,
        )
        multipliers = float(figures[p, at.FIRST]), float(figures[p, at.SECOND])
        solution = Solution(beta[start:stop], values[start:stop], multipliers, certificate, True, False)
        found.append(solution if met[p] else None)
    return found
