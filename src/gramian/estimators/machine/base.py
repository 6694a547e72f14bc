"""What the machines with any loss share: parameters, spaces, penalties, the choice of lam, the fit itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from gramian.certificates import Certificate
from gramian.data.parts import Part
from gramian.data.passes import Passes
from gramian.estimators.approximation import APPROXIMATION, adapted, features_of, lifted
from gramian.estimators.base import COMMON, KERNEL, Expansion, as_array, as_grid, forget, rows_of, wide
from gramian.estimators.machine.places import Exact, Goal, InFeatures, Task, in_passes, keep_functions, split
from gramian.gram import Gram
from gramian.kernels import Kernel
from gramian.kernels.resolve import is_precomputed
from gramian.losses import check_gradient
from gramian.progress import Clock, progress
from gramian.solvers.choice import Choice
from gramian.solvers.in_features.objective import Targets
from gramian.solvers.machine.data_term import DataFit
from gramian.solvers.machine.function_space import ExactSpace
from gramian.solvers.machine.problem import NEEDS, choose

__all__ = ["MACHINE", "Machine", "plain_folds", "together"]

MACHINE: dict[str, list[Any]] = {
    "loss": [str, HasMethods(["value", "gradient"])],
    "penalty": [StrOptions({"squared", "norm", "ball"})],
    "lam": [Interval(Real, 0, None, closed="neither"), StrOptions({"cv"})],
    "radius": [Interval(Real, 0, None, closed="neither")],
    **KERNEL,
    "fit_intercept": ["boolean"],
    "approximation": APPROXIMATION,
    "solver": [StrOptions({"auto", *NEEDS})],
    "lams": ["array-like", None],
    "cv": ["cv_object"],
    "random_state": COMMON["random_state"],
    "warm_start": COMMON["warm_start"],
}
"""Constraints on the parameters of a machine."""
GRID = np.logspace(0, -6, 13)
"""The grid of lam="cv", in units of the mean of k(x, x)."""
CONVERSIONS = {
    "alpha": "scikit-learn's KernelRidge minimises Σ (f - y)² + alpha ‖f‖²: lam = alpha / n",
    "C": "the SVM minimises ‖f‖² / 2 + C Σ loss: lam = 1 / (n C)",
}
"""How other libraries spell the regularisation."""

Array = NDArray[np.float64]


def _refuse_other_spellings(parameters: Any, who: str) -> None:
    for name in CONVERSIONS.keys() & set(parameters):
        raise TypeError(
            f"{who} has no parameter {name!r}; its strength is lam, of mean loss + (lam/2) ‖f‖². {CONVERSIONS[name]}."
        )


class Machine(Expansion):
    """The part of a machine that does not know whether it predicts numbers or labels."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = MACHINE
    # Parameters, set by the estimator's own constructor.
    penalty: str
    lam: Any
    radius: float
    fit_intercept: bool
    solver: str
    lams: Any
    cv: Any
    tol: float
    max_iter: int
    max_time: float | None
    verbose: int | bool
    random_state: Any
    warm_start: bool
    intercept_: Any

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        _refuse_other_spellings(parameters, cls.__name__)
        return super().__new__(cls)

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Parameters
        ----------
        **params : dict
            As in the constructor.

        Returns
        -------
        estimator
            The estimator itself.
        """
        _refuse_other_spellings(params, type(self).__name__)
        return super().set_params(**params)

    # ---- fit ----------------------------------------------------------------------------------------------------

    def _fit_tasks(self, X: Any, tasks: list[Task], weights: Array, folds: Any) -> None:
        """Fit all tasks on the rows that count, and keep what is learned."""
        clock = Clock(self.max_time)
        for task in tasks:
            if not getattr(task.loss, "coupled", False):
                check_gradient(task.loss, task.y[weights > 0].ravel())
        rows = np.flatnonzero(weights)
        choice = choose(tasks[0].loss, self.solver)
        place: Any = self._place(self._resolved(X), X, rows)
        with progress(self.verbose, f"{type(self).__name__}, {choice.name}") as tick:
            goal = self._goal(choice, 0.0, clock)
            strength, chosen = self._strength(place.kernel, X, tasks, weights, rows, goal, folds)
            goal = replace(goal, strength=strength, tick=tick)
            starts = self._starts(place, tasks, rows)
            own = [Task(task.loss, task.y[rows]) for task in tasks]
            fitted = place.solve(goal, own, weights[rows], starts, final=True)
        forget(self)
        place.keep(self, X, rows, fitted)
        self._keep(
            place.kernel, choice, strength, [each.certificate for each in fitted], [f.multiplier for f in fitted]
        )
        if chosen is not None:
            self.lams_, self.cv_path_ = chosen

    def _goal(self, choice: Choice, strength: float, clock: Clock) -> Goal:
        means: Any = {"tol": self.tol, "max_iter": self.max_iter, "n_jobs": self.n_jobs, "memory": self.memory}
        return Goal(choice.name, self.penalty, strength, bool(self.fit_intercept), clock=clock, **means)

    def _place(self, kernel: Kernel, X: Any, rows: NDArray[np.intp]) -> Exact | InFeatures:
        """The exact space of some rows, or that of the approximation fitted to them."""
        points = rows_of(kernel, X, rows)
        if self.approximation is None:
            return Exact(kernel, ExactSpace(self._gram(kernel, points), self.random_state), points)
        features = adapted(self, kernel)
        return InFeatures(features, features_of(features, points, self.memory))

    def _starts(self, place: Exact | InFeatures, tasks: list[Task], rows: NDArray[np.intp]) -> list[Any]:
        """Where each task begins: at the last fit where ``warm_start`` and the shapes allow it."""
        widths = [task.y.shape[1] for task in tasks]
        last = getattr(self, place.memory, None) if self.warm_start else None
        begun = None if last is None else place.starts(last, self.intercept_, widths, rows, tasks[0].y.shape[0])
        return [None] * len(tasks) if begun is None else begun

    def _fit_blocks(
        self, passes: Passes, sample: Part, losses: tuple[Any, ...], targets: Targets, single: bool, clock: Clock
    ) -> None:
        """Fit functions to rows that come by blocks, and keep what is learned."""
        choice = choose(losses[0], self.solver)
        goal = self._goal(choice, float(self.lam), clock)
        features, lift = lifted(self, self._resolved(sample.X), passes, sample)
        fitted = in_passes(nullcontext(passes), lift, sample, goal, losses, targets)
        if hasattr(features, "trace_error_"):
            features.trace_error_ = fitted[0].error
        weights, constants, said = split(fitted, goal.intercept)
        forget(self)
        self.approximation_, self.intercept_ = features, float(constants[0]) if single else constants
        self._keep(features.kernel_, choice, goal.strength, said, [each.multiplier for each in fitted])
        keep_functions(self, features, weights, single)

    def _check_blocks(self) -> None:
        """Refuse what a fit over blocks has no part in."""
        if self.penalty != "squared":
            raise ValueError(
                f"over blocks penalty must be 'squared', which leads to the same functions; got {self.penalty!r}."
            )
        if not isinstance(self.lam, int | float):
            raise ValueError(
                "lam='cv' fits many times; over blocks give lam as a number, chosen on a sample of the rows."
            )
        if self.warm_start:
            raise ValueError(
                "warm_start goes on from coefficients in memory; over blocks use Blocks(..., checkpoint=...)."
            )

    # ---- the strength -------------------------------------------------------------------------------------------

    def _strength(
        self,
        kernel: Kernel,
        X: Any,
        tasks: list[Task],
        weights: Array,
        rows: NDArray[np.intp],
        goal: Goal,
        folds: Any,
    ) -> tuple[float, tuple[Array, Array] | None]:
        """The radius or lam; where lam is chosen by cross-validation, also the grid and its losses."""
        if self.lam != "cv":
            if self.lams is not None:
                raise ValueError(f"lams is the grid of lam='cv', but lam={self.lam!r}; set one of the two.")
            return float(self.radius if self.penalty == "ball" else self.lam), None
        if self.penalty == "ball":
            raise ValueError("lam='cv' chooses lam, which penalty='ball' has not; use 'squared' or 'norm'.")
        grid = self._grid(kernel, X)
        total, held_out = np.zeros(grid.size), 0.0
        for train, test in folds(self.cv, rows):
            place = self._place(kernel, X, train)
            held_out += float(weights[test].sum())
            points = X[test][:, train] if is_precomputed(kernel) else X[test]
            evaluate = place.evaluation(wide(points), self.memory, self.n_jobs)
            for task in tasks:
                total += self._path(goal, place, evaluate, task, weights, train, test, grid)
        path = total / held_out
        return float(grid[np.argmin(path)]), (grid, path)

    def _grid(self, kernel: Kernel, X: Any) -> Array:
        if self.lams is None:
            scale = float(np.mean(Gram(kernel, X).diagonal())) or 1.0
            return np.asarray(GRID * scale)
        return np.sort(as_grid("lams", self.lams))[::-1]

    def _path(
        self,
        goal: Goal,
        place: Any,
        evaluate: Callable[[Any], Array],
        task: Task,
        weights: Array,
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        grid: Array,
    ) -> Array:
        """Losses on held-out rows, from the largest lam to the smallest, each fit starting at the one before."""
        losses, start = np.empty(grid.size), None
        own, held_out = Task(task.loss, task.y[train]), DataFit(task.loss, task.y[test], weights[test])
        for i, lam in enumerate(grid):
            (fitted,) = place.solve(replace(goal, strength=float(lam)), [own], weights[train], [start], final=False)
            start = place.start(fitted)
            losses[i] = held_out.value(evaluate(fitted))
        return losses

    # ---- what goes out ------------------------------------------------------------------------------------------

    def _keep(
        self, kernel: Kernel, choice: Choice, strength: float, certificates: list[Certificate], multipliers: list[float]
    ) -> None:
        self.kernel_, self.solver_ = kernel, choice
        self.certificate_ = together(certificates)
        self.n_iter_ = max(self.certificate_.iterations, 1)
        self.multiplier_ = float(multipliers[0]) if len(multipliers) == 1 else np.array(multipliers)
        if self.penalty != "ball":
            self.lam_ = strength

    def _shape(self, single: bool) -> None:
        """Drop the axis of functions where there is one function, and keep the functions."""
        if single:
            self.intercept_ = float(self.intercept_[0])
        if hasattr(self, "coef_"):
            self.coef_ = self.coef_.ravel() if single else self.coef_
            return
        functions = self._functions(self.kernel_, self.X_fit_, self.dual_coef_)
        self.function_ = as_array(functions, single)
        self.dual_coef_ = self.dual_coef_.ravel() if single else self.dual_coef_

    def _values(self, X: Any) -> Array:
        """Fitted values at validated rows in float64, one column per function."""
        f = self._evaluate(X)
        return np.asarray(f.reshape(f.shape[0], -1) + np.atleast_1d(self.intercept_))


def plain_folds(cv: Any, rows: NDArray[np.intp], y: Any, *, classifier: bool) -> Iterator[tuple[Any, Any]]:
    """Yield the rows of each fold: rows (r,), y (n,) or (n, k)."""
    splitter = check_cv(cv, y[rows], classifier=classifier)
    for train, test in splitter.split(np.zeros((rows.size, 1)), y[rows]):
        yield rows[train], rows[test]


def together(certificates: list[Certificate]) -> Certificate:
    """Return one certificate for several fits: the worst of each figure, sums of objectives."""
    if len(certificates) == 1:
        return certificates[0]
    failed = [each for each in certificates if not each.converged]
    worst = max(certificates, key=lambda each: (not each.converged, np.nan_to_num(each.gap)))
    return replace(
        worst,
        primal=sum(each.primal for each in certificates),
        dual=sum(each.dual for each in certificates),
        gap=max(each.gap for each in certificates),
        violation=max(each.violation for each in certificates),
        converged=not failed,
        iterations=sum(each.iterations for each in certificates),
        seconds=max(each.seconds for each in certificates),
        message=(failed or [worst])[0].message,
    )
