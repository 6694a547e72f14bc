"""Stationary kernels that are not functions of the Euclidean distance: Laplace, White, Constant."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from gramian.kernels import points
from gramian.kernels.base import ConstantDiagonal, Kernel, kernel
from gramian.kernels.distances import Differences, cast, centred, lengthscales
from gramian.kernels.points import Array, Points
from gramian.kernels.tunable import FREE, Bounds


@kernel
class Laplace(ConstantDiagonal):
    """The Laplace kernel ``exp(-Σ_k |x_k - z_k| / ℓ_k)``, in the L1 distance.

    scikit-learn's ``gamma`` is 1/ℓ. (With the Euclidean distance it is ``Matern(nu=0.5)``.)

    Parameters
    ----------
    lengthscale : float or sequence of float, default=1.0
        One for all inputs, or one each.
    lengthscale_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Where it may be learned.

    Examples
    --------
    >>> from gramian.kernels import Laplace
    >>> Laplace(2.0)([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.3679]])
    """

    lengthscale: Any = 1.0
    lengthscale_bounds: Bounds = FREE
    per_input: ClassVar[tuple[str, ...]] = ("lengthscale",)
    buffers: ClassVar[int] = 2
    amplitude: ClassVar[float] = 1.0

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        rows, columns = points.pair_of_vectors(X, Y, kernel=self.name)
        left, right = centred(rows, columns, lengthscales(self, rows.shape[1]))
        return points.paired((Differences(left, rows.dtype),), (Differences(right, rows.dtype),), Y is None)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        rows = A.parts[0]
        r = _city_blocks(rows.coordinates, B.parts[0].coordinates, out)
        return cast(points.exp(points.multiply(r, -1.0)), rows.dtype, out)

    def _derivatives(self, A: Points, B: Points, W: Array) -> dict[str, Any]:
        xp, M = points.namespace(W), self._tile(A, B, None) * W
        if isinstance(self.lengthscale, tuple):
            return {"lengthscale": [float(xp.sum(M * xp.abs(D))) for D in A.parts[0].columns(B.parts[0])]}
        return {"lengthscale": float(xp.sum(M * _city_blocks(A.parts[0].coordinates, B.parts[0].coordinates, None)))}

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        xp = points.namespace(W)
        M = self._tile(A, B, None) * W
        G = xp.stack([-xp.sum(M * xp.sign(D), axis=1) for D in A.parts[0].columns(B.parts[0])], axis=1)
        return xp.astype(G / points.asarray(lengthscales(self, G.shape[1]), G), A.parts[0].dtype)

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return rng.standard_cauchy((size, d)) / lengthscales(self, d)


def _city_blocks(x: Array, z: Array, out: Array | None) -> Array:
    if isinstance(x, np.ndarray):
        usable = out is not None and out.dtype == np.float64 and out.flags.c_contiguous
        return cdist(x, z, "cityblock", out=out if usable else None)
    return sum(points.namespace(x).abs(D) for D in Differences(x, x.dtype).columns(Differences(z, z.dtype)))


class Anywhere(Kernel):
    """A kernel that looks at who two objects are and not at what they hold; its one parameter is k(x, x)."""

    sparse: ClassVar[bool] = True

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        return points.anything(X, Y, kernel=self.name)

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

    Row i of X and row i of X are the same object; a row of Y never is a row of X, however equal.

    Parameters
    ----------
    noise : float, default=1.0
        The variance, >= 0.
    noise_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Where it may be learned.

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

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        return points.store(points.full(A, 0.0, len(B)), out)

    def _derivatives(self, A: Points, B: Points, W: Array) -> dict[str, Any]:
        pairs = points.same_pairs(A, B)
        return {"noise": 0.0 if pairs is None else self.noise * float(np.asarray(W)[pairs].sum())}


@kernel
class Constant(Anywhere):
    """The same value for every pair.

    Parameters
    ----------
    value : float, default=1.0
        The value, >= 0.
    value_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Where it may be learned.

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

    @property
    def amplitude(self) -> float:
        return self.value
