"""The leaderboard of a search, as a table and a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gramian.estimators.auto.leaderboard import COLUMNS
from gramian.reports.facts import METRICS, brief, expression

__all__ = ["Board", "board_of"]

SHOWN = 40
"""Lines of the table."""
KERNEL = 70
"""Characters of a kernel's expression, which can hold a number for every column."""
DRAWN = 15
"""Trials in the picture."""


@dataclass(frozen=True)
class Board:
    """What a search tried."""

    metric: str  # What the scores are
    less_is_better: bool  # Or more
    columns: tuple[str, ...]  # Heads of the table
    lines: list[tuple[str, ...]]  # Its cells, the best trial first
    taken: int  # Which line of the table was taken
    drawn: list[tuple[str, float, float]]  # Name, score and spread of the trials in the picture
    chosen: int  # Which of them was taken
    count: int  # Of all trials
    baseline: float | None = None  # The score to beat

    @property
    def more(self) -> int:
        """Trials that are not in the table."""
        return self.count - len(self.lines)


def board_of(model: Any) -> Board | None:
    """Return the leaderboard of an automatic estimator, or of a search of scikit-learn."""
    if hasattr(model, "leaderboard_"):
        return _of_trials(model.leaderboard_, model.best_trial_)
    return _of_search(model) if hasattr(model, "cv_results_") else None


def _of_trials(board: Any, best: Any) -> Board:
    metric, columns = METRICS[board.metric], (*(name.capitalize() for name in COLUMNS), "Kernel")
    lines = [(*board.cells(place), expression(trial.kernel, KERNEL)) for place, trial in enumerate(board[:SHOWN])]
    ranked = [(t.name, t.score, t.spread) for t in board if t.ok and t.rows == best.rows and not t.baseline]
    drawn = sorted(ranked, key=lambda trial: trial[1])[:DRAWN]
    # By name: a trial that was loaded is not equal to itself where its certificate holds NaN.
    taken = [t.name for t in board].index(best.name)
    chosen = next((i for i, trial in enumerate(drawn) if trial[0] == best.name), 0)
    baseline = None if board.baseline is None else board.baseline.score
    metric = metric[0].upper() + metric[1:]
    return Board(metric, True, columns, lines, taken, drawn, chosen, len(board), baseline)


def _of_search(search: Any) -> Board:
    results, columns = search.cv_results_, ("", "Settings", "Score", "Fit", "Predict")
    means, spreads = (np.asarray(results[f"{what}_test_score"], dtype=np.float64) for what in ("mean", "std"))
    fit, predict = results["mean_fit_time"], results["mean_score_time"]
    order = np.argsort(-np.nan_to_num(means, nan=-np.inf), kind="stable")
    names = [", ".join(f"{k}={brief(v)}" for k, v in settings.items()) for settings in results["params"]]
    lines: list[tuple[str, ...]] = [
        (str(p + 1), names[i], f"{means[i]:.4g} ± {spreads[i]:.2g}", f"{fit[i]:.2g} s", f"{predict[i]:.2g} s")
        for p, i in enumerate(order[:SHOWN])
    ]
    drawn = [(names[i], means[i], spreads[i]) for i in order if np.isfinite(means[i])][:DRAWN]
    taken = list(order).index(search.best_index_)
    return Board("Score", False, columns, lines, taken, drawn, taken if taken < len(drawn) else 0, len(order))
