"""Bytes, threads and BLAS limits: who may use how much of the machine."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from numbers import Integral, Real
from typing import Any

import joblib
import numpy as np
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

SHARE = 0.5
"""The part of the available memory that ``memory=None`` may use."""
_UNITS = {"": 1, "B": 1} | {
    f"{p}{i}B": (1024 if i else 1000) ** (e + 1) for e, p in enumerate("KMGT") for i in ("", "I")
}


def random_of(seed: Any) -> Any:
    """Return the source of random numbers for a ``random_state``; of a Generator, seeded by a draw from it."""
    from sklearn.utils import check_random_state

    if isinstance(seed, np.random.Generator):
        return np.random.RandomState(int(seed.integers(2**32)))
    return check_random_state(seed)


def memory_budget(memory: int | float | str | None) -> int:
    """Return a memory budget in bytes."""
    if memory is None:
        return int(SHARE * available_memory())
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", memory)
        if not match or match[2].upper() not in _UNITS:
            raise ValueError(f"memory must be a number of bytes or text such as '500MB' or '2GB', got {memory!r}.")
        memory = float(match[1]) * _UNITS[match[2].upper()]
    if isinstance(memory, bool) or not isinstance(memory, Real) or not 1 <= float(memory) < float("inf"):
        raise ValueError(f"memory must be a positive number of bytes or text such as '500MB', got {memory!r}.")
    return int(float(memory))


def available_memory() -> int:
    """Return the bytes that this process can still have, by the machine and by its control group."""
    limits = []
    with suppress(OSError, ValueError):
        limits.append(1024 * int(_read("/proc/meminfo").partition("MemAvailable:")[2].split(maxsplit=1)[0]))
        ceiling = _read("/sys/fs/cgroup/memory.max").strip()
        if ceiling != "max":
            limits.append(max(int(ceiling) - int(_read("/sys/fs/cgroup/memory.current")), 1))
    with suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(limits, default=4 * 1000**3)


def _read(path: str) -> str:
    """A small file of the system, without the layers that make ``open`` slow."""
    handle = os.open(path, os.O_RDONLY)
    try:
        return os.read(handle, 4096).decode()
    finally:
        os.close(handle)


def readable(count: float) -> str:
    """Return a number of bytes as people write it."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def worker_count(n_jobs: int | None) -> int:
    """Return the number of threads to use."""
    if n_jobs is None:
        # Inside another's worker, as of a grid search on all cores, the cores are taken.
        return 1 if get_active_backend()[0].nesting_level else _cores(os.environ.get("LOKY_MAX_CPU_COUNT"))
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a whole number other than zero, or None for all cores; got {n_jobs!r}.")
    count = int(n_jobs)
    return count if count > 0 else max(_cores(os.environ.get("LOKY_MAX_CPU_COUNT")) + 1 + count, 1)


@cache
def _cores(limit: str | None) -> int:
    """The cores that this process may use; to ask takes longer than a small product. The limit is joblib's own."""
    return int(joblib.cpu_count())


def spans(n: int, size: int) -> list[slice]:
    """Cut n rows into slices."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


class _OneBlasThread(AbstractContextManager[None]):
    """BLAS held to one thread while anybody is inside; the last one out gives its threads back.

    The setting belongs to the process, so two callers who each saved and restored it would leave it at one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                # By hand, because threadpoolctl's own limit takes as long as a small fit.
                self._before = [(lib, lib.num_threads) for lib in _blas_libraries()]
                for lib, threads in self._before:
                    if threads != 1:
                        lib.set_num_threads(1)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for lib, threads in self._before:
                    if threads != 1:
                        lib.set_num_threads(threads)


_ONE_BLAS_THREAD = _OneBlasThread()


def one_blas_thread() -> AbstractContextManager[None]:
    """Hold BLAS to one thread for the length of a block.

    Many small products in a row want this: after each, a BLAS pool spins for a while, and takes the cores from the
    threads that do the next piece of work.
    """
    return _ONE_BLAS_THREAD


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@cache
def _blas_libraries() -> list[Any]:
    return [lib for lib in _blas().lib_controllers if lib.user_api == "blas"]


def blas_threads(n_jobs: int | None) -> AbstractContextManager[Any]:
    """Hold BLAS and LAPACK to as many threads as the user allows, for the length of the block."""
    return nullcontext() if n_jobs is None else _blas().limit(limits=worker_count(n_jobs), user_api="blas")


def run(
    task: Callable[[Any], Any], items: Iterable[Any], workers: int, stop: threading.Event | None = None
) -> list[Any]:
    """Apply a task to every item, on threads, with BLAS held to one thread each.

    The first error, or Ctrl-C, cancels what has not begun.
    """
    items = list(items)
    if workers == 1 or len(items) <= 1:
        with one_blas_thread():
            return [task(item) for item in items]
    with one_blas_thread(), _threads(workers) as pool:
        futures = [pool.submit(task, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            if stop is not None:
                stop.set()
            for future in futures:
                future.cancel()
            wait(futures)
            raise


_POOLS: dict[int, ThreadPoolExecutor] = {}
_LOCAL = threading.local()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOLS.clear)  # threads do not live on in a child


def _mark() -> None:
    _LOCAL.inside = True


@contextmanager
def _threads(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that stay for the next call: to start two takes as long as many a product that they are for."""
    if getattr(_LOCAL, "inside", False):  # one of them, which must not wait for the others
        with ThreadPoolExecutor(workers) as own:
            yield own
        return
    if workers not in _POOLS:
        _POOLS.setdefault(workers, ThreadPoolExecutor(workers, "gramian", initializer=_mark))
    yield _POOLS[workers]
