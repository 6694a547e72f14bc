"""Functions of one kernel's values: Scaled, Power, Exp, PolynomialOf."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, reduce
from operator import mul
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gramian.kernels import points
from gramian.kernels.base import Kernel, kernel
from gramian.kernels.points import Array, Points, namespace
from gramian.kernels.spectral import Mixture, parts
from gramian.kernels.tunable import FREE, Bounds, natural

if TYPE_CHECKING:
    from gramian.kernels.maps import NormalizedExp

Values = Callable[[int], Array]


class Compound(Kernel):
    """A function g of the values of other kernels: ``_apply`` is g, ``_inside`` its chain rule."""

    compound: ClassVar[bool] = True

    def _apply(self, *values: Array) -> Array:
        """g of the operands' values; may overwrite the first."""
        raise NotImplementedError(f"{self.name} must define _apply(*values).")

    def _inside(self, i: int, W: Array, value: Values) -> Array:
        """W ∂g/∂k_i, the weights on operand i; ``value(j)`` returns the values of operand j."""
        return W

    def _own(self, W: Array, value: Values) -> NDArray[np.float64]:
        """Σ W ∂g/∂theta over the kernel's own parameters."""
        return np.zeros(0)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        first, *others = zip(self.children, A.children, B.children, strict=True)
        return self._apply(first[0].tile(*first[1:], out), *(child.tile(a, b) for child, a, b in others))

    def diagonal(self, A: Points) -> Array:
        return self._apply(*(child.diagonal(a) for child, a, _ in self._operands(A, None)))

    def tile_vjp(self, A: Points, B: Points | None, W: Array) -> NDArray[np.float64]:
        operands = self._operands(A, B)
        value = cache(lambda i: operands[i][0]._values(*operands[i][1:]))
        parts = [self._own(W, value)]
        for i, (child, a, b) in enumerate(operands):
            if child._size:
                parts.append(child._vjp(a, b, self._inside(i, W, value)))
        return np.concatenate(parts)

    def diagonal_vjp(self, A: Points, w: Array) -> NDArray[np.float64]:
        return self.tile_vjp(A, None, w)

    def tile_gradient(self, A: Points, B: Points | None, W: Array) -> Array:
        operands = self._operands(A, B)
        value = cache(lambda i: operands[i][0]._values(*operands[i][1:]))
        return sum(child._gradient(a, b, self._inside(i, W, value)) for i, (child, a, b) in enumerate(operands))

    def diagonal_gradient(self, A: Points, w: Array) -> Array:
        return self.tile_gradient(A, None, w)

    def _operands(self, A: Points, B: Points | None) -> list[tuple[Kernel, Points, Points | None]]:
        """The operands, each with its own prepared rows; ``B`` is None on the diagonal."""
        columns = (None,) * len(A.children) if B is None else B.children
        return list(zip(self.children, A.children, columns, strict=True))


class Pointwise(Compound):
    """A function φ of the values of one kernel: ``apply`` is φ, ``slope`` its derivative."""

    kernel: Kernel

    def apply(self, k: Array) -> Array:
        """Return φ(k); may overwrite k.

        Parameters
        ----------
        k : array
            Values of the kernel inside.

        Returns
        -------
        array
            Values of this kernel.
        """
        raise NotImplementedError(f"{self.name} must define apply(k).")

    def _apply(self, *values: Array) -> Array:
        return self.apply(*values)

    def slope(self, k: Array) -> Array:
        """Return φ'(k); may overwrite k.

        Parameters
        ----------
        k : array
            Values of the kernel inside.

        Returns
        -------
        array
            Derivatives.
        """
        raise NotImplementedError(f"{self.name} must define slope(k).")

    def by_parameter(self, k: Array) -> dict[str, list[Array]]:
        """Return ∂φ/∂log(parameter), one array per number of every parameter.

        Parameters
        ----------
        k : array
            Values of the kernel inside; not to be overwritten.

        Returns
        -------
        dict
            Arrays of the shape of k.
        """
        return {}

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        A, B = super().prepare(X, Y)
        for side in (A,) if Y is None else (A, B):
            try:
                inside = self.kernel.diagonal(side.children[0])
            except ValueError:  # k(new, train) of a precomputed kernel has no diagonal
                continue
            points.check_range(self, self.apply, inside)
        return A, B

    def prepare_rows(self, X: Array, columns: Points) -> Points | None:
        inner = self.kernel.prepare_rows(X, columns.children[0]) if type(self).prepare is Pointwise.prepare else None
        if inner is None:
            return None
        points.check_range(self, self.apply, self.kernel.diagonal(inner))
        return Points((), inner.ids, (inner,))

    def _inside(self, i: int, W: Array, value: Values) -> Array:
        return self.slope(value(0)) * W

    def _own(self, W: Array, value: Values) -> NDArray[np.float64]:
        if not self._own_free:
            return np.zeros(0)
        terms = self.by_parameter(value(0))
        return self._pick({name: [float(namespace(W).sum(t * W)) for t in ts] for name, ts in terms.items()})

    def _sums_of_draws(self, counts: NDArray[np.intp], d: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw the frequencies of powers of the kernel: each is the sum of ``counts[i]`` draws."""
        total = np.zeros((counts.size, d))
        for j in range(int(counts.max(initial=0))):
            total += np.where((counts > j)[:, None], self.kernel.frequencies(d, counts.size, rng), 0.0)
        return total


@kernel
class Scaled(Pointwise):
    """A number >= 0 times a kernel, written ``2.0 * k``.

    Parameters
    ----------
    kernel : Kernel
        The kernel to scale.
    factor : float
        The factor, >= 0.
    factor_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Range in which it may be learned.

    Examples
    --------
    >>> from gramian.kernels import RBF
    >>> (2.0 * RBF(0.5)).diag([[1.0]])
    array([2.])
    """

    kernel: Kernel
    factor: float = 1.0
    factor_bounds: Bounds = FREE
    may_be_zero: ClassVar[tuple[str, ...]] = ("factor",)
    additive: ClassVar[bool] = True
    precedence: ClassVar[int] = 2

    def apply(self, k: Array) -> Array:
        return points.multiply(k, self.factor)

    def slope(self, k: Array) -> Array:
        return namespace(k).full_like(k, self.factor)

    def by_parameter(self, k: Array) -> dict[str, list[Array]]:
        return {"factor": [k * self.factor]}

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return self.kernel.frequencies(d, size, rng)

    def _density(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.factor * self.kernel._density(W)

    def _spectral(self, d: int) -> Mixture:
        return self.kernel._spectral(d) * self.factor

    @property
    def amplitude(self) -> float:
        return self.factor * self.kernel.amplitude

    def __repr__(self) -> str:
        if self.factor_bounds != FREE:
            return super().__repr__()
        return f"{self.factor!r} * {self.kernel.bracketed(3)}"


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

    def _spectral(self, d: int) -> Mixture:
        return reduce(mul, [self.kernel._spectral(d)] * self.exponent)

    @property
    def amplitude(self) -> float:
        return float(self.kernel.amplitude**self.exponent)

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

    @property
    def amplitude(self) -> float:
        return math.exp(self.kernel.amplitude)

    def normalized(self) -> NormalizedExp:  # type: ignore[override]
        """Return exp(k(x,z) - (k(x,x) + k(z,z))/2), which does not overflow where the exponential would.

        Returns
        -------
        Kernel
            A kernel whose diagonal is one.
        """
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

    def _spectral(self, d: int) -> Mixture:
        power, total = parts(1.0, d), parts(0.0, d)
        for j, c in enumerate(self.coefficients):
            power = power * self.kernel._spectral(d) if j else power
            total = total + power * c
        return total

    @property
    def amplitude(self) -> float:
        return float(sum(c * self.kernel.amplitude**j for j, c in enumerate(self.coefficients)))

    def __repr__(self) -> str:
        if self.coefficients_bounds != "fixed":
            return super().__repr__()
        return f"polynomial({self.kernel!r}, {list(self.coefficients)})"


def _horner(coefficients: Sequence[float], k: Array) -> Array:
    total = namespace(k).full_like(k, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = points.add(points.multiply(total, k), c)
    return total
