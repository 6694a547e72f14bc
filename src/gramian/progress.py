"""Progress bars, and the clock for ``max_time``.

Solvers never print: they call ``tick`` with the work done so far. The caller decides, by ``verbose``,
whether it is shown.
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
    """Time spent loading or compiling functions, in any thread, which clocks do not count."""

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
        """Seconds on a clock that stops while functions are compiled."""
        with self.lock:
            return (self.since if self.depth else time.perf_counter()) - self.total


compiling = _Compiling()


_SHOWN: list[Callable[[str], None]] = []
"""Functions that write on the bars now shown."""


def announce(text: str) -> None:
    """Write a text on every bar now shown, to say what takes time."""
    for write in _SHOWN:
        write(text)


def silent(done: float, **figures: float) -> None:
    """A ``tick`` that ignores reports."""


@dataclass(frozen=True)
class Clock:
    """Seconds since the start, and whether ``max_time`` has passed; by default, compilation is not counted."""

    max_time: float | None = None  # Seconds allowed; ``None`` for no limit
    start: float = field(default_factory=compiling.now)  # Time of the start
    stop: threading.Event | None = None  # If set, the clock has expired; tells threads about Ctrl-C
    pace: float = 1.0  # Seconds counted per second; above 1 simulates a slower machine
    now: Callable[[], float] = compiling.now  # Seconds on the clock that is read

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self.pace * (self.now() - self.start)

    @property
    def left(self) -> float:
        """Seconds left, in real time."""
        return math.inf if self.max_time is None else (self.max_time - self.seconds) / self.pace

    def share(self, fraction: float) -> Clock:
        """Return a clock that expires after a fraction of the time left."""
        if self.max_time is None:
            return self
        now = self.seconds
        return replace(self, max_time=now + fraction * (self.max_time - now))

    @property
    def expired(self) -> bool:
        """Whether ``max_time`` has passed or ``stop`` is set."""
        if self.stop is not None and self.stop.is_set():
            return True
        return self.max_time is not None and self.seconds > self.max_time

    def ended(self, steps: int, max_iter: int) -> str:
        """Return which limit ends a solver after some steps: the time, the steps, or neither."""
        if self.expired:
            return "interrupted" if self.max_time is None else f"max_time={self.max_time:g} s passed"
        return f"max_iter={max_iter} was reached" if steps >= max_iter else ""


@dataclass(frozen=True)
class Trace:
    """The reports of one solve."""

    label: str  # Name of the solve
    # Seconds since the start of the recording, work done, and figures
    ticks: list[tuple[float, float, dict[str, float]]] = field(default_factory=list)


Listener = Callable[[Trace], None]
_recording: ContextVar[tuple[Clock, list[Trace], Listener | None] | None] = ContextVar("_recording", default=None)


@contextmanager
def recorded(tell: Listener | None = None) -> Iterator[list[Trace]]:
    """Record the reports of solvers called in the block, whether or not a bar is shown.

    While recording, a solver may compute more figures, such as the duality gap of a support vector machine in every
    round. ``tell`` is called with the trace after each report; an exception from it ends the solve.
    """
    traces: list[Trace] = []
    token = _recording.set((Clock(), traces, tell))
    try:
        yield traces
    finally:
        _recording.reset(token)


def _also_recorded(label: str, tick: Tick) -> Tick:
    """The same tick, also stored in a trace if a recording is active."""
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
    """Show a progress bar within the block if ``verbose``."""
    if not verbose:
        yield _also_recorded(label, silent)
        return
    # rich takes 50 ms to import, and most fits are silent.
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
