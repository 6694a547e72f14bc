"""Geometry of feature space from kernel values: lengths, distances, angles, and the mean of a set."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gramian.kernels import points
from gramian.kernels.points import Array
from gramian.resources import spans

STRIP = 1024
"""Rows of K held at once while its mean is computed."""


class FeatureSpace:
    """Lengths, distances and angles of the features ψ(x) of a kernel, as methods of the kernel."""

    def norm(self: Any, X: Any) -> Array:
        """Return the lengths ‖ψ(x)‖ = √k(x, x) in feature space: X (n, d) → (n,)."""
        squares = self.diag(X)
        return points.namespace(squares).sqrt(squares)

    def distance(self: Any, X: Any, Y: Any = None) -> Array:
        """Return the distances √(k(x,x) - 2k(x,z) + k(z,z)), to half of the digits: X (n, d), Y (m, d) → (n, m).

        Examples
        --------
        >>> from gramian.kernels import RBF
        >>> RBF(1.0).distance([[0.0]], [[1.0], [100.0]]).round(4)
        array([[0.8871, 1.4142]])
        """
        A, B = self.prepare(X, Y)
        K = self.tile(A, B)
        xp = points.namespace(K)
        squares = self.diagonal(A)[:, None] + self.diagonal(B)[None, :] - 2.0 * K
        return xp.sqrt(xp.where(squares > 0.0, squares, xp.zeros_like(squares)))

    def angle(self: Any, X: Any, Y: Any = None) -> Array:
        """Return the angles between ψ(x) and ψ(z), π/2 where a length is zero: X (n, d), Y (m, d) or None → (n, m)."""
        cosines = self.normalized()(X, Y)
        xp = points.namespace(cosines)
        return xp.acos(xp.clip(cosines, -1.0, 1.0))

    def distance_to_mean(self: Any, X: Any, Y: Any = None, weights: Any = None) -> NDArray[np.float64]:
        """Return the distances ‖ψ(x) - μ‖ to a weighted mean of Y or X: X (n, d), Y (m, d), weights (m,) → (n,).

        Examples
        --------
        >>> from gramian.kernels import Linear
        >>> Linear().distance_to_mean([[0.0]], [[1.0], [3.0]])
        array([2.])
        """
        count = len(self.prepare(X if Y is None else Y)[0])
        shares = mean_weights(weights, count)
        own = mean_similarities(self, X if Y is None else Y, None, shares)
        to_mean = own if Y is None else mean_similarities(self, X, Y, shares)
        squares = np.asarray(self.diag(X), dtype=np.float64) - 2.0 * to_mean + float(shares @ own)
        return np.sqrt(np.maximum(squares, 0.0))


def mean_similarities(k: Any, X: Any, Y: Any, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return <ψ(x), Σ_j weights_j ψ(y_j)> for every row, by strips; ``None`` for Y is X itself: → (n,)."""
    A, B = k.prepare(X, Y)
    strips = (np.asarray(k.tile(A[rows], B), dtype=np.float64) for rows in spans(len(A), STRIP))
    return np.concatenate([strip @ weights for strip in strips])


def mean_weights(weights: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Return weights >= 0 normalised to sum to one; equal weights by default: → (n,)."""
    shares = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if shares.shape != (n,) or not np.all(np.isfinite(shares)) or np.any(shares < 0) or not np.any(shares):
        raise ValueError(f"weights must be {n} numbers >= 0, one for each row and not all zero; got {weights!r:.60}.")
    return shares / shares.sum()
