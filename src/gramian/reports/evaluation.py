"""Evaluation of a model on rows that it has not seen, as far as possible."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _num_samples

from gramian.plots.fitted import sampled, unnamed
from gramian.reports.subject import Subject

__all__ = ["Evaluation", "evaluate"]

ROWS = 1000
"""Rows that are used at most where the model has to be fitted again."""
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Predictions beside the truth."""

    truth: NDArray[Any]  # (m,): Targets and predictions
    predicted: NDArray[Any]  # (m,): Targets and predictions
    deviation: NDArray[np.float64] | None  # (m,): Predicted deviations, of a Gaussian process
    folds: NDArray[np.intp]  # (m,): Which part each row belongs to; scores are taken part by part
    honest: bool  # Whether the model that predicted a row had not seen it
    how: str  # In words, where the predictions come from
    seconds_per_row: float  # Of a prediction

    def scores(self, classes: bool) -> NDArray[np.float64]:
        """Return the score of each part."""
        score = accuracy_score if classes else r2_score
        parts = [self.folds == fold for fold in np.unique(self.folds)]
        return np.array([score(self.truth[part], self.predicted[part]) for part in parts])

    def figures(self, classes: bool) -> dict[str, float]:
        """Return further measures of all predictions together."""
        measures = {} if classes else {"RMSE": root_mean_squared_error, "MAE": mean_absolute_error}
        return {name: float(measure(self.truth, self.predicted)) for name, measure in measures.items()}


def evaluate(subject: Subject) -> Evaluation | None:
    """Predict every row given by a model that has not seen it, as far as possible.

    Rows that are new to the model are predicted by it. Where it learned from them, or that cannot be known, clones with
    its settings are fitted to four fifths of at most 1,000 rows and predict the last fifth.
    """
    if subject.y is None or subject.task not in ("classification", "regression") or _num_samples(subject.y) < 2:
        return None
    truth = np.asarray(subject.y)
    parts = _parts(truth, subject.task == "classification")
    # To fit an automatic estimator again would be to search again.
    if subject.seen is False or parts.max() == 0 or subject.automatic:
        return _as_it_is(subject, truth, parts)
    try:
        return _by_folds(subject, truth)
    except (TypeError, ValueError, MemoryError, TimeoutError) as error:
        found = _as_it_is(subject, truth, parts)
        return replace(found, how=f"{found.how}; it could not be fitted again ({error})")


def _parts(truth: NDArray[Any], classes: bool) -> NDArray[np.intp]:
    """A part for each row; one for all where there are too few rows to part."""
    labels = classes and truth.ndim == 1
    fewest = np.unique(truth, return_counts=True)[1].min() if labels else len(truth)
    count = min(FOLDS, int(fewest), len(truth) // 2)
    folds = np.zeros(len(truth), dtype=np.intp)
    if count > 1:
        splitter = (StratifiedKFold if labels else KFold)(count, shuffle=True, random_state=0)
        for fold, (_, test) in enumerate(splitter.split(np.zeros(len(truth)), truth)):
            folds[test] = fold
    return folds


def _as_it_is(subject: Subject, truth: NDArray[Any], parts: NDArray[np.intp]) -> Evaluation:
    start = time.perf_counter()
    predicted, deviation = _predictions(subject.model, subject.X, truth)
    pace = (time.perf_counter() - start) / len(truth)
    honest = subject.seen is False
    how = f"on {len(truth):,} rows {'new to the model' if honest else 'that the model may have learned from'}"
    return Evaluation(truth, predicted, deviation, parts, honest, how, pace)


def _by_folds(subject: Subject, truth: NDArray[Any]) -> Evaluation:
    X, truth = _safe_split(subject.model, subject.X, truth, sampled(len(truth), ROWS))
    folds = _parts(truth, subject.task == "classification")
    if folds.max() == 0:
        raise ValueError("too few rows of some class")
    model = _with_settings_as_learned(subject.model)
    predicted = np.empty(truth.shape, dtype=truth.dtype if subject.task == "classification" else np.float64)
    deviation, pace = np.full(truth.shape, np.nan), 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (ConvergenceWarning, UserWarning))
        for fold in np.unique(folds):
            train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            fitted = clone(model).fit(*_safe_split(model, X, truth, train))
            start = time.perf_counter()
            predicted[test], spread = _predictions(fitted, *_safe_split(model, X, truth, test, train))
            pace += (time.perf_counter() - start) / len(truth)
            deviation[test] = np.nan if spread is None else spread
    how = f"{folds.max() + 1}-fold cross-validation on {len(truth):,} rows"
    if len(truth) < _num_samples(subject.y):
        how += f" drawn from {_num_samples(subject.y):,}"
    if model is not subject.model:
        how += ", settings as they were learned"
    return Evaluation(truth, predicted, deviation if np.isfinite(deviation).all() else None, folds, True, how, pace)


def _predictions(model: Any, X: Any, truth: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
    with unnamed():
        if hasattr(model, "sample_y") and truth.ndim == 1 and not get_tags(model).input_tags.pairwise:
            mean, deviation = model.predict(X, return_std=True)
            # The noise that was given as alpha is not in the model's own deviation, but it is in an observation.
            noise = model.alpha if isinstance(model.alpha, int | float) else 0.0
            return mean, np.hypot(deviation, np.sqrt(noise) * float(np.mean(model._y_train_std)))
        return np.asarray(model.predict(X)), None


def _with_settings_as_learned(model: Any) -> Any:
    """A search need not be repeated in every fold, and a Gaussian process need not learn its kernel again."""
    model = getattr(model, "best_estimator_", model)
    given, kernel = model.get_params(deep=False), getattr(model, "kernel_", None)
    if "optimizer" not in given or kernel is None:
        return model
    kernel = kernel[0] if isinstance(kernel, tuple | list) else kernel
    learned = {"kernel": kernel, "optimizer": None, "noise": None}  # the noise is part of kernel_
    return clone(model).set_params(**{name: value for name, value in learned.items() if name in given})
