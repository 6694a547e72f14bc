"""The engine on the CPU: tiles of K made by NumPy on threads, used once and discarded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gramian.gram.stored_blocks import StoredBlocks
from gramian.kernels import Kernel
from gramian.kernels.points import Points
from gramian.resources import run, spans

PANEL = 128
"""Rows of a panel: enough for an efficient GEMM, few enough to stay near the cache."""
TILE_CELLS = 256 * 2048
"""Cells of a temporary tile: few enough for the cache, enough for BLAS."""
SMALL = 100_000
"""Cells of a matrix that is not worth a second thread."""
SPARE_TILES = 3
"""Tiles beyond the kernel's own: NumPy's temporaries, and a float64 tile beside a float32 one."""
DERIVATIVE_TILES = 2
"""Derivatives need this many times the tiles."""
LEAST_SCRATCH = 16
"""Even if the matrix fills the memory, scratch may take one part in sixteen of it."""


def tile_shape(m: int, budget: int, cell_bytes: int, workers: int) -> tuple[int, int]:
    """Choose the shape of temporary tiles.

    It depends on the number of workers only if memory is scarce, so that sums are taken in the same order.
    """
    cells = max(min(TILE_CELLS, budget // (cell_bytes * workers)), 1)
    rows = max(min(2 * PANEL, cells), 1)
    return rows, max(min(m, cells // rows), 1)


@dataclass(frozen=True, eq=False)
class Threads:
    """The engine of a ``Gram`` on the CPU."""

    kernel: Kernel
    memory: int  # Bytes of K to hold at most
    workers: int
    name: ClassVar[str | None] = None  # As in ``device=``

    def prepare(self, X: Any, Y: Any) -> tuple[Points, Points, np.dtype[Any]]:
        """Return both sides of the matrix, prepared, and the dtype of its entries."""
        A, B = self.kernel.prepare(X, Y)
        return A, B, np.dtype(self.kernel.tile(A[:1], B[:1]).dtype)

    def rounding(self, A: Points, dtype: np.dtype[Any]) -> float:
        """Return the rounding error of an entry, relative to the largest k(x, x)."""
        return self.kernel.rounding(A)

    def diagonal(self, A: Points, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return k(x, x): → (n,)."""
        return np.asarray(self.kernel.diagonal(A))

    def fill(self, A: Points, B: Points, out: NDArray[Any]) -> NDArray[Any]:
        """Write K(A, B) by panels: out (n, m) → (n, m)."""
        n, m = len(A), len(B)
        workers = self._workers(n, m)
        height = self._panel_height(n, m, workers, free=self.memory - out.nbytes)
        if m:
            run(lambda rows: self.kernel.tile(A[rows], B, out[rows]), spans(n, height), workers)
        return out

    def product(self, A: Points, B: Points, V: NDArray[Any], flipped: bool) -> NDArray[np.float64]:
        """Return ``K(A, B) @ V``, or ``K(A, B).T @ V`` if flipped; V is in the dtype of the tiles."""
        if flipped:
            return self._product(V, B, A, lambda B, A, out: self.kernel.tile(A, B, out.T).T)
        return self._product(V, A, B, self.kernel.tile)

    def _product(
        self, V: NDArray[Any], A: Points, B: Points, tile: Callable[[Any, Any, NDArray[Any]], NDArray[Any]]
    ) -> NDArray[np.float64]:
        total = np.zeros((len(A), V.shape[1]))
        workers = self._workers(len(A), len(B))
        height, width = tile_shape(len(B), self.memory, self._cell_bytes, workers)
        columns = spans(len(B), width)
        stop = threading.Event()

        def panel(rows: slice) -> None:
            left = A[rows]
            scratch = np.empty(len(left) * width, V.dtype)
            for c in columns:
                if stop.is_set():
                    return
                shape = (len(left), c.stop - c.start)
                total[rows] += tile(left, B[c], scratch[: shape[0] * shape[1]].reshape(shape)) @ V[c]

        run(panel, spans(len(A), height), workers, stop)
        return total

    def vjp(self, A: Points, B: Points, W: NDArray[Any]) -> NDArray[np.float64]:
        """Return Σ_ij W_ij ∂K_ij/∂theta, by panels: W (n, m) → (p,)."""
        n, m = len(A), len(B)
        workers = self._workers(n, m)
        height = self._panel_height(n, m, workers, DERIVATIVE_TILES)

        def panel(rows: slice) -> NDArray[np.float64]:
            return self.kernel.tile_vjp(A[rows], B, np.asarray(W[rows], dtype=np.float64))

        return np.sum(run(panel, spans(n, height), workers), axis=0)

    def grad_inputs(self, A: Points, B: Points, V: NDArray[Any]) -> NDArray[Any]:
        """Return Σ_j V_j ∂k(x_i, y_j)/∂x_i, by tiles: V (m,) → (n, d)."""
        n, m = len(A), len(B)
        workers = self._workers(n, m)
        height, width = tile_shape(m, self.memory // DERIVATIVE_TILES, self._cell_bytes, workers)

        def panel(rows: slice) -> NDArray[Any]:
            left = A[rows]
            tiles = ((c, np.broadcast_to(V[c], (len(left), c.stop - c.start))) for c in spans(m, width))
            return sum(self.kernel.tile_gradient(left, B[c], W) for c, W in tiles)

        return np.concatenate(run(panel, spans(n, height), workers))

    def symmetric(self, A: Points, B: Points, memory: int, dtype: np.dtype[Any]) -> StoredBlocks:
        """Return K of rows with themselves as an operator, of which ``memory`` bytes may be stored."""
        return StoredBlocks(self.kernel, A, B, memory, dtype, self.workers)

    def _workers(self, n: int, m: int) -> int:
        return self.workers if n * m > SMALL else 1

    def _panel_height(self, n: int, m: int, workers: int, tiles: int = 1, free: int | None = None) -> int:
        """Rows of full-width panels whose scratch, ``tiles`` times the kernel's, fits the budget on every worker."""
        scratch = self.memory if free is None else max(free, self.memory // LEAST_SCRATCH)
        affordable = scratch // (self._cell_bytes * tiles * max(m, 1) * workers)
        return max(min(PANEL, affordable, -(-n // workers)), 1)

    @property
    def _cell_bytes(self) -> int:
        return 8 * (self.kernel.tile_buffers + SPARE_TILES)
