"""Predictions for rows that the model has not seen, as far as possible, and the importance of inputs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing, column_or_1d, get_tags
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _num_samples

from gramian.estimators.auto.forest import Forest
from gramian.estimators.auto.row_hashes import OneFold, find_rows
from gramian.inspection import Sensitivity, sensitivity
from gramian.inspection.fitted import forest_of, sampled, unnamed
from gramian.reports.subject import Subject, used_columns

ROWS = 1000
"""Rows used at most if the model has to be refitted."""
FOLDS = 5
SHUFFLED = 500
"""Rows on which columns are shuffled, at most."""
SHUFFLES = 150
"""Total number of shuffles, about: few columns are shuffled five times each, many columns once."""
MOST_INPUTS = 500
"""Importance is measured for at most this many inputs."""
Held = tuple[Any, Any, Any]
"""A fitted model, rows that it has not seen, and their targets."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Predictions beside the truth."""

    truth: NDArray[Any]  # (m,): Targets
    predicted: NDArray[Any]  # (m,): Predictions
    deviation: NDArray[np.float64] | None  # (m,): Predicted standard deviations of a Gaussian process
    folds: NDArray[np.intp]  # (m,): The part of each row; scores are computed part by part
    honest: bool  # Whether the model that predicted a row had not seen it
    how: str  # Where the predictions come from, in words
    rows: NDArray[np.intp]  # (m,): Positions among the rows given
    held: Sequence[Held] = ()  # Models with the rows that they predicted
    sureness: NDArray[np.float64] | None = None  # (m,): Score of the second of two classes; or (m, c): probabilities
    probability: bool = False  # Whether sureness is a probability
    threshold: float = 0.5  # The second of two classes is predicted above this score
    linear: NDArray[Any] | None = None  # (m,): Predictions of a linear model fitted to the same rows
    classes: NDArray[Any] = field(default_factory=lambda: np.zeros(0))  # Labels, in the order of the model

    @property
    def binary(self) -> bool:
        """Whether there are two classes, both among the rows, and something to rank rows by."""
        return self.sureness is not None and self.sureness.ndim == 1 and len(np.unique(self.truth)) == 2

    @property
    def positive(self) -> NDArray[np.bool_]:
        """Which rows have the second of two classes: → (m,)."""
        return np.asarray(self.truth == self.classes[1])

    @property
    def of_rarer(self) -> Evaluation:
        """The same evaluation with the rarer of two classes as the second."""
        if self.sureness is None or self.positive.mean() <= 0.5:
            return self
        sureness, threshold = -self.sureness, -self.threshold
        if self.probability:
            sureness, threshold = 1.0 - self.sureness, 1.0 - self.threshold
        return replace(self, classes=self.classes[::-1], sureness=sureness, threshold=threshold)

    @property
    def parts(self) -> list[NDArray[np.intp]]:
        """Rows of each part."""
        return [np.flatnonzero(self.folds == fold) for fold in np.unique(self.folds)]


def evaluate(subject: Subject) -> Evaluation | None:
    """Predict every row given by a model that has not seen it, as far as possible.

    Rows that are new to the model are predicted by it. An automatic model keeps what its search predicted for held-out
    rows. Where another one learned from the rows, or that cannot be known, clones with its settings are fitted to four
    fifths of at most 1,000 rows and predict the last fifth.
    """
    if subject.y is None or subject.task not in ("classification", "regression") or _num_samples(subject.y) < 2:
        return None
    classes = subject.task == "classification"
    truth = column_or_1d(subject.y) if classes else np.asarray(subject.y)
    parts = _parts(truth, classes)
    # Refitting an automatic estimator would repeat its search.
    if subject.automatic and subject.seen is True and (found := _as_held_out(subject, truth)) is not None:
        return found
    if subject.seen is False or parts.max() == 0 or subject.automatic:
        return _as_it_is(subject, truth, parts)
    try:
        return _by_folds(subject, truth)
    except (TypeError, ValueError, MemoryError, TimeoutError) as error:
        found = _as_it_is(subject, truth, parts)
        return replace(found, how=f"{found.how}; it could not be fitted again ({error})")


def _parts(truth: NDArray[Any], classes: bool) -> NDArray[np.intp]:
    """The part of each row; all zero if there are too few rows to split."""
    fewest = np.unique(truth, return_counts=True)[1].min() if classes else len(truth)
    count = min(FOLDS, int(fewest), len(truth) // 2)
    folds = np.zeros(len(truth), dtype=np.intp)
    if count > 1:
        splitter = (StratifiedKFold if classes else KFold)(count, shuffle=True, random_state=0)
        for fold, (_, test) in enumerate(splitter.split(np.zeros(len(truth)), truth)):
            folds[test] = fold
    return folds


def _as_it_is(subject: Subject, truth: NDArray[Any], parts: NDArray[np.intp]) -> Evaluation:
    predicted, deviation = _predictions(subject.model, subject.X, truth)
    honest = subject.seen is False
    how = f"on {len(truth):,} rows {'new to the model' if honest else 'that the model may have learned from'}"
    found = Evaluation(truth, predicted, deviation, parts, honest, how, np.arange(len(truth)))
    return _ranked(replace(found, held=[(subject.model, subject.X, truth)]), subject)


def _as_held_out(subject: Subject, truth: NDArray[Any]) -> Evaluation | None:
    """What machines of the search predicted for rows held out of them; None if the model does not keep it."""
    model = subject.model
    if not hasattr(model, "_held_out"):
        return None
    rows, places = find_rows(model._held_hashes, model._encoded(subject.X))
    if len(rows) < 2:
        return None
    predicted, truth, sureness, classes = model._held_out[places], truth[rows], None, np.zeros(0)
    threshold = getattr(model, "threshold_", None)
    if subject.task == "classification":
        classes, P = np.asarray(model.classes_), predicted
        sureness = P if threshold is None else P[:, 1]
        codes = np.argmax(P * model.class_weight_, axis=1) if threshold is None else (P[:, 1] > threshold).astype(int)
        predicted = classes[codes]
    parts = _parts(truth, subject.task == "classification")
    some = "" if len(rows) == _num_samples(subject.y) else f" of {_num_samples(subject.y):,}"
    how = f"on {len(rows):,}{some} rows, each predicted by models of the search that had not seen it"
    held = _by_fold_of_forest(model, subject.X, subject.y)
    found = Evaluation(
        truth, predicted, None, parts, True, how, rows, held, sureness, probability=True, classes=classes
    )
    return found if threshold is None else replace(found, threshold=float(threshold))


def _by_fold_of_forest(model: Any, X: Any, y: Any) -> list[Held]:
    """The model with its training rows; where it has a forest, for each fold of its rows.

    A training row with a shuffled column would else count as new, and be predicted by trees that know its target.
    """
    forest = forest_of(model)
    if forest is None:
        return [(model, X, y)]
    held, folds = [], forest.folds.of_training_rows(model._encoded(X))
    for fold in np.unique(folds[folds >= 0]).tolist():
        (rows,) = np.nonzero(folds == fold)
        asked, only = copy(model), OneFold(forest.folds.known, forest.folds.count, fold=fold)
        asked.scaling_ = _asking(model.scaling_, only)
        asked.others_ = tuple(replace(member, scaling=_asking(member.scaling, only)) for member in model.others_)
        held.append((asked, *(_safe_indexing(part, rows) for part in (X, y))))
    return held


def _asking(scaling: Any, fold: OneFold) -> Any:
    """A scaling whose forest, if it has one, asks the trees of one fold."""
    return replace(scaling, folds=fold) if isinstance(scaling, Forest) else scaling


def _by_folds(subject: Subject, truth: NDArray[Any]) -> Evaluation:
    rows = sampled(len(truth), ROWS)
    X, truth = _safe_split(subject.model, subject.X, truth, rows)
    folds = _parts(truth, subject.task == "classification")
    if folds.max() == 0:
        raise ValueError("too few rows of some class")
    model = _with_settings_as_learned(subject.model)
    predicted = np.empty(truth.shape, dtype=truth.dtype if subject.task == "classification" else np.float64)
    deviation = np.full(truth.shape, np.nan)
    held: list[Held] = []
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        for fold in np.unique(folds):
            train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            fitted = clone(model).fit(*_safe_split(model, X, truth, train))
            held.append((fitted, *_safe_split(model, X, truth, test, train)))
            predicted[test], spread = _predictions(*held[-1])
            deviation[test] = np.nan if spread is None else spread
    how = f"{folds.max() + 1}-fold cross-validation on {len(truth):,} rows"
    if len(truth) < _num_samples(subject.y):
        how += f" drawn from {_num_samples(subject.y):,}"
    if model is not subject.model:
        how += ", settings as they were learned"
    deviations = deviation if np.isfinite(deviation).all() else None
    found = Evaluation(truth, predicted, deviations, folds, True, how, rows, held)
    return _ranked(replace(found, linear=_linear(subject, found)), subject)


def _linear(subject: Subject, found: Evaluation) -> NDArray[Any] | None:
    """Predictions of a linear model in the same folds; None if the rows are not numbers."""
    classes = subject.task == "classification"
    if subject.numbers is None:
        return None
    Z, out = subject.numbers[found.rows], np.empty_like(found.predicted)
    with warnings.catch_warnings(action="ignore"):
        for test in found.parts:
            train = np.setdiff1d(np.arange(len(Z)), test)
            last = LogisticRegression(max_iter=200) if classes else RidgeCV(np.logspace(-3, 4, 15))
            out[test] = make_pipeline(StandardScaler(), last).fit(Z[train], found.truth[train]).predict(Z[test])
    return out


def _ranked(found: Evaluation, subject: Subject) -> Evaluation:
    """The evaluation with scores or probabilities of the classes."""
    if subject.task != "classification":
        return found
    classes, model = np.asarray(subject.model.classes_), found.held[0][0]
    found = replace(found, classes=classes)
    method = next((name for name in ("predict_proba", "decision_function") if hasattr(model, name)), None)
    if method is None or (method != "predict_proba" and classes.size > 2):
        return found
    out = np.zeros((len(found.truth), classes.size))
    parts = found.parts if len(found.held) > 1 else [np.arange(len(found.truth))]
    with unnamed():
        for (fitted, X, _), part in zip(found.held, parts, strict=True):
            values = np.asarray(getattr(fitted, method)(X), dtype=np.float64)
            if values.ndim == 1:
                out[part, 1] = values
            else:
                out[np.ix_(part, np.searchsorted(classes, fitted.classes_))] = values
    sureness = out[:, 1] if classes.size == 2 else out
    probability = method == "predict_proba"
    own = getattr(model, "threshold_", None)  # None among several classes
    threshold = (0.5 if own is None else float(own)) if probability else 0.0
    return replace(found, sureness=sureness, probability=probability, threshold=threshold)


def _predictions(model: Any, X: Any, truth: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
    with unnamed():
        if hasattr(model, "sample_y") and truth.ndim == 1 and not get_tags(model).input_tags.pairwise:
            mean, deviation = model.predict(X, return_std=True)
            # Observations also have the noise given as alpha, which the model's deviation leaves out.
            noise = model.alpha if isinstance(model.alpha, int | float) else 0.0
            return mean, np.hypot(deviation, np.sqrt(noise) * float(np.mean(model._y_train_std)))
        return np.asarray(model.predict(X)), None


def _with_settings_as_learned(model: Any) -> Any:
    """The model to refit in folds: without its search, and with the kernel that it has learned."""
    model = getattr(model, "best_estimator_", model)
    given, kernel = model.get_params(deep=False), getattr(model, "kernel_", None)
    if "optimizer" not in given or kernel is None:
        return model
    kernel = kernel[0] if isinstance(kernel, tuple | list) else kernel
    learned = {"kernel": kernel, "optimizer": None, "noise": None}  # the noise is part of kernel_
    return clone(model).set_params(**{name: value for name, value in learned.items() if name in given})


# ---- which inputs matter ------------------------------------------------------------------------------------------


def importance(subject: Subject, found: Evaluation | None) -> Sensitivity | None:
    """Return the permutation importance of columns on held-out rows; None if it is not defined."""
    if found is None or subject.pairwise or found.truth.ndim > 1:
        return None
    try:
        d = subject.inputs.shape[1]
    except (AttributeError, IndexError):  # a list of texts, or of rows
        return None
    if not 1 < d <= MOST_INPUTS:
        return None
    repeats = int(np.clip(SHUFFLES // d, 1, 5))
    options: Any = {"method": "permutation", "n_repeats": repeats, "max_rows": max(SHUFFLED // len(found.held), 2)}
    each = [sensitivity(model, used_columns(model, X), y, **options) for model, X, y in found.held]
    if len(each) == 1:
        return each[0]
    values = np.array([one.importance for one in each])
    mean, deviation = values.mean(axis=0), values.std(axis=0) / np.sqrt(len(each))
    count = sum(one.n_rows for one in each)
    return replace(each[0], importance=mean, low=mean - deviation, high=mean + deviation, n_rows=count)
