"""The log evidence log p(y | X, theta) of a Gaussian process, and its gradient, in one n x n array.

With A = K + D and α = A⁻¹y, the value is ``-½ yᵀα - ½ log det A - (n/2) log 2π`` and its gradient
``½ Σ W ∘ ∂K/∂theta`` with ``W = ααᵀ - A⁻¹``. K becomes its Cholesky factor and that becomes A⁻¹ in the same memory,
and W is only ever made panel by panel, below the diagonal, where the kernel's ``tile_vjp`` consumes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from gramian.gram import Gram
from gramian.gram.threads import PANEL
from gramian.kernels import Kernel, Sum, White
from gramian.kernels.points import Points
from gramian.resources import memory_budget, one_blas_thread, readable, run, spans, worker_count
from gramian.solvers.linear.cholesky import BLOCK, Factor, NotPositiveDefiniteError, cholesky
from gramian.solvers.linear.trend import TrendBasis

Array = NDArray[np.float64]

JITTER_LIMIT = 1e-6
"""The largest jitter while hyperparameters are learned, relative to the mean of the diagonal."""

FEW = 512
"""Below this many rows one thread is faster: after each small product the BLAS threads spin."""
LAPACK_ROWS = 4000
"""Up to this many rows LAPACK inverts in a fraction of a second; above, by blocks, checking for Ctrl-C between them."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """The log evidence at one kernel."""

    value: float  # log p(y | X, theta), summed over targets; ``-inf`` where K + D is not positive definite
    gradient: Array | None  # (p,): The derivative by ``kernel.theta``, if asked for
    jitter: float  # What was added to the diagonal to make K + D positive definite


class LogEvidence:
    """The log evidence of some rows, as a function of the kernel.

    It owns one n x n array, which every call reuses.
    """

    def __init__(
        self,
        X: Any,
        Y: Array,
        noise: float | Array,
        memory: int | str | None = None,
        n_jobs: int | None = None,
        trend: TrendBasis | None = None,
        device: str | None = None,
    ) -> None:
        # With a trend, the evidence is that of the contrasts: combinations of the targets that are orthogonal to it.
        self.X, self.noise, self.trend = X, noise, trend
        self.Y = Y if trend is None else trend.residual(Y)
        self.device = device
        self.memory, self.workers = memory_budget(memory), workers_for(Y.shape[0], n_jobs)
        if self.device is None:
            self._reserve()

    def _reserve(self) -> None:
        """Allocate the n x n array, once."""
        if not hasattr(self, "_buffer"):
            self._buffer = square_arrays(self.Y.shape[0], 1, self.memory, "learn from fewer rows (evidence=)")[0]

    def __call__(self, kernel: Kernel, *, gradient: bool = False) -> Evidence:
        """Evaluate the log evidence."""
        with blas_for(self.Y.shape[0]):
            return self._evaluate(kernel, gradient)

    def _evaluate(self, kernel: Kernel, gradient: bool) -> Evidence:
        try:
            points, factor, tau = self._factorised(kernel)
        except NotPositiveDefiniteError as error:
            return Evidence(-math.inf, np.zeros(kernel.theta.size) if gradient else None, error.jitter)
        alpha = factor.solve(self.Y)
        value = evidence_value(factor, self.Y, alpha) + contrasts(self.trend, tau, alpha.shape[1])
        if not gradient:
            return Evidence(value, None, factor.jitter)
        # With a trend, the inverse is also projected onto its complement.
        left, right = alpha / alpha.shape[1], alpha
        if self.trend is not None:
            left, right = np.hstack([left, self.trend.Q / tau]), np.hstack([right, self.trend.Q])
        return Evidence(value, self._slope(kernel, points, factor, left, right)[0], factor.jitter)

    def _factorised(self, kernel: Kernel) -> tuple[tuple[Points, Points] | None, Any, float]:
        """The prepared rows, None on a GPU, the factor of K + D, and τ; with a trend, K + D is projected."""
        if self.device is not None:
            gram = Gram(kernel, self.X, n_jobs=self.workers, device=self.device)
            if gram.card is not None:
                factor = card_factor(gram, self.noise, self.trend)
                return None, factor, factor.tau  # the jitter was projected with the rest
            self._reserve()
        points = kernel.prepare(self.X)
        K = covariance_into(self._buffer, kernel, points, self.workers)
        diagonal = np.einsum("ii->i", K)
        diagonal += self.noise
        tau = 0.0 if self.trend is None else self.trend.put_into(K)
        factor = cholesky(K, jitter_limit=JITTER_LIMIT)
        return points, factor, tau + factor.jitter

    def _slope(self, kernel: Kernel, points: Any, factor: Any, left: Array, right: Array) -> tuple[Array, Array]:
        """The derivative by theta, and the diagonal of (K + D)⁻¹; the factor cannot be used afterwards."""
        t = self.Y.shape[1]
        if points is None:
            return t * factor.evidence_vjp(left, right), factor.inverted_diagonal()
        inverse = inverse_below(factor)
        return t * lower_vjp(kernel, points, inverse, left, right, self.workers), inverse.diagonal()


class WeightedEvidence(LogEvidence):
    """The log evidence of weighted rows: a row of weight w counts as w equal rows.

    The noise is the last term of the kernels that it is called with.
    """

    def __init__(self, X: Any, Y: Array, weights: Array, memory: Any = None, n_jobs: Any = None, device: Any = None):
        super().__init__(X, Y, 0.0, memory, n_jobs, device=device)
        self.weights = weights

    def _evaluate(self, kernel: Kernel, gradient: bool) -> Evidence:
        value, slope, by_noise = self.beside_noise(*signal_and_noise(kernel))
        return Evidence(value, np.append(slope, by_noise) if gradient else None, 0.0)

    def beside_noise(self, kernel: Kernel, noise: float) -> tuple[float, Array, float]:
        """Return the evidence of a kernel plus noise, and its gradients by the kernel and by the log of the noise."""
        n, t = self.Y.shape
        self.noise = noise / self.weights
        try:
            points, factor, _ = self._factorised(kernel)
        except NotPositiveDefiniteError:
            return -math.inf, np.zeros(kernel.theta.size), 0.0
        alpha = factor.solve(self.Y)
        extra = float(self.weights.sum()) - n  # rows beyond the first of each group of equal rows
        value = evidence_value(factor, self.Y, alpha)
        value -= 0.5 * t * (float(np.log(self.weights).sum()) + extra * math.log(2.0 * math.pi * noise))
        slope, diagonal = self._slope(kernel, points, factor, alpha / t, alpha)
        own = np.einsum("ij,ij->i", alpha, alpha) - t * diagonal
        return value, slope, 0.5 * float(self.noise @ own) - 0.5 * t * extra


def covariance_into(K: Array, kernel: Kernel, points: tuple[Points, Points], workers: int) -> Array:
    """Write K of prepared rows into an array, and return it; only half is computed: K (n, n)."""
    terms = list(_terms(kernel, *points))
    signal = [term for term in terms if not isinstance(term[0], White)] or terms

    def panel(rows: slice) -> None:
        (first, A, B), *others = signal
        own = K[rows, : rows.stop]
        first.tile(A[rows], B[: rows.stop], own)
        for k, A, B in others:
            own += k.tile(A[rows], B[: rows.stop])
        K[: rows.start, rows] = own[:, : rows.start].T

    run(panel, panels(K.shape[0]), workers)
    if len(signal) < len(terms):
        diagonal = np.einsum("ii->i", K)
        diagonal += sum(k.noise for k, _, _ in terms if isinstance(k, White))
    return K


def workers_for(n: int, n_jobs: int | None) -> int:
    """Return how many threads compute the matrix of n rows."""
    return 1 if n <= FEW else worker_count(n_jobs)


def blas_for(n: int) -> AbstractContextManager[Any]:
    """Hold BLAS to one thread if n is small."""
    return one_blas_thread() if n <= FEW else nullcontext()


def contrasts(trend: TrendBasis | None, tau: float, targets: int) -> float:
    """Return the evidence of contrasts less that of a projected matrix whose trend has variance τ."""
    q = 0 if trend is None else trend.Q.shape[1]
    return 0.5 * targets * q * math.log(2.0 * math.pi * tau) if q else 0.0


def card_factor(gram: Gram, noise: float | Array, trend: TrendBasis | None = None) -> Any:
    """Return the factor of K + D on a GPU, any trend projected out, with as little jitter as possible: noise (n,)."""
    n = gram.shape[0]
    assert gram.card is not None
    factor = gram.card.factor(gram.left, gram.right, np.ones((n, 1)), noise, None if trend is None else trend.Q)
    attempt, scale = n * float(np.finfo(np.float64).eps), float(np.abs(factor.diagonal).mean())
    while factor.failed:
        if attempt > JITTER_LIMIT:
            raise NotPositiveDefiniteError(factor.failed - 1, factor.jitter)
        factor = factor.jittered(attempt * scale)
        attempt *= 10.0
    return factor


def refined_card_factor(gram: Gram, noise: float | Array) -> Any:
    """Return a factor of K + D on a GPU in single precision, whose solutions are refined: noise (n,)."""
    assert gram.card is not None
    factor = gram.card.solver(gram.left, gram.right, np.ones((gram.shape[0], 1)), noise)
    if factor.failed:
        raise NotPositiveDefiniteError(factor.failed - 1, 0.0)
    return factor


def square_arrays(n: int, count: int, memory: int, instead: str) -> Array:
    """Return arrays for the evidence of n rows, or raise if they exceed ``memory``: → (count, n, n)."""
    needed = 8 * count * n * n
    if needed > memory:
        raise MemoryError(
            f"the evidence of {n:,} rows takes {readable(needed)} and memory is {readable(memory)}; {instead}, or "
            "raise memory=."
        )
    return np.empty((count, n, n))


def inverse_below(factor: Factor) -> Array:
    """Turn a Cholesky factor into the inverse of its matrix, in the same memory, on and below the diagonal."""
    A = factor.packed
    if A.shape[0] <= LAPACK_ROWS:
        return np.asarray(lapack.dpotri(A.T, lower=0, overwrite_c=1)[0]).T
    blocks = spans(A.shape[0], BLOCK)
    # L⁻¹, from the last columns to the first: what is to the right of a block is inverted already.
    for j in reversed(range(len(blocks))):
        c = blocks[j]
        corner = np.tril(lapack.dtrtri(A[c, c], lower=1)[0])
        for r in reversed(blocks[j + 1 :]):
            between = slice(c.stop, r.start)
            A[r, c] = (np.tril(A[r, r]) @ A[r, c] + A[r, between] @ A[between, c]) @ -corner
        A[c, c] = corner
    # L⁻ᵀ L⁻¹, from the first rows to the last: a row needs only itself and the rows below.
    for r in blocks:
        A[r, : r.stop] = A[r, r].T @ A[r, : r.stop] + A[r.stop :, r].T @ A[r.stop :, : r.stop]
    return A


def lower_vjp(
    kernel: Kernel,
    points: tuple[Points, Points],
    inverse: Array,
    left: Array,
    right: Array,
    workers: int,
) -> Array:
    """Return ``½ Σ W ∘ ∂K/∂theta`` for the symmetric ``W = L Rᵀ - A⁻¹``, from the lower triangle of A⁻¹ alone."""
    A, B = points

    def panel(rows: slice) -> Array:
        W = left[rows] @ right[: rows.stop].T
        W -= inverse[rows, : rows.stop]
        corner = W[:, rows.start :]
        corner[...] = np.tril(corner)
        # An entry below the diagonal counts twice, and the gradient has a factor ½: only the diagonal is halved.
        diagonal = np.einsum("ii->i", corner)
        diagonal *= 0.5
        return kernel.tile_vjp(A[rows], B[: rows.stop], W)

    return np.asarray(np.sum(run(panel, panels(len(A)), workers), axis=0))


def panels(n: int) -> list[slice]:
    """Return the rows of panels below the diagonal; a single panel if n is small."""
    # The longest first, so that the threads finish at about the same time.
    return spans(n, PANEL if n > 2 * PANEL else n)[::-1]


def evidence_value(factor: Any, Y: Array, alpha: Array) -> float:
    """Return the log evidence from a factor of K + D and the solution of ``(K + D) α = Y``: Y (n, t), alpha (n, t)."""
    n, t = Y.shape
    return float(-0.5 * np.vdot(Y, alpha) - 0.5 * t * (factor.logdet() + n * math.log(2.0 * math.pi)))


def signal_and_noise(kernel: Kernel) -> tuple[Kernel, float]:
    """Split a sum into the kernel that correlates different objects and the variance of its white noise."""
    terms = [term for term, _, _ in _terms(kernel, None, None)]
    signal = [k for k in terms if not isinstance(k, White)]
    if not signal or len(signal) == len(terms):
        return kernel, 0.0
    return reduce(add, signal), sum(k.noise for k in terms if isinstance(k, White))


def _terms(kernel: Kernel, A: Points | None, B: Points | None) -> Iterator[tuple[Any, Any, Any]]:
    """The terms of a sum, each with the rows as it prepared them."""
    if not isinstance(kernel, Sum):
        yield kernel, A, B
        return
    for i, child in enumerate((kernel.left, kernel.right)):
        yield from _terms(child, None if A is None else A.children[i], None if B is None else B.children[i])
