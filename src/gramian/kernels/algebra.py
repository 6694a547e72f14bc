"""Kernel algebra: sums and products of kernels, and the functions behind ``+``, ``*``, ``exp`` and ``polynomial``."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gramian.kernels import points
from gramian.kernels.base import Kernel, kernel
from gramian.kernels.objects import Callable
from gramian.kernels.points import Array
from gramian.kernels.pointwise import Compound, Exp, PolynomialOf, Scaled, Values
from gramian.kernels.spectral import Mixture
from gramian.kernels.stationary import Constant


def _as_kernel(value: Any) -> Any:
    """Wrap a plain function of two objects as a kernel; return anything else unchanged."""
    return Callable(value) if callable(value) and not isinstance(value, Kernel | type) else value


def add(left: Any, right: Any) -> Kernel:
    """Return the sum of two kernels, or of a kernel and a number >= 0."""
    left, right = _as_kernel(left), _as_kernel(right)
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
    left, right = _as_kernel(left), _as_kernel(right)
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
class Sum(Compound):
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
    additive: ClassVar[bool] = True
    precedence: ClassVar[int] = 1
    buffers: ClassVar[int] = 2

    def _apply(self, left: Array, right: Array) -> Array:
        return points.add(left, right)

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        from_left = rng.random(size) * self.amplitude < self.left.amplitude
        left, right = (k.frequencies(d, size, rng) for k in self.children)
        return np.where(from_left[:, None], left, right)

    def _density(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.left._density(W) + self.right._density(W)

    def _spectral(self, d: int) -> Mixture:
        return self.left._spectral(d) + self.right._spectral(d)

    @property
    def amplitude(self) -> float:
        return self.left.amplitude + self.right.amplitude

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right.bracketed(2)}"


@kernel
class Product(Compound):
    """The product of two kernels, written ``k1 * k2``: its features are all products of one feature of each.

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
    precedence: ClassVar[int] = 2
    buffers: ClassVar[int] = 2

    def _apply(self, left: Array, right: Array) -> Array:
        return points.multiply(left, right)

    def _inside(self, i: int, W: Array, value: Values) -> Array:
        return W * value(1 - i)

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        # The spectral measure of a product is the convolution of the two, so draws add.
        return self.left.frequencies(d, size, rng) + self.right.frequencies(d, size, rng)

    def _spectral(self, d: int) -> Mixture:
        return self.left._spectral(d) * self.right._spectral(d)

    @property
    def amplitude(self) -> float:
        return self.left.amplitude * self.right.amplitude

    def __repr__(self) -> str:
        return f"{self.left.bracketed(2)} * {self.right.bracketed(3)}"
