"""The prior of Gaussian process regression, and the learning of its hyperparameters from the evidence of some rows."""

from __future__ import annotations

import math
import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from gramian.estimators.approximation import adapted
from gramian.estimators.base import is_precomputed, rows_of
from gramian.estimators.gp.process import Process, default_kernel, prior_kernel
from gramian.gram.operator import units
from gramian.kernels import Kernel, White
from gramian.progress import Clock, progress
from gramian.resources import memory_budget, one_blas_thread
from gramian.solvers.gp.evidence import LogEvidence, signal_and_noise
from gramian.solvers.gp.hyperparameters import SCREEN, Optimum, learn
from gramian.solvers.gp.starts import VARIANCES, noise_of_repeats, random_starts, widened

__all__ = ["EVIDENCE_ROWS", "LearnedProcess", "Noise", "location", "warn_at_bounds"]

Noise = float | NDArray[np.float64]
"""The variance of every row, or one for each."""

FEW = 256
"""Rows up to which several BLAS threads lose more than they gain."""
EVIDENCE_ROWS = 3000
"""Rows from which hyperparameters are learned with ``evidence="auto"``."""
NOISE_START = 0.1
"""Where a learned noise begins, relative to the mean square of the targets."""
NOISE_RANGE = (1e-8, 10.0)
"""Where it may go."""
BINDING = 0.1
"""Slope of the evidence, in the logarithm of a parameter, from which its bound is worth a warning."""


class LearnedProcess(Process):
    """A regression whose prior is learned."""

    # Parameters, set by the estimator's own constructor.
    alpha: Any
    optimizer: Any
    n_restarts_optimizer: int
    noise: str | None
    start: str
    evidence: str | int
    approximation: Any
    solver: str
    tol: float
    max_iter: int
    verbose: int
    random_state: Any

    def _check_targets(self, y: NDArray[np.float64]) -> None:
        seen = 1 if y.ndim == 1 else y.shape[1]
        if self.n_targets is not None and seen != self.n_targets:
            raise ValueError(
                f"n_targets is {self.n_targets} but y has {seen}; pass y with {self.n_targets} columns, or "
                f"n_targets={seen}."
            )
        if self.noise == "learn" and self.optimizer is None:
            raise ValueError("noise='learn' needs an optimizer; with optimizer=None give the noise by alpha= or White.")

    def _noise(self, n: int) -> Noise:
        noise = np.asarray(self.alpha, dtype=np.float64)
        if noise.shape not in ((), (1,), (n,)):
            raise ValueError(
                f"alpha must be a scalar or an array with same number of entries as y, {n}; got shape {noise.shape}."
            )
        if not np.all(np.isfinite(noise)) or np.any(noise < 0):
            raise ValueError(f"alpha must be finite and >= 0, a variance; got {noise.min():.3g} among its entries.")
        return float(noise.item()) if noise.size == 1 else noise

    def _prior(self, X: Any, Y: NDArray[np.float64]) -> Kernel:
        kernel = prior_kernel(self.kernel, default_kernel(), X)
        if self.approximation is not None:
            kernel = self._prior_of_map(kernel, X)
        size = float(np.mean(Y**2)) or 1.0
        kernel = widened(kernel, X, Y)
        if self.noise is None:
            return kernel
        low, high = (bound * size for bound in NOISE_RANGE)
        # Few of the rows that the evidence looks at repeat each other; of all rows, many may, and contradict it.
        low = low if is_precomputed(kernel) else min(max(low, noise_of_repeats(X, Y)), high)
        return kernel + White(min(max(NOISE_START * size, low), high), (low, high))

    def _prior_of_map(self, kernel: Kernel, X: Any) -> Kernel:
        """The process's own prior, or the map's where it has one."""
        if is_precomputed(kernel):
            raise ValueError("approximation= needs rows, not a precomputed Gram matrix.")
        if self.solver != "auto":
            raise ValueError(f"solver={self.solver!r} cannot be combined with approximation=; leave solver='auto'.")
        features = adapted(self, signal_and_noise(kernel)[0])
        if "kernel" in features.get_params(deep=False):
            return kernel
        own: Kernel = features.fit(X).kernel_
        return own.fix()

    def _learn(
        self, kernel: Kernel, X: Any, Y: NDArray[np.float64], noise: Noise, clock: Clock
    ) -> tuple[NDArray[np.intp], Optimum | None]:
        """The rows whose evidence was looked at, and the best parameters where there are any to learn."""
        rng = check_random_state(self.random_state)
        if self.optimizer is None or kernel.theta.size == 0:
            return self._evidence_rows(Y.shape[0], rng), None
        restarts = random_starts(widened(kernel, X, Y, back=True).bounds, self.n_restarts_optimizer, rng)
        index = self._evidence_rows(Y.shape[0], rng)

        def evidence_of(index: NDArray[np.intp]) -> LogEvidence:
            own = noise if isinstance(noise, float) else noise[index]
            rows = X if index.size == Y.shape[0] else rows_of(signal_and_noise(kernel)[0], X, index)
            return LogEvidence(rows, Y[index], own, self.memory, self.n_jobs)

        evidence, screen = evidence_of(index), None
        if index.size > SCREEN:
            few = index[:SCREEN] if index.size < Y.shape[0] else rng.permutation(index)[:SCREEN]
            screen = evidence_of(np.sort(few))
        data = (evidence.X, evidence.Y, rng) if self.start == "data" else None
        # After each small product a pool of BLAS threads spins for a while, for nothing.
        with one_blas_thread() if index.size <= FEW else nullcontext():
            return index, self._maximised(kernel, evidence, clock, data=data, screen=screen, restarts=restarts)

    def _maximised(self, kernel: Kernel, evidence: Any, clock: Clock, **options: Any) -> Optimum:
        with progress(self.verbose, "evidence") as tick:
            return learn(
                kernel,
                evidence,
                optimizer=self.optimizer,
                tol=self.tol,
                max_iter=self.max_iter,
                clock=clock,
                tick=tick,
                **options,
            )

    def _evidence_rows(self, n: int, rng: np.random.RandomState) -> NDArray[np.intp]:
        if self.evidence == "full":
            return np.arange(n)
        affordable = max(math.isqrt(memory_budget(self.memory) // 16), 1)
        wanted = min(EVIDENCE_ROWS, affordable) if self.evidence == "auto" else int(self.evidence)
        return np.arange(n) if n <= wanted else rng.permutation(n)[:wanted]


def warn_at_bounds(kernel: Kernel, slope: NDArray[np.float64], silent: str = "") -> None:
    """Warn, in scikit-learn's words, of learned parameters whose evidence still rises where their bounds end."""
    place = 0
    for p in (p for p in kernel.all_parameters() if p.free):
        for dimension, value in enumerate(p.values):
            up = bool(slope[place] > 0)
            bound = float(p.bounds[up])
            # Far below the variance that y asks for, the evidence hardly rises with it.
            least = 0.0 if up and p.name.endswith(VARIANCES) else BINDING
            if p.name != silent and abs(slope[place]) > least and np.isclose(value, bound, atol=0.0):
                end, change = ("upper", "Increasing") if up else ("lower", "Decreasing")
                warnings.warn(
                    f"The optimal value found for dimension {dimension} of parameter {p.name} is close to the "
                    f"specified {end} bound {bound}. {change} the bound and calling fit again may find a better value.",
                    ConvergenceWarning,
                    stacklevel=4,
                )
            place += 1


def location(y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and deviation of each target: y (n,) or (n, t)."""
    # In units in which squares neither overflow nor vanish.
    size = units(y)
    mean, deviation = size * np.mean(y / size, axis=0), size * np.std(y / size, axis=0)
    # Rounding leaves a constant column a deviation of a few ulps of its mean.
    floor = 10.0 * np.finfo(np.float64).eps * np.abs(mean)
    return mean, np.where(deviation > floor, deviation, 1.0)
