"""Kernel machines with any loss and any penalty on the features of a map, over passes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.data.passes import Held, Part, Passes
from gramian.features.base import WorkerMap
from gramian.losses import offers
from gramian.solvers.in_features.newton import FeatureOptimum, FeatureStart, minimise
from gramian.solvers.in_features.objective import Ask, Functions, Point, Targets, concave, local
from gramian.solvers.machine.data_term import DataFit, best_constant, least_scale
from gramian.solvers.machine.penalties import SLACK, Goal, PathPoint, PenaltyPath, Turn, choose, gap_certificate

Array = NDArray[np.float64]

EACH, LEAST = 4, 2000
"""Rows of the sample whose optimum is the starting point: this many per feature, and at least so many in all."""
ROUGH = 1e-3
"""Relative gap to which the sample is solved: far below its sampling error."""
WIDER = 16.0
"""Factor by which a warm start widens the last envelope of the problem before."""
COUPLED = 3000
"""Most unknowns of coupled functions for which the full Hessian is factorised, not only its diagonal blocks."""
ENDLESS = (1e15, 1e45, 1e90)
"""Multipliers so large that f is zero up to the intercept; beyond the first, of large features."""


@dataclass(frozen=True, eq=False)
class FeatureFit:
    """A fitted function, or group of functions."""

    theta: Array  # (m, k) or (m + 1, k): Weights, then a row of intercepts
    width: float  # Of the last envelope
    certificate: Certificate  # How far from optimal
    multiplier: float  # The lam of the squared penalty that has the same solution; infinite where f is zero
    error: float  # The trace error of the map
    steep: float  # Σ|slopes|, the cost of an error of one in every value, relative to the objective

    @property
    def start(self) -> FeatureStart:
        """The warm start for a similar problem."""
        return FeatureStart(self.theta, WIDER * self.width)


def hessian_size(unknowns: int, functions: int) -> int:
    """Return how many numbers the Hessian of a group of functions holds."""
    return unknowns**2 if unknowns <= COUPLED else unknowns**2 // functions


def solve(
    passes: Passes, lift: WorkerMap, goal: Goal, targets: Targets, sample: Part, starts: list[FeatureStart | None]
) -> list[FeatureFit]:
    """Fit functions with any solver and penalty, from given starts or else from the optimum of a sample."""
    begun = _started(passes, lift, goal, targets, sample, starts)
    diagonal = max(start.theta.size for start in begun) > COUPLED
    functions = Functions(targets, goal.intercept, goal.strength, goal.solver == "proximal", diagonal)
    paths = [FeaturePath(passes, lift, goal, functions, i) for i in range(len(begun))]
    if goal.penalty != "squared" or goal.solver == "ccp":
        return [path.solve(start) for path, start in zip(paths, begun, strict=True)]
    found = paths[0].minimised(goal.strength, dict(enumerate(begun)), goal)
    return [path.fit(found[path.which], goal.strength) for path in paths]


@dataclass(frozen=True, eq=False)
class FeaturePath(PenaltyPath):
    """The problems with a squared penalty for one function on the features of a map."""

    passes: Passes
    lift: WorkerMap
    goal: Goal
    functions: Functions
    which: int

    @property
    def loss(self) -> Any:
        """The loss."""
        return self.functions.targets.losses[self.which]

    def minimised(self, lam: float, starts: dict[int, FeatureStart], goal: Goal) -> dict[int, FeatureOptimum]:
        """Minimise with the squared penalty; if a loss with only a gradient does not converge, assume it has kinks."""
        functions = replace(self.functions, lam=lam)
        found = minimise(self.passes, self.lift, functions, starts, goal)
        bent = {
            i: replace(starts[i], theta=each.theta)
            for i, each in found.items()
            if each.gap > goal.tol and not functions.kinks and _may_bend(functions.targets.losses[i])
        }
        if bent and not goal.clock.expired:
            found |= minimise(self.passes, self.lift, replace(functions, kinks=True), bent, goal)
        return found

    def fit(self, of: FeatureOptimum, multiplier: float, **other: float) -> FeatureFit:
        """Return an optimum as a fit, with its own gap or that of another penalty."""
        said = {"primal": of.primal, "dual": of.dual, "violation": of.violation, **other}
        loss = self.loss.convex_part() if self.functions.tangents else self.loss
        certificate = gap_certificate(
            self.goal, scale=of.scale, total=of.total, steps=of.steps, why=of.why, loss=loss, **said
        )
        return FeatureFit(of.theta, of.width, certificate, multiplier, of.error, of.steep / of.size)

    def plain(self, start: FeatureStart) -> FeatureFit:
        lam = self.goal.strength
        return self.fit(self.minimised(lam, {self.which: start}, self.goal)[self.which], lam)

    def squared(self, multiplier: float, start: FeatureStart, tol: float) -> PathPoint:
        goal = replace(self.goal, tol=tol)
        of = self.minimised(multiplier, {self.which: start}, goal)[self.which]
        norm = float(np.linalg.norm(of.theta[: self.lift.width]))
        value = of.primal - 0.5 * multiplier * of.total * norm**2
        return PathPoint(of, value, of.total, norm, of.slopes, replace(start, theta=of.theta, width=WIDER * of.width))

    def zero(self, start: FeatureStart) -> PathPoint:
        for multiplier in ENDLESS:
            found = self.squared(multiplier, start, SLACK * self.goal.tol)
            zero = self.scaled(found, 0.0)
            if abs(zero.value - found.value) <= SLACK * self.goal.tol * found.result.scale:
                break
        return zero

    def scaled(self, found: PathPoint, share: float) -> PathPoint:
        theta = found.result.theta.copy()
        theta[: self.lift.width] *= share
        point = Point(self.lift, self.functions, (Ask(self.which, theta, 1.0, hessian=False),))
        value = float(self.passes.sum(local, point, width=self.lift.width)["value0"])
        return replace(found, result=replace(found.result, theta=theta), norm=share * found.norm, value=value)

    def fitted(
        self, function: PathPoint, proof: PathPoint, primal: float, dual: float, violation: float, multiplier: float
    ) -> FeatureFit:
        of = replace(proof.result, theta=function.result.theta)
        return self.fit(of, multiplier, primal=primal, dual=dual, violation=violation)

    def again(self, start: FeatureStart, fitted: FeatureFit) -> FeatureStart:
        return replace(start, theta=fitted.theta, width=start.wide)

    def turned(self, fitted: FeatureFit | None) -> Turn:
        losses = self.functions.targets.losses
        tangents = [np.empty(0)] * len(losses)
        solver = choose(self.loss.convex_part()).name
        if fitted is None:
            functions = replace(self.functions, kinks=solver == "proximal", tangents=tuple(tangents))
            return Turn(replace(self, functions=functions, goal=replace(self.goal, solver=solver)), False, 0.0, 0.0)
        point = Point(self.lift, self.functions, (Ask(self.which, fitted.theta, 1.0),))
        seen = self.passes.sum(concave, point, width=self.lift.width)
        tangents[self.which] = fitted.theta
        path = replace(self, functions=replace(self.functions, tangents=tuple(tangents)))
        turned, excess, wrong = (float(seen[f"{name}0"] / seen["weight0"]) for name in ("turned", "excess", "wrong"))
        return Turn(path, turned == 0.0, excess, wrong)


def _may_bend(loss: Any) -> bool:
    return not offers(loss, "curvature") and not getattr(loss, "coupled", False) and getattr(loss, "convex", True)


# ---- starting points ------------------------------------------------------------------------------------------------


def _started(
    passes: Passes, lift: WorkerMap, goal: Goal, targets: Targets, sample: Part, given: list[FeatureStart | None]
) -> list[FeatureStart]:
    """The starting points of the functions: those given, or the optimum of a sample of the rows."""
    size = max(EACH * lift.width, LEAST)
    part = sample.take(np.arange(0, sample.index.size, -(-sample.index.size // size)))
    columns, weights = targets.of(part)
    fits = [DataFit(loss, y, weights) for loss, y in zip(targets.losses, columns, strict=True)]
    begun = [_origin(fit, lift.width, goal.intercept) for fit in fits]
    if any(given):
        pairs = zip(given, begun, strict=True)
        return [replace(own, theta=start.theta[: len(own.theta)], width=start.width) for start, own in pairs if start]
    few = passes.blocks.n_rows < 2 * part.index.size
    if few or goal.solver == "ccp" or goal.penalty != "squared" or any(np.any(np.ptp(y, axis=0) == 0) for y in columns):
        # If a class or all events are missing from the sample, the best constant may be infinite.
        return begun
    with Held(part.X, part.y, part.weight).passes() as few_passes:
        rough = replace(goal, tol=max(ROUGH, goal.tol))
        found = solve(few_passes, lift, rough, targets, part, list(begun))
    return [replace(own, theta=fit.theta, width=WIDER * fit.width) for fit, own in zip(found, begun, strict=True)]


def _origin(fit: DataFit, m: int, intercept: bool) -> FeatureStart:
    """The best constant, with an envelope as wide as the targets are large."""
    theta = np.zeros((m + int(intercept), fit.y.shape[1]))
    zero, total = np.zeros_like(fit.y), float(fit.w.sum())
    if intercept and not np.any(np.ptp(fit.y, axis=0) == 0.0):
        theta[m] = best_constant(fit, zero, np.zeros(fit.y.shape[1]))
    slope = np.abs(fit.gradient(zero + theta[m:].sum(axis=0)))
    steep = max(float(np.sum(slope) / np.sum(fit.w * (slope > 0))) if slope.any() else 1.0, 1e-3)
    reach = max(float(np.sum(fit.w * np.abs(fit.y))) / (total * fit.y.shape[1]), 1e-12)
    return FeatureStart(theta, reach / steep, reach / steep, least_scale(fit, intercept) / total)
