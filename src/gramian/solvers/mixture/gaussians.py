"""A Gaussian mixture as an exponential family.

With ``φ(x) = (1, x, quadratics of x)`` the joint log-density of a row and a component is linear,

    log π_k N(x | μ_k, Σ_k) = θ_kᵀ φ(x),

so that evaluating all components is one product of matrices, and all that an M-step needs of the data is the sum of
``φ(x)`` weighted by responsibilities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gramian.solvers.mixture.covariances import quadratics
from gramian.solvers.mixture.family import Family, Floats

__all__ = ["Mixture"]

# Stands for log 0: finite, so that 0 · log 0 is 0 and not NaN.
LOG_ZERO = -1e300


@dataclass(frozen=True, eq=False)
class Mixture:
    """The density ``p(x) = Σ_k π_k N(x | μ_k, Σ_k)``.

    Parameters
    ----------
    family : Family
        The shape of the covariances.
    weights : ndarray of shape (K,)
        Proportions π; a component of weight zero takes no part.
    means : ndarray of shape (K, d)
        The μ.
    covariances, factors : ndarray
        The Σ, and P with ``Σ⁻¹ = P Pᵀ``, of the family's shape.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.solvers.mixture.covariances import family
    >>> from gramian.solvers.mixture.gaussians import Mixture
    >>> standard = Mixture.of(family("full", 1, 2), np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
    >>> float(standard.constants[0])  # log N(0) = -log 2π
    -1.837...
    """

    family: Family
    weights: Floats
    means: Floats
    covariances: Floats
    factors: Floats

    @classmethod
    def of(cls, family: Family, weights: Floats, means: Floats, covariances: Floats) -> Mixture:
        """Return the mixture with these covariances.

        Parameters
        ----------
        family : Family
            The shape of the covariances.
        weights : ndarray of shape (K,)
            Proportions.
        means : ndarray of shape (K, d)
            Means.
        covariances : ndarray
            Covariances, of the family's shape; a ``ValueError`` names the component where one is singular.

        Returns
        -------
        Mixture
            With its factors.
        """
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
        linear = np.stack(
            [self.family.whiten(P.T, y[:, None])[:, 0] for P, y in zip(self.stacked, whitened, strict=True)]
        )
        return np.concatenate([constant[:, None], linear, -0.5 * self.coefficients], axis=1)

    @property
    def traces(self) -> Floats:
        """``tr Σ_k⁻¹``, ``(K,)``."""
        traces: Floats = np.sum(self.stacked**2, axis=tuple(range(1, self.stacked.ndim)))
        return traces

    @cached_property
    def departures(self) -> Floats:
        """``‖P_kᵀ Σ_k P_k - I‖``, ``(K,)``: how far rounding has put factors off."""
        return self.family.departure(self.stacked, self.covariances)

    def whiten(self, vectors: Floats) -> Floats:
        """Return ``P_kᵀ v_k`` for one vector of each component.

        Parameters
        ----------
        vectors : ndarray of shape (K, d)
            The v.

        Returns
        -------
        ndarray of shape (K, d)
            In units of the component's deviations.
        """
        pairs = zip(self.stacked, vectors, strict=True)
        return np.stack([self.family.whiten(P, v[:, None])[:, 0] for P, v in pairs])

    def magnitude(self, reach: Floats) -> float:
        """Return the largest sum of absolute terms in ``xᵀ Λ_k x`` where ``|x| ≤ reach``.

        Evaluated term by term, a quadratic form is wrong by rounding of this size, however small its value.

        Parameters
        ----------
        reach : ndarray of shape (K, d) or (d,)
            Bounds on the coordinates.

        Returns
        -------
        float
            ``max_k reachᵀ |Λ_k| reach``, over the components that take part.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            terms = np.sum(np.abs(self.coefficients) * quadratics(self.family, np.atleast_2d(reach)), axis=1)
        return float(np.max(terms, where=self.weights > 0, initial=0.0))
