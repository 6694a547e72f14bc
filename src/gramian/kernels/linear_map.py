"""A kernel composed with a linear map that can be learned: k(Lᵀx, Lᵀz)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gramian.kernels import points
from gramian.kernels.algebra import Compound
from gramian.kernels.base import Kernel, kernel
from gramian.kernels.points import Array, Points
from gramian.kernels.tunable import Bounds, Parameter, check_bounds, frozen

SIGNED: tuple[float, float] = (-1e5, 1e5)


@kernel
class Metric(Compound):
    """A kernel composed with a linear map, k(Lᵀx, Lᵀz), written ``k.metric(L)``.

    The entries of L may have any sign, so ``theta`` holds them without a logarithm, and a process learns them with its
    other parameters. The scale of L and a lengthscale are redundant: fix one of them, as in
    ``Matern(1.0, lengthscale_bounds="fixed").metric(L)``.

    Parameters
    ----------
    kernel : Kernel
        The kernel applied after the map.
    L : array-like of shape (d, k)
        The map.
    L_bounds : pair of float or "fixed", default=(-1e5, 1e5)
        Range in which its entries may be learned.

    Examples
    --------
    >>> from gramian.kernels import RBF
    >>> RBF(1.0).metric([[1.0], [2.0]])
    RBF(1.0).metric([[1.0], [2.0]])
    >>> RBF(1.0).metric([[1.0], [2.0]])([[0.0, 0.0]], [[1.0, 0.5], [2.0, -1.0]]).round(4)
    array([[0.1353, 1.    ]])
    """

    kernel: Kernel
    L: tuple[tuple[float, ...], ...]
    L_bounds: Bounds = SIGNED
    parameters: ClassVar[tuple[str, ...]] = ()
    keeps_order: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            L = np.asarray(self.L, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"Metric: L must be a matrix of numbers, got {self.L!r:.80}.") from None
        if L.ndim != 2 or 0 in L.shape or not np.all(np.isfinite(L)):
            raise ValueError(
                f"Metric: L must be a finite matrix with a row for every input, shape (d, k); got shape {L.shape}"
                f"{'' if np.all(np.isfinite(L)) else ', not finite'}."
            )
        object.__setattr__(self, "L", frozen(L.tolist()))
        object.__setattr__(self, "L_bounds", check_bounds(self.name, "L", self.L_bounds, least=-np.inf))

    def _own_parameters(self) -> Any:
        yield Parameter("L", self.L, self.L_bounds, signed=True)

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        rows, columns = points.pair_of_vectors(X, Y, kernel=self.name, sparse=True)
        if rows.shape[1] != len(self.L):
            raise ValueError(
                f"Metric: L has {len(self.L)} rows but X has {rows.shape[1]} columns; pass a row for each."
            )
        a, b = self.kernel.prepare(self._mapped(rows), None if Y is None else self._mapped(columns))
        return Points((rows,), a.ids, (a,)), Points((columns,), b.ids, (b,))

    def _mapped(self, X: Array) -> Array:
        """The mapped rows, with sums in float64."""
        if points.is_sparse(X):
            return np.asarray(X @ np.asarray(self.L), dtype=X.dtype)
        xp = points.namespace(X)
        return xp.astype(xp.astype(X, xp.float64) @ points.asarray(self.L, X, xp.float64), X.dtype)

    def _apply(self, k: Array) -> Array:
        return k

    def tile_vjp(self, A: Points, B: Points | None, W: Array) -> NDArray[np.float64]:
        inside = super().tile_vjp(A, B, W)
        if self.L_bounds == "fixed":
            return inside
        # Both sides depend on L: Xᵀ times the gradient with respect to Lᵀx, plus Yᵀ times that with respect to Lᵀy.
        (a,) = A.children
        if B is None:
            by = _back(A, self.kernel.diagonal_gradient(a, W))
        else:
            (b,) = B.children
            by = _back(A, self.kernel.tile_gradient(a, b, W)) + _back(B, self.kernel.tile_gradient(b, a, W.T))
        return np.concatenate([points.to_numpy(by).astype(np.float64, copy=False).reshape(-1), inside])

    def tile_gradient(self, A: Points, B: Points | None, W: Array) -> Array:
        G = super().tile_gradient(A, B, W)
        return G @ points.asarray(np.asarray(self.L).T, G)

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        L = np.asarray(self.L)
        return self.kernel.frequencies(L.shape[1], size, rng) @ L.T

    def __repr__(self) -> str:
        if self.L_bounds != SIGNED:
            return super().__repr__()
        return f"{self.kernel.bracketed(4)}.metric({[list(row) for row in self.L]})"


def _back(A: Points, G: Array) -> Array:
    """Xᵀ G, in float64."""
    X = A.parts[0]
    if points.is_sparse(X):
        return X.T @ G
    xp = points.namespace(G)
    return xp.astype(X, xp.float64).T @ xp.astype(G, xp.float64)
