"""The response, numbers or classes: targets for least squares, scores of predictions, and what a user sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from gramian.estimators.auto.calibration import calibration_error, fit_temperature, log_loss

__all__ = ["Classes", "Judgement", "Numbers", "Response"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


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

    @property
    def strata(self) -> None:
        """What folds should hold equal shares of: nothing."""
        return None

    def from_least_squares(self, F: Array) -> Array:
        """Return outputs from predictions of ``targets``: F (m,) or (m, 1) → (m, 1)."""
        return F.reshape(-1, 1)

    def from_decisions(self, f: Array) -> Array:
        """Return outputs from predictions of ``labels``: f (m,) → (m, 1)."""
        return f.reshape(-1, 1)

    def judge(self, outputs: Array, rows: Rows, parts: Sequence[Rows]) -> Judgement:
        """Score outputs for some rows: outputs (m, 1), rows (m,)."""
        e = self.scale * (outputs[:, 0] - self.targets[rows, 0])
        each = [_mean_error(e[part], self.metric) for part in parts]
        variation = float(np.mean((self.y[rows] - self.y[rows].mean()) ** 2))
        r2 = 1.0 - float(np.mean(e**2)) / variation if variation > 0 else np.nan
        figures = {"rmse": float(np.sqrt(np.mean(e**2))), "mae": float(np.mean(np.abs(e))), "r2": r2}
        return Judgement(_mean_error(e, self.metric), float(np.std(each)), figures)

    def baseline(self, train: Rows) -> Array:
        """Return what the simplest rule says: the mean. → (1,)."""
        return np.array([self.targets[train, 0].mean()])


def _mean_error(e: Array, metric: str) -> float:
    return float(np.sqrt(np.mean(e**2)) if metric == "rmse" else np.mean(np.abs(e)))


@dataclass(frozen=True, eq=False)
class Classes:
    """A class to predict, by one-hot codes less their mean; of two classes, by one code of -1 and +1."""

    codes: Rows  # (n,): Which class each row has
    count: int  # How many classes there are
    metric: str  # What to judge by

    @cached_property
    def _one_hot(self) -> Array:
        if self.count == 2:
            return np.where(self.codes == 1, 1.0, -1.0)[:, None]
        return np.asarray(self.codes[:, None] == np.arange(self.count), dtype=np.float64)

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

    @property
    def strata(self) -> Rows:
        """What folds should hold equal shares of."""
        return self.codes

    def from_least_squares(self, F: Array) -> Array:
        """Return outputs from predictions of ``targets``: F (m,) or (m, c) → (m, c)."""
        return self.from_decisions(self.centre + self.scale * F.reshape(F.shape[0], -1))

    def from_decisions(self, f: Array, present: int | None = None) -> Array:
        """Return outputs from decision values: where one is given for two classes, half of it each way."""
        f = f.reshape(f.shape[0], -1)
        two = (self.count if present is None else present) == 2
        return 0.5 * np.hstack([-f, f]) if two and f.shape[1] == 1 else f

    def from_pairs(self, f: Array, present: int) -> Array:
        """Return outputs from decision values of pairs: for each class, what it lost in the comparisons that it lost.

        Of equal rank with votes, and unlike them a measure of how sure the winner is.
        """
        out = np.zeros((f.shape[0], present))
        for values, (i, j) in zip(f.T, combinations(range(present), 2), strict=True):
            out[:, i] += np.minimum(values, 0.0)
            out[:, j] -= np.maximum(values, 0.0)
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

    def baseline(self, train: Rows) -> Array:
        """Return what the simplest rule says: how frequent each class is, in logarithms. → (c,)."""
        counts = np.bincount(self.codes[train], minlength=self.count)
        return np.asarray(np.log(np.maximum(counts, 0.5) / train.size))


Response = Any
"""``Numbers`` or ``Classes``."""
