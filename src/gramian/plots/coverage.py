"""Coverage of prediction intervals: promised against observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from scipy.stats import binom

from gramian.inspection.fitted import Array
from gramian.plots.style import MUTED, Display, ink

LEVELS = np.linspace(0.05, 0.95, 19)


@dataclass(eq=False, repr=False)
class CoverageDisplay(Display):
    """The share of observations within central intervals, against the probability that the intervals promise.

    On the diagonal, what was promised is what happened; below it, the model is too sure. The grey area is where 95% of
    honest models would be on so many rows.

    Parameters
    ----------
    levels : array of shape (p,)
        Probabilities promised.
    observed : array of shape (p,)
        Shares of observations within.
    n_rows : int
        How many observations there were.

    Attributes
    ----------
    {figure}
    line_ : line
        Observed against promised.
    band_ : area
        What chance explains.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.plots import CoverageDisplay
    >>> y = np.random.default_rng(0).standard_normal(500)
    >>> display = CoverageDisplay.from_predictions(y, np.zeros(500), np.ones(500))
    >>> bool(abs(display.observed - display.levels).max() < 0.05)
    True
    """

    size = (4.4, 4.4)

    levels: Array
    observed: Array
    n_rows: int

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, *, ax: Any = None) -> Self:
        """Count how often the intervals of a fitted process hold new observations.

        Parameters
        ----------
        estimator : GaussianProcessRegressor
            Fitted. If its noise is in ``alpha`` and not in the kernel, its deviations are those of the function,
            and observations scatter more.
        X : array-like of shape (n, d)
            Rows that it has not seen.
        y : array-like of shape (n,)
            What was observed.
        {ax}
        """
        mean, deviation = estimator.predict(X, return_std=True)
        return cls.from_predictions(y, mean, deviation, ax=ax)

    @classmethod
    def from_predictions(cls, y: ArrayLike, mean: ArrayLike, deviation: ArrayLike, *, ax: Any = None) -> Self:
        """Count how often normal intervals hold observations.

        Parameters
        ----------
        y : array-like of shape (n,) or (n, t)
            What was observed.
        mean, deviation : array-like of the same shape
            What was predicted.
        {ax}
        """
        y, mean, deviation = (np.asarray(a, dtype=np.float64) for a in (y, mean, deviation))
        if not y.shape == mean.shape == deviation.shape:
            raise ValueError(f"y, mean and deviation must agree, got {y.shape}, {mean.shape}, {deviation.shape}.")
        away = np.abs(y - mean)
        # The smallest probability whose interval contains the observation.
        reached = 2.0 * ndtr(np.divide(away, deviation, out=np.where(away > 0, np.inf, 0.0), where=deviation > 0)) - 1.0
        observed = np.array([np.mean(reached <= level) for level in LEVELS])
        return cls(LEVELS.copy(), observed, int(y.size))._drawn(ax)

    def _draw(self) -> None:
        grid = np.linspace(0.0, 1.0, 101)
        low, high = (binom.ppf(q, self.n_rows, grid) / self.n_rows for q in (0.025, 0.975))
        self.band_ = self._band(grid, low, high, "chance, 95%", MUTED)
        self.ax_.plot([0, 1], [0, 1], color=ink(), lw=1.0, ls="--", label="as promised")
        self.line_ = self._line(self.levels, self.observed, marker="o", ms=4, label=f"{self.n_rows:,} rows")
        self.ax_.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        self._finish("probability promised", "share of observations inside", grid=False, legend="upper left")
