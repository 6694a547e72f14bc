"""Time two callables fairly, compare what they return, print the ratio.

A case is a generator: it builds its data, and yields one ``Comparison`` for every line of the table. The
harness calls ours and the peer once each, to warm up and to compare what they return, then takes turns (ours,
peer, ours, peer, ...) so that a slow minute of the machine falls on both.
"""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("gramian", "numpy", "scipy", "scikit-learn", "numba")

Case = Callable[[], Iterator["Comparison"]]
CASES: dict[str, Case] = {}


def case(name: str) -> Callable[[Case], Case]:
    """Register a generator of comparisons under a name for the command line."""

    def register(generator: Case) -> Case:
        if name in CASES:
            raise ValueError(f"there is already a case named {name!r}; choose another name.")
        CASES[name] = generator
        return generator

    return register


def max_difference(ours: Any, peer: Any) -> str:
    """Return the largest absolute difference, the usual measure of quality."""
    return f"{np.max(np.abs(np.asarray(ours) - np.asarray(peer))):.1e} abs"


def relative_difference(ours: Any, peer: Any) -> str:
    """Return the largest absolute difference over the largest value of the peer."""
    peer = np.asarray(peer)
    return f"{np.max(np.abs(np.asarray(ours) - peer)) / np.max(np.abs(peer)):.1e} rel"


@dataclass(frozen=True)
class Comparison:
    """One line of the table: two callables that do the same job."""

    name: str  # The job and its size
    ours: Callable[[], Any]
    peer: Callable[[], Any]
    against: str  # The peer's name
    quality: Callable[[Any, Any], str] = max_difference  # Of both results: how well they agree, or which is better
    data: str = "synthetic"  # Where the data came from; ``Split.source`` for a set that was loaded
    repeats: int = 5  # Timed calls of each, after the warm-up
    once: bool = False  # Whether each is called just once, timed, without a warm-up: for jobs of minutes
    snippets: tuple[str, str] | None = None  # Source of both jobs, run in processes whose peak memory is reported
    calls: int = 1  # Calls in a row that one timing is the mean of; above 1, the ratio is of the fastest timings
    clock: Callable[[], float] = time.perf_counter  # ``time.process_time`` on a busy machine; the name should say so
    share: float = 1.0  # The share of the job that the peer is given; its times are divided by it


@dataclass(frozen=True)
class Timing:
    """Seconds of the timed calls, and the peak memory of one call in its own process."""

    seconds: tuple[float, ...]
    peak: int | None = None

    @property
    def best(self) -> float:
        """The fastest call."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The middle call."""
        return median(self.seconds)


@dataclass(frozen=True)
class Row:
    """What came of a comparison."""

    case: str
    name: str
    against: str
    data: str
    ours: Timing
    peer: Timing
    quality: str
    fastest: bool = False  # Whether the ratio is of the fastest calls, not of the middle ones

    @property
    def ratio(self) -> float:
        """Peer's time over ours: above 1 where we are faster."""
        return self.peer.best / self.ours.best if self.fastest else self.peer.median / self.ours.median

    def cells(self, separator: str = " / ") -> list[str]:
        """Return the row as it is printed, in the order of ``COLUMNS``."""
        job = f"{self.case}: {self.name}, against {self.against}"
        times = [separator.join(map(_seconds, (t.best, t.median))) for t in (self.ours, self.peer)]
        peaks = separator.join(map(_megabytes, (self.ours.peak, self.peer.peak)))
        return [job, self.data, *times, f"{self.ratio:.2f}×", self.quality, peaks]

    def to_dict(self) -> dict[str, Any]:
        """Return everything measured, for JSON."""
        return {**asdict(self), "ratio": self.ratio}


COLUMNS = ("job", "data", "ours min / median", "peer min / median", "ratio", "quality", "peak ours / peer")


def measure(case_name: str, comparison: Comparison, repeats: int | None = None) -> Row:
    """Run a comparison: warm up and compare, then time the two in turns."""
    clock = comparison.clock
    (first, a), (second, b) = _timed(comparison.ours, clock), _timed(comparison.peer, clock)
    quality = comparison.quality(a, b)
    del a, b
    ours, peer = ([first], [second]) if comparison.once else ([], [])
    for _ in range(0 if comparison.once else repeats or comparison.repeats):
        ours.append(_timed(comparison.ours, clock, comparison.calls)[0])
        peer.append(_timed(comparison.peer, clock, comparison.calls)[0])
    peaks = [peak_memory(snippet) for snippet in comparison.snippets] if comparison.snippets else [None, None]
    return Row(
        case=case_name,
        name=comparison.name,
        against=comparison.against,
        data=comparison.data,
        ours=Timing(tuple(ours), peaks[0]),
        peer=Timing(tuple(seconds / comparison.share for seconds in peer), peaks[1]),
        quality=quality,
        fastest=comparison.calls > 1,
    )


def peak_memory(snippet: str) -> int:
    """Run Python source in a fresh process and return the most memory that process held."""
    source = f"{snippet}\nfrom benchmarks.harness import own_peak\nprint(own_peak())"
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the snippet failed:\n{snippet}\n{done.stderr}")
    return int(done.stdout.split()[-1])


def own_peak() -> int:
    """Return the most memory that this process has held so far.

    Returns
    -------
    int
        Bytes.
    """
    # ru_maxrss survives exec: a child of a large process starts with its parent's peak. VmHWM does not.
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def machine() -> dict[str, Any]:
    """Return what a reader needs to judge the numbers.

    Returns
    -------
    dict
        Processor, cores, system, versions, date.
    """
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
        "date": datetime.now(UTC).date().isoformat(),
    }


def describe(facts: dict[str, Any]) -> str:
    """Return ``machine()`` as one line."""
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    return f"{facts['date']} · {facts['cpu']}, {facts['cores']} cores · Python {facts['python']}, {versions}"


def table(rows: list[Row]) -> Table:
    """Return the rows as a table for the terminal."""
    grid = Table(*(heading.replace(" / ", "\n") for heading in COLUMNS), show_lines=True)
    for row in rows:
        grid.add_row(*row.cells(separator="\n"), style="" if row.ratio >= 1 else "red")
    return grid


def markdown(rows: list[Row]) -> str:
    """Return the rows as a table for RESULTS.md."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def run(names: list[str], console: Console, repeats: int | None = None) -> list[Row]:
    """Run the cases named and say, on the console, what is under way."""
    rows = []
    for name in names:
        for comparison in CASES[name]():
            with console.status(f"{name}: {comparison.name}"):
                rows.append(measure(name, comparison, repeats))
            console.print(f"[dim]{name}: {comparison.name}: {rows[-1].ratio:.2f}×[/dim]")
    return rows


def _timed(job: Callable[[], Any], clock: Callable[[], float], calls: int = 1) -> tuple[float, Any]:
    """Seconds for one call, the mean of some in a row, and what it returned; garbage is collected off the clock."""
    gc.collect()
    start = clock()
    for _ in range(calls):
        result = job()
    return (clock() - start) / calls, result


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def _megabytes(value: int | None) -> str:
    return "–" if value is None else f"{value / 1e6:.0f} MB"


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
