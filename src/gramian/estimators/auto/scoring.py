"""Scores that people choose, each as a loss to minimise."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import average_precision_score, get_scorer, get_scorer_names, mean_pinball_loss, roc_auc_score

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Weights = Array | None

SAME = {
    "neg_log_loss": "log_loss",
    "neg_root_mean_squared_error": "rmse",
    "neg_mean_absolute_error": "mae",
}
"""Scorers of scikit-learn that have a name here."""
_PINBALL = re.compile(r"pinball(?:-(0?\.\d+))?")


@dataclass(frozen=True)
class Scoring:
    """What predictions of held-out rows are judged by."""

    name: str  # On the leaderboard
    loss: Callable[..., float]  # Of classes (codes, logs, labels, weights), of numbers (y, predictions, weights)
    labels: bool = False  # Whether it judges labels, so that it matters from which probability on there is one
    level: float | None = None  # Of the quantile that it asks for
    mean: bool = False  # Whether the mean of the targets, and not their median, is what minimises it
    top: float | None = None  # For scores of which more is better: the score is this minus the loss

    def written(self, loss: float) -> float:
        """Return the score as people write it."""
        return loss if self.top is None else self.top - loss


# ---- classes ------------------------------------------------------------------------------------------------------


def error(codes: Rows, logs: Array, labels: Rows, weights: Weights) -> float:
    """Return the share of wrong labels."""
    return float(np.average(labels != codes, weights=weights))


def log_loss(codes: Rows, logs: Array, weights: Weights = None) -> float:
    """Return the mean of minus the log-probability of the true class: codes (m,), logs (m, c)."""
    return float(np.average(-logs[np.arange(codes.size), codes], weights=weights))


def _balanced(codes: Rows, logs: Array, labels: Rows, weights: Weights) -> float:
    """One less the recall of each class, on average."""
    w = np.ones(codes.size) if weights is None else weights
    total, right = np.bincount(codes, w), np.bincount(codes, w * (labels == codes))
    return float(1.0 - np.mean(right[total > 0] / total[total > 0]))


def _f1(codes: Rows, logs: Array, labels: Rows, weights: Weights) -> float:
    """One less F1 of the second class of two, or of each that is there of several, on average."""
    w = np.ones(codes.size) if weights is None else weights
    both = np.bincount(codes, w, logs.shape[1]) + np.bincount(labels, w, logs.shape[1])
    right = 2.0 * np.bincount(codes, w * (labels == codes), logs.shape[1])
    which = np.arange(logs.shape[1]) == 1 if logs.shape[1] == 2 else both > 0
    return float(1.0 - np.mean(right[which] / np.maximum(both[which], np.finfo(np.float64).tiny)))


def _one_from_the_rest(score: Callable[..., Any]) -> Callable[..., float]:
    """One less a score of the second class of two, or of each of several, on average; nan where rows are of one."""

    def loss(codes: Rows, logs: Array, labels: Rows, weights: Weights) -> float:
        which = [1] if logs.shape[1] == 2 else range(logs.shape[1])
        both = [c for c in which if 0 < np.sum(codes == c) < codes.size]
        found = [score(codes == c, logs[:, c], sample_weight=weights) for c in both]
        return 1.0 - float(np.mean(found)) if found else float("nan")

    return loss


CLASSES = {
    "log_loss": Scoring("log_loss", lambda codes, logs, labels, weights: log_loss(codes, logs, weights)),
    "error": Scoring("error", error),
    "accuracy": Scoring("accuracy", error, top=1.0),
    "roc_auc": Scoring("roc_auc", _one_from_the_rest(roc_auc_score), top=1.0),
    "average_precision": Scoring("average_precision", _one_from_the_rest(average_precision_score), top=1.0),
    "balanced_accuracy": Scoring("balanced_accuracy", _balanced, labels=True, top=1.0),
    "f1": Scoring("f1", _f1, labels=True, top=1.0),
}

# ---- numbers ------------------------------------------------------------------------------------------------------


def rmse(y: Array, predictions: Array, weights: Weights) -> float:
    """Return the root mean squared error."""
    return float(np.sqrt(np.average((predictions - y) ** 2, weights=weights)))


def mae(y: Array, predictions: Array, weights: Weights) -> float:
    """Return the mean absolute error."""
    return float(np.average(np.abs(predictions - y), weights=weights))


def unexplained(y: Array, predictions: Array, weights: Weights) -> float:
    """Return one less R², the share of the variance that is left; nan where there is none."""
    variation = float(np.average((y - np.average(y, weights=weights)) ** 2, weights=weights))
    return rmse(y, predictions, weights) ** 2 / variation if variation > 0 else float("nan")


NUMBERS = {
    "rmse": Scoring("rmse", rmse, mean=True),
    "mae": Scoring("mae", mae),
    "r2": Scoring("r2", unexplained, mean=True, top=1.0),
}


def pinball(level: float) -> Scoring:
    """Return the loss that the quantile of some level minimises."""

    def loss(y: Array, predictions: Array, weights: Weights) -> float:
        return float(mean_pinball_loss(y, predictions, sample_weight=weights, alpha=level))

    return Scoring(f"pinball-{level:g}", loss, level=level)


# ---- by name, or a scorer -----------------------------------------------------------------------------------------


def scoring_of(scoring: Any, *, classes: bool, labels: NDArray[Any] | None = None) -> Scoring:
    """Return a scoring by its name here, or a scorer of scikit-learn, or a callable; by default the first."""
    ours, others = (CLASSES, NUMBERS) if classes else (NUMBERS, CLASSES)
    known = SAME.get(scoring, scoring) if isinstance(scoring, str) else scoring
    if known is None:
        return next(iter(ours.values()))
    if isinstance(known, str):
        if known in ours:
            return ours[known]
        if not classes and (found := _PINBALL.fullmatch(known)):
            return pinball(float(found[1] or 0.5))
        if known in others or known.startswith("pinball") or known not in get_scorer_names():
            names = [*ours, *([] if classes else ["pinball-0.9 (any level)"])]
            raise ValueError(
                f"scoring must be one of {', '.join(names)}, the name of a scorer of scikit-learn, or a callable, got "
                f"{scoring!r}."
            )
    # Scorers by name know no names of classes but 0 and 1; of two classes the second is the positive one, as in f1.
    return _of_scorer(known, classes, None if isinstance(known, str) else labels)


def _of_scorer(scoring: Any, classes: bool, names: NDArray[Any] | None) -> Scoring:
    """A scoring by what scikit-learn would call a scorer: asked for the predictions of rows by their numbers."""
    scorer = get_scorer(scoring)
    sign = getattr(scorer, "_sign", 1)
    name = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "the score")
    top = 1.0 if isinstance(scoring, str) and sign > 0 else 0.0

    def asked(held: _Held, truth: NDArray[Any], weights: Weights) -> float:
        how = {} if weights is None else {"sample_weight": weights}
        return top - float(scorer(held, np.arange(truth.shape[0])[:, None], truth, **how))

    def of_classes(codes: Rows, logs: Array, labels: Rows, weights: Weights) -> float:
        own = np.arange(logs.shape[1]) if names is None else names
        return asked(_HeldClasses(own, labels, logs), own[codes], weights)

    def of_numbers(y: Array, predictions: Array, weights: Weights) -> float:
        return asked(_HeldNumbers(predictions), y, weights)

    judges_labels = classes and getattr(scorer, "_response_method", None) == "predict"
    loss, shown = (of_classes if classes else of_numbers), name.removeprefix("neg_") if sign < 0 else name
    return Scoring(shown, loss, labels=judges_labels, top=None if sign < 0 else top)


class _Held(BaseEstimator):
    """Predictions of held-out rows, for scorers to ask for."""


class _HeldNumbers(RegressorMixin, _Held):
    def __init__(self, predictions: Any = None) -> None:
        self.predictions = predictions

    def predict(self, X: Any) -> Any:
        return self.predictions[X[:, 0]]


class _HeldClasses(ClassifierMixin, _Held):
    def __init__(self, classes: Any = None, labels: Any = None, logs: Any = None) -> None:
        self.classes_, self.labels, self.logs = classes, labels, logs

    def predict(self, X: Any) -> Any:
        return self.classes_[self.labels[X[:, 0]]]

    def predict_proba(self, X: Any) -> Any:
        return np.exp(self.logs[X[:, 0]])

    def predict_log_proba(self, X: Any) -> Any:
        return self.logs[X[:, 0]]

    def decision_function(self, X: Any) -> Any:
        logs = self.logs[X[:, 0]]
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs
