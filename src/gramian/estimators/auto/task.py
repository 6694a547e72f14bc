"""What is to be predicted: targets for least squares, scores of predictions, and what a user sees of them."""

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

__all__ = ["Classes", "Judgement", "Numbers", "Task"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Judgement:
    """How good predictions of held-out rows are.

    Parameters
    ----------
    score : float
        Less is better.
    spread : float
        Standard deviation over the parts.
    figures : dict
        Further measures.
    """

    score: float
    spread: float
    figures: dict[str, float]


@dataclass(frozen=True, eq=False)
class Numbers:
    """A number to predict, by its deviation from the mean in units of its spread.

    Parameters
    ----------
    y : array of shape (n,)
        The targets.
    metric : {"rmse", "mae"}
        What to judge by.
    """

    y: Array
    metric: str

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
        """Return outputs from predictions of ``targets``.

        Parameters
        ----------
        F : array of shape (m,) or (m, 1)
            Predictions.

        Returns
        -------
        array of shape (m, 1)
            Outputs.
        """
        return F.reshape(-1, 1)

    def from_decisions(self, f: Array) -> Array:
        """Return outputs from predictions of ``labels``.

        Parameters
        ----------
        f : array of shape (m,)
            Predictions.

        Returns
        -------
        array of shape (m, 1)
            Outputs.
        """
        return f.reshape(-1, 1)

    def judge(self, outputs: Array, rows: Rows, parts: Sequence[Rows]) -> Judgement:
        """Score outputs for some rows.

        Parameters
        ----------
        outputs : array of shape (m, 1)
            In units of ``targets``.
        rows : array of shape (m,)
            Which rows they are for.
        parts : sequence of array
            Positions among them, each scored by itself.

        Returns
        -------
        Judgement
            In the units of y.
        """
        e = self.scale * (outputs[:, 0] - self.targets[rows, 0])
        each = [_mean_error(e[part], self.metric) for part in parts]
        variation = float(np.mean((self.y[rows] - self.y[rows].mean()) ** 2))
        r2 = 1.0 - float(np.mean(e**2)) / variation if variation > 0 else np.nan
        figures = {"rmse": float(np.sqrt(np.mean(e**2))), "mae": float(np.mean(np.abs(e))), "r2": r2}
        return Judgement(_mean_error(e, self.metric), float(np.std(each)), figures)

    def baseline(self, train: Rows) -> Array:
        """Return what the simplest rule says: the mean.

        Parameters
        ----------
        train : array of int
            Rows to learn it from.

        Returns
        -------
        array of shape (1,)
            The same output for every row.
        """
        return np.array([self.targets[train, 0].mean()])


def _mean_error(e: Array, metric: str) -> float:
    return float(np.sqrt(np.mean(e**2)) if metric == "rmse" else np.mean(np.abs(e)))


@dataclass(frozen=True, eq=False)
class Classes:
    """A class to predict, by one-hot codes less their mean; of two classes, by one code of -1 and +1.

    Parameters
    ----------
    codes : array of int of shape (n,)
        Which class each row has.
    count : int
        How many classes there are.
    metric : {"error", "log_loss"}
        What to judge by.
    """

    codes: Rows
    count: int
    metric: str

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
        """Return outputs from predictions of ``targets``.

        Parameters
        ----------
        F : array of shape (m,) or (m, c)
            Predictions.

        Returns
        -------
        array of shape (m, c)
            One value for each class.
        """
        return self.from_decisions(self.centre + self.scale * F.reshape(F.shape[0], -1))

    def from_decisions(self, f: Array, present: int | None = None) -> Array:
        """Return outputs from decision values: where one is given for two classes, half of it each way.

        Parameters
        ----------
        f : array of shape (m,) or (m, c)
            Decision values.
        present : int or None, default=None
            How many classes the machine knows; by default all.

        Returns
        -------
        array of shape (m, c)
            One value for each class.
        """
        f = f.reshape(f.shape[0], -1)
        two = (self.count if present is None else present) == 2
        return 0.5 * np.hstack([-f, f]) if two and f.shape[1] == 1 else f

    def from_pairs(self, f: Array, present: int) -> Array:
        """Return outputs from decision values of pairs: for each class, what it lost in the comparisons that it lost.

        Of equal rank with votes, and unlike them a measure of how sure the winner is.

        Parameters
        ----------
        f : array of shape (m, c (c - 1) / 2)
            A value for each pair of classes in order, positive for the first.
        present : int
            c, the classes that the machine knows.

        Returns
        -------
        array of shape (m, c)
            One value for each class, zero at most.

        Examples
        --------
        >>> import numpy as np
        >>> from gramian.estimators.auto.task import Classes
        >>> Classes(np.array([0, 1, 2]), 3, "error").from_pairs(np.array([[1.0, 2.0, -0.5]]), 3)
        array([[ 0. , -1.5, -2. ]])
        """
        out = np.zeros((f.shape[0], present))
        for values, (i, j) in zip(f.T, combinations(range(present), 2), strict=True):
            out[:, i] += np.minimum(values, 0.0)
            out[:, j] -= np.maximum(values, 0.0)
        return out

    def judge(self, outputs: Array, rows: Rows, parts: Sequence[Rows]) -> Judgement:
        """Score outputs for some rows; probabilities are their softmax, at the best temperature.

        Parameters
        ----------
        outputs : array of shape (m, c)
            The largest wins.
        rows : array of shape (m,)
            Which rows they are for.
        parts : sequence of array
            Positions among them, each scored by itself.

        Returns
        -------
        Judgement
            Error rate or log-loss.
        """
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
        """Return what the simplest rule says: how frequent each class is, in logarithms.

        Parameters
        ----------
        train : array of int
            Rows to learn it from.

        Returns
        -------
        array of shape (c,)
            The same outputs for every row.
        """
        counts = np.bincount(self.codes[train], minlength=self.count)
        return np.asarray(np.log(np.maximum(counts, 0.5) / train.size))


Task = Any
"""``Numbers`` or ``Classes``."""
