"""Sparse Gaussian processes over passes: the collapsed bound of Titsias (2009), and linear regression in features.

With landmarks Z, ``Q = K_nm K_mm⁻¹ K_mn`` and noise D, the bound is ``log N(y | 0, Q + D) - ½ tr D⁻¹(K - Q)``, never
above the log evidence. With ``K_mm = L Lᵀ``, ``Φ = K_nm L⁻ᵀ`` and ``C = I + ΦᵀD⁻¹Φ`` everything costs O(n m²). A first
pass sums ``ΦᵀD⁻¹Φ``, ``ΦᵀD⁻¹y`` and a few numbers, which give the bound and the Cholesky factor of C; a second pass
sums the gradient, as vector-Jacobian products of K_nm, K_mm and the diagonal of K.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, eigh, solve_triangular

from gramian.certificates import Certificate, certify, relative_residuals
from gramian.data.passes import Need, Part, Passes, Sums
from gramian.features.base import WorkerMap
from gramian.gram import Gram
from gramian.gram.operator import wide
from gramian.kernels import Kernel
from gramian.kernels.points import dense
from gramian.progress import Clock
from gramian.resources import memory_budget, spans
from gramian.solvers.gp.evidence import Evidence, signal_and_noise
from gramian.solvers.gp.posterior import CHUNK, Posterior
from gramian.solvers.in_features.least_squares import targets_of

Array = NDArray[np.float64]

JITTERS = (1e-10, 1e-8, 1e-6)
"""Jitters tried in turn on the diagonal of K_mm, relative to its mean; the bound remains valid with any of them."""


@dataclass(frozen=True, eq=False)
class Observations:
    """Standardised targets of rows, and the variance of their noise."""

    centre: Array  # (t,): Subtracted from each target
    scale: Array  # (t,): Divides each target
    noise: float | None  # One variance for all rows; None if the last column of y holds one for each row

    def of(self, part: Part) -> tuple[Array, float | Array]:
        """Return standardised targets (r, t) and their noise, a number or (r,)."""
        Y = targets_of(part)
        if self.noise is not None:
            return (Y - self.centre) / self.scale, self.noise
        return (Y[:, :-1] - self.centre) / self.scale, Y[:, -1]

    def normalised(self, passes: Passes, sample: Part) -> Observations:
        """Return observations standardised by the mean and standard deviation of each target, in one pass."""
        # Summed about the mean of a sample, to avoid cancellation.
        middle = self.of(sample)[0].mean(axis=0)
        sums = passes.sum(_squares, self, middle, need=Need(X=False))
        mean = sums["first"] / sums["count"]
        deviation = np.sqrt(np.maximum(sums["second"] / sums["count"] - mean**2, 0.0))
        floor = 10.0 * np.finfo(np.float64).eps * np.abs(middle + mean)
        return Observations(middle + mean, np.where(deviation > floor, deviation, 1.0), self.noise)


def _squares(part: Part, observations: Observations, middle: Array) -> Sums:
    Y = observations.of(part)[0] - middle
    return Sums.of(count=Y.shape[0], first=Y.sum(axis=0), second=np.sum(Y * Y, axis=0))


# ---- linear regression in features ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Design:
    """The regression problem of a pass: features Φ, targets and noise D of rows."""

    features: Any  # Maps rows to (r, m); its results are kept between passes if memory allows
    width: int
    observations: Observations
    white: float

    def of(self, part: Part) -> tuple[Array, Array, Array]:
        """Return Φ (r, m), targets (r, t) and D (r, 1) of some rows."""
        Y, noise = self.observations.of(part)
        D = np.broadcast_to(noise + self.white, Y.shape[:1])[:, None]
        if not np.all(D > 0):
            raise ValueError("a process through a map needs noise > 0 on every row; raise alpha, or learn the noise.")
        return part.made(self.features), Y, D


def _regression_sums(part: Part, design: _Design) -> Sums:
    return _regression_of(*design.of(part))


def _regression_of(phi: Array, Y: Array, D: Array, **more: Any) -> Sums:
    root = np.sqrt(D)
    F, V = phi / root, Y / root
    return Sums.of(
        second=F.T @ F, right=F.T @ V, squares=np.sum(V * V), log_noise=np.log(D).sum(), count=Y.shape[0], **more
    )


class _Regression:
    """Bayesian linear regression on features Φ with noise D, from the sums of a pass."""

    def __init__(self, sums: Sums) -> None:
        self.sums, self.weighted = sums, sums["right"]
        self.C = sums["second"].copy()
        self.C[np.diag_indices_from(self.C)] += 1.0
        self.LC = cholesky(self.C, lower=True, check_finite=False)

    @cached_property
    def weights(self) -> Array:
        """Posterior means of the weights of the features, C⁻¹ΦᵀD⁻¹y."""
        return np.asarray(cho_solve((self.LC, True), self.weighted, check_finite=False))

    @property
    def evidence(self) -> float:
        """log N(y | 0, ΦΦᵀ + D), summed over targets."""
        n, t = float(self.sums["count"]), self.weighted.shape[1]
        logdet = float(self.sums["log_noise"]) + 2.0 * float(np.log(np.diagonal(self.LC)).sum())
        explained = solve_triangular(self.LC, self.weighted, lower=True, check_finite=False)
        fit = float(self.sums["squares"]) - float(np.sum(explained**2))
        return -0.5 * (fit + t * (logdet + n * math.log(2.0 * math.pi)))

    def certificate(self, tol: float, clock: Clock) -> Certificate:
        """The relative residual of the linear system of the weights."""
        worst = float(relative_residuals(self.weighted - self.C @ self.weights, self.weighted).max(initial=0.0))
        why = "the noise is too small for float64; raise it."
        return certify("residual", worst, tol, why, seconds=clock.seconds)


# ---- the bound -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Whitened:
    """Whitened features Φ = K_nm L⁻ᵀ of rows."""

    signal: Kernel
    landmarks: Any
    L: Array

    def __call__(self, X: Any) -> Array:
        K = Gram(self.signal, wide(X), self.landmarks, n_jobs=1).dense()
        return np.asarray(solve_triangular(self.L, K.T, lower=True, overwrite_b=True, check_finite=False).T)


def _bound_sums(part: Part, design: _Design) -> Sums:
    phi, Y, D = design.of(part)
    missed = np.asarray(design.features.signal.diag(wide(part.X)), dtype=np.float64) - np.einsum("ij,ij->i", phi, phi)
    once, twice = (np.sum(missed[:, None] / D**power) for power in (1, 2))
    return _regression_of(phi, Y, D, missed=once, missed_twice=twice)


def _slope_sums(
    part: Part, design: _Design, kernel: Kernel, weights: Array, LC: Array | None, through_alpha: Array, mixing: Array
) -> Sums:
    """Terms of the gradient from some rows; LC, the factor of C, is needed only if rows differ in their noise."""
    phi, Y, D = design.of(part)
    X, t = wide(part.X), Y.shape[1]
    alpha = (Y - phi @ weights) / D
    share = phi / D
    W = share @ (t * mixing)
    W += alpha @ through_alpha
    explained = 0.0
    if LC is not None:
        explained = float(np.sum(solve_triangular(LC, share.T, lower=True, check_finite=False) ** 2))
    # A copy, so that the kernel adds no white noise between rows and landmarks.
    through = Gram(kernel, X, design.features.landmarks.copy(), n_jobs=1).vjp(W)
    points, _ = kernel.prepare(X)
    diagonal = kernel.diagonal_vjp(points, -0.5 * t / D[:, 0])
    return Sums.of(
        through=through, diagonal=diagonal, alpha=np.sum(alpha**2), explained=explained, precision=np.sum(1.0 / D)
    )


class CollapsedBound:
    """The collapsed bound on the log evidence as a function of the kernel, with fixed landmarks."""

    def __init__(self, passes: Passes, observations: Observations, landmarks: Any) -> None:
        self.passes, self.observations, self.landmarks = passes, observations, landmarks
        self._last: tuple[Kernel, _Design, _Regression, float] | None = None

    def __call__(self, kernel: Kernel, *, gradient: bool = False) -> Evidence:
        """Evaluate the bound in one pass, with its gradient in two."""
        try:
            design, model, jitter = self.at(kernel)
        except LinAlgError:
            return Evidence(-math.inf, np.zeros(kernel.theta.size) if gradient else None, math.nan)
        value = model.evidence - 0.5 * model.weighted.shape[1] * float(model.sums["missed"])
        return Evidence(value, self._gradient(kernel, design, model) if gradient else None, jitter)

    def at(self, kernel: Kernel) -> tuple[_Design, _Regression, float]:
        """Return design, regression and jitter from one pass; the last result is cached, as it is often used twice."""
        if self._last is None or self._last[0] != kernel:
            signal, white = signal_and_noise(kernel)
            L, jitter = _jittered(np.asarray(signal(self.landmarks), dtype=np.float64))
            features = _Whitened(signal, self.landmarks, L)
            design = _Design(features, L.shape[0], self.observations, white)
            self.passes.forget()
            self._last = kernel, design, _Regression(self.passes.sum(_bound_sums, design, width=design.width)), jitter
        return self._last[1:]

    def _gradient(self, kernel: Kernel, design: _Design, model: _Regression) -> Array:
        """½ Σ W∘∂Q with W = ααᵀ + t D⁻¹ΦC⁻¹ΦᵀD⁻¹, through K_nm and K_mm, plus diagonal and noise terms."""
        L, t, one_noise = design.features.L, model.weighted.shape[1], design.observations.noise is not None
        identity = np.eye(L.shape[0])
        inverse = solve_triangular(L, identity, lower=True, check_finite=False)
        # P = K_nm K_mm⁻¹ = Φ L⁻¹ is needed only in products with W; αᵀΦ = ΦᵀD⁻¹y - (C - I) w.
        through_alpha = (model.weighted - (model.C - identity) @ model.weights).T @ inverse
        core = identity - cho_solve((model.LC, True), identity, check_finite=False)
        LC = None if one_noise else model.LC
        shared = (design, kernel, model.weights, LC, through_alpha, core @ inverse)
        found = self.passes.sum(_slope_sums, *shared, width=design.width)
        rest = inverse.T @ (model.C @ core - core) @ inverse
        W_mm = -0.5 * (through_alpha.T @ through_alpha + t * rest)
        total = found["through"] + Gram(kernel, self.landmarks, self.landmarks.copy()).vjp(W_mm)
        precision, explained = float(found["precision"]), float(found["explained"])
        if one_noise:
            # tr D⁻²ΦC⁻¹Φᵀ = tr D⁻¹(I - C⁻¹), as D is the same for all rows.
            explained = float(np.trace(core)) * precision / float(model.sums["count"])
        on_noise = 0.5 * (float(found["alpha"]) + t * (explained + float(model.sums["missed_twice"]) - precision))
        row, one = self.landmarks[:1], np.ones((1, 1))
        # White noise is the difference between k(x, x) of a row with itself and with its copy.
        by_noise = kernel.vjp(row, None, one) - kernel.vjp(row, row.copy(), one)
        return np.asarray(total + found["diagonal"] + by_noise * (on_noise + 0.5 * t * precision), dtype=np.float64)


def _jittered(K: Array) -> tuple[Array, float]:
    size = float(np.mean(np.diagonal(K)))
    for jitter in JITTERS:
        A = K.copy()
        A[np.diag_indices_from(A)] += jitter * size
        try:
            return cholesky(A, lower=True, overwrite_a=True, check_finite=False), jitter * size
        except LinAlgError:
            continue
    raise LinAlgError("the kernel matrix of the landmarks is singular; take fewer landmarks, or a rougher kernel.")


class LandmarkPosterior(Posterior):
    """The variational posterior; ``X`` are the landmarks and ``alpha`` their coefficients."""

    def __init__(self, basis: Array, evidence: float, jitter: float, *given: Any) -> None:
        super().__init__(*given)
        self.basis, self.evidence, self.jitter = basis, evidence, jitter

    def whiten(self, K: Array) -> Array:
        return self.basis @ K.T


def landmark_posterior(
    bound: CollapsedBound, kernel: Kernel, *, memory: int, workers: int, tol: float, clock: Clock
) -> Posterior:
    """Return the variational posterior for a kernel.

    Its variance is ``k(z, z) - k_zm K_mm⁻¹ k_mz + k_zm L⁻ᵀ C⁻¹ L⁻¹ k_mz``; far from the landmarks it tends to the
    prior variance.
    """
    value = bound(kernel).value
    design, model, jitter = bound.at(kernel)
    L = design.features.L
    beta = solve_triangular(L, model.weights, lower=True, trans="T", check_finite=False)
    c, U = eigh(model.C, check_finite=False)
    shares = np.sqrt(np.maximum(1.0 - 1.0 / c, 0.0))[:, None]
    basis = shares * solve_triangular(L, U, lower=True, trans="T", check_finite=False).T
    certificate = model.certificate(tol, clock)
    return LandmarkPosterior(basis, value, jitter, kernel, bound.landmarks, beta, memory, workers, certificate)


class FeaturePosterior(Posterior):
    """Bayesian linear regression on features: ``f = <w, ψ>`` with normal w; ``alpha`` is the posterior mean of w."""

    def __init__(self, features: Any, core: Array, evidence: float, *given: Any) -> None:
        super().__init__(*given)
        self.features, self.core, self.evidence = features, core, evidence

    def _spread(self, Z: Any) -> Array:
        """V with VᵀV = ψ(Z) C⁻¹ ψ(Z)ᵀ."""
        return np.asarray(solve_triangular(self.core, self._features(Z).T, lower=True))

    def _features(self, Z: Any) -> Array:
        return np.asarray(dense(self.features.transform(Z), np.float64))

    def mean(self, Z: Any) -> Array:
        return np.concatenate([self._features(Z[rows]) @ self.alpha for rows in spans(Z.shape[0], self._height)])

    @property
    def _height(self) -> int:
        return max(min(CHUNK, memory_budget(self.memory) // (4 * 8 * self.core.shape[0])), 1)

    def variance(self, Z: Any) -> Array:
        parts = [np.sum(self._spread(Z[rows]) ** 2, axis=0) for rows in spans(Z.shape[0], self._height)]
        return np.concatenate(parts) + signal_and_noise(self.kernel)[1]

    def covariance(self, Z: Any) -> Array:
        V = self._spread(Z)
        return np.asarray(V.T @ V + signal_and_noise(self.kernel)[1] * np.eye(V.shape[1]))


def feature_posterior(
    passes: Passes,
    observations: Observations,
    features: Any,
    kernel: Kernel,
    row: Any,
    *,
    memory: int,
    workers: int,
    tol: float,
    clock: Clock,
) -> Posterior:
    """Return the posterior of a linear model on the features of a fitted map, in one pass: row (1, d)."""
    lift = WorkerMap.of(features, row)
    design = _Design(lift, lift.width, observations, signal_and_noise(kernel)[1])
    model = _Regression(passes.sum(_regression_sums, design, width=lift.width))
    given = (kernel, row, model.weights, memory, workers, model.certificate(tol, clock))
    return FeaturePosterior(features, model.LC, model.evidence, *given)
