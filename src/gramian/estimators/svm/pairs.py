"""One machine for each pair of classes of a training set, on shared kernel rows."""

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
    """The machine that separates one class (positive) from another."""

    classes: Classes  # Indices into ``classes_``
    beta: Vector  # (m,): The dual variables
    scale: float  # Divisor that turns them into coefficients
    bias: float  # The bias, already divided by the scale
    task: Task  # The problem solved
    solution: Solution  # Its solution and certificate
    price: float = math.nan  # The C equivalent to ν
    nu: float = math.nan  # The ν used: feasible, and with a margin

    @property
    def coefficients(self) -> Vector:
        """The coefficients of the kernel expansion."""
        return self.beta / self.scale

    @property
    def separates(self) -> bool:
        """Whether w is not zero."""
        return self.scale > 0 and not self.solution.vanished

    @property
    def values(self) -> Vector:
        """The decision values of all rows of the pair, including those left out of the fit."""
        return self.solution.values / self.scale + self.bias

    @property
    def margin(self) -> float:
        """1/‖w‖: the distance from the boundary to the margin, in feature space."""
        square = float(np.dot(self.beta, self.solution.values[self.task.objects])) / self.scale**2
        return float(1.0 / np.sqrt(square)) if square > 0 else np.inf


class Pairs:
    """The pairs of classes of one training set, and the kernel rows that they share.

    There is one row cache per class: kernel values of a row with its own class serve every pair of that class, those
    with another class serve one pair only. Pairs without a common class share nothing and are solved in parallel.
    """

    def __init__(self, training: Training, sizes: Any, budget: float, weight: Vector) -> None:
        # With fewer than four classes any two pairs have a common class, so threads compute kernel rows instead.
        self.workers = training.rows.workers if len(sizes) > 3 else 1
        self.kernel_rows = training.rows.on(1) if self.workers > 1 else training.rows
        self.training, self.weight = training, weight
        edges = np.cumsum([0, *sizes])
        self.blocks = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        self.budget = budget
        self.classes = list(combinations(range(len(sizes)), 2))

    @cached_property
    def caches(self) -> list[Any]:
        """One row cache per class; for two classes, a single cache of all columns, which allows shrinking."""
        parts = [slice(0, self.blocks[-1].stop)] if len(self.blocks) == 2 else self.blocks
        return self.kernel_rows.caches(parts, self.budget)

    @cached_property
    def flat(self) -> tuple[list[slice], Index, Vector, Index]:
        """All pairs concatenated: the slice of each pair, then row numbers, signs and rows of ``dual_coef_``."""
        rows = [np.arange(block.start, block.stop) for block in self.blocks]
        parts = [rows[c] for pair in self.classes for c in pair]
        sizes = [part.size for part in parts]
        ends = np.cumsum(sizes)[1::2].tolist()
        lines = np.repeat([line for i, j in self.classes for line in (j - 1, i)], sizes)
        signs = np.repeat(np.tile([1.0, -1.0], len(self.classes)), sizes)
        return [slice(*ends_) for ends_ in pairwise([0, *ends])], np.concatenate(parts), signs, lines

    def of(self, pair: Classes, values: NDArray[Any]) -> NDArray[Any]:
        """Return the entries of values (n,) that belong to the rows of a pair."""
        return np.concatenate([values[self.blocks[c]] for c in pair])

    def signs(self, pair: Classes) -> Vector:
        """Return 1 for the rows of the first class of a pair, -1 for those of the second."""
        first, second = (self.blocks[c] for c in pair)
        return np.repeat([1.0, -1.0], [first.stop - first.start, second.stop - second.start])

    def solve(
        self, pair: Classes, task: Task, members: Members = EVERYBODY, *, intercept: bool = True, **options: Any
    ) -> Pair:
        """Solve a task on all rows of a pair, or on the ``members``."""
        total = sum(self.blocks[c].stop - self.blocks[c].start for c in pair)
        task = replace(task, objects=np.arange(total)[members][task.objects])
        caches = self.caches if len(self.caches) == 1 else [self.caches[c] for c in pair]
        if not intercept:  # an extra object at the origin takes up the sum constraint
            rows = AnchoredRows(self.kernel_rows.among(caches))
            found = solve(task.anchored(total), rows, **options)
            found = replace(found, beta=found.beta[:-1], values=found.values[:-1], multipliers=(0.0, 0.0))
            return Pair(pair, found.beta, 1.0, 0.0, task, found)
        return _machine(pair, task, solve(task, self.kernel_rows.among(caches), **options))

    def solve_together(
        self, make: Callable[[Pairs], Batch | None], *, tol: float, max_iter: int, shrinking: bool
    ) -> dict[Classes, Pair]:
        """Solve all pairs together on one dense matrix if it is small; return the pairs solved."""
        rows = self.training.rows
        batch = make(self) if len(self.classes) > 1 and rows.whole is not None else None
        if batch is None or rows.whole is None:
            return {}
        found = solve_dense(rows.whole, batch, tol, rows.rounding, POLISHED, max_iter, rows.workers)
        solved = zip(self.classes, batch.tasks(), found.solutions(), strict=True)
        return {pair: _machine(pair, task, solution) for pair, task, solution in solved if solution is not None}

    def map(self, work: Callable[[Classes, Clock], Any], clock: Clock) -> list[Any]:
        """Return ``work(pair, clock)`` for every pair; pairs without a common class run in parallel."""
        stop = threading.Event()
        clock = replace(clock, stop=stop)
        order = [pair for part in rounds(len(self.blocks)) for pair in part]
        done = {pair: threading.Event() for pair in order}

        def in_turn(pair: Classes) -> Any:
            # The pairs of a class run in a fixed order, so that the contents of its cache do not depend on timing.
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
    """Return all pairs of k classes in rounds of disjoint pairs: the round-robin (circle) method."""
    seats = [*range(k), *[-1] * (k % 2)]  # for odd k, one class sits out each round
    found = []
    for _ in range(len(seats) - 1):
        facing = zip(seats[: len(seats) // 2], reversed(seats[len(seats) // 2 :]), strict=True)
        found.append(sorted((min(p), max(p)) for p in facing if -1 not in p))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return found
