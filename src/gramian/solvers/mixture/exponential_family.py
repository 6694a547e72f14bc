"""A Gaussian mixture as an exponential family.

With ``φ(x) = (1, x, quadratics of x)`` the joint log-density of a row and a component is linear,

    log π_k N(x | μ_k, Σ_k) = θ_kᵀ φ(x),

so all components are evaluated by one matrix product, and the M-step needs only the sum of ``φ(x)`` weighted by
responsibilities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gramian.solvers.mixture.covariances import CovarianceFamily, Floats, quadratics

# Used for log 0: finite, so that 0 · log 0 is 0 and not NaN.
LOG_ZERO = -1e300


@dataclass(frozen=True, eq=False)
class Mixture:
    """The density ``p(x) = Σ_k π_k N(x | μ_k, Σ_k)``."""

    family: CovarianceFamily  # The family of the covariances
    weights: Floats  # (K,): Proportions π; components of weight zero are ignored
    means: Floats  # (K, d): The μ
    covariances: Floats  # The Σ, of the family's shape
    factors: Floats  # P with ``Σ⁻¹ = P Pᵀ``, of the same shape

    @classmethod
    def of(cls, family: CovarianceFamily, weights: Floats, means: Floats, covariances: Floats) -> Mixture:
        """Return the mixture with these covariances: weights (K,), means (K, d)."""
        return cls(family, weights, means, covariances, family.factor(covariances))

    @cached_property
    def stacked(self) -> Floats:
        """One factor for each component."""
        return self.family.stack(self.factors)

    @cached_property
    def coefficients(self) -> Floats:
        """Precisions as coefficients of the quadratics, ``(K, Q)``."""
        return self.family.coefficients(self.stacked)

    @cached_property
    def constants(self) -> Floats:
        """``log π_k + log N(μ_k | μ_k, Σ_k)``, ``(K,)``."""
        log_weights = np.log(self.weights, out=np.full_like(self.weights, LOG_ZERO), where=self.weights > 0)
        log_peaks = self.family.log_det(self.stacked) - 0.5 * self.family.n_features * math.log(2 * math.pi)
        return log_weights + log_peaks

    @cached_property
    def natural(self) -> Floats:
        """The θ of ``log π_k N(x | μ_k, Σ_k) = θ_kᵀ φ(x)``, ``(K, 1 + d + Q)``."""
        whitened = self.whiten(self.means)
        constant = self.constants - 0.5 * np.sum(whitened**2, axis=1)
        linear = self.family.unwhiten(self.stacked, whitened)
        return np.concatenate([constant[:, None], linear, -0.5 * self.coefficients], axis=1)

    @cached_property
    def traces(self) -> Floats:
        """``tr Σ_k⁻¹``, ``(K,)``."""
        flat = self.stacked.reshape(len(self.means), -1)
        return np.asarray(np.einsum("ki,ki->k", flat, flat))

    @cached_property
    def departures(self) -> Floats:
        """``‖P_kᵀ Σ_k P_k - I‖``, ``(K,)``: the rounding error of the factors."""
        return self.family.departure(self.stacked, self.covariances)

    def whiten(self, vectors: Floats) -> Floats:
        """Return ``P_kᵀ v_k`` for one vector of each component: vectors (K, d) → (K, d)."""
        return self.family.whiten(self.stacked, vectors[:, :, None])[:, :, 0]

    def log_joint(self, x: Floats) -> Floats:
        """Return ``log π_k N(x | μ_k, Σ_k)`` for a few rows, forming all residuals at once: x (d, m) → (K, m)."""
        with np.errstate(over="ignore", invalid="ignore"):
            whitened = self.family.whiten(self.stacked, x - self.means[:, :, None])
            joint = self.constants[:, None] - 0.5 * np.einsum("kdm,kdm->km", whitened, whitened)
        return np.fmax(joint, LOG_ZERO)

    def magnitude(self, reach: Floats) -> float:
        """Return the largest sum of absolute terms in ``xᵀ Λ_k x`` where ``|x| ≤ reach``: reach (K, d) or (d,).

        Evaluating the form term by term has a rounding error of this times eps, however small its value.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            terms = np.abs(self.coefficients) * quadratics(self.family, reach.reshape(-1, self.family.n_features))
            return float(terms.sum(axis=1)[self.weights > 0].max(initial=0.0))
