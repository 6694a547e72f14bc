"""Sparse Gaussian processes: the collapsed variational bound of Titsias (2009), and posteriors through features.

With landmarks Z, ``Q = K_nm K_mm⁻¹ K_mn`` and noise D, the bound is ``log N(y | 0, Q + D) - ½ tr D⁻¹(K - Q)``, never
above the log evidence. With ``K_mm = L Lᵀ``, ``Φ = K_nm L⁻ᵀ`` and ``C = I + ΦᵀD⁻¹Φ`` everything costs O(n m²), and its
gradient is that of K_nm, K_mm and the diagonal of K weighted by matrices of their own shapes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, eigh, solve_triangular

from gramian.certificates import Certificate
from gramian.gram import Gram
from gramian.kernels import Kernel
from gramian.progress import Clock
from gramian.resources import memory_budget, readable, spans
from gramian.solvers.gp.evidence import Evidence, signal_and_noise
from gramian.solvers.gp.posterior import CHUNK, Posterior
from gramian.solvers.solution import relative_residuals

__all__ = ["CollapsedBound", "FeaturePosterior", "LandmarkPosterior", "feature_posterior", "landmark_posterior"]

Array = NDArray[np.float64]

JITTERS = (1e-10, 1e-8, 1e-6)
"""What is tried on the diagonal of K_mm, relative to its mean; the bound stays one whatever it is."""
COPIES = 4
"""Arrays of the shape (n, m) alive at once."""


@dataclass(frozen=True, eq=False)
class _Features:
    """Bayesian linear regression: features Φ, noise D, and the factor of C = I + ΦᵀD⁻¹Φ."""

    phi: Array
    D: Array
    C: Array
    LC: Array
    weighted: Array

    @classmethod
    def of(cls, phi: Array, D: Array, Y: Array) -> _Features:
        C = (phi / D[:, None]).T @ phi
        C[np.diag_indices_from(C)] += 1.0
        return cls(phi, D, C, cholesky(C, lower=True, check_finite=False), phi.T @ (Y / D[:, None]))

    @property
    def weights(self) -> Array:
        """Posterior means of the weights of the features, C⁻¹ΦᵀD⁻¹y."""
        return np.asarray(cho_solve((self.LC, True), self.weighted, check_finite=False))

    def evidence(self, Y: Array) -> float:
        """log N(y | 0, ΦΦᵀ + D), summed over targets."""
        n, t = Y.shape
        logdet = float(np.log(self.D).sum() + 2.0 * np.log(np.diagonal(self.LC)).sum())
        explained = solve_triangular(self.LC, self.weighted, lower=True, check_finite=False)
        fit = float(np.sum(Y * Y / self.D[:, None]) - np.sum(explained**2))
        return -0.5 * (fit + t * (logdet + n * math.log(2.0 * math.pi)))

    def certificate(self, tol: float, clock: Clock) -> Certificate:
        """The residual of the weights."""
        worst = float(relative_residuals(self.weighted - self.C @ self.weights, self.weighted).max(initial=0.0))
        met = worst <= tol
        message = "" if met else f"above tol={tol:.0e}: the noise is too small for float64; raise it."
        return Certificate(
            kind="residual", violation=worst, converged=met, iterations=1, seconds=clock.seconds, message=message
        )


class CollapsedBound:
    """The collapsed bound on the log evidence, as a function of the kernel, landmarks held still."""

    def __init__(
        self,
        X: Any,
        Y: Array,
        noise: float | Array,
        landmarks: Any,
        memory: int | str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.X, self.Y, self.noise, self.landmarks = X, Y, noise, landmarks
        self.memory, self.n_jobs = memory_budget(memory), n_jobs
        n, m = Y.shape[0], landmarks.shape[0]
        if COPIES * 8 * n * m > self.memory:
            raise MemoryError(
                f"{n:,} rows by {m:,} landmarks take {readable(COPIES * 8 * n * m)} and memory is "
                f"{readable(self.memory)}; lower n_components of the approximation, or raise memory=."
            )

    def __call__(self, kernel: Kernel, *, gradient: bool = False) -> Evidence:
        """Evaluate the bound."""
        try:
            L, model, jitter = self.factors(kernel)
        except LinAlgError:
            return Evidence(-math.inf, np.zeros(kernel.theta.size) if gradient else None, math.nan)
        signal, _ = signal_and_noise(kernel)
        missed = np.asarray(signal.diag(self.X), dtype=np.float64) - np.einsum("ij,ij->i", model.phi, model.phi)
        value = model.evidence(self.Y) - 0.5 * self.Y.shape[1] * float(np.sum(missed / model.D))
        return Evidence(value, self._gradient(kernel, L, model, missed) if gradient else None, jitter)

    def factors(self, kernel: Kernel) -> tuple[Array, _Features, float]:
        """Factorise at a kernel: → (m, m)."""
        signal, white = signal_and_noise(kernel)
        D = np.broadcast_to(np.asarray(self.noise, dtype=np.float64) + white, self.Y.shape[:1])
        if not np.all(D > 0):
            raise ValueError("a sparse process needs noise > 0 on every row; raise alpha, or learn the noise.")
        K = np.asarray(signal(self.landmarks), dtype=np.float64)
        L, jitter = _jittered(K)
        B = Gram(signal, self.X, self.landmarks, memory=self.memory, n_jobs=self.n_jobs).dense()
        phi = solve_triangular(L, B.T, lower=True, overwrite_b=True, check_finite=False).T
        return L, _Features.of(phi, D, self.Y), jitter

    def _gradient(self, kernel: Kernel, L: Array, model: _Features, missed: Array) -> Array:
        """½ Σ W∘∂Q with W = ααᵀ + t D⁻¹ΦC⁻¹ΦᵀD⁻¹, through K_nm and K_mm; the diagonal; and the noise."""
        t, phi, D = self.Y.shape[1], model.phi, model.D[:, None]
        alpha = (self.Y - phi @ model.weights) / D
        whitened = solve_triangular(model.LC, phi.T, lower=True, check_finite=False)
        inverse = solve_triangular(L, np.eye(L.shape[0]), lower=True, check_finite=False)
        # P = K_nm K_mm⁻¹ = Φ L⁻¹ is only ever needed multiplied by W.
        through_alpha = (alpha.T @ phi) @ inverse
        core = np.eye(L.shape[0]) - cho_solve((model.LC, True), np.eye(L.shape[0]), check_finite=False)
        W_nm = alpha @ through_alpha + t * ((phi / D) @ (core @ inverse))
        rest = inverse.T @ (model.C @ core - core) @ inverse
        W_mm = -0.5 * (through_alpha.T @ through_alpha + t * rest)
        others = self.landmarks.copy()  # other objects than the landmarks: no white noise between them
        total = Gram(kernel, self.X, others, memory=self.memory, n_jobs=self.n_jobs).vjp(W_nm)
        total = total + Gram(kernel, self.landmarks, others, memory=self.memory, n_jobs=self.n_jobs).vjp(W_mm)
        on_diagonal = -0.5 * t / model.D
        on_noise = 0.5 * (np.sum(alpha**2, axis=1) - t / model.D + t * np.sum(whitened**2, axis=0) / model.D**2)
        on_noise += 0.5 * t * missed / model.D**2
        return total + self._diagonal_vjp(kernel, on_diagonal, on_noise)

    def _diagonal_vjp(self, kernel: Kernel, on_signal: Array, on_noise: Array) -> Array:
        """Weights of ∂k(x, x), of which white noise has weights of its own."""
        points, _ = kernel.prepare(self.X)
        row = self.X[:1]
        one = np.ones((1, 1))
        # What a row has with itself and not with its copy is white noise.
        by_noise = kernel.vjp(row, None, one) - kernel.vjp(row, row.copy(), one)
        total = kernel.diagonal_vjp(points, on_signal) + by_noise * float(on_noise.sum() - on_signal.sum())
        return np.asarray(total, dtype=np.float64)


def _jittered(K: Array) -> tuple[Array, float]:
    size = float(np.mean(np.diagonal(K)))
    for jitter in JITTERS:
        A = K.copy()
        A[np.diag_indices_from(A)] += jitter * size
        try:
            return cholesky(A, lower=True, overwrite_a=True, check_finite=False), jitter * size
        except LinAlgError:
            continue
    raise LinAlgError("K of the landmarks is singular.")


class LandmarkPosterior(Posterior):
    """The variational posterior; ``X`` are the landmarks and ``alpha`` the coefficients there."""

    def __init__(self, basis: Array, evidence: float, jitter: float, **common: Any) -> None:
        super().__init__(**common)
        self.basis, self.evidence, self.jitter = basis, evidence, jitter

    def whiten(self, K: Array) -> Array:
        return self.basis @ K.T


def landmark_posterior(bound: CollapsedBound, kernel: Kernel, *, workers: int, tol: float, clock: Clock) -> Posterior:
    """Return the variational posterior at a kernel.

    Its variance is ``k(z, z) - k_zm K_mm⁻¹ k_mz + k_zm L⁻ᵀ C⁻¹ L⁻¹ k_mz``: it grows to the prior's away from the
    landmarks.
    """
    value = bound(kernel).value
    L, model, jitter = bound.factors(kernel)
    beta = solve_triangular(L, model.weights, lower=True, trans="T", check_finite=False)
    c, U = eigh(model.C, check_finite=False)
    basis = (
        np.sqrt(np.maximum(1.0 - 1.0 / c, 0.0))[:, None]
        * solve_triangular(L, U, lower=True, trans="T", check_finite=False).T
    )
    common: dict[str, Any] = {"kernel": kernel, "X": bound.landmarks, "alpha": beta, "memory": bound.memory}
    return LandmarkPosterior(basis, value, jitter, workers=workers, certificate=model.certificate(tol, clock), **common)


class FeaturePosterior(Posterior):
    """Bayesian linear regression on features: ``f = <w, ψ>``, w normal; ``alpha`` are the means of w."""

    def __init__(self, features: Any, core: Array, evidence: float, **common: Any) -> None:
        super().__init__(**common)
        self.features, self.core, self.evidence = features, core, evidence

    def _spread(self, Z: Any) -> Array:
        """V with VᵀV = ψ(Z) C⁻¹ ψ(Z)ᵀ."""
        return np.asarray(solve_triangular(self.core, _dense(self.features.transform(Z)).T, lower=True))

    def mean(self, Z: Any) -> Array:
        parts = [_dense(self.features.transform(Z[rows])) @ self.alpha for rows in spans(Z.shape[0], self._height)]
        return np.concatenate(parts)

    @property
    def _height(self) -> int:
        return max(min(CHUNK, self.memory // (4 * 8 * self.core.shape[0])), 1)

    def variance(self, Z: Any) -> Array:
        parts = [np.sum(self._spread(Z[rows]) ** 2, axis=0) for rows in spans(Z.shape[0], self._height)]
        return np.concatenate(parts) + signal_and_noise(self.kernel)[1]

    def covariance(self, Z: Any) -> Array:
        V = self._spread(Z)
        return np.asarray(V.T @ V + signal_and_noise(self.kernel)[1] * np.eye(V.shape[1]))


def _dense(F: Any) -> Array:
    return np.asarray(F if isinstance(F, np.ndarray) else F.toarray(), dtype=np.float64)


def feature_posterior(
    features: Any,
    kernel: Kernel,
    X: Any,
    Y: Array,
    noise: float | Array,
    *,
    memory: int,
    workers: int,
    tol: float,
    clock: Clock,
) -> Posterior:
    """Condition a linear model in the space of a map: X (n, d), Y (n, t), noise (n,)."""
    D = np.broadcast_to(np.asarray(noise, dtype=np.float64) + signal_and_noise(kernel)[1], Y.shape[:1])
    if not np.all(D > 0):
        raise ValueError("a process in features needs noise > 0 on every row; raise alpha, or learn the noise.")
    n, m = Y.shape[0], features.transform(X[:1]).shape[1]
    if 2 * 8 * n * m > memory:
        raise MemoryError(
            f"{n:,} rows of {m:,} features take {readable(2 * 8 * n * m)} and memory is {readable(memory)}; lower "
            "n_components of the approximation, or raise memory=."
        )
    model = _Features.of(_dense(features.transform(X)), D, Y)
    common: dict[str, Any] = {"kernel": kernel, "X": X, "alpha": model.weights, "memory": memory, "workers": workers}
    return FeaturePosterior(features, model.LC, model.evidence(Y), certificate=model.certificate(tol, clock), **common)
