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

SHOWN = 8
"""Trials of a live view."""
SCORE = 20
"""Characters of a score and its spread."""
WIDE = 80
"""Columns of a live view, at most."""


class Screen:
    """Where a command prints."""

    def __init__(self, json: bool) -> None:
        self.json = json

    @property
    def live(self) -> bool:
        """Whether somebody watches: what moves is for them, and never for a pipe."""
        return sys.stderr.isatty() and not self.json

    def say(self, text: str = "", style: str | None = None) -> None:
        """Print some text, unless JSON is wanted."""
        if self.json:
            return
        if style is None or not sys.stdout.isatty():
            print(text)
            return
        from rich.console import Console

        Console(highlight=False, markup=False, soft_wrap=True).print(text, style=style)

    def result(self, values: dict[str, Any] | None) -> None:
        """Print the result as JSON, where that is wanted."""
        if self.json and values is not None:
            finite = json.loads(json.dumps(values), parse_constant=lambda _: None)  # JSON has no NaN
            print(json.dumps(finite, indent=2))

    def notes(self, caught: list[Any]) -> None:
        """Print what was warned of, one line for each, to the standard error."""
        for message in dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught):
            print("gramian: note:", message, file=sys.stderr)

    @contextmanager
    def search(self) -> Iterator[Callable[[Any], None] | None]:
        """Show a search: a view that moves where somebody watches, else a line of the log for each trial."""
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
        """Show how many rows are done, where somebody watches."""
        if not self.live:
            yield lambda rows: None
            return
        from rich.console import Console
        from rich.status import Status

        with Status(label, console=Console(stderr=True)) as status:
            yield lambda rows: status.update(f"{label}: {rows:,} rows")


@contextmanager
def _logged() -> Iterator[None]:
    """Write what the library logs to the standard error, a line each."""
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
    """A search as it goes on: the time left, what is being tried, the best beside a linear model."""

    def __init__(self) -> None:
        self.step: Any = None
        self.since = 0.0

    def see(self, step: Any) -> None:
        """Take note of a step."""
        self.step, self.since = step, time.monotonic()

    def shown(self) -> Any:
        """Return what to show now, in lines that fit."""
        from rich.text import Text

        return Text("\n".join(self.lines()), no_wrap=True, overflow="ellipsis")

    def lines(self) -> list[str]:
        """Return the facts, and below them the best trials."""
        if self.step is None:
            return ["reading the table"]
        step, board = self.step, self.step.board
        best = f"{step.metric} {step.best}" if step.best else "nothing yet"
        facts = [("time", self._time()), ("trying", step.doing or "…"), ("best", best), ("against", step.against)]
        lines = [f"{name:8}{_cut(text, WIDE - 8)}" for name, text in facts if text]
        cells = [(_cut(score, SCORE), rows, name) for _, name, score, rows, *_ in map(board.cells, range(len(board)))]
        left = WIDE - SCORE - 12
        return [*lines, *(f"{score:{SCORE}}  {rows:>9} {_cut(name, left)}" for score, rows, name in cells[:SHOWN])]

    def _time(self) -> str:
        passed = self.step.seconds + time.monotonic() - self.since
        if math.isinf(self.step.limit):
            return f"{_clock(passed)} so far"
        return f"{_clock(max(self.step.limit - passed, 0.0))} left of {_clock(self.step.limit)}"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _cut(text: str, wide: int) -> str:
    return text if len(text) <= wide else f"{text[: wide - 1]}…"
