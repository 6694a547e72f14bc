"""Passes over blocks: samples, maps and sums, with progress and a checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import joblib
import numpy as np

from gramian.data.checkpoint import Checkpoint
from gramian.data.executor import Executor, Item, Task
from gramian.data.parts import Need, Part
from gramian.data.sampling import LARGEST, row_keys, threshold
from gramian.data.sums import Sums, Tree
from gramian.progress import Tick, silent

__all__ = ["Passes", "joined"]

LEAST_SEGMENT = 16
"""Blocks between two writes of a checkpoint, at least."""


class Passes:
    """Passes over ``Blocks``, which are read for every pass, or over ``Held`` rows: samples, maps and sums."""

    def __init__(
        self, blocks: Any, executor: Executor, checkpoint: Checkpoint | None = None, tick: Tick = silent
    ) -> None:
        self.blocks, self.executor, self.checkpoint, self.tick = blocks, executor, checkpoint, tick
        self.number = 0

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
        root = tree.root()
        if root is None:
            raise ValueError("weights must be positive for at least one row; all weights are zero.")
        return root

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
        name = f"{task.__module__}.{task.__qualname__}"
        return str(joblib.hash((self._identity, name, shared)))

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
        if not parts:
            raise ValueError("weights must be positive for at least one row; all weights are zero.")
        rows = joined(parts)
        if found <= size:
            return rows
        chosen = np.argsort(row_keys(seed, rows.index), kind="stable")[:size]
        return rows.take(np.sort(chosen))


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


def joined(parts: Sequence[Part]) -> Part:
    """Put parts together."""
    if len(parts) == 1:
        return parts[0]

    def stacked(of: Callable[[Part], Any]) -> Any:
        return None if of(parts[0]) is None else np.concatenate([of(part) for part in parts])

    return Part(stacked(lambda p: p.X), stacked(lambda p: p.y), stacked(lambda p: p.weight), stacked(lambda p: p.index))


def _drawn(shared: tuple[int, int], parts: Iterator[Part]) -> Part | None:
    seed, limit = shared
    taken = [part.take(row_keys(seed, part.index) <= np.uint64(limit)) for part in parts]
    return joined(taken) if taken else None
