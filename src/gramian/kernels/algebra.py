"""The algebra: sums and products of kernels, and what ``+``, ``*``, ``exp`` and ``polynomial`` build."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gramian.kernels import points
from gramian.kernels.base import Kernel, kernel
from gramian.kernels.points import Array, Points
from gramian.kernels.pointwise import Exp, PolynomialOf, Scaled
from gramian.kernels.stationary import Constant

__all__ = ["Product", "Sum", "add", "exp", "multiply", "polynomial"]


def add(left: Any, right: Any) -> Kernel:
    """Return the sum of two kernels, or of a kernel and a number >= 0."""
    if isinstance(left, Kernel) and isinstance(right, Kernel):
        return Sum(left, right)
    number, other = (left, right) if isinstance(right, Kernel) else (right, left)
    if not isinstance(number, Real):
        return NotImplemented
    if number == 0:  # so that Python's sum() of a list of kernels works
        return other
    constant = Constant(float(number))
    return Sum(constant, other) if other is right else Sum(other, constant)


def multiply(left: Any, right: Any) -> Kernel:
    """Return the product of two kernels, or of a number >= 0 and a kernel."""
    if isinstance(left, Kernel) and isinstance(right, Kernel):
        return Product(left, right)
    number, other = (left, right) if isinstance(right, Kernel) else (right, left)
    return Scaled(other, float(number)) if isinstance(number, Real) else NotImplemented


def exp(k: Kernel) -> Exp:
    """Return exp(k(x, z)), the limit of polynomials of k.

    Parameters
    ----------
    k : Kernel
        A kernel.

    Returns
    -------
    Kernel
        Its exponential.

    Examples
    --------
    >>> from gramian.kernels import Linear, exp
    >>> exp(Linear())([[1.0]], [[0.0]])
    array([[1.]])
    """
    return Exp(k)


def polynomial(k: Kernel, coefficients: Sequence[float]) -> PolynomialOf:
    """Return c_0 + c_1 k + c_2 k² + ... with coefficients >= 0.

    Parameters
    ----------
    k : Kernel
        A kernel.
    coefficients : sequence of float
        Lowest degree first.

    Returns
    -------
    Kernel
        The polynomial of the kernel.

    Examples
    --------
    >>> from gramian.kernels import Linear, polynomial
    >>> polynomial(Linear(), [1.0, 0.0, 2.0])([[1.0]], [[3.0]])
    array([[19.]])
    """
    return PolynomialOf(k, coefficients)  # type: ignore[arg-type]


@kernel
class Sum(Kernel):
    """The sum of two kernels, written ``k1 + k2``: the features of both, side by side.

    Parameters
    ----------
    left, right : Kernel
        The terms.

    Examples
    --------
    >>> from gramian.kernels import RBF, Linear
    >>> 2.0 * RBF(0.5) + Linear()
    2.0 * RBF(0.5) + Linear()
    """

    left: Kernel
    right: Kernel
    operands: ClassVar[tuple[str, ...]] = ("left", "right")
    compound: ClassVar[bool] = True
    precedence: ClassVar[int] = 1
    buffers: ClassVar[int] = 2

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        (a, c), (b, d) = A.children, B.children
        return points.add(self.left.tile(a, b, out), self.right.tile(c, d))

    def diagonal(self, A: Points) -> Array:
        return self.left.diagonal(A.children[0]) + self.right.diagonal(A.children[1])

    def tile_vjp(self, A: Points, B: Points, W: Array) -> NDArray[np.float64]:
        (a, c), (b, d) = A.children, B.children
        return np.concatenate([self.left.tile_vjp(a, b, W), self.right.tile_vjp(c, d, W)])

    def diagonal_vjp(self, A: Points, w: Array) -> NDArray[np.float64]:
        a, c = A.children
        return np.concatenate([self.left.diagonal_vjp(a, w), self.right.diagonal_vjp(c, w)])

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        (a, c), (b, d) = A.children, B.children
        return self.left.tile_gradient(a, b, W) + self.right.tile_gradient(c, d, W)

    def diagonal_gradient(self, A: Points, w: Array) -> Array:
        a, c = A.children
        return self.left.diagonal_gradient(a, w) + self.right.diagonal_gradient(c, w)

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        from_left = rng.random(size) * self.amplitude < self.left.amplitude
        left, right = (k.frequencies(d, size, rng) for k in self.children)
        return np.where(from_left[:, None], left, right)

    @property
    def amplitude(self) -> float:
        return self.left.amplitude + self.right.amplitude

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right.bracketed(2)}"


@kernel
class Product(Kernel):
    """The product of two kernels, written ``k1 * k2``: a feature of one times a feature of the other, for all pairs.

    Parameters
    ----------
    left, right : Kernel
        The factors.

    Examples
    --------
    >>> from gramian.kernels import Linear, Periodic
    >>> Linear() * Periodic(1.0)
    Linear() * Periodic(1.0)
    """

    left: Kernel
    right: Kernel
    operands: ClassVar[tuple[str, ...]] = ("left", "right")
    compound: ClassVar[bool] = True
    precedence: ClassVar[int] = 2
    buffers: ClassVar[int] = 2

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        (a, c), (b, d) = A.children, B.children
        return points.multiply(self.left.tile(a, b, out), self.right.tile(c, d))

    def diagonal(self, A: Points) -> Array:
        return self.left.diagonal(A.children[0]) * self.right.diagonal(A.children[1])

    def tile_vjp(self, A: Points, B: Points, W: Array) -> NDArray[np.float64]:
        (a, c), (b, d) = A.children, B.children
        parts = []
        if self.left.theta.size:
            parts.append(self.left.tile_vjp(a, b, W * self.right.tile(c, d)))
        if self.right.theta.size:
            parts.append(self.right.tile_vjp(c, d, W * self.left.tile(a, b)))
        return np.concatenate([np.zeros(0), *parts])

    def diagonal_vjp(self, A: Points, w: Array) -> NDArray[np.float64]:
        a, c = A.children
        left = self.left.diagonal_vjp(a, w * self.right.diagonal(c))
        return np.concatenate([left, self.right.diagonal_vjp(c, w * self.left.diagonal(a))])

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        (a, c), (b, d) = A.children, B.children
        left = self.left.tile_gradient(a, b, W * self.right.tile(c, d))
        return left + self.right.tile_gradient(c, d, W * self.left.tile(a, b))

    def diagonal_gradient(self, A: Points, w: Array) -> Array:
        a, c = A.children
        left = self.left.diagonal_gradient(a, w * self.right.diagonal(c))
        return left + self.right.diagonal_gradient(c, w * self.left.diagonal(a))

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        # The spectral measure of a product is a convolution, so draws add.
        return self.left.frequencies(d, size, rng) + self.right.frequencies(d, size, rng)

    @property
    def amplitude(self) -> float:
        return self.left.amplitude * self.right.amplitude

    def __repr__(self) -> str:
        return f"{self.left.bracketed(2)} * {self.right.bracketed(3)}"
