"""The exact optimum of a machine whose loss is made of straight pieces: few rows lie at a kink, the others on a piece.

With the pieces of most rows replaced by straight lines through them, ``Σ w ℓ + (μ/2) ‖w‖²`` becomes

    (μ/2) ‖w‖² + <G, θ> + C + Σ_k J_k (<w, ψ_k> + b - c_k)_+,    θ = (w, b),

with a term for each kink c_k near the value of its row. A convex loss lies above its straight pieces, so the minimum
of this, which a small quadratic program finds to rounding, is a bound on that of all rows; where the objective itself
is no larger there, it is the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.solvers.machine.augmented_lagrangian import multipliers
from gramian.solvers.svm.active_set import polish

__all__ = ["Corner", "Kinks", "Memo", "corner_of", "most_kinks", "near"]

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

KINKS = 3
"""Rows near a kink, for each feature, that a corner is made of: about one for each will lie on it."""
MOVING = 2
"""Multipliers between their bounds, for each unknown, up to which equations are solved; more have no one solution."""
DEPTH = 8
"""A loss with more kinks than so many halvings find is taken for one with curvature."""
SAME = 1e-12
"""Slopes and places that differ by less, relative to one, are the same."""


def most_kinks(m: int, memory: float, each: int = KINKS, least: int = 0) -> int:
    """Return how many rows near a kink a corner may have."""
    return int(min(max(each * m + 100, least), memory / (32.0 * m)))


def near(fit: Any, f: Array, reach: Array) -> NDArray[np.bool_]:
    """Tell which rows have a kink near their value: f (r, 1), reach (r, 1) → (r,)."""
    left, here, right = (fit.loss.gradient(f + side * reach, fit.y) for side in (-1.0, 0.0, 1.0))
    return np.asarray(((right - left > SAME) | (np.abs(here - left) > SAME))[:, 0])


@dataclass(frozen=True, eq=False)
class Kinks:
    """The kinks of some rows near their values."""

    row: NDArray[np.intp]  # (a,): Whose kink it is
    place: Array  # (a,): c
    jump: Array  # (a,): By how much the slope grows there
    before: Array  # (a,): The slope left of it

    @classmethod
    def of(cls, loss: Any, y: Array, low: Array, high: Array) -> Kinks | None:
        """Find all kinks of each row's loss in an interval: y (r,), low, high (r,)."""
        row = np.arange(y.size)
        found: list[tuple[Any, ...]] = []
        for _ in range(DEPTH):
            a, b, t = low[:, None], high[:, None], y[row][:, None]
            left, right = loss.gradient(a, t)[:, 0], loss.gradient(b, t)[:, 0]
            at_a, at_b = (np.asarray(loss.value(end, t)).reshape(-1) for end in (a, b))
            bent = right - left > SAME
            row, low, high, t, left, right, at_a, at_b = (v[bent] for v in (row, low, high, t, left, right, at_a, at_b))
            if not row.size:
                break
            # Where the straight lines through both ends meet; if the loss goes through that point, it is the kink.
            c = np.clip((at_b - at_a + left * low - right * high) / (left - right), low, high)
            value = np.asarray(loss.value(c[:, None], t)).reshape(-1)
            line = at_a + left * (c - low)
            one = value - line <= SAME * (1.0 + np.abs(value) + np.abs(c) * np.maximum(np.abs(left), np.abs(right)))
            found.append((row[one], c[one], (right - left)[one], left[one]))
            rest = ~one
            row, low, high = np.tile(row[rest], 2), np.append(low[rest], c[rest]), np.append(c[rest], high[rest])
        else:
            return None
        found = found or [(row, np.empty(0), np.empty(0), np.empty(0))]
        row, place, jump, before = (np.concatenate([each[i] for each in found]) for i in range(4))
        order = np.lexsort((place, row))
        return cls(row[order], place[order], jump[order], before[order])


@dataclass(frozen=True, eq=False)
class Memo:
    """What is known of kinks from the last corner: by how much of its jump each bends."""

    index: Rows  # (a,): Numbers of rows, in order
    place: Array  # (a,): c
    u: Array  # (a,): Multipliers

    def recalled(self, index: Rows, place: Array, otherwise: Array) -> Array:
        """Return the multipliers of kinks, where they are known: index, place (a,), otherwise (a,) → (a,)."""
        known = {(int(i), round(float(c), 9)): float(u) for i, c, u in zip(self.index, self.place, self.u, strict=True)}
        keys = zip(index, place, otherwise, strict=True)
        return np.array([known.get((int(i), round(float(c), 9)), float(u)) for i, c, u in keys])


@dataclass(frozen=True, eq=False)
class Corner:
    """An objective with kinks at some rows only, at most that of all rows."""

    features: Array  # (a, m): ψ, a row for each kink
    place: Array  # (a,): c and J
    jump: Array  # (a,): c and J
    slope: Array  # (m,) or (m + 1,): G; longer by one where there is a constant b
    level: float  # C
    memo: Memo  # Where to begin: the kinks with multipliers in [0, J]

    def solve(self, mu: float) -> tuple[Array, float, Memo] | None:
        """Minimise: multipliers of the dual ``max -‖G + Fᵀu‖² / (2μ) - cᵀu + C`` over ``0 <= u <= J``, to rounding."""
        m, a = self.features.shape[1], self.place.size
        G, free = self.slope[:m], self.slope.size > m
        wanted = -float(self.slope[m]) if free else 0.0
        if not a or (free and not 0.0 <= wanted <= float(self.jump.sum())):
            return None
        u, near_by = multipliers(self, mu, np.clip(self.memo.u, 0.0, self.jump))
        K: Any = _Products(self.features / np.sqrt(mu))
        linear, low, high = self.place + self.features @ G / mu, np.zeros(a), self.jump
        if free:
            u = _shifted(u, self.jump, wanted)
        else:
            # Without a constant there is no sum to keep; a variable that costs nothing takes it up.
            K = _Products(np.vstack([K.features, np.zeros(m)]))
            linear, u = np.append(linear, 0.0), np.append(u, 0.0)
            low, high = np.append(low, -np.inf), np.append(high, np.inf)
        unique = np.count_nonzero((u > low) & (u < high)) <= MOVING * (m + 1)
        if unique:
            u = polish(K, np.arange(u.size), linear, low, high, u, u.size, 0.0)
        u = u[:a]
        w = -(G + self.features.T @ u) / mu
        bound = self.level - 0.5 * mu * float(w @ w) - float(self.place @ u)
        theta = np.append(w, _constant(self.place - self.features @ w, self.jump, -wanted)) if free else w
        # Where the multipliers have no one solution, the point is known better than they are.
        if not unique and self._objective(near_by, mu) < self._objective(theta, mu):
            theta = near_by
        return theta, bound, Memo(self.memo.index, self.place, u)

    def _objective(self, theta: Array, mu: float) -> float:
        m = self.features.shape[1]
        over = self.features @ theta[:m] + (theta[m] if theta.size > m else 0.0) - self.place
        ridge = 0.5 * mu * float(theta[:m] @ theta[:m])
        return ridge + float(self.slope @ theta) + float(self.jump @ np.maximum(over, 0.0))


@dataclass(frozen=True, eq=False)
class _Products:
    """F Fᵀ as ``polish`` needs it: its products with vectors, blocks of it, and its diagonal."""

    features: Array

    def __matmul__(self, v: Array) -> Array:
        return np.asarray(self.features @ (self.features.T @ v))

    def __getitem__(self, block: tuple[Any, Any]) -> Array:
        rows, columns = (np.ravel(each) for each in block)
        return np.asarray(self.features[rows] @ self.features[columns].T)

    def diagonal(self) -> Array:
        return np.asarray(np.sum(self.features**2, axis=1))


def _shifted(u: Array, high: Array, wanted: float) -> Array:
    """The nearest u within [0, high] that has a given sum; what is at a bound stays there, if that is possible."""
    for moving in ((u > 0) & (u < high), np.full(u.size, True)):
        rest = wanted - float(u[~moving].sum())
        if not 0.0 <= rest <= float(high[moving].sum()):
            continue
        own, most = u[moving], high[moving]
        low_shift, high_shift = -float(most.max(initial=0.0)), float(most.max(initial=0.0))
        for _ in range(100):
            shift = 0.5 * (low_shift + high_shift)
            if float(np.clip(own + shift, 0.0, most).sum()) < rest:
                low_shift = shift
            else:
                high_shift = shift
        out = u.copy()
        out[moving] = np.clip(own + high_shift, 0.0, most)
        return out
    return u


def _constant(at: Array, jump: Array, slope: float) -> float:
    """The b that minimises ``slope b + Σ J (b - t)_+``; the middle where an interval is best."""
    order = np.argsort(at)
    slopes = slope + np.cumsum(jump[order])
    slack = SAME * float(jump.sum())
    first, last = np.searchsorted(slopes, [-slack, slack])
    return float(0.5 * (at[order[min(first, at.size - 1)]] + at[order[min(last, at.size - 1)]]))


def corner_of(
    F: Array, fit: Any, f: Array, reach: Array, u: Array, index: Rows, slope: Array, level: float, memo: Memo | None
) -> Corner | None:
    """Make the objective that has kinks near the values of some rows, and straight lines elsewhere."""
    y, weight = fit.y[:, 0], fit.w[:, 0]
    low, high = (f - reach)[:, 0], (f + reach)[:, 0]
    kinks = Kinks.of(fit.loss, y, low, high)
    if kinks is None:
        return None
    # The line at the left end of each interval, and what the slope gains at each kink.
    left = weight * np.asarray(fit.loss.gradient(low[:, None], fit.y))[:, 0]
    level += float(np.sum(weight * np.asarray(fit.loss.value(low[:, None], fit.y)).reshape(-1) - left * low))
    both = np.append(F.T @ left, left.sum())[: slope.size]
    own = weight[kinks.row]
    jump, start = own * kinks.jump, u[kinks.row, 0] - own * kinks.before
    numbers = index[kinks.row]
    if memo is not None:
        beyond = np.where(f[kinks.row, 0] > kinks.place, jump, 0.0)
        start = memo.recalled(numbers, kinks.place, beyond)
    start = np.clip(start, 0.0, jump)
    return Corner(F[kinks.row], kinks.place, jump, slope + both, level, Memo(numbers, kinks.place, start))
