"""Facts at the top of a report: the question, the score beside the baseline, the cost, the certificate."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import accuracy_score, mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import get_tags
from sklearn.utils._pprint import _changed_params
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _num_samples

from gramian.estimators.auto import leaderboard
from gramian.estimators.mixture.gaussian import GaussianMixture
from gramian.plots.fitted import sampled, unnamed
from gramian.reports.subject import Subject
from gramian.resources import readable

VERBS = {
    "classification": "Tell classes apart",
    "regression": "Predict a number",
    "novelty": "Tell the usual from the unusual",
    "density": "Find clusters and their densities",
    "projection": "Find the main directions in feature space",
    "map": "Make a kernel explicit",
}
ELSEWHERE = ("kernel", "memory", "n_jobs", "verbose")
"""Parameters that are shown by themselves, or change nothing that is learned."""
METRICS = {**leaderboard.METRICS, "error": "error rate"}
SHOWN = 40
"""Lines of the table."""
KERNEL = 70
"""Characters of a kernel's expression, which can hold a number for every column."""
DRAWN = 15
"""Trials in the picture."""
ROWS = 1000
"""Rows that are used at most where the model has to be fitted again."""
FOLDS = 5


# ---- evaluation on rows that the model has not seen, as far as possible -------------------------------------------


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Predictions beside the truth."""

    truth: NDArray[Any]  # (m,): Targets and predictions
    predicted: NDArray[Any]  # (m,): Targets and predictions
    deviation: NDArray[np.float64] | None  # (m,): Predicted deviations, of a Gaussian process
    folds: NDArray[np.intp]  # (m,): Which part each row belongs to; scores are taken part by part
    honest: bool  # Whether the model that predicted a row had not seen it
    how: str  # In words, where the predictions come from

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
    predicted, deviation = _predictions(subject.model, subject.X, truth)
    honest = subject.seen is False
    how = f"on {len(truth):,} rows {'new to the model' if honest else 'that the model may have learned from'}"
    return Evaluation(truth, predicted, deviation, parts, honest, how)


def _by_folds(subject: Subject, truth: NDArray[Any]) -> Evaluation:
    X, truth = _safe_split(subject.model, subject.X, truth, sampled(len(truth), ROWS))
    folds = _parts(truth, subject.task == "classification")
    if folds.max() == 0:
        raise ValueError("too few rows of some class")
    model = _with_settings_as_learned(subject.model)
    predicted = np.empty(truth.shape, dtype=truth.dtype if subject.task == "classification" else np.float64)
    deviation = np.full(truth.shape, np.nan)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        for fold in np.unique(folds):
            train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            fitted = clone(model).fit(*_safe_split(model, X, truth, train))
            predicted[test], spread = _predictions(fitted, *_safe_split(model, X, truth, test, train))
            deviation[test] = np.nan if spread is None else spread
    how = f"{folds.max() + 1}-fold cross-validation on {len(truth):,} rows"
    if len(truth) < _num_samples(subject.y):
        how += f" drawn from {_num_samples(subject.y):,}"
    if model is not subject.model:
        how += ", settings as they were learned"
    return Evaluation(truth, predicted, deviation if np.isfinite(deviation).all() else None, folds, True, how)


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


# ---- scores -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """A number that says how good, and what it has to be compared with."""

    name: str  # What it is
    value: float  # How much
    spread: float = math.nan  # Deviation over parts of the data; nan where there are no parts
    how: str = ""  # Where it comes from, in words
    baseline: float = math.nan  # The same of a model that learns nothing from the inputs; nan where there is none
    baseline_name: str = ""  # Which model that is
    less_is_better: bool = False  # Or more
    figures: dict[str, float] | None = None  # Further numbers

    @property
    def beats_baseline(self) -> bool:
        """Whether it is better than the baseline by more than its spread; true where there is no baseline."""
        if math.isnan(self.baseline):
            return True
        gain = self.baseline - self.value if self.less_is_better else self.value - self.baseline
        return gain > (0.0 if math.isnan(self.spread) else self.spread)


def score_of(subject: Subject, found: Evaluation | None) -> Score | None:
    """Return the score to show."""
    if subject.automatic and (found is None or not found.honest):
        return _of_leaderboard(subject.model)
    if found is not None:
        return _of_predictions(subject, found)
    if hasattr(subject.model, "cv_results_"):
        results, best = subject.model.cv_results_, subject.model.best_index_
        mean, spread = (float(results[f"{what}_test_score"][best]) for what in ("mean", "std"))
        return Score("score", mean, spread, "cross-validation inside the search")
    return OF_TASK[subject.task](subject) if subject.task in OF_TASK else None


def _of_leaderboard(model: Any) -> Score:
    best, base, metric = model.best_trial_, model.leaderboard_.baseline, model.leaderboard_.metric
    figures = {METRICS.get(name, name): value for name, value in best.figures.items()}
    how = f"cross-validation on {best.rows:,} rows inside the search"
    baseline, name = (math.nan, "") if base is None else (base.score, base.name)
    return Score(METRICS[metric], best.score, best.spread, how, baseline, name, True, figures)


def _of_predictions(subject: Subject, found: Evaluation) -> Score:
    classes, truth = subject.task == "classification", found.truth
    dummy = DummyClassifier(strategy="most_frequent") if classes else DummyRegressor()
    base = np.asarray(dummy.fit(np.zeros((len(truth), 1)), truth).predict(np.zeros((len(truth), 1))))
    scores = found.scores(classes)
    beside = replace(found, predicted=base, folds=np.zeros_like(found.folds)).scores(classes)
    name, rule = ("accuracy", "always the largest class") if classes else ("R²", "always the mean")
    spread = float(scores.std()) if scores.size > 1 else math.nan
    value, figures = float(scores.mean()), found.figures(classes)
    return Score(name, value, spread, found.how, float(beside.mean()), rule, figures=figures)


def _of_density(subject: Subject) -> Score | None:
    name = "log-likelihood per row"
    if subject.X is None:
        evidence = subject.machine.evidence_
        return Score(name, evidence[-1].log_likelihood, how="of the training") if evidence else None
    each = np.asarray(subject.model.score_samples(subject.X), dtype=np.float64)
    one = float(GaussianMixture(1).fit(subject.rows).score(subject.rows))
    how = f"on {each.size:,} rows; the spread is the standard error"
    return Score(name, float(each.mean()), float(each.std() / math.sqrt(each.size)), how, one, "one Gaussian")


def _of_novelty(subject: Subject) -> Score | None:
    if subject.X is None:
        return None
    inside = np.asarray(subject.model.predict(subject.X)) == 1
    share, how = float(inside.mean()), f"of {inside.size:,} rows"
    if (nu := getattr(subject.machine, "nu", None)) is not None:
        how += f"; nu = {nu:g} lets about {1 - nu:.0%} of the training rows be inside"
    return Score("share inside", share, math.sqrt(share * (1 - share) / inside.size), how)


def _of_projection(subject: Subject) -> Score:
    ratio = np.asarray(subject.machine.explained_variance_ratio_)
    how = f"by {len(ratio)} component{'s' if len(ratio) > 1 else ''}"
    return Score("variance explained", float(ratio.sum()), how=how)


def _of_map(subject: Subject) -> Score | None:
    error = getattr(subject.machine, "trace_error_", None)
    how = "share of the trace of K that is missed"
    return None if error is None else Score("trace error", float(error), how=how, less_is_better=True)


OF_TASK: dict[str, Callable[[Subject], Score | None]] = {
    "density": _of_density,
    "novelty": _of_novelty,
    "projection": _of_projection,
    "map": _of_map,
}
"""Scores of models that need no targets."""


def question(subject: Subject) -> str:
    """Return in a sentence what was asked."""
    d = getattr(subject.model, "n_features_in_", None) or getattr(subject.machine, "n_features_in_", None)
    asked, target = VERBS[subject.task], getattr(subject.y, "name", None)
    if target is not None:
        of_target = {"regression": f"Predict {target}", "classification": f"Tell apart the classes of {target}"}
        asked = of_target.get(subject.task, asked)
    if subject.task == "classification":
        asked += f" ({len(subject.model.classes_)} classes)"
    if d:
        asked += f" from {d} input{'s' if d > 1 else ''}"
    if subject.n_train:
        asked += f" after learning from {subject.n_train:,} rows"
    return asked + "."


def settings_of(subject: Subject) -> list[tuple[str, str]]:
    """Return the kernel that was used and the parameters that are not at their default."""
    machine = subject.machine
    given = machine.get_params(deep=False)
    found = [] if subject.kernel is None else [("kernel", expression(subject.kernel))]
    found += [(name, brief(value)) for name, value in _changed_params(machine).items() if name not in ELSEWHERE]
    learned = {name: getattr(machine, f"{name}_", None) for name in ("alpha", "lam", "noise")}
    if not hasattr(machine, "posterior_"):
        found += [(f"{n} used", f"{v:.4g}") for n, v in learned.items() if isinstance(v, float) and n in given]
    elif isinstance(learned["noise"], float):
        found.append(("noise learned", f"{learned['noise']:.4g}"))
    solver = getattr(machine, "solver_", None)
    if solver is not None:
        found.append(("solver used", brief(solver if isinstance(solver, str) else f"{solver.name}: {solver.reason}")))
    if subject.automatic:
        found += [("refit", subject.model.refit_), ("scaling", type(subject.model.scaling_).__name__)]
    elif subject.model is not machine:
        steps = [type(step).__name__ for step in (*subject.before, machine)]
        found.append(("inside", f"{type(subject.model).__name__}: {' → '.join(steps)}"))
    return found


def brief(value: Any, most: int = 200) -> str:
    """Return a value as text of a few digits and not too many words."""
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    text = re.sub(r"\d+\.\d{5,}(e[-+]?\d+)?", lambda digits: f"{float(digits[0]):.5g}", text)
    return text if len(text) <= most else text[: most - 1] + "…"


def expression(kernel: Any, most: int = 200) -> str:
    """Return a kernel as text, without the bounds that its parameters were learned in."""
    text = str(kernel) if isinstance(kernel, str) else repr(kernel)
    return brief(re.sub(r", \w+_bounds=(\[\[.*?\]\]|\[[^\]]*\]|'fixed')", "", text), most)


def seconds_of(subject: Subject) -> float | None:
    """Return how long the fit took: of a search, all its trials."""
    if subject.automatic:
        return float(sum(trial.fit_seconds for trial in subject.model.leaderboard_))
    if hasattr(subject.model, "refit_time_"):
        return float(subject.model.refit_time_)
    if several := getattr(subject.machine, "certificates_", None):
        return float(max(certificate.seconds for certificate in several))
    return getattr(subject.certificate, "seconds", None)


def bytes_held(model: Any) -> str:
    """Return how much memory the arrays of a model take."""
    return readable(_bytes(model, set()))


def _bytes(value: Any, seen: set[int]) -> int:
    """Of arrays in a value, at any depth, each counted once."""
    if id(value) in seen or isinstance(value, type):
        return 0
    seen.add(id(value))
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.nbytes
    named = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    inside = value.flat if isinstance(value, np.ndarray) else named.values()
    return sum(_bytes(part, seen) for part in (value if isinstance(value, list | tuple | set) else inside))


# ---- the leaderboard of a search ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Board:
    """What a search tried."""

    metric: str  # What the scores are
    less_is_better: bool  # Or more
    columns: tuple[str, ...]  # Heads of the table
    lines: list[tuple[str, ...]]  # Its cells, the best trial first
    drawn: list[tuple[str, float, float]]  # Name, score and spread of the trials in the picture
    chosen: str  # The name of the trial that was taken
    more: int  # Trials that are not in the table
    baseline: float | None = None  # The score to beat


def board_of(model: Any) -> Board | None:
    """Return the leaderboard of an automatic estimator, or of a search of scikit-learn."""
    if hasattr(model, "leaderboard_"):
        return _of_trials(model.leaderboard_, model.best_trial_)
    return _of_search(model) if hasattr(model, "cv_results_") else None


def _of_trials(board: Any, best: Any) -> Board:
    metric, columns = METRICS[board.metric], (*(name.capitalize() for name in leaderboard.COLUMNS), "Kernel")
    lines = [(*board.cells(place), expression(trial.kernel, KERNEL)) for place, trial in enumerate(board[:SHOWN])]
    ranked = [(t.name, t.score, t.spread) for t in board if t.ok and t.rows == best.rows and not t.baseline]
    drawn = sorted(ranked, key=lambda trial: trial[1])[:DRAWN]
    baseline = None if board.baseline is None else board.baseline.score
    metric = metric[0].upper() + metric[1:]
    return Board(metric, True, columns, lines, drawn, best.name, len(board) - len(lines), baseline)


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
    return Board("Score", False, columns, lines, drawn, names[search.best_index_], len(order) - len(lines))
