"""``Gram``: the matrix K(X, Y) as an operator that is never stored whole."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator

from gramian.gram.device import device_for, only_wished
from gramian.gram.engine import Engine
from gramian.gram.gpu.triton_source import generated
from gramian.gram.threads import Threads
from gramian.kernels import Kernel
from gramian.kernels.points import Points, check_out, is_foreign
from gramian.kernels.resolve import as_kernel, is_precomputed
from gramian.resources import memory_budget, readable, worker_count

if TYPE_CHECKING:
    from gramian.gram.gpu.engine import Card

Index = ArrayLike | slice
PROBE, BRIEF_PROBE, ASYMMETRY = 256, 32, 1e-5
"""Rows on which symmetry is tested (fewer if the kernel is known to be definite); relative difference not accepted."""


class Gram(LinearOperator):
    """The Gram matrix of a kernel, multiplied by tiles within a memory budget.

    A product ``K @ V`` makes tiles of K that fit the processor's cache, uses each once and forgets it: O(nm) kernel
    values, and never more than ``memory`` bytes of them. It is also a SciPy ``LinearOperator``.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : array-like of shape (n, d)
        Rows; sparse rows or lists of objects if the kernel takes them.
    Y : array-like of shape (m, d) or None, default=None
        Columns; ``None`` for X itself.
    memory : int, str or None, default=None
        Bytes of K to hold at most, as a number or ``"500MB"``; by default half of what is available.
    n_jobs : int or None, default=None
        Threads; by default every core this process may use. The result depends on it only by rounding.
    device : {"cuda", "cuda:0", ..., "auto"} or None, default=None
        ``None`` for threads on the CPU; a GPU, through torch (``pip install '.[gpu]'``), with products fused from the
        kernel's expression; ``"auto"`` for a GPU if there is one and the kernel can run there.

    Attributes
    ----------
    shape : tuple of int
        (n, m).
    dtype : dtype
        float32 if X and Y are, else float64.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram
    >>> from gramian.kernels import RBF
    >>> X = np.arange(4.0)[:, None]
    >>> K = Gram(RBF(1.0), X, memory="1MB")
    >>> (K @ np.ones(4)).round(3)
    array([1.753, 2.348, 2.348, 1.753])
    >>> K
    Gram(RBF(1.0), 4 x 4, float64, 128 B of 1 MB)
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        Y: Any = None,
        memory: int | str | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> None:
        kernel = as_kernel(kernel, X)
        for Z in (X, Y):
            if is_foreign(Z):
                raise TypeError(
                    f"Gram takes NumPy or SciPy arrays, got {type(Z).__module__}.{type(Z).__name__}; convert it, "
                    "and name a GPU by device='cuda'. Estimators and kernels take tensors as they are."
                )
        self.kernel = kernel
        self.engine = _engine(kernel, X, memory, worker_count(n_jobs), device)
        # The rows of both sides as tiles are made of them.
        self.left, self.right, dtype = self.engine.prepare(X, Y)
        super().__init__(dtype, (len(self.left), len(self.right)))  # type: ignore[call-arg]  # missing in scipy-stubs

    @property
    def memory(self) -> int:
        """Bytes of K to hold at most."""
        return self.engine.memory

    @property
    def workers(self) -> int:
        """Threads."""
        return self.engine.workers

    @property
    def card(self) -> Card | None:
        """The engine on a GPU, which is any with a name, or None."""
        return None if self.engine.name is None else cast("Card", self.engine)

    @property
    def nbytes(self) -> int:
        """Bytes that the matrix would take if it existed."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def fits(self) -> bool:
        """Whether the whole matrix fits the memory budget."""
        return self.nbytes <= self.memory

    @property
    def rounding(self) -> float:
        """The rounding error of an entry, relative to the largest k(x, x)."""
        return self.engine.rounding(self.left, self.dtype)

    def on(self, workers: int) -> Self:
        """Return the same matrix of the same rows, made by another number of threads: workers → Gram."""
        other = copy(self)
        other.engine = replace(self.engine, workers=workers)  # type: ignore[type-var]
        return other

    def submatrix(self, index: NDArray[np.intp]) -> Gram:
        """Return K of some rows of X with themselves, each at most once, on the same engine: index (r,) → Gram."""
        other = copy(self)
        other.left, other.right = self.left[index], self.right[index]
        LinearOperator.__init__(other, self.dtype, (index.size, index.size))  # type: ignore[call-arg]
        return other

    def like(self, X: Any, Y: Any = None) -> Gram:
        """Return the matrix of the same kernel and other rows, on the same engine: X (n, d), Y (m, d) → Gram."""
        return Gram(self.kernel, X, Y, self.memory, self.workers, self.engine.name)

    # ---- parts of the matrix ------------------------------------------------------------------------------------

    def dense(self, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the matrix itself, written to ``out`` if that is given: → (n, m)."""
        if out is None and not self.fits:
            raise MemoryError(
                f"the {self.shape[0]:,} x {self.shape[1]:,} Gram matrix takes {readable(self.nbytes)} and memory is "
                f"{readable(self.memory)}; multiply by it with @, take rows(), raise memory=, or approximate it."
            )
        return self._fill(self.left, self.right, out)

    def rows(self, index: Index, columns: Index | None = None, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return some rows of the matrix.

        Scratch stays within ``memory``; that the result fits is up to the caller.

        Parameters
        ----------
        index : array-like of int or bool, or slice
            Which rows.
        columns : array-like of int or bool, or slice, default=None
            Which columns; all by default.
        out : array or None, default=None
            Where to write.

        Returns
        -------
        array of shape (rows, columns)
            ``K[index][:, columns]``.
        """
        A = self.left[_index(index, self.shape[0], "row")]
        B = self.right if columns is None else self.right[_index(columns, self.shape[1], "column")]
        return self._fill(A, B, out)

    def diagonal(self) -> NDArray[Any]:
        """Return k(x_i, x_i), only of a square matrix of X with itself: → (n,)."""
        if self.left.ids != self.right.ids:
            raise ValueError("only the Gram matrix of X with itself has a diagonal; this one is of X and another Y.")
        return self.engine.diagonal(self.left, self.dtype)

    def check_symmetric(self) -> None:
        """Raise if K is visibly not symmetric, on some of its rows."""
        n = self.shape[0]
        probe = BRIEF_PROBE if self.kernel.definite else PROBE  # a matrix may be wrong in a few places only
        index = np.unique(np.linspace(0, n - 1, min(n, probe)).astype(np.intp))
        K = self.rows(index, index)
        gap = np.abs(K - K.T)
        if float(gap.max()) > ASYMMETRY * float(np.abs(K).max()):
            i, j = np.unravel_index(np.argmax(gap), K.shape)
            raise ValueError(
                f"the Gram matrix is not symmetric: entries ({index[i]}, {index[j]}) and ({index[j]}, {index[i]}) are "
                f"{K[i, j]:.3g} and {K[j, i]:.3g}; a kernel is symmetric."
            )

    def _fill(self, A: Points, B: Points, out: NDArray[Any] | None) -> NDArray[Any]:
        check_out(out, (len(A), len(B)))
        return self.engine.fill(A, B, np.empty((len(A), len(B)), self.dtype) if out is None else out)

    # ---- products -----------------------------------------------------------------------------------------------

    def __matmul__(self, V: Any) -> Any:
        if np.ndim(V) and np.shape(V)[0] != self.shape[1]:
            raise ValueError(f"K of shape {self.shape} multiplies {self.shape[1]} rows, got V of shape {np.shape(V)}.")
        return super().__matmul__(V)

    def _matmat(self, V: NDArray[Any]) -> NDArray[Any]:
        return self._product(V, flipped=False)

    def _rmatmat(self, V: NDArray[Any]) -> NDArray[Any]:
        return self._product(V, flipped=True)

    def _product(self, V: Any, flipped: bool) -> NDArray[Any]:
        """Tiles in K's dtype, summed in float64, returned in the wider dtype of K and V."""
        V = np.asarray(V)
        if V.dtype.kind not in "fiub":
            raise TypeError(f"Gram multiplies by real numbers, got dtype {V.dtype}.")
        scaled, scale = narrowed(V, self.dtype)
        total = self.engine.product(self.left, self.right, scaled, flipped)
        if scale is not None:
            total *= scale
        return total.astype(np.result_type(self.dtype, V.dtype), copy=False)

    # ---- derivatives --------------------------------------------------------------------------------------------

    def vjp(self, W: NDArray[Any]) -> NDArray[np.float64]:
        """Return Σ_ij W_ij ∂K_ij/∂theta, by panels: W (n, m) → (p,)."""
        if W.shape != self.shape:
            raise ValueError(f"W must have shape {self.shape}, got {W.shape}.")
        return self.engine.vjp(self.left, self.right, W)

    def grad_inputs(self, V: NDArray[Any]) -> NDArray[Any]:
        """Return Σ_j V_j ∂k(x_i, y_j)/∂x_i, the gradients of Σ_j V_j k(·, y_j) at the rows: V (m,) → (n, d)."""
        V = np.asarray(V)
        if V.shape != self.shape[1:]:
            raise ValueError(f"V must have shape {self.shape[1:]}, got {V.shape}.")
        return self.engine.grad_inputs(self.left, self.right, V)

    def __repr__(self) -> str:
        n, m = self.shape
        size = f"{readable(self.nbytes)} of {readable(self.memory)}"
        return f"Gram({self.kernel!r}, {n} x {m}, {self.dtype}, {size})"


class Deferred(Gram):
    """K of X with itself; X is prepared only when all of its rows are first needed.

    Preparing 2,000 rows takes longer than choosing 100 landmarks among them. The diagonal of a stationary kernel is
    known, and a block of K is made from its own rows.
    """

    def __init__(self, kernel: Kernel, X: NDArray[Any], memory: int | str | None, n_jobs: int | None) -> None:
        self.kernel, self.X, self.amplitude = kernel, X, kernel.amplitude
        self.engine = Threads(kernel, memory_budget(memory), worker_count(n_jobs))
        LinearOperator.__init__(self, X.dtype, (len(X), len(X)))  # type: ignore[call-arg]  # missing in scipy-stubs

    def __getattr__(self, name: str) -> Any:
        if name not in ("left", "right"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.left, self.right = self.kernel.prepare(self.X)
        return vars(self)[name]

    def submatrix(self, index: NDArray[np.intp]) -> Gram:
        return super().submatrix(index) if "left" in vars(self) else self.like(self.X[index])

    def diagonal(self) -> NDArray[Any]:
        return np.full(self.shape[0], self.amplitude, self.dtype)


def _engine(kernel: Kernel, X: Any, memory: int | str | None, workers: int, device: str | None) -> Engine:
    """The engine for a kernel and rows; only a kernel for which there is GPU code goes to a GPU unasked."""
    card = None if device is None or (only_wished(device) and not generated(kernel)) else device_for(device, X)
    if card is None:
        return Threads(kernel, memory_budget(memory), workers)
    from gramian.gram.gpu import cuda
    from gramian.gram.gpu.engine import Card

    return Card(kernel, cuda.budget(memory, card), workers, str(device).replace("auto", "cuda"), card)


def _index(index: Any, size: int, what: str) -> Any:
    if isinstance(index, slice):
        return index
    index = np.atleast_1d(np.asarray(index))
    if index.dtype == bool and index.shape == (size,):
        return np.flatnonzero(index)
    if index.dtype == bool:
        raise IndexError(f"a boolean {what} index must have {size} entries, got {index.shape}.")
    if index.ndim != 1 or (index.dtype.kind not in "iu" and index.size):
        raise IndexError(f"{what} indices must be a list of whole numbers, got {index!r:.60}.")
    if index.size and (index.min() < -size or index.max() >= size):
        raise IndexError(f"{what} indices must lie in [0, {size}), got {index.min()} to {index.max()}.")
    return index.astype(np.intp) % size


def narrowed(V: NDArray[Any], dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
    """Return V in the tiles' dtype, scaled to stay in its range: V (m, k) → (m, k), and the scale (k,) or None."""
    if V.dtype.kind == "f" and V.dtype.itemsize > dtype.itemsize:
        scale = units(V)
        return np.ascontiguousarray(V / scale, dtype=dtype), scale
    return np.ascontiguousarray(V, dtype=dtype), None


def units(V: NDArray[Any]) -> NDArray[np.float64]:
    """Return a power of two for every column, of the size of its largest entry: dividing by it is exact."""
    size = np.abs(V).max(axis=0, initial=0.0).astype(np.float64)
    exponent = np.frexp(np.where((size > 0) & np.isfinite(size), size, 1.0))[1]
    return np.ldexp(1.0, exponent - 1)


def wide(X: Any) -> Any:
    """Return rows of numbers in float64, and other objects as they are."""
    return X.astype(np.float64, copy=False) if getattr(X, "dtype", None) == np.float32 else X


def narrow(values: NDArray[np.float64], X: Any) -> NDArray[Any]:
    """Return values at rows X as float32 if the rows are and float32 can hold the largest, else as they are."""
    single = np.finfo(np.float32)
    size = float(np.abs(values).max(initial=0.0))
    held = size == 0.0 or float(single.tiny) <= size <= float(single.max)
    return values.astype(np.float32, copy=False) if getattr(X, "dtype", None) == np.float32 and held else values


def as_predicted(gram: Gram, rows: Any, V: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``K @ V`` as predictions compute it: as if the rows on both sides were different."""
    if is_precomputed(gram.kernel):
        return np.asarray(gram @ V)
    own, apart = float(gram.diagonal()[0]), float(gram.like(rows[:1], rows[:1]).dense()[0, 0])
    if abs(own - apart) > 1e-6 * abs(own):  # White noise is not predicted
        return np.asarray(gram @ V)
    support = np.flatnonzero(V.any(axis=1))
    if not support.size:
        return np.zeros(V.shape)
    return np.asarray(gram.like(rows, rows[support]) @ V[support])
