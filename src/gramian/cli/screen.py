"""Output of a command: text or JSON, and progress on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SHOWN = 12
"""Lines of a live leaderboard."""


class Screen:
    """Where a command prints."""

    def __init__(self, json: bool) -> None:
        self.json = json

    @property
    def live(self) -> bool:
        """Whether somebody watches: progress is for them, and never for a pipe."""
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
    def leaderboard(self) -> Iterator[Callable[[Any], None] | None]:
        """Show a leaderboard as it grows, where somebody watches."""
        if not self.live:
            yield None
            return
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True), transient=True, refresh_per_second=4) as live:
            yield lambda board: live.update(_table(board))

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


def _table(board: Any) -> Any:
    from rich.table import Table

    table = Table(title=f"{len(board)} trials, {board.metric}: less is better", title_justify="left")
    for name in ("", "trial", "score", "rows", "fit", "predict", "certificate", "status"):
        table.add_column(name, no_wrap=True)
    for place in range(min(len(board), SHOWN)):
        table.add_row(*board.cells(place))
    return table
