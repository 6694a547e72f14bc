"""AutoKernelRegressor: from a table and a number to predict to a tuned kernel machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.validation import _check_y

from gramian.data.blocks import Stream, by_blocks
from gramian.estimators.auto.base import AutoKernel
from gramian.estimators.auto.response import Numbers, conformal_reach
from gramian.features.base import parameters_checked

if TYPE_CHECKING:
    from gramian.data.results import Results

LARGEST = 1e150
"""The largest target, and the inverse of the least range of targets: squares of them are numbers still."""

Array = NDArray[np.float64]


class AutoKernelRegressor(RegressorMixin, AutoKernel):
    """Regression by the kernel machine that a search finds best.

    Columns are read by their kind (numbers, categories, booleans, dates, free text; gaps are filled and marked) and
    brought to one scale in two ways. Gaussian processes with several kernels, one lengthscale for all columns or one
    each, kernel ridge, support vectors and Huber's loss are judged by cross-validation: on few rows first, the better
    part on more. The winner is fitted to all rows: exactly where ``time_limit`` and ``memory`` allow, else by conjugate
    gradients, else through landmarks (``refit_`` says which, and why).

    Parameters
    ----------
    time_limit : float or None, default=60.0
        Seconds for the whole fit; ``None`` tries everything. Too short for one trial is a ``TimeoutError``. The sizes
        of the last fit follow from it by counting operations; what the clock cuts is said in ``refit_``.
    memory : int, str or None, default=None
        Bytes to hold at most, as a number or ``"2GB"``; by default half of what is available, rounded down to a
        power of two.
    cv : int, default=5
        Folds. With more than 2,000 rows, one part is held out instead and cut into so many for the spread.
    machines : "auto" or list of {"gp", "ridge", "svm", "machine"}, default="auto"
        What may be tried.
    kernel : Kernel, str or None, default=None
        The only kernel to be tried, on the columns as ``columns_`` makes them; ``None`` for a choice of kernels.
    scoring : {"rmse", "mae"} or None, default=None
        What to judge by; ``None`` for the root mean squared error.
    random_state : int, RandomState, Generator or None, default=None
        Seed: with the same, and time for the same trials, the model is the same.
    n_jobs : int or None, default=None
        Threads; ``None`` for every core.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    leaderboard_ : Leaderboard
        Every trial, baselines (the mean, a linear model) included; prints as a table.
    best_trial_ : Trial
        The winner's.
    best_ : estimator
        The winner, fitted to all rows as ``columns_`` and ``scaling_`` make them, its targets standardised.
    refit_ : str
        How it was fitted to all rows, and why so.
    baseline_ : float
        The score of the better baseline, to compare ``best_trial_.score`` with.
    columns_ : Encoding
        How every column was read; prints as a list.
    scaling_ : Standard or Normal
        How numbers were scaled.
    residuals_ : array of shape (m,)
        Of rows that the fit they come from had not seen: intervals rest on them where the winner is no process.
    machine_ : str
        What ``best_`` is: ``"gp"``, ``"ridge"``, ``"svm"`` or ``"machine"``.
    certificate_ : Certificate
        Of the last fit.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, where X had names.

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

    @parameters_checked
    def fit(self, X: Any, y: Any = None) -> Self:
        """Search, and fit the winner to all rows.

        Parameters
        ----------
        X : data frame of pandas or polars, table of pyarrow, array or nested list, of shape (n, d); Blocks or path
            The table. Of blocks, the search looks at a sample, and the winner's kernel is fitted to all rows.
        y : array-like of shape (n,)
            Numbers to predict.

        Returns
        -------
        AutoKernelRegressor
            The fitted estimator.
        """
        return self._fit(X, y)

    def _response(self, y: Any) -> Numbers:
        metric = self._metric(("rmse", "mae"))
        y = column_or_1d(_plain(y), warn=True)
        y = np.asarray(_check_y(y, y_numeric=True, estimator=self), dtype=np.float64)
        if np.abs(y).max() > LARGEST or 0.0 < np.ptp(y) < 1.0 / LARGEST:
            raise ValueError(
                f"y lies between {y.min():.3g} and {y.max():.3g}, and squares of such numbers overflow or vanish; "
                "multiply y by a constant."
            )
        return Numbers(y, metric)

    def _calibrate(self, response: Numbers, held: Array, rows: NDArray[np.intp]) -> None:
        self.residuals_ = response.scale * (response.targets[rows, 0] - held[:, 0])

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

        A Gaussian process knows its own deviation for every row. For another machine the deviation is the root mean
        square of ``residuals_``, and the interval reaches as far as their quantile (split conformal prediction).

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
        Z = self._rows(X)
        if self.machine_ == "gp" and (return_std or return_interval is not None):
            found = self.best_.predict(Z, return_std=return_std, return_interval=return_interval)
            mean, *others = (np.asarray(part).ravel() for part in found)
            mean = self._centre + self._scale * mean
            if return_std:
                return mean, self._scale * others[0]
            return mean, *(self._centre + self._scale * end for end in others)
        mean = self._centre + self._scale * np.asarray(self.best_.predict(Z), dtype=np.float64).ravel()
        if return_std:
            return mean, np.full(mean.shape, float(np.sqrt(np.mean(self.residuals_**2))))
        if return_interval is not None:
            reach = conformal_reach(self.residuals_, return_interval)
            return mean, mean - reach, mean + reach
        return mean


def _plain(y: Any) -> Any:
    """A column of a table of any library as an array."""
    return y.to_numpy() if hasattr(y, "to_numpy") and not hasattr(y, "iloc") else y
