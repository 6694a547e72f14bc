"""The leaderboard of a search, as a table and a picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gramian.reports import drawings
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
    chosen: int  # Which trial of the picture was taken
    names: list[str]  # Of the trials in the picture
    scores: list[float]  # Theirs
    spreads: list[float]  # Theirs
    taken: int = 0  # Which line of the table was taken
    baseline: float | None = None  # The score to beat
    more: int = 0  # Trials that are not in the table

    def draw(self) -> Any:
        """Draw the best trials, with the name of the metric."""
        figure = drawings.bars(self.names, self.scores, self.spreads, self.chosen, self.baseline)
        figure.axes[0].set_xlabel(self.metric)
        return figure


def board_of(model: Any) -> Board | None:
    """Return the leaderboard of an automatic estimator, or of a search of scikit-learn."""
    if hasattr(model, "leaderboard_"):
        return _of_trials(model)
    if hasattr(model, "cv_results_"):
        return _of_search(model)
    return None


def _of_trials(model: Any) -> Board:
    trials, best, metric = list(model.leaderboard_), model.best_trial_, model.leaderboard_.metric
    lines: list[tuple[str, ...]] = []
    for place, t in enumerate(trials[:SHOWN]):
        proof = "" if t.certificate is None else ("converged" if t.certificate.converged else "not converged")
        status = "baseline" if t.baseline and math.isfinite(t.score) else str(t.status)
        times = (f"{t.fit_seconds:.2g} s", f"{t.predict_seconds:.2g} s")
        score = f"{t.score:.4g} ± {t.spread:.2g}" if math.isfinite(t.score) else "–"
        shown = (score, f"{t.rows:,}", *times, proof, status, expression(str(t.kernel), KERNEL))
        lines.append((str(place + 1), str(t.name), *shown))
    ranked = [t for t in trials if math.isfinite(t.score) and t.rows == best.rows and not t.baseline]
    drawn = sorted(ranked, key=lambda t: t.score)[:DRAWN]
    base = model.leaderboard_.baseline
    shown_metric = METRICS.get(metric, metric)
    return Board(
        shown_metric[:1].upper() + shown_metric[1:],
        metric in METRICS,
        ("", "Trial", "Score", "Rows", "Fit", "Predict", "Certificate", "Status", "Kernel"),
        lines,
        next((i for i, t in enumerate(drawn) if t.name == best.name), 0),
        [str(t.name) for t in drawn],
        [float(t.score) for t in drawn],
        [float(t.spread) for t in drawn],
        next((i for i, t in enumerate(trials) if t.name == best.name), 0),
        None if base is None else float(base.score),
        max(len(trials) - SHOWN, 0),
    )


def _of_search(search: Any) -> Board:
    results = search.cv_results_
    means, spreads = (np.asarray(results[f"{what}_test_score"], dtype=np.float64) for what in ("mean", "std"))
    order = np.argsort(-np.nan_to_num(means, nan=-np.inf), kind="stable")
    names = [", ".join(f"{k}={brief(v)}" for k, v in results["params"][i].items()) for i in order]
    fit, predict = results["mean_fit_time"], results["mean_score_time"]
    lines: list[tuple[str, ...]] = [
        (str(p + 1), names[p], f"{means[i]:.4g} ± {spreads[i]:.2g}", f"{fit[i]:.2g} s", f"{predict[i]:.2g} s")
        for p, i in enumerate(order[:SHOWN])
    ]
    shown = [i for i in order if math.isfinite(means[i])][:DRAWN]
    return Board(
        "Score",
        False,
        ("", "Settings", "Score", "Fit", "Predict"),
        lines,
        shown.index(search.best_index_) if search.best_index_ in shown else 0,
        names[: len(shown)],
        [float(means[i]) for i in shown],
        [float(spreads[i]) for i in shown],
        list(order).index(search.best_index_),
        None,
        max(len(order) - SHOWN, 0),
    )
