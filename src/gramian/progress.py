"""A progress bar on a terminal, silence elsewhere; and the clock behind ``max_time``.

Solvers never print: they call ``tick`` with what they have done. The caller decides, by ``verbose``,
whether a person sees it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

Tick = Callable[..., None]


class _Compiling:
    """Time that no clock counts: while a function is loaded or compiled, in whichever thread."""

    def __init__(self) -> None:
        self.depth, self.since, self.total = 0, 0.0, 0.0
        self.lock = threading.Lock()

    def __enter__(self) -> None:
        with self.lock:
            self.since = self.since if self.depth else time.perf_counter()
            self.depth += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.depth -= 1
            self.total += 0.0 if self.depth else time.perf_counter() - self.since

    def now(self) -> float:
        """Seconds on a clock that stands still meanwhile."""
        with self.lock:
            return (self.since if self.depth else time.perf_counter()) - self.total


compiling = _Compiling()


_SHOWN: list[Callable[[str], None]] = []
"""How to write on the bars that are shown now."""


def announce(text: str) -> None:
    """Say on every bar that is shown what takes so long."""
    for write in _SHOWN:
        write(text)


def silent(done: float, **figures: float) -> None:
    """Report to nobody."""


@dataclass(frozen=True)
class Clock:
    """Seconds since the start, and whether ``max_time`` has passed; the time that compiling takes is not counted."""

    max_time: float | None = None  # Seconds allowed; ``None`` for no limit
    start: float = field(default_factory=compiling.now)  # When it was started
    stop: threading.Event | None = None  # Once set, the time is up: how threads learn that somebody pressed Ctrl-C
    pace: float = 1.0  # Seconds that one second counts as: above 1, a slower machine

    @property
    def seconds(self) -> float:
        """Seconds since the clock was made."""
        return self.pace * (compiling.now() - self.start)

    @property
    def left(self) -> float:
        """Seconds until the time is up, as a watch shows them."""
        return math.inf if self.max_time is None else (self.max_time - self.seconds) / self.pace

    def share(self, fraction: float) -> Clock:
        """Return a clock that ends when a part of the time left is used up."""
        if self.max_time is None:
            return self
        now = self.seconds
        return replace(self, max_time=now + fraction * (self.max_time - now))

    @property
    def expired(self) -> bool:
        """Whether the time allowed is used up."""
        if self.stop is not None and self.stop.is_set():
            return True
        return self.max_time is not None and self.seconds > self.max_time


@dataclass(frozen=True)
class Trace:
    """What one piece of work reported."""

    label: str  # What was being done
    # Seconds since the recording began, work done, and figures
    ticks: list[tuple[float, float, dict[str, float]]] = field(default_factory=list)


Listener = Callable[[Trace], None]
_recording: ContextVar[tuple[Clock, list[Trace], Listener | None] | None] = ContextVar("_recording", default=None)


@contextmanager
def recorded(tell: Listener | None = None) -> Iterator[list[Trace]]:
    """Record what the solvers called in the block report, whether or not a bar is shown.

    A solver may measure more when somebody listens: a support vector machine its duality gap, round by round. ``tell``
    is called with the trace after each report; what it raises ends the solve.
    """
    traces: list[Trace] = []
    token = _recording.set((Clock(), traces, tell))
    try:
        yield traces
    finally:
        _recording.reset(token)


def _also_recorded(label: str, tick: Tick) -> Tick:
    """The same tick, kept in a trace where a recording is under way."""
    recording = _recording.get()
    if recording is None:
        return tick
    clock, traces, tell = recording
    trace = Trace(label)
    traces.append(trace)

    def keep(done: float, **figures: float) -> None:
        trace.ticks.append((clock.seconds, float(done), dict(figures)))
        if tell is not None:
            tell(trace)
        tick(done, **figures)

    return keep


@contextmanager
def progress(verbose: int | bool, label: str, total: float | None = None) -> Iterator[Tick]:
    """Show a bar for the length of the block where ``verbose`` asks for one."""
    if not verbose:
        yield _also_recorded(label, silent)
        return
    # rich costs 50 ms to import, and most fits are silent.
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, transient=False) as bar:
        task = bar.add_task(label, total=total, figures="")

        def tick(done: float, **figures: float) -> None:
            shown = "  ".join(f"{name} {value:.3g}" for name, value in figures.items())
            bar.update(task, completed=done, figures=shown)

        def write(text: str) -> None:
            bar.update(task, figures=text)

        _SHOWN.append(write)
        try:
            yield _also_recorded(label, tick)
        finally:
            _SHOWN.remove(write)
