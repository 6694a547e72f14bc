"""Stationary kernels that are no function of the Euclidean distance: Laplace, White, Constant."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from gramian.kernels.base import Kernel, kernel
from gramian.kernels.distances import Differences, cast, centred, lengthscales
from gramian.kernels.points import (
    Array,
    Points,
    anything,
    asarray,
    exp,
    full,
    identities,
    multiply,
    namespace,
    pair_of_vectors,
    same_pairs,
    store,
)
from gramian.kernels.tunable import FREE, Bounds

__all__ = ["Constant", "Laplace", "White"]


@kernel
class Laplace(Kernel):
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
    parameters: ClassVar[tuple[str, ...]] = ("lengthscale",)
    per_input: ClassVar[tuple[str, ...]] = ("lengthscale",)
    buffers: ClassVar[int] = 2

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        X, Y = pair_of_vectors(X, Y, kernel=self.name)
        left, right = centred(X, Y, lengthscales(self.name, self.lengthscale, X.shape[1]))
        a, b = identities(X.shape[0], None if Y is None else Y.shape[0])
        return Points((Differences(left, X.dtype),), a), Points((Differences(right, X.dtype),), b)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        rows = A.parts[0]
        return cast(exp(multiply(_city_blocks(rows.coordinates, B.parts[0].coordinates, out), -1.0)), rows.dtype, out)

    def diagonal(self, A: Points) -> Array:
        return asarray(np.ones(len(A)), A.parts[0].coordinates, A.parts[0].dtype)

    def _derivatives(self, A: Points, B: Points, W: Array) -> dict[str, Any]:
        x, z = A.parts[0].coordinates, B.parts[0].coordinates
        xp = namespace(x)
        if isinstance(self.lengthscale, tuple):
            M = self._tile(A, B, None) * W
            sums = [float(xp.sum(M * xp.abs(x[:, None, k] - z[None, :, k]))) for k in range(x.shape[1])]
            return {"lengthscale": np.array(sums)}
        r = _city_blocks(x, z, None)
        return {"lengthscale": float(xp.sum(xp.exp(-r) * r * W))}

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        x, z = A.parts[0].coordinates, B.parts[0].coordinates
        xp = namespace(x)
        M = self._tile(A, B, None) * W
        columns = [xp.sum(M * xp.sign(z[None, :, k] - x[:, None, k]), axis=1)[:, None] for k in range(x.shape[1])]
        G = xp.concat(columns, axis=1)
        return xp.astype(G / asarray(lengthscales(self.name, self.lengthscale, x.shape[1]), G), A.parts[0].dtype)

    def diagonal_gradient(self, A: Points, w: Array) -> Array:
        x = A.parts[0].coordinates
        return asarray(np.zeros(x.shape), x, A.parts[0].dtype)

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return rng.standard_cauchy((size, d)) / lengthscales(self.name, self.lengthscale, d)

    @property
    def amplitude(self) -> float:
        return 1.0


def _city_blocks(x: Array, z: Array, out: Array | None) -> Array:
    xp = namespace(x)
    if xp is not np:
        total = xp.abs(x[:, None, 0] - z[None, :, 0])
        for k in range(1, x.shape[1]):
            total = total + xp.abs(x[:, None, k] - z[None, :, k])
        return total
    if out is not None and out.dtype == np.float64 and out.flags.c_contiguous:
        return cdist(x, z, "cityblock", out=out)
    return cdist(x, z, "cityblock")


@kernel
class White(Kernel):
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
    parameters: ClassVar[tuple[str, ...]] = ("noise",)
    may_be_zero: ClassVar[tuple[str, ...]] = ("noise",)
    sparse: ClassVar[bool] = True

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        return anything(X, Y, kernel=self.name)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        return store(full(A, 0.0, len(B)), out)

    def diagonal(self, A: Points) -> Array:
        return full(A, self.noise)

    def _derivatives(self, A: Points, B: Points, W: Array) -> dict[str, Any]:
        pairs = same_pairs(A, B)
        return {"noise": 0.0 if pairs is None else self.noise * float(np.asarray(W)[pairs].sum())}

    def _diagonal_derivatives(self, A: Points, w: Array) -> dict[str, Any]:
        return {"noise": self.noise * float(namespace(w).sum(w))}

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        return full(A, 0.0, A.parts[0].shape[1])

    def diagonal_gradient(self, A: Points, w: Array) -> Array:
        return full(A, 0.0, A.parts[0].shape[1])


@kernel
class Constant(Kernel):
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
    parameters: ClassVar[tuple[str, ...]] = ("value",)
    may_be_zero: ClassVar[tuple[str, ...]] = ("value",)
    sparse: ClassVar[bool] = True

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        return anything(X, Y, kernel=self.name)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        return store(full(A, self.value, len(B)), out)

    def diagonal(self, A: Points) -> Array:
        return full(A, self.value)

    def _derivatives(self, A: Points, B: Points, W: Array) -> dict[str, Any]:
        return {"value": self.value * float(namespace(W).sum(W))}

    def _diagonal_derivatives(self, A: Points, w: Array) -> dict[str, Any]:
        return {"value": self.value * float(namespace(w).sum(w))}

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        return full(A, 0.0, A.parts[0].shape[1])

    def diagonal_gradient(self, A: Points, w: Array) -> Array:
        return full(A, 0.0, A.parts[0].shape[1])

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return np.zeros((size, d))

    @property
    def amplitude(self) -> float:
        return self.value
