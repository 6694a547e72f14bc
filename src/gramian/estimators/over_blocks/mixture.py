"""Gaussian mixtures over blocks: EM from a start on a sample, a pass for each iteration."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian.estimators.base import restored_on_failure
from gramian.estimators.mixture.starts import start_size
from gramian.estimators.over_blocks.opening import opened
from gramian.features.sample import sample_seed
from gramian.progress import Clock
from gramian.solvers.mixture.covariances import family
from gramian.solvers.mixture.over_passes import expectation, frame
from gramian.solvers.mixture.row_tiles import Rows, Workers

__all__ = ["fit_mixture"]


def fit_mixture(model: Any, X: Any, sample_weight: Any) -> Any:
    """Fit a mixture over blocks."""
    clock = Clock(model.max_time)
    with restored_on_failure(model):
        model._validate_params()
        with opened(model, X, None, sample_weight, targets=False) as passes:
            seen = frame(passes)
            model._check_rows(seen.count, seen.reach)
            size = start_size(model.n_components)
            seed = 0 if size >= passes.blocks.n_rows else sample_seed(model.random_state)
            sample = passes.sample(size, seed)
            rows: Rows = seen.of(sample.X, sample.weight)
            kind = family(model.covariance_type, model.n_components, sample.X.shape[1])
            with Workers(model.n_jobs) as workers:
                solution = model._best_solution(rows, kind, workers, clock, expectation(passes, seen))
            model._store(solution, Rows(np.empty((0, 0), seen.dtype), seen.centre, seen.reach), clock)
    return model
