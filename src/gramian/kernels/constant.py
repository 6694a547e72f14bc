"""Kernels that depend on the identity of two objects only, not on their contents: White, Constant."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gramian.kernels import points
from gramian.kernels.base import Kernel, kernel
from gramian.kernels.points import Array, Points
from gramian.kernels.spectral import Mixture, parts
from gramian.kernels.tunable import FREE, Bounds


class Anywhere(Kernel):
    """A kernel that depends on the identity of two objects only; its one parameter is k(x, x)."""

    sparse: ClassVar[bool] = True

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        return points.anything(X, Y, kernel=self.name)

    def prepare_rows(self, X: Array, columns: Points) -> Points | None:
        return Points((X,), range(X.shape[0]))

    def diagonal(self, A: Points) -> Array:
        return points.full(A, getattr(self, self.parameters[0]))

    def diagonal_vjp(self, A: Points, w: Array) -> NDArray[np.float64]:
        return np.full(self._size, getattr(self, self.parameters[0]) * float(points.namespace(w).sum(w)))

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        return points.full(A, 0.0, A.parts[0].shape[1])

    def diagonal_gradient(self, A: Points, w: Array) -> Array:
        return points.full(A, 0.0, A.parts[0].shape[1])


@kernel
class White(Anywhere):
    """Independent noise: the value ``noise`` for an object and itself, zero for any two different objects.

    In k(X), row i is the same object as itself only; a row of Y is never the same object as a row of X, even if equal.

    Parameters
    ----------
    noise : float, default=1.0
        The variance, >= 0.
    noise_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Range in which it may be learned.

    Examples
    --------
    >>> from gramian.kernels import White
    >>> White(0.1)([[3.0], [3.0]])
    array([[0.1, 0. ],
           [0. , 0.1]])
    """

    noise: float = 1.0
    noise_bounds: Bounds = FREE
    may_be_zero: ClassVar[tuple[str, ...]] = ("noise",)
    tells_copies: ClassVar[bool] = True

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        return points.store(points.full(A, 0.0, len(B)), out)

    def _spectral(self, d: int) -> Mixture:
        raise TypeError("white noise is not continuous, so there is no spectral measure")

    def _derivatives(self, A: Points, B: Points, W: Array) -> dict[str, Any]:
        pairs = points.same_pairs(A, B)
        return {"noise": 0.0 if pairs is None else self.noise * float(points.pick(W, *pairs).sum())}


@kernel
class Constant(Anywhere):
    """The same value for every pair.

    Parameters
    ----------
    value : float, default=1.0
        The value, >= 0.
    value_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Range in which it may be learned.

    Examples
    --------
    >>> from gramian.kernels import Constant
    >>> Constant(2.0)([[0.0], [1.0]])
    array([[2., 2.],
           [2., 2.]])
    """

    value: float = 1.0
    value_bounds: Bounds = FREE
    may_be_zero: ClassVar[tuple[str, ...]] = ("value",)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        return points.store(points.full(A, self.value, len(B)), out)

    def _derivatives(self, A: Points, B: Points, W: Array) -> dict[str, Any]:
        return {"value": self.value * float(points.namespace(W).sum(W))}

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return np.zeros((size, d))

    def _spectral(self, d: int) -> Mixture:
        return parts(self.value, d)

    @property
    def amplitude(self) -> float:
        return self.value
