"""The categorical kernel: equal or not, column by column."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from gramian.kernels import points
from gramian.kernels.base import ConstantDiagonal, kernel
from gramian.kernels.distances import cast
from gramian.kernels.points import Array, Points
from gramian.kernels.tunable import FREE, Bounds


@kernel
class Categorical(ConstantDiagonal):
    """Compare columns of codes: the product over columns of 1 where two codes are equal and e^(-w) where they are not.

    Codes are labels without an order: 1 is no nearer to 2 than to 7. To combine it with kernels on other columns, write
    ``Matern(1.0).on(0, 1) * Categorical(0.5).on(2)``. Its gradient with respect to the codes is zero.

    Parameters
    ----------
    weight : float or sequence of float, default=1.0
        One for all columns, or one each: how much a difference counts, >= 0.
    weight_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Range in which it may be learned.

    Examples
    --------
    >>> from gramian.kernels import Categorical
    >>> Categorical([1.0, 2.0])([[3.0, 0.0]], [[3.0, 0.0], [4.0, 0.0], [4.0, 1.0]]).round(4)
    array([[1.    , 0.3679, 0.0498]])
    """

    weight: Any = 1.0
    weight_bounds: Bounds = FREE
    per_input: ClassVar[tuple[str, ...]] = ("weight",)
    may_be_zero: ClassVar[tuple[str, ...]] = ("weight",)
    buffers: ClassVar[int] = 2

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        rows, columns = points.pair_of_vectors(X, Y, kernel=self.name)
        if isinstance(self.weight, tuple) and len(self.weight) != rows.shape[1]:
            raise ValueError(
                f"Categorical has {len(self.weight)} weights but X has {rows.shape[1]} columns; pass one number or "
                f"{rows.shape[1]}."
            )
        return points.paired((rows,), (columns,), Y is None)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        x, z = A.parts[0], B.parts[0]
        weights = np.broadcast_to(np.asarray(self.weight, dtype=np.float64), (x.shape[1],))
        if isinstance(x, np.ndarray) and (total := float(weights.sum())) > 0:
            # SciPy's distance is a mean over columns with normalised weights.
            r = points.multiply(cdist(x, z, "hamming", w=weights), total)
        else:
            xp = points.namespace(x)
            r = sum(float(w) * xp.astype(D, xp.float64) for w, D in zip(weights, _unequal(x, z), strict=True))
        return cast(points.exp(points.multiply(r, -1.0)), x.dtype, out)

    def _derivatives(self, A: Points, B: Points, W: Array) -> dict[str, Any]:
        x, z = A.parts[0], B.parts[0]
        xp, M = points.namespace(W), self._tile(A, B, None) * W
        each = [-float(xp.sum(xp.where(D, M, 0.0 * M))) for D in _unequal(x, z)]
        if isinstance(self.weight, tuple):
            return {"weight": np.multiply(each, self.weight)}
        return {"weight": sum(each) * self.weight}

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        return points.full(A, 0.0, A.parts[0].shape[1])


def _unequal(x: Array, z: Array) -> Any:
    """Masks of the pairs whose codes differ, one column after the other: (n, m) each."""
    return (x[:, None, k] != z[None, :, k] for k in range(x.shape[1]))
