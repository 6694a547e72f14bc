"""Gaussian process classification by the Laplace approximation."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from gramian.certificates import Certificate
from gramian.data.results import by_blocks
from gramian.estimators.base import (
    COMMON,
    NYSTROEM,
    kernel_tags,
    refuse_blocks,
    restored_on_failure,
    warn_unless_converged,
)
from gramian.estimators.gp.binary_laplace import BinaryLaplaceClassifier
from gramian.estimators.gp.process import checked_rows
from gramian.kernels.tunable import Nested
from gramian.resources import blas_threads

__all__ = ["GaussianProcessClassifier"]


class GaussianProcessClassifier(Nested, ClassifierMixin, BaseEstimator):
    """Gaussian process classification.

    A latent function has a Gaussian process prior and the logistic function makes probabilities of it. Its posterior
    is approximated by the Gaussian around the mode (Laplace); the probabilities average over that Gaussian. More than
    two classes are one process for each, or for each pair.

    Parameters
    ----------
    kernel : Kernel, str, callable, a kernel object of scikit-learn, or None, default=None
        The prior covariance; ``None`` for ``1.0 * RBF(1.0)`` with nothing to learn, as in scikit-learn.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        What maximises the evidence, as in ``GaussianProcessRegressor``.
    n_restarts_optimizer : int, default=0
        Further runs from random places within the kernel's bounds.
    max_iter_predict : int, default=100
        Newton steps for each mode at most.
    warm_start : bool, default=False
        Whether each mode is sought from the last one, also between fits.
    copy_X_train : bool, default=True
        Whether ``X_train_`` is a copy.
    random_state : int, RandomState or None, default=None
        Seed of the restarts.
    multi_class : {"one_vs_rest", "one_vs_one"}, default="one_vs_rest"
        What to do with more than two classes; pairs have no probabilities.
    n_jobs : int or None, default=None
        Threads; by default all. They work inside each problem, not on several problems at once.
    start : {"data", "given"}, default="data"
        Where the optimiser begins, as in ``GaussianProcessRegressor``.
    tol : float, default=1e-6
        The search ends where no slope of the evidence within the bounds exceeds √tol.
    max_iter : int, default=1000
        Steps of the optimiser in each run.
    max_time : float or None, default=None
        Seconds after which the search for hyperparameters stops, for each binary problem.
    memory : int, str or None, default=None
        Bytes that the fit, and a prediction beside what the fit keeps, may hold; by default half of what is available.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    base_estimator_ : estimator
        The binary classifier, or scikit-learn's OneVsRestClassifier or OneVsOneClassifier of several.
    kernel_ : Kernel or tuple of Kernel
        The kernel with learned parameters, or one for each binary problem.
    log_marginal_likelihood_value_ : float
        The approximate log evidence; its mean over the binary problems.
    classes_ : array of shape (c,)
        Labels.
    n_classes_ : int
        How many.
    certificate_ : Certificate
        Of the binary problem, or of the worst of them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gramian.estimators.gp.classifier import GaussianProcessClassifier
    >>> from gramian.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> gp = GaussianProcessClassifier(1.0 * RBF(1.0), random_state=0).fit(X, y)
    >>> round(gp.score(X, y), 3)
    0.987
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [None, str, callable],
        "optimizer": [StrOptions({"fmin_l_bfgs_b"}), callable, None],
        "n_restarts_optimizer": [Interval(Integral, 0, None, closed="left")],
        "max_iter_predict": [Interval(Integral, 1, None, closed="left")],
        "copy_X_train": ["boolean"],
        "multi_class": [StrOptions({"one_vs_rest", "one_vs_one"})],
        "start": [StrOptions({"data", "given"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        **COMMON,
    }

    def __init__(
        self,
        kernel: Any = None,
        *,
        optimizer: Any = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        max_iter_predict: int = 100,
        warm_start: bool = False,
        copy_X_train: bool = True,
        random_state: Any = None,
        multi_class: str = "one_vs_rest",
        n_jobs: int | None = None,
        start: str = "data",
        tol: float = 1e-6,
        max_iter: int = 1000,
        max_time: float | None = None,
        memory: int | str | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter_predict = max_iter_predict
        self.warm_start = warm_start
        self.copy_X_train = copy_X_train
        self.random_state = random_state
        self.multi_class = multi_class
        self.n_jobs = n_jobs
        self.start = start
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.memory = memory
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        return kernel_tags(super().__sklearn_tags__(), self.kernel)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the hyperparameters and find the modes.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows; a list of objects where the kernel compares objects.
        y : array-like of shape (n,)
            Labels.

        Returns
        -------
        GaussianProcessClassifier
            Itself.
        """
        refuse_blocks(self, X, f"KernelMachineClassifier('logistic', {NYSTROEM})")
        with restored_on_failure(self), blas_threads(self.n_jobs):
            return self._fit(X, y)

    def _fit(self, X: Any, y: Any) -> Self:
        X, y = checked_rows(self, X, y)
        check_classification_targets(y)
        classes = np.unique(y)
        if classes.size == 1:
            raise ValueError(
                "GaussianProcessClassifier requires 2 or more distinct classes; got 1 class (only class "
                f"{classes[0]} is present)."
            )
        estimator = self._binary(classes.size).fit(X, y)
        self.base_estimator_, self.classes_, self.n_classes_ = estimator, classes, classes.size
        self.log_marginal_likelihood_value_ = float(np.mean([b.log_marginal_likelihood() for b in self._parts]))
        self.certificate_ = _worst([b.certificate_ for b in self._parts])
        self.n_iter_ = max(self.certificate_.iterations, 1)
        warn_unless_converged(self.certificate_, self)
        return self

    def _binary(self, classes: int) -> Any:
        """What solves the task; with ``warm_start``, the one that solved the last."""
        shared = BinaryLaplaceClassifier().get_params(deep=False)
        params = {name: getattr(self, name) for name in shared}
        before = getattr(self, "base_estimator_", None)
        if classes == 2:
            if self.warm_start and isinstance(before, BinaryLaplaceClassifier):
                return before.set_params(**params)
            return BinaryLaplaceClassifier(**params)
        scheme = OneVsRestClassifier if self.multi_class == "one_vs_rest" else OneVsOneClassifier
        return scheme(BinaryLaplaceClassifier(**params))

    @property
    def _parts(self) -> list[Any]:
        return [self.base_estimator_] if self.n_classes_ == 2 else list(self.base_estimator_.estimators_)

    @property
    def kernel_(self) -> Any:
        """The learned kernel, or the kernels of the binary problems."""
        check_is_fitted(self, "base_estimator_")
        kernels = tuple(b.kernel_ for b in self._parts)
        return kernels[0] if self.n_classes_ == 2 else kernels

    @by_blocks
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class.

        Parameters
        ----------
        X : array-like of shape (m, d)
            New rows.

        Returns
        -------
        array of shape (m,)
            Labels.
        """
        check_is_fitted(self)
        return np.asarray(self.base_estimator_.predict(checked_rows(self, X, reset=False)))

    @by_blocks
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (m, d)
            New rows.

        Returns
        -------
        array of shape (m, c)
            In the order of ``classes_``.
        """
        check_is_fitted(self)
        if self.n_classes_ > 2 and self.multi_class == "one_vs_one":
            raise ValueError(
                "one_vs_one multi-class mode does not support predicting probability estimates. "
                "Use one_vs_rest mode instead."
            )
        X = checked_rows(self, X, reset=False)
        with blas_threads(self.n_jobs):
            return self._as(X, self.base_estimator_.predict_proba(X))

    def latent_mean_and_variance(self, X: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return mean and variance of the latent function of two classes.

        Parameters
        ----------
        X : array-like of shape (m, d)
            New rows.

        Returns
        -------
        tuple of array of shape (m,)
            Means and variances.
        """
        check_is_fitted(self)
        if self.n_classes_ > 2:
            raise ValueError(
                "Returning the mean and variance of the latent function f is only supported for binary "
                f"classification, received {self.n_classes_} classes."
            )
        X = checked_rows(self, X, reset=False)
        with blas_threads(self.n_jobs):
            mean, variance = self.base_estimator_.latent_mean_and_variance(X)
        return self._as(X, mean), self._as(X, variance)

    @staticmethod
    def _as(X: Any, values: NDArray[Any]) -> NDArray[Any]:
        return values.astype(np.float32) if X.dtype == np.float32 else values

    def log_marginal_likelihood(
        self, theta: ArrayLike | None = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> Any:
        """Return the approximate log evidence, averaged over the binary problems.

        Parameters
        ----------
        theta : array-like of shape (p,) or (b p,), or None, default=None
            Where: one theta for all b binary problems or one each; ``None`` for ``log_marginal_likelihood_value_``.
        eval_gradient : bool, default=False
            Whether to return the gradient too, by the theta that was given.
        clone_kernel : bool, default=True
            With ``False``, ``kernel_`` becomes the kernel at theta.

        Returns
        -------
        float, or tuple of float and array
            The value, and the gradient where it was asked for.
        """
        check_is_fitted(self)
        if theta is None:
            if eval_gradient:
                raise ValueError("Gradient can only be evaluated for theta!=None")
            return self.log_marginal_likelihood_value_
        theta, parts = np.asarray(theta, dtype=np.float64), self._parts
        size = parts[0].kernel_.theta.size
        if theta.shape not in ((size,), (size * len(parts),)):
            raise ValueError(
                f"Shape of theta must be either {size} or {size * len(parts)}. Obtained theta with shape {theta.shape}."
            )
        each = np.broadcast_to(theta.reshape(-1, size), (len(parts), size))
        with blas_threads(self.n_jobs):
            found = [
                b.log_marginal_likelihood(t, eval_gradient, clone_kernel) for b, t in zip(parts, each, strict=True)
            ]
        if not eval_gradient:
            return float(np.mean(found))
        slopes = np.array([slope for _, slope in found]) / len(parts)
        gradient = slopes.sum(axis=0) if theta.size == size else slopes.ravel()
        return float(np.mean([value for value, _ in found])), gradient


def _worst(certificates: list[Certificate]) -> Certificate:
    """The certificate that proves least, with the steps and the time of all."""
    worst = min(certificates, key=lambda c: (c.converged, -c.violation))
    return replace(
        worst,
        iterations=sum(c.iterations for c in certificates),
        seconds=max(c.seconds for c in certificates),
    )
