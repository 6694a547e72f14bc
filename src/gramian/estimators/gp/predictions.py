"""Predictions of a Gaussian process: from the prior before a fit, from the posterior after it."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils._param_validation import Interval, StrOptions

from gramian.data.blocks import Stream, by_blocks
from gramian.estimators.base import COMMON, validated
from gramian.gram.operator import narrow, wide
from gramian.kernels import RBF, Kernel, Scaled, resolve
from gramian.kernels.resolve import is_precomputed
from gramian.kernels.tunable import Nested
from gramian.resources import blas_threads, random_of

if TYPE_CHECKING:
    from gramian.data.predictions import Results

Noise = float | NDArray[np.float64]
"""One variance for all rows, or one for each row (n,)."""
DEFAULT = Scaled(RBF(1.0), 1.0)
"""The default prior covariance."""
LEARNING: dict[str, list[Any]] = {
    **COMMON,
    "kernel": [None, str, callable],
    "optimizer": [StrOptions({"fmin_l_bfgs_b"}), callable, None],
    "n_restarts_optimizer": [Interval(Integral, 0, None, closed="left")],
    "copy_X_train": ["boolean"],
    "start": [StrOptions({"data", "given"})],
}
"""Constraints on the parameters of processes that learn their kernel."""


class _Prior:
    """The prior process, with the methods of a posterior."""

    def __init__(self, kernel: Kernel, targets: int) -> None:
        self.kernel, self.targets = kernel, targets

    def mean(self, X: Any) -> NDArray[np.float64]:
        """Return zeros: X (m, d) → (m, t)."""
        return np.zeros((X.shape[0], self.targets))

    def variance(self, X: Any) -> NDArray[np.float64]:
        """Return k(x, x): X (m, d) → (m,)."""
        return np.asarray(self.kernel.diag(X))

    def covariance(self, X: Any) -> NDArray[np.float64]:
        """Return k(X, X): X (m, d) → (m, m)."""
        return np.asarray(self.kernel(X))


class Process(Nested):
    """The methods of a Gaussian process that need only its posterior."""

    if TYPE_CHECKING:  # parameters and learned attributes belong to the estimator

        def __getattr__(self, name: str) -> Any: ...

    @overload
    def predict(
        self, X: Stream, *, return_std: bool = ..., return_cov: bool = ..., return_interval: float | None = ...
    ) -> Results: ...
    @overload
    def predict(self, X: Any) -> NDArray[Any]: ...
    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def predict(self, X: Any, *, return_cov: Literal[True]) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def predict(self, X: Any, *, return_interval: float) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]: ...
    @overload
    def predict(
        self, X: Any, return_std: bool = ..., return_cov: bool = ..., return_interval: float | None = ...
    ) -> Any: ...
    @by_blocks
    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, return_interval: float | None = None
    ) -> Any:
        """Return the posterior mean and, if asked, its uncertainty; before a fit, those of the prior.

        The variance is computed only if asked for. Standard deviations are those of a new observation if the kernel
        contains noise (``White``, ``noise="learn"``), else those of the function.

        Parameters
        ----------
        X : array-like of shape (m, d)
            New rows.
        return_std : bool, default=False
            Whether to return standard deviations too.
        return_cov : bool, default=False
            Whether to return the joint covariance too.
        return_interval : float or None, default=None
            A probability: also returns the ends of the central interval of that probability.

        Returns
        -------
        mean : array of shape (m,) or (m, t)
            Posterior means.
        std : array of shape (m,) or (m, t)
            Standard deviations, with ``return_std``.
        cov : array of shape (m, m) or (m, m, t)
            Covariances, with ``return_cov``.
        lower, upper : array of shape (m,) or (m, t)
            Ends of the interval, with ``return_interval``.
        """
        if sum(map(bool, (return_std, return_cov, return_interval is not None))) > 1:
            raise RuntimeError(
                "At most one of return_std or return_cov can be requested. With return_interval, neither can."
            )
        if return_interval is not None and not 0.0 < return_interval < 1.0:
            raise ValueError(f"return_interval must be a probability between 0 and 1, got {return_interval!r}.")
        X = validated(self, X, reset=False)
        if (return_std or return_cov or return_interval is not None) and is_precomputed(self.kernel):
            raise ValueError(
                "a precomputed k(new, train) does not hold k(new, new), so only the mean can be predicted; "
                "pass the rows and their kernel instead."
            )
        with blas_threads(self.n_jobs):
            outputs = self._predictions(wide(X), return_std, return_cov, return_interval)
        outputs = tuple(narrow(out, X) for out in outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def _predictions(
        self, X: Any, return_std: bool, return_cov: bool, return_interval: float | None
    ) -> tuple[NDArray[np.float64], ...]:
        if hasattr(self, "posterior_"):
            centre, scale = np.atleast_1d(self._y_train_mean), np.atleast_1d(self._y_train_std)
            process = self.posterior_.under(self.memory, self.n_jobs)
        else:
            t = self.n_targets or 1
            centre, scale = np.zeros(t), np.ones(t)
            process = _Prior(DEFAULT if self.kernel is None else resolve(self.kernel, X), t)
        mean = _single(scale * process.mean(X) + centre)
        if return_cov:
            return mean, _single(scale**2 * process.covariance(X)[..., None])
        if not return_std and return_interval is None:
            return (mean,)
        std = _single(scale * np.sqrt(process.variance(X))[:, None])
        if return_std:
            return mean, std
        reach = float(ndtri(0.5 + 0.5 * float(return_interval or 0.0))) * std
        return mean, mean - reach, mean + reach

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> NDArray[Any]:
        """Draw functions from the posterior, before a fit the prior: X (m, d) → (m, n_samples) or (m, t, n_samples)."""
        rng = random_of(random_state)
        mean, cov = self.predict(X, return_cov=True)
        if mean.ndim == 1:
            return np.asarray(rng.multivariate_normal(mean, cov, n_samples).T)
        draws = [rng.multivariate_normal(mean[:, t], cov[..., t], n_samples).T for t in range(mean.shape[1])]
        return np.stack(draws, axis=1)


def _single(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Drop the last axis if there is a single target."""
    return values[..., 0] if values.shape[-1] == 1 else values
