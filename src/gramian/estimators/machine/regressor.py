"""KernelMachineRegressor: kernel regression with any loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from gramian.data.blocks import by_blocks
from gramian.data.passes import Part
from gramian.docstrings import documented
from gramian.estimators.machine.base import Exact, InFeatures, Machine
from gramian.gram.operator import narrow
from gramian.solvers.in_features.least_squares import targets_of


@dataclass(frozen=True, eq=False)
class NumberTargets:
    """Numeric targets: each column, repeated for every part of the loss."""

    loss: Any
    losses: tuple[Any, ...]  # One for each function

    def of(self, part: Part) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
        """Return the targets of each function, and weights."""
        Y = targets_of(part)
        if hasattr(self.loss, "check_targets") and Y.any():  # A single part may hold only zeros
            self.loss.check_targets(Y)
        return [Y[:, [j]] for j in range(Y.shape[1]) for _ in range(len(self.losses) // Y.shape[1])], part.weights


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelMachineRegressor(Machine, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Kernel regression with any loss: the f and b that minimise ``mean_i w_i loss(f(x_i) + b, y_i) + penalty(‖f‖)``.

    By the representer theorem f is a kernel expansion in the training rows for every loss, so one estimator covers
    least squares, medians and quantiles, robust and support vector regression and Poisson counts, each with a duality
    gap.

    Parameters
    ----------
    loss : str or object, default="huber"
        ``"squared"``, ``"absolute"``, ``"huber"``, ``"quantile"``, ``"epsilon_insensitive"``, ``"poisson"``; a loss of
        ``gramian.losses`` with its parameters; or any object with ``value(f, y)`` and ``gradient(f, y)``.
        ``Quantile([0.1, 0.9])`` predicts one column per quantile.
    {those of MachineParameters}

    Attributes
    ----------
    {those of MachineParameters}

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.machine.regressor import KernelMachineRegressor
    >>> from gramian.losses import Quantile
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, (200, 1))
    >>> y = np.sin(X[:, 0]) + rng.standard_normal(200)
    >>> model = KernelMachineRegressor(Quantile([0.1, 0.9]), lam=1e-2).fit(X, y)
    >>> (y[:, None] < model.predict(X)).mean(axis=0).round(1)
    array([0.1, 0.9])
    >>> model.certificate_.converged
    True
    """

    _task: ClassVar[str] = "regression"
    _wrong: ClassVar[str] = "labels; use KernelMachineClassifier, or a loss for numbers."

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = positive = self._counts()
        # No tag says "several targets, all of them counts"; scikit-learn's own estimators for counts take one target.
        tags.target_tags.multi_output = not positive
        return tags

    def _counts(self) -> bool:
        """Whether the loss allows no negative targets."""
        return bool(self.loss == "poisson" or getattr(self.loss, "positive", False))

    def _validated(self, X: Any, y: Any, *, reset: bool = True) -> tuple[Any, NDArray[np.float64]]:
        X, y = super()._validated(X, y, reset=reset)
        return X, column_or_1d(y, warn=True) if self._counts() and y.ndim == 2 and y.shape[1] == 1 else y

    def _targets(self, loss: Any, place: Exact | InFeatures) -> NumberTargets:
        parts, Y = tuple(getattr(loss, "parts", (loss,))), targets_of(place.sample)
        if len(parts) > 1 and Y.shape[1] > 1:
            raise ValueError(f"several quantiles need a single target, got {Y.shape[1]}; fit each target by itself.")
        if hasattr(loss, "check_targets"):
            loss.check_targets(Y)
        return NumberTargets(loss, parts * Y.shape[1])

    @by_blocks
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict targets, by tiles of at most ``memory`` bytes.

        Parameters
        ----------
        X : array-like or CSR of shape (m, d)
            Rows; k(new, train) if the kernel is precomputed.

        Returns
        -------
        array of shape (m,) or (m, k)
            What the loss estimates: a mean, a median, a quantile, the mean of a count; float32 if X is and they fit
            into float32.
        """
        check_is_fitted(self)
        X = self._validated_rows(X)
        f = self._values(X)
        link = getattr(self.loss_, "inverse_link", None)
        out = narrow(f if link is None else np.asarray(link(f)), X)
        return out[:, 0] if np.ndim(self.intercept_) == 0 else out
