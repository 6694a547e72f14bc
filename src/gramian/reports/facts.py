"""Facts at the top of a report: the question, the score beside the baseline, the cost, the certificate."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils._pprint import _changed_params

from gramian.estimators.auto import leaderboard
from gramian.estimators.mixture.gaussian import GaussianMixture
from gramian.reports.evaluation import Evaluation
from gramian.reports.subject import Subject
from gramian.resources import readable

__all__ = ["METRICS", "Board", "Score", "board_of", "bytes_held", "question", "score_of", "seconds_of", "settings_of"]

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
    return readable(sum(_arrays(model, set())))


def _arrays(value: Any, seen: set[int]) -> Iterable[int]:
    if id(value) in seen or isinstance(value, str | bytes | int | float | type | None):
        return
    seen.add(id(value))
    inside: Iterable[Any] = ()
    if isinstance(value, np.ndarray):
        yield value.nbytes
        inside = value.ravel().tolist() if value.dtype == object and value.size < 10_000 else ()
    elif isinstance(value, dict | list | tuple | set):
        inside = value.values() if isinstance(value, dict) else value
    elif hasattr(value, "__dict__"):
        inside = vars(value).values()
    for part in inside:
        yield from _arrays(part, seen)


# ---- the leaderboard of a search ----------------------------------------------------------------------------------


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
    metric, columns = METRICS[board.metric], (*(name.capitalize() for name in leaderboard.COLUMNS), "Kernel")
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
