"""Passes over blocks: samples, maps and sums, with progress and a checkpoint.

A sample depends on a seed and on the numbers of the rows, not on how they are cut into blocks. Every row has a key, a
hash of the seed and its number; the sample are the rows with the smallest keys. So it is drawn in one pass, by any
number of workers, and is the same whatever the blocks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import joblib
import numpy as np
from numpy.typing import NDArray

from gramian.data.checkpoint import Checkpoint
from gramian.data.executor import Executor, Item, Task
from gramian.data.parts import Need, Part, Sums, Tree, joined
from gramian.progress import Tick, progress, silent

__all__ = ["Passes", "row_keys", "sample_rows", "threshold"]

LEAST_SEGMENT = 16
"""Blocks between two writes of a checkpoint, at least."""
LARGEST = 2**64 - 1
"""Of the keys."""
MARGIN = 6.0
"""Deviations by which more rows are asked for than are wanted, so that they hardly ever are too few."""


class Passes:
    """Passes over ``Blocks``, which are read for every pass, or over ``Held`` rows: samples, maps and sums."""

    def __init__(
        self, blocks: Any, executor: Executor, checkpoint: Checkpoint | None = None, tick: Tick = silent
    ) -> None:
        self.blocks, self.executor, self.checkpoint, self.tick = blocks, executor, checkpoint, tick
        self.number = 0

    @contextmanager
    def running(self, verbose: int | bool, label: str) -> Iterator[Self]:
        """Show progress for the length of a ``with`` block; an error or Ctrl-C cancels what is under way."""
        with progress(verbose, label, float(self.blocks.n_rows) if verbose else None) as self.tick:
            try:
                yield self
            except BaseException:
                self.executor.cancel()
                raise
            finally:
                self.forget()
        if self.checkpoint is not None:
            self.checkpoint.clear()

    def sum(self, task: Task, shared: Any, *, need: Need | None = None) -> Sums:
        """Return the sum over all blocks of what a task returns for each."""
        items = self.blocks.items
        number, self.number = self.number, self.number + 1
        fingerprint = self._fingerprint(task, shared)
        done, held = (0, []) if self.checkpoint is None else self.checkpoint.read(number, fingerprint)
        tree, track = Tree(held), _Track(self.tick, self.blocks.n_rows, sum(item.rows for item in items[:done]))
        if done < len(items):
            there = self.executor.broadcast(shared)
            for start in range(done, len(items), self._segment):
                part = items[start : start + self._segment]
                value = self.executor.reduce(task, there, part, need or Need(), track)
                tree.push(value, len(part))
                if self.checkpoint is not None:
                    self.checkpoint.write(number, fingerprint, start + len(part), tree.held)
        return _some(tree.root())

    def forget(self) -> None:
        """Let go of what ``Part.made`` has kept; rows that are read for every pass keep nothing."""

    @property
    def _segment(self) -> int:
        """Blocks from one write of the checkpoint to the next: a power of two, which leaves the tree as it is."""
        if self.checkpoint is None:
            return len(self.blocks.items)
        return max(LEAST_SEGMENT, 1 << (2 * self.executor.workers - 1).bit_length())

    def _fingerprint(self, task: Task, shared: Any) -> str:
        if self.checkpoint is None:
            return ""
        return str(joblib.hash((self._identity, f"{task.__module__}.{task.__qualname__}", shared)))

    @cached_property
    def _identity(self) -> str:
        return str(joblib.hash([(item.loader.identity(), item.first, item.rows) for item in self.blocks.items]))

    def map(self, task: Task, shared: Any, *, need: Need | None = None) -> Iterator[Any]:
        """Yield what a task returns for each block, in order."""
        track = _Track(self.tick, self.blocks.n_rows)
        yield from self.executor.map(task, self.executor.broadcast(shared), self.blocks.items, need or Need(), track)

    def sample(self, size: int, seed: int) -> Part:
        """Draw rows of positive weight uniformly."""
        limit = threshold(size, self.blocks.n_rows)
        while True:
            parts = [part for part in self.map(_drawn, (seed, limit)) if part is not None]
            found = sum(part.index.size for part in parts)
            if limit == LARGEST or found >= size:
                break
            # Rows of weight zero were in the way: ask for more.
            limit = min(LARGEST, int(1.5 * limit * size / max(found, 1)))
        rows = joined(_some(parts or None))
        if found <= size:
            return rows
        chosen = np.argsort(row_keys(seed, rows.index), kind="stable")[:size]
        return rows.take(np.sort(chosen))


def _some(found: Any) -> Any:
    """What a pass found, where it found any row."""
    if found is None:
        raise ValueError("weights must be positive for at least one row; all weights are zero.")
    return found


@dataclass(eq=False)
class _Track:
    """Counts the rows of a pass, and tells how fast they go."""

    tick: Tick
    total: int
    done: int = 0

    def __post_init__(self) -> None:
        self.start, self.before = time.perf_counter(), self.done

    def __call__(self, item: Item) -> None:
        self.done += item.rows
        rate = (self.done - self.before) / max(time.perf_counter() - self.start, 1e-9)
        self.tick(self.done, **{"rows/s": rate, "seconds left": (self.total - self.done) / rate})


def _drawn(shared: tuple[int, int], parts: Iterator[Part]) -> Part | None:
    seed, limit = shared
    taken = [part.take(row_keys(seed, part.index) <= np.uint64(limit)) for part in parts]
    return joined(taken) if taken else None


def row_keys(seed: int, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a random key for every row, by the splitmix64 hash of Steele, Lea and Flood (2014)."""
    with np.errstate(over="ignore"):
        start = _mixed(np.array([seed + 1], dtype=np.uint64))
        return _mixed(rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + start)


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def threshold(size: int, n: int) -> int:
    """Return a key below which at least ``size`` of n rows lie, almost surely, and not many more."""
    share = (size + MARGIN * math.sqrt(size) + MARGIN) / max(n, 1)
    return LARGEST if size >= n or share >= 1.0 else int(share * LARGEST)


def sample_rows(n: int, size: int, seed: int) -> NDArray[np.intp]:
    """Return the rows of the sample that ``Blocks.sample`` draws of the same data, where no weight is zero."""
    order = np.argsort(row_keys(seed, np.arange(n, dtype=np.int64)), kind="stable")
    return np.asarray(np.sort(order[:size]))
