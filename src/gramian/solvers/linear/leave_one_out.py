"""Leave-one-out for squared loss: exact, and for a whole grid of ridges from one eigendecomposition.

Removing row i changes its prediction by a known amount: e_i = α_i / [(K + μI)⁻¹]_ii is y_i less the prediction of the
fit that never saw it.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Thread

import numpy as np
from numpy.typing import NDArray

from gramian.gram.tiles import spans

__all__ = ["Eigenbasis", "default_grid"]

Array = NDArray[np.float64]

ROWS = 512
"""Rows of the eigenvectors that are squared at a time."""


@dataclass(frozen=True, eq=False)
class Eigenbasis:
    """K = Q diag(s) Qᵀ: all of it, or the part that a few features span.

    Parameters
    ----------
    vectors : array of shape (n, m)
        Q, orthonormal columns.
    values : array of shape (m,)
        s.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.solvers.linear.leave_one_out import Eigenbasis
    >>> y = np.array([[1.0], [2.0]])
    >>> Eigenbasis.of_matrix(np.eye(2)).residuals(y, 0.5).ravel()  # each row alone: its own prediction was zero
    array([1., 2.])
    """

    vectors: Array
    values: Array

    @classmethod
    def of_matrix(cls, K: Array) -> Eigenbasis:
        """Decompose a Gram matrix.

        Parameters
        ----------
        K : array of shape (n, n)
            Symmetric, positive semi-definite but for rounding.

        Returns
        -------
        Eigenbasis
            All n vectors.
        """
        values, vectors = _eigh(K)
        rounding = K.shape[0] * np.finfo(np.float64).eps * float(np.abs(values).max(initial=0.0))
        if values[0] < -100.0 * rounding:
            raise np.linalg.LinAlgError(
                f"the kernel is not positive semi-definite on these rows: K has the eigenvalue {values[0]:.3g} < 0."
            )
        return cls(vectors, np.maximum(values, 0.0))

    @classmethod
    def of_features(cls, F: Array) -> Eigenbasis:
        """Decompose F Fᵀ for a thin F.

        Parameters
        ----------
        F : array of shape (n, m)
            Features.

        Returns
        -------
        Eigenbasis
            Vectors for the eigenvalues that are more than rounding.
        """
        values, right = _eigh(F.T @ F)
        keep = values > F.shape[1] * np.finfo(np.float64).eps * max(float(values[-1]), 0.0)
        return cls((F @ right[:, keep]) / np.sqrt(values[keep]), values[keep])

    def dual(self, B: Array, ridge: float | Array) -> Array:
        """Return ``(K + ridge_j I)⁻¹ b_j``.

        Parameters
        ----------
        B : array of shape (n, k)
            Targets.
        ridge : float or array of shape (k,)
            > 0, or zero where every eigenvalue is positive.

        Returns
        -------
        array of shape (n, k)
            Dual coefficients.
        """
        ridge = np.broadcast_to(np.asarray(ridge, dtype=np.float64), B.shape[1:])
        inside = self.vectors.T @ B
        dual = self.vectors @ (inside / (self.values[:, None] + ridge))
        if not self._complete:
            dual += (B - self.vectors @ inside) / ridge
        return np.asarray(dual)

    @property
    def _complete(self) -> bool:
        return self.vectors.shape[0] == self.vectors.shape[1]

    def inverse_diagonal(self, ridges: Array) -> Array:
        """Return the diagonals of ``(K + ridge I)⁻¹`` for several ridges.

        Parameters
        ----------
        ridges : array of shape (g,)
            The ridges.

        Returns
        -------
        array of shape (n, g)
            One column each.
        """
        out = np.empty((self.vectors.shape[0], ridges.size))
        weights = 1.0 / (self.values[:, None] + ridges)
        for rows in spans(out.shape[0], ROWS):
            squares = self.vectors[rows] ** 2
            out[rows] = squares @ weights
            if not self._complete:
                out[rows] += np.maximum(1.0 - squares.sum(axis=1), 0.0)[:, None] / ridges
        return out

    def residuals(self, B: Array, ridge: float | Array) -> Array:
        """Return the leave-one-out residuals at one ridge per target.

        Parameters
        ----------
        B : array of shape (n, k)
            Targets.
        ridge : float or array of shape (k,)
            > 0.

        Returns
        -------
        array of shape (n, k)
            Target less the prediction without its row.
        """
        ridge = np.broadcast_to(np.asarray(ridge, dtype=np.float64), B.shape[1:])
        return np.asarray(self.dual(B, ridge) / self.inverse_diagonal(ridge))

    def path(self, B: Array, ridges: Array) -> Array:
        """Return the sums of squares of the leave-one-out residuals over a grid.

        Parameters
        ----------
        B : array of shape (n, k)
            Targets.
        ridges : array of shape (g,)
            The grid, > 0.

        Returns
        -------
        array of shape (g, k)
            One row per ridge.
        """
        diagonals = self.inverse_diagonal(ridges)
        scores = [((self.dual(B, r) / diagonals[:, [i]]) ** 2).sum(axis=0) for i, r in enumerate(ridges)]
        return np.array(scores)


def default_grid(values: Array) -> Array:
    """Return ridges from the largest eigenvalue down to where rounding begins.

    Parameters
    ----------
    values : array of shape (m,)
        Eigenvalues.

    Returns
    -------
    array of shape (25,)
        Evenly spaced logarithms, ascending.
    """
    top = float(values.max(initial=0.0))
    return np.geomspace(1e-10, 1.0, 25) * (top if top > 0 else 1.0)


def _eigh(A: Array) -> tuple[Array, Array]:
    """``eigh`` on a thread of its own, so that Ctrl-C is answered while LAPACK works."""
    found: list[tuple[Array, Array]] = []
    worker = Thread(target=lambda: found.append(np.linalg.eigh(A)), daemon=True)
    worker.start()
    worker.join()
    if not found:
        raise np.linalg.LinAlgError("the eigenvalues of the Gram matrix did not converge.")
    return found[0]
