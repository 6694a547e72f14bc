"""``Kernel``: the interface of every kernel, and the operators that build new ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from gramian.kernels.geometry import FeatureSpace
from gramian.kernels.points import Array, Points, check_out, full, namespace, put, same_pairs, store
from gramian.kernels.serialize import expression, plain
from gramian.kernels.spectral import SpectralMeasure
from gramian.kernels.tunable import Tunable
from gramian.numerals import nearest

if TYPE_CHECKING:
    from gramian.kernels.linear_map import Metric
    from gramian.kernels.maps import Composed, Normalized

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def kernel(cls: type[T]) -> type[T]:
    """Make a class a frozen value with equality and hash by its fields.

    Parameters
    ----------
    cls : type
        The class, with annotated fields.

    Returns
    -------
    type
        The same class, now a dataclass.

    Examples
    --------
    >>> from gramian.kernels import Dot, kernel
    >>> @kernel
    ... class Cubic(Dot):
    ...     def profile(self, u):
    ...         return u**3
    ...
    ...     def slope(self, u):
    ...         return 3.0 * u**2
    >>> Cubic()([[2.0]], [[1.0]])
    array([[8.]])
    """
    made = dataclass(frozen=True, repr=False)(cls)
    types = {f.name: f.type for f in fields(made)}  # type: ignore[arg-type]
    derived = {
        "parameters": tuple(name for name in types if f"{name}_bounds" in types),
        "operands": tuple(name for name, kind in types.items() if kind in (Kernel, "Kernel")),
    }
    for name in derived.keys() - vars(cls).keys():
        setattr(made, name, derived[name])
    setattr(made, "__init__", _with_hints(made, made.__init__))  # noqa: B010 - mypy takes no assignment
    return made


def _with_hints(cls: Any, init: Callable[..., None]) -> Callable[..., None]:
    """The constructor of a kernel, with an error for unknown parameters that suggests our name for them."""

    @wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in kwargs.keys() - cls.__dataclass_fields__.keys():
            hint = cls._elsewhere.get(name) or nearest(name, cls.__dataclass_fields__)
            raise TypeError(f"{cls.__name__} has no parameter {name!r}; {hint}")
        init(self, *args, **kwargs)

    return checked


def _package() -> Any:
    """The package, imported late: the kernels that operators build depend on this module."""
    from gramian import kernels

    return kernels


class Kernel(Tunable, FeatureSpace, SpectralMeasure):
    """A similarity k(x, z): symmetric, positive semi-definite, a frozen value that holds parameters and never data.

    Kernels are built by algebra: ``k1 + k2``, ``k1 * k2``, ``2.0 * k``, ``k ** 3``, ``exp(k)``,
    ``polynomial(k, coefficients)``, ``k.normalized()``, ``k.compose(phi)``. Two kernels are equal when their
    expressions are, and ``repr`` is that expression.

    To write one, subclass :class:`~gramian.kernels.Radial` (a function of the distance),
    :class:`~gramian.kernels.Dot` (a function of the inner product), or this class; ``CONTRIBUTING.md`` shows how.

    Examples
    --------
    >>> from gramian.kernels import RBF, Linear, White
    >>> k = 2.0 * RBF(0.5) + Linear().on(0) + White(0.1)
    >>> k.theta_names
    ['left.left.factor', 'left.left.kernel.lengthscale', 'right.noise']
    >>> k.fix("right.noise").with_theta([0.0, 0.0])
    1.0 * RBF(1.0) + Linear().compose(Columns((0,))) + White(0.1, noise_bounds='fixed')
    >>> k == eval(repr(k), {"RBF": RBF, "Linear": Linear, "White": White, "Columns": Linear().on(0).phi.__class__})
    True
    """

    compound: ClassVar[bool] = False
    """Whether tiles are computed from the operands' tiles, which have exact values of an object with itself."""
    sparse: ClassVar[bool] = False
    """Whether the rows may be CSR; for a compound kernel, this depends on its operands."""
    keeps_order: ClassVar[bool] = False
    """Whether it is conditionally positive definite if its operands are: sums, multiples, linear maps of the inputs."""
    buffers: ClassVar[int] = 1
    """Number of tile-sized arrays alive at once while a tile is computed, ``out`` included; for memory budgets."""
    _elsewhere: ClassVar[dict[str, str]] = {}
    """Our names for parameters of other libraries and books."""
    registry: ClassVar[dict[str, type[Kernel]]] = {}
    __array_ufunc__ = None  # so that an array times a kernel is an error, not an array of kernels
    precedence: ClassVar[int] = 4
    """Operator precedence of ``repr``: 1 a sum, 2 a product, 3 a power, 4 a call."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        known = Kernel.registry.setdefault(cls.__name__, cls)
        if known.__module__ != cls.__module__:
            raise TypeError(
                f"a kernel called {cls.__name__} is already defined in {known.__module__}; choose another name."
            )
        Kernel.registry[cls.__name__] = cls

    def __sklearn_clone__(self) -> Kernel:
        return self

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Look up attributes of the scikit-learn kernel that this one was translated from, if any."""
            theirs = vars(self).get("theirs")
            if theirs is None or name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return getattr(theirs, name)

    def _name_given(self, name: str) -> str:
        """scikit-learn's name for a parameter of a kernel translated from one of theirs, else the name itself."""
        theirs = vars(self).get("theirs")
        return name if theirs is None else _package().adapted.there(theirs, name)[0]

    # ---- values -----------------------------------------------------------------------------------------------

    def __call__(self, X: Any, Y: Any = None, *, out: Array | None = None) -> Array:
        """Return the Gram matrix k(X, Y) as one dense tile: X (n, d), Y (m, d), out (n, m) → (n, m)."""
        A, B = self.prepare(X, Y)
        return self.tile(A, B, check_out(out, (len(A), len(B))))

    def diag(self, X: Any) -> Array:
        """Return k(x, x) for every row: X (n, d) → (n,)."""
        return self.diagonal(self.prepare(X)[0])

    def vjp(self, X: Any, Y: Any, W: Array) -> NDArray[np.float64]:
        """Return Σ_ij W_ij ∂k(x_i, y_j)/∂theta, in O(nm) memory: X (n, d), Y (m, d) or None, W (n, m) → (p,)."""
        A, B = self.prepare(X, Y)
        return self.tile_vjp(A, B, self._weights(A, B, W))

    def grad_inputs(self, X: Any, Y: Any, W: Array) -> Array:
        """Return Σ_j W_ij ∂k(x_i, y_j)/∂x_i, Y held fixed, zero at kinks: X (n, d), Y (m, d), W (n, m) → (n, d)."""
        A, B = self.prepare(X, Y)
        return self.tile_gradient(A, B, self._weights(A, B, W))

    @staticmethod
    def _weights(A: Points, B: Points, W: Array) -> Array:
        W = W if hasattr(W, "shape") else np.asarray(W)
        if tuple(W.shape) != (len(A), len(B)):
            raise ValueError(f"W must have shape {(len(A), len(B))}, one weight per entry of the tile; got {W.shape}.")
        return namespace(W).astype(W, namespace(W).float64)  # sums over a tile are taken in float64

    # ---- the two steps behind every value: rows prepared once, then tiles ---------------------------------------

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        """Validate rows and precompute what their tiles need: X (n, d), Y (m, d) or None for X → both sides."""
        pairs = [getattr(self, name).prepare(X, Y) for name in self.operands]
        left, right = (tuple(side) for side in zip(*pairs, strict=True))
        return Points((), left[0].ids, left), Points((), right[0].ids, right)

    def prepare_rows(self, X: Array, columns: Points) -> Points | None:
        """Prepare finite rows beside prepared columns: X (n, d) → the left side; None if that needs both sides."""
        if type(self).prepare is not Kernel.prepare:
            return None
        sides = [getattr(self, o).prepare_rows(X, c) for o, c in zip(self.operands, columns.children, strict=True)]
        return None if None in sides else Points((), sides[0].ids, tuple(sides))

    def tile(self, A: Points, B: Points, out: Array | None = None) -> Array:
        """Return K of prepared rows: A (n rows), B (m rows), out (n, m) → (n, m), which the caller may overwrite."""
        K = self._tile(A, B, out)
        if not self.compound and (pairs := same_pairs(A, B)) is not None:
            K = put(K, *pairs, self.diagonal(A))
        return store(K, out)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        raise NotImplementedError(f"{self.name} must define _tile(A, B, out).")

    def rounding(self, A: Points) -> float:
        """Estimate the rounding error of an entry relative to the largest k(x, x): prepared rows → number."""
        inner = [child.rounding(a) for child, a in zip(self.children, A.children, strict=True)]
        if inner:
            return 2.0 * max(inner)
        some = self.diagonal(A[:1])
        return float(namespace(some).finfo(some.dtype).eps)

    def diagonal(self, A: Points) -> Array:
        """Return k(x, x) of prepared rows of either side: A (n rows) → (n,), which the caller may overwrite."""
        raise NotImplementedError(f"{self.name} must define diagonal(A).")

    def tile_vjp(self, A: Points, B: Points, W: Array) -> NDArray[np.float64]:
        """Return Σ_ij W_ij ∂K_ij/∂theta over one tile: W (n, m), which is not changed → (p,)."""
        return self._pick(self._derivatives(A, B, W)) if self._own_free else np.zeros(0)

    def diagonal_vjp(self, A: Points, w: Array) -> NDArray[np.float64]:
        """Return Σ_i w_i ∂k(x_i, x_i)/∂theta: w (n,) → (p,)."""
        return np.zeros(self._size)

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        """Return Σ_j W_ij ∂k(x_i, y_j)/∂x_i over one tile: W (n, m), which is not changed → (n, d)."""
        raise TypeError(f"{self!r} has no gradient with respect to its inputs.")

    def diagonal_gradient(self, A: Points, w: Array) -> Array:
        """Return w_i d k(x_i, x_i)/dx_i, the total derivative: w (n,) → (n, d)."""
        raise TypeError(f"{self!r} has no gradient with respect to its inputs.")

    def _derivatives(self, A: Points, B: Points, W: Array) -> dict[str, Any]:
        """Σ W ∂K/∂log(parameter), by parameter name."""
        raise NotImplementedError(f"{self.name} must define _derivatives(A, B, W).")

    def _pick(self, derivatives: dict[str, Any]) -> NDArray[np.float64]:
        own = [np.atleast_1d(np.asarray(derivatives[name], dtype=np.float64)) for name in self._own_free]
        return np.concatenate([np.zeros(0), *own])

    # ---- a tile, or the diagonal where B is None -------------------------------------------------------------------

    def _values(self, A: Points, B: Points | None) -> Array:
        return self.diagonal(A) if B is None else self.tile(A, B)

    def _vjp(self, A: Points, B: Points | None, W: Array) -> NDArray[np.float64]:
        return self.diagonal_vjp(A, W) if B is None else self.tile_vjp(A, B, W)

    def _gradient(self, A: Points, B: Points | None, W: Array) -> Array:
        return self.diagonal_gradient(A, W) if B is None else self.tile_gradient(A, B, W)

    @property
    def definite(self) -> bool:
        """Whether it is known to be positive semi-definite on all rows."""
        return all(child.definite for child in self.children)

    @property
    def conditional_order(self) -> int:
        """Fits need unpenalised polynomials of degree below this as a trend; 0 for a positive definite kernel."""
        inner = next((child for child in self.children if child.conditional_order), None)
        if inner is None:
            return 0
        if not self.keeps_order:
            raise ValueError(
                f"{self!r} is not a kernel: {inner!r} is conditionally positive definite, and may only be added to "
                "others, multiplied by numbers, and applied to columns or linear maps of the inputs."
            )
        return max(child.conditional_order for child in self.children)

    @property
    def takes_sparse(self) -> bool:
        """Whether the rows of the whole tree may be CSR."""
        return all(child.takes_sparse for child in self.children) if self.children else self.sparse

    @property
    def tells_copies(self) -> bool:
        """Whether a row and its copy are different objects: there is white noise in the tree."""
        return any(child.tells_copies for child in self.children)

    @property
    def tile_buffers(self) -> int:
        """Number of tile-sized arrays alive at once while a tile of the whole tree is computed."""
        return self.buffers - 1 + max((child.tile_buffers for child in self.children), default=1)

    # ---- algebra ------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Kernel:
        return _package().algebra.add(self, other)

    def __radd__(self, other: Any) -> Kernel:
        return _package().algebra.add(other, self)

    def __mul__(self, other: Any) -> Kernel:
        return _package().algebra.multiply(self, other)

    def __rmul__(self, other: Any) -> Kernel:
        return _package().algebra.multiply(other, self)

    def __pow__(self, exponent: Any) -> Kernel:
        return _package().Power(self, exponent)

    def normalized(self) -> Normalized:
        """Return k(x, z) / √(k(x, x) k(z, z)), whose diagonal is one, or zero where k(x, x) is zero."""
        return _package().Normalized(self)

    def centred(self, rows: Any) -> Kernel:
        """Return <ψ(x) - μ, ψ(z) - μ>, where μ is the mean of some rows in feature space: rows (n, d) → Kernel."""
        return _package().Centred(self, rows)

    def compose(self, phi: Callable[[Any], Any]) -> Composed:
        """Return k(φ(x), φ(z)).

        Parameters
        ----------
        phi : callable
            Maps rows to rows: an array of shape (n, d) to one of shape (n, d'). If it has a method
            ``pullback(X, G)`` that returns Gᵀ∂φ/∂x row by row, the composed kernel has input gradients too.

        Returns
        -------
        Kernel
            The composed kernel.
        """
        return _package().Composed(self, phi)

    def on(self, *columns: int) -> Composed:
        """Return the kernel restricted to the columns at some positions: positions → Kernel."""
        return self.compose(_package().Columns(columns))

    def metric(self, L: Any) -> Metric:
        """Return k(Lᵀx, Lᵀz), which measures distances by LLᵀ; L can be learned: L (d, k) → Kernel."""
        return _package().Metric(self, L)

    # ---- text and dictionaries ----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return expression(self)

    def bracketed(self, level: int) -> str:
        """Return ``repr``, in brackets if its precedence is lower: precedence of the surroundings → text."""
        return repr(self) if self.precedence >= level else f"({self!r})"

    def to_dict(self) -> dict[str, Any]:
        """Return the expression as plain data, ready for JSON: the registered name of the class, and its fields."""
        return plain(self)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Kernel:
        """Build a kernel from the result of ``to_dict``: dictionary → kernel."""
        return _package().from_dict(data)


class ConstantDiagonal(Kernel):
    """A kernel whose k(x, x) is the constant ``level``, for all x and all parameters."""

    level: ClassVar[float] = 1.0

    def diagonal(self, A: Points) -> Array:
        return full(A, self.level)

    def diagonal_gradient(self, A: Points, w: Array) -> Array:
        return full(A, 0.0, A.parts[0].shape[1])
