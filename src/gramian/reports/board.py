"""The leaderboard of a search in a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gramian.numerals import written
from gramian.reports.facts import brief, expression

SHOWN = 40
"""Trials in the table at most."""
DRAWN = 12
"""Trials in the picture at most."""


class Bar(NamedTuple):
    """One trial in the picture."""

    name: str
    score: float
    spread: float
    baseline: bool = False


@dataclass(frozen=True)
class Board:
    """The trials of a search."""

    metric: str  # What the scores are
    better: str  # "lower" or "higher"
    columns: tuple[str, ...]  # Column headings after the name
    lines: list[tuple[str, str, tuple[str, ...]]]  # Name, kernel and other cells, the best trial first
    drawn: list[Bar]  # Trials in the picture, including a linear model
    chosen: str  # Name of the winner
    more: int  # Trials left out of the table


def board_of(model: Any) -> Board | None:
    """Return the leaderboard of an automatic estimator or a scikit-learn search; None for other models."""
    if hasattr(model, "leaderboard_"):
        return _of_trials(model.leaderboard_, model.best_trial_)
    return _of_search(model) if hasattr(model, "cv_results_") else None


def _of_trials(board: Any, best: Any) -> Board:
    name = board.metric_name
    columns = ("Score", "Rows", "Fit", "Predict", "Status")
    cells = [board.cells(place) for place in range(len(board))][:SHOWN]  # ends with proof and outcome
    lines = [(t.name, expression(t.kernel), (*c[2:6], c[-1])) for t, c in zip(board, cells, strict=False)]
    ranked = [t for t in board if t.ok and t.rows == best.rows and not t.baseline]
    ranked = sorted(ranked, key=lambda t: -board.gain(t, best))[:DRAWN]
    beside = [] if board.baseline is None else [board.baseline]
    drawn = [Bar(t.name, t.score, t.spread, t.baseline) for t in [*ranked, *beside]]
    return Board(name[0].upper() + name[1:], board.better, columns, lines, drawn, best.name, len(board) - len(lines))


def _of_search(search: Any) -> Board:
    results, columns = search.cv_results_, ("Score", "Fit", "Predict")
    means, spreads = (np.asarray(results[f"{what}_test_score"], dtype=np.float64) for what in ("mean", "std"))
    fit, predict = results["mean_fit_time"], results["mean_score_time"]
    order = np.argsort(-np.nan_to_num(means, nan=-np.inf), kind="stable")
    names = [", ".join(f"{k}={brief(v)}" for k, v in settings.items()) for settings in results["params"]]
    lines: list[tuple[str, str, tuple[str, ...]]] = [
        (names[i], "", (written(means[i], spreads[i]), f"{fit[i]:.2g} s", f"{predict[i]:.2g} s")) for i in order[:SHOWN]
    ]
    drawn = [Bar(names[i], means[i], spreads[i]) for i in order if np.isfinite(means[i])][:DRAWN]
    return Board("Score", "higher", columns, lines, drawn, names[search.best_index_], len(order) - len(lines))
