"""Execution of passes over blocks by threads; ``cluster`` has that by the workers of a Dask cluster.

A task is a function of shared values and of the rows of one block. Blocks travel as loaders, never as data; what comes
back is small, or is added up in a binary tree whose shape depends on the number of blocks alone, so that an answer does
not depend on who computed what.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from gramian.data.parts import Loader, Need, Part, Sums, checked, tree_total
from gramian.resources import one_blas_thread, worker_count

__all__ = ["Executor", "Item", "Task", "Threads", "active_client", "executor_for", "work"]

Task = Callable[[Any, Iterator[Part]], Any]
Done = Callable[["Item"], None]
AHEAD = 2
"""Blocks begun for each thread before the first of them is asked for."""


@dataclass(frozen=True)
class Item:
    """One block to work on."""

    loader: Loader  # Where its rows come from
    first: int  # The number of its first row
    rows: int  # How many rows

    def parts(self, need: Need) -> Iterator[Part]:
        """Read the rows and check them."""
        return checked(self.loader, self.first, need)


class Executor(ABC):
    """Whoever works on the blocks of a pass, so many ``workers`` at once."""

    @abstractmethod
    def map(self, task: Task, shared: Any, items: Sequence[Item], need: Need, done: Done) -> Iterator[Any]:
        """Yield what a task returns for each block, in order."""

    @abstractmethod
    def cancel(self) -> None:
        """Drop the work that nobody waits for any longer."""

    @property
    @abstractmethod
    def workers(self) -> int:
        """Blocks that are worked on at once."""

    def broadcast(self, value: Any) -> Any:
        """Make a value known to all workers."""
        return value

    def reduce(self, task: Task, shared: Any, items: Sequence[Item], need: Need, done: Done) -> Sums | None:
        """Return the sum, in a binary tree, of what a task returns for each block."""
        return tree_total(self.map(task, shared, items, need, done))


def work(task: Task, shared: Any, item: Item, need: Need, stop: threading.Event | None = None) -> Any:
    """Do a task on one block, with BLAS held to one thread."""

    def parts() -> Iterator[Part]:
        for part in item.parts(need):
            if stop is not None and stop.is_set():
                raise InterruptedError("the pass was cancelled.")
            yield part

    with one_blas_thread():
        return task(shared, parts())


class Threads(Executor):
    """Threads of this process, BLAS held to one thread each."""

    workers = 1

    def __init__(self, n_jobs: int | None = None) -> None:
        self.workers = worker_count(n_jobs)
        self._stop = threading.Event()

    def map(self, task: Task, shared: Any, items: Sequence[Item], need: Need, done: Done) -> Iterator[Any]:
        """Yield what a task returns for each block, in order."""
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
        """Have the threads stop before their next rows."""
        self._stop.set()


def _taken(waiting: deque[tuple[Item, Future[Any]]], done: Done) -> Any:
    item, future = waiting.popleft()
    value = future.result()
    done(item)
    return value


def active_client() -> Any:
    """Return the process's active Dask client, or ``None``; Dask is not imported for that."""
    distributed = sys.modules.get("distributed")
    try:
        return None if distributed is None else distributed.default_client()
    except ValueError:
        return None


def executor_for(client: Any, n_jobs: int | None) -> Executor:
    """Return who is to work: a given client, the active one, or threads."""
    client = active_client() if client is None else client
    if client is None or client is False:
        return Threads(n_jobs)
    from gramian.data.cluster import Cluster

    return Cluster(client)
