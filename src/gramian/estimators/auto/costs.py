"""What work costs on this machine: rates and iterations that are measured, not assumed."""

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
from gramian.kernels import Kernel
from gramian.resources import blas_threads, worker_count
from gramian.solvers.linear import pcg

__all__ = ["EFFORT_ROWS", "PCG_TOL", "Effort", "Rates", "efforts", "measure"]

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


@dataclass(frozen=True)
class Rates:
    """Seconds for one of each."""

    entry: float  # A kernel value, all threads at work
    flop: float  # A floating-point operation of a factorisation
    product: float  # An entry of a stored float32 matrix times all targets

    def times(self, factor: float) -> Rates:
        """Return the rates of a machine that takes so many times as long."""
        return Rates(factor * self.entry, factor * self.flop, factor * self.product)


@dataclass(frozen=True)
class Effort:
    """How many iterations a ridge takes."""

    ridge: float  # What is added to the diagonal
    iterations: int  # On a few rows
    rows: int  # How many

    def on(self, n: int) -> int:
        """Return about how many it takes on more rows."""
        return math.ceil(self.iterations * max(n / self.rows, 1.0) ** EFFORT_GROWTH)


def measure(kernel: Kernel, Z: Array, targets: int, n_jobs: int | None) -> Rates:
    """Time small pieces of the work: Z (n, d)."""
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
    """Count the iterations that some ridges take on a few rows: Z (n, d), Y (n, t)."""
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
