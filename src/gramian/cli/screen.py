"""Output of a command: text or JSON, and progress on a terminal or in lines."""

from __future__ import annotations

import json
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gramian.numerals import shortened

SHOWN = 8
"""Trials listed in the live view."""
SCORE = 20
"""Width of a score with its spread, in characters."""
WIDE = 80
"""Width of the live view, in characters."""


class Screen:
    """Where a command prints."""

    def __init__(self, json: bool) -> None:
        self.json = json

    @property
    def live(self) -> bool:
        """Whether standard error is a terminal, which can show progress."""
        return sys.stderr.isatty() and not self.json

    def say(self, text: str = "", style: str | None = None) -> None:
        """Print text, unless JSON was asked for."""
        if self.json:
            return
        if style is None or not sys.stdout.isatty():
            print(text)
            return
        from rich.console import Console

        Console(highlight=False, markup=False, soft_wrap=True).print(text, style=style)

    def result(self, values: dict[str, Any] | None) -> None:
        """Print the result as JSON, if that was asked for."""
        if self.json and values is not None:
            finite = json.loads(json.dumps(values), parse_constant=lambda _: None)  # JSON has no NaN
            print(json.dumps(finite, indent=2))

    def notes(self, caught: list[Any]) -> None:
        """Print warnings to standard error, a line for each."""
        for message in dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught):
            print("gramian: note:", message, file=sys.stderr)

    @contextmanager
    def search(self) -> Iterator[Callable[[Any], None] | None]:
        """Show a search: live on a terminal, otherwise a log line for each trial."""
        if self.json:
            yield None
            return
        if not self.live:
            with _logged():
                yield None
            return
        from rich.console import Console
        from rich.live import Live

        view = View()
        console = Console(stderr=True)
        console.width = min(console.width, WIDE)
        with Live(get_renderable=view.shown, console=console, transient=True, refresh_per_second=4):
            yield view.see

    @contextmanager
    def counter(self, label: str) -> Iterator[Callable[[int], None]]:
        """Show how many rows are done, on a terminal."""
        if not self.live:
            yield lambda rows: None
            return
        from rich.console import Console
        from rich.status import Status

        with Status(label, console=Console(stderr=True)) as status:
            yield lambda rows: status.update(f"{label}: {rows:,} rows")


@contextmanager
def _logged() -> Iterator[None]:
    """Write log lines of the library to standard error."""
    log, lines = logging.getLogger("gramian"), logging.StreamHandler(sys.stderr)
    lines.setFormatter(logging.Formatter("gramian: %(message)s"))
    level, onward = log.level, log.propagate
    log.addHandler(lines)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(lines)
        log.setLevel(level)
        log.propagate = onward


class View:
    """The live view of a search: time left, current trial, best trial beside a linear model."""

    def __init__(self) -> None:
        self.step: Any = None
        self.since = 0.0

    def see(self, step: Any) -> None:
        """Remember the latest step."""
        self.step, self.since = step, time.monotonic()

    def shown(self) -> Any:
        """Return the text to show now."""
        from rich.text import Text

        return Text("\n".join(self.lines()), no_wrap=True, overflow="ellipsis")

    def lines(self) -> list[str]:
        """Return the lines: facts first, then the best trials."""
        if self.step is None:
            return ["reading the table ..."]
        step, board = self.step, self.step.board
        best = f"{step.metric} {step.best}" if step.best else "nothing yet"
        facts = [("time", self._time()), ("trying", step.doing or "…"), ("best", best), ("against", step.against)]
        lines = [f"{name:8}{shortened(text, WIDE - 8)}" for name, text in facts if text]
        for place in range(min(len(board), SHOWN)):
            _, name, score, rows, *_ = board.cells(place)
            lines.append(f"{shortened(score, SCORE):{SCORE}}  {rows:>9} {shortened(name, WIDE - SCORE - 12)}")
        return lines

    def _time(self) -> str:
        passed = self.step.seconds + time.monotonic() - self.since
        if math.isinf(self.step.limit):
            return f"{_clock(passed)} so far"
        return f"{_clock(max(self.step.limit - passed, 0.0))} left of {_clock(self.step.limit)}"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
