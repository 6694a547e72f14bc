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
    """How to fit least squares to all rows.

    Parameters
    ----------
    way : {"exact", "pcg", "nystroem"}
        Factorise, iterate, or go through landmarks.
    seconds : float
        What it should take.
    reason : str
        Why so.
    landmarks : int, default=0
        How many.
    ridge : float, default=0.0
        What an iteration adds to the diagonal, at least.
    """

    way: str
    seconds: float
    reason: str
    landmarks: int = 0
    ridge: float = 0.0


def plan(n: int, targets: int, rates: Rates, ridges: Sequence[Effort], left: float, memory: int, *, loo: bool) -> Plan:
    """Choose how to fit all rows in the time and the memory that are left.

    Parameters
    ----------
    n : int
        Rows.
    targets : int
        Columns of the targets.
    rates : Rates
        What was measured.
    ridges : sequence of Effort
        What an iteration may add to the diagonal, in increasing order.
    left : float
        Seconds.
    memory : int
        Bytes.
    loo : bool
        Whether a factorisation must give leave-one-out residuals too.

    Returns
    -------
    Plan
        The most accurate way that fits.

    Examples
    --------
    >>> from gramian.estimators.auto.costs import Effort, Rates
    >>> from gramian.estimators.auto.plans import plan
    >>> rates, ridges = Rates(entry=5e-9, flop=2e-11, product=3e-10), [Effort(0.01, 20, 2000)]
    >>> [plan(n, 1, rates, ridges, 60.0, 8 * 10**9, loo=False).way for n in (1000, 30_000, 300_000)]
    ['exact', 'pcg', 'nystroem']
    """
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
    """Plan a fit of all rows through landmarks.

    Parameters
    ----------
    n : int
        Rows.
    rates : Rates
        What was measured.
    left : float
        Seconds, of which landmarks take a part, so that a part of the rows without them can compete.
    memory : int
        Bytes.

    Returns
    -------
    Plan
        With as many landmarks as time and memory allow.
    """
    m = _landmarks(n, rates, left, memory)
    because = f"{n:,} rows are too many for the {left:.0f} s and the memory that are left"
    return Plan("nystroem", _through(n, m, rates), f"Nyström with {m:,} landmarks: {because}", m)


def part(n: int, targets: int, rates: Rates, ridges: Sequence[Effort], left: float, memory: int) -> tuple[int, Effort]:
    """Choose how many rows an iteration can take in the time that is left, where all are too many.

    Parameters
    ----------
    n : int
        Rows.
    targets : int
        Columns of the targets.
    rates : Rates
        What was measured.
    ridges : sequence of Effort
        What may be added to the diagonal, in increasing order.
    left : float
        Seconds.
    memory : int
        Bytes.

    Returns
    -------
    tuple of int and Effort
        The rows, and what to add.

    Examples
    --------
    >>> from gramian.estimators.auto.costs import Effort, Rates
    >>> from gramian.estimators.auto.plans import part
    >>> rates, ridges = Rates(entry=5e-9, flop=2e-11, product=3e-10), [Effort(0.01, 20, 2000)]
    >>> 20_000 < part(300_000, 1, rates, ridges, 20.0, 2 * 10**9)[0] < 40_000
    True
    """
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
    """Return how much of a time limit the last fit should be left with.

    Parameters
    ----------
    n : int
        Rows.
    targets : int
        Columns of the targets.
    rates : Rates
        What was measured.
    limit : float
        Seconds for the search and the last fit together.
    memory : int
        Bytes.
    loo : bool
        Whether a factorisation must give leave-one-out residuals too.
    ridges : sequence of Effort, default=TYPICAL
        What an iteration may add to the diagonal, in increasing order.

    Returns
    -------
    float
        Seconds: what all rows need, with a margin for the estimate; where they need too much, as much as there may be,
        since every further row or landmark helps.
    """
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
