"""Sizes of the last fit, by operation counts at a nominal speed: the same on every machine, however busy."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramian.gram import Gram
from gramian.kernels import Kernel
from gramian.resources import one_blas_thread
from gramian.solvers import choice
from gramian.solvers.linear import pcg

Array = NDArray[np.float64]

LEAST_SQUARES = ("gp", "ridge")
OTHERS = ("svm", "machine")
"""Machines fitted by least squares; support vector machines and machines with any loss."""
RESERVE = (0.1, 0.6)
"""The least and the most of the time limit that the search leaves for the last fits."""
SHARES = {"exact": 0.8, "pcg": 0.6, "nystroem": 0.5}
"""The part of its time that a fit may count; conjugate gradients run twice, the second time to estimate the error."""
MEMBERS, OFFERED = 4, 8
"""Machines that an average has at most, and that it may choose from."""
KEPT = 2.5
"""Fits of all rows that the search leaves time for: few averages have as many machines as they may."""
EVALUATIONS, AGAIN, SETTINGS = 60, 18, 3
"""Evaluations of the evidence in a trial, at first and on more rows; settings that another machine is tried with."""
GRADIENT, POWERS = 12, 60
"""Operations for each input of a kernel value with its gradient: squared distances, and powers of differences."""
ONE_THREAD = 1000
"""Up to this many rows, BLAS runs on one thread: its threads would wait for each other."""
LINEAR_STEPS = 100.0
"""A linear model of d inputs takes about so many times n d² operations."""
EIGEN = 10.0
"""An eigendecomposition takes about so many times n³ operations."""
RIDGE_ROWS = 1500
"""Beyond this many rows, a ridge by leave-one-out goes through as many landmarks instead of all eigenvectors."""
LEAST_LANDMARKS = 100
CAUTION = 2.0
"""Safety factor on the counts of support vector and kernel machines."""
PCG_TOL = 1e-3
"""Relative residual of conjugate gradients; the noise of the targets is larger."""
EFFORT_ROWS, EFFORT_MOST = 2000, 200
"""Rows and iterations of the small fit that estimates how many iterations a ridge takes."""
EFFORT_GROWTH = 0.3
"""Iterations grow with this power of the rows, for a preconditioner of rank √n: 0.2 to 0.3 was measured."""
FLOORS = (2e-5, 1e-4, 5e-4, 2e-3)
"""Smallest ridges to choose from, relative to k(x, x): smaller ones are more accurate and take more iterations."""
PROBE, THREADS_PAY = 1000, 1.5
"""Rows of the square matrices whose product tells how fast the machine is now, and how much faster it must be on all
threads than on one."""
APART = 2.0
"""Ridges closer than this factor count as equal."""


@dataclass(frozen=True)
class Sizes:
    """Rows and landmarks of the search and of the last fit."""

    ladder: tuple[int, ...] = (500, 1500, 3000)  # Rows to learn from, rung by rung
    many: int = 10_000  # Rows that the best are then fitted to, with what they have learned
    folds: int = 2000  # Up to this many rows, the last rung is cross-validation; beyond, one part is held out
    exact: int = 2000  # Up to this many rows, the last fit is exact and learns its hyperparameters again
    landmarks: int = 5000  # The most, of least squares
    other_landmarks: int = 1000  # Of other machines, and over passes
    sample: int = 20_000  # Rows of blocks that the search looks at


@dataclass(frozen=True)
class Effort:
    """How many iterations a ridge takes."""

    ridge: float  # What is added to the diagonal
    iterations: int  # On a few rows
    rows: int  # How many

    def on(self, n: int) -> int:
        """Return about how many it takes on more rows."""
        return math.ceil(self.iterations * max(n / self.rows, 1.0) ** EFFORT_GROWTH)


TYPICAL = (Effort(0.0, 40, EFFORT_ROWS),)
"""Before a kernel is known."""


@dataclass(frozen=True)
class Plan:
    """How to fit least squares to all rows."""

    way: str  # ``"exact"``, ``"pcg"``, ``"nystroem"`` or ``"other"``
    reason: str  # Why so
    seconds: float = 0.0  # What it takes on the nominal machine
    landmarks: int = 0  # How many
    ridge: float = 0.0  # What conjugate gradients add to the diagonal, at least

    @property
    def whole(self) -> float:
        """Nominal seconds, with the work around the fit."""
        return self.seconds / SHARES.get(self.way, 1.0)


@dataclass(frozen=True)
class Planner:
    """Chooses how to fit all rows within nominal seconds and bytes."""

    n: int  # Rows
    targets: int  # Columns of the targets
    memory: int  # Bytes
    limit: float = math.inf  # Nominal seconds of everything, the search included
    loo: bool = False  # Whether a process needs the inverse of its factor, for leave-one-out predictions
    sizes: Sizes = Sizes()
    speed: float = 1.0  # How much faster than the nominal machine matrices are factorised and multiplied

    def plan(self, ridges: Iterable[Effort], budget: float, *, loo: bool, powers: int = 0) -> Plan:
        """Choose how to fit all rows in a budget; a kernel of powers of differences has so many inputs, others 0."""
        slower = choice.nominal_seconds(0.5 * POWERS * powers * float(self.n) ** 2) / self.speed  # to make K
        exact = slower + choice.nominal_seconds(choice.factor_operations(self.n, inverse=loo)) / self.speed
        if choice.factor_bytes(self.n) <= self.memory and exact <= SHARES["exact"] * budget:
            return Plan("exact", f"{self.n:,} rows, exactly", exact)
        rank = pcg.default_rank(self.n, self.memory)
        for effort in ridges:
            count = effort.on(self.n)
            operations = choice.pcg_operations(self.n, self.targets, count, rank, self.memory)
            if (seconds := slower + choice.nominal_seconds(operations) / self.speed) <= SHARES["pcg"] * budget:
                reason = f"{self.n:,} rows by about {count} steps of conjugate gradients"
                return Plan("pcg", reason, seconds, ridge=effort.ridge)
        return self.through_landmarks(budget)

    def through_landmarks(self, budget: float, why: str = "") -> Plan:
        """Plan a fit of all rows through as many landmarks as the budget allows; ``why`` says what was tried before."""
        # A few m x m matrices, and the features of the rows that they come from.
        m = min(self.sizes.landmarks, self.n // 2, int(math.sqrt(self.memory / (8 * 8))))
        most = SHARES["nystroem"] * budget
        while m > LEAST_LANDMARKS and choice.nominal_seconds(choice.landmark_operations(self.n, m)) > most:
            m = int(0.9 * m)
        m = max(m, min(LEAST_LANDMARKS, self.n // 2), 1)
        reason = f"{why}Nyström with {m:,} landmarks: {self.n:,} rows are too many for time_limit or memory"
        return Plan("nystroem", reason, choice.nominal_seconds(choice.landmark_operations(self.n, m)), m)

    def reserve(self, machine: str) -> float:
        """Return how many seconds of the time limit are kept for the last fits."""
        low, high = RESERVE[0] * self.limit, RESERVE[1] * self.limit
        if machine in OTHERS:
            return float(np.clip(self.other_seconds(machine), low, high))
        if self.n <= self.sizes.exact:  # where hyperparameters are learned again
            again = MEMBERS * trial_seconds("gp", self.n, 1, again=True)
            return float(np.clip(again, low, high))
        way = self.typical
        return high if way.way == "nystroem" else float(np.clip(KEPT * way.whole, low, high))

    @property
    def typical(self) -> Plan:
        """How a machine is fitted to all rows, before its kernel is known."""
        return self.plan(TYPICAL, RESERVE[1] * self.limit, loo=self.loo)

    def affordable(self, machine: str) -> bool:
        """Tell whether a machine can be fitted to all rows in its part of the time limit."""
        return machine not in OTHERS or self.other_seconds(machine) <= RESERVE[1] * self.limit

    def other_seconds(self, machine: str) -> float:
        """Return what support vectors, or a machine with any loss, take on all rows."""
        svm, newton = choice.svm_operations(self.n), choice.newton_operations(self.n, self.targets)
        return CAUTION * choice.nominal_seconds(svm if machine == "svm" else newton)


def measured_pace() -> tuple[float, bool]:
    """Return the seconds that a nominal second takes now, and whether it is busy: BLAS is as fast on one thread.

    The threads of BLAS wait for each other. If other programs use the cores, a factorisation on one thread takes a
    small part of the time.
    """
    several = _seconds_of_product()
    with one_blas_thread():
        one = _seconds_of_product()
    busy = one < THREADS_PAY * several
    return (one if busy else several) / choice.nominal_seconds(2.0 * PROBE**3), busy


def _seconds_of_product() -> float:
    """The faster of two products of matrices."""
    K, taken = np.ones((PROBE, PROBE)), []
    for _ in range(2):
        begun = time.perf_counter()
        _ = K @ K
        taken.append(time.perf_counter() - begun)
    return min(taken)


def trial_seconds(
    machine: str, n: int, d: int, *, targets: int = 1, kernels: int = 1, again: bool = False, powers: bool = False
) -> float:
    """Return what a trial on n rows of d inputs takes on the nominal machine."""
    if machine == "linear":
        return choice.nominal_seconds(LINEAR_STEPS * n * d**2)
    if machine == "gp":
        each = choice.factor_operations(n, inverse=True) + n**2 * (choice.VALUE + d * (POWERS if powers else GRADIENT))
        return choice.nominal_seconds((AGAIN if again else EVALUATIONS) * each)
    if machine == "ridge":
        m = min(n, RIDGE_ROWS)
        features = 3.0 * n * m**2 if n > m else 0.0
        return choice.nominal_seconds(kernels * (EIGEN * float(m) ** 3 + features + choice.VALUE * n * m))
    if machine == "svm":
        return choice.nominal_seconds(kernels * choice.svm_operations(n))
    return choice.nominal_seconds(SETTINGS * kernels * choice.newton_operations(n, targets))


def conditioned_seconds(n: int, targets: int, memory: int) -> float:
    """Return what conditioning a process on n rows takes, its kernel being known."""
    rank, count = pcg.default_rank(n, memory), TYPICAL[0].on(n)
    return choice.nominal_seconds(choice.pcg_operations(n, targets, count, rank, memory))


def efforts(kernel: Kernel, Z: Array, Y: Array, ridge: float, memory: int) -> Iterator[Effort]:
    """Count the iterations that some ridges take on a few rows, the smallest ridge first: Z (n, d), Y (n, t)."""
    some = np.unique(np.linspace(0, Z.shape[0] - 1, EFFORT_ROWS).astype(np.intp))
    gram = Gram(kernel, Z[some], memory=memory, n_jobs=1)  # threads would change the last digits, and so a count
    size = float(np.mean(gram.diagonal()))
    larger = [floor * size for floor in FLOORS if floor * size > APART * ridge]
    ridges = ([ridge] if ridge >= FLOORS[0] * size or not larger else []) + larger
    none = True
    for each in ridges:
        done = pcg.solve(gram, Y[some], each, tol=PCG_TOL, max_iter=EFFORT_MOST, random_state=0).certificate
        if done.converged or (none and each == ridges[-1]):
            none = False
            yield Effort(each, max(done.iterations, 1), some.size)
