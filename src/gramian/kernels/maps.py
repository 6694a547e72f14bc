"""Kernels through maps of objects or of their features: Normalized, Centred, Composed, RankOne, and the map Columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gramian.kernels import points
from gramian.kernels.algebra import Compound
from gramian.kernels.base import Kernel, kernel
from gramian.kernels.geometry import mean_similarities
from gramian.kernels.objects import Precomputed
from gramian.kernels.points import Array, Points
from gramian.kernels.pointwise import Exp
from gramian.kernels.spectral import SpectralMixture


class Normalizing(Compound):
    """A function of k(x, z) and of one number per row, computed from k(x, x), with a constant diagonal."""

    kernel: Kernel

    def _of_rows(self, squares: Array) -> Array:
        """One number per row from k(x, x): (n,) → (n,)."""
        raise NotImplementedError

    def _pulled(self, A: Points, B: Points, W: Array) -> tuple[Array, Array, Array]:
        """The weights that the derivative puts on ∂k (n, m), and -2 times those on ∂k(x, x) (n,) and ∂k(z, z) (m,)."""
        raise NotImplementedError

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        a, b = self.kernel.prepare(X, Y)
        left = self._of_rows(self.kernel.diagonal(a))
        right = left if Y is None else self._of_rows(self.kernel.diagonal(b))
        return Points((left,), a.ids, (a,)), Points((right,), b.ids, (b,))

    def tile_vjp(self, A: Points, B: Points, W: Array) -> NDArray[np.float64]:  # type: ignore[override]
        (a,), (b,) = A.children, B.children
        inner, rows, columns = self._pulled(A, B, W)
        halves = self.kernel.diagonal_vjp(a, rows) + self.kernel.diagonal_vjp(b, columns)
        return self.kernel.tile_vjp(a, b, inner) - 0.5 * halves

    def diagonal_vjp(self, A: Points, w: Array) -> NDArray[np.float64]:
        return np.zeros(self._size)

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:  # type: ignore[override]
        (a,), (b,) = A.children, B.children
        inner, rows, _ = self._pulled(A, B, W)
        return self.kernel.tile_gradient(a, b, inner) - 0.5 * self.kernel.diagonal_gradient(a, rows)

    def diagonal_gradient(self, A: Points, w: Array) -> Array:
        return 0.0 * self.kernel.diagonal_gradient(A.children[0], w)


@kernel
class Normalized(Normalizing):
    """The cosine in feature space, k(x, z) / √(k(x, x) k(z, z)), written ``k.normalized()``.

    Parameters
    ----------
    kernel : Kernel
        The kernel to normalise. For objects with k(x, x) = 0 the result is zero.

    Examples
    --------
    >>> from gramian.kernels import Linear
    >>> Linear().normalized()([[3.0, 4.0]], [[1.0, 0.0]])
    array([[0.6]])
    """

    kernel: Kernel

    def _of_rows(self, squares: Array) -> Array:
        xp = points.namespace(squares)
        if not bool(xp.all(xp.isfinite(squares))):
            raise ValueError(f"{self.kernel!r} overflows on these rows, so it cannot be normalised; scale them down.")
        if bool(xp.any(squares < 0)):
            raise ValueError(
                f"{self.kernel!r} has k(x, x) < 0 on these rows, so it is not positive semi-definite and has no norm."
            )
        norms = xp.sqrt(squares)
        return xp.where(norms > 0, 1.0 / xp.where(norms > 0, norms, xp.ones_like(norms)), xp.zeros_like(norms))

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        k = self.kernel.tile(A.children[0], B.children[0], out)
        return points.multiply(points.multiply(k, A.parts[0][:, None]), B.parts[0][None, :])

    def diagonal(self, A: Points) -> Array:
        return self.kernel.diagonal(A.children[0]) * A.parts[0] ** 2

    def _pulled(self, A: Points, B: Points, W: Array) -> tuple[Array, Array, Array]:
        xp = points.namespace(W)
        inner = W * A.parts[0][:, None] * B.parts[0][None, :]
        M = inner * self.kernel.tile(A.children[0], B.children[0])
        return inner, xp.sum(M, axis=1) * A.parts[0] ** 2, xp.sum(M, axis=0) * B.parts[0] ** 2

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return self.kernel.frequencies(d, size, rng)

    def _density(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.kernel._density(W) / self.kernel.amplitude

    def _spectral(self, d: int) -> SpectralMixture:
        return self.kernel._spectral(d) * (1.0 / self.kernel.amplitude)

    @property
    def amplitude(self) -> float:
        return 1.0 if self.kernel.amplitude > 0 else 0.0

    def __repr__(self) -> str:
        return f"{self.kernel.bracketed(4)}.normalized()"


@kernel
class NormalizedExp(Normalizing):
    """The normalised exponential exp(k(x,z) - (k(x,x) + k(z,z))/2), written ``exp(k).normalized()``.

    In this form nothing overflows, unlike in the quotient. For ``(1/σ²) * Linear()`` it is the RBF.

    Parameters
    ----------
    kernel : Kernel
        The exponent.

    Examples
    --------
    >>> from gramian.kernels import Linear, exp
    >>> exp(Linear()).normalized()([[100.0]], [[101.0]]).round(4)
    array([[0.6065]])
    """

    kernel: Kernel

    def _of_rows(self, squares: Array) -> Array:
        return squares / 2.0

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        k = self.kernel.tile(A.children[0], B.children[0], out)
        return points.exp(points.add(points.add(k, -A.parts[0][:, None]), -B.parts[0][None, :]))

    def diagonal(self, A: Points) -> Array:
        return points.namespace(A.parts[0]).ones_like(A.parts[0])

    def _pulled(self, A: Points, B: Points, W: Array) -> tuple[Array, Array, Array]:
        M = self.tile(A, B) * W
        return M, points.namespace(M).sum(M, axis=1), points.namespace(M).sum(M, axis=0)

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return Exp(self.kernel).frequencies(d, size, rng)

    @property
    def amplitude(self) -> float:
        return 1.0 if self.kernel.amplitude >= 0 else 0.0

    def __repr__(self) -> str:
        return f"exp({self.kernel!r}).normalized()"


@kernel
class Centred(Kernel):
    """The inner product about the mean of some rows, ``<ψ(x) - μ, ψ(z) - μ>``, written ``k.centred(rows)``.

    Its Gram matrix of the same rows is ``HKH``, H = I - 11ᵀ/n. It stores the rows, and has no parameters to learn.

    Parameters
    ----------
    kernel : Kernel
        The kernel to centre.
    rows : array-like of shape (n, d), or sequence of objects
        The rows with mean μ, dense.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.kernels import Linear
    >>> X = np.array([[1.0], [2.0], [6.0]])
    >>> Linear().centred(X)(X)
    array([[ 4.,  2., -6.],
           [ 2.,  1., -3.],
           [-6., -3.,  9.]])
    """

    kernel: Kernel
    rows: Any
    operands: ClassVar[tuple[str, ...]] = ()
    buffers: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"Centred: kernel must be a kernel, got {self.kernel!r}.")
        if isinstance(self.kernel, Precomputed):
            raise TypeError("Centred needs rows, and a precomputed Gram matrix has none; use KernelCenterer.")
        if points.is_sparse(self.rows):
            raise TypeError("Centred takes dense rows, got a sparse matrix; pass rows.toarray().")
        held = points.raw_rows(self.rows)
        object.__setattr__(self, "rows", tuple(tuple(r) if isinstance(r, list) else r for r in held.tolist()))

    @cached_property
    def _mean(self) -> float:
        """‖μ‖²."""
        return float(self._similarities(self._held()).mean())

    def _held(self) -> Any:
        return np.array(self.rows) if points.is_table(self.rows) else list(self.rows)

    def _similarities(self, X: Any) -> NDArray[np.float64]:
        """<ψ(x), μ> for some rows: → (n,)."""
        return mean_similarities(self.kernel, X, self._held(), np.full(len(self.rows), 1.0 / len(self.rows)))

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        A, B = self.kernel.prepare(X, Y)
        left = self._shift(X, self.kernel.diagonal(A[:1]))
        right = left if Y is None else self._shift(Y, left)
        return Points((left,), A.ids, (A,)), Points((right,), B.ids, (B,))

    def _shift(self, X: Any, like: Array) -> Array:
        """The shift that centring subtracts for each row: <ψ(x), μ> - ‖μ‖²/2."""
        return points.asarray(self._similarities(np.asarray(X) if points.is_foreign(X) else X) - self._mean / 2.0, like)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        K = self.kernel.tile(A.children[0], B.children[0])
        return points.store(K - A.parts[0][:, None] - B.parts[0][None, :], out)

    def diagonal(self, A: Points) -> Array:
        return self.kernel.diagonal(A.children[0]) - 2.0 * A.parts[0]

    def rounding(self, A: Points) -> float:
        return 2.0 * self.kernel.rounding(A.children[0])

    @property
    def definite(self) -> bool:
        return self.kernel.definite

    @property
    def tells_copies(self) -> bool:
        return self.kernel.tells_copies

    @property
    def tile_buffers(self) -> int:
        return self.buffers - 1 + self.kernel.tile_buffers

    @property
    def conditional_order(self) -> int:
        if self.kernel.conditional_order > 1:  # coefficients of differences from a mean sum to zero, which is order 1
            raise ValueError(f"{self!r} is not a kernel: {self.kernel!r} also needs polynomials of higher degree.")
        return 0

    def __repr__(self) -> str:
        return f"{self.kernel.bracketed(4)}.centred({len(self.rows)} rows)"


@kernel
class Composed(Compound):
    """A kernel composed with a map φ: k(φ(x), φ(z)), written ``k.compose(phi)``.

    Parameters
    ----------
    kernel : Kernel
        The kernel applied after the map.
    phi : callable
        Maps rows to rows; input gradients need a method ``phi.pullback(X, G)``.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.kernels import Linear
    >>> Linear().compose(np.abs)([[-2.0]], [[3.0]])
    array([[6.]])
    """

    kernel: Kernel
    phi: Callable[[Any], Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.phi):
            raise TypeError(f"Composed: phi must be a function of rows, got {self.phi!r}.")

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        X, Y = points.raw_rows(X), None if Y is None else points.raw_rows(Y)
        a, b = self.kernel.prepare(self.phi(X), None if Y is None else self.phi(Y))
        for rows, mapped in ((X, a), (X if Y is None else Y, b)):
            if len(mapped) != rows.shape[0]:
                raise ValueError(
                    f"Composed: phi must keep the rows, {rows.shape[0]} of them; it returned {len(mapped)}."
                )
        return Points((X,), a.ids, (a,)), Points((X if Y is None else Y,), b.ids, (b,))

    @property
    def keeps_order(self) -> bool:  # type: ignore[override]
        """Whether polynomials of φ(x) are polynomials of x."""
        return isinstance(self.phi, Columns)

    def _apply(self, k: Array) -> Array:
        return k

    def _spectral(self, d: int) -> SpectralMixture:
        if not isinstance(self.phi, Columns) or max(self.phi.columns) >= d:
            return super()._spectral(d)
        return self.kernel._spectral(len(self.phi.columns)).spread(self.phi.columns, d)

    def tile_gradient(self, A: Points, B: Points | None, W: Array) -> Array:
        if not hasattr(self.phi, "pullback"):
            raise TypeError(f"{self!r} has no input gradient: give its map a method pullback(X, G).")
        return self.phi.pullback(A.parts[0], super().tile_gradient(A, B, W))

    def __repr__(self) -> str:
        phi = getattr(self.phi, "__qualname__", None) or repr(self.phi)
        return f"{self.kernel.bracketed(4)}.compose({phi})"


@dataclass(frozen=True, repr=False)
class Columns:
    """The map that keeps some columns, for ``k.on(0, 2)``.

    Parameters
    ----------
    columns : sequence of int
        Their positions.

    Examples
    --------
    >>> from gramian.kernels import RBF, Linear
    >>> RBF(1.0).on(0) + Linear().on(1)
    RBF(1.0).compose(Columns((0,))) + Linear().compose(Columns((1,)))
    """

    columns: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        try:
            columns = tuple(int(c) for c in self.columns)
        except (TypeError, ValueError):
            columns = ()
        if not columns or columns != tuple(self.columns) or min(columns) < 0:
            raise ValueError(f"columns must be positions >= 0, at least one; got {self.columns!r}.")
        object.__setattr__(self, "columns", columns)

    def __repr__(self) -> str:
        return f"Columns({self.columns})"

    def __call__(self, X: Any) -> Any:
        X = X if hasattr(X, "shape") and not hasattr(X, "iloc") else np.asarray(X)
        if len(X.shape) != 2 or X.shape[1] <= max(self.columns):
            raise ValueError(f"columns {self.columns} were asked for, but X has shape {tuple(X.shape)}.")
        if points.is_sparse(X) or isinstance(X, np.ndarray):
            return X[:, list(self.columns)]
        xp = points.namespace(X)
        return xp.take(X, points.asarray(self.columns, X, xp.int64), axis=1)

    def pullback(self, X: Any, G: Array) -> Array:
        """Carry gradients G back to all columns of X, zero outside those kept: X (n, d), G (n, d') → (n, d)."""
        spread = np.zeros((len(self.columns), X.shape[1]))
        spread[np.arange(len(self.columns)), self.columns] = 1.0
        return G @ points.asarray(spread, G)

    def to_dict(self) -> dict[str, Any]:
        """Return the map as plain data, ready for JSON: its name and its columns."""
        return {"map": "Columns", "columns": list(self.columns)}


@kernel
class RankOne(Kernel):
    """The product f(x) f(z), for any real function f of a row.

    Parameters
    ----------
    f : callable
        Maps rows (n, d) to n numbers.
    gradient : callable or None, default=None
        Maps rows (n, d) to the gradients of f, (n, d); needed for input gradients only.

    Examples
    --------
    >>> from gramian.kernels import RankOne
    >>> RankOne(lambda X: X[:, 0])([[2.0]], [[3.0]])
    array([[6.]])
    """

    f: Callable[[Any], Any]
    gradient: Callable[[Any], Any] | None = None
    buffers: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not callable(self.f) or not (self.gradient is None or callable(self.gradient)):
            raise TypeError(f"RankOne: f and gradient must be functions of rows, got {self.f!r} and {self.gradient!r}.")

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        left = self._parts(X)
        return points.paired(left, left if Y is None else self._parts(Y), Y is None)

    def _parts(self, X: Any) -> tuple[Array, Any]:
        rows = points.raw_rows(X)
        values = self.f(rows)
        values = values if hasattr(values, "shape") else np.asarray(values, dtype=np.float64)
        xp = points.namespace(values)
        single = getattr(rows, "dtype", None) == xp.float32
        values = xp.astype(values, xp.float32 if single else xp.float64)
        if tuple(values.shape) != (rows.shape[0],):
            raise ValueError(
                f"RankOne: f must return one number per row, shape {(rows.shape[0],)}; got {tuple(values.shape)}."
            )
        if not bool(xp.all(xp.isfinite(values))):
            raise ValueError("RankOne: f returned NaN or infinity; a kernel needs finite values.")
        return values, rows

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        return points.store(A.parts[0][:, None] * B.parts[0][None, :], out)

    def diagonal(self, A: Points) -> Array:
        return A.parts[0] ** 2

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        return (W @ B.parts[0])[:, None] * self._gradients(A)

    def diagonal_gradient(self, A: Points, w: Array) -> Array:
        return (2.0 * w * A.parts[0])[:, None] * self._gradients(A)

    def _gradients(self, A: Points) -> Array:
        if self.gradient is None:
            raise TypeError("RankOne has no input gradient: pass gradient=, from rows (n, d) to (n, d).")
        return self.gradient(A.parts[1])
