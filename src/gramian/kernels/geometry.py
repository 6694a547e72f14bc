"""Geometry of feature space from kernel values: distances, angles, the mean of a set, and centred kernels."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gramian.kernels import points
from gramian.kernels.base import Kernel, kernel
from gramian.kernels.objects import Precomputed
from gramian.kernels.points import Array, Points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

STRIP = 1024
"""Rows of K held at once while its mean is computed."""


def distance(k: Kernel, X: Any, Y: Any = None) -> Array:
    """Return ‖ψ(x) - ψ(y)‖ for all pairs: → (n, m)."""
    A, B = k.prepare(X, Y)
    K = k.tile(A, B)
    xp = points.namespace(K)
    squares = k.diagonal(A)[:, None] + k.diagonal(B)[None, :] - 2.0 * K
    return xp.sqrt(xp.where(squares > 0.0, squares, xp.zeros_like(squares)))


def angle(k: Kernel, X: Any, Y: Any = None) -> Array:
    """Return the angle between ψ(x) and ψ(y) for all pairs, in radians: → (n, m)."""
    cosines = k.normalized()(X, Y)
    xp = points.namespace(cosines)
    return xp.acos(xp.clip(cosines, -1.0, 1.0))


def mean_similarities(k: Kernel, X: Any, Y: Any, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return <ψ(x), Σ_j weights_j ψ(y_j)> for every row, by strips; ``None`` for Y is X itself: → (n,)."""
    A, B = k.prepare(X, Y)
    spans = (slice(start, start + STRIP) for start in range(0, len(A), STRIP))
    return np.concatenate([np.asarray(k.tile(A[rows], B), dtype=np.float64) @ weights for rows in spans])


def distance_to_mean(k: Kernel, X: Any, Y: Any = None, weights: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return ‖ψ(x) - Σ_j weights_j ψ(y_j)‖ for every row, with weights normalised to sum to one: → (n,)."""
    count = len(k.prepare(X if Y is None else Y)[0])
    shares = mean_weights(weights, count)
    own = mean_similarities(k, X if Y is None else Y, None, shares)
    to_mean = own if Y is None else mean_similarities(k, X, Y, shares)
    squares = np.asarray(k.diag(X), dtype=np.float64) - 2.0 * to_mean + float(shares @ own)
    return np.sqrt(np.maximum(squares, 0.0))


def mean_weights(weights: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Return weights >= 0 normalised to sum to one; equal weights by default: → (n,)."""
    shares = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if shares.shape != (n,) or not np.all(np.isfinite(shares)) or np.any(shares < 0) or not np.any(shares):
        raise ValueError(f"weights must be {n} numbers >= 0, one for each row and not all zero; got {weights!r:.60}.")
    return shares / shares.sum()


@kernel
class Centred(Kernel):
    """The inner product about the mean of some rows, ``<ψ(x) - μ, ψ(z) - μ>``, written ``k.centred(rows)``.

    Its Gram matrix of the same rows is ``HKH``, H = I - 11ᵀ/n. It stores the rows, and has no parameters to learn.

    Parameters
    ----------
    kernel : Kernel
        The kernel to centre.
    rows : array-like of shape (n, d), or sequence of objects
        The rows with mean μ, dense.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.kernels import Linear
    >>> X = np.array([[1.0], [2.0], [6.0]])
    >>> Linear().centred(X)(X)
    array([[ 4.,  2., -6.],
           [ 2.,  1., -3.],
           [-6., -3.,  9.]])
    """

    kernel: Kernel
    rows: Any
    operands: ClassVar[tuple[str, ...]] = ()
    buffers: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"Centred: kernel must be a kernel, got {self.kernel!r}.")
        if isinstance(self.kernel, Precomputed):
            raise TypeError("Centred needs rows, and a precomputed Gram matrix has none; use KernelCenterer.")
        if points.is_sparse(self.rows):
            raise TypeError("Centred takes dense rows, got a sparse matrix; pass rows.toarray().")
        held = points.raw_rows(self.rows)
        object.__setattr__(self, "rows", tuple(tuple(r) if isinstance(r, list) else r for r in held.tolist()))

    @cached_property
    def _mean(self) -> float:
        """‖μ‖²."""
        return float(self._similarities(self._held()).mean())

    def _held(self) -> Any:
        return np.array(self.rows) if points.is_table(self.rows) else list(self.rows)

    def _similarities(self, X: Any) -> NDArray[np.float64]:
        """<ψ(x), μ> for some rows: → (n,)."""
        return mean_similarities(self.kernel, X, self._held(), np.full(len(self.rows), 1.0 / len(self.rows)))

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        A, B = self.kernel.prepare(X, Y)
        left = self._shift(X, self.kernel.diagonal(A[:1]))
        right = left if Y is None else self._shift(Y, left)
        return Points((left,), A.ids, (A,)), Points((right,), B.ids, (B,))

    def _shift(self, X: Any, like: Array) -> Array:
        """The shift that centring subtracts for each row: <ψ(x), μ> - ‖μ‖²/2."""
        return points.asarray(self._similarities(np.asarray(X) if points.is_foreign(X) else X) - self._mean / 2.0, like)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        K = self.kernel.tile(A.children[0], B.children[0])
        return points.store(K - A.parts[0][:, None] - B.parts[0][None, :], out)

    def diagonal(self, A: Points) -> Array:
        return self.kernel.diagonal(A.children[0]) - 2.0 * A.parts[0]

    def rounding(self, A: Points) -> float:
        return 2.0 * self.kernel.rounding(A.children[0])

    def __repr__(self) -> str:
        return f"{self.kernel.bracketed(4)}.centred({len(self.rows)} rows)"
