"""The contract of a family of covariances: what EM asks of full, tied, diagonal and spherical ones alike.

A family is known by its *quadratics*: the products ``x_i x_j``, ``i ≤ j``, where covariances are matrices (full, tied),
and the squares ``x_i²`` where they are diagonal (diag, spherical). The quadratic form of a precision is linear in
them, and the second moments of rows are their sums.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["EPS", "Family", "Floats"]

Floats = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)


class Family(Protocol):
    """What the covariances of K Gaussians in d dimensions may look like.

    Rows stand in columns here, ``(..., d, b)``. Covariances, precisions and factors have the family's shape, that of
    scikit-learn's ``covariances_``; *stacked* factors have one entry for each component, whatever components share.
    """

    @property
    def name(self) -> str:
        """What scikit-learn calls it."""

    @property
    def n_components(self) -> int:
        """K."""

    @property
    def n_features(self) -> int:
        """The dimension d."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the covariances."""

    @property
    def size(self) -> int:
        """How many quadratics a row has: Q."""

    @property
    def n_parameters(self) -> int:
        """Free parameters of the covariances."""

    def quadratics(self, x: Floats, out: Floats) -> Floats:
        """Write the quadratics of rows: x (..., d, b), out (..., Q, b) → (..., Q, b)."""

    def scatter(self, x: Floats, r: Floats) -> Floats:
        """Return the weighted sum of quadratics, without forming them: x (t, d, b), r (t, b) → (Q,)."""

    def covariances(self, second: Floats, weights: Floats, ridge: float) -> Floats:
        """Return the covariances that fit second moments best: second (K, Q), weights (K,)."""

    def factor(self, covariances: Floats) -> Floats:
        """Return P with ``Σ⁻¹ = P Pᵀ``, upper triangular."""

    def factor_precisions(self, precisions: Floats) -> Floats:
        """Return P with ``Λ = P Pᵀ``, upper triangular."""

    def precisions(self, factors: Floats) -> Floats:
        """Return ``Λ = P Pᵀ``."""

    def invert(self, factors: Floats) -> Floats:
        """Return ``Σ = (P Pᵀ)⁻¹``."""

    def stack(self, values: Floats) -> Floats:
        """Return one factor, or covariance, for each component: → (K, d, d) or (K, d)."""

    def coefficients(self, stacked: Floats) -> Floats:
        """Return c with ``xᵀ Λ_k x = c_k · quadratics(x)``: stacked (K, d, d) or (K, d) → (K, Q)."""

    def log_det(self, stacked: Floats) -> Floats:
        """Return ``log det P_k``: stacked (K, d, d) or (K, d) → (K,)."""

    def whiten(self, factor: Floats, x: Floats) -> Floats:
        """Return ``Pᵀ x`` for one component: factor (d, d) or (d,), x (..., d, b) → (..., d, b)."""

    def departure(self, stacked: Floats, covariances: Floats) -> Floats:
        """Return ``‖Pᵀ Σ P - I‖``, which is zero where ``Σ⁻¹ = P Pᵀ``: stacked (K, d, d) or (K, d) → (K,)."""

    def variances(self, covariances: Floats, columns: NDArray[np.bool_]) -> Floats:
        """Return the variances of each component along its principal axes: columns (d,) → (K, m)."""
