"""Spaces in which machines are fitted: that of the rows, or that of a map over passes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.passes import Held, Need, Part, Passes
from gramian.estimators.base import adapted, sampled
from gramian.features.base import WorkerMap, fit_map
from gramian.gram import Gram
from gramian.gram.operator import as_predicted, wide
from gramian.kernels import Kernel
from gramian.kernels.resolve import is_precomputed
from gramian.resources import memory_budget, readable
from gramian.solvers.in_features import machine as in_features
from gramian.solvers.in_features.newton import Start
from gramian.solvers.in_features.objective import Targets
from gramian.solvers.machine import bundle
from gramian.solvers.machine.data_term import DataFit
from gramian.solvers.machine.function_space import ExactSpace
from gramian.solvers.machine.newton import Iterate
from gramian.solvers.machine.penalties import Goal, less_rounding
from gramian.solvers.machine.solve import Fitted, Problem, solve

if TYPE_CHECKING:
    from gramian.estimators.machine.base import Machine

DENSE = 1000
"""Most rows for which the smallest eigenvalue of K is computed."""
VISIBLE = 1e-6
"""A negative eigenvalue counts as one, not as rounding, if it exceeds this share of the largest."""
COPIES = 3
"""Hessians in memory at once: two summands and their sum."""

Array = NDArray[np.float64]
Last = dict[str, Any]
"""The attributes of a fitted machine, from which the next fit may start."""


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

    def solve(self, goal: Goal, targets: Targets, starts: list[Any], *, final: bool) -> list[Fitted]:
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

    def values(self, fitted: list[Fitted], X: Any) -> list[Array]:
        """Return the values of functions at new rows; of a precomputed kernel, at rows of k(new, these)."""
        K = self.space.gram.like(wide(X), wide(self.points))
        return [np.asarray(K @ each.at.alpha + each.at.b) for each in fitted]

    def kept(self, fitted: list[Fitted]) -> Last:
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
        alpha = self.features.expansion(fitted.theta[: self.lift.width])
        rows = self.kernel.prepare(wide(self._landmarks()))[0]
        error = self.kernel.rounding(rows) * float(np.abs(self.kernel.diagonal(rows)).max())
        said = less_rounding(fitted.certificate, tol, fitted.steep, alpha, error)
        return replace(fitted, certificate=said)

    @property
    def rows(self) -> Part:
        """All rows, if they are in memory."""
        rows: Part = self.passes.blocks.all
        return rows

    def mapped(self, task: Any, need: Need) -> list[Any]:
        """Return the results of a task on the rows, in one pass."""
        return list(self.passes.map(task, None, need=need))

    def starts(self, last: Last, widths: list[int]) -> list[Start] | None:
        """Return starting points from the last weights, constants and widths of envelopes, if their shape fits."""
        past = last.get("_last")
        if past is None or past.shape[1] != sum(widths) or past.shape[0] not in self.lift.width + np.array([1, 2]):
            return None
        return [Start(part[:-1], float(part[-1, 0])) for part in split(past, widths)]

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
        kept = {"approximation_": self.features, "_last": np.vstack([theta, widths])}
        kept["intercept_"] = theta[m:].sum(axis=0)
        if self.lift.basis is None:
            return {**kept, "coef_": theta[:m]}
        X = self._landmarks().astype(self.sample.X.dtype, copy=False)
        kept |= {"X_fit_": X, "_landmarks": self.features.component_indices_}
        return {**kept, "dual_coef_": self.features.expansion(theta[:m])}

    def _landmarks(self) -> Any:
        """The landmarks, or their square Gram matrix."""
        X = self.features.components_
        return X[:, self.features.component_indices_] if is_precomputed(self.kernel) else X


def split(array: Array, widths: list[int]) -> list[Array]:
    """Cut the last axis into parts of given widths."""
    return np.split(array, np.cumsum(widths)[:-1], axis=-1)


def indefinite(gram: Gram) -> str:
    """Say if K has a clearly negative eigenvalue; only checked for kernels that may be indefinite, on few rows."""
    if gram.kernel.definite or gram.shape[0] > DENSE:
        return ""
    values = np.linalg.eigvalsh(gram.dense())
    if values[0] >= -VISIBLE * max(float(values[-1]), 0.0):
        return ""
    return "K is not positive semi-definite on these rows, so the dual value is not a bound; see is_kernel."
