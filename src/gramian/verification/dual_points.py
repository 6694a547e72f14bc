"""One learned function with the dual points that may prove how good it is: slopes at f, and better ones near it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear, minimize, minimize_scalar

from gramian.losses import offers
from gramian.verification.box_quadratic import WORK, root_of, towards_minimum
from gramian.verification.rows import EPS, Array

LEAST = 1e-4
"""Gaps are relative to the objective, or to this share of the loss of the best constant if that is larger."""
ROUNDED = 1e-9
"""The same share of the loss of the zero function."""
NEWTON, HALVINGS = 20, 12
"""Newton steps at most, and how often each is halved."""
NEAR = (0.0, *np.logspace(-12.0, -2.0, 21))
"""Distances to a kink, relative to the largest value, within which a row may have any slope of the kink."""
NUDGE = 1e-6
"""The share of a norm by which it is changed to see how the slope of a penalty changes."""
ACTIVE = 150
"""Up to this many such rows an active-set method is used, which ends exactly at bounds."""
FREE = 2000
"""At most this many rows near kinks, or unknowns, for which slopes are found by least squares."""
TINIEST = 1e-300
BALANCED = 64.0 * EPS
"""A sum of slopes, relative to that of their absolute values, which is rounding."""


@dataclass(frozen=True, eq=False)
class LearnedFunction:
    """One function, or the functions coupled by a loss, on the rows of positive weight."""

    loss: Any
    y: Array
    w: Array
    f: Array  # values without the constants
    b: Array
    coefficients: Array  # at the rows, or of the features
    F: Array | None  # features
    K: Any  # the product with K
    norm2: float
    lost: float  # rounding error of a value
    lost2: float  # rounding error of norm2
    intercept: bool
    shown: Array | None  # the dual point of the fit's certificate, if it is public

    @property
    def at(self) -> Array:
        """Values with the constants."""
        return self.f + self.b

    def value(self, f: Array) -> float:
        """Σ w ℓ(f, y)."""
        return float(np.sum(self.w * np.asarray(self.loss.value(f, self.y)).reshape(-1)))

    def gradient(self, f: Array) -> Array:
        """w ∂ℓ/∂f."""
        return np.asarray(self.w[:, None] * self.loss.gradient(f, self.y), dtype=np.float64)

    def conjugate(self, u: Array) -> float:
        """Σ w ℓ*(u / w), infinite outside the domain."""
        return float(np.sum(self.w * np.asarray(self.loss.conjugate(u / self.w[:, None], self.y)).reshape(-1)))

    def rest(self, u: Array, mu: float) -> float:
        """``‖u + μ f‖²`` in the kernel's space: zero at the optimum."""
        if self.F is not None:
            return float(np.sum((self.F.T @ u + mu * self.coefficients) ** 2))
        r = u + mu * self.coefficients
        return max(float(np.sum(r * self.K(r))), 0.0)

    def square(self, u: Array) -> float:
        """``‖u‖²_K``; sums over features that are rounding, and the mean of features where ``Σ u`` is, do not count."""
        off, sizes = u.sum(axis=0), np.abs(u)
        off[np.abs(off) <= BALANCED * sizes.sum(axis=0)] *= not self.intercept
        if self.F is None:
            balanced = self.intercept and not off.any()
            Ku = self.K(u, balanced)
            return max(float(np.sum(u * (Ku - Ku[0] * balanced))), 0.0)
        mean = self.F.mean(axis=0)
        sums = (self.F - mean).T @ u + mean[:, None] * off
        sums[np.abs(sums) <= BALANCED * (np.abs(self.F).T @ sizes)] = 0.0
        return float(np.sum(sums**2))

    def points(self, mu: float) -> Iterator[Array]:
        """Dual points to try: the fit's, slopes at f, multiples of the coefficients; for small K, slopes near both."""
        if self.shown is not None:
            yield self.shown
        yield self.gradient(self.at)
        yield np.zeros_like(self.f)
        if self.intercept:
            yield self.gradient(self.f + self.best_constant(self.f, self.b))
        if getattr(self.loss, "coupled", False):
            if self.F is not None and self.coefficients.size <= FREE and offers(self.loss, "curvature"):
                yield self._balanced(self.F, -mu * self.coefficients)
            return
        if self.F is None:
            yield -mu * self.coefficients
        F = self.F
        if F is None and len(self.f) > FREE:
            return
        if F is None:
            F = root_of(self.K, len(self.f))
        wanted = -mu * (self.coefficients if self.F is not None else F.T @ self.coefficients)
        if offers(self.loss, "curvature"):
            yield self._balanced(F, wanted)
            if np.all(self.loss.curvature(self.at, self.y)):
                return
        reach = max(float(np.abs(self.at).max()), float(np.abs(self.y).max()), TINIEST)
        yield from (self._between(F, wanted[:, 0], near * reach) for near in NEAR)

    def in_box(self, mu: float) -> Iterator[Array]:
        """Points towards the dual optimum of the squared penalty, for a loss of straight pieces."""
        low, high = (self.w[:, None] * end for end in self.loss.domain(self.y))
        work = len(low) ** 3 if self.F is None else self.F.size * self.F.shape[1]
        if getattr(self.loss, "coupled", False) or not np.all(np.isfinite(high - low)) or work > WORK:
            return
        # The conjugate may have a kink at zero, so the parts of u on either side are variables of their own.
        ends = low, np.clip(0.0, low, high), high
        values = [self.w[:, None] * self.loss.conjugate(u / self.w[:, None], self.y) for u in ends]
        rise, run = (np.diff(each, axis=0).ravel() for each in (values, ends))
        slopes = np.divide(rise, run, out=np.zeros_like(run), where=run > 0)
        F = np.tile(root_of(self.K, len(low)) if self.F is None else self.F, (2, 1)) / math.sqrt(mu)
        first = np.vstack([low, 0.0 * low])[:, 0]
        for u in towards_minimum(F, slopes, first, first + run, self.intercept):
            yield u.reshape(2, -1).sum(axis=0)[:, None]

    def feasible(self, u: Array) -> Array:
        """The point moved into the domain, with sum zero as far as the domain allows."""
        if getattr(self.loss, "coupled", False):
            return u
        ends = self.loss.domain(self.y) if hasattr(self.loss, "domain") else (-np.inf, np.inf)
        low, high = (self.w[:, None] * end for end in ends)
        u = np.clip(u, low, high)
        if not self.intercept:
            return u
        off = float(u.sum())
        room = u - low if off > 0 else high - u
        room = np.where(np.isinf(room), 1.0, room if not np.isinf(room).any() else 0.0)
        if offers(self.loss, "curvature"):  # where the loss is curved, this hardly changes the conjugate
            bend = self.w[:, None] * self.loss.curvature(self.at, self.y)
            room = bend if bend.any() else room
        return np.clip(u - off * room / max(float(room.sum()), TINIEST), low, high)

    def _balanced(self, F: Array, wanted: Array) -> Array:
        """Slopes near f whose sum ``Fᵀu`` is what the coefficients require."""
        return self._newton(F, lambda step: (-wanted, np.zeros(2 * [step.size])))

    def _newton(self, F: Array, penalty: Callable[[Array], tuple[Array, Array]]) -> Array:
        """Slopes at the minimum of the loss plus a penalty, by Newton's method from f.

        The penalty of a change of the coefficients is known by its slope (m, k) and its Hessian, by columns.
        """
        unit, (m, k) = (
            float(np.abs(F).max()) or 1.0,
            (F.shape[1], self.f.shape[1]),
        )  # so that sums count beside features
        G = np.column_stack([F / unit, np.ones((len(F), int(self.intercept)))])
        inner = (np.arange(k)[:, None] * G.shape[1] + np.arange(m)).ravel()

        def seen(theta: Array) -> tuple[Array, Array, Array]:
            f, (slope, bend) = self.at + G @ theta, penalty(theta[:m] / unit)
            rest = -G.T @ self.gradient(f)
            rest[:m] -= slope / unit
            return rest, f, bend / unit**2

        theta = np.zeros((G.shape[1], k))
        rest, f, bend = seen(theta)
        for _ in range(NEWTON):
            curved = self.w[:, None, None] * np.reshape(self.loss.curvature(f, self.y), (-1, k, k))
            H = np.block([[(G * curved[:, i, j, None]).T @ G for j in range(k)] for i in range(k)])
            H[np.ix_(inner, inner)] += bend
            bent = np.diagonal(H)
            units = np.divide(1.0, np.sqrt(bent), out=np.zeros_like(bent), where=bent > TINIEST)
            step = units * np.linalg.lstsq(units[:, None] * H * units, units * rest.T.ravel(), rcond=EPS)[0]
            tried = [theta + 0.5**i * step.reshape(k, -1).T for i in range(HALVINGS)]
            there = min(((*seen(each), each) for each in tried), key=lambda there: float(np.linalg.norm(there[0])))
            if not np.linalg.norm(there[0]) < np.linalg.norm(rest):
                break
            rest, f, bend, theta = there
        return self.gradient(f)

    def _between(self, F: Array, wanted: Array, near: float) -> Array:
        """Slopes of the rows near their kinks, by least squares within the bounds of the kinks."""
        low, high, u = (self.gradient(self.at + near * side)[:, 0] for side in (-1.0, 1.0, 0.0))
        free = high > low
        if not 0 < np.count_nonzero(free) <= FREE:
            return u[:, None]
        A, wanted = F[free].T, wanted - F[~free].T @ u[~free]
        if self.intercept:
            heavy = 1e3 * (float(np.abs(F).max()) or 1.0)
            A, wanted = np.vstack([A, np.full(A.shape[1], heavy)]), np.append(wanted, -heavy * u[~free].sum())
        unit = max(float(np.abs(wanted).max()) / max(float(np.abs(A).max()), TINIEST), TINIEST)
        method: Any = "bvls" if np.count_nonzero(free) <= ACTIVE else "trf"
        u[free] = unit * lsq_linear(A, wanted / unit, (low[free] / unit, high[free] / unit), method=method, tol=1e-15).x
        return u[:, None]

    def descended(self, slope: Callable[[float], float]) -> Array:
        """Slopes at the minimum in the features, or a root of K, under a penalty with this slope at a norm."""
        F = root_of(self.K, len(self.f)) if self.F is None else self.F
        own = self.coefficients if self.F is not None else F.T @ self.coefficients
        least = max(1e-12 * float(np.linalg.norm(own)), TINIEST)

        def penalty(step: Array) -> tuple[Array, Array]:
            c = own + step
            norm = max(float(np.linalg.norm(c)), least)
            by_norm, along = slope(norm) / norm, c.T.ravel() / norm
            bend = (slope(norm * (1.0 + NUDGE)) - slope(norm)) / (norm * NUDGE)
            return by_norm * c, by_norm * np.eye(c.size) + (bend - by_norm) * np.outer(along, along)

        return self._newton(F, penalty)

    def best_constant(self, f: Array, start: Array) -> Array:
        """The constants that minimise the loss, added to f."""

        def lost(b: Any) -> tuple[float, Array]:
            return self.value(f + b), np.asarray(self.gradient(f + b).sum(axis=0))

        return np.asarray(minimize(lost, start, jac=True, options={"gtol": 0.0}).x)

    def least_scale(self) -> float:
        """The least scale of a gap: a share of the loss of the best constant, of the zero function, or of counts."""
        zero = np.zeros_like(self.f)
        least = nothing = abs(self.value(zero))
        if self.intercept and zero.shape[1] > 1:
            least = self.value(zero + self.best_constant(zero, zero[0]))
        elif self.intercept:
            reach, options = max(float(np.abs(self.y).max()), 50.0), {"xatol": 0.0, "maxiter": 500}
            search: Any = {"bounds": (-reach, reach), "method": "bounded", "options": options}
            least = minimize_scalar(lambda b: self.value(zero + b), **search).fun
        counts = float(np.sum(self.w[:, None] * (1.0 + self.y))) if getattr(self.loss, "positive", False) else 0.0
        return max(LEAST * abs(float(least)), ROUNDED * nothing, ROUNDED * counts, TINIEST)
