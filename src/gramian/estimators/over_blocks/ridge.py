"""Kernel ridge regression over blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gramian.data.parts import Part
from gramian.data.passes import Passes
from gramian.estimators.base import restored_on_failure, warn_unless_converged
from gramian.estimators.over_blocks.opening import lifted, opened, sampled
from gramian.progress import Clock
from gramian.solvers.choice import Choice
from gramian.solvers.in_features.least_squares import by_leave_one_out, by_pcg, choose, moments, targets_of
from gramian.solvers.in_features.worker_map import Lift
from gramian.solvers.linear.least_squares import LeastSquares, Moments

__all__ = ["fit_ridge"]


def fit_ridge(model: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """Solve a ridge in the space of a map, over blocks."""
    clock = Clock(model.max_time)
    with restored_on_failure(model), opened(model, X, y, sample_weight) as passes:
        if model.store_loo:
            raise ValueError("store_loo=True keeps a number for every row, which blocks are there to avoid.")
        sample = sampled(model, passes)
        ridge, grid = model._regularisation(targets_of(sample).shape[1])
        if ridge is not None and ridge.min() == 0:
            raise ValueError("alpha=0 interpolates, which an approximation of the kernel cannot; use alpha > 0.")
        features, lift = lifted(model, model._resolved(sample.X), passes, sample)
        found, choice, sums = _solved(model, passes, sample, lift, features, ridge, grid, clock)
        _keep(model, features, found, choice, sums, sample)
    warn_unless_converged(model.certificate_, model)
    return model


def _solved(
    model: Any, passes: Passes, sample: Part, lift: Lift, features: Any, ridge: Any, grid: Any, clock: Clock
) -> tuple[LeastSquares, Choice, Moments | None]:
    if ridge is not None:
        choice = choose(passes.blocks.n_rows, lift.width, ridge.size, sample.index.size, model.solver)
        if choice.name == "pcg":
            options: Any = {"tol": model.tol, "max_iter": model.max_iter, "clock": clock}
            return by_pcg(passes, lift, sample, ridge, **options), choice, None
    else:
        choice = Choice("moments", "one decomposition serves the whole grid of alpha='loo'")
    sums, error = moments(passes, lift)
    if hasattr(features, "trace_error_"):
        features.trace_error_ = error
    if ridge is not None:
        return sums.solve(ridge, tol=model.tol, clock=clock), choice, sums
    grid, path, ridge = by_leave_one_out(passes, lift, sums, grid)
    found = sums.solve(ridge, tol=model.tol, clock=clock)
    return replace(found, grid=grid, path=path), choice, sums


def _keep(model: Any, features: Any, found: LeastSquares, choice: Choice, sums: Moments | None, sample: Part) -> None:
    model._keep_over_blocks(sample.y is not None and sample.y.ndim == 1, found, choice, features)
    if sums is not None:
        model._moments = sums
