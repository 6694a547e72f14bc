"""Functions of one kernel's values: Power, Exp, PolynomialOf."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from gramian.kernels import points
from gramian.kernels.algebra import Pointwise
from gramian.kernels.base import Kernel, kernel
from gramian.kernels.points import Array, namespace
from gramian.kernels.spectral import SpectralMixture, parts
from gramian.kernels.tunable import Bounds, natural

if TYPE_CHECKING:
    from gramian.kernels.maps import NormalizedExp


@kernel
class Power(Pointwise):
    """A natural power of a kernel, written ``k ** 3``.

    Parameters
    ----------
    kernel : Kernel
        The base.
    exponent : int
        A natural number.

    Examples
    --------
    >>> from gramian.kernels import Linear
    >>> (Linear() ** 2)([[3.0]], [[2.0]])
    array([[36.]])
    """

    kernel: Kernel
    exponent: int
    precedence: ClassVar[int] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "exponent", natural("a kernel's power", self.exponent))

    def apply(self, k: Array) -> Array:
        return points.power(k, self.exponent)

    def slope(self, k: Array) -> Array:
        return points.multiply(points.power(k, self.exponent - 1), float(self.exponent))

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return self._sums_of_draws(np.full(size, self.exponent), d, rng)

    def _spectral(self, d: int) -> SpectralMixture:
        return reduce(mul, [self.kernel._spectral(d)] * self.exponent)

    def __repr__(self) -> str:
        return f"{self.kernel.bracketed(4)} ** {self.exponent}"


@kernel
class Exp(Pointwise):
    """The exponential of a kernel, written ``exp(k)``.

    Parameters
    ----------
    kernel : Kernel
        The exponent.

    Examples
    --------
    >>> from gramian.kernels import Linear, exp
    >>> exp(Linear()).normalized()
    exp(Linear()).normalized()
    """

    kernel: Kernel

    def apply(self, k: Array) -> Array:
        return points.exp(k)

    def slope(self, k: Array) -> Array:
        return points.exp(k)

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return self._sums_of_draws(rng.poisson(self.kernel.amplitude, size), d, rng)

    def normalized(self) -> NormalizedExp:  # type: ignore[override]
        """Return exp(k(x,z) - (k(x,x) + k(z,z))/2), which does not overflow where the exponential would."""
        from gramian.kernels.maps import NormalizedExp

        return NormalizedExp(self.kernel)

    def __repr__(self) -> str:
        return f"exp({self.kernel!r})"


@kernel
class PolynomialOf(Pointwise):
    """A polynomial of a kernel with coefficients >= 0, written ``polynomial(k, coefficients)``.

    Parameters
    ----------
    kernel : Kernel
        The variable.
    coefficients : sequence of float
        Lowest degree first, all >= 0.
    coefficients_bounds : pair of float or "fixed", default="fixed"
        Range in which they are learned; only if all are positive.

    Examples
    --------
    >>> from gramian.kernels import Linear, polynomial
    >>> polynomial(Linear(), [1.0, 2.0])
    polynomial(Linear(), [1.0, 2.0])
    """

    kernel: Kernel
    coefficients: tuple[float, ...]
    coefficients_bounds: Bounds = "fixed"
    may_be_zero: ClassVar[tuple[str, ...]] = ("coefficients",)
    per_input: ClassVar[tuple[str, ...]] = ("coefficients",)
    buffers: ClassVar[int] = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficients", tuple(np.atleast_1d(np.asarray(self.coefficients, float)).tolist()))
        super().__post_init__()

    def apply(self, k: Array) -> Array:
        return _horner(self.coefficients, k)

    def slope(self, k: Array) -> Array:
        return _horner([j * c for j, c in enumerate(self.coefficients)][1:] or [0.0], k)

    def by_parameter(self, k: Array) -> dict[str, list[Array]]:
        return {"coefficients": [c * k**j for j, c in enumerate(self.coefficients)]}

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        mass = np.array([c * self.kernel.amplitude**j for j, c in enumerate(self.coefficients)])
        return self._sums_of_draws(rng.choice(mass.size, size=size, p=mass / mass.sum()), d, rng)

    def _spectral(self, d: int) -> SpectralMixture:
        power, total = parts(1.0, d), parts(0.0, d)
        for j, c in enumerate(self.coefficients):
            power = power * self.kernel._spectral(d) if j else power
            total = total + power * c
        return total

    def __repr__(self) -> str:
        if self.coefficients_bounds != "fixed":
            return super().__repr__()
        return f"polynomial({self.kernel!r}, {list(self.coefficients)})"


def _horner(coefficients: Sequence[float], k: Array) -> Array:
    total = namespace(k).full_like(k, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = points.add(points.multiply(total, k), c)
    return total


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
