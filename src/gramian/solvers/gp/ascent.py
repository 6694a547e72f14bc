"""Maximisation of one objective within bounds: L-BFGS, Newton steps, and BFGS from a Hessian of fewer rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, OptimizeResult, minimize

from gramian.certificates import Certificate, certify
from gramian.progress import Clock, Tick

Array = NDArray[np.float64]

Theta = Array
Objective = Callable[[Theta], tuple[float, Theta]]
"""From theta to the value to maximise, and its gradient."""

ROUGH = {"ftol": 1e-5, "gtol": 1e-1}
"""Tolerances of a rough run, whose end is compared with others."""
LBFGS_AIM, NEWTON_AIM = 0.01, 0.1
"""Shares of the largest slope that converges: where L-BFGS stops, and below which no Newton step is taken."""
STRIDE, EXPLORING = 1.0, 4.0
"""The longest first step, in theta, of the run to the end, and of a rough one: a longer one finds more optima."""
FLAT_VALUE = 1e-11
"""Below this relative gain L-BFGS follows rounding errors."""
FINE = {"ftol": FLAT_VALUE, "maxls": 10}
"""Tolerances of a run to the end, beside that of its slope."""
FINE_AIM, CHEAP = 1e-4, 3
"""The share below which no Newton step is taken if there are so few parameters, or if one was put at its bound: small
enough that fits to rows that differ by rounding agree."""
FIRST_AIM = 10.0
"""The share at which Newton's method takes over from L-BFGS if there are few parameters."""
NEAR = 0.3
"""A run within this distance, in theta, of the end of another one stops."""
APART = 1.0
"""Ends of rough runs further apart than this, in theta, are different optima."""
NEWTON_STEPS = 5
"""Newton steps at most; they are judged by the slope, since near the optimum the value is constant to rounding."""
MUCH = 0.1
"""After a step that reduces the slope to less than this share, the next one uses the same Hessian."""
ROUNDING_STEPS = (1e-13, -1e-13, 2e-13)
"""Steps, in theta, that change rounding errors only."""
UNCHANGED = 0.01
"""Slopes that change by less than this share of the largest that converges are not made of rounding."""
DIFFERENCE = 1e-4
"""The step, in theta, of the differences that a Hessian is made of; entries of a linear map may be known to 1e-3."""
PLATEAU = 1e-3
"""Where the evidence curves less than this along a parameter it may be constant, and higher elsewhere."""
LEAST_CURVATURE = 1e-6
"""Smaller curvatures are replaced by this share of the largest, which bounds the length of a Newton step."""
PATIENCE = 10
"""So many quasi-Newton steps must halve the slope, or L-BFGS takes over: it is faster in a curved valley."""
SHORTER, SHORTEST = 0.25, 5
"""The factor by which a step that lowers the value is shortened, and how often."""
ROUNDING = 1e-9
"""A relative decrease of the value that may be rounding: such a step is judged by the slope."""


@dataclass(frozen=True, eq=False)
class ThetaPoint:
    """A theta, with the value and the gradient there."""

    theta: Theta
    value: float
    slope: Theta
    limited: bool = False  # Whether the number of steps ended the run here


@dataclass(eq=False)
class Ascent:
    """The maximisation of one objective."""

    objective: Objective
    bounds: Array  # (p, 2)
    flat: float  # The largest slope that converges
    max_iter: int
    clock: Clock
    tick: Tick
    aim: float = LBFGS_AIM  # Shares of that slope: where L-BFGS stops, and below which no Newton step is taken
    newton_aim: float = NEWTON_AIM
    iterations: int = 0
    plateau: bool = False  # Whether the last Hessian is as good as zero along a parameter
    known: list[Theta] = field(default_factory=list)  # Ends of earlier runs; one that comes near them stops
    guess: tuple[Theta, Array] | None = None  # An end, and about minus the Hessian there

    def ranked(self, starts: list[Theta], screen: Objective, share: float) -> list[Theta]:
        """The ends of rough runs on a cheaper objective, the highest first, where the Hessian is estimated."""
        runs: list[ThetaPoint] = []
        objective, self.objective = self.objective, screen
        for start in starts:
            if runs and self.clock.expired:
                break
            runs.append(self.lbfgs(start, ROUGH))
            self.known.append(runs[-1].theta)
        runs.sort(key=lambda run: -run.value)
        if math.isfinite(runs[0].value):
            B = self.curvature(runs[0], np.ones(runs[0].theta.size, dtype=bool), timed=True)
            self.guess = None if B is None else (runs[0].theta, B / share)
        self.objective, self.known = objective, []
        return [run.theta for run in runs]

    def first_finite(self, starts: list[Theta]) -> ThetaPoint:
        """The end of the run from the first start with a finite value."""
        for start in starts:
            run = self.to_the_end(start)
            if math.isfinite(run.value):
                break
        return run

    def compared(self, ends: list[Theta], starts: list[Theta], value: Callable[[Theta], float]) -> ThetaPoint:
        """The starts and the ends of rough runs, compared again by the objective itself."""
        distinct = [end for i, end in enumerate(ends) if not any(_near(end, other, APART) for other in ends[:i])]
        first = max([*distinct, *starts], key=value)
        return self.best_of([first, *(end for end in distinct if not _near(end, first, APART))])

    def best_of(self, starts: list[Theta]) -> ThetaPoint:
        """The end of the first run, unless a rough run from another start ends higher."""
        best = self.first_finite(starts)
        for start in starts[1:]:
            if self.clock.expired:
                break
            self.known = [best.theta]
            rough = self.lbfgs(start, ROUGH)
            self.known = []
            if rough.value > best.value:
                best = max(best, self.to_the_end(rough.theta), key=lambda run: run.value)
        return best

    def to_the_end(self, start: Theta) -> ThetaPoint:
        """L-BFGS, then Newton steps, which need no line search; both until the slope vanishes."""
        if self.guess is not None and self.guess[0] is start:
            (_, B), self.guess = self.guess, None
            return self.from_curvature(start, B)
        first = FIRST_AIM if start.size <= CHEAP and self.aim < FIRST_AIM else self.aim
        run = self.newton(self.lbfgs(start, FINE | {"gtol": first * self.flat}, STRIDE), self.newton_aim * self.flat)
        ended = run.limited or self.clock.expired
        if not ended and first > self.aim and self.violation(run) > self.aim * self.flat:
            again = self.lbfgs(run.theta, FINE | {"gtol": self.aim * self.flat})
            run = self.newton(again, self.newton_aim * self.flat)
        if not ended and self.flat < self.violation(run) < math.inf:  # in a curved valley
            again = self.lbfgs(run.theta, FINE | {"gtol": self.aim * self.flat, "ftol": 0.0})
            run = min(run, self.newton(again, self.newton_aim * self.flat), key=self.violation)
        bound = self.moved_to_bound(run)
        if bound is None or not self.at(bound).value >= run.value:
            return run
        # The value is constant up to the bound, so that any end before it would depend on rounding.
        return self.newton(self.lbfgs(bound, FINE | {"gtol": self.aim * self.flat}), FINE_AIM * self.flat)

    def newton(self, run: ThetaPoint, flat: float) -> ThetaPoint:
        """Newton steps while they lower the slope; one Hessian serves as long as they lower it much."""
        steps = NEWTON_STEPS if math.isfinite(run.value) and not run.limited else 0
        B: Array | None = None
        for _ in range(steps):
            left, free = self.violation(run), self.free(run)
            if left <= flat or self.clock.expired:
                break
            if B is None:
                B = self.curvature(run, free, timed=True)
                if B is None:
                    break
                self.plateau = bool(np.diagonal(B)[free].min(initial=np.inf) < PLATEAU)
            trial = self.at(self.newton_step(run, B, 1e-3))
            self.iterations += 1
            after = self.violation(trial)
            if not after < left:
                break
            run, B = trial, B if after < MUCH * left and np.array_equal(free, self.free(trial)) else None
        return run

    def moved_to_bound(self, run: ThetaPoint) -> Theta | None:
        """Theta with the parameter of the largest slope moved to its bound; None if all slopes vanish."""
        slope = np.clip(run.theta + run.slope, *self.bounds.T) - run.theta
        if not self.aim * self.flat < self.violation(run) < math.inf:
            return None
        worst, moved = int(np.argmax(np.abs(slope))), run.theta.copy()
        moved[worst] = self.bounds[worst, int(slope[worst] > 0)]
        return moved

    def free(self, run: ThetaPoint) -> NDArray[np.bool_]:
        """Which parameters are not held at a bound."""
        low, high = self.bounds.T
        return ~(((run.theta <= low) & (run.slope < 0)) | ((run.theta >= high) & (run.slope > 0)))

    def curvature(self, run: ThetaPoint, free: NDArray[np.bool_], *, timed: bool = False) -> Array | None:
        """Minus the Hessian, by differences of slopes in the free parameters; None if ``timed`` and time runs out."""
        inward = np.where(run.theta + DIFFERENCE > self.bounds[:, 1], -DIFFERENCE, DIFFERENCE)
        B = np.zeros((run.theta.size, run.theta.size))
        for j in np.flatnonzero(free):
            if timed and self.clock.expired:
                return None
            moved = run.theta.copy()
            moved[j] += inward[j]
            B[j] = (run.slope - self.objective(moved)[1]) / inward[j]
        return 0.5 * (B + B.T)

    def newton_step(self, run: ThetaPoint, B: Array, least: float) -> Theta:
        """The end of a Newton step within the bounds; curvatures are at least a share of the largest."""
        free = self.free(run)
        curvature, axes = np.linalg.eigh(B[np.ix_(free, free)])
        size = np.maximum(np.abs(curvature), least * np.abs(curvature).max(initial=self.flat))
        step = np.zeros_like(run.theta)
        step[free] = np.clip(axes @ ((axes.T @ run.slope[free]) / size), -1.0, 1.0)
        return np.asarray(np.clip(run.theta + step, *self.bounds.T))

    def from_curvature(self, start: Theta, B: Array) -> ThetaPoint:
        """Quasi-Newton steps, followed by L-BFGS unless the slope vanishes."""
        run = self.bfgs(start, B)
        return run if self.violation(run) <= self.newton_aim * self.flat else self.to_the_end(run.theta)

    def bfgs(self, start: Theta, B: Array) -> ThetaPoint:
        """BFGS from a Hessian known from fewer rows, until the slope vanishes or no step helps."""
        run = self.at(start)
        enough, slopes = min(self.aim, self.newton_aim) * self.flat, [math.inf] * PATIENCE
        for _ in range(self.max_iter):
            slopes.append(self.violation(run))
            if not enough < slopes[-1] < 0.5 * slopes[-1 - PATIENCE] or self.clock.expired:
                break
            trial = self.backtracked(run, self.newton_step(run, B, LEAST_CURVATURE))
            gain, rounding = trial.value - run.value, ROUNDING * abs(run.value)
            if not gain > (-rounding if self.violation(trial) < self.violation(run) else rounding):
                break
            step, change = trial.theta - run.theta, run.slope - trial.slope
            Bs = B @ step
            if change @ step > 0 and step @ Bs > 0:
                B = B + np.outer(change, change) / (change @ step) - np.outer(Bs, Bs) / (step @ Bs)
            run = trial
            self.iterations += 1
            self.tick(self.iterations, evidence=run.value)
        return run

    def backtracked(self, run: ThetaPoint, target: Theta) -> ThetaPoint:
        """The end of a step, shortened while it lowers the value."""
        for _ in range(SHORTEST):
            trial = self.at(target)
            if trial.value >= run.value - ROUNDING * abs(run.value):
                break
            target = run.theta + SHORTER * (target - run.theta)
        return trial

    def at(self, theta: Theta) -> ThetaPoint:
        """Evaluate the objective."""
        return ThetaPoint(theta, *self.objective(theta))

    def lbfgs(self, start: Theta, stop: dict[str, float], stride: float = EXPLORING) -> ThetaPoint:
        """L-BFGS within the bounds; SciPy's first step is the whole gradient, which ``unit`` keeps within a stride."""
        first = self.at(start)
        if not math.isfinite(first.value):
            return first
        unit, size = max(float(np.abs(first.slope).max(initial=0.0)) / stride, 1.0), abs(first.value)

        def descend(theta: Theta) -> tuple[float, Theta]:
            value, slope = (first.value, first.slope) if np.array_equal(theta, start) else self.objective(theta)
            return -value / unit, -slope / unit

        def step(intermediate_result: OptimizeResult) -> None:
            self.step(intermediate_result.x, -unit * float(intermediate_result.fun))

        flat = {"gtol": stop["gtol"] / unit, "ftol": stop["ftol"] * max(size, 1.0) / max(size, unit)}
        options: Any = {"maxiter": self.max_iter, "maxfun": 20 * self.max_iter, "maxcor": 20, **stop, **flat}
        limits = Bounds(*self.bounds.T)
        found = minimize(descend, start, jac=True, method="L-BFGS-B", bounds=limits, callback=step, options=options)
        return ThetaPoint(found.x, -unit * float(found.fun), -unit * np.asarray(found.jac), found.nit >= self.max_iter)

    def descend(self, theta: Theta, eval_gradient: bool = True) -> Any:
        """Return the objective to minimise, by scikit-learn's contract."""
        value, slope = self.objective(np.asarray(theta, dtype=np.float64))
        return (-value, -slope) if eval_gradient else -value

    def step(self, theta: Theta, value: float) -> None:
        """Count a step of L-BFGS, and stop it if the time is over or the end of another run is near."""
        self.iterations += 1
        self.tick(self.iterations, evidence=value)
        near = any(_near(theta, end) for end in self.known)
        if near or self.clock.expired:
            raise StopIteration

    def violation(self, run: ThetaPoint) -> float:
        """The largest slope that the bounds allow to follow."""
        slope = np.clip(run.theta + run.slope, *self.bounds.T) - run.theta
        return float(np.abs(slope).max(initial=0.0)) if math.isfinite(run.value) else math.inf

    def violation_with_rounding(self, run: ThetaPoint) -> float:
        """The violation by the steepest slope that rounding may hide: at most the range of slopes a step apart off."""
        runs = [run]
        for step in ROUNDING_STEPS:
            runs.append(self.at(np.clip(run.theta + step, *self.bounds.T)))
            change = np.abs(runs[-1].slope - run.slope)
            # Equal slopes prove nothing: sums of large terms are multiples of the last digit of those.
            if np.all((change > 0) & (change < UNCHANGED * self.flat)):
                break
        slopes, value = np.array([near.slope for near in runs]), min(near.value for near in runs)
        middle, reach = 0.5 * (slopes.min(axis=0) + slopes.max(axis=0)), np.ptp(slopes, axis=0)
        return max(self.violation(replace(run, value=value, slope=middle + side * reach)) for side in (-1.0, 1.0))

    def certificate(self, best: ThetaPoint) -> Certificate:
        """Return how far the slope is from zero, and why."""
        violation = self.violation(best)
        if violation <= self.flat:
            violation = self.violation_with_rounding(best)
        why = "the slope of the evidence does not vanish, or rounding hides it; raise alpha, or learn the noise."
        if not math.isfinite(best.value):
            why = "the kernel matrix was not positive definite at any start; raise alpha, or learn the noise."
        elif self.clock.expired:
            why = "max_time passed while hyperparameters were learned; raise it, or learn from fewer rows (evidence=)."
        elif best.limited:
            why = "the optimiser reached its limit of steps; raise max_iter, or try other starts."
        seconds = self.clock.seconds
        return certify(
            "evidence", violation, self.flat, why, iterations=self.iterations, seconds=seconds, primal=best.value
        )


def _near(a: Theta, b: Theta, distance: float = NEAR) -> bool:
    return bool(np.abs(a - b).max(initial=0.0) < distance)
