"""Blocks of rows, centred into scratch memory, and the worker threads that process them.

The blocks depend only on the shape of the data, and their results are returned in order, so a sum over blocks does not
depend on the number of threads.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from gramian.resources import run, spans, worker_count
from gramian.solvers.mixture.covariances import Floats

T = TypeVar("T")

# A tile should stay in a core's second-level cache while it is worked on; a block has enough tiles to make the overhead
# of the interpreter small.
TILE_FLOATS = 2**17
TILE_ROWS = (64, 2048)
BLOCK_FLOATS = 2**20
BLOCK_ROWS = 8192
# Blocks processed before their results are consumed.
TOGETHER = 64


class Scratch(threading.local):
    """Buffers that each thread reuses from block to block."""

    def __init__(self) -> None:
        self._buffers: dict[str, Floats] = {}

    def array(self, name: str, shape: tuple[int, ...]) -> Floats:
        """Return an uninitialised array; the next call with the same name may overwrite it."""
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < size:
            buffer = self._buffers[name] = np.empty(size)
        return buffer[:size].reshape(shape)


@dataclass(frozen=True)
class Block:
    """Rows ``start`` to ``stop``, in tiles of equal size."""

    start: int  # The first row
    tiles: int  # Number of tiles
    size: int  # Rows in a tile

    @property
    def rows(self) -> slice:
        """Slice of the block in X."""
        return slice(self.start, self.start + self.tiles * self.size)


@dataclass(frozen=True, eq=False)
class Tiles:
    """Rows relative to a centre, with their weights; X itself is never copied."""

    X: NDArray[Any]  # (n, d): Float32 or float64
    centre: Floats  # (d,): Subtracted in float64, so that moments do not cancel
    reach: Floats  # (d,): The largest distance from the centre along each axis
    weights: Floats | None = None  # (n,): Weights of the rows; ``None`` if all are one

    @classmethod
    def of(cls, X: NDArray[Any], weights: Floats | None = None, centre: Floats | None = None) -> Self:
        """Return rows relative to a centre, by default their mean: X (n, d), weights (n,), centre (d,)."""
        low, high = X.min(axis=0), X.max(axis=0)
        if centre is None:
            centre = np.clip(X.mean(axis=0, dtype=np.float64), low, high)
        return cls(X, centre, np.maximum(high - centre, centre - low), weights)

    def blocks(self, width: int) -> list[Block]:
        """Return a partition of the rows."""
        smallest, largest = TILE_ROWS
        size = min(max(TILE_FLOATS // width, smallest), largest) // smallest * smallest
        tiles = max(1, min(BLOCK_ROWS, BLOCK_FLOATS // width) // size)
        whole, rest = divmod(len(self.X), size)
        blocks = [Block(size * first, min(tiles, whole - first), size) for first in range(0, whole, tiles)]
        return blocks + [Block(size * whole, 1, rest)] * (rest > 0)

    def load(self, block: Block, out: Floats) -> Floats:
        """Write the centred rows of a block as columns: out (tiles, d, size) → (tiles, d, size)."""
        tiles = self.X[block.rows].reshape(block.tiles, block.size, -1)
        return np.subtract(tiles.transpose(0, 2, 1), self.centre[:, None], out=out)

    def weights_of(self, block: Block) -> Floats | None:
        """Return the weights of a block's rows: → (tiles, size)."""
        return None if self.weights is None else self.weights[block.rows].reshape(block.tiles, block.size)


class Workers:
    """Threads that process blocks, each with its own buffers."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs, self._scratch = worker_count(n_jobs), Scratch()

    def map(self, job: Callable[[Block, Scratch], T], blocks: Sequence[Block]) -> Iterator[T]:
        """Run a job on every block and yield the results in order."""
        for some in spans(len(blocks), TOGETHER):
            yield from run(lambda block: job(block, self._scratch), blocks[some], self.n_jobs)
