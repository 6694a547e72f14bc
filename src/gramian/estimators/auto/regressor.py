"""AutoKernelRegressor: from a table and a number to predict to a tuned kernel machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import skew, spearmanr
from sklearn.base import RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _check_y

from gramian.data.blocks import Stream, by_blocks
from gramian.docstrings import documented
from gramian.estimators.auto.base import AutoKernel
from gramian.estimators.auto.response import MOST_LOG, Numbers, conformal_reach
from gramian.estimators.auto.scoring import scoring_of
from gramian.estimators.auto.tables import plain
from gramian.warning import warn

if TYPE_CHECKING:
    from gramian.data.predictions import Results

LARGEST = 1e150
"""The largest target, and the inverse of the least range of targets: squares of them are numbers still."""

SKEWED, DIFFERENT = 1.0, 10
"""The skewness of positive targets, and how many different ones there are, from which a log scale is tried."""
CORRELATION, DEVIATIONS, LEAST_TARGETS = 0.35, 5.0, 50
"""The rank correlation of predictions and sizes of residuals that is told, in itself and in deviations; and of how many
different targets, at least."""

Array = NDArray[np.float64]


@documented
@dataclass(eq=False, repr=False)
class AutoKernelRegressor(RegressorMixin, AutoKernel):
    """Regression by the kernel machine that a search finds best.

    Columns are read by their kind (numbers, categories, booleans, dates, free text; gaps are filled and marked) and
    brought to one scale in several ways. Gaussian processes with several kernels, one lengthscale for all columns, one
    each, or a metric of all directions, kernel ridge, support vectors and Huber's loss are judged by cross-validation:
    on few rows first, the better part on more. The winner, an average of the best where that helps rows which its
    weights were not learned from, is fitted to all rows: exactly where ``time_limit`` and ``memory`` allow, else by
    conjugate gradients, else through landmarks (``refit_`` says which, and why).

    Parameters
    ----------
    {those of AutoKernel}
    scoring : str, callable or None, default=None
        What to judge by: ``"rmse"`` (the default), ``"mae"``, ``"r2"``, ``"pinball-0.9"`` (predictions are then that
        quantile; any level), the name of a scorer of scikit-learn, or a callable as scikit-learn has it, whose X are
        row numbers.
    target_scale : {"auto", "linear", "log"}, default="auto"
        What machines learn: the targets or their logarithms, which makes predictions and intervals positive. By
        default logarithms are tried where targets are positive and skewed, and taken where rows held out say so.

    Attributes
    ----------
    leaderboard_ : Leaderboard
        Every trial, baselines (the mean, a linear model) included; prints as a table.
    {those of AutoKernel}
    best_ : estimator
        The winner, fitted to all rows as ``columns_`` and ``scaling_`` make them, its targets standardised; of an
        average, the machine that counts for most.
    weights_ : array of shape (1 + len(others_),)
        How much ``best_`` and each of ``others_`` count for.
    target_scale_ : str
        What machines learned: ``"linear"`` or ``"log"``.
    shift_ : float
        What is added to predictions on that scale, to suit ``scoring`` on rows held out: zero, unless it is a quantile
        or, for a log scale, the mean that is asked for.
    residuals_ : array of shape (m,)
        On that scale, without the shift, of rows that the fit they come from had not seen: intervals rest on them where
        the winner is no process.
    residual_weights_ : array of shape (m,) or None
        How much each of them counts.
    machine_ : str
        What ``best_`` is: ``"gp"``, ``"ridge"``, ``"svm"`` or ``"machine"``.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian import AutoKernelRegressor
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> model = AutoKernelRegressor(machines=["gp"], random_state=0).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[1.5]]).round(2)
    array([1.])
    >>> model.best_trial_.score < model.baseline_
    True
    """

    _: KW_ONLY
    target_scale: str = "auto"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AutoKernel._parameter_constraints,
        "target_scale": [StrOptions({"auto", "linear", "log"})],
    }

    def _response(self, y: Any, weights: Array | None) -> Numbers:
        y = column_or_1d(plain(y), warn=True)
        try:
            y = np.asarray(_check_y(y, y_numeric=True, estimator=self), dtype=np.float64)
        except ValueError as error:
            if "convert" not in str(error):
                raise
            raise ValueError(f"{error}; y must hold numbers. Use AutoKernelClassifier for classes.") from error
        if np.abs(y).max() > LARGEST or 0.0 < np.ptp(y) < 1.0 / LARGEST:
            raise ValueError(
                f"y lies between {y.min():.3g} and {y.max():.3g}, and squares of such numbers overflow or vanish; "
                "multiply y by a constant."
            )
        if self.target_scale == "log" and y.min() <= 0.0:
            raise ValueError(f"target_scale='log' needs positive targets, got {y.min():.6g}; use 'linear'.")
        return Numbers(y, scoring_of(self.scoring, classes=False), weights, self.target_scale == "log")

    def _rescaled(self, response: Any, judged: Callable[[Any], float]) -> Numbers:
        """The response on a log scale, where it is worth a trial and held-out rows are predicted better by it."""
        y = response.y
        if self.target_scale != "auto" or y.min() <= 0.0 or np.unique(y).size < DIFFERENT:
            return response
        log = replace(response, log=True)
        skewed = skew(y) > SKEWED and abs(skew(log.learned)) < skew(y)
        return log if skewed and judged(log) < judged(response) else response

    def _calibrate(self, response: Numbers, held: Array, rows: NDArray[np.intp]) -> Array:
        self.target_scale_ = "log" if response.log else "linear"
        self.shift_ = response.shift(held, rows)
        self.residuals_ = response.scale * (response.targets[rows, 0] - held[:, 0])
        self.residual_weights_ = response.weights_of(rows)
        predicted = response.predictions(held, self.shift_)
        if np.unique(response.y).size >= LEAST_TARGETS:
            self._warn_of_residuals(predicted)
        return predicted

    def _warn_of_residuals(self, predictions: Array) -> None:
        """Warn where the size of residuals depends on the prediction, so that intervals of one width fit none."""
        m = self.residuals_.size
        if (self.machine_ == "gp" and self.target_scale_ == "log") or m < LEAST_TARGETS or np.ptp(predictions) == 0.0:
            return
        rank = float(spearmanr(predictions, np.abs(self.residuals_)).statistic)
        if abs(rank) > max(CORRELATION, DEVIATIONS / math.sqrt(m)):
            grow = "grow" if rank > 0 else "shrink"
            of = "relative residuals" if self.target_scale_ == "log" else "residuals"
            warn(
                f"{of} {grow} with the prediction (rank correlation {rank:.2f}): intervals are too narrow for some "
                "rows and too wide for others."
            )

    @overload
    def predict(self, X: Stream, *, return_std: bool = ..., return_interval: float | None = ...) -> Results: ...
    @overload
    def predict(self, X: Any) -> Array: ...
    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[Array, Array]: ...
    @overload
    def predict(self, X: Any, *, return_interval: float) -> tuple[Array, Array, Array]: ...
    @overload
    def predict(self, X: Any, return_std: bool = ..., return_interval: float | None = ...) -> Any: ...
    @by_blocks
    def predict(self, X: Any, return_std: bool = False, return_interval: float | None = None) -> Any:
        """Predict, and say how sure the prediction is.

        A Gaussian process knows its own deviation for every row, and an average of them that of their mixture. For
        another machine the deviation is the root mean square of ``residuals_``, and the interval reaches as far as
        their quantile (split conformal prediction).

        Parameters
        ----------
        X : table of shape (m, d)
            New rows.
        return_std : bool, default=False
            Whether to return deviations of a new observation too.
        return_interval : float or None, default=None
            A probability: returns the ends of an interval that holds a new observation with it.

        Returns
        -------
        mean : array of shape (m,)
            Predictions.
        std : array of shape (m,)
            Deviations, with ``return_std``.
        lower, upper : array of shape (m,)
            Ends of the interval, with ``return_interval``.
        """
        if return_std and return_interval is not None:
            raise ValueError("At most one of return_std and return_interval can be requested.")
        if return_interval is not None and not 0.0 < return_interval < 1.0:
            raise ValueError(f"return_interval must be a probability between 0 and 1, got {return_interval!r}.")
        mean, variance = self._moments(X, return_std or return_interval is not None)
        f, weights = self._scale * mean, getattr(self, "residual_weights_", None)
        if not return_std and return_interval is None:
            return self._natural(f)
        reach: Any
        if variance is None:
            std = np.full(f.shape, float(np.sqrt(np.average(self.residuals_**2, weights=weights))))
            reach = 0.0 if return_std else conformal_reach(self.residuals_, float(return_interval or 0.0), weights)
        else:
            std = self._scale * np.sqrt(variance)
            reach = float(ndtri(0.5 + 0.5 * float(return_interval or 0.0))) * std
        if return_std:
            return self._natural(f), self._deviation(f, std)
        return self._natural(f), *(self._natural(end, shifted=False) for end in (f - reach, f + reach))

    def _moments(self, X: Any, spread: bool) -> tuple[Array, Array | None]:
        """Mean and, where all members are processes, variance of the mixture that they make, in units of targets."""
        weights, means, variances = [], [], []
        for weight, machine, model, Z in self._members(X):
            weights.append(weight)
            if spread and machine == "gp":
                mean, deviation = (np.asarray(part).ravel() for part in model.predict(Z, return_std=True))
                variances.append(deviation**2)
            else:
                mean = np.asarray(model.predict(Z), dtype=np.float64).ravel()
            means.append(mean)
        total = np.asarray(weights) @ np.stack(means)
        if len(variances) < len(means):
            return total, None
        apart = [v + (mean - total) ** 2 for v, mean in zip(variances, means, strict=True)]
        return total, np.asarray(weights) @ np.stack(apart)

    def _natural(self, f: Array, *, shifted: bool = True) -> Array:
        """Numbers on the scale that machines learn, less its centre, in units of the targets: f (m,)."""
        f = self._centre + f + (getattr(self, "shift_", 0.0) if shifted else 0.0)
        return np.exp(np.minimum(f, MOST_LOG)) if self._is_log else f

    def _deviation(self, f: Array, deviation: Array) -> Array:
        """Deviations on the scale that machines learn in units of the targets: of a log-normal law, for a log."""
        return self._natural(f) * np.sqrt(np.expm1(np.minimum(deviation**2, MOST_LOG))) if self._is_log else deviation

    @property
    def _is_log(self) -> bool:
        return getattr(self, "target_scale_", "linear") == "log"  # models that were saved before have none
