"""The blocks of a symmetric matrix on and below its diagonal, some of them stored, for products on threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.kernels import Kernel
from gramian.kernels.points import Points
from gramian.resources import readable, run, spans

BLOCK = 512
"""Rows and columns of a block: it stays in the cache while it is used twice."""
COMPILED = 2048
"""Rows from which one vector is multiplied by compiled code, which reads a block once; BLAS reads it twice."""
ROUND = 2 * 10**8
"""Cells between two chances to answer Ctrl-C."""

Block = tuple[slice, slice]


class StoredBlocks:
    """K of rows with themselves, by blocks: those that fit ``memory`` are stored, the others made for every product."""

    def __init__(self, kernel: Kernel, A: Points, B: Points, memory: int, dtype: np.dtype[Any], workers: int) -> None:
        self.kernel, self.A, self.B, self.dtype, self.workers = kernel, A, B, dtype, workers
        panels = spans(len(A), BLOCK)
        self._blocks: list[Block] = [(r, c) for i, r in enumerate(panels) for c in panels[: i + 1]]
        self._corners = np.array([(r.start, r.stop, c.start, c.stop) for r, c in self._blocks]).reshape(-1, 4)
        self._pool, self._starts = self._store(memory)

    def _store(self, memory: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The blocks that fit, one after the other, and their offsets."""
        ends = np.cumsum([0, *map(_cells, self._blocks)])
        count = int(np.searchsorted(ends[1:] * self.dtype.itemsize, memory, side="right"))
        pool, starts = np.empty(ends[count], self.dtype), ends[:count]
        for part in self._rounds(range(count)):
            run(lambda i: self._make(i, pool[starts[i] :]), part, self.workers)
        return pool, starts

    @property
    def stored(self) -> float:
        """The share of the blocks that is stored."""
        return len(self._starts) / max(len(self._blocks), 1)

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks that are stored."""
        return int(self._pool.nbytes)

    @property
    def described(self) -> str:
        """What is stored, in words."""
        return f"{len(self._starts)} of {len(self._blocks)} blocks stored, {readable(self.nbytes)}"

    def _make(self, i: int, room: NDArray[Any]) -> NDArray[Any]:
        rows, columns = self._blocks[i]
        out = _view(room, self._blocks[i])
        return np.asarray(self.kernel.tile(self.A[rows], self.B[columns], out))

    def _rounds(self, items: range) -> list[range]:
        step = max(ROUND // BLOCK**2, 1)
        return [items[start : start + step] for start in range(0, len(items), step)]

    def __matmul__(self, V: NDArray[Any]) -> NDArray[np.float64]:
        """``K @ V`` for V (n, k) in the dtype of the blocks."""
        workers = self.workers if V.shape[0] > BLOCK else 1
        # Each worker has a fixed share of the blocks and its own sums, so that the result is always the same.
        sums = [np.zeros(V.shape) for _ in range(workers)]
        scratch = [np.empty(BLOCK * BLOCK, self.dtype) for _ in range(workers)]

        def share(job: tuple[int, range]) -> None:
            worker, blocks = job
            for i in self._compiled(blocks, V, sums[worker]):
                self._add(i, V, sums[worker], scratch[worker])

        for part in self._rounds(range(len(self._blocks))):
            run(share, [(w, part[w::workers]) for w in range(workers)], workers)
        return sum(sums[1:], sums[0])

    def _compiled(self, blocks: range, V: NDArray[Any], total: NDArray[np.float64]) -> Sequence[int]:
        """Add the stored blocks by compiled code if V is a single long vector; return the blocks that remain."""
        if V.shape[1] != 1 or V.shape[0] < COMPILED or not self._starts.size:
            return blocks
        from gramian.gram.loops import add_blocks

        mine = np.array([i for i in blocks if i < len(self._starts)], dtype=np.int64)
        add_blocks(self._pool, self._starts, self._corners, mine, V[:, 0], total[:, 0])
        return blocks[mine.size :]

    def _add(self, i: int, V: NDArray[Any], total: NDArray[np.float64], scratch: NDArray[Any]) -> None:
        rows, columns = self._blocks[i]
        held = i < len(self._starts)
        K = _view(self._pool[self._starts[i] :], self._blocks[i]) if held else self._make(i, scratch)
        total[rows] += K @ V[columns]
        if rows != columns:
            total[columns] += K.T @ V[rows]


def _cells(block: Block) -> int:
    rows, columns = block
    return int((rows.stop - rows.start) * (columns.stop - columns.start))


def _view(flat: NDArray[Any], block: Block) -> NDArray[Any]:
    rows, columns = block
    return flat[: _cells(block)].reshape(rows.stop - rows.start, columns.stop - columns.start)
