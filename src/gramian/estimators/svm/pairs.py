"""The pairs of classes of a training set, each told apart by a machine of its own, on kernel rows that they share."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.estimators.svm.training import Training, Vector
from gramian.progress import Clock
from gramian.resources import run
from gramian.solvers.machine.origin_row import AnchoredRows
from gramian.solvers.svm.dense import Batch, solve_dense
from gramian.solvers.svm.row_cache import Index
from gramian.solvers.svm.smo import POLISHED, solve
from gramian.solvers.svm.tasks import Solution, Task

Classes = tuple[int, int]
Members = NDArray[np.intp] | slice
EVERYBODY = slice(None)


@dataclass(frozen=True)
class Pair:
    """The machine that tells one class (positive) from another."""

    classes: Classes  # Positions in ``classes_``
    beta: Vector  # (m,): The dual variables
    scale: float  # What they have to be divided by
    bias: float  # The bias, already divided
    task: Task  # What was solved
    solution: Solution  # How it ended
    price: float = math.nan  # The C that ν stands for
    nu: float = math.nan  # The ν that was feasible and left a margin

    @property
    def coefficients(self) -> Vector:
        """The dual variables of the expansion."""
        return self.beta / self.scale

    @property
    def separates(self) -> bool:
        """Whether the machine has a direction: its w is not zero."""
        return self.scale > 0 and not self.solution.vanished

    @property
    def values(self) -> Vector:
        """The decision values of all rows of the pair, learned from or not."""
        return self.solution.values / self.scale + self.bias

    @property
    def margin(self) -> float:
        """1/‖w‖: the distance from the boundary to the margin, in feature space."""
        square = float(np.dot(self.beta, self.solution.values[self.task.objects])) / self.scale**2
        return float(1.0 / np.sqrt(square)) if square > 0 else np.inf


class Pairs:
    """The pairs of classes of one training set, and the kernel rows that they share.

    Row caches are kept by class: a row's kernel with its own class serves every pair of that class, and the rest of it
    is wanted by one pair only. Pairs without a class in common share nothing, and are solved side by side.
    """

    def __init__(self, training: Training, sizes: Any, budget: float, weight: Vector) -> None:
        # With fewer than four classes any two pairs share one: threads make kernel rows instead.
        self.workers = training.rows.workers if len(sizes) > 3 else 1
        self.kernel_rows = training.rows.on(1) if self.workers > 1 else training.rows
        self.training, self.weight = training, weight
        edges = np.cumsum([0, *sizes])
        self.blocks = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        self.budget = budget
        self.classes = list(combinations(range(len(sizes)), 2))

    @cached_property
    def caches(self) -> list[Any]:
        """A row cache of every class; two classes need no sharing, and one cache of all columns can shrink."""
        parts = [slice(0, self.blocks[-1].stop)] if len(self.blocks) == 2 else self.blocks
        return self.kernel_rows.caches(parts, self.budget)

    @cached_property
    def flat(self) -> tuple[list[slice], Index, Vector, Index]:
        """Of all pairs, one behind the other: where each stands; rows, signs, and lines of ``dual_coef_``."""
        rows = [np.arange(block.start, block.stop) for block in self.blocks]
        parts = [rows[c] for pair in self.classes for c in pair]
        sizes = [part.size for part in parts]
        ends = np.cumsum(sizes)[1::2].tolist()
        lines = np.repeat([line for i, j in self.classes for line in (j - 1, i)], sizes)
        signs = np.repeat(np.tile([1.0, -1.0], len(self.classes)), sizes)
        return [slice(*ends_) for ends_ in pairwise([0, *ends])], np.concatenate(parts), signs, lines

    def of(self, pair: Classes, values: NDArray[Any]) -> NDArray[Any]:
        """Return what belongs to the rows of a pair: values (n,)."""
        return np.concatenate([values[self.blocks[c]] for c in pair])

    def signs(self, pair: Classes) -> Vector:
        """Return 1 for the rows of the first class of a pair, -1 for those of the second."""
        first, second = (self.blocks[c] for c in pair)
        return np.repeat([1.0, -1.0], [first.stop - first.start, second.stop - second.start])

    def solve(
        self, pair: Classes, task: Task, members: Members = EVERYBODY, *, intercept: bool = True, **options: Any
    ) -> Pair:
        """Solve a task of some rows of a pair."""
        total = sum(self.blocks[c].stop - self.blocks[c].start for c in pair)
        task = replace(task, objects=np.arange(total)[members][task.objects])
        caches = self.caches if len(self.caches) == 1 else [self.caches[c] for c in pair]
        if not intercept:  # an object at the origin absorbs what the others sum to
            rows = AnchoredRows(self.kernel_rows.among(caches))
            found = solve(task.anchored(total), rows, **options)
            found = replace(found, beta=found.beta[:-1], values=found.values[:-1], multipliers=(0.0, 0.0))
            return Pair(pair, found.beta, 1.0, 0.0, task, found)
        return _machine(pair, task, solve(task, self.kernel_rows.among(caches), **options))

    def solve_together(
        self, make: Callable[[Pairs], Batch | None], *, tol: float, max_iter: int, shrinking: bool
    ) -> dict[Classes, Pair]:
        """Solve several pairs on one dense matrix where that is small; return those where it succeeded."""
        rows = self.training.rows
        batch = make(self) if len(self.classes) > 1 and rows.whole is not None else None
        if batch is None or rows.whole is None:
            return {}
        found = solve_dense(rows.whole, batch, tol, rows.rounding, POLISHED, max_iter, rows.workers)
        solved = zip(self.classes, batch.tasks(), found.solutions(), strict=True)
        return {pair: _machine(pair, task, solution) for pair, task, solution in solved if solution is not None}

    def map(self, work: Callable[[Classes, Clock], Any], clock: Clock) -> list[Any]:
        """Return what some work makes of every pair; those without a class in common are worked on side by side."""
        stop = threading.Event()
        clock = replace(clock, stop=stop)
        order = [pair for part in rounds(len(self.blocks)) for pair in part]
        done = {pair: threading.Event() for pair in order}

        def in_turn(pair: Classes) -> Any:
            # Every class goes through its pairs in order: what a cache holds does not depend on which is faster.
            try:
                for earlier in order[: order.index(pair)]:
                    if not set(pair).isdisjoint(earlier):
                        done[earlier].wait()
                return work(pair, clock)
            except BaseException:
                stop.set()
                raise
            finally:
                done[pair].set()

        found = dict(zip(order, run(in_turn, order, self.workers, stop), strict=True))
        return [found[pair] for pair in self.classes]


def _machine(pair: Classes, task: Task, solution: Solution) -> Pair:
    scale = solution.unit if task.scaled else 1.0
    bias = solution.bias / scale if scale > 0 else np.nan
    return Pair(pair, solution.beta, scale, bias, task, solution)


def rounds(k: int) -> list[list[Classes]]:
    """Return all pairs of k classes by rounds in which no class comes twice: the circle method of tournaments."""
    seats = [*range(k), *[-1] * (k % 2)]  # of an odd number, one rests
    found = []
    for _ in range(len(seats) - 1):
        facing = zip(seats[: len(seats) // 2], reversed(seats[len(seats) // 2 :]), strict=True)
        found.append(sorted((min(p), max(p)) for p in facing if -1 not in p))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return found
