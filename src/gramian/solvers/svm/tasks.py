"""Quadratic programs of the support vector family, each with a feasible start, and the state of a descent on one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.solvers.svm.row_cache import Index

Vector = NDArray[np.float64]
SNAP = 1e-14
"""A variable this close to a bound, relative to the smaller of its range and the largest |β|, is set to the bound."""
NOISE = {"float32": 1e-5, "float64": 1e-9}
"""Negative curvature, relative to the diagonal, that rounding of the kernel can cause."""
VANISHED = 1e-9
"""Two hulls intersect if their squared distance, relative to the largest between objects, is below this."""
FEASIBLE = 1e-12
"""Error allowed in a sum of variables, relative to the sum of their absolute values."""
NOTHING = 1e-10
"""An objective below this share of its scale, C |y| or squared norms of objects, counts as zero; see ``nothing``."""
PAIR = 4.0
"""Rounding errors counted in a violation: the difference of two values, each with errors in sum and kernel.

One is ``e max k(x, x) ‖β‖₂`` for errors of random sign, with e the relative error of a kernel value. ``gramian.verify``
counts them in the same way.
"""
EXCESS = 2.0
"""The same in a slope minus the multiplier, which is a mean of slopes."""
NEARLY_SAME = 4.0 / 3.0
"""Up to this factor, the start of a task with wider bounds is the old solution itself."""
EPSILON = float(np.finfo(np.float64).eps)
TINIEST = float(np.finfo(np.float64).tiny)


def nothing(tol: float) -> float:
    """Return the share of its scale below which an objective counts as zero: for small ``tol``, rounding / ``tol``."""
    return max(NOTHING, PAIR * EPSILON / tol)


class Start(NamedTuple):
    """A feasible point, from which a descent begins."""

    beta: Vector  # (m,)
    values: Vector | None = None  # (objects,): Kβ, if known

    def part(self, a: int, z: int) -> Start:
        """Return the start of one of several concatenated tasks."""
        return Start(self.beta[a:z], None if self.values is None else self.values[a:z])


@dataclass(slots=True)  # made once for each pair of classes: frozen ones take five times as long
class Task:
    """One quadratic program of the family."""

    linear: Vector  # (m,): The linear term p
    lower: Vector  # (m,): Bounds; infinite for a hard margin
    upper: Vector  # (m,): Bounds; infinite for a hard margin
    start: Vector  # (m,): A feasible β; its sums over the groups are the right-hand sides of the constraints
    objects: Index  # (m,): The object of each variable, as its index in the kernel rows
    split: int  # Variables before this index form the first group, the others the second
    kink: float = 0.0  # The ε of regression
    # Whether the solution will be divided by half the difference of the groups' multipliers (ν classification, hard
    # margin), which is then the unit of the tolerance
    scaled: bool = False
    # The same task with ε = 0: if its Σ|β| is no more than ν allows, it has the same solution
    tubeless: Task | None = None
    values: Vector | None = None  # (objects,): Kβ at the start, if known

    def anchored(self, origin: int) -> Task:
        """Add a variable for an object at the origin, so that the sum of the others is unconstrained."""
        room = float(np.sum(self.upper - self.lower))
        ends = {"linear": 0.0, "lower": -room, "upper": room, "start": -float(self.start.sum()), "objects": origin}
        parts: Any = {name: np.append(getattr(self, name), value) for name, value in ends.items()}
        return replace(self, split=self.split + 1, values=None, **parts)


def classification(y: Vector, C: Vector, start: Start | None = None) -> Task:
    """``½‖w‖² + Σ C_i max(0, 1 - y_i f(x_i))``; β = αy: y (m,), C (m,)."""
    signed, start = C * y, start or Start(np.zeros(y.size))
    lower, upper, objects = np.minimum(signed, 0.0), np.maximum(signed, 0.0), np.arange(y.size)
    return Task(-y, lower, upper, start.beta, objects, y.size, values=start.values)


def nu_classification(y: Vector, weight: Vector, nu: float) -> Task:
    """ν classification; the solution has to be divided by ``Solution.unit``: y (m,), weight (m,)."""
    split = int(np.count_nonzero(y > 0))
    total = 0.5 * min(nu, largest_nu(y, weight)) * weight.sum()
    start = np.concatenate([_filled(weight[:split], total), -_filled(weight[split:], total)])
    lower, upper = np.minimum(weight * y, 0.0), np.maximum(weight * y, 0.0)
    return Task(np.zeros(y.size), lower, upper, start, np.arange(y.size), split, scaled=True)


def largest_nu(y: Vector, weight: Vector) -> float:
    """Return the largest feasible ν: y (m,), weight (m,)."""
    return float(2.0 * min(weight[y > 0].sum(), weight[y < 0].sum()) / weight.sum())


def hard_margin(y: Vector) -> Task:
    """The nearest points of two convex hulls: the hard margin, once divided by ``Solution.unit``. y (m,)."""
    split = int(np.count_nonzero(y > 0))
    start = np.zeros(y.size)
    start[0], start[split] = 1.0, -1.0
    # Each group sums to one, so |β| <= 1 and a bound of two is never reached.
    lower, upper = np.minimum(2.0 * y, 0.0), np.maximum(2.0 * y, 0.0)
    return Task(np.zeros(y.size), lower, upper, start, np.arange(y.size), split, scaled=True)


def regression(y: Vector, C: Vector, epsilon: float, start: Start | None = None) -> Task:
    """``½‖w‖² + Σ C_i max(0, |y_i - f(x_i)| - ε)``; β = α - α*: y (m,), C (m,)."""
    start = start or Start(np.zeros(y.size))
    return Task(-y, -C, C, start.beta, np.arange(y.size), y.size, kink=epsilon, values=start.values)


def nu_regression(y: Vector, C: Vector, nu: float) -> Task:
    """ν regression, with ε = ``-Solution.unit``: y (m,), C (m,)."""
    zero, start = np.zeros(y.size), _filled(C, 0.5 * nu * C.sum())
    start, objects = np.concatenate([start, -start]), np.tile(np.arange(y.size), 2)
    linear, lower, upper = (np.concatenate(halves) for halves in ((-y, -y), (zero, -C), (C, zero)))
    return Task(linear, lower, upper, start, objects, y.size, tubeless=regression(y, C, 0.0))


def novelty(weight: Vector, nu: float) -> Task:
    """The one-class machine: ``½‖w‖² - ρ ν Σweight + Σ weight_i max(0, ρ - f(x_i))``. weight (m,)."""
    zero, start = np.zeros(weight.size), _filled(weight, nu * weight.sum())
    return Task(zero, zero, weight, start, np.arange(weight.size), weight.size)


def start_of(task: Task, beta: Vector, values: Vector, growth: float, edges: Any = (0,)) -> Start:
    """Return where to start the task with bounds ``growth`` times as wide: c β, with about the best c <= ``growth``.

    It is ``growth`` where that is no worse than 1, so that variables stay at their bounds, and 1 where the best is
    nearly 1, so that slopes stay. Of concatenated tasks, which begin at the ``edges``, each has a c of its own: beta,
    values (m,).
    """
    slope = np.add.reduceat(task.linear * beta + task.kink * np.abs(beta), edges)
    quadratic = np.add.reduceat(beta * values, edges)
    scale = np.full(slope.size, growth)
    np.divide(np.maximum(-slope, 0.0), quadratic, out=scale, where=quadratic > 0)
    shorter = np.where(scale <= NEARLY_SAME, np.minimum(scale, 1.0), scale)
    scale = np.where(2.0 * scale >= 1.0 + growth, growth, np.minimum(shorter, growth))
    scales = np.repeat(scale, np.diff([*edges, beta.size]))
    return Start(np.clip(scales * beta, growth * task.lower, growth * task.upper), scales * values)


def _filled(room: Vector, total: float) -> Vector:
    """Fill entries in order, each up to its room, until they sum to the total."""
    before = np.concatenate([[0.0], np.cumsum(room)[:-1]])
    return np.clip(total - before, 0.0, room)


@dataclass(slots=True)
class Solution:
    """The solution of a task, with its certificate."""

    beta: Vector  # (m,): The signed dual variables
    values: Vector  # (objects,): (Kβ)_i of every object
    multipliers: tuple[float, float]  # One per group; with one group, minus the bias
    certificate: Certificate  # Duality gap and KKT violation
    convex: bool  # False if negative curvature was met: the kernel is not positive semi-definite
    vanished: bool  # Whether a scaled task ended with w = 0: the hulls of the two groups intersect

    @property
    def unit(self) -> float:
        """Half the difference of the groups' multipliers: the ρ of ν classification, minus the ε of ν regression."""
        return 0.5 * (self.multipliers[0] - self.multipliers[1])

    @property
    def bias(self) -> float:
        """Minus the mean of the groups' multipliers."""
        return -0.5 * (self.multipliers[0] + self.multipliers[1])


@dataclass
class State:
    """The state of a descent: all variables, or those left after shrinking, and Kβ at their objects."""

    task: Task
    beta: Vector  # (m,): The variables
    values: Vector  # (objects,): Kβ
    diagonal: Vector  # (objects,): k(x, x)

    @property
    def gradient(self) -> Vector:
        """The gradient of the smooth part."""
        return self.values[self.task.objects] + self.task.linear

    @property
    def norm2(self) -> float:
        """βᵀKβ = ‖w‖²."""
        return float(np.dot(self.beta, self.values[self.task.objects]))

    @property
    def by_object(self) -> Vector:
        """The sum of β over the variables of each object."""
        return self.summed(self.beta)

    def summed(self, v: Vector) -> Vector:
        """Return the sum over the variables of each object: v (m,) → (objects,)."""
        return np.asarray(np.bincount(self.task.objects, v, self.values.size), dtype=np.float64)

    @property
    def starts(self) -> list[int]:
        """Where each group that has variables begins."""
        return [0, self.task.split] if 0 < self.task.split < self.beta.size else [0]

    @property
    def groups(self) -> list[slice]:
        """The variables of each group."""
        return [slice(*ends) for ends in pairwise([*self.starts, self.beta.size])]

    def restrict(self, live: Index, kept: Index) -> State:
        """Return the problem in some of the variables, with the others fixed."""
        position = np.full(self.values.size, -1, dtype=np.intp)
        position[kept] = np.arange(kept.size)
        parts = {name: getattr(self.task, name)[live] for name in ("linear", "lower", "upper", "start")}
        objects, split = position[self.task.objects[live]], int(np.searchsorted(live, self.task.split))
        task = replace(self.task, objects=objects, split=split, **parts)
        return State(task, self.beta[live], self.values[kept], self.diagonal[kept])

    def snap(self) -> None:
        """Move variables within rounding of a bound or the kink onto it; they would otherwise count as free."""
        near = SNAP * np.minimum(self.task.upper - self.task.lower, np.abs(self.beta).max(initial=0.0))
        for place in (0.0, self.task.lower, self.task.upper):
            self.beta = np.where(np.abs(self.beta - place) <= near, place, self.beta)

    # ---- optimality ----------------------------------------------------------------------------------------------

    def slopes(self) -> tuple[Vector, Vector]:
        """Return the slopes of the objective for an increase and for a decrease; infinite at a bound."""
        return slopes(self.task, self.beta, self.gradient)

    def violation(self, up: Vector, down: Vector) -> float:
        """Return the largest KKT violation of a pair: up, down (m,)."""
        return float(violations(up, down, self.starts).max())

    def multipliers(self) -> tuple[float, float]:
        """Return the multipliers of the first group and of the last."""
        found = multipliers(*self.slopes(), self.starts)
        return float(found[0]), float(found[-1])

    def dual(self) -> float:
        """Return the dual objective."""
        task = self.task
        return -0.5 * self.norm2 - float(task.linear @ self.beta) - task.kink * float(np.abs(self.beta).sum())

    def gap(self, rounding: float = 0.0) -> float:
        """Return the duality gap; with ``rounding``, an upper bound for slopes with errors of that size."""
        level, widths = multipliers(*self.slopes(), self.starts), np.diff([*self.starts, self.beta.size])
        excess = self.gradient - np.repeat(level, widths)
        return float(gap_terms(self.task, self.beta, excess, rounding).sum())


def slopes(task: Task, beta: Vector, gradient: Vector) -> tuple[Vector, Vector]:
    """Return the slopes of the objective for an increase and for a decrease; infinite at a bound."""
    kink = task.kink
    up, down = (
        (gradient, gradient)
        if kink == 0.0
        else (gradient + np.where(beta >= 0, kink, -kink), gradient + np.where(beta > 0, kink, -kink))
    )
    return np.where(beta < task.upper, up, np.inf), np.where(beta > task.lower, down, -np.inf)


def violations(up: Vector, down: Vector, starts: Any) -> Vector:
    """Return the largest KKT violation of a pair in each group: up, down (m,), starts (g,) → (g,)."""
    return np.asarray(np.maximum.reduceat(down, starts) - np.minimum.reduceat(up, starts))


def multipliers(up: Vector, down: Vector, starts: Any) -> Vector:
    """Return each group's multiplier: the mean slope of its free variables, or the midpoint of the KKT interval."""
    free = up == down
    count, total = (np.add.reduceat(a, starts, dtype=np.float64) for a in (free, np.where(free, up, 0.0)))
    low, high = np.maximum.reduceat(down, starts), np.minimum.reduceat(up, starts)
    low, high = np.where(np.isinf(low), high, low), np.where(np.isinf(high), low, high)
    return np.where(count > 0, total / np.maximum(count, 1.0), 0.5 * (low + high))


def gap_terms(task: Task, beta: Vector, excess: Vector, rounding: Any = 0.0) -> Vector:
    """Return the terms of the duality gap, each >= 0 (Fenchel-Young), from slopes minus the multiplier: (m,) → (m,).

    With ``rounding``, the largest that each can be if the slopes have errors of that size.
    """
    lower, upper, kink = task.lower, task.upper, task.kink
    # The minimum of d·t + ε|t| - rounding |β - t| over [lower, upper] is at an end or at the kink.
    ends = []
    with np.errstate(invalid="ignore"):
        for end, error in ((lower, rounding), (upper, -rounding)):
            d = excess + error + np.sign(end) * kink
            ends.append(np.where(d == 0, 0.0, end * d) - error * beta)
    least = np.minimum(np.minimum(*ends), np.where((lower <= 0) & (upper >= 0), -rounding * np.abs(beta), np.inf))
    return np.asarray(excess * beta + kink * np.abs(beta) - least)
