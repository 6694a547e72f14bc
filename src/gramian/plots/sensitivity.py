"""Sensitivity of predictions to each input: mean absolute slopes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gramian.plots.fitted import Array, decision_values, input_names, rows_of, sampled
from gramian.plots.style import COLOURS, Display, ink, plain

ROWS = 500
"""Rows at which slopes are taken, at most."""
BARS = 20
"""Inputs that are shown."""
STEP = 1e-4
"""Step of a difference quotient, relative to the deviation of the input."""


@dataclass(eq=False, repr=False)
class SensitivityDisplay(Display):
    """The mean absolute slope of the fitted function in each input, over the rows.

    Slopes are times the deviation of the input, so that inputs in other units compare: how far the prediction moves
    when an input moves by one deviation, if it went on as it begins. The marks are the quarter of rows with the least
    and with the largest slope. It says what the model uses, not what causes what.

    Parameters
    ----------
    importance : array of shape (d,)
        Mean absolute slopes.
    low, high : array of shape (d,)
        Their quartiles over the rows.
    names : list of str
        Names of the inputs.
    scaled : bool, default=True
        Whether slopes are per deviation, or per unit.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it was drawn.
    bars_ : bar container
        The largest 20, the largest on top.

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

    @property
    def size(self) -> tuple[float, float]:  # type: ignore[override]
        """Of a figure: as high as there are bars."""
        return 5.0, 0.9 + 0.3 * min(max(len(self.names), 3), BARS)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, *, scaled: bool = True, random_state: int = 0, ax: Any = None
    ) -> Self:
        """Take the slopes of a fitted function.

        Exact where the model is a kernel expansion (``function_``), by differences of its decision values elsewhere.
        Of several functions, as of a machine for several classes, the mean.

        Parameters
        ----------
        estimator : estimator
            Fitted.
        X : array-like of shape (n, d) or None, default=None
            Rows; ``None`` for those that the fit keeps.
        scaled : bool, default=True
            Whether slopes are per deviation of the input, or per unit.
        random_state : int, default=0
            Draws at most 500 of the rows.
        ax : matplotlib axes, None or False, default=None
            Where to draw; ``None`` for a figure of its own, ``False`` not yet.

        Returns
        -------
        SensitivityDisplay
            Drawn, unless ``ax`` is ``False``.
        """
        rows = rows_of(estimator, X, what="a sensitivity")
        deviation = rows.std(axis=0)
        rows = rows[sampled(len(rows), ROWS, random_state)]
        slopes = _slopes(estimator, rows, deviation)
        slopes = slopes * deviation if scaled else slopes
        low, high = np.quantile(slopes, [0.25, 0.75], axis=0)
        return cls(slopes.mean(axis=0), low, high, input_names(estimator, X, rows.shape[1]), scaled)._drawn(ax)

    def _draw(self) -> None:
        order = np.argsort(-self.importance, kind="stable")[:BARS]
        places = np.arange(len(order))[::-1]
        self.bars_ = self.ax_.barh(places, self.importance[order], 0.66, color=COLOURS[0], alpha=0.75)
        self.ax_.hlines(places, self.low[order], self.high[order], color=ink(), lw=1.4)
        self.ax_.plot(self.low[order], places, "|", self.high[order], places, "|", color=ink(), ms=7)
        self.ax_.set_yticks(places, [plain(_short(self.names[j])) for j in order])
        self.ax_.tick_params(axis="y", length=0)
        self.ax_.set_xlim(left=0.0)
        self.ax_.set_xlabel(f"mean |slope| per {'deviation' if self.scaled else 'unit'}")


def _slopes(estimator: Any, rows: Array, deviation: Array) -> Array:
    """|∂f/∂x_j| at every row, the mean over functions."""
    functions = getattr(estimator, "function_", None)
    if functions is not None:
        found = [np.abs(f.gradient(rows)) for f in np.atleast_1d(np.asarray(functions, dtype=object))]
        return np.asarray(np.mean(found, axis=0))
    out = np.empty(rows.shape)
    for j in range(rows.shape[1]):
        step = np.zeros(rows.shape[1])
        step[j] = STEP * (deviation[j] or 1.0)
        rise = decision_values(estimator, rows + step)[0] - decision_values(estimator, rows - step)[0]
        out[:, j] = np.abs(rise).reshape(len(rows), -1).mean(axis=1) / (2.0 * step[j])
    return out


def _short(name: str, most: int = 28) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
