"""Kernels of the inner product <x, z>: Linear, Polynomial, and Sigmoid, which is not positive semi-definite."""

from __future__ import annotations

import itertools
import math
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from gramian.kernels import points
from gramian.kernels.base import Kernel, kernel
from gramian.kernels.points import Array, Points
from gramian.kernels.tunable import FREE, Bounds, natural


class Dot(Kernel):
    """A function of the inner product u = <x, z>.

    A subclass gives ``profile`` and ``slope``; sparse rows, diagonals and input gradients follow.

    Examples
    --------
    >>> from gramian.kernels import Dot, Linear
    >>> isinstance(Linear(), Dot)
    True
    """

    sparse: ClassVar[bool] = True

    def profile(self, u: Array) -> Array:
        """Return k as a function of the inner products; may overwrite u: (n, m) → (n, m)."""
        raise NotImplementedError(f"{self.name} must define profile(u).")

    def slope(self, u: Array) -> Array:
        """Return dk/du; may overwrite u: (n, m) → (n, m)."""
        raise NotImplementedError(f"{self.name} must define slope(u).")

    def by_parameter(self, u: Array) -> dict[str, Array]:
        """Return ∂k/∂log(parameter) by parameter name; does not overwrite u: (n, m) → (n, m) each."""
        return {}

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        rows, columns = points.pair_of_vectors(X, Y, kernel=self.name, sparse=self.sparse)
        for side in (rows,) if Y is None else (rows, columns):
            with np.errstate(over="ignore"):
                norms = _squared_norms(side)
            points.check_range(self, self.profile, norms)
        return points.paired((rows,), (columns,), Y is None)

    def prepare_rows(self, X: Array, columns: Points) -> Points | None:
        if type(self).prepare is not Dot.prepare or type(X) is not type(columns.parts[0]):
            return None
        points.check_range(self, self.profile, _squared_norms(X))
        return Points((X,), range(X.shape[0]))

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        return self.profile(points.matmul(A.parts[0], B.parts[0].T, out))

    def diagonal(self, A: Points) -> Array:
        return self.profile(_squared_norms(A.parts[0]))

    def _derivatives(self, A: Points, B: Points | None, W: Array) -> dict[str, Any]:
        x = A.parts[0]
        terms = self.by_parameter(_squared_norms(x) if B is None else points.matmul(x, B.parts[0].T))
        return {name: float(points.namespace(W).sum(term * W)) for name, term in terms.items()}

    def diagonal_vjp(self, A: Points, w: Array) -> NDArray[np.float64]:
        return self._pick(self._derivatives(A, None, w))

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        x, z = A.parts[0], B.parts[0]
        M = self.slope(points.matmul(x, z.T)) * W
        return points.namespace(M).astype(M @ z, x.dtype)

    def diagonal_gradient(self, A: Points, w: Array) -> Array:
        x = A.parts[0]
        factor = (2.0 * w * self.slope(_squared_norms(x)))[:, None]
        return x.multiply(factor).toarray() if points.is_sparse(x) else points.namespace(x).astype(x * factor, x.dtype)


def _squared_norms(x: Any) -> Array:
    if points.is_sparse(x):
        return np.asarray(x.multiply(x).sum(axis=1)).ravel()
    return points.namespace(x).sum(x * x, axis=1)


@kernel
class Linear(Dot):
    """The inner product <x, z>, the kernel of linear models.

    Examples
    --------
    >>> from gramian.kernels import Linear
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    def profile(self, u: Array) -> Array:
        return u

    def slope(self, u: Array) -> Array:
        return points.namespace(u).ones_like(u)


class MonomialWeights(NamedTuple):
    """The monomials of a polynomial kernel."""

    exponents: NDArray[np.intp]
    weights: NDArray[np.float64]


@kernel
class Polynomial(Dot):
    """The polynomial kernel (scale · <x, z> + offset)^degree.

    A monomial of degree i has the weight √(C(m,i) offset^(m-i)), m = degree: the larger the offset, the less high
    degrees count. scikit-learn's ``gamma`` is ``scale`` and its ``coef0`` is ``offset``.

    Parameters
    ----------
    degree : int, default=3
        The power, a natural number; not learned.
    scale : float, default=1.0
        Factor of the inner product.
    offset : float, default=1.0
        The constant added, >= 0.
    scale_bounds, offset_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Range in which they may be learned.

    Examples
    --------
    >>> from gramian.kernels import Polynomial
    >>> Polynomial(2)([[1.0]], [[2.0]])
    array([[9.]])
    """

    degree: int = 3
    scale: float = 1.0
    offset: float = 1.0
    scale_bounds: Bounds = FREE
    offset_bounds: Bounds = FREE
    may_be_zero: ClassVar[tuple[str, ...]] = ("offset",)

    _elsewhere: ClassVar[dict[str, str]] = {"coef0": "write offset=coef0.", "gamma": "write scale=gamma."}

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "degree", natural("Polynomial: degree", self.degree))

    def profile(self, u: Array) -> Array:
        return points.power(self._base(u), self.degree)

    def slope(self, u: Array) -> Array:
        return points.multiply(points.power(self._base(u), self.degree - 1), self.degree * self.scale)

    def _base(self, u: Array) -> Array:
        return points.add(points.multiply(u, self.scale), self.offset)

    def by_parameter(self, u: Array) -> dict[str, Array]:
        outer = points.multiply(points.power(self._base(points.copy(u)), self.degree - 1), float(self.degree))
        return {"scale": outer * u * self.scale, "offset": outer * self.offset}

    def monomial_weights(self, d: int) -> MonomialWeights:
        """Return exponents and weights of all monomials of degree <= ``degree``, without zero weights: d inputs → both.

        Examples
        --------
        >>> from gramian.kernels import Polynomial
        >>> m = Polynomial(2, offset=4.0).monomial_weights(1)
        >>> m.exponents.ravel(), m.weights.round(3)
        (array([0, 1, 2]), array([4.   , 2.828, 1.   ]))
        """
        k, count = self.degree, math.comb(d + self.degree, d)
        if count > 10_000_000:
            raise MemoryError(f"Polynomial(degree={k}) has {count:,} monomials in {d} inputs; too many to list.")
        # Multisets of size k over the inputs and the offset, which is letter 0.
        words = itertools.combinations_with_replacement(range(d + 1), k)
        powers = np.array([np.bincount(word, minlength=d + 1) for word in words])
        powers = powers if self.offset > 0 else powers[powers[:, 0] == 0]
        multinomials = math.factorial(k) / special.factorial(powers).prod(axis=1)
        squares = multinomials * self.offset ** powers[:, 0] * self.scale ** (k - powers[:, 0])
        return MonomialWeights(powers[:, 1:], np.sqrt(squares))


@kernel
class Sigmoid(Dot):
    """The similarity tanh(scale · <x, z> + offset), which is **not** positive semi-definite.

    Provided because scikit-learn has it; estimators that need a positive semi-definite kernel may fail with an error.

    Parameters
    ----------
    scale : float, default=1.0
        Factor of the inner product.
    offset : float, default=1.0
        The constant added; any real number, not learned.
    scale_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Range in which the scale may be learned.

    Examples
    --------
    >>> from gramian.kernels import Sigmoid
    >>> Sigmoid(1.0, offset=0.0)([[1.0]], [[0.5]]).round(4)
    array([[0.4621]])
    """

    scale: float = 1.0
    offset: float = 1.0
    scale_bounds: Bounds = FREE
    definite: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.offset, bool) or not isinstance(self.offset, Real) or not math.isfinite(self.offset):
            raise TypeError(f"Sigmoid: offset must be a finite number, got {self.offset!r}.")
        object.__setattr__(self, "offset", float(self.offset))

    def profile(self, u: Array) -> Array:
        return points.tanh(points.add(points.multiply(u, self.scale), self.offset))

    def slope(self, u: Array) -> Array:
        return (1.0 - self.profile(u) ** 2) * self.scale

    def by_parameter(self, u: Array) -> dict[str, Array]:
        return {"scale": self.slope(points.copy(u)) * u}
