"""GaussianProcessClassifier: Gaussian process classification by the Laplace approximation."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from gramian.certificates import Certificate
from gramian.data.blocks import by_blocks
from gramian.estimators.base import (
    NYSTROEM,
    kernel_tags,
    refuse_blocks,
    restored_on_failure,
    rows_of,
    validated,
    warn_unless_converged,
)
from gramian.estimators.gp.predictions import LEARNING
from gramian.features.base import parameters_checked
from gramian.gram.operator import narrow, wide
from gramian.gram.prepared import kept
from gramian.kernels import RBF, Kernel, Scaled, resolve
from gramian.kernels.resolve import is_precomputed, like_given
from gramian.kernels.tunable import Nested
from gramian.progress import Clock, progress
from gramian.resources import blas_threads
from gramian.solvers.gp.hyperparameters import Optimum, learn_from_rows, search_random, widened
from gramian.solvers.gp.laplace import LaplaceEvidence, LaplacePosterior, logistic_gaussian
from gramian.warning import warn

LATENT = 2.0
"""Mean square of the latent function from which variances start, on the scale of the logistic function."""
LATENT_LIMIT = 30.0
"""Absolute latent value above which the probability is 0 or 1 up to rounding."""
FIXED = Scaled(RBF(1.0, "fixed"), 1.0, "fixed")
"""The kernel for ``kernel=None``, as in scikit-learn."""


class Kernels(tuple[Kernel, ...]):
    """The kernels of several binary problems, with one theta for all of them."""

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels as a list, as in scikit-learn's CompoundKernel."""
        return list(self)

    @property
    def theta(self) -> NDArray[np.float64]:
        """The theta of all kernels, concatenated."""
        return np.concatenate([kernel.theta for kernel in self])

    @property
    def bounds(self) -> NDArray[np.float64]:
        """The bounds of theta."""
        return np.concatenate([kernel.bounds for kernel in self])

    @property
    def takes_sparse(self) -> bool:
        """Whether all of them accept CSR rows."""
        return all(kernel.takes_sparse for kernel in self)


@dataclass(eq=False, repr=False)
class GaussianProcessClassifier(Nested, ClassifierMixin, BaseEstimator):
    """Gaussian process classification.

    A latent function has a Gaussian process prior, and the logistic function maps it to probabilities. Its posterior
    is approximated by a Gaussian around the mode (Laplace); the probabilities average over that Gaussian. With more
    than two classes there is one process for each class, or for each pair.

    Parameters
    ----------
    kernel : Kernel, str, callable, a kernel object of scikit-learn, or None, default=None
        The prior covariance; ``None`` means ``1.0 * RBF(1.0)`` with fixed parameters, as in scikit-learn.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        The optimiser of the evidence, as in ``GaussianProcessRegressor``.
    n_restarts_optimizer : int, default=0
        Further runs from random points within the kernel's bounds.
    max_iter_predict : int, default=100
        Most Newton steps for each mode.
    warm_start : bool, default=False
        Whether the search for the first mode starts at the mode of the last fit; later ones start at the one before.
    copy_X_train : bool, default=True
        Whether ``X_train_`` is a copy.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the restarts; without, ``None`` gives the same answer at every fit.
    multi_class : {"one_vs_rest", "one_vs_one"}, default="one_vs_rest"
        How to treat more than two classes; ``"one_vs_one"`` gives no probabilities.
    n_jobs : int or None, default=None
        Threads; by default all. They are used within each binary problem, not for several problems at once.
    start : {"data", "given"}, default="data"
        Where the optimiser starts, as in ``GaussianProcessRegressor``.
    tol : float, default=1e-6
        The search stops when no entry of the gradient of the evidence, projected on the bounds, exceeds √tol.
    max_iter : int, default=1000
        Steps of the optimiser in each run.
    max_time : float or None, default=None
        Seconds after which the search for hyperparameters stops, for each binary problem.
    memory : int, str or None, default=None
        The most bytes that the fit may hold, and a prediction in addition to the fitted model; by default half of what
        is available.
    device : {"cuda", "cuda:0", ..., "auto"} or None, default=None
        A GPU on which modes and evidence are computed, through torch (``pip install '.[gpu]'``); ``"auto"``
        takes a GPU if there is one and the kernel can run on it. Saved models do not keep it.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    base_estimator_ : estimator
        The binary classifier; for more classes, scikit-learn's OneVsRestClassifier or OneVsOneClassifier of them.
    kernel_ : Kernel or tuple of Kernel
        The kernel with learned parameters, or one for each binary problem.
    log_marginal_likelihood_value_ : float
        The approximate log evidence, averaged over the binary problems.
    classes_ : array of shape (c,)
        Labels.
    n_classes_ : int
        Number of classes.
    certificate_ : Certificate
        The certificate of the binary problem, or the worst of several.

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

    kernel: Any = None
    _: KW_ONLY
    optimizer: Any = "fmin_l_bfgs_b"
    n_restarts_optimizer: int = 0
    max_iter_predict: int = 100
    warm_start: bool = False
    copy_X_train: bool = True
    random_state: Any = None
    multi_class: str = "one_vs_rest"
    n_jobs: int | None = None
    start: str = "data"
    tol: float = 1e-6
    max_iter: int = 1000
    max_time: float | None = None
    memory: int | str | None = None
    device: str | None = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LEARNING,
        "max_iter_predict": [Interval(Integral, 1, None, closed="left")],
        "multi_class": [StrOptions({"one_vs_rest", "one_vs_one"})],
    }

    def __sklearn_tags__(self) -> Any:
        return kernel_tags(super().__sklearn_tags__(), self.kernel)

    @parameters_checked
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the hyperparameters and find the modes.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows; a list of objects for a kernel on objects.
        y : array-like of shape (n,)
            Labels.
        """
        refuse_blocks(self, X, f"KernelMachineClassifier('logistic', {NYSTROEM})")
        with restored_on_failure(self), blas_threads(self.n_jobs):
            X, y = validated(self, X, y)
            check_classification_targets(y)
            classes = np.unique(y)
            if classes.size == 1:
                raise ValueError(
                    "GaussianProcessClassifier requires 2 or more distinct classes; got 1 class (only class "
                    f"{classes[0]} is present)."
                )
            self.base_estimator_ = self._binary(classes.size).fit(X, y)
            self.classes_, self.n_classes_ = classes, classes.size
            parts = self._parts
            self.log_marginal_likelihood_value_ = float(np.mean([b.log_marginal_likelihood_value_ for b in parts]))
            self.certificate_ = _worst([b.certificate_ for b in parts])
            self.n_iter_ = max(self.certificate_.iterations, 1)
            warn_unless_converged(self.certificate_, self)
        return self

    def _binary(self, classes: int) -> Any:
        """The binary classifier, or several in a meta-estimator; with ``warm_start``, that of the last fit."""
        params, before = self.get_params(deep=False), getattr(self, "base_estimator_", None)
        if classes == 2 and self.warm_start and isinstance(before, BinaryLaplaceClassifier):
            return before.set_params(**params)
        binary = BinaryLaplaceClassifier(**params)
        if classes == 2:
            return binary
        return (OneVsRestClassifier if self.multi_class == "one_vs_rest" else OneVsOneClassifier)(binary)

    @property
    def _parts(self) -> list[Any]:
        return [self.base_estimator_] if self.n_classes_ == 2 else list(self.base_estimator_.estimators_)

    @property
    def kernel_(self) -> Any:
        """The learned kernel, or the kernels of the binary problems."""
        check_is_fitted(self, "base_estimator_")
        kernels = Kernels(b.kernel_ for b in self._parts)
        return kernels[0] if self.n_classes_ == 2 else kernels

    @by_blocks
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of new rows: X (m, d) → (m,)."""
        check_is_fitted(self)
        X = validated(self, X, reset=False)
        if self.n_classes_ == 2 or self.multi_class == "one_vs_one":
            return np.asarray(self.base_estimator_.predict(X))
        p = self._against_the_rest(X)
        # Ties go to the last class, as in scikit-learn's OneVsRestClassifier.
        return np.asarray(self.classes_[p.shape[1] - 1 - np.argmax(p[:, ::-1], axis=1)])

    def _against_the_rest(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class in its own binary problem: X (m, d) → (m, c)."""
        mean, variance = np.array([b.latent_mean_and_variance(X) for b in self._parts]).swapaxes(0, 1)
        return _probability(mean.ravel(), variance.ravel()).reshape(mean.shape).T

    @by_blocks
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the classes, in the order of ``classes_``: X (m, d) → (m, c)."""
        check_is_fitted(self)
        if self.n_classes_ > 2 and self.multi_class == "one_vs_one":
            raise ValueError(
                "one_vs_one multi-class mode does not support predicting probability estimates. "
                "Use one_vs_rest mode instead."
            )
        X = validated(self, X, reset=False)
        with blas_threads(self.n_jobs):
            if self.n_classes_ == 2:
                return narrow(self.base_estimator_.predict_proba(X), X)
            p = self._against_the_rest(X)
            total = p.sum(axis=1, keepdims=True)
            return narrow(p / np.where(total > 0, total, 1.0), X)

    def latent_mean_and_variance(self, X: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return mean and variance of the latent function of two classes: X (m, d) → (m,), (m,)."""
        check_is_fitted(self)
        if self.n_classes_ > 2:
            raise ValueError(
                "Returning the mean and variance of the latent function f is only supported for binary "
                f"classification, received {self.n_classes_} classes."
            )
        X = validated(self, X, reset=False)
        with blas_threads(self.n_jobs):
            mean, variance = self.base_estimator_.latent_mean_and_variance(X)
        return narrow(mean, X), narrow(variance, X)

    def log_marginal_likelihood(
        self, theta: ArrayLike | None = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> Any:
        """Return the approximate log evidence, averaged over the binary problems.

        Parameters
        ----------
        theta : array-like of shape (p,) or (b p,), or None, default=None
            The parameters: one theta for all b binary problems, or one for each; ``None`` returns
            ``log_marginal_likelihood_value_``.
        eval_gradient : bool, default=False
            Whether to return the gradient with respect to the given theta too.
        clone_kernel : bool, default=True
            With ``False``, ``kernel_`` becomes the kernel at theta.

        Returns
        -------
        float, or tuple of float and array
            The value, and the gradient with ``eval_gradient``.
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
        each = np.tile(theta, (len(parts), 1)) if theta.size == size else theta.reshape(-1, size)
        with blas_threads(self.n_jobs):
            found = [
                b.log_marginal_likelihood(t, eval_gradient, clone_kernel) for b, t in zip(parts, each, strict=True)
            ]
        if not eval_gradient:
            return np.mean(found)
        slopes = np.array([slope for _, slope in found]) / len(parts)
        gradient = slopes.sum(axis=0) if theta.size == size else slopes.ravel()
        return np.mean([value for value, _ in found]), gradient


def _posterior(
    device: str | None, root: Any, L: Any, kernel: Kernel, X: Any, y: Any, pi: Any, *rest: Any
) -> LaplacePosterior:
    """The Gaussian around the mode, from the attributes of a fit."""
    found = LaplacePosterior(root, L, kernel, wide(X), y - pi, *rest)
    found.device = device
    return found


def _probability(mean: NDArray[np.float64], variance: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability of class 1, averaged over the latent Gaussian: (m,) → (m,)."""
    p = logistic_gaussian(mean, variance)
    # A probability of one half up to rounding is put on the side of the mean, so that all ways to predict agree.
    return np.where(mean > 0, np.maximum(p, np.nextafter(0.5, 1.0)), np.minimum(p, np.nextafter(0.5, 0.0)))


def _worst(certificates: list[Certificate]) -> Certificate:
    """The worst certificate, with the steps of all and the longest time."""
    worst = min(certificates, key=lambda c: (c.converged, -c.violation))
    steps, seconds = sum(c.iterations for c in certificates), max(c.seconds for c in certificates)
    return replace(worst, iterations=steps, seconds=seconds)


class BinaryLaplaceClassifier(GaussianProcessClassifier):
    """One Gaussian process for two classes, the building block of ``GaussianProcessClassifier``."""

    kernel_: Any = None  # replaces the inherited property
    pi_: NDArray[np.float64]
    y_train_: NDArray[np.intp]

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the hyperparameters and find the mode: X (n, d), y (n,)."""
        clock = Clock(self.max_time)
        classes, labels = np.unique(y, return_inverse=True)
        if classes.size != 2:
            raise ValueError(f"{type(self).__name__} takes two classes, got {classes.size}: {classes!r:.80}.")
        rows = wide(X)
        kernel = widened(FIXED if self.kernel is None else resolve(self.kernel, rows), rows, LATENT)
        evidence = self._evidence(rows, labels)
        if self.warm_start and hasattr(self, "pi_") and self.pi_.size == labels.size:
            evidence.modes.append((kernel.theta, np.clip(logit(self.pi_), -LATENT_LIMIT, LATENT_LIMIT)))
        learned = self._learn(kernel, evidence, labels, clock)
        if learned is not None:
            kernel = kernel.with_theta(learned.theta)
            for _, message in learned.binding(like_given(kernel, self.kernel)):
                warn(message, ConvergenceWarning)
        kernel = like_given(widened(kernel, rows, LATENT, back=True), self.kernel)
        found = evidence.mode(kernel)
        self.classes_, self.y_train_ = classes, labels
        self.X_train_ = X.copy() if self.copy_X_train else X
        self.kernel_ = kernel
        self.pi_, self.W_sr_ = found.pi, found.root
        self.L_ = found.lower()
        self.log_marginal_likelihood_value_ = found.evidence
        self.certificate_ = found.certificate if learned is None else learned.certified(found.certificate)
        return self

    def _evidence(self, X: Any, labels: NDArray[Any]) -> LaplaceEvidence:
        options: Any = {"max_iter": self.max_iter_predict, "device": self.device}
        return LaplaceEvidence(X, labels, self.memory, self.n_jobs, **options)

    def _learn(self, kernel: Kernel, evidence: LaplaceEvidence, labels: NDArray[Any], clock: Clock) -> Optimum | None:
        if self.optimizer is None or kernel.theta.size == 0:
            return None

        def evidence_of(index: NDArray[np.intp]) -> LaplaceEvidence:
            whole = index.size == labels.size
            return evidence if whole else self._evidence(rows_of(kernel, evidence.X, index), labels[index])

        index, rng = np.arange(labels.size), search_random(self.random_state, self.n_restarts_optimizer)
        options: Any = {name: getattr(self, name) for name in ("start", "optimizer", "tol", "max_iter")}
        options |= {"restarts": self.n_restarts_optimizer, "clock": clock}
        with progress(self.verbose, "evidence") as tick:
            return learn_from_rows(kernel, evidence_of, index, evidence.X, LATENT, rng, tick=tick, **options)

    def _posterior(self) -> LaplacePosterior:
        given = (self.kernel_, self.X_train_, self.y_train_, self.pi_, self.memory, self.n_jobs, self.certificate_)
        return kept(self, _posterior, self.device, self.W_sr_, self.L_, *given)

    def predict(self, X: Any) -> NDArray[Any]:  # type: ignore[override]  # never called with blocks
        """Return the more probable class: X (m, d) → (m,)."""
        return np.asarray(self.classes_[(self._posterior().mean(wide(X)) > 0).astype(np.intp)])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # type: ignore[override]
        """Return the probabilities of both classes, averaged over the latent Gaussian: X (m, d) → (m, 2)."""
        p = _probability(*self.latent_mean_and_variance(X))
        return np.column_stack([1.0 - p, p])

    def latent_mean_and_variance(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and variance of the latent function: X (m, d) → (m,)."""
        if is_precomputed(self.kernel_):
            raise ValueError(
                "a precomputed k(new, train) does not hold k(new, new), which is needed for probabilities, and for the "
                "labels of more than two classes (one_vs_rest); pass the rows and their kernel instead."
            )
        return self._posterior().moments(wide(X))

    def log_marginal_likelihood(
        self, theta: ArrayLike | None = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> Any:
        """Return the approximate log evidence of the training rows: theta (p,) → (p,)."""
        kernel = like_given(self.kernel_.with_theta(np.asarray(theta)), self.kernel)
        at = self._evidence(wide(self.X_train_), self.y_train_)(kernel, gradient=eval_gradient)
        if not clone_kernel:
            self.kernel_ = kernel
        return (at.value, at.gradient) if eval_gradient else at.value
