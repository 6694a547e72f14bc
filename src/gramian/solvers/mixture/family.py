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
        """Write the quadratics of rows.

        Parameters
        ----------
        x : ndarray of shape (..., d, b)
            Rows.
        out : ndarray of shape (..., Q, b)
            Where to write.

        Returns
        -------
        ndarray of shape (..., Q, b)
            ``out``.
        """

    def scatter(self, x: Floats, r: Floats) -> Floats:
        """Return the weighted sum of quadratics, without forming them.

        Parameters
        ----------
        x : ndarray of shape (t, d, b)
            Rows.
        r : ndarray of shape (t, b)
            Weights.

        Returns
        -------
        ndarray of shape (Q,)
            ``Σ r · quadratics(x)``.
        """

    def covariances(self, second: Floats, weights: Floats, ridge: float) -> Floats:
        """Return the covariances that fit second moments best.

        Parameters
        ----------
        second : ndarray of shape (K, Q)
            Mean quadratics about the component's mean.
        weights : ndarray of shape (K,)
            Mixing proportions, by which components are pooled where they share.
        ridge : float
            Variance added in every direction.

        Returns
        -------
        ndarray
            Covariances of highest likelihood, plus ``ridge`` times the identity.
        """

    def factor(self, covariances: Floats) -> Floats:
        """Return P with ``Σ⁻¹ = P Pᵀ``, upper triangular.

        Parameters
        ----------
        covariances : ndarray
            Σ; a ``ValueError`` names the component where one is singular.

        Returns
        -------
        ndarray
            The factors.
        """

    def factor_precisions(self, precisions: Floats) -> Floats:
        """Return P with ``Λ = P Pᵀ``, upper triangular.

        Parameters
        ----------
        precisions : ndarray
            Λ; a ``ValueError`` where one is not positive definite.

        Returns
        -------
        ndarray
            The factors.
        """

    def precisions(self, factors: Floats) -> Floats:
        """Return ``Λ = P Pᵀ``.

        Parameters
        ----------
        factors : ndarray
            P.

        Returns
        -------
        ndarray
            The precisions.
        """

    def invert(self, factors: Floats) -> Floats:
        """Return ``Σ = (P Pᵀ)⁻¹``.

        Parameters
        ----------
        factors : ndarray
            P.

        Returns
        -------
        ndarray
            The covariances.
        """

    def stack(self, values: Floats) -> Floats:
        """Return one factor, or covariance, for each component.

        Parameters
        ----------
        values : ndarray
            Of the family's shape.

        Returns
        -------
        ndarray of shape (K, d, d) or (K, d)
            A view.
        """

    def coefficients(self, stacked: Floats) -> Floats:
        """Return c with ``xᵀ Λ_k x = c_k · quadratics(x)``.

        Parameters
        ----------
        stacked : ndarray of shape (K, d, d) or (K, d)
            Factors.

        Returns
        -------
        ndarray of shape (K, Q)
            The coefficients.
        """

    def log_det(self, stacked: Floats) -> Floats:
        """Return ``log det P_k``.

        Parameters
        ----------
        stacked : ndarray of shape (K, d, d) or (K, d)
            Factors.

        Returns
        -------
        ndarray of shape (K,)
            The logarithms.
        """

    def whiten(self, factor: Floats, x: Floats) -> Floats:
        """Return ``Pᵀ x`` for one component.

        Parameters
        ----------
        factor : ndarray of shape (d, d) or (d,)
            P.
        x : ndarray of shape (..., d, b)
            Rows less the component's mean.

        Returns
        -------
        ndarray of shape (..., d, b)
            Rows that are standard normal where they come from the component.
        """

    def departure(self, stacked: Floats, covariances: Floats) -> Floats:
        """Return ``‖Pᵀ Σ P - I‖``, which is zero where ``Σ⁻¹ = P Pᵀ``.

        Parameters
        ----------
        stacked : ndarray of shape (K, d, d) or (K, d)
            Factors.
        covariances : ndarray
            Σ, of the family's shape.

        Returns
        -------
        ndarray of shape (K,)
            Frobenius norms.
        """

    def variances(self, covariances: Floats, columns: NDArray[np.bool_]) -> Floats:
        """Return the variances of each component along its principal axes.

        Parameters
        ----------
        covariances : ndarray
            Σ, of the family's shape.
        columns : ndarray of shape (d,)
            Mask of the columns that count.

        Returns
        -------
        ndarray of shape (K, m)
            Eigenvalues.
        """
