"""``Gram``: the matrix K(X, Y) as an operator that is never stored whole."""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator

from gramian.kernels import Kernel
from gramian.kernels.points import check_out, is_foreign
from gramian.kernels.resolve import is_precomputed
from gramian.resources import memory_budget, readable, run, spans, worker_count

PANEL = 128
"""Rows of a panel: enough for an efficient GEMM, few enough to stay near the cache."""
TILE_CELLS = 256 * 2048
"""Cells of a tile that is used and thrown away: small enough for the cache, large enough for BLAS."""


def tile_shape(m: int, budget: int, cell_bytes: int, workers: int) -> tuple[int, int]:
    """Choose the shape of tiles that are used and thrown away.

    It does not depend on the number of workers unless memory is scarce, so that sums are taken in the same order.
    """
    cells = max(min(TILE_CELLS, budget // (cell_bytes * workers)), 1)
    rows = max(min(2 * PANEL, cells), 1)
    return rows, max(min(m, cells // rows), 1)


Index = ArrayLike | slice
SMALL = 100_000
"""Cells of a matrix that is not worth a second thread."""
SPARE_TILES = 3
"""Tiles beside the kernel's own: what NumPy makes in passing, and a float64 tile behind a float32 one."""
DERIVATIVE_TILES = 2
"""Derivatives keep as many tiles again."""
PROBE, ASYMMETRY = 256, 1e-5
"""Rows on which symmetry is tested, and the difference, relative to the largest entry, that is too much."""
LEAST_SCRATCH = 16
"""A matrix that takes all of the memory is still made with a sixteenth of it beside."""


class Gram(LinearOperator):
    """The Gram matrix of a kernel, multiplied by tiles within a memory budget.

    A product ``K @ V`` makes tiles of K that fit the processor's cache, uses each once and forgets it: O(nm) kernel
    values, and never more than ``memory`` bytes of them. It is also a SciPy ``LinearOperator``.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : array-like of shape (n, d)
        Rows; sparse rows or lists of objects where the kernel takes them.
    Y : array-like of shape (m, d) or None, default=None
        Columns; ``None`` for X itself.
    memory : int, str or None, default=None
        Bytes of K to hold at most, as a number or ``"500MB"``; by default half of what is available.
    n_jobs : int or None, default=None
        Threads; by default every core this process may use. The result depends on it only by rounding.

    Attributes
    ----------
    shape : tuple of int
        (n, m).
    dtype : dtype
        float32 where X and Y are, else float64.

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
    ) -> None:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"kernel must be a Kernel, got {kernel!r}; gramian.kernels.resolve takes names.")
        for Z in (X, Y):
            if is_foreign(Z):
                raise TypeError(f"Gram works on NumPy arrays for now, got {type(Z).__module__}.{type(Z).__name__}.")
        self.kernel = kernel
        self.memory = memory_budget(memory)
        self.workers = worker_count(n_jobs)
        self._A, self._B = kernel.prepare(X, Y)
        dtype = np.dtype(kernel.tile(self._A[:1], self._B[:1]).dtype)
        super().__init__(dtype, (len(self._A), len(self._B)))  # type: ignore[call-arg]  # missing in scipy-stubs

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
        """What rounding may do to an entry, relative to the largest k(x, x)."""
        return self.kernel.rounding(self._A)

    def on(self, workers: int) -> Self:
        """Return the same matrix, made by another number of threads.

        Parameters
        ----------
        workers : int
            Threads.

        Returns
        -------
        Gram
            It shares the rows with this one.
        """
        other = copy(self)
        other.workers = workers
        return other

    # ---- parts of the matrix ------------------------------------------------------------------------------------

    def dense(self, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the matrix itself.

        Parameters
        ----------
        out : array of shape (n, m) or None, default=None
            Where to write, C-ordered or not.

        Returns
        -------
        array of shape (n, m)
            K.
        """
        if out is None and not self.fits:
            raise MemoryError(
                f"the {self.shape[0]:,} x {self.shape[1]:,} Gram matrix takes {readable(self.nbytes)} and memory is "
                f"{readable(self.memory)}; multiply by it with @, take rows(), raise memory=, or approximate it."
            )
        return self._fill(self._A, self._B, out)

    def rows(self, index: Index, columns: Index | None = None, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return some rows of the matrix.

        They are made within ``memory``; that they fit somewhere themselves is for the caller to see to.

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
        A = self._A[_index(index, self.shape[0], "row")]
        B = self._B if columns is None else self._B[_index(columns, self.shape[1], "column")]
        return self._fill(A, B, out)

    def diagonal(self) -> NDArray[Any]:
        """Return k(x_i, x_i).

        Returns
        -------
        array of shape (n,)
            The diagonal; only of a square matrix of X with itself.
        """
        if self._A.ids != self._B.ids:
            raise ValueError("only the Gram matrix of X with itself has a diagonal; this one is of X and another Y.")
        return np.asarray(self.kernel.diagonal(self._A))

    def check_symmetric(self) -> None:
        """Raise where K is visibly not symmetric, on some of its rows."""
        n = self.shape[0]
        index = np.unique(np.linspace(0, n - 1, min(n, PROBE)).astype(np.intp))
        K = self.rows(index, index)
        gap = np.abs(K - K.T)
        if float(gap.max()) > ASYMMETRY * float(np.abs(K).max()):
            i, j = np.unravel_index(np.argmax(gap), K.shape)
            raise ValueError(
                f"the Gram matrix is not symmetric: entries ({index[i]}, {index[j]}) and ({index[j]}, {index[i]}) are "
                f"{K[i, j]:.3g} and {K[j, i]:.3g}; a kernel is symmetric."
            )

    def _fill(self, A: Any, B: Any, out: NDArray[Any] | None) -> NDArray[Any]:
        shape = (len(A), len(B))
        check_out(out, shape)
        if out is None:
            out = np.empty(shape, self.dtype)
        workers = self._workers(*shape)
        height = self._panel_height(shape, workers, free=self.memory - out.nbytes)
        if shape[1]:
            run(lambda rows: self.kernel.tile(A[rows], B, out[rows]), spans(shape[0], height), workers)
        return out

    def _panel_height(self, shape: tuple[int, int], workers: int, tiles: int = 1, free: int | None = None) -> int:
        """Rows of full-width panels whose scratch, ``tiles`` times the kernel's, fits the budget on every worker."""
        scratch = self.memory if free is None else max(free, self.memory // LEAST_SCRATCH)
        affordable = scratch // (self._cell_bytes * tiles * max(shape[1], 1) * workers)
        return max(min(PANEL, affordable, -(-shape[0] // workers)), 1)

    @property
    def _cell_bytes(self) -> int:
        return 8 * (self.kernel.tile_buffers + SPARE_TILES)

    # ---- products -----------------------------------------------------------------------------------------------

    def __matmul__(self, V: Any) -> Any:
        if np.ndim(V) and np.shape(V)[0] != self.shape[1]:
            raise ValueError(f"K of shape {self.shape} multiplies {self.shape[1]} rows, got V of shape {np.shape(V)}.")
        return super().__matmul__(V)

    def _matmat(self, V: NDArray[Any]) -> NDArray[Any]:
        return self._product(V, self._A, self._B, lambda A, B, out: self.kernel.tile(A, B, out))

    def _rmatmat(self, V: NDArray[Any]) -> NDArray[Any]:
        return self._product(V, self._B, self._A, lambda B, A, out: self.kernel.tile(A, B, out.T).T)

    def _product(self, V: Any, A: Any, B: Any, tile: Callable[[Any, Any, NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
        """Tiles in K's dtype, summed in float64, returned in the wider dtype of K and V."""
        V = np.asarray(V)
        if V.dtype.kind not in "fiub":
            raise TypeError(f"Gram multiplies by real numbers, got dtype {V.dtype}.")
        narrow, scale = narrowed(V, self.dtype)
        out = np.empty((len(A), V.shape[1]), np.result_type(self.dtype, V.dtype))
        workers = self._workers(len(A), len(B))
        height, width = tile_shape(len(B), self.memory, self._cell_bytes, workers)
        columns = spans(len(B), width)
        stop = threading.Event()

        def panel(rows: slice) -> None:
            left = A[rows]
            total = np.zeros((len(left), V.shape[1]))
            scratch = np.empty(len(left) * width, self.dtype)
            for c in columns:
                if stop.is_set():
                    return
                shape = (len(left), c.stop - c.start)
                total += tile(left, B[c], scratch[: shape[0] * shape[1]].reshape(shape)) @ narrow[c]
            out[rows] = total if scale is None else total * scale

        run(panel, spans(len(A), height), workers, stop)
        return out

    def _workers(self, n: int, m: int) -> int:
        return self.workers if n * m > SMALL else 1

    # ---- derivatives --------------------------------------------------------------------------------------------

    def vjp(self, W: NDArray[Any]) -> NDArray[np.float64]:
        """Return Σ_ij W_ij ∂K_ij/∂theta, by panels.

        Parameters
        ----------
        W : array of shape (n, m)
            Weights.

        Returns
        -------
        array of shape (p,)
            One entry per entry of ``kernel.theta``.
        """
        if W.shape != self.shape:
            raise ValueError(f"W must have shape {self.shape}, got {W.shape}.")
        workers = self._workers(*self.shape)
        height = self._panel_height(self.shape, workers, DERIVATIVE_TILES)

        def panel(rows: slice) -> NDArray[np.float64]:
            return self.kernel.tile_vjp(self._A[rows], self._B, np.asarray(W[rows], dtype=np.float64))

        return np.sum(run(panel, spans(self.shape[0], height), workers), axis=0)

    def grad_inputs(self, V: NDArray[Any]) -> NDArray[Any]:
        """Return Σ_j V_j ∂k(x_i, y_j)/∂x_i: the gradient at every x_i of the function Σ_j V_j k(·, y_j), by tiles.

        Parameters
        ----------
        V : array of shape (m,)
            Coefficients.

        Returns
        -------
        array of shape (n, d)
            The gradients.
        """
        V = np.asarray(V)
        if V.shape != self.shape[1:]:
            raise ValueError(f"V must have shape {self.shape[1:]}, got {V.shape}.")
        n, m = self.shape
        workers = self._workers(n, m)
        height, width = tile_shape(m, self.memory // DERIVATIVE_TILES, self._cell_bytes, workers)

        def panel(rows: slice) -> NDArray[Any]:
            A = self._A[rows]
            tiles = ((c, np.broadcast_to(V[c], (len(A), c.stop - c.start))) for c in spans(m, width))
            return sum(self.kernel.tile_gradient(A, self._B[c], W) for c, W in tiles)

        return np.concatenate(run(panel, spans(n, height), workers))

    def __repr__(self) -> str:
        n, m = self.shape
        size = f"{readable(self.nbytes)} of {readable(self.memory)}"
        return f"Gram({self.kernel!r}, {n} x {m}, {self.dtype}, {size})"


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
    """Return V in the dtype of the tiles, scaled so that no column leaves that dtype's range: V (m, k) → (k,)."""
    if V.dtype.kind == "f" and V.dtype.itemsize > dtype.itemsize:
        scale = units(V)
        return np.ascontiguousarray(V / scale, dtype=dtype), scale
    return np.ascontiguousarray(V, dtype=dtype), None


def units(V: NDArray[Any]) -> NDArray[np.float64]:
    """Return a power of two for every column, by which it can be divided without the loss of a digit."""
    size = np.abs(V).max(axis=0, initial=0.0).astype(np.float64)
    exponent = np.frexp(np.where((size > 0) & np.isfinite(size), size, 1.0))[1]
    return np.ldexp(1.0, exponent - 1)


def wide(X: Any) -> Any:
    """Return rows of numbers in float64, and other objects as they are."""
    return X.astype(np.float64, copy=False) if getattr(X, "dtype", None) == np.float32 else X


def narrow(values: NDArray[np.float64], X: Any) -> NDArray[Any]:
    """Return values at rows X as float32 where the rows are and float32 can hold the largest, else as they are."""
    single = np.finfo(np.float32)
    size = float(np.abs(values).max(initial=0.0))
    held = size == 0.0 or float(single.tiny) <= size <= float(single.max)
    return values.astype(np.float32, copy=False) if getattr(X, "dtype", None) == np.float32 and held else values


def as_predicted(gram: Gram, rows: Any, V: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``K @ V`` as it is predicted: with rows on one side that are not known to be those on the other."""
    if is_precomputed(gram.kernel):
        return np.asarray(gram @ V)
    own, apart = float(gram.diagonal()[0]), float(Gram(gram.kernel, rows[:1], rows[:1]).dense()[0, 0])
    if abs(own - apart) > 1e-6 * abs(own):  # White noise is not predicted
        return np.asarray(gram @ V)
    support = np.flatnonzero(V.any(axis=1))
    if not support.size:
        return np.zeros(V.shape)
    return np.asarray(Gram(gram.kernel, rows, rows[support], gram.memory, gram.workers) @ V[support])
