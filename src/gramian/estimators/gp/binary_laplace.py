"""One Gaussian process for two classes, by the Laplace approximation."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from gramian.estimators.base import is_precomputed, rows_of, wide
from gramian.estimators.gp.learning import warn_at_bounds
from gramian.estimators.gp.process import prior_kernel
from gramian.gram import Gram
from gramian.kernels import RBF, Kernel, Scaled
from gramian.progress import Clock, progress
from gramian.resources import memory_budget, spans
from gramian.solvers.gp.hyperparameters import SCREEN, Optimum, learn
from gramian.solvers.gp.laplace import LaplaceEvidence, logistic_gaussian
from gramian.solvers.gp.starts import random_starts, widened

__all__ = ["BinaryLaplaceClassifier"]

CHUNK = 1024
"""New points whose variances are computed at a time."""
UNIT = np.ones((1, 1))
"""In place of targets with units: latent functions have none."""
FIXED = Scaled(RBF(1.0, "fixed"), 1.0, "fixed")
"""What ``kernel=None`` means, as in scikit-learn."""


class BinaryLaplaceClassifier(ClassifierMixin, BaseEstimator):
    """One Gaussian process for two classes; what ``GaussianProcessClassifier`` is made of."""

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
        start: str = "data",
        tol: float = 1e-6,
        max_iter: int = 1000,
        max_time: float | None = None,
        memory: int | str | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter_predict = max_iter_predict
        self.warm_start = warm_start
        self.copy_X_train = copy_X_train
        self.random_state = random_state
        self.start = start
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.memory = memory
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: NDArray[Any]) -> Self:
        """Learn the hyperparameters and find the mode: X (n, d), y (n,)."""
        clock = Clock(self.max_time)
        classes, labels = np.unique(y, return_inverse=True)
        if classes.size != 2:
            raise ValueError(f"{type(self).__name__} takes two classes, got {classes.size}: {classes!r:.80}.")
        rows = wide(X)
        kernel = widened(prior_kernel(self.kernel, FIXED, rows), rows, UNIT)
        evidence = self._evidence(rows, labels)
        if self.warm_start:
            evidence.last = self._last(labels.size)
        learned = self._learn(kernel, evidence, rows, labels, clock)
        if learned is not None:
            kernel = kernel.with_theta(learned.theta)
            warn_at_bounds(kernel, learned.slope)
        kernel = widened(kernel, rows, UNIT, back=True)
        found = evidence.mode(kernel)
        self.classes_, self.y_train_ = classes, labels
        self.X_train_ = X.copy() if self.copy_X_train else X
        self.kernel_ = kernel
        self.pi_, self.W_sr_ = found.pi, found.root
        self.L_ = np.tril(found.factor.packed)
        self.log_marginal_likelihood_value_ = found.evidence
        self.certificate_ = found.certificate if learned is None else learned.certified(found.certificate)
        return self

    def _last(self, n: int) -> NDArray[np.float64] | None:
        """Coefficients of the last fit, where they suit n rows."""
        fitted = hasattr(self, "pi_") and self.pi_.size == n
        return np.asarray(self.y_train_ - self.pi_) if fitted else None

    def _evidence(self, X: Any, labels: NDArray[Any]) -> LaplaceEvidence:
        return LaplaceEvidence(
            X, labels, self.memory, self.n_jobs, max_iter=self.max_iter_predict, warm_start=self.warm_start
        )

    def _learn(
        self, kernel: Kernel, evidence: LaplaceEvidence, X: Any, labels: NDArray[Any], clock: Clock
    ) -> Optimum | None:
        if self.optimizer is None or kernel.theta.size == 0:
            return None
        rng = check_random_state(self.random_state)
        restarts = random_starts(kernel.bounds, self.n_restarts_optimizer, rng)
        screen = None
        if labels.size > SCREEN:
            few = np.sort(rng.permutation(labels.size)[:SCREEN])
            screen = self._evidence(rows_of(kernel, X, few), labels[few])
        # The latent function has no units but the logistic's: variances of a few.
        size = np.full((labels.size, 1), 2.0)
        with progress(self.verbose, "evidence") as tick:
            return learn(
                kernel,
                evidence,
                data=(X, size, rng) if self.start == "data" else None,
                screen=screen,
                optimizer=self.optimizer,
                restarts=restarts,
                tol=self.tol,
                max_iter=self.max_iter,
                clock=clock,
                tick=tick,
            )

    def _gram(self, X: Any) -> Gram:
        train = wide(self.X_train_)
        return Gram(self.kernel_, wide(X), train, memory=memory_budget(self.memory) // 2, n_jobs=self.n_jobs)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likelier class: X (m, d) → (m,)."""
        latent = self._gram(X) @ (self.y_train_ - self.pi_)
        return np.asarray(self.classes_[(latent > 0).astype(np.intp)])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of both classes, averaged over the latent Gaussian: X (m, d) → (m, 2)."""
        p = logistic_gaussian(*self.latent_mean_and_variance(X))
        return np.column_stack([1.0 - p, p])

    def latent_mean_and_variance(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and variance of the latent function: X (m, d) → (m,)."""
        if is_precomputed(self.kernel_):
            raise ValueError(
                "a precomputed k(new, train) does not hold k(new, new), which probabilities need, and so do the labels "
                "of more than two classes one against the rest; pass the rows and their kernel instead."
            )
        gram = self._gram(X)
        mean = np.asarray(gram @ (self.y_train_ - self.pi_))
        variance = np.asarray(self.kernel_.diag(wide(X)), dtype=np.float64).copy()
        height = max(min(CHUNK, memory_budget(self.memory) // (4 * 8 * gram.shape[1])), 1)
        for rows in spans(gram.shape[0], height):
            K = gram.rows(rows) * self.W_sr_
            V = solve_triangular(self.L_, K.T, lower=True, overwrite_b=True, check_finite=False)
            variance[rows] -= np.einsum("ij,ij->j", V, V)
        return mean, np.maximum(variance, 0.0)

    def log_marginal_likelihood(
        self, theta: ArrayLike | None = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> Any:
        """Return the approximate log evidence of the training rows: theta (p,) → (p,)."""
        if theta is None:
            if eval_gradient:
                raise ValueError("Gradient can only be evaluated for theta!=None")
            return self.log_marginal_likelihood_value_
        kernel = self.kernel_.with_theta(np.asarray(theta))
        at = self._evidence(wide(self.X_train_), self.y_train_)(kernel, gradient=eval_gradient)
        if not clone_kernel:
            self.kernel_ = kernel
        return (at.value, at.gradient) if eval_gradient else at.value
