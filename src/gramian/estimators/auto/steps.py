"""Steps of a search as somebody who watches sees them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gramian.estimators.auto.leaderboard import Leaderboard, Trial
from gramian.numerals import written


@dataclass(frozen=True)
class Step:
    """What a search is doing, and how far it is."""

    board: Leaderboard  # All trials so far
    doing: str  # What is being tried now; empty between trials
    seconds: float  # Since it began
    limit: float = math.inf  # Seconds that it may take

    @property
    def metric(self) -> str:
        """What the scores are."""
        return self.board.metric_name

    @property
    def best(self) -> str:
        """The best so far, in words; empty before there is one."""
        return "" if self.board.best is None else f"{_score(self.board.best)} {self.board.best.name}"

    @property
    def against(self) -> str:
        """The best so far beside the best baseline, in words; empty where one of them is missing."""
        best, base = self.board.best, self.board.baseline
        if best is None or base is None:
            return ""
        return f"{base.name} {_score(base)}{', still ahead' if self.board.gain(best, base) < 0.0 else ''}"

    def __str__(self) -> str:
        limit = "" if math.isinf(self.limit) else f" of {self.limit:.0f}"
        parts = [f"{self.seconds:.0f}{limit} s", f"trying {self.doing}" if self.doing else f"{len(self.board)} trials"]
        parts += [f"best {self.metric} {self.best}"] if self.best else []
        return "; ".join([*parts, self.against] if self.against else parts)


def _score(trial: Trial) -> str:
    return written(trial.score, trial.spread)


Observer = Callable[[Step], None]
"""Called with the step before and after every trial."""
