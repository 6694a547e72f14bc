"""The base class of machines with any loss: exact and approximate spaces, fit, duality."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv

from gramian.certificates import together
from gramian.data.passes import Held, Need, Part, Passes
from gramian.estimators.base import (
    adapted,
    forget,
    is_blocks,
    kept_in_features,
    opened,
    refuse,
    refuse_device,
    restored_on_failure,
    row_weights,
    sampled,
    warn_unless_converged,
)
from gramian.estimators.duality import Duality, FittedTo, Program
from gramian.estimators.machine.cross_validation import losses_of_lams
from gramian.estimators.machine.parameters import MachineParameters
from gramian.features.base import WorkerMap, fit_map, parameters_checked
from gramian.gram import Gram
from gramian.gram.operator import as_predicted, wide
from gramian.kernels import Kernel
from gramian.kernels.resolve import is_precomputed
from gramian.losses import check_gradient, resolve
from gramian.progress import Clock, progress
from gramian.resources import memory_budget, readable
from gramian.solvers.in_features import machine as in_features
from gramian.solvers.in_features.newton import FeatureStart
from gramian.solvers.in_features.objective import Targets
from gramian.solvers.machine import bundle
from gramian.solvers.machine.data_term import DataFit
from gramian.solvers.machine.function_space import ExactSpace
from gramian.solvers.machine.newton import Iterate
from gramian.solvers.machine.penalties import Goal, check_penalty, choose, less_rounding
from gramian.solvers.machine.solve import ExactFit, Problem, solve

DENSE = 1000
"""Most rows for which the smallest eigenvalue of K is computed."""
VISIBLE = 1e-6
"""A negative eigenvalue counts as one, not as rounding, if it exceeds this share of the largest."""
COPIES = 3
"""Hessians in memory at once: two summands and their sum."""

Array = NDArray[np.float64]
Last = dict[str, Any]
"""The attributes of a fitted machine, from which the next fit may start."""


# ---- spaces ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Exact:
    """The RKHS of a kernel, spanned by some rows."""

    kernel: Kernel
    space: ExactSpace
    rows: Part
    total: int  # Rows, including those of weight zero
    points: Any  # The rows, or their square Gram matrix

    @classmethod
    def of(cls, machine: Machine, kernel: Kernel, held: Held) -> Exact:
        """Set up the Gram matrix of the rows."""
        rows = held.all
        points = rows.X[:, rows.index] if is_precomputed(kernel) and rows.index.size < held.total else rows.X
        return cls(kernel, ExactSpace(machine._gram(kernel, points), machine.random_state), rows, held.total, points)

    def solve(self, goal: Goal, targets: Targets, starts: list[Any], *, final: bool) -> list[ExactFit]:
        """Fit functions; a ``final`` fit certifies the values that ``predict`` computes."""
        columns, weights = targets.of(self.rows)
        if goal.solver == "bundle":
            return [bundle.solve(self.space, loss, y, goal) for loss, y in zip(targets.losses, columns, strict=True)]
        predict = partial(as_predicted, self.space.gram, wide(self.points)) if final else None
        fits = [DataFit(loss, y, weights) for loss, y in zip(targets.losses, columns, strict=True)]
        problems = [Problem(self.space, fit, goal, predict=predict) for fit in fits]
        fitted = [solve(problem, start) for problem, start in zip(problems, starts, strict=True)]
        if final and (why := indefinite(self.space.gram)):
            said = [replace(each.certificate, converged=False, message=why) for each in fitted]
            return [replace(each, certificate=certificate) for each, certificate in zip(fitted, said, strict=True)]
        return fitted

    @property
    def sample(self) -> Part:
        """All rows."""
        return self.rows

    def mapped(self, task: Any, need: Need) -> list[Any]:
        """Return the results of a task on the rows."""
        return [task(None, iter([self.rows]))]

    def starts(self, last: Last, widths: list[int]) -> list[Iterate] | None:
        """Return starting points from the last coefficients, if their shape fits."""
        dual, columns, n = last.get("dual_coef_"), sum(widths), self.total
        if dual is None or dual.shape[0] != n or dual.size != n * columns:
            return None
        alpha = dual.reshape(n, columns)[self.rows.index]
        each = (split(array, widths) for array in (alpha, self.space @ alpha, np.atleast_1d(last["intercept_"])))
        return [Iterate(*parts) for parts in zip(*each, strict=True)]

    def values(self, fitted: list[ExactFit], X: Any) -> list[Array]:
        """Return the values of functions at new rows; of a precomputed kernel, at rows of k(new, these)."""
        K = self.space.gram.like(wide(X), wide(self.points))
        return [np.asarray(K @ each.at.alpha + each.at.b) for each in fitted]

    def kept(self, fitted: list[ExactFit]) -> Last:
        """Return the coefficients of all rows and the dual point of their certificate."""

        def spread(parts: list[Array]) -> Array:
            found = np.hstack(parts)
            whole = np.zeros((self.total, found.shape[1]))
            whole[self.rows.index] = found
            return whole

        constants = np.concatenate([each.at.b for each in fitted])
        dual, slopes = spread([each.at.alpha for each in fitted]), spread([each.u for each in fitted])
        return {"dual_coef_": dual, "dual_point_": slopes, "intercept_": constants}


@dataclass(frozen=True, eq=False)
class InFeatures:
    """The feature space of a map, over passes."""

    features: Any
    lift: WorkerMap
    passes: Passes
    sample: Part
    memory: int

    @classmethod
    def of(cls, machine: Machine, kernel: Kernel | None, passes: Passes) -> InFeatures:
        """Fit the map."""
        sample = sampled(machine, passes)
        kernel = machine._resolved(wide(sample.X), sample.weight) if kernel is None else kernel
        features = fit_map(adapted(machine, kernel), passes, sample, error=False)
        lift = WorkerMap.of(features, sample.X[:1])
        return cls(features, lift, passes, sample, memory_budget(machine.memory))

    @property
    def kernel(self) -> Kernel:
        """The kernel that the map approximates."""
        kernel: Kernel = self.features.kernel_
        return kernel

    def solve(self, goal: Goal, targets: Targets, starts: list[Any], *, final: bool) -> list[in_features.FeatureFit]:
        """Fit functions, in passes shared by all."""
        widths = [y.shape[1] for y in targets.of(self.sample.take(slice(0, 1)))[0]]
        sizes = [in_features.hessian_size(k * (self.lift.width + 1), k) for k in widths]
        if COPIES * 8 * sum(sizes) > self.memory:
            raise MemoryError(
                f"Hessians of {self.lift.width:,} features for {sum(widths)} functions take "
                f"{readable(COPIES * 8 * sum(sizes))} and memory is {readable(self.memory)}; lower n_components, or "
                "raise memory=."
            )
        fitted = in_features.solve(self.passes, self.lift, goal, targets, self.sample, starts)
        if hasattr(self.features, "trace_error_"):
            self.features.trace_error_ = fitted[0].error
        return [self._less_rounding(each, goal.tol) for each in fitted] if final and self.lift.basis else fitted

    def _less_rounding(self, fitted: in_features.FeatureFit, tol: float) -> in_features.FeatureFit:
        """A fit whose certificate includes the rounding errors of predictions from the landmarks."""
        kept = kept_in_features(self.features, fitted.theta[: self.lift.width], self.sample.X.dtype)
        rows = self.kernel.prepare(wide(kept["X_fit_"]))[0]
        error = self.kernel.rounding(rows) * float(np.abs(self.kernel.diagonal(rows)).max())
        said = less_rounding(fitted.certificate, tol, fitted.steep, kept["dual_coef_"], error)
        return replace(fitted, certificate=said)

    @property
    def rows(self) -> Part:
        """All rows, if they are in memory."""
        rows: Part = self.passes.blocks.all
        return rows

    def mapped(self, task: Any, need: Need) -> list[Any]:
        """Return the results of a task on the rows, in one pass."""
        return list(self.passes.map(task, None, need=need))

    def starts(self, last: Last, widths: list[int]) -> list[FeatureStart] | None:
        """Return starting points from the last weights, constants and widths of envelopes, if their shape fits."""
        past = last.get("_last")
        if past is None or past.shape[1] != sum(widths) or past.shape[0] not in self.lift.width + np.array([1, 2]):
            return None
        return [FeatureStart(part[:-1], float(part[-1, 0])) for part in split(past, widths)]

    def values(self, fitted: list[in_features.FeatureFit], X: Any) -> list[Array]:
        """Return the values of functions at new rows; of a precomputed kernel, at rows of k(new, these)."""
        m = self.lift.width
        return [
            np.asarray(self.features.evaluate(wide(X), each.theta[:m])) + each.theta[m:].sum(axis=0) for each in fitted
        ]

    def kept(self, fitted: list[in_features.FeatureFit]) -> Last:
        """Return the coefficients of the landmarks, or the weights of the features if the map has no landmarks."""
        m, theta = self.lift.width, np.hstack([each.theta for each in fitted])
        widths = np.concatenate([np.full(each.theta.shape[1], each.width) for each in fitted])
        kept = kept_in_features(self.features, theta[:m], self.sample.X.dtype)
        return {**kept, "_last": np.vstack([theta, widths]), "intercept_": theta[m:].sum(axis=0)}


def split(array: Array, widths: list[int]) -> list[Array]:
    """Cut the last axis into parts of given widths."""
    return np.split(array, np.cumsum(widths)[:-1], axis=-1)


# ---- machines -------------------------------------------------------------------------------------------------------


class Machine(Duality, MachineParameters):
    """The base class of KernelMachineRegressor and KernelMachineClassifier: how they are fitted. Not for direct use."""

    _along = ("lam", "radius")
    _task: ClassVar[str]  # The task that a loss must have
    _wrong: ClassVar[str]  # End of the error message for a loss of the other task

    dual_point_: ClassVar[Any]

    # ---- fit ----------------------------------------------------------------------------------------------------

    @parameters_checked
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the functions.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), Blocks, path or Dask collection
            Rows; the square Gram matrix if the kernel is precomputed; a sequence of objects for a kernel on objects.
        y : array-like of shape (n,) or (n, k)
            Labels, or numbers; not needed with ``Blocks`` that name a target.
        sample_weight : float, array-like of shape (n,) or None, default=None
            Weights >= 0; a row of weight zero is left out.
        """
        self._fit(X, y, sample_weight)
        warn_unless_converged(self.certificate_, self)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fit without a warning if it did not converge."""
        clock, loss = Clock(self.max_time), self._check_loss()
        with restored_on_failure(self):
            last = dict(vars(self)) if self.warm_start else {}
            forget(self)
            with self._opened(X, y, sample_weight) as place:
                self._fit_functions(place, loss, clock, last)

    @classmethod
    def _fit_path(cls, machines: Sequence[Any], X: Any, y: Any = None, sample_weight: Any = None) -> None:
        """Fit machines that differ only in the parameters ``_along``, in one space, each warm-started by the last."""
        for machine in machines:
            machine._validate_params()
            machine._check_loss()
        first = machines[0]
        with first._opened(X, y, sample_weight) as place:
            learned = {name: value for name, value in vars(first).items() if name.endswith("_") or name == "_fitted_to"}
            last: Last = {}
            for machine in sorted(machines, key=lambda machine: -machine._strength()):
                vars(machine).update(learned)
                machine._fit_functions(place, machine._check_loss(), Clock(machine.max_time), last)
                warn_unless_converged(machine.certificate_, machine)
                last = vars(machine)

    def _check_loss(self) -> Any:
        """The loss object; refuse one for the other task."""
        loss = resolve(self.loss)
        if getattr(loss, "task", self._task) != self._task:
            raise ValueError(f"{type(loss).__name__} is a loss for {self._wrong}")
        return loss

    @contextmanager
    def _opened(self, X: Any, y: Any, sample_weight: Any) -> Iterator[Exact | InFeatures]:
        """Open the space of the functions for a ``with`` block."""
        refuse_device(self)
        if not is_blocks(X):
            X, y = self._validated(X, y)
            if self.approximation is None:
                self.X_fit_, self._fitted_to = X, FittedTo(X, y, sample_weight)
            held = Held(X, y, row_weights(sample_weight, X), memory=self.memory)
            self._check_kept(y, held.all.y)
            with self._place(held) as place:
                yield place
            return
        if self.approximation is None:
            refuse(self)
        if self.lam == "cv":
            raise ValueError(
                "lam='cv' fits many times; over blocks give lam as a number, chosen on a sample of the rows."
            )
        with opened(self, X, y, sample_weight) as passes:
            yield InFeatures.of(self, None, passes)

    @contextmanager
    def _place(self, held: Held, kernel: Kernel | None = None) -> Iterator[Exact | InFeatures]:
        """The exact space of the rows, or that of the approximation fitted on them."""
        if self.approximation is None:
            yield Exact.of(self, kernel or self._resolved(held.all.X, held.all.weight), held)
            return
        with held.passes(n_jobs=self.n_jobs, verbose=self.verbose, label=type(self).__name__) as passes:
            yield InFeatures.of(self, kernel, passes)

    def _check_kept(self, y: Any, kept: Any) -> None:
        """Refuse weights of zero that leave out a whole class; y are all targets, kept those of positive weight."""

    def _targets(self, loss: Any, place: Exact | InFeatures) -> Any:
        """Return the losses of all functions and how to compute their targets."""
        raise NotImplementedError

    def _fit_functions(self, place: Exact | InFeatures, loss: Any, clock: Clock, last: Last) -> None:
        """Fit all functions and set the learned attributes."""
        targets = self._targets(loss, place)
        choice = choose(targets.losses[0], self.solver)
        columns, shares = targets.of(place.sample)
        if choice.name == "bundle":
            self._check_joint(shares)
        for own, column in zip(targets.losses, columns, strict=True):
            if not getattr(own, "coupled", False) and not getattr(own, "joint", False):
                check_gradient(own, column.ravel())
        if not isinstance(self.penalty, str):
            check_penalty(self.penalty)
        means: Any = {"tol": self.tol, "max_iter": self.max_iter, "clock": clock}
        goal = Goal(choice.name, self.penalty, self._strength(), bool(self.fit_intercept), **means)
        if self.lam == "cv":
            folds = check_cv(self.cv, np.asarray(place.rows.y), classifier=is_classifier(self))
            given = (targets, goal, folds, self.lams, self.memory)
            self.lams_, self.cv_path_ = losses_of_lams(place, self._place, *given)
            goal = replace(goal, strength=float(self.lams_[np.argmin(self.cv_path_)]))
        widths = [column.shape[1] for column in columns]
        starts = place.starts(last, widths) or [None] * len(widths)
        shown = self.verbose if self.approximation is None else False  # passes have their own bar
        with progress(shown, f"{type(self).__name__}, {choice.name}") as tick:
            fitted: Any = place.solve(replace(goal, tick=tick), targets, starts, final=True)
        self.kernel_, self.solver_, self.loss_ = place.kernel, choice, targets.loss
        self.certificate_ = together([each.certificate for each in fitted])
        self.n_iter_ = max(self.certificate_.iterations, 1)
        multipliers = np.array([each.multiplier for each in fitted])
        self.multiplier_ = float(multipliers[0]) if len(fitted) == 1 else multipliers
        if self.penalty != "ball":
            self.lam_ = goal.strength
        self._keep(place.kept(fitted), single=np.asarray(place.sample.y).ndim == 1 and sum(widths) == 1)

    def _check_joint(self, weights: Array) -> None:
        """Refuse parameters that cannot be combined with a loss of all values jointly."""
        wrong = {
            "lam=0": self.lam == 0,
            "approximation=": self.approximation is not None,
            f"penalty={self.penalty!r}": self.penalty != "squared",
            "lam='cv'": self.lam == "cv",
            "sample_weight": np.ptp(weights) > 0,
        }
        for what, given in wrong.items():
            if given:
                raise ValueError(f"a loss of all values jointly cannot be combined with {what}; leave it out.")

    def _keep(self, kept: Last, *, single: bool) -> None:
        """Set the coefficients, without the axis of functions if there is a single function."""
        if not self.warm_start:
            kept.pop("_last", None)
        for name, value in kept.items():
            setattr(self, name, value)
        if single:
            self.intercept_ = float(kept["intercept_"][0])
            for name in {"coef_", "dual_coef_", "dual_point_"} & kept.keys():
                setattr(self, name, kept[name].ravel())

    def _strength(self) -> float:
        """The radius or lam; zero if lam is still to be chosen by cross-validation."""
        if self.lam != "cv":
            if self.lams is not None:
                raise ValueError(f"lams is the grid of lam='cv', but lam={self.lam!r}; set one of the two.")
            if self.lam == 0 and (self.penalty not in ("squared", "ball") or self.approximation is not None):
                raise ValueError(
                    "lam=0, the loss alone, is found as the limit of the squared penalty on all rows; leave penalty= "
                    "and approximation= at the default, or use lam > 0."
                )
            return float(self.radius if self.penalty == "ball" else self.lam)
        if self.penalty == "ball":
            raise ValueError("lam='cv' chooses lam, which penalty='ball' does not have; use 'squared' or 'norm'.")
        return 0.0

    # ---- duality ------------------------------------------------------------------------------------------------

    def _check_rows_kept(self) -> None:
        if hasattr(self, "approximation_"):
            raise ValueError(
                "duality needs a slope for each row, which a fit with approximation= does not keep; fit without it."
            )

    def _programs(self, X: Any, y: Any, sample_weight: Any) -> list[Program]:
        X, y = self._validated(X, y, reset=False)
        place = Exact.of(self, self.kernel_, Held(X, y, row_weights(sample_weight, X), memory=self.memory))
        targets, rows = copy(self)._targets(self.loss_, place), place.rows.index
        columns, weights = targets.of(place.rows)
        total, multipliers = float(weights.sum()), np.atleast_1d(self.multiplier_)
        strength = self.radius if self.penalty == "ball" else self.lam_ * total
        if strength == 0:
            raise ValueError("with lam=0 the dual has no penalty; use a small lam > 0 instead.")
        widths = [column.shape[1] for column in columns]
        alpha, u = (array.reshape(len(array), -1)[rows] for array in (self.dual_coef_, self.dual_point_))
        parts = zip(*(split(array, widths) for array in (alpha, np.atleast_1d(self.intercept_), u)), strict=True)
        same: Any = {"penalty": self.penalty, "strength": strength, "intercept": bool(self.fit_intercept)}
        same |= {"total": total}
        each = zip(targets.losses, columns, parts, multipliers, strict=True)
        times = place.space.__matmul__
        return [
            Program(rows, times, loss, column, weights, a, b, v, multiplier=float(m) * total, **same)
            for loss, column, (a, b, v), m in each
        ]

    def _together(self, values: list[float]) -> float:
        """Sum over functions, as the certificate does."""
        return float(sum(values))

    def _values(self, X: Any) -> Array:
        """Fitted values at validated rows in float64, one column per function."""
        f = self._evaluate(X)
        return np.asarray(f.reshape(f.shape[0], -1) + np.atleast_1d(self.intercept_))


def indefinite(gram: Gram) -> str:
    """Say if K has a clearly negative eigenvalue; only checked for kernels that may be indefinite, on few rows."""
    if gram.kernel.definite or gram.shape[0] > DENSE:
        return ""
    values = np.linalg.eigvalsh(gram.dense())
    if values[0] >= -VISIBLE * max(float(values[-1]), 0.0):
        return ""
    return "K is not positive semi-definite on these rows, so the dual value is not a bound; see is_kernel."
