"""How to fit all rows in the time and the memory that are left: exactly, by iteration, or through landmarks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gramian.estimators.auto.costs import EFFORT_ROWS, Effort, Rates
from gramian.solvers.linear import pcg

__all__ = ["RESERVE", "Plan", "part", "plan", "reserve", "through_landmarks"]

PASSES = 2
"""Passes over the float64 kernel beside the iterations: residuals, at the start and at the end of a cycle."""
SHARE = 0.7
"""The part of the time left that a way may take by the estimate; what is left over covers its error."""
SHARE_OF_ITERATIONS, AT_MOST = 0.5, 0.75
"""The same for iterations, so that a second fit can tell how wrong the first is; and where there is no time for it."""
RESERVE = (0.1, 0.6)
"""The least and the most of the time limit that is kept for the last fit."""
MOST_LANDMARKS, LEAST_LANDMARKS = 5000, 100
RACE = 0.4
"""The part of the time that landmarks may take where a part of the rows, fitted without them, competes."""
FEW = 60
"""Iterations that a part of the rows is planned with, where the ridge may be so small."""
TYPICAL = (Effort(0.0, 25, EFFORT_ROWS),)
"""Before a kernel is known."""


@dataclass(frozen=True)
class Plan:
    """How to fit least squares to all rows."""

    way: str  # Factorise, iterate, or go through landmarks
    seconds: float  # What it should take
    reason: str  # Why so
    landmarks: int = 0  # How many
    ridge: float = 0.0  # What an iteration adds to the diagonal, at least


def plan(n: int, targets: int, rates: Rates, ridges: Sequence[Effort], left: float, memory: int, *, loo: bool) -> Plan:
    """Choose how to fit all rows in the time and the memory that are left."""
    exact = n * n * rates.entry + (3.0 if loo else 1.2) * n**3 / 3 * rates.flop
    if 8 * n * n <= memory and exact <= SHARE * left:
        return Plan("exact", exact, f"the factor of {n:,} rows takes about {exact:.0f} s")
    iterated = [_iterated(n, targets, rates, effort, memory) for effort in ridges]
    fitting = [i for i, seconds in enumerate(iterated) if seconds <= SHARE_OF_ITERATIONS * left]
    if fitting or iterated[-1] <= AT_MOST * left:
        at = fitting[0] if fitting else -1
        effort, seconds = ridges[at], iterated[at]
        reason = f"a factor would take about {exact:.0f} s, {effort.on(n)} iterations {seconds:.0f}"
        return Plan("pcg", seconds, f"{n:,} rows: {reason}", ridge=effort.ridge)
    return through_landmarks(n, rates, left, memory)


def through_landmarks(n: int, rates: Rates, left: float, memory: int) -> Plan:
    """Plan a fit of all rows through landmarks."""
    m = _landmarks(n, rates, left, memory)
    because = f"{n:,} rows are too many for the {left:.0f} s and the memory that are left"
    return Plan("nystroem", _through(n, m, rates), f"Nyström with {m:,} landmarks: {because}", m)


def part(n: int, targets: int, rates: Rates, ridges: Sequence[Effort], left: float, memory: int) -> tuple[int, Effort]:
    """Choose how many rows an iteration can take in the time that is left, where all are too many."""
    for each in ridges:
        if _iterated(n, targets, rates, each, memory) <= SHARE * left:
            return n, each
    effort = next((each for each in ridges if each.on(n) <= FEW), ridges[-1])
    rows = n
    while rows > 1 and _iterated(rows, targets, rates, effort, memory) > SHARE * left:
        rows = int(0.9 * rows)
    return rows, effort


def reserve(
    n: int,
    targets: int,
    rates: Rates,
    limit: float,
    memory: int,
    *,
    loo: bool,
    ridges: Sequence[Effort] = TYPICAL,
) -> float:
    """Return how much of a time limit the last fit should be left with."""
    low, high = RESERVE[0] * limit, RESERVE[1] * limit
    way = plan(n, targets, rates, ridges, high, memory, loo=loo)
    share = SHARE if way.way == "exact" else SHARE_OF_ITERATIONS
    return high if way.way == "nystroem" else float(np.clip(1.1 * way.seconds / share, low, high))


def _iterated(n: int, targets: int, rates: Rates, effort: Effort, memory: int) -> float:
    rank = pcg.default_rank(n, memory)
    setup = 2.0 * n * rank**2 * rates.flop + n * rank * rates.entry
    # Blocks that do not fit are made again in every iteration.
    stored = min(max((memory - 8.0 * n * rank) / (2.0 * n * n), 0.0), 1.0)
    step = n * n * (stored * rates.product + (1.0 - stored) * 0.5 * rates.entry) + 4.0 * n * rank * targets * rates.flop
    return setup + (PASSES + stored) * 0.5 * n * n * rates.entry + effort.on(n) * step


def _through(n: int, m: int, rates: Rates) -> float:
    return 2.0 * n * m * rates.entry + (3.0 * n * m**2 + 3.0 * m**3) * rates.flop


def _landmarks(n: int, rates: Rates, left: float, memory: int) -> int:
    """The most that time and memory allow: a few m x m matrices, and the features of the rows that they come from."""
    most = min(MOST_LANDMARKS, n // 2, int(math.sqrt(memory / (8 * 8))))
    while most > LEAST_LANDMARKS and _through(n, most, rates) > RACE * left:
        most = int(0.9 * most)
    return max(most, min(LEAST_LANDMARKS, n // 2), 1)
