"""Sensitivity of a model to each input, as bars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gramian.inspection.fitted import Array
from gramian.inspection.sensitivity import Sensitivity, sensitivity
from gramian.numerals import shortened
from gramian.plots.style import COLOURS, HATCHES, Display, counted, ink, plain

BARS = 20
"""Inputs shown at most."""
WIDE = 28
"""Longest name, in characters."""


@dataclass(eq=False, repr=False)
class SensitivityDisplay(Display):
    """How much a fitted model depends on each input.

    By default the mean absolute slope of the fitted function, times the deviation of the input, so that inputs in
    other units compare: how far the prediction moves, to first order, when an input moves by one deviation.
    The marks are the quartiles of the slope over rows. With targets, how much worse predictions get when a column is
    shuffled. Neither says what causes what.

    Parameters
    ----------
    importance : array of shape (d,)
        How much each input matters.
    low, high : array of shape (d,)
        Where the marks are.
    names : list of str
        Names of the inputs.
    scaled : bool, default=True
        Whether slopes are per deviation, or per unit.
    unit : str or None, default=None
        What ``importance`` is, in words; ``None`` for slopes.
    method : {"gradient", "leave_out", "permutation"}, default="gradient"
        How it was measured.

    Attributes
    ----------
    {figure}
    bars_ : bar container
        The largest 20, the largest on top.

    See Also
    --------
    gramian.inspection.sensitivity : The numbers, and what they mean.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian import KernelRidge
    >>> from gramian.kernels import RBF
    >>> from gramian.plots import SensitivityDisplay
    >>> X = np.random.default_rng(0).standard_normal((100, 2))
    >>> model = KernelRidge(1e-3, kernel=RBF(3.0)).fit(X, 5 * X[:, 0])
    >>> SensitivityDisplay.from_estimator(model).importance.round(0)
    array([5., 0.])
    """

    importance: Array
    low: Array
    high: Array
    names: list[str]
    scaled: bool = True
    unit: str | None = None
    method: str = "gradient"

    @property
    def size(self) -> tuple[float, float]:  # type: ignore[override]
        """Size of the figure, higher with more bars."""
        return 5.0, 0.9 + 0.3 * min(max(len(self.names), 3), BARS)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        method: str | None = None,
        scoring: Any = None,
        scaled: bool = True,
        random_state: int = 0,
        ax: Any = None,
    ) -> Self:
        """Measure a fitted model.

        Parameters
        ----------
        estimator : estimator
            Fitted; automatic ones, pipelines and searches included.
        X : table or array-like of shape (n, d), or None, default=None
            Rows; ``None`` for those that the fit keeps.
        y : array-like of shape (n,) or None, default=None
            Targets, to see how much worse predictions get when a column is shuffled.
        method : {"gradient", "leave_out", "permutation"} or None, default=None
            What to measure; ``None`` for ``"permutation"`` if y is given, else ``"gradient"``.
        scoring : str, callable or None, default=None
            What shuffled columns are judged by: a scorer of scikit-learn.
        scaled : bool, default=True
            Whether slopes are per deviation of the input, or per unit.
        random_state : int, default=0
            Seed of the rows drawn, at most 500, and of the shuffles.
        {ax}
        """
        options: Any = {"method": method, "scoring": scoring, "scaled": scaled, "random_state": random_state}
        display = cls.from_sensitivity(sensitivity(estimator, X, y, **options), ax=False)
        display.scaled = scaled
        return display._drawn(ax)

    @classmethod
    def from_sensitivity(cls, found: Sensitivity, *, ax: Any = None) -> Self:
        """Draw an existing measurement.

        Parameters
        ----------
        found : Sensitivity
            From ``gramian.inspection.sensitivity``.
        {ax}
        """
        values = (found.importance, found.low, found.high, found.names)
        return cls(*values, unit=found.unit, method=found.method)._drawn(ax)

    def _draw(self) -> None:
        known = np.flatnonzero(~np.isnan(self.importance))  # inputs that are not numbers have no slope
        order = known[np.argsort(-self.importance[known], kind="stable")][:BARS]
        places = np.arange(len(order))[::-1]
        kind = int(self.method != "gradient")
        look: dict[str, Any] = {"color": COLOURS[kind * 2], "hatch": HATCHES[kind], "alpha": 0.75}
        self.bars_ = self.ax_.barh(places, self.importance[order], 0.66, **look)
        self.ax_.hlines(places, self.low[order], self.high[order], color=ink(), lw=1.4)
        self.ax_.plot(self.low[order], places, "|", self.high[order], places, "|", color=ink(), ms=7)
        self.ax_.set_yticks(places, [plain(shortened(self.names[j], WIDE)) for j in order])
        self.ax_.tick_params(axis="y", length=0)
        self.ax_.set_xlim(left=min(0.0, float(self.low[order].min(initial=0.0))))
        counted(self.ax_.xaxis)
        self.ax_.set_xlabel(self.unit or f"mean |slope| per {'deviation' if self.scaled else 'unit'}")
