"""What a fit on all rows will cost on this machine: rates and iterations that are measured, not assumed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky

from gramian.gram import Gram
from gramian.gram.tiles import blas_threads, worker_count
from gramian.kernels import Kernel
from gramian.solvers import pcg

__all__ = [
    "PCG_TOL",
    "RESERVE",
    "Effort",
    "Plan",
    "Rates",
    "efforts",
    "measure",
    "part",
    "plan",
    "reserve",
    "through_landmarks",
]

Array = NDArray[np.float64]

PROBE, FACTOR = 1024, 2048
"""Rows and columns of the matrices that are timed: tiles of a kernel, and a factorisation."""
STORED_ROWS = 16 * PROBE
PCG_TOL = 1e-3
"""Relative residual of an iteration; the noise of the targets is larger."""
EFFORT_ROWS, EFFORT_MOST = 2000, 200
"""Rows and iterations of the small fit that tells how many iterations a ridge takes."""
EFFORT_GROWTH = 0.3
"""The power of the rows that iterations grow with, the rank being that of √n: 0.2 to 0.3 was measured."""
FLOORS = (2e-5, 1e-4, 5e-4, 2e-3)
"""Least ridges to choose from, relative to k(x, x): a smaller one is more accurate and takes more iterations."""
APART = 2.0
"""Ridges that are closer than this are not told apart."""
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


@dataclass(frozen=True)
class Rates:
    """Seconds for one of each.

    Parameters
    ----------
    entry : float
        A kernel value, all threads at work.
    flop : float
        A floating-point operation of a factorisation.
    product : float
        An entry of a stored float32 matrix times all targets.
    """

    entry: float
    flop: float
    product: float

    def times(self, factor: float) -> Rates:
        """Return the rates of a machine that takes so many times as long.

        Parameters
        ----------
        factor : float
            How many times.

        Returns
        -------
        Rates
            All of them.
        """
        return Rates(factor * self.entry, factor * self.flop, factor * self.product)


@dataclass(frozen=True)
class Effort:
    """How many iterations a ridge takes.

    Parameters
    ----------
    ridge : float
        What is added to the diagonal.
    iterations : int
        On a few rows.
    rows : int
        How many.

    Examples
    --------
    >>> from gramian.estimators.auto.costs import Effort
    >>> Effort(0.04, 20, 2000).on(41_000)
    50
    """

    ridge: float
    iterations: int
    rows: int

    def on(self, n: int) -> int:
        """Return about how many it takes on more rows.

        Parameters
        ----------
        n : int
            How many.

        Returns
        -------
        int
            Iterations.
        """
        return math.ceil(self.iterations * max(n / self.rows, 1.0) ** EFFORT_GROWTH)


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


def measure(kernel: Kernel, Z: Array, targets: int, n_jobs: int | None) -> Rates:
    """Time small pieces of the work.

    Parameters
    ----------
    kernel : Kernel
        The kernel that will be used.
    Z : array of shape (n, d)
        Rows.
    targets : int
        Columns of the targets.
    n_jobs : int or None
        Threads.

    Returns
    -------
    Rates
        What was measured.
    """
    some = Z[:PROBE]
    entries = Gram(kernel, some, Z[: 4 * PROBE].copy(), n_jobs=n_jobs)
    values = _seconds(entries.dense) / (entries.shape[0] * entries.shape[1])
    # The matrices are made here, so that few rows are no obstacle.
    A = np.eye(FACTOR) + 0.5 / FACTOR
    with blas_threads(n_jobs):
        factor = _seconds(lambda: cholesky(A, lower=True, check_finite=False)) / (FACTOR**3 / 3)
    # More than the caches hold: an iteration waits for the memory.
    K, V = np.ones((STORED_ROWS, PROBE), np.float32), np.ones((PROBE, targets), np.float32)
    product = _seconds(lambda: K @ V) / (STORED_ROWS * PROBE) / worker_count(n_jobs)
    return Rates(values, factor, product)


def _seconds(job: Callable[[], Any], repeats: int = 3) -> float:
    """The fastest of a few calls: other work on the machine only ever adds."""
    best = math.inf
    for _ in range(repeats):
        begun = time.perf_counter()
        job()
        best = min(best, time.perf_counter() - begun)
    return best


def efforts(kernel: Kernel, Z: Array, Y: Array, ridge: float, memory: int, n_jobs: int | None) -> list[Effort]:
    """Count the iterations that some ridges take on a few rows.

    Parameters
    ----------
    kernel : Kernel
        The kernel that will be used.
    Z : array of shape (n, d)
        Rows, in random order or not: the first and every so many-th after it are taken.
    Y : array of shape (n, t)
        Targets.
    ridge : float
        The one that is wanted.
    memory : int
        Bytes.
    n_jobs : int or None
        Threads.

    Returns
    -------
    list of Effort
        Of the ridge that is wanted, where it is not too small, and of some larger ones, in increasing order; one of
        them at least. Those that take too many iterations are left out, but for the last.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.auto.costs import efforts
    >>> from gramian.kernels import RBF
    >>> X = np.linspace(0, 9, 400)[:, None]
    >>> [effort.ridge for effort in efforts(RBF(1.0), X, np.sin(X), 4e-4, 10**8, 1)]
    [0.0004, 0.002]
    """
    some = np.unique(np.linspace(0, Z.shape[0] - 1, EFFORT_ROWS).astype(np.intp))
    gram = Gram(kernel, Z[some], memory=memory, n_jobs=n_jobs)
    size = float(np.mean(gram.diagonal()))
    larger = [floor * size for floor in FLOORS if floor * size > APART * ridge]
    first = [ridge] if ridge >= FLOORS[0] * size or not larger else []
    found = []
    for each in first + larger:
        done = pcg.solve(gram, Y[some], each, tol=PCG_TOL, max_iter=EFFORT_MOST, random_state=0).certificate
        found.append((done.converged, Effort(each, max(done.iterations, 1), some.size)))
    return [effort for converged, effort in found if converged] or [found[-1][1]]


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
    >>> from gramian.estimators.auto.costs import Effort, Rates, plan
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
    >>> from gramian.estimators.auto.costs import Effort, Rates, part
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
