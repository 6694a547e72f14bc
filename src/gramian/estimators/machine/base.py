"""What the machines with any loss share: parameters, spaces, penalties, the choice of lam, the fit itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, _num_samples

from gramian.certificates import Certificate
from gramian.estimators.approximation import APPROXIMATION, adapted, features_of, has_landmarks
from gramian.estimators.base import COMMON, KERNEL, Expansion, as_array, as_grid, rows_of, wide
from gramian.gram import Gram
from gramian.gram.operator import as_predicted
from gramian.kernels import Kernel
from gramian.kernels.resolve import is_precomputed
from gramian.losses import check_gradient
from gramian.progress import Clock, progress
from gramian.resources import memory_budget
from gramian.solvers.choice import Choice
from gramian.solvers.machine.data_term import DataFit
from gramian.solvers.machine.function_space import ExactSpace, FeatureSpace
from gramian.solvers.machine.newton import Iterate
from gramian.solvers.machine.problem import NEEDS, Fitted, Problem, choose
from gramian.solvers.machine.solve import solve

__all__ = ["MACHINE", "Machine", "Task", "plain_folds", "together"]

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
OPTIONAL = ("lams_", "cv_path_", "approximation_", "_landmarks", "_last", "dual_coef_", "X_fit_", "function_", "coef_")
"""What one fit has and the next may not."""
GRID = np.logspace(0, -6, 13)
"""The grid of lam="cv", in units of the mean of k(x, x)."""
CONVERSIONS = {
    "alpha": "scikit-learn's KernelRidge minimises Σ (f - y)² + alpha ‖f‖²: lam = alpha / n",
    "C": "the SVM minimises ‖f‖² / 2 + C Σ loss: lam = 1 / (n C)",
}
"""How other libraries spell the regularisation."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Task:
    """One function or, where a loss couples them, one group of functions to fit."""

    loss: Any  # The loss
    y: Array  # (n, k): Its targets


@dataclass(frozen=True, eq=False)
class _Place:
    """A space on some rows, and the way from coefficients at these rows to the values of a function."""

    kernel: Kernel
    space: Any
    points: Any
    features: Any = None

    def weights(self, alpha: Array) -> Array:
        """Weights of the features of the function with coefficients alpha at the rows."""
        return np.asarray(self.space.factor.T @ alpha)

    def predicted(self, alpha: Array, memory: Any) -> Array:
        """Values at the rows themselves, as ``predict`` will compute them."""
        if self.features is None:
            return as_predicted(self.space.gram, wide(self.points), alpha)
        return np.asarray(self.features.evaluate(self.points, self.weights(alpha), memory))

    def evaluation(self, X: Any, memory: Any, n_jobs: int | None) -> Callable[[Array], Array]:
        """From coefficients to values at new rows; of a precomputed kernel, at rows of k(new, these)."""
        if self.features is not None:
            return lambda alpha: np.asarray(self.features.evaluate(X, self.weights(alpha), memory))
        K = Gram(self.kernel, X, wide(self.points), memory=memory, n_jobs=n_jobs)
        return lambda alpha: np.asarray(K @ alpha)


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
        kernel = self._resolved(X)
        place = self._place(kernel, X, rows)
        with progress(self.verbose, f"{type(self).__name__}, {choice.name}") as tick:
            strength, chosen = self._strength(place.kernel, X, tasks, weights, rows, choice, folds, clock)
            template = self._template(choice, clock, tick, polish=True)
            fitted = [
                solve(template(place, task, weights[rows], rows), self.penalty, strength, start)
                for task, start in self._starts(place, tasks, rows)
            ]
        self._keep(X, place, rows, fitted, choice, strength, chosen)

    def _weights(self, sample_weight: Any, X: Any, y: Any) -> Array:
        weights = np.ones(_num_samples(X))
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
        if not np.any(weights):
            raise ValueError("sample_weight must be positive for at least one row; all weights are zero.")
        return np.asarray(weights)

    def _template(self, choice: Choice, clock: Clock, tick: Any, *, polish: bool) -> Any:
        """A maker of problems that differ in rows and targets only."""

        def problem(place: _Place, task: Task, weights: Array, rows: NDArray[np.intp]) -> Problem:
            fit = DataFit(task.loss, task.y[rows], weights)
            means: Any = {"tol": self.tol, "max_iter": self.max_iter, "polish": polish, "clock": clock, "tick": tick}
            predict = partial(place.predicted, memory=self.memory) if polish else None
            return Problem(place.space, fit, bool(self.fit_intercept), choice.name, **means, predict=predict)

        return problem

    def _place(self, kernel: Kernel, X: Any, rows: NDArray[np.intp]) -> _Place:
        """The exact space of some rows, or that of the approximation fitted to them."""
        points = rows_of(kernel, X, rows)
        if self.approximation is None:
            return _Place(kernel, ExactSpace(self._gram(kernel, X, rows), self.random_state), points)
        features = adapted(self, kernel)
        F = features_of(features, points, self.memory)
        return _Place(features.kernel_, FeatureSpace(F, memory_budget(self.memory)), points, features)

    def _starts(
        self, place: _Place, tasks: list[Task], rows: NDArray[np.intp]
    ) -> Iterator[tuple[Task, Iterate | None]]:
        """Every task with where it begins: at the last fit where ``warm_start`` and the shapes allow it."""
        columns = sum(task.y.shape[1] for task in tasks)
        last = getattr(self, "dual_coef_" if place.features is None else "_last", None) if self.warm_start else None
        n = tasks[0].y.shape[0]
        if last is None or last.shape[0] != n or last.size != n * columns:
            yield from ((task, None) for task in tasks)
            return
        alpha, b = last.reshape(n, columns)[rows], np.atleast_1d(self.intercept_)
        values = place.space @ alpha
        done = 0
        for task in tasks:
            own = slice(done, done + task.y.shape[1])
            done = own.stop
            yield task, Iterate(alpha[:, own], values[:, own], b[own])

    # ---- the strength -------------------------------------------------------------------------------------------

    def _strength(
        self,
        kernel: Kernel,
        X: Any,
        tasks: list[Task],
        weights: Array,
        rows: NDArray[np.intp],
        choice: Choice,
        folds: Any,
        clock: Clock,
    ) -> tuple[float, tuple[Array, Array] | None]:
        """The radius or lam; where lam is chosen by cross-validation, also the grid and its losses."""
        if self.lam != "cv":
            if self.lams is not None:
                raise ValueError(f"lams is the grid of lam='cv', but lam={self.lam!r}; set one of the two.")
            return float(self.radius if self.penalty == "ball" else self.lam), None
        if self.penalty == "ball":
            raise ValueError("lam='cv' chooses lam, which penalty='ball' has not; use 'squared' or 'norm'.")
        grid = self._grid(kernel, X)
        template = self._template(choice, clock, lambda *_, **__: None, polish=False)
        total, held_out = np.zeros(grid.size), 0.0
        for train, test in folds(self.cv, rows):
            place = self._place(kernel, X, train)
            held_out += float(weights[test].sum())
            for task in tasks:
                problem = template(place, task, weights[train], train)
                total += self._path(problem, place, kernel, X, task, weights, train, test, grid)
        path = total / held_out
        return float(grid[np.argmin(path)]), (grid, path)

    def _grid(self, kernel: Kernel, X: Any) -> Array:
        if self.lams is None:
            scale = float(np.mean(Gram(kernel, X).diagonal())) or 1.0
            return np.asarray(GRID * scale)
        return np.sort(as_grid("lams", self.lams))[::-1]

    def _path(
        self,
        problem: Problem,
        place: _Place,
        kernel: Kernel,
        X: Any,
        task: Task,
        weights: Array,
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        grid: Array,
    ) -> Array:
        """Losses on held-out rows, from the largest lam to the smallest, each fit starting at the one before."""
        rows = X[test][:, train] if is_precomputed(kernel) else X[test]
        evaluate = place.evaluation(wide(rows), self.memory, self.n_jobs)
        losses, start = np.empty(grid.size), None
        for i, lam in enumerate(grid):
            start = solve(problem, self.penalty, float(lam), start).at
            f = evaluate(start.alpha) + start.b
            losses[i] = DataFit(task.loss, task.y[test], weights[test]).value(f)
        return losses

    # ---- what goes out ------------------------------------------------------------------------------------------

    def _keep(
        self,
        X: Any,
        place: _Place,
        rows: NDArray[np.intp],
        fitted: list[Fitted],
        choice: Choice,
        strength: float,
        chosen: tuple[Array, Array] | None,
    ) -> None:
        for name in OPTIONAL:
            self.__dict__.pop(name, None)
        alpha = np.hstack([each.at.alpha for each in fitted])
        dual = np.zeros((_num_samples(X), alpha.shape[1]))
        dual[rows] = alpha
        self.kernel_, self.solver_ = place.kernel, choice
        if place.features is None:
            self.dual_coef_, self.X_fit_ = dual, X
        else:
            if self.warm_start:
                self._last = dual  # one number for each row: what a fit to the same rows can begin with, by any map
            self.approximation_ = place.features
            self._keep_in_features(X, place.features, rows, place.weights(alpha))
        self.intercept_ = np.concatenate([each.at.b for each in fitted])
        self.certificate_ = together([each.certificate for each in fitted])
        self.n_iter_ = max(self.certificate_.iterations, 1)
        multipliers = np.array([each.multiplier for each in fitted])
        self.multiplier_ = float(multipliers[0]) if len(fitted) == 1 else multipliers
        if self.penalty != "ball":
            self.lam_ = strength
        if chosen is not None:
            self.lams_, self.cv_path_ = chosen

    def _keep_in_features(self, X: Any, features: Any, rows: NDArray[np.intp], weights: Array) -> None:
        """Coefficients at the landmarks, or weights of the features where a map has none."""
        if not has_landmarks(features):
            self.coef_ = weights
            return
        self._landmarks = rows[features.component_indices_]
        self.X_fit_ = rows_of(features.kernel_, X, self._landmarks)
        self.dual_coef_ = features.expansion(weights)

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
