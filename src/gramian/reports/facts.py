"""Facts at the top of a report: the question, the score with its baseline, the cost."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils._pprint import _changed_params

from gramian.estimators.auto.leaderboard import METRICS
from gramian.estimators.auto.scoring import CLASSES, NUMBERS
from gramian.estimators.mixture.gaussian import GaussianMixture
from gramian.kernels.base import Kernel
from gramian.kernels.parse import parse
from gramian.numerals import shortened
from gramian.reports.held_out import Evaluation
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
"""Parameters that are shown elsewhere, or do not change what is learned."""
RARE = 1e-15
"""Probabilities in a log-loss are at least this."""
RANKED = ("log_loss", "roc_auc", "average_precision")
"""Scores of probabilities or decision values, not of labels."""
LONG = 40
"""Longer lists of numbers, in characters, are shown as their count."""
FEW = 4
"""Kernels on more columns than this show their count."""


# ---- measures -----------------------------------------------------------------------------------------------------

MEASURES = CLASSES | NUMBERS
"""The scores of automatic estimators, by their names in ``scoring=``."""
SHOWN = {"classification": ("accuracy", "roc_auc", "log_loss"), "regression": ("r2", "rmse", "mae")}
"""Scores shown in a report, the main one first."""


def measured(found: Evaluation, key: str, rows: Any = slice(None)) -> float:
    """Return a score of the predictions for some of the rows; nan if it is not defined."""
    measure, truth, said = MEASURES[key], found.truth[rows], found.predicted[rows]
    if key in NUMBERS:
        targets = zip(truth.reshape(len(truth), -1).T, said.reshape(len(truth), -1).T, strict=True)
        return measure.written(float(np.mean([measure.loss(y, f, None) for y, f in targets])))
    logs = np.zeros((len(truth), len(found.classes)))
    if found.sureness is not None:
        sure = found.sureness[rows]
        P = sure if sure.ndim > 1 else np.column_stack([(1.0 if found.probability else 0.0) - sure, sure])
        logs = np.log(np.maximum(P, RARE)) if found.probability else P
    if key in RANKED and (found.sureness is None or (key == "log_loss" and not found.probability)):
        return math.nan
    codes, labels = (np.searchsorted(found.classes, of) for of in (truth, said))
    return measure.written(measure.loss(codes, logs, labels, None))


def by_parts(found: Evaluation, key: str) -> NDArray[np.float64]:
    """Return the score of each part."""
    return np.array([measured(found, key, part) for part in found.parts])


# ---- scores -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """A score and the baseline to compare it with."""

    name: str
    value: float
    spread: float = math.nan  # Standard deviation over parts of the data; nan without parts
    how: str = ""  # How it was measured, in words
    baseline: float = math.nan  # The score of the baseline; nan without one
    baseline_name: str = ""
    less_is_better: bool = False
    figures: dict[str, float] | None = None  # Further scores

    @property
    def beats_baseline(self) -> bool:
        """Whether it is better than the baseline by more than its spread; true without a baseline."""
        if math.isnan(self.baseline):
            return True
        gain = self.baseline - self.value if self.less_is_better else self.value - self.baseline
        return gain > (0.0 if math.isnan(self.spread) else self.spread)


def score_of(subject: Subject, found: Evaluation | None) -> Score | None:
    """Return the score to show."""
    if subject.automatic and (found is None or subject.seen is not False):
        return _of_leaderboard(subject.model)
    if found is not None:
        return _of_predictions(subject, found)
    if hasattr(subject.model, "cv_results_"):
        results, best = subject.model.cv_results_, subject.model.best_index_
        mean, spread = (float(results[f"{what}_test_score"][best]) for what in ("mean", "std"))
        return Score("score", mean, spread, "cross-validation inside the search")
    return OF_TASK[subject.task](subject) if subject.task in OF_TASK else None


def _of_leaderboard(model: Any) -> Score:
    best, board = model.best_trial_, model.leaderboard_
    figures = {METRICS.get(k, k): value for k, value in best.figures.items() if k in MEASURES and k != board.metric}
    how = f"cross-validation on {best.rows:,} rows inside the search"
    less = not board.greater_is_better
    baseline = _linear_trial(model)
    return Score(board.metric_name, best.score, best.spread, how, *baseline, less_is_better=less, figures=figures)


def baseline_of(model: Any) -> Any:
    """Return the best baseline of a search other than the winner, or None."""
    board, best = model.leaderboard_, model.best_trial_
    others = (t for t in board if t.ok and t.baseline and t.name != best.name)
    return max(others, key=lambda t: (t.rows, board.gain(t, best)), default=None)


def _linear_trial(model: Any) -> tuple[float, str]:
    """The score of the best baseline of a search, and its name."""
    base = baseline_of(model)
    return (math.nan, "") if base is None else (base.score, f"{base.name}, in the search")


def _of_predictions(subject: Subject, found: Evaluation) -> Score:
    """The score of predictions; for an automatic model, the score that its search used."""
    key = subject.model.leaderboard_.metric if subject.automatic else ""
    if key not in MEASURES or math.isnan(measured(found, key)):
        key = SHOWN[subject.task][0]
    values = by_parts(found, key)
    values = values[np.isfinite(values)]
    spread = float(values.std()) if values.size > 1 else math.nan
    searched = subject.automatic and key == subject.model.leaderboard_.metric
    baseline = _linear_trial(subject.model) if searched else _beside(found, key)
    figures = {METRICS.get(k, k): measured(found, k) for k in SHOWN[subject.task] if k != key}
    figures = {name: value for name, value in figures.items() if math.isfinite(value)}
    less, name = MEASURES[key].top is None, METRICS.get(key, key)
    value = float(values.mean()) if values.size else measured(found, key)
    return Score(name, value, spread, found.how, *baseline, less_is_better=less, figures=figures)


def _beside(found: Evaluation, key: str) -> tuple[float, str]:
    """The score of a linear model, or of a constant prediction, with its name."""
    if found.linear is not None:
        values = by_parts(replace(found, predicted=found.linear), key)
        return float(values.mean()), "a linear model"
    classes, truth = key in CLASSES, found.truth
    dummy = DummyClassifier(strategy="most_frequent") if classes else DummyRegressor()
    said = np.asarray(dummy.fit(np.zeros((len(truth), 1)), truth).predict(np.zeros((len(truth), 1))))
    rule = "always the largest class" if classes else "always the mean"
    return measured(replace(found, predicted=said), key), rule


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
    """Return one sentence that says what the model does."""
    d = getattr(subject.model, "n_features_in_", None) or getattr(subject.machine, "n_features_in_", None)
    asked, target = VERBS[subject.task], subject.target
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
    """Return the kernel and all parameters that differ from their defaults."""
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
    """Return a value as short text with few digits."""
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    text = re.sub(r"\d+\.\d{5,}(e[-+]?\d+)?", lambda digits: f"{float(digits[0]):.5g}", text)
    return shortened(text, most)


def expression(kernel: Any) -> str:
    """Return a kernel as text without bounds, and with many numbers or columns counted instead of listed."""
    if isinstance(kernel, str):
        with suppress(ValueError):  # a name, or longer than is read
            kernel = parse(kernel)
    text = str(_without_bounds(kernel) if isinstance(kernel, Kernel) else kernel)
    text = re.sub(r", \w+_bounds=(\[\[.*?\]\]|\[[^\]]*\]|'fixed')", "", text)
    text = re.sub(rf"\[[^\[\]]{{{LONG},}}\]", lambda many: f"[{many[0].count(',') + 1} numbers]", text)
    text = re.sub(r"compose\(Columns\(\(([\d, ]+)\)\)\)", lambda which: f"on({_columns(which[1])})", text)
    return brief(re.sub(r"\d+\.\d{4,}(e[-+]?\d+)?", lambda digits: f"{float(digits[0]):.3g}", text), 400)


def _without_bounds(kernel: Kernel) -> Kernel:
    """The kernel with default bounds, so that multiples are written as such."""
    usual = {f.name: f.default for f in fields(kernel) if f.name.endswith("_bounds") and f.default is not MISSING}
    inside = zip(kernel.operands, kernel.children, strict=True)
    return replace(kernel, **usual, **{name: _without_bounds(child) for name, child in inside})


def _columns(listed: str) -> str:
    places = re.findall(r"\d+", listed)
    return ", ".join(places) if len(places) <= FEW else f"{len(places)} columns"


def seconds_of(subject: Subject) -> float | None:
    """Return how long the fit took, or all trials of a search together."""
    if subject.automatic:
        return float(subject.model.leaderboard_.seconds)
    if hasattr(subject.model, "refit_time_"):
        return float(subject.model.refit_time_)
    if several := getattr(subject.machine, "certificates_", None):
        return float(max(certificate.seconds for certificate in several))
    return getattr(subject.certificate, "seconds", None)


def bytes_held(model: Any) -> str:
    """Return how much memory the arrays of a model take."""
    return readable(_bytes(model, set()))


def _bytes(value: Any, seen: set[int]) -> int:
    """Bytes of all arrays in a value, at any depth, each counted once."""
    if id(value) in seen or isinstance(value, type):
        return 0
    seen.add(id(value))
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.nbytes
    named = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    inside = value.flat if isinstance(value, np.ndarray) else named.values()
    return sum(_bytes(part, seen) for part in (value if isinstance(value, list | tuple | set) else inside))
