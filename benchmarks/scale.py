"""What docs/scale.md is checked against: ``python -m benchmarks.scale``.

CPU seconds of fits of three sizes beside the model's operations, and the load of a scheduler with many tasks.
"""

from __future__ import annotations

import time
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.folder import Path, make
from gramian import KernelRidge, Nystroem
from gramian.data import Blocks, connect
from gramian.data.passes import Sums
from gramian.kernels import RBF
from gramian.solvers.in_features.least_squares import VALUE

SIZES = ((100_000, 250), (100_000, 500), (100_000, 1000), (200_000, 500), (400_000, 500))
TASKS = 10_000


def fits() -> None:
    """Print CPU seconds and operations a second of a ridge over files."""
    print(f"{'rows':>9} {'landmarks':>9} {'CPU s':>7} {'µs a row':>9} {'model, Gop':>10} {'Gop/s':>6}")
    with TemporaryDirectory() as place:
        for n, m in SIZES:
            folder = make(Path(place) / str(n), n)
            features = Nystroem(n_components=m, selection="uniform")
            model = KernelRidge(1e-2, kernel=RBF(3.0), approximation=features, random_state=0, n_jobs=1)
            start = time.process_time()
            model.fit(Blocks(folder, target="y", client=False))
            seconds, operations = time.process_time() - start, n * m * (2.0 * m + VALUE)
            cost = f"{seconds:>7.1f} {1e6 * seconds / n:>9.1f}"
            print(f"{n:>9,} {m:>9,} {cost} {operations / 1e9:>10.0f} {operations / seconds / 1e9:>6.1f}")


def loaded(seed: int) -> np.ndarray:
    """Return a row or two, so that a task costs next to nothing."""
    return np.full((2, 3), float(seed))


def added(part: Any) -> Sums:
    """A statistic of the size of the moments of 100 features."""
    return Sums.of(second=np.full((100, 100), part.X.sum()))


def tasks() -> None:
    """Print what tasks cost the scheduler, which here is a thread of this process."""
    with connect(workers=2) as client:
        source = Blocks([partial(loaded, i) for i in range(TASKS)], client=client)
        start, before = time.perf_counter(), time.process_time()
        count = len(source.items)
        print(f"{count:,} blocks counted: {time.perf_counter() - start:.1f} s")
        with source.passes() as passes:
            start, before = time.perf_counter(), time.process_time()
            passes.sum(added)
        wall, used = time.perf_counter() - start, time.process_time() - before
        print(f"{TASKS:,} blocks summed in a tree: {wall:.1f} s, {1e3 * wall / TASKS:.2f} ms a block;", end=" ")
        print(f"{1e3 * used / TASKS:.2f} ms of CPU a block in client and scheduler")


if __name__ == "__main__":
    fits()
    tasks()
