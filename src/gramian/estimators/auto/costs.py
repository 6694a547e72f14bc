"""What a fit on all rows will cost on this machine: rates that are measured, not assumed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky

from gramian.gram import Gram
from gramian.gram.tiles import blas_threads, worker_count
from gramian.kernels import Kernel
from gramian.solvers.pcg import default_rank

__all__ = ["Plan", "Rates", "measure", "plan", "reserve"]

Array = NDArray[np.float64]

PROBE, FACTOR = 1024, 2048
"""Rows and columns of the matrices that are timed: tiles of a kernel, and a factorisation."""
STORED_ROWS = 16 * PROBE
ITERATIONS = 60
"""Of conjugate gradients, with the ridge that the refit allows at least."""
CHECKS = 3
"""Passes over the exact kernel in those: the blocks that are stored, and residuals."""
SHARE = 0.7
"""The part of the time left that a way may take by the estimate; what is left over covers its error."""
SHARE_OF_ITERATIONS = 0.85
"""The same for iterations, which can be stopped."""
RESERVE = (0.1, 0.6)
"""The least and the most of the time limit that is kept for the last fit."""
MOST_LANDMARKS, LEAST_LANDMARKS = 5000, 30
STORED = 0.8
"""The part of the memory that stored blocks of the Gram matrix may take."""


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
    """

    way: str
    seconds: float
    reason: str
    landmarks: int = 0


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


def _seconds(job: Callable[[], Any], repeats: int = 2) -> float:
    """The faster of a few calls."""
    best = math.inf
    for _ in range(repeats):
        begun = time.perf_counter()
        job()
        best = min(best, time.perf_counter() - begun)
    return best


def plan(n: int, targets: int, rates: Rates, left: float, memory: int, *, loo: bool) -> Plan:
    """Choose how to fit all rows in the time and the memory that are left.

    Parameters
    ----------
    n : int
        Rows.
    targets : int
        Columns of the targets.
    rates : Rates
        What was measured.
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
    >>> from gramian.estimators.auto.costs import Rates, plan
    >>> rates = Rates(entry=5e-9, flop=2e-11, product=3e-10)
    >>> [plan(n, 1, rates, 60.0, 8 * 10**9, loo=False).way for n in (1000, 30_000, 300_000)]
    ['exact', 'pcg', 'nystroem']
    """
    exact = n * n * rates.entry + (3.0 if loo else 1.2) * n**3 / 3 * rates.flop
    if 8 * n * n <= memory and exact <= SHARE * left:
        return Plan("exact", exact, f"the factor of {n:,} rows takes about {exact:.0f} s")
    iterated = _iterated(n, targets, rates, memory)
    if 2 * n * n <= STORED * memory and iterated <= SHARE_OF_ITERATIONS * left:
        return Plan("pcg", iterated, f"a factor would take about {exact:.0f} s, {ITERATIONS} iterations {iterated:.0f}")
    m = _landmarks(n, rates, left, memory)
    because = f"{n:,} rows are too many for the {left:.0f} s and the memory that are left"
    return Plan("nystroem", _through(n, m, rates), f"Nyström with {m:,} landmarks: {because}", m)


def reserve(n: int, targets: int, rates: Rates, limit: float, memory: int, *, loo: bool) -> float:
    """Return how much of a time limit the last fit should be left with.

    Parameters
    ----------
    n : int
        Rows.
    targets : int
        Columns of the targets.
    rates : Rates
        What was measured, with a typical kernel.
    limit : float
        Seconds for the search and the last fit together.
    memory : int
        Bytes.
    loo : bool
        Whether a factorisation must give leave-one-out residuals too.

    Returns
    -------
    float
        Seconds: what all rows need, with a margin for the estimate; where they need too much, as much as there may be,
        since every further landmark helps.
    """
    low, high = RESERVE[0] * limit, RESERVE[1] * limit
    way = plan(n, targets, rates, high, memory, loo=loo)
    return high if way.way == "nystroem" else float(np.clip(way.seconds / SHARE, low, high))


def _iterated(n: int, targets: int, rates: Rates, memory: int) -> float:
    rank = default_rank(n, memory)
    setup = 2.0 * n * rank**2 * rates.flop + n * rank * rates.entry
    step = 0.5 * n * n * 2.0 * rates.product + 4.0 * n * rank * targets * rates.flop
    return setup + CHECKS * 0.5 * n * n * rates.entry + ITERATIONS * step


def _through(n: int, m: int, rates: Rates) -> float:
    return 2.0 * n * m * rates.entry + (3.0 * n * m**2 + 3.0 * m**3) * rates.flop


def _landmarks(n: int, rates: Rates, left: float, memory: int) -> int:
    """The most that time and memory allow: a few m x m matrices, and the features of the rows that they come from."""
    most = min(MOST_LANDMARKS, n, int(math.sqrt(memory / (8 * 8))))
    while most > LEAST_LANDMARKS and _through(n, most, rates) > SHARE * left:
        most = int(0.9 * most)
    return max(most, min(LEAST_LANDMARKS, n))
