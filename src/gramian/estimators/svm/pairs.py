"""One-vs-one: a binary machine for every pair of classes, over kernel rows that the pairs share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.estimators.svm.trained import Mapped, Trained
from gramian.progress import Clock
from gramian.resources import run
from gramian.solvers.svm.smo import Rows, Solution, Task, solve

__all__ = ["Pair", "Pairs", "fit_pair", "rounds"]

Vector = NDArray[np.float64]
POLL = 0.1
"""Seconds after which somebody who waits for a class looks whether it is all over."""
TaskMaker = Callable[[Vector, Vector, "Vector | None"], Task]


@dataclass(frozen=True)
class Pair:
    """The machine that tells class ``first`` (positive) from class ``second``."""

    first: int  # Positions in ``classes_``
    second: int  # Positions in ``classes_``
    beta: Vector  # (m
    scale: float  # What they have to be divided by
    bias: float  # The bias, already divided
    task: Task  # What was solved
    solution: Solution  # How it ended

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

    def __init__(self, trained: Trained | Mapped, sizes: Any, budget: float, weight: Vector) -> None:
        # With fewer than four classes any two pairs share one: threads make kernel rows instead.
        self.workers = trained.workers if len(sizes) > 3 else 1
        self.trained = trained.on(1) if self.workers > 1 else trained
        self.weight = weight
        edges = np.cumsum([0, *sizes])
        self.blocks = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        whole = [slice(0, int(edges[-1]))]
        # Two classes need no sharing, and one cache of all columns can shrink.
        self.caches: list[Any] = self.trained.caches(whole if len(sizes) == 2 else self.blocks, budget)
        self.indices = list(combinations(range(len(sizes)), 2))

    def each(self, task: Callable[..., Any], clock: Clock) -> list[Any]:
        """Do something for every pair, those without a class in common side by side."""
        stop = threading.Event()
        clock = replace(clock, stop=stop)
        found: dict[tuple[int, int], Any] = {}
        turns = _Turns([pair for part in rounds(len(self.blocks)) for pair in part], stop)

        def work(_: int) -> None:
            while (pair := turns.take()) is not None:
                try:
                    found[pair] = task(self.indices.index(pair), *pair, clock=clock)
                except BaseException:
                    stop.set()
                    raise
                finally:
                    turns.give_back(pair)

        run(work, range(self.workers), self.workers, stop)
        return [found[pair] for pair in self.indices]

    def rows(self, first: int, second: int) -> Rows:
        """Return the kernel rows of one pair."""
        caches = self.caches if len(self.caches) == 1 else [self.caches[first], self.caches[second]]
        return self.trained.kernel_rows(caches)

    def labels(self, first: int, second: int, by_class: bool = True) -> tuple[Vector, Vector]:
        """Return labels and weights of one pair."""
        weight = self.weight if by_class else self.trained.weight
        a, b = self.blocks[first], self.blocks[second]
        y = np.concatenate([np.ones(a.stop - a.start), -np.ones(b.stop - b.start)])
        return y, np.concatenate([weight[a], weight[b]])


def rounds(k: int) -> list[list[tuple[int, int]]]:
    """Return all pairs of k classes by rounds in which no class comes twice: the circle method of tournaments."""
    seats = [*range(k), *[-1] * (k % 2)]  # of an odd number, one rests
    found = []
    for _ in range(len(seats) - 1):
        facing = zip(seats[: len(seats) // 2], reversed(seats[len(seats) // 2 :]), strict=True)
        found.append(sorted((min(p), max(p)) for p in facing if -1 not in p))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return found


class _Turns:
    """Hands out pairs such that every class goes through its own in the order given, one after the other.

    What a cache holds then depends on that order alone, whoever is faster.
    """

    def __init__(self, pairs: list[tuple[int, int]], stop: threading.Event) -> None:
        self.left, self.stop = pairs, stop
        self.busy: set[int] = set()
        self.changed = threading.Condition()

    def take(self) -> tuple[int, int] | None:
        """The next pair whose classes are free, as soon as there is one; None at the end."""
        with self.changed:
            while self.left and not self.stop.is_set():
                waiting = set(self.busy)
                for pair in self.left:
                    if waiting.isdisjoint(pair):
                        self.left.remove(pair)
                        self.busy.update(pair)
                        return pair
                    waiting.update(pair)
                self.changed.wait(POLL)
        return None

    def give_back(self, pair: tuple[int, int]) -> None:
        with self.changed:
            self.busy.difference_update(pair)
            self.changed.notify_all()


def fit_pair(
    pairs: Pairs,
    first: int,
    second: int,
    make: TaskMaker,
    *,
    start: Vector | None = None,
    members: NDArray[np.intp] | None = None,
    by_class: bool = True,
    **options: Any,
) -> Pair:
    """Solve one pair."""
    y, weight = pairs.labels(first, second, by_class)
    members = np.arange(y.size) if members is None else members
    task = make(y[members], weight[members], start)
    task = replace(task, objects=members[task.objects])
    solution = solve(task, pairs.rows(first, second), **options)
    scale = solution.unit if task.scaled else 1.0
    bias = solution.bias / scale if scale > 0 else np.nan
    return Pair(first, second, solution.beta, scale, bias, task, solution)
