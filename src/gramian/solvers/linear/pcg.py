"""Conjugate gradients for (K + μ W⁻¹) x = b, preconditioned by landmarks, refined to float64.

Inner cycles multiply by K in single precision, stored as far as memory allows. Each cycle gains a few digits; after it
the residual is recomputed with the float64 kernel (iterative refinement), so the result has double precision, and the
certificate holds for the true matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import certify, relative_residuals
from gramian.gram import Gram, SymmetricGram, rpcholesky
from gramian.gram.operator import units
from gramian.progress import Clock, Tick, silent
from gramian.resources import one_blas_thread, repeatable
from gramian.solvers.conjugate_gradients import Operator, conjugate_gradients
from gramian.solvers.linear.preconditioner import Preconditioner, narrow_enough
from gramian.solvers.solution import Solution

DROP = 1e-4
"""Reduction of the residual in one inner cycle; beyond that, single-precision rounding dominates."""
MARGIN = 0.5
"""Inner cycles aim at this fraction of the tolerance, because their recursive residual is an estimate."""
GAIN = 0.5
"""A cycle that leaves more than this fraction of the residual has stalled."""
PATIENCE = 50
"""Single-precision iterations without a new best residual, after which rounding is assumed to be the cause."""
ROOTS = 10
"""Rank of the preconditioner divided by √n; more landmarks cost more than the iterations they save."""

Array = NDArray[np.float64]


def default_rank(n: int, memory: int) -> int:
    """Return the number of landmarks of the preconditioner."""
    return int(max(min(ROOTS * np.sqrt(n), n / 4, memory / (4 * 8 * n)), 1))


def solve(
    gram: Gram,
    B: NDArray[Any],
    ridge: float | NDArray[Any],
    *,
    weights: NDArray[Any] | None = None,
    start: NDArray[Any] | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    rank: int | None = None,
    random_state: int | np.random.RandomState | None = None,
    clock: Clock | None = None,
    tick: Tick = silent,
    weigh_residuals: bool = True,
) -> Solution:
    """Solve ``(K + ridge_j W⁻¹) x_j = b_j`` for every column of B, sharing each product with K.

    A residual r counts as ``‖√W r‖ / ‖√W b‖``, or as ``‖r‖ / ‖b‖`` without ``weigh_residuals``.
    """
    n, B = gram.shape[0], np.asarray(B, dtype=np.float64)
    if B.ndim != 2 or B.shape[0] != n:
        raise ValueError(f"B must have shape ({n}, k), got {B.shape}.")
    ridge = np.broadcast_to(np.asarray(ridge, dtype=np.float64), B.shape[1:])
    weights = np.ones(1) if weights is None or np.all(weights == 1.0) else np.asarray(weights, dtype=np.float64)
    if not np.all(ridge > 0) or not np.all(weights > 0):
        raise ValueError("conjugate gradients need ridge > 0 and weights > 0; leave out rows of weight zero.")
    scale, unit = np.sqrt(weights)[:, None], units(B)  # single precision overflows at 3e38
    X = np.zeros_like(B) if start is None else np.asarray(start, dtype=np.float64).reshape(B.shape) / unit / scale
    landmarks = _landmarks(
        gram, ridge, scale, default_rank(n, gram.memory) if rank is None else rank, repeatable(random_state)
    )
    exact, left = SymmetricGram(gram, 0, np.float64), max(gram.memory - landmarks.nbytes, 0)

    def precondition(V: Array, columns: NDArray[np.intp]) -> Array:
        return landmarks.solve(V, ridge[columns])

    largest = float(np.abs(gram.diagonal()).max(initial=0.0)) * float(weights.max())
    rounding = 10.0 * n * float(np.finfo(np.float64).eps) * largest
    limits: Any = (tol, max_iter, clock or Clock(), tick, rounding, weigh_residuals)
    run = Refinement(exact, ridge, scale, precondition, scale * (B / unit), X, *limits)
    for dtype in (np.float32, np.float64):  # double precision if single stalls
        run.refine(SymmetricGram(gram, left, dtype))
        if run.at_an_end():
            break
    worst, seconds = float(run.told.max(initial=0.0)), run.clock.seconds
    certificate = certify("residual", worst, tol, run.why, seconds=seconds, iterations=run.iterations)
    return Solution(unit * (scale * run.X), certificate, ridge, residuals=run.told)


def _landmarks(gram: Gram, ridge: Array, scale: Array, rank: int, random_state: Any) -> Preconditioner:
    least, trace = float(ridge.min(initial=np.inf)), float(gram.diagonal().sum(dtype=np.float64))
    # ‖K - F Fᵀ‖ is at most the trace; once that is below the ridge, more landmarks save no iterations.
    enough = least / (trace * float(scale.max()) ** 2) if trace > 0 else 0.0
    dtype = np.float32 if narrow_enough(gram, scale, least) else np.float64
    if gram.card is not None:
        return gram.card.preconditioner(gram.left, gram.right, ridge, scale, dtype is np.float32, random_state)
    factor = rpcholesky(gram, min(rank, gram.shape[0]), random_state, tol=min(enough, 1.0), dtype=dtype).factor
    if np.any(scale != 1.0):
        factor *= scale.astype(dtype)
    return Preconditioner(factor, ridge, gram.workers)


@dataclass(eq=False)
class Refinement:
    """The current solution of ``(S K S + μI) x = b``, with S = √W, and its true residual."""

    exact: Any  # K in double precision, as an operator
    ridge: Array  # (k,): μ of each column
    scale: Array  # (n, 1) or (n, k): The diagonal of S, shared by all columns or one for each
    precondition: Operator
    B: Array
    X: Array
    tol: float
    max_iter: int
    clock: Clock
    tick: Tick
    rounding: float = 0.0  # That of the smallest eigenvalue
    weighted: bool = True  # Whether the tolerance is one of S r, or of r
    iterations: int = 0
    why: str = "stopped by rounding in float64; raise tol, or regularise more."

    def __post_init__(self) -> None:
        k = self.B.shape[1]
        self.X, self.R, self.residuals = self.X.copy(), self.B.copy(), np.full(k, np.inf)
        self.told = self.residuals if self.weighted else self.residuals.copy()  # What the tolerance is compared with
        self.products = np.zeros_like(self.X)  # K S X
        self._measure(self.X, np.arange(k))

    def at_an_end(self) -> bool:
        """Whether all columns have converged, or time or iterations have run out; records which."""
        if ended := self.clock.ended(self.iterations, self.max_iter):
            self.why = f"{ended}; allow more, or regularise more."
        return bool(ended) or bool(np.all(self.told <= self.tol))

    def refine(self, fast: Any) -> None:
        """Repeat cycles until the residuals are small enough or stall, or time or iterations run out."""
        while not self.at_an_end():
            before = self.residuals.copy()
            todo = np.flatnonzero(self.told > self.tol)
            with one_blas_thread():  # a pool of BLAS threads would spin while our own threads work
                step = self._cycle(fast, todo)
            self._measure(self.X[:, todo] + step, todo)
            if np.any(self.residuals[todo] > GAIN * before[todo]):
                return

    def _scale(self, columns: Any) -> Array:
        return self.scale if self.scale.shape[1] == 1 else self.scale[:, columns]

    def _times(self, K: Any, V: Array, columns: Any) -> Array:
        scale = self._scale(columns)
        return scale * (K @ (scale * V)) + self.ridge[columns] * V

    def _measure(self, X: Array, columns: NDArray[np.intp]) -> None:
        """Accept those of some columns of X whose true residual decreased, and keep K S X."""
        scale = self._scale(columns)
        products = self.exact @ (scale * X) if np.any(X) else np.zeros_like(X)
        R = self.B[:, columns] - scale * products - self.ridge[columns] * X
        residuals = relative_residuals(R, self.B[:, columns])
        better = residuals < self.residuals[columns]
        for old, new in ((self.X, X), (self.R, R), (self.products, products)):
            old[:, columns[better]] = new[:, better]
        self.residuals[columns[better]] = residuals[better]
        if not self.weighted:
            self.told[columns[better]] = relative_residuals(R / scale, self.B[:, columns] / scale)[better]
        self.tick(self.iterations, residual=float(self.told.max(initial=0.0)))

    def _cycle(self, fast: Any, columns: NDArray[np.intp]) -> Array:
        """Preconditioned conjugate gradients for A d = r, independently for each column."""
        R = self.R[:, columns]
        goal = DROP * np.linalg.norm(R, axis=0)
        if self.weighted:
            goal = np.maximum(MARGIN * self.tol * np.linalg.norm(self.B[:, columns], axis=0), goal)

        def times(P: Array, some: NDArray[np.intp]) -> Array:
            self.iterations += 1
            self.tick(self.iterations)
            return self._times(fast, P, columns[some])

        double = fast.dtype == np.float64
        return conjugate_gradients(
            R,
            times,
            lambda V, some: self.precondition(V, columns[some]),
            goal,
            proceed=lambda: not self.at_an_end(),
            patience=np.inf if double else PATIENCE,
            rounding=self.rounding if double else np.inf,
        )
