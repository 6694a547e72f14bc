"""Kernel algebra: sums, products and multiples of kernels, and the kernels that are constant: White, Constant."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gramian.kernels import objects, points
from gramian.kernels.base import Kernel, kernel
from gramian.kernels.points import Array, Points, namespace
from gramian.kernels.spectral import SpectralMixture, parts
from gramian.kernels.tunable import FREE, Bounds

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

    @property
    def amplitude(self) -> float:
        return float(self._apply(*(np.array([child.amplitude]) for child in self.children))[0])

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
        """Return φ(k); may overwrite k: (n, m) → (n, m)."""
        raise NotImplementedError(f"{self.name} must define apply(k).")

    def _apply(self, *values: Array) -> Array:
        return self.apply(*values)

    def slope(self, k: Array) -> Array:
        """Return φ'(k); may overwrite k: (n, m) → (n, m)."""
        raise NotImplementedError(f"{self.name} must define slope(k).")

    def by_parameter(self, k: Array) -> dict[str, list[Array]]:
        """Return ∂φ/∂log(parameter) by name, an array per number; does not overwrite k: (n, m) → (n, m) each."""
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
        return points.weighted(self.slope(value(0)), W)

    def _own(self, W: Array, value: Values) -> NDArray[np.float64]:
        if not self._own_free:
            return np.zeros(0)
        terms = self.by_parameter(value(0))
        return self._pick({name: [points.inner(t, W) for t in ts] for name, ts in terms.items()})

    def _sums_of_draws(self, counts: NDArray[np.intp], d: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw the frequencies of powers of the kernel: each is the sum of ``counts[i]`` draws."""
        total = np.zeros((counts.size, d))
        for j in range(int(counts.max(initial=0))):
            total += np.where((counts > j)[:, None], self.kernel.frequencies(d, counts.size, rng), 0.0)
        return total


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
    keeps_order: ClassVar[bool] = True
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

    def _spectral(self, d: int) -> SpectralMixture:
        return self.left._spectral(d) + self.right._spectral(d)

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

    def _spectral(self, d: int) -> SpectralMixture:
        return self.left._spectral(d) * self.right._spectral(d)

    def __repr__(self) -> str:
        return f"{self.left.bracketed(2)} * {self.right.bracketed(3)}"


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
    keeps_order: ClassVar[bool] = True
    precedence: ClassVar[int] = 2

    def apply(self, k: Array) -> Array:
        return points.multiply(k, self.factor)

    def slope(self, k: Array) -> Array:
        return namespace(k).full_like(k, self.factor)

    def _inside(self, i: int, W: Array, value: Values) -> Array:
        return W * self.factor

    def by_parameter(self, k: Array) -> dict[str, list[Array]]:
        return {"factor": [k * self.factor]}

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return self.kernel.frequencies(d, size, rng)

    def _density(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.factor * self.kernel._density(W)

    def _spectral(self, d: int) -> SpectralMixture:
        return self.kernel._spectral(d) * self.factor

    def __repr__(self) -> str:
        if self.factor_bounds != FREE:
            return super().__repr__()
        return f"{self.factor!r} * {self.kernel.bracketed(3)}"


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

    def _spectral(self, d: int) -> SpectralMixture:
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

    def _spectral(self, d: int) -> SpectralMixture:
        return parts(self.value, d)

    @property
    def amplitude(self) -> float:
        return self.value


def _as_kernel(value: Any) -> Any:
    """Wrap a plain function of two objects as a kernel; return anything else unchanged."""
    return objects.Callable(value) if callable(value) and not isinstance(value, Kernel | type) else value


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
