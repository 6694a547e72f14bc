"""The symmetric Gram matrix of X with itself: each block below the diagonal is computed once and used twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.gram.operator import Gram, narrowed
from gramian.resources import readable, run, spans

BLOCK = 512
"""Rows and columns of a block: it stays in the cache while it is used twice."""
COMPILED = 2048
"""Rows from which one vector is multiplied by compiled code, which reads a block once, where BLAS reads it twice."""
ROUND = 2 * 10**8
"""Cells between two chances to answer Ctrl-C."""

Block = tuple[slice, slice]


class SymmetricGram:
    """A square Gram matrix by the blocks on and below its diagonal, some of them stored.

    ``K @ V`` takes half of the kernel values that ``Gram`` takes, and none for blocks that are stored. As many are
    stored, in ``dtype``, as ``memory`` allows: all of them need half of what the matrix would.

    Parameters
    ----------
    gram : Gram
        K of X with itself, by a kernel that is symmetric.
    memory : int, default=0
        Bytes of blocks to store.
    dtype : dtype, default=float32
        In which blocks are stored and multiplied; sums over blocks are float64 always.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, SymmetricGram
    >>> from gramian.kernels import RBF
    >>> K = Gram(RBF(1.0), np.arange(600.0)[:, None])
    >>> half = SymmetricGram(K, memory=10**6, dtype=np.float64)
    >>> half
    SymmetricGram(600 x 600, float64, 0 of 3 blocks stored, 0 B)
    >>> bool(np.allclose(half @ np.ones(600), K @ np.ones(600)))
    True
    """

    def __init__(self, gram: Gram, memory: int = 0, dtype: Any = np.float32) -> None:
        if gram.shape[0] != gram.shape[1]:
            raise ValueError(f"only K of X with itself is symmetric, got shape {gram.shape}.")
        self.gram, self.dtype, self.shape = gram, np.dtype(dtype), gram.shape
        panels = spans(gram.shape[0], BLOCK)
        self._blocks: list[Block] = [(r, c) for i, r in enumerate(panels) for c in panels[: i + 1]]
        self._corners = np.array([(r.start, r.stop, c.start, c.stop) for r, c in self._blocks]).reshape(-1, 4)
        self._pool, self._starts = self._store(memory)

    def _store(self, memory: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The blocks that fit, one behind the other, and where each begins."""
        ends = np.cumsum([0, *map(_cells, self._blocks)])
        count = int(np.searchsorted(ends[1:] * self.dtype.itemsize, memory, side="right"))
        pool, starts = np.empty(ends[count], self.dtype), ends[:count]
        for part in self._rounds(range(count)):
            run(lambda i: self._make(i, pool[starts[i] :]), part, self.gram.workers)
        return pool, starts

    @property
    def stored(self) -> float:
        """The share of the blocks that is stored."""
        return len(self._starts) / max(len(self._blocks), 1)

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks that are stored."""
        return int(self._pool.nbytes)

    def _make(self, i: int, room: NDArray[Any]) -> NDArray[Any]:
        rows, columns = self._blocks[i]
        out = _view(room, self._blocks[i])
        return np.asarray(self.gram.kernel.tile(self.gram._A[rows], self.gram._B[columns], out))

    def _rounds(self, items: range) -> list[range]:
        step = max(ROUND // BLOCK**2, 1)
        return [items[start : start + step] for start in range(0, len(items), step)]

    def __matmul__(self, V: NDArray[Any]) -> NDArray[np.float64]:
        V = np.asarray(V)
        if V.shape[0] != self.shape[0]:
            raise ValueError(f"V must have {self.shape[0]} rows, got {V.shape}.")
        narrow, scale = narrowed(V.reshape(V.shape[0], -1), self.dtype)
        workers = self.gram.workers if narrow.shape[0] > BLOCK else 1
        # A worker's share of the blocks is fixed and its sums are its own, so the result is always the same.
        sums = [np.zeros(narrow.shape) for _ in range(workers)]
        scratch = [np.empty(BLOCK * BLOCK, self.dtype) for _ in range(workers)]

        def share(job: tuple[int, range]) -> None:
            worker, blocks = job
            for i in self._compiled(blocks, narrow, sums[worker]):
                self._add(i, narrow, sums[worker], scratch[worker])

        for part in self._rounds(range(len(self._blocks))):
            run(share, [(w, part[w::workers]) for w in range(workers)], workers)
        total = sum(sums[1:], sums[0])
        return np.asarray((total if scale is None else total * scale).reshape(V.shape))

    def _compiled(self, blocks: range, V: NDArray[Any], total: NDArray[np.float64]) -> Sequence[int]:
        """Add what is stored in one go, where V is a single large vector; return the blocks that are left to do."""
        if V.shape[1] != 1 or V.shape[0] < COMPILED or not self._starts.size:
            return blocks
        from gramian.gram.inner import add_blocks

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

    def __repr__(self) -> str:
        n = self.shape[0]
        held = f"{len(self._starts)} of {len(self._blocks)} blocks stored, {readable(self.nbytes)}"
        return f"SymmetricGram({n} x {n}, {self.dtype}, {held})"


def _cells(block: Block) -> int:
    rows, columns = block
    return int((rows.stop - rows.start) * (columns.stop - columns.start))


def _view(flat: NDArray[Any], block: Block) -> NDArray[Any]:
    rows, columns = block
    return flat[: _cells(block)].reshape(rows.stop - rows.start, columns.stop - columns.start)
