"""Learning the parameters of a kernel: starts from the data, a rough climb from each, and L-BFGS to the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, OptimizeResult, minimize

from gramian.certificates import Certificate
from gramian.kernels import Kernel
from gramian.progress import Clock, Tick, silent
from gramian.solvers.gp.starts import data_starts

__all__ = ["SCREEN", "Objective", "Optimizer", "Optimum", "learn", "maximise"]

Objective = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]
"""From theta to a value to be made large, and its gradient."""
Optimizer = Callable[..., tuple[NDArray[np.float64], float]]
"""scikit-learn's contract: ``optimizer(obj_func, initial_theta, bounds)`` returns theta and the least value."""

ROUGH = {"ftol": 1e-5, "gtol": 1e-1}
"""Where a climb ends whose place is compared with others first."""
NEAR = 0.05
"""A distance, in theta, at which a climb has come to where another one ended."""
NEWTON_STEPS = 5
"""Steps that the slope alone decides on, once the value is flat to rounding and a line search fails."""
HAIR = 1e-10
"""A step, in theta, that changes nothing but rounding."""
DIFFERENCE = 1e-3
"""The step, in theta, of the differences that a Hessian is made of."""
SCREEN = 500
"""Rows on which the starts compete."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best of several runs."""

    theta: NDArray[np.float64]  # (p,): Where
    value: float  # How large; ``-inf`` where no start had a finite value
    slope: NDArray[np.float64]  # (p,): The gradient there; at a bound that binds it points outwards
    certificate: Certificate  # Of kind ``"evidence"``: ``primal`` is the value

    def certified(self, solved: Certificate) -> Certificate:
        """Return the certificate joined with that of the posterior."""
        learned = self.certificate
        posterior = f"the posterior's residual is {solved.violation:.1e}, {solved.message}" if solved.message else ""
        message = " ".join(m for m in (learned.message, posterior) if m)
        seconds = max(learned.seconds, solved.seconds)
        return replace(learned, converged=learned.converged and solved.converged, seconds=seconds, message=message)


def learn(
    kernel: Kernel,
    evidence: Callable[..., Any],
    *,
    data: tuple[Any, NDArray[np.float64], np.random.RandomState] | None = None,
    screen: Callable[..., Any] | None = None,
    optimizer: str | Optimizer = "fmin_l_bfgs_b",
    restarts: Sequence[NDArray[np.float64]] = (),
    **options: Any,
) -> Optimum:
    """Maximise the evidence over the free parameters of a kernel, from its own values and from what ``data`` say."""
    own = None if isinstance(optimizer, str) else optimizer
    starts = [kernel.theta]
    if data is not None:
        # L-BFGS begins at the kernel's own values too, as scikit-learn's does; a user's optimizer is called once.
        candidates = data_starts(kernel, *data)
        starts, others = (starts, candidates[1:]) if own is None else ([], candidates)
        values = [(screen or evidence)(kernel.with_theta(theta)).value for theta in others]
        starts += [others[int(np.argmax(values))]] if others else []

    def climb(evidence: Callable[..., Any], theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        at = evidence(kernel.with_theta(theta), gradient=True)
        return at.value, at.gradient

    return maximise(
        partial(climb, evidence),
        [*starts, *restarts],
        kernel.bounds,
        screen=None if screen is None else partial(climb, screen),
        optimizer=own,
        **options,
    )


def maximise(
    objective: Objective,
    starts: Sequence[NDArray[np.float64]],
    bounds: NDArray[np.float64],
    *,
    screen: Objective | None = None,
    optimizer: Optimizer | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    clock: Clock | None = None,
    tick: Tick = silent,
) -> Optimum:
    """Climb to the end from the start that leads highest, as rough climbs tell: on ``screen``, where there is one."""
    climb = _Climb(objective, bounds, math.sqrt(tol), max_iter, clock or Clock(), tick)
    inside = [np.clip(start, *bounds.T) for start in starts]
    if optimizer is not None:
        best = max((climb.by(optimizer, start) for start in inside), key=lambda run: run.value)
    elif screen is None:
        best = climb.competition(inside)
    else:
        best = climb.first_finite(inside if len(inside) == 1 else climb.ranked(inside, screen))
    return Optimum(best.theta, best.value, best.slope, climb.certificate(best))


@dataclass(frozen=True, eq=False)
class _Run:
    """Where one run ended, and why."""

    theta: NDArray[np.float64]
    value: float
    slope: NDArray[np.float64]
    message: str
    limited: bool = False


class _Climb:
    """One objective, its sign turned for minimisers, with the count of steps and the clock."""

    def __init__(
        self,
        objective: Objective,
        bounds: NDArray[np.float64],
        flat: float,
        max_iter: int,
        clock: Clock,
        tick: Tick,
    ) -> None:
        self.objective, self.bounds, self.clock, self.tick = objective, bounds, clock, tick
        self.flat, self.max_iter = flat, max_iter
        self.iterations = 0
        self.known: list[NDArray[np.float64]] = []  # ends of climbs; one that comes near to them stops

    def ranked(self, starts: list[NDArray[np.float64]], screen: Objective) -> list[NDArray[np.float64]]:
        """Where rough climbs on a cheaper objective lead, the highest place first."""
        runs: list[_Run] = []
        objective, self.objective = self.objective, screen
        for start in starts:
            if runs and self.clock.expired:
                break
            runs.append(self.lbfgs(start, ROUGH))
            self.known.append(runs[-1].theta)
        self.objective, self.known = objective, []
        return [run.theta for run in sorted(runs, key=lambda run: -run.value)]

    def first_finite(self, starts: list[NDArray[np.float64]]) -> _Run:
        """The end of the climb from the first start that has a finite value."""
        for start in starts:
            run = self.to_the_end(start)
            if math.isfinite(run.value):
                break
        return run

    def competition(self, starts: list[NDArray[np.float64]]) -> _Run:
        """The end of the first climb, unless a rough climb from another start leads higher."""
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

    def to_the_end(self, start: NDArray[np.float64]) -> _Run:
        """L-BFGS until the slope is flat; by Newton's method where the value is flat to rounding before."""
        run = self.lbfgs(start, {"ftol": 0.0, "gtol": 0.5 * self.flat, "maxls": 10})
        steps = NEWTON_STEPS if math.isfinite(run.value) and not run.limited else 0
        for _ in range(steps):
            left = self.violation(run)
            if left <= self.flat or self.clock.expired:
                break
            trial = self.newton(run)
            if not self.violation(trial) < left:
                break
            run = trial
        return run

    def newton(self, run: _Run) -> _Run:
        """One Newton step within the bounds, with a Hessian of differences of slopes."""
        low, high = self.bounds.T
        free = ~(((run.theta <= low) & (run.slope < 0)) | ((run.theta >= high) & (run.slope > 0)))
        inward = np.where(run.theta + DIFFERENCE > high, -DIFFERENCE, DIFFERENCE)
        H = np.zeros((run.theta.size, run.theta.size))
        for j in np.flatnonzero(free):
            moved = run.theta.copy()
            moved[j] += inward[j]
            H[j] = (self.objective(moved)[1] - run.slope) / inward[j]
        curvature, axes = np.linalg.eigh(0.5 * (H + H.T)[np.ix_(free, free)])
        size = np.maximum(np.abs(curvature), 1e-3 * np.abs(curvature).max(initial=self.flat))
        step = np.zeros_like(run.theta)
        step[free] = np.clip(axes @ ((axes.T @ run.slope[free]) / size), -1.0, 1.0)
        theta = np.clip(run.theta + step, low, high)
        value, slope = self.objective(theta)
        self.iterations += 1
        return _Run(theta, value, slope, run.message)

    def lbfgs(self, start: NDArray[np.float64], stop: dict[str, float]) -> _Run:
        options: Any = {"maxiter": self.max_iter, "maxfun": 20 * self.max_iter, "maxcor": 20, **stop}
        found = minimize(
            self.descend,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(*self.bounds.T),
            callback=self.step,
            options=options,
        )
        limited = found.nit >= self.max_iter
        return _Run(found.x, -float(found.fun), -np.asarray(found.jac), str(found.message), limited)

    def by(self, optimizer: Optimizer, start: NDArray[np.float64]) -> _Run:
        theta = np.asarray(optimizer(self._for_users, start, bounds=self.bounds)[0], dtype=np.float64)
        value, slope = self.objective(theta)
        return _Run(theta, value, slope, "optimizer=")

    def _for_users(self, theta: NDArray[np.float64], eval_gradient: bool = True) -> Any:
        value, slope = self.descend(np.asarray(theta, dtype=np.float64))
        return (value, slope) if eval_gradient else value

    def descend(self, theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, slope = self.objective(theta)
        return -value, -slope

    def step(self, intermediate_result: OptimizeResult) -> None:
        self.iterations += 1
        self.tick(self.iterations, evidence=-float(intermediate_result.fun))
        near = any(np.abs(intermediate_result.x - end).max() < NEAR for end in self.known)
        if near or self.clock.expired:
            raise StopIteration

    def violation(self, run: _Run) -> float:
        """The largest slope that the bounds allow."""
        slope = np.clip(run.theta + run.slope, *self.bounds.T) - run.theta
        return float(np.abs(slope).max(initial=0.0))

    def certificate(self, best: _Run) -> Certificate:
        violation = self.violation(best)
        if math.isfinite(best.value) and violation <= self.flat:
            # A hair's breadth away the slope is the same, but for its rounding.
            theta = np.clip(best.theta + HAIR, *self.bounds.T)
            violation = max(violation, self.violation(_Run(theta, *self.objective(theta), "")))
        converged = math.isfinite(best.value) and violation <= self.flat
        return Certificate(
            kind="evidence",
            primal=best.value,
            violation=violation,
            converged=converged,
            iterations=self.iterations,
            seconds=self.clock.seconds,
            message="" if converged else self._reason(best),
        )

    def _reason(self, best: _Run) -> str:
        if not math.isfinite(best.value):
            return "the kernel matrix was not positive definite at any start; raise alpha, or learn the noise."
        if self.clock.expired:
            return "max_time passed while hyperparameters were learned; raise it, or learn from fewer rows (evidence=)."
        if best.limited:
            return f"the optimiser stopped early ({best.message}); raise max_iter, or try other starts."
        return "the slope of the evidence does not vanish, or rounding hides it; raise alpha, or learn the noise."
