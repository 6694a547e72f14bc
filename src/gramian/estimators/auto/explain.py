"""An automatic model in words: what was tried, what won, how columns are used, what the certificate says."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

from gramian.certificates import Certificate
from gramian.estimators.auto.encoders import Dropped, NumberColumn
from gramian.estimators.auto.leaderboard import Leaderboard, Trial
from gramian.numerals import counted, listed, written

KINDS = {
    "gp": ("Gaussian process", "Gaussian processes"),
    "ridge": ("kernel ridge", "kernel ridges"),
    "svm": ("support vector machine", "support vector machines"),
    "machine": ("kernel machine", "kernel machines"),
    "average": ("average of the best", "averages of the best"),
    "linear": ("linear model", "linear models"),
}
"""Machines, one and several."""
SCALES = {
    "standard": "columns by mean and deviation",
    "normal": "columns by rank",
    "robust": "columns by median and quartiles",
    "common": "all columns by one deviation",
    "forest": "columns by mean and deviation, and the predictions of a forest",
}
RULES = {"mean": "Always predicting the mean", "majority": "Predicting the shares of the classes alone"}
"""Baselines that look at no column."""
EPS = sys.float_info.epsilon
"""Nothing is known more exactly than this."""
PROOFS = {
    "duality gap": "its objective is within {} of the best there is, relatively",
    "residual": "its equations hold to {}, relatively",
    "evidence": "the slope of its evidence is {}",
    "stationary": "its slope is {}, though a better optimum may be elsewhere",
    "eigen-residual": "its eigenvectors hold to {}, relatively",
}
"""Kinds of certificates."""
COLUMNS = {
    "number": ("number", "numbers"),
    "boolean": ("yes or no", "yes or no"),
    "date": ("date", "dates"),
    "Category": ("category", "categories"),
    "LevelMeans": ("category of many levels", "categories of many levels"),
    "Text": ("text", "texts"),
}
"""Kinds of columns, one and several."""
NAMED = 6
"""Columns of a kind that are named."""


def explained(model: Any, *, columns: bool = True) -> list[str]:
    """Return the whole story, a paragraph for each part; that of the columns can be left out."""
    board, best = model.leaderboard_, model.best_trial_
    used = _columns(model.columns_.columns) if columns else ""
    last = f"Fitted to all rows: {model.refit_}. {_certified(model.certificate_)}"
    parts = (_tried(board), _won(board, best), used, _target(model), last)
    return [part for part in parts if part]


def verdict(board: Leaderboard, best: Trial) -> str:
    """Return how the winner stands beside a linear model."""
    linear = next((t for t in board if t.name == "linear" and t.ok), None)
    if linear is None or linear.rows != best.rows:
        return "No linear model was judged on the same rows."
    mine, its = written(best.score, best.spread), written(linear.score, linear.spread)
    if best.name == linear.name:
        beside = [t for t in board if t.ok and not t.baseline and t.rows == best.rows]
        if not beside:
            return "A linear model is all that was to be tried."
        other = max(beside, key=lambda t: board.gain(t, linear))
        return (
            f"A linear model does as well as any kernel: {mine} against {written(other.score, other.spread)} of "
            f"“{other.name}”. It is the simpler one, and was taken."
        )
    gain = board.gain(best, linear)
    if gain <= 0.0:
        return f"A linear model does as well: {its} against {mine}. A kernel does not help here."
    if gain < max(best.spread, linear.spread, 0.0) / 2.0:
        return f"A linear model does nearly as well, {its}; the difference may be chance."
    as_percentage = not board.greater_is_better and best.score > 0.0
    by = f"{gain / linear.score:.0%}" if as_percentage else written(gain, digits=2)
    return f"That is {by} {board.better} than a linear model, which has {its}."


def _tried(board: Leaderboard) -> str:
    """What was tried, how long that took, and how it was judged."""
    counts = Counter(t.machine for t in board if t.machine in KINDS)
    kinds = _listed(counted(counts[machine], *KINDS[machine]) for machine in KINDS if counts[machine])
    failed = sum(not t.ok for t in board)
    tried = counted(counts.total(), "model was", "models were")
    text = f"{tried} tried in {written(board.seconds, digits=2)} seconds: {kinds}."
    if failed:
        text += f" {counted(failed, 'of them failed', 'of them failed')}; the leaderboard says why."
    return f"{text} They were judged by {board.metric_name} on rows that they had not seen; {board.better} is better."


def _won(board: Leaderboard, best: Trial) -> str:
    """What won, of what it is made, and by how much."""
    score = f"{board.metric_name} {written(best.score, best.spread)} on rows held out of {best.rows:,}"
    lines = [f"The winner is {_described(best)}: {score}.", verdict(board, best)]
    for rule, predicting in RULES.items():
        simplest = next((t for t in board if t.name == rule and t.ok and t.rows == best.rows), None)
        if simplest is not None:
            lines.append(f"{predicting} gives {written(simplest.score, simplest.spread)}.")
    return " ".join(lines)


def _described(trial: Trial) -> str:
    """A trial in words."""
    if trial.machine == "average":
        weights = trial.settings["weights"]
        total = sum(weights.values())
        parts = [f"“{name}” ({weight / total:.0%})" for name, weight in weights.items()]
        return f"an average of {len(parts)} machines, {_listed(parts)}"
    if trial.machine == "linear":
        forest = trial.settings.get("scaling") == "forest"
        return f"a linear model{' of what a forest predicts' if forest else ', a weighted sum of the columns'}"
    scaling = SCALES.get(trial.settings.get("scaling", ""), "")
    what = KINDS[trial.machine][0]
    return f"a {what} (“{trial.name}”{f', {scaling}' if scaling else ''})"


def _columns(columns: Iterable[Any]) -> str:
    """How columns are used, by kind, and which are left out, and why."""
    columns = list(columns)
    used = [c for c in columns if not isinstance(c, Dropped)]
    parts = []
    for kind, (one, many) in COLUMNS.items():
        own = [c for c in used if getattr(c, "kind", type(c).__name__) == kind]
        parts += [f"{counted(len(own), one, many)} ({_named(own)})"] if own else []
    text = f"It uses {len(used)} of {counted(len(columns), 'column', 'columns')}: {_listed(parts)}."
    gaps = [c for c in used if isinstance(c, NumberColumn) and c.gaps]
    if gaps:
        text += f" Gaps in {_named(gaps)} are filled with the median and marked."
    left = [f"{c.name} ({c.reason})" for c in columns if isinstance(c, Dropped)]
    if left:
        text += f" Left out: {listed(left, NAMED)}."
    return text


def _target(model: Any) -> str:
    """What is special about how targets are predicted."""
    lines = []
    if getattr(model, "target_scale_", "linear") == "log":
        lines.append("The logarithm of the target is learned, so that predictions and intervals are positive.")
    if (threshold := getattr(model, "threshold_", None)) not in (None, 0.5):
        lines.append(f"“{model.classes_[1]}” is predicted if its probability is above {written(threshold)}.")
    return " ".join(lines)


def _certified(certificate: Certificate) -> str:
    """What a certificate says."""
    figure = f"{max(certificate.figure, EPS):.1e}" if math.isfinite(certificate.figure) else "unknown"
    proof = PROOFS[certificate.kind].format(figure)
    if certificate.converged:
        return f"The certificate says that the fit is as exact as was asked for: {proof}."
    return f"The certificate says that the fit stopped short: {proof}. {certificate.message}"


def _named(columns: Iterable[Any]) -> str:
    return listed((c.name for c in columns), NAMED)


def _listed(parts: Iterable[str]) -> str:
    """Parts with commas between them, and “and” before the last."""
    *first, last = list(parts) or ["none"]
    return f"{', '.join(first)} and {last}" if first else last
