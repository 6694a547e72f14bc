"""The response, numbers or classes: targets for least squares, scores of predictions, and what a user sees."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, logit

from gramian.estimators.auto.scoring import CLASSES, NUMBERS, Scoring, error, log_loss, mae, rmse, unexplained
from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.estimators.machine.regressor import KernelMachineRegressor
from gramian.estimators.svm import SVC, SVR

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Calibration = Callable[[Array, Rows, Array | None], tuple[float, Array]]
"""From held-out outputs, codes and weights to the factor and the constants of a softmax."""

PAIRS: dict[str, Any] = {"decision_function_shape": "ovo"}
"""Support vector machines of several classes are asked for the values of all pairs, not for votes."""
RANGE = (1e-3, 1e3)
"""Where the inverse temperature is sought, in units of one over the deviation of the outputs."""
PRIOR = 1.0
"""Rows by which the fit is drawn to even odds: where no held-out row is wrong, sureness must still end somewhere."""
BINS = 15
SPREAD, WIDE = 0.1, 1.0
"""Deviation of the constants' prior about zero and about the shares of the classes. It is small about zero, since
held-out rows may come from a fit to fewer rows, which knows rare classes less."""
THRESHOLDS = 100
"""Thresholds that are tried, at most."""
MOST_LOG = 700.0
"""The largest logarithm of a prediction."""
FLAT = 0.95
"""The part of the log-loss that constants about the shares of the classes may leave, at most."""
SLACK = 0.5
"""Errors more that constants may make, in deviations of their number."""


@dataclass(frozen=True)
class Judgement:
    """How good predictions of held-out rows are."""

    score: float  # Less is better
    spread: float  # Standard deviation over the parts
    figures: dict[str, float]  # Further measures


class Judged:
    """Rows that count more or less, judged by a score."""

    weights: Array | None
    scorer: Scoring

    def weights_of(self, rows: Rows) -> Array | None:
        """Return how much some rows count, in fits and scores; None where all count one."""
        return None if self.weights is None else self.weights[rows]


@dataclass(frozen=True, eq=False)
class Numbers(Judged):
    """A number to predict, or its logarithm, by the deviation from its mean in units of its spread."""

    y: Array  # (n,): The targets
    scorer: Scoring = NUMBERS["rmse"]  # What to judge by
    weights: Array | None = None  # (n,): How much each row counts
    log: bool = False  # Whether machines learn the logarithm
    makers: ClassVar[dict[str, Any]] = {"svm": SVR, "machine": KernelMachineRegressor}  # Other than least squares
    least_noise: ClassVar[float] = 1e-6  # Of a process: numbers can be exact
    simplest_rule: ClassVar[str] = "mean"
    codes: ClassVar[Any] = None  # Classes that folds should hold equal shares of: none

    @cached_property
    def learned(self) -> Array:
        """What machines learn, before it is standardised: the targets or their logarithms."""
        return np.log(self.y) if self.log else self.y

    @cached_property
    def centre(self) -> float:
        """The mean of what they learn."""
        return float(self.learned.mean())

    @cached_property
    def scale(self) -> float:
        """Its deviation; one where all are equal."""
        deviation = float(self.learned.std())
        return deviation if deviation > 1e-14 * max(abs(self.centre), 1e-300) else 1.0

    @cached_property
    def targets(self) -> Array:
        """Targets of least squares, of shape (n, 1)."""
        return ((self.learned - self.centre) / self.scale)[:, None]

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

    def shift(self, outputs: Array, rows: Rows) -> float:
        """Return what is added to predictions, on the scale that is learned, to suit the score: outputs (m, 1)."""
        f, weights = self.centre + self.scale * outputs[:, 0], self.weights_of(rows)
        if self.scorer.level is not None:
            return weighted_quantile(self.learned[rows] - f, self.scorer.level, weights)
        if not self.log or not self.scorer.mean:
            return 0.0
        # The exponential of a mean logarithm is the median; this factor gives the least squared error.
        e = np.exp(f - f.max())
        factor = np.average(self.y[rows] * e, weights=weights) / np.average(e * e, weights=weights)
        return float(np.log(factor) - f.max())

    def predictions(self, outputs: Array, shift: float = 0.0) -> Array:
        """Return predictions in units of the targets: outputs (m, 1) → (m,)."""
        f = self.centre + self.scale * outputs[:, 0] + shift
        return np.exp(np.minimum(f, MOST_LOG)) if self.log else f

    def judge(self, outputs: Array, rows: Rows, parts: Sequence[Rows]) -> Judgement:
        """Score outputs for some rows: outputs (m, 1), rows (m,)."""
        y, predicted, w = self.y[rows], self.predictions(outputs, self.shift(outputs, rows)), self.weights_of(rows)
        each = [self.scorer.loss(y[part], predicted[part], None if w is None else w[part]) for part in parts]
        figures = {"rmse": rmse(y, predicted, w), "mae": mae(y, predicted, w), "r2": 1.0 - unexplained(y, predicted, w)}
        return Judgement(self.scorer.loss(y, predicted, w), _spread(each), figures)

    def simplest(self, train: Rows, test: Rows) -> Array:
        """Return outputs of the simplest rule, the mean: → (m, 1)."""
        return np.full((test.size, 1), np.average(self.targets[train, 0], weights=self.weights_of(train)))


def weighted_quantile(values: Array, level: float, weights: Array | None) -> float:
    """Return the least value that a share of the weight does not exceed: values (m,)."""
    order = np.argsort(values)
    total = np.cumsum(np.ones(values.size) if weights is None else weights[order])
    return float(values[order][min(np.searchsorted(total, level * total[-1]), values.size - 1)])


def _spread(each: Sequence[float]) -> float:
    """The standard deviation of the scores that there are."""
    known = [score for score in each if not math.isnan(score)]
    return float(np.std(known)) if known else math.nan


@dataclass(frozen=True, eq=False)
class Classes(Judged):
    """A class to predict, by one-hot codes less their mean; of two classes, by one code of -1 and +1."""

    codes: Rows  # (n,): Which class each row has
    count: int  # How many classes there are
    scorer: Scoring = CLASSES["log_loss"]  # What to judge by
    weights: Array | None = None  # (n,): How much each row counts
    costs: Array | None = None  # (c,): How much more a mistake in each class counts where labels are chosen
    makers: ClassVar[dict[str, Any]] = {"svm": partial(SVC, **PAIRS), "machine": KernelMachineClassifier}
    least_noise: ClassVar[float] = 1e-3  # Of a process: codes are a manner of speaking
    simplest_rule: ClassVar[str] = "majority"
    log: ClassVar[bool] = False  # Whether machines learn a logarithm

    @classmethod
    def fitted(cls, count: int, centre: Array, scale: float) -> Self:
        """Return a response without its rows: what the outputs of a fitted machine mean."""
        made = cls(np.zeros(0, dtype=np.intp), count)
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
        codes, w = self.codes[rows], self.weights_of(rows)
        logs = log_softmax(fit_temperature(outputs, codes, w) * outputs, axis=1)
        labels = self.decided(logs, codes, w)[1]
        figures = {
            "error": error(codes, logs, labels, w),
            "log_loss": log_loss(codes, logs, w),
            "calibration": calibration_error(codes, logs, w),
        }
        if self.count == 2:
            figures["roc_auc"] = 1.0 - CLASSES["roc_auc"].loss(codes, logs, labels, w)
        loss = self.scorer.loss
        each = [loss(codes[p], logs[p], labels[p], None if w is None else w[p]) for p in parts]
        return Judgement(loss(codes, logs, labels, w), _spread(each), figures)

    def labels_by(self, logs: Array, threshold: float) -> Rows:
        """Return the labels that a threshold of the second of two classes, or costs of several, give: logs (m, c)."""
        if self.count == 2:
            return np.asarray(logs[:, 1] - logs[:, 0] > logit(threshold), dtype=np.intp)
        return np.asarray(np.argmax(logs if self.costs is None else logs + np.log(self.costs), axis=1))

    def decided(self, logs: Array, codes: Rows, weights: Array | None) -> tuple[float, Rows]:
        """Return from which probability on the second of two classes is the label, and the labels of held-out rows.

        That of the least loss where labels are judged, unless it does not help the other half of the rows, which then
        has the labels; else where both mistakes cost the same.
        """
        even = 0.5 if self.costs is None or self.count != 2 else float(self.costs[0] / self.costs.sum())
        labels = self.labels_by(logs, even)
        if self.count != 2 or not self.scorer.labels:
            return even, labels
        crossed = self._crossed(logs, codes, weights)
        if self.scorer.loss(codes, logs, crossed, weights) >= self.scorer.loss(codes, logs, labels, weights):
            return even, labels
        return self._best_threshold(logs, codes, weights), crossed

    def _crossed(self, logs: Array, codes: Rows, weights: Array | None) -> Rows:
        """Labels of each half of the rows by the best threshold of the other."""
        labels = np.zeros(codes.size, dtype=np.intp)
        for judge, learn in ((slice(0, None, 2), slice(1, None, 2)), (slice(1, None, 2), slice(0, None, 2))):
            if codes[learn].size:
                w = None if weights is None else weights[learn]
                labels[judge] = self.labels_by(logs[judge], self._best_threshold(logs[learn], codes[learn], w))
        return labels

    def _best_threshold(self, logs: Array, codes: Rows, weights: Array | None) -> float:
        """The threshold of the least loss, the one in the middle of those that are equally good."""
        P = np.unique(np.exp(logs[:, 1]))
        tried = np.unique(np.quantile(0.5 * (P[:-1] + P[1:]), np.linspace(0, 1, THRESHOLDS))) if P.size > 1 else P
        tried = np.clip(tried, 1e-12, 1.0 - 1e-12)
        losses = np.array([self.scorer.loss(codes, logs, self.labels_by(logs, t), weights) for t in tried])
        best = tried[losses <= losses.min() + 1e-12]
        return float(best[best.size // 2])

    def simplest(self, train: Rows, test: Rows) -> Array:
        """Return outputs of the simplest rule: how frequent each class is, in logarithms. → (m, c)."""
        counts = np.bincount(self.codes[train], self.weights_of(train), minlength=self.count)
        return np.tile(np.log(np.maximum(counts / counts.sum(), 0.5 / train.size)), (test.size, 1))


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


def fit_temperature(outputs: Array, codes: NDArray[np.intp], weights: Array | None = None) -> float:
    """Return the factor that makes ``softmax(factor * outputs)`` most likely on held-out rows."""
    size = float(outputs.std()) or 1.0
    low, high = (math.log(bound / size) for bound in RANGE)

    def penalised(t: float) -> float:
        logs = log_softmax(math.exp(t) * outputs, axis=1)
        return log_loss(codes, logs, weights) - PRIOR * float(logs.mean()) / codes.size

    return math.exp(float(minimize_scalar(penalised, bounds=(low, high), method="bounded").x))


def fit_softmax(outputs: Array, codes: NDArray[np.intp], weights: Array | None = None) -> tuple[float, Array]:
    """Return what makes ``softmax(factor * outputs + constants)`` most likely on held-out rows.

    Constants are fitted where those of one half of the rows make the other half more likely, and hardly more errors.
    """
    best, before = _scaled, np.full(2, np.inf)
    for way, share in ((_scaled, 1.0), (_with_constants, 1.0), (_about_shares, FLAT)):
        after = _on_other_halves(way, outputs, codes, weights)
        if after[0] < share * before[0] and after[1] <= before[1] + SLACK * math.sqrt(before[1]):
            best, before = way, after
    return best(outputs, codes, weights)


def _on_other_halves(way: Calibration, outputs: Array, codes: NDArray[np.intp], weights: Array | None) -> Array:
    """Log-loss and errors on each half of the rows after calibration on the other."""
    halves = [np.arange(part, codes.size, 2) for part in (0, 1)]
    found = np.zeros(2)
    for learn, judge in (halves, halves[::-1]) if codes.size > 1 else ():
        some, others = (None if weights is None else weights[half] for half in (learn, judge))
        factor, constants = way(outputs[learn], codes[learn], some)
        found = found + _judged(factor * outputs[judge] + constants, codes[judge], others)
    return found


def _judged(scores: Array, codes: NDArray[np.intp], weights: Array | None) -> Array:
    """The sum of log-losses, and the errors."""
    logs = log_softmax(scores, axis=1)
    return codes.size * np.array([log_loss(codes, logs, weights), error(codes, logs, np.argmax(logs, axis=1), weights)])


def _scaled(outputs: Array, codes: NDArray[np.intp], weights: Array | None) -> tuple[float, Array]:
    """The factor alone."""
    return fit_temperature(outputs, codes, weights), np.zeros(outputs.shape[1])


def _about_shares(outputs: Array, codes: NDArray[np.intp], weights: Array | None) -> tuple[float, Array]:
    """The factor and constants of outputs that hardly differ: those on average mean the shares of the classes.

    So say support vector machines of a rare class with a small C: they rank rows well, by outputs close to -1.
    """
    centre, counts = np.average(outputs, axis=0, weights=weights), np.bincount(codes, weights, outputs.shape[1])
    if not counts.all():
        return _scaled(outputs, codes, weights)
    shares = np.log(counts)
    factor, constants = _with_constants(outputs - centre, codes, weights, shares - shares.mean(), WIDE)
    return factor, constants - factor * (centre - centre.mean())


def _with_constants(
    outputs: Array, codes: NDArray[np.intp], weights: Array | None, usual: Any = 0.0, spread: float = SPREAD
) -> tuple[float, Array]:
    """The factor and constants, which a normal prior draws to the usual ones: few rows move them little."""
    (m, c), hot = outputs.shape, np.arange(outputs.shape[1]) == codes[:, None]
    w = np.ones((m, 1)) if weights is None else (weights * (m / weights.sum()))[:, None]

    def objective(x: Array) -> tuple[float, Array]:
        factor, constants = math.exp(x[0]), x[1:]
        logs = log_softmax(factor * outputs + usual + constants, axis=1)
        # Of the log-likelihood, and of the prior rows, which are of every class in equal parts.
        slope = (w + PRIOR / m) * np.exp(logs) - w * hot - PRIOR / (m * c)
        pull = constants / spread**2
        value = log_loss(codes, logs, weights) - PRIOR * float(logs.mean()) / m + 0.5 * float(constants @ pull) / m
        by_factor = factor * float(np.sum(slope * outputs)) / m
        return value, np.append(by_factor, slope.sum(axis=0) / m + pull / m)

    start = np.append(math.log(fit_temperature(outputs, codes, weights)), np.zeros(c))
    found = minimize(objective, start, jac=True, method="L-BFGS-B").x
    return math.exp(float(found[0])), np.asarray(usual + found[1:] - found[1:].mean())


def calibration_error(codes: NDArray[np.intp], logs: Array, weights: Array | None = None) -> float:
    """Return how far confidence and accuracy are apart, over bins of confidence: codes (m,), logs (m, c)."""
    confidence, right = np.exp(logs.max(axis=1)), np.argmax(logs, axis=1) == codes
    bins = np.minimum((confidence * BINS).astype(np.intp), BINS - 1)
    w = np.ones(codes.size) if weights is None else weights
    return float(np.abs(np.bincount(bins, w * (confidence - right))).sum() / w.sum())


def conformal_reach(residuals: Array, level: float, weights: Array | None = None) -> float:
    """Return how far from a prediction the target is, with some probability: split conformal prediction."""
    m = residuals.size
    return weighted_quantile(np.abs(residuals), min((m + 1) * level / m, 1.0), weights)
