"""The Laplace approximation of a binary Gaussian process classifier: mode by Newton, evidence, and its gradient.

With labels y in {0, 1}, π = σ(f), g = y - π and H = diag(π(1 - π)), the mode of p(f | y) satisfies f = K g. There
``log q(y | X) = log p(y | f) - ½ aᵀf - ½ log det B`` with f = K a and ``B = I + H^½ K H^½`` (Rasmussen and Williams,
2006, chapters 3.4 and 5.5). Minus the log posterior is the convex ``Σ log(1 + e^(∓f)) + ½ fᵀK⁻¹f``, so its duality gap
at the coefficients g is what certifies the mode.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas
from scipy.special import expit, ndtr, xlogy

from gramian.certificates import Certificate, certify
from gramian.gram import Gram
from gramian.kernels import Kernel
from gramian.progress import Clock
from gramian.resources import memory_budget
from gramian.solvers.gp.evidence import (
    Evidence,
    blas_for,
    covariance_into,
    inverse_below,
    lower_vjp,
    square_arrays,
    workers_for,
)
from gramian.solvers.gp.posterior import Posterior
from gramian.solvers.linear.cholesky import Factor, NotPositiveDefiniteError, cholesky
from gramian.solvers.linear.diagnose import diagnosis

GAP = 1e-13
"""Relative duality gap at which Newton's method stops: the error of the evidence is about its square root."""
ROUNDING = 1e-9
"""Relative duality gap that counts as converged: below it, a step that gains nothing is due to rounding."""

MODES = 32
"""The last modes, kept as starts."""
CHORD, GAIN = 1e-2, 0.1
"""Below this gap the last factor is used again, as long as a step reduces the gap to less than this share."""

Array = NDArray[np.float64]


def _weights(density: Array) -> Array:
    return density / density.sum()


NORMAL, LOGISTIC = np.arange(-9.0, 9.25, 0.5), np.arange(-36.0, 36.25, 0.5)
"""Nodes of the trapezoidal rule for the normal and for the logistic density."""
NORMAL_WEIGHTS = _weights(np.exp(-0.5 * NORMAL**2))
LOGISTIC_WEIGHTS = _weights(expit(LOGISTIC) * expit(-LOGISTIC))


@dataclass(frozen=True, eq=False)
class Mode:
    """The mode of the latent values and the Gaussian around it."""

    f: Array  # (n,): Latent values at the mode
    coefficients: Array  # (n,): y - π, with ``f = K (y - π)``
    pi: Array  # (n,): Probabilities of class 1
    root: Array  # (n,): H^½, the square root of the curvature
    factor: Any  # Of B, in memory or on a GPU
    evidence: float  # log q(y | X)
    certificate: Certificate  # The duality gap

    def lower(self) -> Array:
        """Return a copy of the factor: → (n, n)."""
        return np.asarray(self.factor.lower() if isinstance(self.factor, Factor) else self.factor.to_host())


@dataclass(frozen=True, eq=False)
class CardGram:
    """K on a GPU, recomputed for each product; the factor of B is kept there."""

    gram: Gram

    def __matmul__(self, v: Array) -> Array:
        return np.asarray(self.gram @ v)

    def factor(self, root: Array) -> Any:
        """Return the factor of B at H^½: root (n,)."""
        assert self.gram.card is not None
        found = self.gram.card.factor(self.gram.left, self.gram.right, root[:, None], 1.0)
        if found.failed:
            raise NotPositiveDefiniteError(found.failed - 1, 0.0)
        return found

    def variance(self, factor: Any) -> Array:
        """Return the posterior variance of the latent values: → (n,)."""
        return np.asarray(self.gram.diagonal() - factor.explained(self.gram))


def mode(
    K: Array | CardGram,
    y: NDArray[Any],
    *,
    start: Array | None = None,
    max_iter: int = 100,
    out: Array | None = None,
) -> Mode:
    """Find the mode by Newton's method, halving steps that gain nothing: K (n, n), y (n,), start (n,), out (n, n).

    ``start`` are latent values, as at the mode of another K.
    """
    clock = Clock()
    B = np.empty_like(K) if out is None and isinstance(K, np.ndarray) else out
    newton = _Newton(K, np.asarray(y, dtype=np.float64))
    if start is not None:
        newton.jump(start, B)
    iterations, why = 0, "no step improves the posterior; check the kernel with is_kernel."
    factor = None
    while newton.gap > GAP:
        if iterations == max_iter:
            why = f"stopped after {max_iter} Newton steps; allow more."
            break
        # Near the mode the curvature hardly changes, so the last factor is used again.
        if factor is None or newton.gap > CHORD or not newton.chord(factor):
            factor = newton.factorise(B, newton.root)
            if not newton.step(factor):
                break
        iterations += 1
    if factor is not None:
        newton.chord(factor)  # needs no new factor, and the error of the evidence is about the square root of the gap
    factor = newton.factorise(B, newton.root)
    told: Any = {"primal": newton.primal, "dual": newton.dual, "iterations": iterations, "seconds": clock.seconds}
    violation = float(np.abs(newton.a - newton.slope).max())
    certificate = certify("duality gap", newton.gap, ROUNDING, why, violation=violation, **told)
    evidence = -newton.value - 0.5 * factor.logdet()
    return Mode(newton.f, newton.slope, newton.pi, newton.root, factor, evidence, certificate)


class _Newton:
    """The iterate of Newton's method: coefficients a with f = K a."""

    def __init__(self, K: Array | CardGram, y: Array) -> None:
        self.K, self.y = K, y
        self.sign = 2.0 * y - 1.0
        zero = np.zeros_like(y)
        self._move(zero, zero, self._objective(zero, zero))

    def _move(self, a: Array, f: Array, value: float) -> None:
        self.a, self.f, self.value, self.pi = a, f, value, expit(f)
        self.slope = self.y - self.pi
        self.root = np.sqrt(self.pi * (1.0 - self.pi))
        # Primal and dual values at the coefficients y - π, which are dual feasible whatever f is.
        of_slope, p = self.K @ self.slope, np.abs(self.slope)
        self.primal = self._objective(self.slope, of_slope)
        self.dual = -float((xlogy(p, p) + xlogy(1.0 - p, 1.0 - p)).sum() + 0.5 * (self.slope @ of_slope))
        self.gap = max(self.primal - self.dual, 0.0) / max(abs(self.primal), abs(self.dual), 1.0)

    def jump(self, f: Array, B: Array | None) -> None:
        """Take a Newton step from any latent values, if its end is better than zero."""
        pi = expit(f)
        a = self._target(self.factorise(B, np.sqrt(pi * (1.0 - pi))), f, self.y - pi)
        end = self.K @ a
        if (value := self._objective(a, end)) < self.value:
            self._move(a, end, value)

    def _objective(self, a: Array, f: Array) -> float:
        return float(np.logaddexp(0.0, -self.sign * f).sum() + 0.5 * (a @ f))

    def factorise(self, B: Array | None, root: Array) -> Any:
        """Factor of B = I + H^½ K H^½, whose eigenvalues are at least one if K is positive semi-definite."""
        self.factored = root
        if isinstance(self.K, CardGram):
            return self.K.factor(root)
        assert B is not None
        np.multiply(self.K, root, out=B)
        B *= root[:, None]
        diagonal = np.einsum("ii->i", B)  # a view: fancy indices would take as long as a small factorisation
        diagonal += 1.0
        return cholesky(B, jitter_limit=0.0)

    def _target(self, factor: Any, f: Array, slope: Array) -> Array:
        """The coefficients at the end of a full Newton step from f, with the curvature of the last factor."""
        root = self.factored
        b = root**2 * f + slope
        return b - root * factor.solve(root * (self.K @ b))

    def step(self, factor: Any) -> bool:
        """One Newton step, halved until it gains; whether it did."""
        a = self._target(factor, self.f, self.slope)
        f = self.K @ a
        before, gap = self.value, self.gap
        for length in 0.5 ** np.arange(20):
            trial = self.a + length * (a - self.a), self.f + length * (f - self.f)
            value = self._objective(*trial)
            if value < before or (length == 1.0 and value <= before + 1e-12 * abs(before)):
                self._move(*trial, value)
                return value < before or self.gap < gap
        return False

    def chord(self, factor: Any) -> bool:
        """A full step with an older factor, undone unless it lowers the gap much; whether it did."""
        before = dict(vars(self))
        a = self._target(factor, self.f, self.slope)
        f = self.K @ a
        self._move(a, f, self._objective(a, f))
        if self.gap < GAIN * before["gap"]:
            return True
        vars(self).update(before)
        return False


class LaplacePosterior(Posterior):
    """The Gaussian around the mode, by H^½ and the Cholesky factor L of B."""

    def __init__(self, root: Array, L: Array, *given: Any) -> None:
        super().__init__(*given)
        self.root, self.L = root, L

    def whiten(self, K: Array) -> Array:
        return np.asarray(blas.dtrsm(1.0, self.L.T, (K * self.root).T, lower=0, trans_a=1))

    def moments(self, Z: Any) -> tuple[Array, Array]:
        """Return mean and variance of the latent function: Z (m, d) → (m,)."""
        variance, strips = self.prior(Z)
        mean = np.empty_like(variance)
        for rows, K in strips:
            mean[rows] = K @ self.alpha
            V = self.whiten(K)
            variance[rows] -= np.einsum("ij,ij->j", V, V)
        return mean, np.maximum(variance, 0.0, out=variance)


class LaplaceEvidence:
    """The Laplace approximation of the log evidence of labels, as a function of the kernel.

    It owns two n x n arrays, which every call reuses. Newton's method starts at the mode of the nearest of the last
    kernels, or at zero where that is better.
    """

    def __init__(
        self,
        X: Any,
        y: NDArray[Any],
        memory: int | str | None = None,
        n_jobs: int | None = None,
        *,
        max_iter: int = 100,
        device: str | None = None,
    ) -> None:
        self.X, self.y = X, np.asarray(y, dtype=np.float64)
        self.memory, self.workers = memory_budget(memory), workers_for(self.y.size, n_jobs)
        self.max_iter, self.device = max_iter, device
        self.modes: deque[tuple[Array, Array]] = deque(maxlen=MODES)  # theta, and latent values at the mode
        self._K: Any = None
        self._B: Any = None
        if device is None:
            self._reserve()

    def _reserve(self) -> None:
        """Allocate the n x n arrays, once."""
        if self._K is None:
            self._K, self._B = square_arrays(self.y.size, 2, self.memory, "fit fewer rows")

    def mode(self, kernel: Kernel) -> Mode:
        """Return the mode at a kernel; the next call overwrites the array of its factor."""
        self._place(kernel)
        try:
            start = self._nearest(kernel.theta)
            found = mode(self._matrix, self.y, start=start, max_iter=self.max_iter, out=self._B)
        except NotPositiveDefiniteError as error:
            gram = Gram(kernel, self.X, memory=self.memory, n_jobs=self.workers)
            raise np.linalg.LinAlgError(f"{diagnosis(gram)}; use another kernel, or add White to it.") from error
        self.modes.append((kernel.theta, found.f))
        return found

    def _nearest(self, theta: Array) -> Array | None:
        """The latent values at the mode of the nearest kernel; None where no mode is known."""
        known = [(other, f) for other, f in self.modes if other.size == theta.size]
        if not known:
            return None
        return known[int(np.abs(np.array([other for other, _ in known]) - theta).sum(axis=1).argmin())][1]

    def _place(self, kernel: Kernel) -> None:
        """Compute K, in memory or on a GPU."""
        if self.device is not None:
            gram = Gram(kernel, self.X, memory=self.memory, n_jobs=self.workers, device=self.device)
            if gram.card is not None:
                self._matrix: Any = CardGram(gram)
                return
            self._reserve()
        self._points = kernel.prepare(self.X)
        self._matrix = covariance_into(self._K, kernel, self._points, self.workers)

    def __call__(self, kernel: Kernel, *, gradient: bool = False) -> Evidence:
        """Evaluate the approximate log evidence."""
        with blas_for(self.y.size):
            found = self.mode(kernel)
            return Evidence(found.evidence, self._gradient(kernel, found) if gradient else None, 0.0)

    def _gradient(self, kernel: Kernel, at: Mode) -> Array:
        """The gradient by theta, including that of log det B through the mode.

        The latter is half the posterior variance times the third derivative of the log likelihood, pulled back through
        (I + K H)⁻¹; the variance times the curvature is the diagonal of I - B⁻¹.
        """
        K, root, factor, g = self._matrix, at.root, at.factor, at.coefficients
        on_card = isinstance(K, CardGram)
        R = None if on_card else inverse_below(factor)
        left = K.variance(factor) * root**2 if R is None else 1.0 - R.diagonal()
        third = -0.5 * left * (1.0 - 2.0 * at.pi)
        pulled = root * (K @ third)
        u = third - root * (factor.solve(pulled) if R is None else blas.dsymv(1.0, R.T, pulled))
        sides = np.column_stack([g, u, g]), np.column_stack([g, g, u])
        if R is None:
            return np.asarray(factor.evidence_vjp(*sides))
        R *= root
        R *= root[:, None]
        return lower_vjp(kernel, self._points, R, *sides, self.workers)


def logistic_gaussian(mean: Array, variance: Array) -> Array:
    """Return E σ(f) for Gaussian f, to about 1e-12: mean, variance (m,) → (m,).

    E σ(f) is also E Φ((mean - u)/s) over a logistic u. The trapezoidal rule is used on the wider of the two densities,
    where it converges exponentially.
    """
    s = np.sqrt(variance)
    narrow = s < 1.0
    out = np.empty_like(mean)
    if narrow.any():
        out[narrow] = expit(mean[narrow, None] + s[narrow, None] * NORMAL) @ NORMAL_WEIGHTS
    if not narrow.all():
        out[~narrow] = ndtr((mean[~narrow, None] - LOGISTIC) / s[~narrow, None]) @ LOGISTIC_WEIGHTS
    return out
