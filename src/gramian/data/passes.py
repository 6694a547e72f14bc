"""Passes over blocks or over rows in memory: the parts they hand out, the sums they return, the threads that work.

A sample depends on a seed and on the numbers of the rows, not on how they are cut into blocks. Every row has a key, a
hash of the seed and its number; the sample are the rows with the smallest keys. So it is drawn in one pass, by any
number of workers, and is the same whatever the blocks.
"""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any, Self

import joblib
import numpy as np
from numpy.typing import NDArray

from gramian.progress import Tick, progress, silent
from gramian.resources import memory_budget, one_blas_thread, spans, worker_count

if TYPE_CHECKING:
    from gramian.data.checkpoint import Checkpoint
    from gramian.data.loaders import Loader

CHUNK = 8192
"""Rows that a task holds at a time, for any block size."""
CELLS = 2**22
"""Most numbers in the features a worker holds at a time: 32 MB, plus a few copies."""
LEAST_ROWS = 256
"""Fewest rows of a strip, so that matrix products stay efficient."""
AHEAD = 2
"""Blocks started ahead for each thread."""
LEAST_SEGMENT = 16
"""Least number of blocks between two writes of a checkpoint."""
LARGEST = 2**64 - 1
"""The largest of the random keys of rows."""
MARGIN = 6.0
"""Standard deviations of margin in the key limit, so that a sample is hardly ever too small."""
HELD_ROWS = 4096
"""Rows of a block in memory: enough for efficient products, few enough to occupy all threads."""


# ---- parts of rows, and sums over them -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Need:
    """The columns that a pass needs; the others are not read."""

    X: bool = True
    y: bool = True
    weight: bool = True  # Without weights, rows of weight zero count like all others


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a block."""

    X: NDArray[Any]  # (r, d): Inputs; (r, 0) if they were not needed
    y: NDArray[Any] | None  # (r,) or (r, k): Targets
    weight: NDArray[np.float64] | None  # (r,): Weights, > 0
    index: NDArray[np.int64]  # (r,): Numbers of the rows in the data
    store: Any = None  # Keeps features of rows in memory; None if rows are read in every pass

    def made(self, maker: Any) -> NDArray[Any]:
        """Return ``maker(X)``, kept between passes if the rows are in memory and it fits."""
        return np.asarray(maker(self.X) if self.store is None else self.store.get(maker, self))

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weights, or ones."""
        return np.ones(self.index.size) if self.weight is None else self.weight

    def take(self, rows: NDArray[Any] | slice) -> Part:
        """Return some of the rows."""
        y = None if self.y is None else self.y[rows]
        weight = None if self.weight is None else self.weight[rows]
        store = self.store if isinstance(rows, slice) else None
        return Part(self.X[rows], y, weight, self.index[rows], store)

    def strips(self, width: int) -> Iterator[Part]:
        """Yield the rows in strips, for which ``width`` numbers a row are a few megabytes."""
        height = max(LEAST_ROWS, CELLS // max(width, 1))
        for rows in spans(self.index.size, height):
            yield self.take(rows)


def joined(parts: Sequence[Part]) -> Part:
    """Concatenate parts."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*((part.X, part.y, part.weight, part.index) for part in parts), strict=True)
    return Part(*(None if column[0] is None else np.concatenate(column) for column in columns))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Sums:
    """Named sums over some rows; ``+`` adds those of other rows."""

    arrays: Mapping[str, NDArray[Any]]  # The sums

    @classmethod
    def of(cls, **arrays: Any) -> Sums:
        """Return sums by name."""
        return cls({name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()})

    def __add__(self, other: Sums) -> Sums:
        return Sums({name: array + other.arrays[name] for name, array in self.arrays.items()})

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return self.arrays[name]


Statistic = Callable[..., Sums]
"""A statistic over blocks: from a ``Part``, and values that all parts share, to ``Sums``; ``Passes.sum`` adds it up
over all rows. The solver that needs one defines it as a module-level function, so that it can be sent to workers."""


def plus(a: Sums | None, b: Sums | None) -> Sums | None:
    """Add two sums, either of which may be None."""
    return b if a is None else a if b is None else a + b


def total(parts: Iterable[Sums]) -> Sums | None:
    """Return the sum of some values, in their order."""
    start: Sums | None = None
    return reduce(plus, parts, start)


def tree_total(values: Iterable[Sums | None]) -> Sums | None:
    """Return the sum of some values, added up in a binary tree."""
    tree = Tree()
    for value in values:
        tree.push(value)
    return tree.root()


class Tree:
    """A binary tree of sums whose shape depends on the number of leaves alone.

    Leaves are pushed in order. What is held are the sums of complete subtrees, at most one of each size, so the memory
    is logarithmic in the leaves, and the same additions are made however the leaves were computed.
    """

    def __init__(self, held: Iterable[tuple[int, Sums | None]] = ()) -> None:
        self.held: list[tuple[int, Sums | None]] = list(held)

    def push(self, value: Sums | None, size: int = 1) -> None:
        """Add the next leaf, or the next complete subtree."""
        while self.held and self.held[-1][0] == size:
            value = plus(self.held.pop()[1], value)
            size *= 2
        self.held.append((size, value))

    def root(self) -> Sums | None:
        """Return the sum of all leaves."""
        values = [value for _, value in reversed(self.held)]
        return reduce(lambda right, left: plus(left, right), values) if values else None


# ---- execution -------------------------------------------------------------------------------------------------------


Task = Callable[[Any, Iterator[Part]], Any]
Done = Callable[["Item"], None]


@dataclass(frozen=True)
class Item:
    """One block to work on."""

    loader: Loader  # The source of its rows
    first: int  # The number of its first row
    rows: int  # How many rows

    def parts(self, need: Need) -> Iterator[Part]:
        """Read the rows and check them."""
        return self.loader.parts(self.first, need)


class Executor(ABC):
    """Runs the tasks of a pass."""

    @abstractmethod
    def map(self, task: Task, shared: Any, items: Sequence[Item], need: Need, done: Done) -> Iterator[Any]:
        """Yield what a task returns for each block, in order."""

    @abstractmethod
    def cancel(self) -> None:
        """Cancel pending work."""

    @property
    @abstractmethod
    def workers(self) -> int:
        """Blocks processed at the same time."""

    def broadcast(self, value: Any) -> Any:
        """Send a value to all workers."""
        return value

    def reduce(self, task: Task, shared: Any, items: Sequence[Item], need: Need, done: Done) -> Sums | None:
        """Return the sum, in a binary tree, of what a task returns for each block."""
        return tree_total(self.map(task, shared, items, need, done))


def work(task: Task, shared: Any, item: Item, need: Need, stop: threading.Event | None = None) -> Any:
    """Run a task on one block, with one BLAS thread."""

    def parts() -> Iterator[Part]:
        for part in item.parts(need):
            if stop is not None and stop.is_set():
                raise InterruptedError("the pass was cancelled.")
            yield part

    with one_blas_thread():
        return task(shared, parts())


class ThreadExecutor(Executor):
    """Threads of this process, with one BLAS thread each."""

    workers = 1

    def __init__(self, n_jobs: int | None = None) -> None:
        self.workers = worker_count(n_jobs)
        self._stop = threading.Event()

    def map(self, task: Task, shared: Any, items: Sequence[Item], need: Need, done: Done) -> Iterator[Any]:
        self._stop.clear()
        waiting: deque[tuple[Item, Future[Any]]] = deque()
        with one_blas_thread(), ThreadPoolExecutor(self.workers, thread_name_prefix="gramian") as pool:
            try:
                for item in items:
                    waiting.append((item, pool.submit(work, task, shared, item, need, self._stop)))
                    if len(waiting) > AHEAD * self.workers:
                        yield _taken(waiting, done)
                while waiting:
                    yield _taken(waiting, done)
            except BaseException:
                self.cancel()
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def cancel(self) -> None:
        """Stop the threads before their next rows."""
        self._stop.set()


def _taken(waiting: deque[tuple[Item, Future[Any]]], done: Done) -> Any:
    item, future = waiting.popleft()
    value = future.result()
    done(item)
    return value


# ---- passes ----------------------------------------------------------------------------------------------------------


class Passes:
    """Passes over ``Blocks``, which are read in every pass, or over ``Held`` rows: samples, maps and sums."""

    def __init__(
        self, blocks: Any, executor: Executor, checkpoint: Checkpoint | None = None, tick: Tick = silent
    ) -> None:
        self.blocks, self.executor, self.checkpoint, self.tick = blocks, executor, checkpoint, tick
        self.number = 0

    @contextmanager
    def running(self, verbose: int | bool, label: str) -> Iterator[Self]:
        """Show progress in a ``with`` block; an error or Ctrl-C cancels running tasks."""
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

    def sum(self, statistic: Statistic, *shared: Any, need: Need | None = None, width: int = 0) -> Sums:
        """Return the sum over all rows of a statistic, a function of a ``Part`` and of shared values.

        ``width`` is how many numbers it holds for each row; parts are cut into strips for which these are a few
        megabytes.
        """
        items, task = self.blocks.items, partial(_summed, statistic, width)
        number, self.number = self.number, self.number + 1
        fingerprint = self._fingerprint(statistic, shared)
        done, held = (0, []) if self.checkpoint is None else self.checkpoint.read(number, fingerprint)
        tree, track = Tree(held), _Track(self.tick, self.blocks.n_rows, sum(item.rows for item in items[:done]))
        if done < len(items):
            there, step = self.executor.broadcast(shared), self._segment
            for start in range(done, len(items), step):
                part = items[start : start + step]
                value = self.executor.reduce(task, there, part, need or Need(), track)
                tree.push(value, len(part))
                if self.checkpoint is not None:
                    self.checkpoint.write(number, fingerprint, start + len(part), tree.held)
        return _some(tree.root())

    def forget(self) -> None:
        """Forget the arrays that ``Part.made`` keeps; rows read in every pass keep none."""

    @property
    def _segment(self) -> int:
        """Blocks between two checkpoints: a power of two, so that the tree of sums stays the same."""
        if self.checkpoint is None:
            return len(self.blocks.items)
        return max(LEAST_SEGMENT, 1 << (2 * self.executor.workers - 1).bit_length())

    def _fingerprint(self, statistic: Any, shared: Any) -> str:
        if self.checkpoint is None:
            return ""
        return str(joblib.hash((self._identity, f"{statistic.__module__}.{statistic.__qualname__}", shared)))

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
            # Too few, because of rows of weight zero: ask for more.
            limit = min(LARGEST, int(1.5 * limit * size / max(found, 1)))
        rows = joined(_some(parts or None))
        if found <= size:
            return rows
        chosen = np.argsort(row_keys(seed, rows.index), kind="stable")[:size]
        return rows.take(np.sort(chosen))


def _some(found: Any) -> Any:
    """The result of a pass; raise if it saw no row."""
    if found is None:
        raise ValueError("weights must be positive for at least one row; all weights are zero.")
    return found


def _summed(statistic: Statistic, width: int, shared: tuple[Any, ...], parts: Iterator[Part]) -> Sums | None:
    return total(statistic(strip, *shared) for part in parts for strip in part.strips(width))


@dataclass(eq=False)
class _Track:
    """Counts the rows of a pass and shows their rate."""

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
    """Return a random key for every row: the splitmix64 hash (Steele, Lea and Flood, 2014)."""
    with np.errstate(over="ignore"):
        start = _mixed(np.array([seed + 1], dtype=np.uint64))
        return _mixed(rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + start)


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def threshold(size: int, n: int) -> int:
    """Return a limit such that almost surely at least ``size`` of n keys, and not many more, are below it."""
    share = (size + MARGIN * math.sqrt(size) + MARGIN) / max(n, 1)
    return LARGEST if size >= n or share >= 1.0 else int(share * LARGEST)


def sample_rows(n: int, size: int, seed: int) -> NDArray[np.intp]:
    """Return the rows that ``Blocks.sample`` draws from the same data, if no weight is zero."""
    order = np.argsort(row_keys(seed, np.arange(n, dtype=np.int64)), kind="stable")
    return np.asarray(np.sort(order[:size]))


# ---- rows in memory --------------------------------------------------------------------------------------------------


class Held:
    """Validated rows in memory, cut into blocks that passes go over; rows of weight zero are left out.

    ``X`` may be dense, CSR, an array of objects, or rows of a Gram matrix; ``index`` names rows of the data.
    """

    names = None

    def __init__(self, X: Any, y: Any = None, weight: Any = None, *, memory: int | str | None = None) -> None:
        n = self.total = X.shape[0]  # including rows of weight zero
        index = np.arange(n) if weight is None else np.flatnonzero(weight)
        if index.size == 0:
            raise ValueError("sample_weight must be positive for at least one row; all weights are zero.")
        if index.size < n:
            X, y, weight = X[index], None if y is None else y[index], weight[index]
        self._store = _Store(memory_budget(memory) // 2)
        self.all = Part(X, y, weight, index.astype(np.int64), self._store)
        self.weight, self.has_targets = weight, y is not None
        self.n_columns = X.shape[1] if X.ndim > 1 else 1
        self.items = [_Slice(self, rows.start, rows.stop - rows.start) for rows in spans(index.size, HELD_ROWS)]

    @property
    def n_rows(self) -> int:
        """Rows of positive weight."""
        return self.all.index.size

    def passes(
        self, *, n_jobs: int | None = None, verbose: int | bool = False, label: str = "rows"
    ) -> AbstractContextManager[Passes]:
        """Open passes over the rows in a ``with`` block; features are forgotten at its end."""
        return _HeldPasses(self, ThreadExecutor(n_jobs)).running(verbose, label)


@dataclass(frozen=True, eq=False)
class _Slice:
    """Some of the rows, as an item of a pass."""

    held: Held
    first: int
    rows: int

    def parts(self, need: Need) -> Iterator[Part]:
        """Yield the rows, which have been validated before."""
        yield self.held.all.take(slice(self.first, self.first + self.rows))


class _HeldPasses(Passes):
    """Passes over rows in memory, from which a sample is drawn without a pass."""

    def sample(self, size: int, seed: int) -> Part:
        """Draw rows uniformly; the same rows as from the same data in blocks."""
        rows = self.blocks.all
        if size >= rows.index.size:
            return rows
        return rows.take(sample_rows(rows.index.size, size, seed))

    def forget(self) -> None:
        """Forget the features of the rows."""
        self.blocks.all.store.clear()


class _Store:
    """Features of rows, kept while they fit in a number of bytes."""

    def __init__(self, budget: int) -> None:
        self._budget, self._lock = budget, threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget all arrays."""
        self._arrays: dict[tuple[int, int, int], NDArray[Any]] = {}
        self._makers: dict[int, Any] = {}
        self._room = self._budget

    def get(self, maker: Any, part: Part) -> NDArray[Any]:
        """Return ``maker(part.X)``, made now or kept from an earlier pass."""
        key = (id(maker), int(part.index[0]), part.index.size)
        if key in self._arrays:
            return self._arrays[key]
        made = maker(part.X)
        with self._lock:
            if made.nbytes <= self._room:
                self._makers[id(maker)] = maker  # while it lives, its id is not reused
                self._arrays[key] = made
                self._room -= made.nbytes
        return np.asarray(made)
