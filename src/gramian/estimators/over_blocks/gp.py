"""Gaussian process regression over blocks: hyperparameters from a sample, then from the bound on all rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gramian.data.parts import Need, Part
from gramian.data.passes import Passes
from gramian.data.sums import Sums, total
from gramian.estimators.approximation import adapted, has_landmarks
from gramian.estimators.base import restored_on_failure
from gramian.estimators.gp.maps import EVIDENCE_ROWS, _from_bound
from gramian.estimators.gp.prior import widened
from gramian.estimators.over_blocks.opening import opened, sampled
from gramian.features.over_blocks import fit_map, trace_error
from gramian.features.sample import sample_seed
from gramian.kernels import Kernel
from gramian.progress import Clock
from gramian.resources import blas_threads, memory_budget, worker_count
from gramian.solvers.gp.evidence import signal_and_noise
from gramian.solvers.gp.hyperparameters import Optimum
from gramian.solvers.gp.posterior import Posterior
from gramian.solvers.in_features.block_bound import BlockBound, Units, feature_posterior
from gramian.solvers.in_features.least_squares import targets_of
from gramian.solvers.in_features.sparse_gp import landmark_posterior
from gramian.solvers.in_features.worker_map import Lift

__all__ = ["fit_gp"]


def fit_gp(gp: Any, X: Any, y: Any) -> Any:
    """Learn hyperparameters and condition on rows that come by blocks."""
    clock = Clock(gp.max_time)
    with restored_on_failure(gp), blas_threads(gp.n_jobs), opened(gp, X, y) as passes:
        noise = _checked_noise(gp, passes)
        sample = sampled(gp, passes)
        Y = targets_of(sample)
        single = sample.y is not None and sample.y.ndim == 1
        gp._check_targets(Y[:, 0] if single else Y)
        units = _units(passes, Y) if gp.normalize_y else Units(np.zeros(Y.shape[1]), np.ones(Y.shape[1]))
        kernel = gp._prior(sample.X.astype(np.float64, copy=False), units.of(sample))
        few = _evidence_rows(gp, passes, sample)
        chosen, learned = gp._learn(kernel, few.X.astype(np.float64), units.of(few), noise, clock)
        kernel = kernel if learned is None else kernel.with_theta(learned.theta)
        kernel, gp.posterior_, learned = _conditioned(gp, passes, sample, units, kernel, noise, learned, clock)
        gp.kernel_ = widened(kernel, sample.X.astype(np.float64), units.of(sample), back=True)
        gp.solver_ = f"{type(gp.approximation).__name__}: asked for, {len(passes.blocks.items)} blocks"
        gp.evidence_rows_, gp._over_blocks = few.index[chosen], True
        kept = units.of(few)
        gp.X_train_, gp.y_train_ = few.X, kept[:, 0] if single else kept
        gp._y_train_mean, gp._y_train_std = (v[0] if single else v for v in (units.centre, units.scale))
        gp._publish(learned)
    return gp


def _conditioned(
    gp: Any,
    passes: Passes,
    sample: Part,
    units: Units,
    kernel: Kernel,
    noise: float,
    learned: Optimum | None,
    clock: Clock,
) -> tuple[Kernel, Posterior, Optimum | None]:
    """The posterior through the map, and for landmarks the parameters learned from the bound on all rows before."""
    features = fit_map(adapted(gp, signal_and_noise(kernel)[0]), passes, sample)
    gp.approximation_ = features
    options: Any = {"workers": worker_count(gp.n_jobs), "tol": gp.tol, "clock": clock}
    if not has_landmarks(features):
        row, memory = sample.X[:1].astype(np.float64), memory_budget(gp.memory)
        lift = Lift.of(features, row)
        linear = feature_posterior(passes, lift, features, kernel, units, noise, row, memory=memory, **options)
        return kernel, linear, learned
    if sample.index.size < passes.blocks.n_rows:
        features.trace_error_ = trace_error(features, passes, sample)
    bound = BlockBound(passes, units, noise, features.components_, gp.memory)
    if learned is not None:
        learned = _from_bound(gp, kernel, bound, clock)
        kernel = kernel.with_theta(learned.theta)
    return kernel, landmark_posterior(bound, kernel, **options), learned


def _checked_noise(gp: Any, passes: Passes) -> float:
    if passes.blocks.weight is not None:
        raise ValueError("GaussianProcessRegressor takes no weights; leave weight= out of Blocks.")
    if np.ndim(gp.alpha) and np.size(gp.alpha) > 1:
        raise ValueError("over blocks alpha is one number for all rows; an array of variances is for rows in memory.")
    return float(gp._noise(1))


def _evidence_rows(gp: Any, passes: Passes, sample: Part) -> Part:
    """The rows that hyperparameters are learned from: those that a fit in memory would take, or a sample as large."""
    n = passes.blocks.n_rows
    if gp.evidence == "full" or sample.index.size == n:
        if sample.index.size < n:
            raise ValueError(f"evidence='full' is {n:,} rows in memory; over blocks give a number, or 'auto'.")
        return sample
    wanted = EVIDENCE_ROWS if gp.evidence == "auto" else int(gp.evidence)
    if wanted <= sample.index.size:
        return sample
    return passes.sample(wanted, sample_seed(gp.random_state))


def _sums(middle: Any, parts: Iterator[Part]) -> Sums | None:
    return total(_sums_of(targets_of(part) - middle) for part in parts)


def _sums_of(Y: Any) -> Sums:
    return Sums.of(count=Y.shape[0], first=Y.sum(axis=0), second=np.sum(Y * Y, axis=0))


def _units(passes: Passes, Y: Any) -> Units:
    """Mean and deviation of each target, summed about the mean of a sample so that nothing cancels."""
    middle = Y.mean(axis=0)
    sums = passes.sum(_sums, middle, need=Need(X=False))
    mean = sums["first"] / sums["count"]
    deviation = np.sqrt(np.maximum(sums["second"] / sums["count"] - mean**2, 0.0))
    floor = 10.0 * np.finfo(np.float64).eps * np.abs(middle + mean)
    return Units(middle + mean, np.where(deviation > floor, deviation, 1.0))
