"""Kernels of named function spaces: Sobolev."""

from __future__ import annotations

import math
from typing import Any

from gramian.kernels.base import Kernel, kernel
from gramian.kernels.points import Array, Points, minimum, namespace, pair_of_vectors, paired, store


@kernel
class Sobolev(Kernel):
    """The kernel of ‖f‖² = ∫₀¹ f² + f'² with f(0) = f(1) = 0: sinh(min(x,z)) sinh(1 - max(x,z)) / sinh 1.

    For one input between 0 and 1. Several inputs: ``Sobolev().on(0) * Sobolev().on(1)``.

    Examples
    --------
    >>> from gramian.kernels import Sobolev
    >>> Sobolev()([[0.5]]).round(4)
    array([[0.2311]])
    """

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        rows, columns = pair_of_vectors(X, Y, kernel=self.name)
        left = self._parts(rows, "X")
        return paired(left, left if Y is None else self._parts(columns, "Y"), Y is None)

    def _parts(self, X: Array, name: str) -> tuple[Array, Array, Array]:
        xp = namespace(X)
        if X.shape[1] != 1:
            raise ValueError(f"Sobolev is for one input, got {name} with {X.shape[1]} columns; use .on(column).")
        x = X[:, 0]
        low, high = float(xp.min(x)), float(xp.max(x))
        if low < 0.0 or high > 1.0:
            raise ValueError(f"Sobolev is for inputs in [0, 1], got {name} in [{low:g}, {high:g}]; rescale it.")
        root = math.sqrt(math.sinh(1.0))
        return x, xp.sinh(x) / root, xp.sinh(1.0 - x) / root

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        # sinh x increases and sinh(1 - x) decreases, so the right order of the two points gives the smaller product.
        _, up_x, down_x = A.parts
        _, up_z, down_z = B.parts
        return store(minimum(up_x[:, None] * down_z[None, :], down_x[:, None] * up_z[None, :]), out)

    def diagonal(self, A: Points) -> Array:
        return A.parts[1] * A.parts[2]

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        x, z = A.parts[0], B.parts[0]
        xp = namespace(x)
        root = math.sqrt(math.sinh(1.0))
        rising = (xp.cosh(x) / root)[:, None] * B.parts[2][None, :]
        falling = -(xp.cosh(1.0 - x) / root)[:, None] * B.parts[1][None, :]
        slope = xp.where(x[:, None] < z[None, :], rising, falling)
        slope = xp.where(x[:, None] == z[None, :], xp.zeros_like(slope), slope)
        return xp.astype(xp.sum(slope * W, axis=1)[:, None], x.dtype)

    def diagonal_gradient(self, A: Points, w: Array) -> Array:
        x = A.parts[0]
        xp = namespace(x)
        return xp.astype(w * xp.sinh(1.0 - 2.0 * x) / math.sinh(1.0), x.dtype)[:, None]
