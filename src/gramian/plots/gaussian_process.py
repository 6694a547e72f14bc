"""A Gaussian process along one input: its mean, its bands, some of its functions, and the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from gramian.inspection.fitted import Array, input_names, line_through, rows_of, sampled, unnamed
from gramian.plots.style import COLOURS, LINES, Display, ink

DRAWN = 2000
"""Observations drawn at most."""


@dataclass(eq=False, repr=False)
class GaussianProcessDisplay(Display):
    """The posterior of a Gaussian process along one input.

    Parameters
    ----------
    x : array of shape (m,)
        Where the process is drawn.
    mean, deviation : array of shape (m,)
        Of a new observation if the process knows its noise, else of the function.
    samples : array of shape (m, s)
        Functions drawn from the posterior, without noise.
    X, y : array of shape (n,)
        The data; empty if there are none.
    levels : tuple of float, default=(0.5, 0.9)
        The probabilities of the bands.
    label : str, default="x1"
        Name of the input.
    noisy : bool, default=False
        Whether the deviation is that of an observation.

    Attributes
    ----------
    {figure}
    mean_ : line
        The mean.
    bands_ : list of areas
        The bands, the widest first.
    samples_ : list of lines
        The functions.
    data_ : line
        The data.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian import GaussianProcessRegressor
    >>> from gramian.kernels import RBF
    >>> from gramian.plots import GaussianProcessDisplay
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> gp = GaussianProcessRegressor(RBF(1.0), alpha=0.01, optimizer=None).fit(X, np.sin(X[:, 0]))
    >>> display = GaussianProcessDisplay.from_estimator(gp)
    >>> display.mean.shape, display.samples.shape, display.X.size
    ((300,), (300, 3), 20)
    """

    size = (6.4, 3.8)

    x: Array
    mean: Array
    deviation: Array
    samples: Array
    X: Array
    y: Array
    levels: tuple[float, ...] = (0.5, 0.9)
    label: str = "x1"
    noisy: bool = False

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        feature: int = 0,
        levels: tuple[float, ...] = (0.5, 0.9),
        n_samples: int = 3,
        n_points: int = 300,
        margin: float = 0.08,
        random_state: int = 0,
        ax: Any = None,
    ) -> Self:
        """Evaluate a fitted process along one input, with the others held at their medians.

        Parameters
        ----------
        estimator : GaussianProcessRegressor
            Fitted, of one target.
        X : array-like of shape (n, d) or None, default=None
            Rows to draw; ``None`` for the training rows.
        y : array-like of shape (n,) or None, default=None
            Their targets.
        feature : int, default=0
            The input.
        levels : tuple of float, default=(0.5, 0.9)
            The probabilities of the bands.
        n_samples : int, default=3
            Functions to draw.
        n_points : int, default=300
            Points of the curves.
        margin : float, default=0.08
            How far the curves reach beyond the rows, relative to their range.
        random_state : int, default=0
            Seed of the functions.
        {ax}
        """
        check_is_fitted(estimator)
        if estimator.y_train_.ndim > 1:
            raise ValueError(
                f"the display draws one target, but this process has {estimator.y_train_.shape[1]}; "
                "fit one to each target."
            )
        rows = rows_of(estimator, X if X is not None else estimator.X_train_, what="a Gaussian process")
        if X is None:  # training targets in the user's units
            y = estimator.y_train_ * estimator._y_train_std + estimator._y_train_mean
        x, inputs = line_through(rows, feature, n_points, margin)
        with unnamed():
            mean, deviation = estimator.predict(inputs, return_std=True)
            draws = _functions(estimator, inputs, n_samples, random_state)
        keep = sampled(len(rows) if y is not None else 0, DRAWN, random_state)
        names = input_names(estimator, X, rows.shape[1])
        seen = np.asarray([] if y is None else y, dtype=np.float64)[keep]
        drawn, noisy = rows[keep, feature], estimator.noise_ > 0
        return cls(x, mean, deviation, draws, drawn, seen, tuple(levels), names[feature], noisy)._drawn(ax)

    def _draw(self) -> None:
        self.bands_ = []
        for level in sorted(self.levels, reverse=True):
            reach = float(ndtri(0.5 + 0.5 * level)) * self.deviation
            low, high = self.mean - reach, self.mean + reach
            self.bands_.append(self._band(self.x, low, high, f"{level:.0%} band"))
            self.ax_.plot(self.x, np.column_stack([low, high]), color=COLOURS[4], lw=0.6, alpha=0.8)
        self.samples_ = [
            self._line(self.x, f, 3, lw=0.8, ls=LINES[1 + i % 3], label="" if i else "a function")
            for i, f in enumerate(self.samples.T)
        ]
        self.mean_ = self._line(self.x, self.mean, lw=2.0, label="mean")
        if self.X.size:
            size = 4 if self.X.size <= 200 else 2
            (self.data_,) = self.ax_.plot(self.X, self.y, "o", ms=size, color=ink(), mew=0, alpha=0.75, label="data")
        self.ax_.set_xlim(self.x[0], self.x[-1])
        self._finish(self.label, "observation" if self.noisy else "function value", grid=False)


def _functions(estimator: Any, inputs: Array, count: int, random_state: int) -> Array:
    """Draws from the posterior without observation noise."""
    if count == 0:
        return np.empty((len(inputs), 0))
    mean, cov = estimator.predict(inputs, return_cov=True)
    noise = estimator.noise_ * float(np.atleast_1d(estimator._y_train_std)[0]) ** 2
    values, vectors = np.linalg.eigh(cov - noise * np.eye(len(inputs)))
    draws = np.random.default_rng(random_state).standard_normal((len(inputs), count))
    return np.asarray(mean[:, None] + vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * draws))
