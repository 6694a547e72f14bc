"""Where machines are fitted: the exact space of a kernel on some rows, or the space of a map over passes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from gramian.certificates import Certificate
from gramian.data.parts import Part
from gramian.data.passes import Held, Passes
from gramian.estimators.approximation import has_landmarks
from gramian.estimators.base import as_array, rows_of, wide
from gramian.estimators.machine.targets import Columns
from gramian.gram import Gram
from gramian.gram.operator import as_predicted
from gramian.kernels import Kernel, Sigmoid
from gramian.kernels.resolve import is_precomputed
from gramian.progress import Clock, Tick, silent
from gramian.resources import memory_budget, readable
from gramian.solvers.in_features.machine import COUPLED, FeatureFit, Room, started
from gramian.solvers.in_features.machine import solve as solve_in_features
from gramian.solvers.in_features.newton import Limits, Start
from gramian.solvers.in_features.objective import Functions, Targets
from gramian.solvers.in_features.worker_map import Given, WorkerMap
from gramian.solvers.machine.data_term import DataFit
from gramian.solvers.machine.function_space import ExactSpace
from gramian.solvers.machine.newton import Iterate
from gramian.solvers.machine.problem import Fitted, Problem
from gramian.solvers.machine.solve import solve

__all__ = ["Exact", "Goal", "InFeatures", "Task", "in_passes", "keep_functions", "split"]

Array = NDArray[np.float64]

DENSE = 1000
"""Rows up to which the smallest eigenvalue of K is computed."""
VISIBLE = 1e-6
"""An eigenvalue more negative than this share of the largest is no rounding."""
COPIES = 3
"""Hessians alive at once: two that are added, and their sum."""


@dataclass(frozen=True, eq=False)
class Task:
    """One function or, where a loss couples them, one group of functions to fit."""

    loss: Any  # The loss
    y: Array  # (n, k): Its targets


@dataclass(frozen=True, eq=False)
class Goal:
    """What is minimised, by which solver, and how far."""

    solver: str
    penalty: str
    strength: float  # lam, or the radius
    intercept: bool
    tol: float
    max_iter: int
    clock: Clock
    tick: Tick = silent
    n_jobs: int | None = None
    memory: Any = None


@dataclass(frozen=True, eq=False)
class Exact:
    """The space of a kernel's functions on some rows."""

    memory = "dual_coef_"
    """What a model remembers of the last fit, which the next can begin with."""

    kernel: Kernel
    space: ExactSpace
    points: Any

    def solve(self, goal: Goal, tasks: list[Task], weights: Array, starts: list[Any], *, final: bool) -> list[Fitted]:
        """Fit tasks; where it is final, to rounding where that is cheap, with the certificate of what is predicted."""
        predict = partial(self._predicted, memory=goal.memory) if final else None
        options: Any = {"tol": goal.tol, "max_iter": goal.max_iter, "clock": goal.clock, "tick": goal.tick}
        fitted = [
            solve(
                Problem(
                    self.space,
                    DataFit(task.loss, task.y, weights),
                    goal.intercept,
                    goal.solver,
                    **options,
                    polish=final,
                    predict=predict,
                ),
                goal.penalty,
                goal.strength,
                start,
            )
            for task, start in zip(tasks, starts, strict=True)
        ]
        if final and self._indefinite():
            why = "K is not positive semi-definite on these rows, so the dual value bounds nothing; see is_kernel."
            return [
                replace(each, certificate=replace(each.certificate, converged=False, message=why)) for each in fitted
            ]
        return fitted

    def _indefinite(self) -> bool:
        """Whether K has a visibly negative eigenvalue; looked at where the kernel may be none, and of few rows."""
        if not (is_precomputed(self.kernel) or isinstance(self.kernel, Sigmoid)) or self.space.gram.shape[0] > DENSE:
            return False
        values = np.linalg.eigvalsh(self.space.gram.dense())
        return bool(values[0] < -VISIBLE * max(float(values[-1]), 0.0))

    def _predicted(self, alpha: Array, memory: Any) -> Array:
        """Values at the rows themselves, as ``predict`` will compute them."""
        return as_predicted(self.space.gram, wide(self.points), alpha)

    def start(self, fitted: Fitted) -> Iterate:
        """Return where a problem like the last begins."""
        return fitted.at

    def starts(self, last: Array, b: Any, widths: list[int], rows: Any, n: int) -> list[Iterate] | None:
        """Return where tasks begin: at coefficients of the same rows, where these are of this shape."""
        columns = sum(widths)
        if last.shape[0] != n or last.size != n * columns:
            return None
        alpha = last.reshape(n, columns)[rows]
        values = self.space @ alpha
        ends = np.cumsum(widths)[:-1]
        parts = (np.split(each, ends, axis=-1) for each in (alpha, values, np.atleast_1d(b)))
        return [Iterate(*each) for each in zip(*parts, strict=True)]

    def keep(self, model: Any, X: Any, rows: NDArray[np.intp], fitted: list[Fitted]) -> None:
        """Give a model the coefficients of all rows."""
        alpha = np.hstack([each.at.alpha for each in fitted])
        model.dual_coef_, model.X_fit_ = np.zeros((_num_samples(X), alpha.shape[1])), X
        model.dual_coef_[rows] = alpha
        model.intercept_ = np.concatenate([each.at.b for each in fitted])

    def evaluation(self, X: Any, memory: Any, n_jobs: int | None) -> Callable[[Fitted], Array]:
        """Return the way from fits to values at new rows; of a precomputed kernel, at rows of k(new, these)."""
        K = Gram(self.kernel, X, wide(self.points), memory=memory, n_jobs=n_jobs)
        return lambda fitted: np.asarray(K @ fitted.at.alpha + fitted.at.b)


@dataclass(frozen=True, eq=False)
class InFeatures:
    """The space of a map, on rows whose features are in memory."""

    memory = "_last"
    """What a model remembers of the last fit, which the next can begin with."""

    features: Any
    F: Array  # (n, m)

    @property
    def kernel(self) -> Kernel:
        """The kernel that the map approximates."""
        kernel: Kernel = self.features.kernel_
        return kernel

    def solve(
        self, goal: Goal, tasks: list[Task], weights: Array, starts: list[Any], *, final: bool
    ) -> list[FeatureFit]:
        """Fit tasks, in passes that serve all."""
        targets = Columns(tuple(task.y.shape[1] for task in tasks))
        held = Held(self.F, np.hstack([task.y for task in tasks]), weights, memory=goal.memory)
        losses = tuple(task.loss for task in tasks)
        return in_passes(
            held.passes(n_jobs=goal.n_jobs), Given(None, self.F.shape[1]), held.all, goal, losses, targets, starts
        )

    def start(self, fitted: FeatureFit) -> Start:
        """Return where a problem like the last begins."""
        return fitted.next(Start(fitted.theta))

    def starts(self, last: Array, b: Any, widths: list[int], rows: Any, n: int) -> list[Start] | None:
        """Return where tasks begin: at weights, constants and widths of envelopes, where there are as many features."""
        unknowns = self.F.shape[1] + 1
        if last.shape != (unknowns + 1, sum(widths)):
            return None
        parts = np.split(last, np.cumsum(widths)[:-1], axis=1)
        return [Start(part[:unknowns], float(part[unknowns, 0])) for part in parts]

    def keep(self, model: Any, X: Any, rows: NDArray[np.intp], fitted: list[FeatureFit]) -> None:
        """Give a model the coefficients at the landmarks, or weights of the features where a map has none."""
        m = self.F.shape[1]
        both = np.hstack([each.theta for each in fitted])
        model.approximation_ = self.features
        model.intercept_ = both[m] if len(both) > m else np.zeros(both.shape[1])
        if model.warm_start:
            model._last = np.vstack(
                [both[:m], model.intercept_, np.hstack([np.full(f.theta.shape[1], f.width) for f in fitted])]
            )
        if has_landmarks(self.features):
            model._landmarks = rows[self.features.component_indices_]
            model.X_fit_ = rows_of(self.kernel, X, model._landmarks)
            model.dual_coef_ = self.features.expansion(both[:m])
        else:
            model.coef_ = both[:m]

    def evaluation(self, X: Any, memory: Any, n_jobs: int | None) -> Callable[[FeatureFit], Array]:
        """Return the way from fits to values at new rows; of a precomputed kernel, at rows of k(new, these)."""
        m = self.F.shape[1]

        def values(fitted: FeatureFit) -> Array:
            f = np.asarray(self.features.evaluate(X, fitted.theta[:m], memory))
            return f + (fitted.theta[m] if len(fitted.theta) > m else 0.0)

        return values


def in_passes(
    opened: AbstractContextManager[Passes],
    lift: WorkerMap,
    sample: Part,
    goal: Goal,
    losses: tuple[Any, ...],
    targets: Targets,
    starts: list[Any] | None = None,
) -> list[FeatureFit]:
    """Fit functions in the space of a map, from where they are told to begin or the optimum of a sample."""
    functions = Functions(losses, targets, goal.intercept, goal.strength, goal.solver == "proximal")
    with opened as passes:
        room = Room(passes, lift, Limits(goal.tol, goal.max_iter, goal.clock))
        _check_memory(memory_budget(goal.memory), lift.width, targets.of(sample.take(slice(0, 1)))[0])
        begun = started(room, functions, goal.solver, goal.penalty, goal.strength, sample, starts)
        return solve_in_features(room, functions, goal.solver, goal.penalty, goal.strength, begun)


def _check_memory(memory: int, m: int, targets: list[Array]) -> None:
    needed = 0
    for k in (y.shape[1] for y in targets):
        whole = (k * (m + 1)) ** 2
        needed += COPIES * 8 * (whole if k * (m + 1) <= COUPLED else k * (m + 1) ** 2)
    if needed > memory:
        raise MemoryError(
            f"Hessians of {m:,} features for {sum(y.shape[1] for y in targets)} functions take {readable(needed)} and "
            f"memory is {readable(memory)}; lower n_components, or raise memory=."
        )


def split(fits: list[FeatureFit], intercept: bool) -> tuple[Array, Array, list[Certificate]]:
    """Return weights (m, k), constants (k,) and certificates of all functions."""
    both = np.hstack([fit.theta for fit in fits])
    said = [fit.certificate for fit in fits]
    return (both[:-1], both[-1], said) if intercept else (both, np.zeros(both.shape[1]), said)


def keep_functions(model: Any, features: Any, weights: Array, single: bool) -> None:
    """Keep functions as expansions at landmarks or, where a map has none, by their weights: weights (m, k)."""
    if not has_landmarks(features):
        model.coef_ = weights.ravel() if single else weights
        return
    dual = features.expansion(weights)
    model.X_fit_, model._landmarks = features.components_, features.component_indices_
    model.dual_coef_ = dual.ravel() if single else dual
    model.function_ = as_array(model._functions(features.kernel_, features.components_, dual), single)
