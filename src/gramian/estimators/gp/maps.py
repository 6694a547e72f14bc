"""Gaussian process regression through a map: sparse by landmarks, linear in features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from gramian.data.sampling import sample_rows
from gramian.estimators.approximation import adapted, has_landmarks, sample_of
from gramian.estimators.gp.prior import learn
from gramian.features.sample import sample_seed
from gramian.kernels import Kernel
from gramian.kernels.resolve import is_precomputed
from gramian.progress import Clock, progress
from gramian.resources import memory_budget, worker_count
from gramian.solvers.gp.evidence import signal_and_noise
from gramian.solvers.gp.hyperparameters import Optimum
from gramian.solvers.gp.posterior import Posterior
from gramian.solvers.in_features.sparse_gp import CollapsedBound, feature_posterior, landmark_posterior

__all__ = ["EVIDENCE_ROWS", "approximate", "kernel_of", "samples_of"]

EVIDENCE_ROWS = 3000
"""Rows from which hyperparameters are learned with ``evidence="auto"``."""


def samples_of(gp: Any, n: int) -> tuple[Any, Any]:
    """Return the rows that a process with a map begins with, the same as over blocks."""
    every = slice(None)
    sample = every if gp.evidence == "full" else sample_of(gp, n)
    if isinstance(sample, slice):
        return every, every
    wanted = EVIDENCE_ROWS if gp.evidence == "auto" else int(gp.evidence)
    if wanted <= sample.size:
        return sample, sample
    return sample, sample_rows(n, min(wanted, n), sample_seed(gp.random_state))


def kernel_of(gp: Any, kernel: Kernel, X: Any) -> Kernel:
    """Return the prior of a process with a map: the process's own, or the map's where it has one. X (n, d)."""
    if is_precomputed(kernel):
        raise ValueError("approximation= needs rows, not a precomputed Gram matrix.")
    if gp.solver != "auto":
        raise ValueError(f"solver={gp.solver!r} has no part where approximation= is given; leave solver='auto'.")
    features = adapted(gp, signal_and_noise(kernel)[0])
    if "kernel" in features.get_params(deep=False):
        return kernel
    own: Kernel = clone(features).fit(X).kernel_
    return own.fix()


def approximate(
    gp: Any,
    kernel: Kernel,
    X: Any,
    Y: NDArray[np.float64],
    noise: float | NDArray[np.float64],
    learned: Optimum | None,
    clock: Clock,
) -> tuple[Kernel, Posterior, Optimum | None]:
    """Condition through the map of a process, and for landmarks learn from the collapsed bound first."""
    features = adapted(gp, signal_and_noise(kernel)[0]).fit(X)
    gp.approximation_ = features
    options: Any = {"workers": worker_count(gp.n_jobs), "tol": gp.tol, "clock": clock}
    if not has_landmarks(features):
        memory = memory_budget(gp.memory)
        return kernel, feature_posterior(features, kernel, X, Y, noise, memory=memory, **options), learned
    bound = CollapsedBound(X, Y, noise, features.components_, gp.memory, gp.n_jobs)
    if learned is not None:
        learned = _from_bound(gp, kernel, bound, clock)
        kernel = kernel.with_theta(learned.theta)
    return kernel, landmark_posterior(bound, kernel, **options), learned


def _from_bound(gp: Any, kernel: Kernel, bound: CollapsedBound, clock: Clock) -> Optimum:
    """Learn from the bound on all rows, starting where the evidence rows led."""
    with progress(gp.verbose, "collapsed bound") as tick:
        return learn(
            kernel,
            bound,
            bound,
            (bound.X, bound.Y),
            start="given",
            optimizer=gp.optimizer,
            restarts=[],
            tol=gp.tol,
            max_iter=gp.max_iter,
            rng=check_random_state(gp.random_state),
            clock=clock,
            tick=tick,
        )
