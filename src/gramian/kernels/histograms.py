"""Kernels of counts and shares: Chi2 and AdditiveChi2."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from gramian.kernels.base import Kernel, kernel
from gramian.kernels.points import Array, Points, asarray, exp, identities, multiply, namespace, pair_of_vectors, store
from gramian.kernels.tunable import FREE, Bounds

__all__ = ["AdditiveChi2", "Chi2"]


def _histograms(k: Kernel, X: Any, Y: Any) -> tuple[Points, Points]:
    X, Y = pair_of_vectors(X, Y, kernel=k.name)
    for name, Z in (("X", X), ("Y", Y)):
        if Z is not None and bool(namespace(Z).any(Z < 0)):
            raise ValueError(f"{k.name} compares counts or shares, which are >= 0, but {name} has negative entries.")
    a, b = identities(X.shape[0], None if Y is None else Y.shape[0])
    return Points((X,), a), Points((X if Y is None else Y,), b)


def _chi_squares(x: Array, z: Array, out: Array | None) -> Array:
    """-Σ_k (x_k - z_k)² / (x_k + z_k), column by column."""
    xp = namespace(x)
    total = xp.zeros((x.shape[0], z.shape[0]), dtype=x.dtype)
    for k in range(x.shape[1]):
        total -= _term(x[:, None, k], z[None, :, k], 2)
    return store(total, out)


def _term(x: Array, z: Array, order: int) -> Array:
    """(x - z)² / (x + z), or with ``order=1`` its derivative in x; zero where both are zero."""
    xp = namespace(x)
    total = x + z
    ratio = (x - z) / xp.where(total > 0, total, xp.ones_like(total))
    return ratio * (x - z) if order == 2 else ratio * (2.0 - ratio)


@kernel
class AdditiveChi2(Kernel):
    """The similarity -Σ_k (x_k - z_k)² / (x_k + z_k) of scikit-learn, which is **not** positive semi-definite.

    It is so only on weights that sum to zero. ``Chi2``, its exponential, is a kernel.

    Examples
    --------
    >>> from gramian.kernels import AdditiveChi2
    >>> AdditiveChi2()([[1.0]], [[3.0]])
    array([[-1.]])
    """

    buffers: ClassVar[int] = 4

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        return _histograms(self, X, Y)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        return _chi_squares(A.parts[0], B.parts[0], out)

    def diagonal(self, A: Points) -> Array:
        return asarray(np.zeros(len(A)), A.parts[0])

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        return _gradient(A, B, W)

    def diagonal_gradient(self, A: Points, w: Array) -> Array:
        return asarray(np.zeros(A.parts[0].shape), A.parts[0])


def _gradient(A: Points, B: Points, M: Array) -> Array:
    x, z = A.parts[0], B.parts[0]
    xp = namespace(x)
    columns = [-xp.sum(M * _term(x[:, None, k], z[None, :, k], 1), axis=1)[:, None] for k in range(x.shape[1])]
    return xp.astype(xp.concat(columns, axis=1), x.dtype)


@kernel
class Chi2(Kernel):
    """The exponential chi-squared kernel exp(-gamma Σ_k (x_k - z_k)² / (x_k + z_k)), for rows >= 0.

    Parameters
    ----------
    gamma : float, default=1.0
        Inverse scale.
    gamma_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Where it may be learned.

    Examples
    --------
    >>> from gramian.kernels import Chi2
    >>> Chi2(1.0)([[1.0]], [[3.0]]).round(4)
    array([[0.3679]])
    """

    gamma: float = 1.0
    gamma_bounds: Bounds = FREE
    parameters: ClassVar[tuple[str, ...]] = ("gamma",)
    buffers: ClassVar[int] = 4

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        return _histograms(self, X, Y)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        return exp(multiply(_chi_squares(A.parts[0], B.parts[0], out), self.gamma))

    def diagonal(self, A: Points) -> Array:
        return asarray(np.ones(len(A)), A.parts[0])

    def _derivatives(self, A: Points, B: Points, W: Array) -> dict[str, Any]:
        t = _chi_squares(A.parts[0], B.parts[0], None) * self.gamma
        xp = namespace(t)
        return {"gamma": float(xp.sum(xp.exp(t) * t * W))}

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        return _gradient(A, B, self._tile(A, B, None) * W * self.gamma)

    def diagonal_gradient(self, A: Points, w: Array) -> Array:
        return asarray(np.zeros(A.parts[0].shape), A.parts[0])
