"""Small problems on one dense matrix, all solved in one compiled call.

Below some two thousand rows, the working sets and caches of ``smo`` cost more than they save. Here pair steps and the
active-set method run on K itself, for all pairs of classes at once. Only solutions whose certificate holds are
returned; ``smo`` solves the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.progress import Clock
from gramian.resources import run, spans
from gramian.solvers.svm.row_cache import Index
from gramian.solvers.svm.tasks import (
    EPSILON,
    EXCESS,
    FEASIBLE,
    NOISE,
    PAIR,
    TINIEST,
    VANISHED,
    Solution,
    Task,
    gap_terms,
    multipliers,
    nothing,
    slopes,
    violations,
)

Array = NDArray[np.float64]
FLAT = ("linear", "lower", "upper", "start", "objects")

SMALL = 2048
"""Up to this many rows, the whole matrix is computed."""
STEPS = 20
"""Limit on pair steps, per variable; a problem that needs more is left to ``smo``."""
WORK = 3e7
"""Limit on operations of the active-set method on one problem."""
THREADED = 4000
"""From this many variables in total, problems are solved in several threads."""
FINER = 3
"""How often the tolerance is lowered if the gap is still too large."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Tasks of one kind, concatenated into the arrays of a single task."""

    task: Task  # ``objects`` are rows of the matrix; ``split`` is unused
    edges: Index  # (p + 1,): Where each task begins, and where the last ends
    splits: Index  # (p,): Where the second group of each task begins, relative to the task

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> Batch:
        """Concatenate tasks."""
        flat: Any = {name: np.concatenate([getattr(task, name) for task in tasks]) for name in FLAT}
        sizes, splits = [task.start.size for task in tasks], [task.split for task in tasks]
        return cls(replace(tasks[0], **flat), np.cumsum([0, *sizes]), np.array(splits))

    def tasks(self) -> Iterator[Task]:
        """Yield the tasks, their objects numbered from zero in each."""
        whole = self.task
        for (a, z), split in zip(pairwise(self.edges.tolist()), self.splits.tolist(), strict=True):
            parts = whole.linear[a:z], whole.lower[a:z], whole.upper[a:z], whole.start[a:z], np.arange(z - a)
            yield Task(*parts, split, whole.kink, whole.scaled)

    def __len__(self) -> int:
        return self.splits.size

    def sums(self, values: Array) -> Array:
        """Return the sum over each problem: values (m,) → (p,)."""
        return np.add.reduceat(values, self.edges[:-1])

    @cached_property
    def sizes(self) -> Index:
        """(p,): Number of variables of each problem."""
        return np.diff(self.edges)

    @cached_property
    def groups(self) -> tuple[Index, Index, slice, slice]:
        """Where groups begin, their sizes, and the first and the last group of each problem; all have one, or two."""
        starts = self.edges[:-1]
        if self.splits[0] == self.sizes[0]:
            return starts, self.sizes, slice(None), slice(None)
        starts = np.column_stack([starts, starts + self.splits]).ravel()
        return starts, np.diff(starts, append=self.edges[-1]), slice(0, None, 2), slice(1, None, 2)


@dataclass(eq=False)
class Answers:
    """The solutions of a batch, and the entries of their certificates."""

    batch: Batch
    beta: Array  # (m,)
    values: Array  # (m,): Kβ
    multipliers: Array  # (p, 2): Of the first and the last group
    met: NDArray[np.bool_]  # (p,): Whether the certificate holds, by the rules of ``smo``
    dual: Array  # (p,)
    gap: Array  # (p,)
    relative: Array  # (p,)
    violation: Array  # (p,)
    steps: Array  # (p,): Pair steps
    seconds: float

    @cached_property
    def scales(self) -> Array:
        """(p,): The divisors that turn β into coefficients: ``Solution.unit`` of scaled tasks, else one."""
        first, last = self.multipliers.T
        return 0.5 * (first - last) if self.batch.task.scaled else np.ones(len(self.batch))

    @property
    def biases(self) -> Array:
        """(p,): The biases, divided by the scales."""
        return -0.5 * self.multipliers.sum(axis=1) / self.scales

    def certificates(self) -> list[Certificate]:
        """Return the certificate of each problem, as if it held."""
        columns = self.dual + self.gap, self.dual, self.relative, self.violation, self.steps.astype(np.intp)
        same = {"kind": "duality gap", "converged": True, "seconds": self.seconds / len(self.batch), "message": ""}
        found = []
        for primal, dual, gap, violation, steps in zip(*(c.tolist() for c in columns), strict=True):
            certificate = object.__new__(Certificate)  # frozen: assigning field by field takes five times as long
            vars(certificate).update(same, primal=primal, dual=dual, gap=gap, violation=violation, iterations=steps)
            found.append(certificate)
        return found

    def solutions(self) -> Iterator[Solution | None]:
        """Yield the solution of each problem, or None if its certificate does not hold."""
        edges, levels = pairwise(self.batch.edges.tolist()), self.multipliers.tolist()
        for met, (a, z), level, certificate in zip(self.met, edges, levels, self.certificates(), strict=True):
            answer = Solution(self.beta[a:z], self.values[a:z], tuple(level), certificate, True, False)
            yield answer if met else None


@dataclass(frozen=True, eq=False)
class _Descent:
    K: Array
    batch: Batch
    rounding: float  # Rounding error of a kernel value, relative to the largest k(x, x)

    @cached_property
    def scale(self) -> float:
        """The largest k(x, x)."""
        return float(np.abs(self.K.diagonal()[self.batch.task.objects]).max(initial=0.0)) or 1.0

    @cached_property
    def pulled(self) -> bool:
        return bool(self.batch.task.linear.any())

    @cached_property
    def unit(self) -> float:
        """The unit of violations, unless the solution is scaled."""
        task = self.batch.task
        return 1.0 if self.pulled or task.scaled else self.scale * float(task.upper.max())

    @cached_property
    def worth(self) -> Array:
        """(p,): The scale of each objective."""
        task, batch = self.batch.task, self.batch
        most = np.maximum(np.abs(task.lower), np.abs(task.upper))
        if self.pulled:
            return batch.sums(most * (np.abs(task.linear) + task.kink))
        return self.scale * batch.sums(most) * batch.sums(np.abs(task.start))

    def run(self, beta: Array, tol: float, limit: int, polished: int, workers: int) -> tuple[Array, Array]:
        """Improve β in place; return the gradient there and the figures of each problem: → (m,), (p, 3)."""
        from gramian.solvers.svm.pair_steps import solve_all

        task, batch = self.batch.task, self.batch
        gradient, figures = np.empty(beta.size), np.zeros((len(batch), 3))
        # One type each, since solve_all is compiled for every combination of types.
        options = float(task.kink), float(tol), limit, polished, WORK, NOISE["float64"], task.scaled, float(self.unit)

        def share(part: slice) -> None:
            edges = batch.edges[part.start : part.stop + 1]
            flat = (a[edges[0] : edges[-1]] for a in (task.objects, task.linear, task.lower, task.upper))
            found = (a[edges[0] : edges[-1]] for a in (beta, gradient))
            solve_all(self.K, edges - edges[0], batch.splits[part], *flat, *options, *found, figures[part])

        workers = workers if beta.size > THREADED else 1
        run(share, spans(len(batch), -(-len(batch) // workers)), workers)
        return gradient, figures

    def judged(self, beta: Array, gradient: Array, spread: Array, tol: float) -> Answers:
        """Compute the certificate of each problem, and whether it holds."""
        batch, task = self.batch, self.batch.task
        starts, widths, first, last = batch.groups
        up, down = slopes(task, beta, gradient)
        level, worst = multipliers(up, down, starts), violations(up, down, starts)
        values, size, lost = gradient - task.linear, batch.sums(np.abs(beta)), np.sqrt(batch.sums(beta**2))
        lost = self.rounding * self.scale * lost
        norm2 = batch.sums(beta * values)
        dual = -0.5 * norm2 - batch.sums(task.linear * beta + task.kink * np.abs(beta))
        excess = gradient - np.repeat(level, widths)
        gap = batch.sums(gap_terms(task, beta, excess))
        careful = batch.sums(gap_terms(task, beta, excess, np.repeat(EXCESS * lost, batch.sizes)))
        gap = np.maximum(gap, 0.0)
        units = (
            np.maximum(0.5 * (level[first] - level[last]), TINIEST) if task.scaled else np.full(len(batch), self.unit)
        )
        objective = np.maximum(
            np.maximum(np.abs(dual), np.abs(dual + gap)), np.maximum(nothing(tol) * self.worth, TINIEST)
        )
        violation = np.maximum(worst[first], worst[last]) / units
        off = np.abs(np.add.reduceat(beta - task.start, starts))
        met = violation + PAIR * lost / units <= tol
        met &= careful <= tol * objective
        met &= np.maximum(off[first], off[last]) <= FEASIBLE * np.maximum(size, batch.sums(np.abs(task.start)))
        if task.scaled:
            met &= norm2 > np.maximum(VANISHED * spread, 64.0 * EPSILON * self.scale) * (0.5 * size) ** 2
        both = np.array([level[first], level[last]]).T
        figures = dual, gap, gap / objective, np.maximum(violation, 0.0), np.zeros(len(batch)), 0.0
        return Answers(batch, beta, values, both, met, *figures)


def solve_dense(
    K: Array, batch: Batch, tol: float, rounding: float, polished: int, max_iter: int = -1, workers: int = 1
) -> Answers:
    """Solve all problems of a batch, whose objects are rows of K."""
    from gramian.solvers.svm.pair_steps import FAILED, SPREAD
    from gramian.solvers.svm.pair_steps import STEPS as TAKEN

    clock, descent = Clock(), _Descent(K, batch, max(EPSILON, rounding))
    beta, largest, steps = batch.task.start.astype(np.float64), int(batch.sizes.max()), np.zeros(len(batch))
    # The gap is relative: targets much smaller than one need a finer tolerance from the start.
    fine = tol * min(float(np.ptp(batch.task.linear)) or 1.0, 1.0)
    limit = int(min(STEPS * largest, math.inf if max_iter < 0 else max_iter))
    for _ in range(FINER):
        gradient, figures = descent.run(beta, fine, limit, polished, workers)
        steps += figures[:, TAKEN]
        found, failed = descent.judged(beta, gradient, figures[:, SPREAD], tol), figures[:, FAILED] > 0.0
        if found.met.all() or failed.any() or largest <= polished:
            break
        fine *= 0.3
    met = found.met & ~failed
    if max_iter >= 0:
        met &= steps < max_iter  # leave those that reached max_iter to smo, which reports it
    found.met, found.steps, found.seconds = met, steps, clock.seconds
    return found
