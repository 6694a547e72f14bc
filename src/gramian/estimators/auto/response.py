"""The response, numbers or classes: targets for least squares, scores of predictions, and what a user sees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression, RidgeCV

from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.estimators.machine.regressor import KernelMachineRegressor
from gramian.estimators.svm import SVC, SVR

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

PAIRS: dict[str, Any] = {"decision_function_shape": "ovo"}
"""Support vector machines of several classes are asked for the values of all pairs, not for votes."""
RANGE = (1e-3, 1e3)
"""Where the inverse temperature is sought, in units of one over the deviation of the outputs."""
PRIOR = 1.0
"""Rows by which the fit is drawn to even odds: where no held-out row is wrong, sureness must still end somewhere."""
BINS = 15
SPREAD = 0.1
"""Deviation of the constants' prior. Held-out rows may come from a fit to fewer rows, which knows rare classes less."""
SLACK = 0.5
"""Errors more that constants may make, in deviations of their number."""


@dataclass(frozen=True)
class Judgement:
    """How good predictions of held-out rows are."""

    score: float  # Less is better
    spread: float  # Standard deviation over the parts
    figures: dict[str, float]  # Further measures


@dataclass(frozen=True, eq=False)
class Numbers:
    """A number to predict, by its deviation from the mean in units of its spread."""

    y: Array  # (n,): The targets
    metric: str  # What to judge by
    makers: ClassVar[dict[str, Any]] = {"svm": SVR, "machine": KernelMachineRegressor}  # Other than least squares
    least_noise: ClassVar[float] = 1e-6  # Of a process: numbers can be exact
    simplest_rule: ClassVar[str] = "mean"
    codes: ClassVar[Any] = None  # Classes that folds should hold equal shares of: none

    @cached_property
    def centre(self) -> float:
        """The mean of the targets."""
        return float(self.y.mean())

    @cached_property
    def scale(self) -> float:
        """Their deviation; one where they are all equal."""
        deviation = float(self.y.std())
        return deviation if deviation > 1e-14 * max(abs(self.centre), 1e-300) else 1.0

    @cached_property
    def targets(self) -> Array:
        """Targets of least squares, of shape (n, 1)."""
        return ((self.y - self.centre) / self.scale)[:, None]

    @property
    def labels(self) -> Array:
        """Targets of the other machines."""
        return self.targets[:, 0]

    def from_least_squares(self, F: Array) -> Array:
        """Return outputs from predictions of ``targets``: F (m,) or (m, 1) → (m, 1)."""
        return F.reshape(-1, 1)

    def outputs(self, model: Any, Z: Array) -> Array:
        """Return what a fitted machine says of new rows: Z (m, d) → (m, 1)."""
        return self.from_least_squares(np.asarray(model.predict(Z)))

    def judge(self, outputs: Array, rows: Rows, parts: Sequence[Rows]) -> Judgement:
        """Score outputs for some rows: outputs (m, 1), rows (m,)."""
        e = self.scale * (outputs[:, 0] - self.targets[rows, 0])
        each = [_mean_error(e[part], self.metric) for part in parts]
        variation = float(np.mean((self.y[rows] - self.y[rows].mean()) ** 2))
        r2 = 1.0 - float(np.mean(e**2)) / variation if variation > 0 else np.nan
        figures = {"rmse": float(np.sqrt(np.mean(e**2))), "mae": float(np.mean(np.abs(e))), "r2": r2}
        return Judgement(_mean_error(e, self.metric), float(np.std(each)), figures)

    def simplest(self, Z: Array, train: Rows, test: Rows) -> Array:
        """Return outputs of the simplest rule, the mean: → (m, 1)."""
        return np.full((test.size, 1), self.targets[train, 0].mean())

    def linear(self, Z: Array, train: Rows, test: Rows) -> Array:
        """Return outputs of a linear model: Z (n, d) → (m, 1)."""
        return self.outputs(RidgeCV(np.logspace(-3, 4, 15)).fit(Z[train], self.targets[train, 0]), Z[test])


def _mean_error(e: Array, metric: str) -> float:
    return float(np.sqrt(np.mean(e**2)) if metric == "rmse" else np.mean(np.abs(e)))


@dataclass(frozen=True, eq=False)
class Classes:
    """A class to predict, by one-hot codes less their mean; of two classes, by one code of -1 and +1."""

    codes: Rows  # (n,): Which class each row has
    count: int  # How many classes there are
    metric: str  # What to judge by
    makers: ClassVar[dict[str, Any]] = {"svm": partial(SVC, **PAIRS), "machine": KernelMachineClassifier}
    least_noise: ClassVar[float] = 1e-3  # Of a process: codes are a manner of speaking
    simplest_rule: ClassVar[str] = "majority"

    @classmethod
    def fitted(cls, count: int, centre: Array, scale: float) -> Self:
        """Return a response without its rows: what the outputs of a fitted machine mean."""
        made = cls(np.zeros(0, dtype=np.intp), count, "error")
        vars(made).update(centre=centre, scale=scale)
        return made

    @cached_property
    def _one_hot(self) -> Array:
        return one_hot(self.codes, self.count)

    @cached_property
    def centre(self) -> Array:
        """Means of the codes."""
        return np.asarray(self._one_hot.mean(axis=0))

    @cached_property
    def scale(self) -> float:
        """Their deviation, all codes together."""
        return float(np.sqrt(np.mean((self._one_hot - self.centre) ** 2))) or 1.0

    @cached_property
    def targets(self) -> Array:
        """Targets of least squares, of shape (n, c), or (n, 1) for two classes."""
        return np.asarray((self._one_hot - self.centre) / self.scale)

    @property
    def labels(self) -> Rows:
        """Targets of the other machines."""
        return self.codes

    def from_least_squares(self, F: Array) -> Array:
        """Return outputs from predictions of ``targets``: F (m,) or (m, c) → (m, c)."""
        return _each_way(self.centre + self.scale * F.reshape(F.shape[0], -1), self.count)

    def outputs(self, model: Any, Z: Array) -> Array:
        """Return what a fitted machine says of new rows; classes that its rows did not hold never win: → (m, c)."""
        if not hasattr(model, "classes_"):
            return self.from_least_squares(np.asarray(model.predict(Z)))
        f, present = model.decision_function(Z), model.classes_.size
        pairs = present > 2 and getattr(model, "decision_function_shape", "ovr") == "ovo"
        scores = (_from_pairs if pairs else _each_way)(f, present)
        if present == self.count:
            return scores
        out = np.repeat(scores.min(axis=1, keepdims=True) - 1.0, self.count, axis=1)
        out[:, model.classes_] = scores
        return out

    def judge(self, outputs: Array, rows: Rows, parts: Sequence[Rows]) -> Judgement:
        """Score outputs for some rows; probabilities are their softmax, at the best temperature."""
        codes = self.codes[rows]
        wrong = np.argmax(outputs, axis=1) != codes
        logs = log_softmax(fit_temperature(outputs, codes) * outputs, axis=1)
        figures = {
            "error": float(wrong.mean()),
            "log_loss": log_loss(logs, codes),
            "calibration": calibration_error(logs, codes),
        }
        by_row = wrong.astype(np.float64) if self.metric == "error" else -logs[np.arange(codes.size), codes]
        return Judgement(figures[self.metric], float(np.std([by_row[part].mean() for part in parts])), figures)

    def simplest(self, Z: Array, train: Rows, test: Rows) -> Array:
        """Return outputs of the simplest rule: how frequent each class is, in logarithms. → (m, c)."""
        counts = np.bincount(self.codes[train], minlength=self.count)
        return np.tile(np.log(np.maximum(counts, 0.5) / train.size), (test.size, 1))

    def linear(self, Z: Array, train: Rows, test: Rows) -> Array:
        """Return outputs of a linear model: Z (n, d) → (m, c)."""
        present = np.unique(self.codes[train])
        if present.size < 2:
            return self.simplest(Z, train, test)
        model = LogisticRegression(max_iter=200).fit(Z[train], self.codes[train])
        out = np.full((test.size, self.count), math.log(0.5 / train.size))
        out[:, present] = model.predict_log_proba(Z[test])
        return np.maximum(out, -700.0)


def one_hot(codes: Rows, count: int) -> Array:
    """Return codes for least squares: (n, c), or (n, 1) of -1 and +1 for two classes."""
    if count == 2:
        return np.where(codes == 1, 1.0, -1.0)[:, None]
    return np.asarray(codes[:, None] == np.arange(count), dtype=np.float64)


def _each_way(f: Array, present: int) -> Array:
    """Scores from decision values: where one is given for two classes, half of it each way."""
    f = f.reshape(f.shape[0], -1)
    return 0.5 * np.hstack([-f, f]) if present == 2 and f.shape[1] == 1 else f


def _from_pairs(f: Array, present: int) -> Array:
    """Scores from decision values of pairs: for each class, what it lost in the comparisons that it lost.

    Of equal rank with votes, and unlike them a measure of how sure the winner is.
    """
    out = np.zeros((f.shape[0], present))
    for values, (i, j) in zip(f.T, combinations(range(present), 2), strict=True):
        out[:, i] += np.minimum(values, 0.0)
        out[:, j] -= np.maximum(values, 0.0)
    return out


Response = Numbers | Classes


# ---- calibration --------------------------------------------------------------------------------------------------


def fit_temperature(outputs: Array, codes: NDArray[np.intp]) -> float:
    """Return the factor that makes ``softmax(factor * outputs)`` most likely on held-out rows."""
    size = float(outputs.std()) or 1.0
    low, high = (math.log(bound / size) for bound in RANGE)
    found = minimize_scalar(lambda t: _penalised(math.exp(t) * outputs, codes), bounds=(low, high), method="bounded")
    return math.exp(float(found.x))


def fit_softmax(outputs: Array, codes: NDArray[np.intp]) -> tuple[float, Array]:
    """Return what makes ``softmax(factor * outputs + constants)`` most likely on held-out rows."""
    if codes.size > 1 and _constants_help(outputs, codes):
        return _with_constants(outputs, codes)
    return fit_temperature(outputs, codes), np.zeros(outputs.shape[1])


def _constants_help(outputs: Array, codes: NDArray[np.intp]) -> bool:
    """Whether those of one half of the rows make the other half more likely, and hardly more errors there."""
    halves = [np.arange(part, codes.size, 2) for part in (0, 1)]
    before = after = np.zeros(2)
    for learn, judge in (halves, halves[::-1]):
        factor, constants = _with_constants(outputs[learn], codes[learn])
        before = before + _judged(fit_temperature(outputs[learn], codes[learn]) * outputs[judge], codes[judge])
        after = after + _judged(factor * outputs[judge] + constants, codes[judge])
    return bool(after[0] < before[0] and after[1] <= before[1] + SLACK * math.sqrt(before[1]))


def _judged(scores: Array, codes: NDArray[np.intp]) -> Array:
    """The sum of log-losses, and the errors."""
    wrong = np.count_nonzero(np.argmax(scores, axis=1) != codes)
    return np.array([codes.size * log_loss(log_softmax(scores, axis=1), codes), wrong])


def _with_constants(outputs: Array, codes: NDArray[np.intp]) -> tuple[float, Array]:
    """The factor and constants, which a normal prior draws to zero: few rows move them little."""
    (m, c), hot = outputs.shape, np.arange(outputs.shape[1]) == codes[:, None]

    def objective(x: Array) -> tuple[float, Array]:
        factor, constants = math.exp(x[0]), x[1:]
        logs = log_softmax(factor * outputs + constants, axis=1)
        # Of the log-likelihood, and of the prior rows, which are of every class in equal parts.
        slope = (1.0 + PRIOR / m) * np.exp(logs) - hot - PRIOR / (m * c)
        pull = constants / SPREAD**2
        value = log_loss(logs, codes) - PRIOR * float(logs.mean()) / m + 0.5 * float(constants @ pull) / m
        by_factor = factor * float(np.sum(slope * outputs)) / m
        return value, np.append(by_factor, slope.sum(axis=0) / m + pull / m)

    start = np.append(math.log(fit_temperature(outputs, codes)), np.zeros(c))
    found = minimize(objective, start, jac=True, method="L-BFGS-B").x
    return math.exp(float(found[0])), np.asarray(found[1:] - found[1:].mean())


def _penalised(scores: Array, codes: NDArray[np.intp]) -> float:
    logs = log_softmax(scores, axis=1)
    return log_loss(logs, codes) - PRIOR * float(logs.mean()) / codes.size


def log_loss(logs: Array, codes: NDArray[np.intp]) -> float:
    """Return the mean of minus the log-probability of the true class: logs (m, c), codes (m,)."""
    return -float(np.mean(logs[np.arange(codes.size), codes]))


def calibration_error(logs: Array, codes: NDArray[np.intp]) -> float:
    """Return how far confidence and accuracy are apart, over bins of confidence: logs (m, c), codes (m,)."""
    confidence, right = np.exp(logs.max(axis=1)), np.argmax(logs, axis=1) == codes
    bins = np.minimum((confidence * BINS).astype(np.intp), BINS - 1)
    return float(np.abs(np.bincount(bins, confidence - right)).sum() / codes.size)


def conformal_reach(residuals: Array, level: float) -> float:
    """Return how far from a prediction the target is, with some probability: split conformal prediction."""
    ordered = np.sort(np.abs(residuals))
    place = math.ceil((ordered.size + 1) * level) - 1
    return float(ordered[min(place, ordered.size - 1)])
