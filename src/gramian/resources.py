"""Memory budgets, numbers of threads, and limits on the threads of BLAS and OpenMP."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from numbers import Integral, Real
from typing import Any, TypeVar

import joblib
import numpy as np
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

Made = TypeVar("Made")
SHARE = 0.5
"""Fraction of the available memory that ``memory=None`` may use."""
LITTLE = 100_000
"""Rows times clusters of k-means that are not worth a second thread."""
_UNITS = {"": 1, "B": 1} | {
    f"{p}{i}B": (1024 if i else 1000) ** (e + 1) for e, p in enumerate("KMGT") for i in ("", "I")
}


def random_of(seed: Any) -> Any:
    """Return a RandomState for a ``random_state``; for a Generator, one seeded by a draw from it."""
    from sklearn.utils import check_random_state

    if isinstance(seed, np.random.Generator):
        return np.random.RandomState(int(seed.integers(2**32)))
    return check_random_state(seed)


def repeatable(seed: Any) -> Any:
    """Return the ``random_state`` of a choice that the answer hardly depends on: with None, the same in every fit."""
    return 0 if seed is None else seed


def memory_budget(memory: int | float | str | None) -> int:
    """Return a memory budget in bytes."""
    if memory is None:
        return int(SHARE * available_memory())
    count: Any = memory
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", memory)
        count = float(match[1]) * _UNITS.get(match[2].upper(), 0) if match else 0.0
    if isinstance(count, bool) or not isinstance(count, Real) or not 1 <= float(count) < float("inf"):
        raise ValueError(f"memory must be a positive number of bytes or text such as '500MB' or '2GB', got {memory!r}.")
    return int(float(count))


def available_memory() -> int:
    """Return the bytes still available to this process, on the machine and in its control group."""
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
    """Read a small system file, faster than by ``open``."""
    handle = os.open(path, os.O_RDONLY)
    try:
        return os.read(handle, 4096).decode()
    finally:
        os.close(handle)


def readable(count: float) -> str:
    """Return a number of bytes as text, such as "1.5 GB"."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def worker_count(n_jobs: int | None) -> int:
    """Return the number of threads to use."""
    if n_jobs is None:
        # Inside a joblib worker, such as that of a grid search on all cores, the cores are in use.
        return 1 if get_active_backend()[0].nesting_level else _cores(os.environ.get("LOKY_MAX_CPU_COUNT"))
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a whole number other than zero, or None for all cores; got {n_jobs!r}.")
    count = int(n_jobs)
    return count if count > 0 else max(_cores(os.environ.get("LOKY_MAX_CPU_COUNT")) + 1 + count, 1)


@cache
def _cores(limit: str | None) -> int:
    """Number of cores that this process may use, cached because joblib is slow; joblib itself reads the limit."""
    return int(joblib.cpu_count())


def spans(n: int, size: int) -> list[slice]:
    """Return consecutive slices of ``size`` rows that cover n rows."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


class _OneBlasThread(AbstractContextManager[None]):
    """Limit BLAS to one thread while any caller is inside; the last to leave restores the number of threads.

    The setting is global to the process, so if overlapping callers each saved and restored it, it could stay at one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                # Set directly, because threadpoolctl's own limit takes as long as a small fit.
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
    """Limit BLAS to one thread within a ``with`` block.

    This speeds up sequences of small products: after each, the threads of a BLAS pool spin for a while, and take the
    cores from the threads that work next.
    """
    return _ONE_BLAS_THREAD


@cache
def _pools() -> ThreadpoolController:
    return ThreadpoolController()


@cache
def _blas_libraries() -> list[Any]:
    return [lib for lib in _pools().lib_controllers if lib.user_api == "blas"]


def blas_threads(n_jobs: int | None) -> AbstractContextManager[Any]:
    """Limit BLAS and LAPACK to ``n_jobs`` threads within a ``with`` block."""
    return nullcontext() if n_jobs is None else _pools().limit(limits=worker_count(n_jobs), user_api="blas")


@cache
def _openmp_libraries() -> list[Any]:
    return [lib for lib in _pools().lib_controllers if lib.user_api == "openmp"]


@contextmanager
def openmp_threads(cells: int, n_jobs: int | None) -> Iterator[None]:
    """Limit OpenMP, which scikit-learn's k-means uses, within a ``with`` block: to one thread for few rows × clusters.

    Its threads meet after every step: beside other processes they then wait a hundred times as long as they work.
    """
    before = [(lib, lib.num_threads) for lib in _openmp_libraries()]
    for lib, threads in before:  # set directly, because threadpoolctl's own limit takes as long as a small fit
        lib.set_num_threads(1 if cells <= LITTLE else min(worker_count(n_jobs), threads))
    try:
        yield
    finally:
        for lib, threads in before:
            lib.set_num_threads(threads)


def run(
    task: Callable[[Any], Any], items: Iterable[Any], workers: int, stop: threading.Event | None = None
) -> list[Any]:
    """Apply a task to every item, on threads, with BLAS limited to one thread each.

    The first error, or Ctrl-C, cancels tasks that have not started.
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


def answering(work: Callable[[], Made]) -> Made:
    """Return ``work()``, done on a thread of its own, so that Ctrl-C is answered while LAPACK or a GPU works."""
    found: Future[Made] = Future()

    def thread(to: Future[Made]) -> None:
        try:
            to.set_result(work())
        except BaseException as error:
            to.set_exception(error)

    threading.Thread(target=thread, args=(found,), daemon=True).start()
    try:
        while not wait([found], 0.1).done:  # a signal just before an endless wait would not end it
            pass
        return found.result()
    finally:
        del found  # which knows the error, whose traceback knows this frame


_POOLS: dict[int, ThreadPoolExecutor] = {}
_LOCAL = threading.local()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOLS.clear)  # threads do not survive a fork


def _mark() -> None:
    _LOCAL.inside = True


@contextmanager
def _threads(workers: int) -> Iterator[ThreadPoolExecutor]:
    """A pool of threads kept for later calls, because starting threads takes as long as a small product."""
    if getattr(_LOCAL, "inside", False):  # called from a thread of the pool: waiting for the pool could deadlock
        with ThreadPoolExecutor(workers) as own:
            yield own
        return
    if workers not in _POOLS:
        _POOLS.setdefault(workers, ThreadPoolExecutor(workers, "gramian", initializer=_mark))
    yield _POOLS[workers]
