"""Quadratic programs of the support vector family, each with a feasible start, and the state of a descent on one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramian.solvers.svm.row_cache import Index

__all__ = [
    "State",
    "Task",
    "classification",
    "hard_margin",
    "largest_nu",
    "novelty",
    "nu_classification",
    "nu_regression",
    "regression",
]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """One quadratic program of the family."""

    linear: Vector  # (m,): The linear term p
    lower: Vector  # (m,): Bounds; infinite for a hard margin
    upper: Vector  # (m,): Bounds; infinite for a hard margin
    start: Vector  # (m,): A feasible β; its sums over the groups are the right-hand sides of the constraints
    objects: Index  # (m,): The object, by its position in the kernel rows, behind each variable
    split: int  # Variables before it form the first group, those from it on the second
    kink: float = 0.0  # The ε of regression
    # Whether the answer will be divided by half the difference of the groups' multipliers (ν classification, hard
    # margin), so that the tolerance has to be counted in that unit
    scaled: bool = False
    # The same without a tube: where |β| sums to no more than ν allows, its answer is the answer here, with ε = 0
    tubeless: Task | None = None


def classification(y: Vector, C: Vector, start: Vector | None = None) -> Task:
    """``½‖w‖² + Σ C_i max(0, 1 - y_i f(x_i))``; β = αy: y (m,), C (m,), start (m,)."""
    signed = C * y
    start = np.zeros(y.size) if start is None else start
    return Task(-y, np.minimum(signed, 0.0), np.maximum(signed, 0.0), start, np.arange(y.size), y.size)


def nu_classification(y: Vector, weight: Vector, nu: float) -> Task:
    """ν classification; the answer has to be divided by ``Solution.unit``: y (m,), weight (m,)."""
    split = int(np.count_nonzero(y > 0))
    total = 0.5 * min(nu, largest_nu(y, weight)) * weight.sum()
    start = np.concatenate([_filled(weight[:split], total), -_filled(weight[split:], total)])
    lower, upper = np.minimum(weight * y, 0.0), np.maximum(weight * y, 0.0)
    return Task(np.zeros(y.size), lower, upper, start, np.arange(y.size), split, scaled=True)


def largest_nu(y: Vector, weight: Vector) -> float:
    """Return the largest ν that both classes have enough rows for: y (m,), weight (m,)."""
    return float(2.0 * min(weight[y > 0].sum(), weight[y < 0].sum()) / weight.sum())


def hard_margin(y: Vector) -> Task:
    """The nearest points of two convex hulls: the hard margin, once divided by ``Solution.unit``. y (m,)."""
    split = int(np.count_nonzero(y > 0))
    start = np.zeros(y.size)
    start[0], start[split] = 1.0, -1.0
    # The sums of one already bound every β by one; at two, nobody is ever at a bound.
    lower, upper = np.minimum(2.0 * y, 0.0), np.maximum(2.0 * y, 0.0)
    return Task(np.zeros(y.size), lower, upper, start, np.arange(y.size), split, scaled=True)


def regression(y: Vector, C: Vector, epsilon: float) -> Task:
    """``½‖w‖² + Σ C_i max(0, |y_i - f(x_i)| - ε)``; β = α - α*: y (m,), C (m,)."""
    return Task(-y, -C, C, np.zeros(y.size), np.arange(y.size), y.size, kink=epsilon)


def nu_regression(y: Vector, C: Vector, nu: float) -> Task:
    """ν regression, whose tube is ``-Solution.unit`` wide to either side: y (m,), C (m,)."""
    zero, start = np.zeros(y.size), _filled(C, 0.5 * nu * C.sum())
    objects = np.tile(np.arange(y.size), 2)
    return Task(
        np.concatenate([-y, -y]),
        np.concatenate([zero, -C]),
        np.concatenate([C, zero]),
        np.concatenate([start, -start]),
        objects,
        y.size,
        tubeless=regression(y, C, 0.0),
    )


def novelty(weight: Vector, nu: float) -> Task:
    """The one-class machine: ``½‖w‖² - ρ ν Σweight + Σ weight_i max(0, ρ - f(x_i))``. weight (m,)."""
    zero, start = np.zeros(weight.size), _filled(weight, nu * weight.sum())
    return Task(zero, zero, weight, start, np.arange(weight.size), weight.size)


def _filled(room: Vector, total: float) -> Vector:
    """Fill the places in order until the total is reached."""
    before = np.concatenate([[0.0], np.cumsum(room)[:-1]])
    return np.clip(total - before, 0.0, room)


@dataclass
class State:
    """Variables under way, all of them or those left after shrinking, and Kβ at their objects."""

    beta: Vector  # (m,): The variables
    lower: Vector  # (m,): Their bounds
    upper: Vector  # (m,)
    linear: Vector  # (m,): The linear term
    objects: Index  # (m,): The object behind each variable
    split: int  # Where the second group begins
    kink: float  # The ε of ε|β|
    values: Vector  # (objects,): Kβ
    diagonal: Vector  # (objects,): k(x, x)

    @classmethod
    def start(cls, task: Task, diagonal: Vector) -> State:
        """Return where a task starts, Kβ not yet computed: diagonal (objects,)."""
        return cls(
            beta=task.start.astype(np.float64),
            lower=task.lower,
            upper=task.upper,
            linear=task.linear,
            objects=task.objects,
            split=task.split,
            kink=task.kink,
            values=np.zeros(diagonal.size),
            diagonal=diagonal,
        )

    @property
    def gradient(self) -> Vector:
        """Of the smooth part."""
        return self.values[self.objects] + self.linear

    @property
    def norm2(self) -> float:
        """βᵀKβ = ‖w‖²."""
        return float(np.dot(self.beta, self.values[self.objects]))

    @property
    def by_object(self) -> Vector:
        """The sum of β over the variables of each object."""
        total: Vector = np.zeros(self.values.size)
        np.add.at(total, self.objects, self.beta)
        return total

    @property
    def groups(self) -> list[slice]:
        """Variables with an equality of their own."""
        return [slice(0, self.split), slice(self.split, self.beta.size)]

    def restrict(self, live: Index, kept: Index) -> State:
        """Return the same problem with the other variables held where they are."""
        position = np.full(self.values.size, -1, dtype=np.intp)
        position[kept] = np.arange(kept.size)
        return State(
            beta=self.beta[live],
            lower=self.lower[live],
            upper=self.upper[live],
            linear=self.linear[live],
            objects=position[self.objects[live]],
            split=int(np.searchsorted(live, self.split)),
            kink=self.kink,
            values=self.values[kept],
            diagonal=self.diagonal[kept],
        )

    # ---- optimality ----------------------------------------------------------------------------------------------

    def slopes(self) -> tuple[Vector, Vector]:
        """Return the slopes of the objective for a step up and for a step down."""
        from gramian.solvers.svm.inner import slopes

        up, down = np.empty_like(self.beta), np.empty_like(self.beta)
        slopes(self.beta, self.lower, self.upper, self.gradient, self.kink, up, down)
        return up, down

    def violation(self, up: Vector, down: Vector) -> float:
        """Return the steepest descent that a pair of one group has left: up, down (m,)."""
        return float(max(down[g].max(initial=-np.inf) - up[g].min(initial=np.inf) for g in self.groups))

    def multipliers(self) -> tuple[float, float]:
        """Return each group's multiplier: the mean slope of its free variables, else the middle of what KKT allow."""
        up, down = self.slopes()
        found = [m for m in (_multiplier(up[g], down[g]) for g in self.groups) if m is not None] or [0.0]
        return found[0], found[-1]

    def dual(self) -> float:
        """Return the dual objective."""
        return -0.5 * self.norm2 - float(np.sum(self.linear * self.beta)) - self.kink * float(np.abs(self.beta).sum())

    def gap(self, rounding: float = 0.0) -> float:
        """Return the duality gap as a sum of Fenchel-Young terms, each of them >= 0.

        Where an error of ``rounding`` in a slope can change the end of the box that is best, it is paid for.
        """
        total = 0.0
        for g, m in zip(self.groups, self.multipliers(), strict=True):
            d, beta, lower, upper = self.gradient[g] - m, self.beta[g], self.lower[g], self.upper[g]
            # min over t of d·t + ε|t| on [lower, upper]: at an end, or at the kink.
            slopes = [(end, d + np.sign(end) * self.kink) for end in (lower, upper)]
            with np.errstate(invalid="ignore"):
                ends = [np.where(slope == 0, 0.0, end * slope) for end, slope in slopes]
            least = np.minimum(np.minimum(*ends), np.where((lower <= 0) & (upper >= 0), 0.0, np.inf))
            unclear = np.abs(np.abs(d) - self.kink) <= rounding
            total += float(np.sum(d * beta + self.kink * np.abs(beta) - least))
            total += rounding * float(np.sum((upper - lower)[unclear]))
        return total


def _multiplier(up: Vector, down: Vector) -> float | None:
    if not up.size:
        return None
    free = up == down
    if free.any():
        return float(up[free].mean())
    low, high = float(down.max()), float(up.min())
    if math.isinf(low) or math.isinf(high):
        return low if math.isinf(high) else high
    return 0.5 * (low + high)
