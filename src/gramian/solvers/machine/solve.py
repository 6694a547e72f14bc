"""The machine with any loss and any penalty on the rows of a Gram matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.losses import offers
from gramian.solvers.machine import box_dual, newton, proximal
from gramian.solvers.machine.data_term import DataFit, Tilted, best_constant, least_scale
from gramian.solvers.machine.newton import Iterate, NewtonResult, squared_objective
from gramian.solvers.machine.penalties import (
    SLACK,
    Goal,
    PathPoint,
    PenaltyPath,
    Turn,
    bound,
    choose,
    function_of,
    gap_certificate,
    less_rounding,
)

CLOSE = 0.1
"""Below this share of the tolerance no further dual point is tried if K is large."""
SMALL = 1000
"""Up to this many coefficients all dual points are tried."""
FALLING = np.logspace(-2.0, -14.0, 7)
"""The decreasing lam that approximate zero, in units of the problem."""
STEADY = 0.01
"""A norm that changes by less than this share, while lam falls a hundredfold, has converged."""
OUTSIDE = 1e-9
"""Rounding may put a function outside the ball by this, relative to its radius."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Problem:
    """A machine to fit on some rows."""

    space: Any  # The function space
    fit: DataFit  # The data term
    goal: Goal
    # From coefficients to values as the estimator predicts them, for the certificate
    predict: Callable[[Array], Array] | None = None

    @property
    def total(self) -> float:
        """The sum of the weights, by which the data term is divided."""
        return float(self.fit.w.sum())

    @cached_property
    def least_scale(self) -> float:
        """The least scale of a gap."""
        return least_scale(self.fit, self.goal.intercept)

    def certificate(self, primal: float, dual: float, violation: float, steps: int, why: str) -> Certificate:
        """Return the certificate of a function whose objective, times ``total``, is between two numbers."""
        scale, total, loss = self.least_scale, self.total, self.fit.loss
        return gap_certificate(self.goal, primal, dual, scale, total, violation, steps, why, loss=loss)


@dataclass(frozen=True, eq=False)
class ExactFit:
    """A fitted function."""

    at: Iterate  # Coefficients, values and constants
    u: Array  # (n, k): The dual point behind the certificate
    certificate: Certificate  # How far from optimal
    multiplier: float  # The lam of the squared penalty that has the same solution; infinite where f is zero
    why: str = ""  # Why the solver stopped short, if it did

    @property
    def start(self) -> Iterate:
        """The start of the next problem."""
        return self.at


def solve(problem: Problem, start: Iterate | None = None) -> ExactFit:
    """Fit a function by any solver, under any penalty."""
    fitted: ExactFit = ExactPath(problem).solve(start or newton.origin(problem.fit, problem.goal.intercept))
    return fitted


class ExactPath(PenaltyPath):
    """The squared problems in the space of a kernel."""

    def __init__(self, p: Problem, whole: DataFit | None = None, tilt: Any = None) -> None:
        self.p, self.goal, self.loss, self.total = p, p.goal, p.fit.loss, p.total
        self.whole, self.tilt = whole or p.fit, tilt  # The loss that is not convex, and the slopes of its concave part

    def plain(self, start: Iterate) -> ExactFit:
        lam, mu = self.goal.strength, self.goal.strength * self.total
        of = self._minimised(lam, start, self.goal.tol)
        at, found, primal = of.iterate, self._found(of), objective(self.p, of.iterate)
        r, Kr = of.u + mu * at.alpha, of.Ku + mu * at.values
        violation = float(np.sqrt(max(float(np.sum(r * Kr)), 0.0))) / (found.slopes.norm or 1.0)
        return self.fitted(found, found, primal, primal - of.gap, violation, lam)

    def _minimised(self, lam: float, start: Iterate, tol: float) -> NewtonResult:
        """Minimise with the squared penalty; a loss known by its gradient alone may turn out to have kinks."""
        p, goal, mu = self.p, replace(self.goal, tol=tol), lam * self.total
        if goal.solver == "proximal":
            done = 0
            if box_dual.suits(p.fit, goal.intercept):
                found = box_dual.minimise(p.space, p.fit, mu, start.alpha, goal)
                start, done = found.iterate, found.steps
                if found.gap <= tol * abs(squared_objective(p.fit, mu, start)):
                    return found
            return proximal.minimise(p.space, p.fit, mu, start, goal, done)
        found = newton.minimise(p.space, p.fit, mu, start, goal)
        stuck = found.gap > self.goal.tol * abs(squared_objective(p.fit, mu, found.iterate))
        if stuck and not p.fit.smooth and getattr(self.loss, "convex", True) and not goal.clock.expired:
            return proximal.minimise(p.space, p.fit, mu, found.iterate, goal)
        return found

    def squared(self, multiplier: float, start: Iterate, tol: float) -> PathPoint:
        return self._found(self._minimised(multiplier, start, tol))

    def zero(self, start: Iterate) -> PathPoint:
        at = newton.origin(self.p.fit, self.goal.intercept)
        u = self.p.fit.gradient(at.f)
        return self._found(NewtonResult(at, u, self.p.space @ u, 0.0, 0))

    def _found(self, of: NewtonResult) -> PathPoint:
        at = of.iterate
        slopes = dual_point(self.p, at, of.u, of.Ku)
        return PathPoint(of, self.p.fit.value(at.f), self.total, float(np.sqrt(at.norm2)), slopes, at)

    def scaled(self, found: PathPoint, share: float) -> PathPoint:
        at = found.result.iterate
        at = replace(at, alpha=share * at.alpha, values=share * at.values)
        if self.goal.intercept:
            at = replace(at, b=best_constant(self.p.fit, at.values, at.b))
        return replace(self._found(replace(found.result, iterate=at)), slopes=found.slopes)

    def fitted(
        self, function: PathPoint, proof: PathPoint, primal: float, dual: float, violation: float, multiplier: float
    ) -> ExactFit:
        of: NewtonResult = proof.result
        said = self.p.certificate(primal, dual, violation, of.steps, of.why)
        point: Any = proof.slopes
        return ExactFit(function.result.iterate, point.u, said, multiplier, of.why)

    def _limit(self, start: Iterate) -> ExactFit:
        """Minimise the loss alone: the limit of the squared penalty as lam falls, if it exists.

        If the loss has a minimum, ‖f‖ grows to the least norm of all minimisers, and otherwise without bound.
        """
        p, goal = self.p, self.goal
        worth = max(p.fit.value(np.zeros_like(p.fit.y)), p.least_scale) / self.total
        unit = worth * (float(np.abs(p.space.gram.diagonal()).mean()) or 1.0) / p.fit.unit**2
        norms: list[float] = []
        for lam in unit * FALLING:
            try:
                of = self._minimised(lam, start, SLACK * goal.tol)
            except ValueError:  # K plus so small a lam is singular to rounding
                break
            start, found = of.iterate, self._found(of)
            norms.append(found.norm)
            before = norms[-2] if len(norms) > 1 else np.inf
            # Weak duality: no function of norm up to R has a loss below value - gap - lam/2 (R² - ‖f‖²). That the least
            # minimiser is among them is not proved but observed: its norm has converged.
            shortfall = of.gap + 0.5 * lam * self.total * abs(found.norm**2 - before**2)
            steady = abs(found.norm - before) <= STEADY * max(found.norm, before)
            if (steady and shortfall <= goal.tol * max(abs(found.value), p.least_scale)) or goal.clock.expired:
                least, off = found.value - shortfall, abs(found.norm - before) / (before or 1.0)
                if p.predict is not None:  # the certificate is that of the predictions
                    found = self._found(replace(of, iterate=replace(of.iterate, values=p.predict(of.iterate.alpha))))
                said = self.fitted(found, found, found.value, least, off, lam)
                reach = float(np.sqrt(found.norm**2 + abs(found.norm**2 - before**2)))
                note = f"lam=0 as the limit of small lam, here {lam:.1e}; the bound is for norms up to {reach:.4g}"
                return replace(said, certificate=replace(said.certificate, message=said.certificate.message or note))
        raise ValueError(
            f"with lam=0 the loss has no minimum that float64 can reach: ‖f‖ went from {norms[0]:.3g} to "
            f"{norms[-1]:.3g} as lam fell to {lam:.1e}. Classes that can be separated have none under the logistic "
            "loss; use lam > 0."
        )

    def _penalised(self, start: Iterate) -> ExactFit:
        if self.goal.penalty == "squared" and self.goal.strength == 0:
            return self._limit(start)
        return with_best_certificate(self.p, super()._penalised(start))

    def turned(self, fitted: ExactFit | None) -> Turn:
        loss, y, w = self.whole.loss, self.whole.y, self.whole.w
        part = loss.convex_part()
        f = np.zeros_like(y) if fitted is None else fitted.at.f
        tilt = np.zeros_like(y) if fitted is None else loss.concave_gradient(f, y)
        fit = Tilted(part, y, w[:, 0], tilt) if tilt.any() else DataFit(part, y, w[:, 0])
        convex = replace(self.p, fit=fit, goal=replace(self.goal, solver=choose(part).name))
        excess, wrong = self.whole.value(f) - self.p.fit.value(f), float(np.sum(w * (y * f <= 0)))
        settled = bool(np.array_equal(tilt, self.tilt))
        return Turn(ExactPath(convex, self.whole, tilt), settled, excess / self.total, wrong / self.total)


# ---- the certificate of predictions ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DualPoint:
    """A point of the dual of a problem, beside a function."""

    p: Problem
    at: Iterate
    u: Array  # (n, k)
    norm: float  # ‖u‖_K

    def conjugate(self, share: float) -> float:
        """Return ``Σ w ℓ*(u / w)`` at a share of u, plus what a free constant may cost."""
        at, u = self.at, share * _feasible(self.p, self.u)
        away = 0.0
        if self.p.goal.intercept:
            # If slopes do not sum to zero, the constant is assumed to be no further from optimal than values are.
            off = u.sum(axis=0)
            reach = float(np.abs(at.values).max() + np.abs(at.f - self.p.fit.y).max())
            away = float(np.abs(off).sum()) * reach - float(off @ at.b)
        return self.p.fit.conjugate(u) + away

    def mixed(self, other: DualPoint, share: float) -> DualPoint:
        """Return a convex combination of two points, with the same combination of norms as a bound."""
        norm = share * self.norm + (1.0 - share) * other.norm
        return replace(self, u=share * self.u + (1.0 - share) * other.u, norm=norm)


def dual_point(p: Problem, at: Iterate, u: Array, Ku: Array, careful: bool = False) -> DualPoint:
    """Return a point of the dual from K times it: u, Ku (n, k); with ``careful``, its norm is never underestimated."""
    norm2 = max(float(np.sum(u * Ku)), 0.0)
    # Under these penalties ‖u‖_K itself enters the dual, so rounding must not make it too small.
    if p.goal.penalty not in ("squared", "ball") or (p.goal.penalty == "ball" and careful):
        norm2 = max(norm2, float(np.finfo(np.float64).eps * np.abs(p.space.gram.diagonal()).max() * np.sum(u**2)))
    return DualPoint(p, at, u, float(np.sqrt(norm2)))


def objective(p: Problem, at: Iterate) -> float:
    """Return the loss and the penalty of a function, times the sum of the weights."""
    size, strength = np.sqrt(at.norm2), p.goal.strength
    if p.goal.penalty == "ball":
        return p.fit.value(at.f) if size**2 <= ((1.0 + OUTSIDE) * strength) ** 2 + _norm_rounding(p, at) else np.inf
    grown = 0.5 * size**2 if p.goal.penalty == "squared" else float(function_of(p.goal.penalty).value(float(size)))
    return p.fit.value(at.f) + strength * p.total * float(grown)


def _norm_rounding(p: Problem, at: Iterate) -> float:
    """The rounding error of ``‖f‖² = αᵀKα``, whose terms cancel."""
    largest = float(np.abs(p.space.gram.diagonal()).max())
    return 64.0 * float(np.finfo(np.float64).eps) * largest * float(np.abs(at.alpha).sum()) ** 2


def with_best_certificate(p: Problem, fitted: ExactFit) -> ExactFit:
    """Return a fit with the certificate of the function that it predicts."""
    if p.predict is None:
        return fitted
    found = _certify_predictions(p, fitted)
    # Inside the ball the multiplier is zero in the limit, and coefficients grow along the null space of K.
    if p.goal.penalty != "ball" or found.certificate.converged or len(fitted.u) > SMALL:
        return found
    less = _certify_predictions(p, replace(fitted, at=_least_coefficients(p, fitted.at)))
    return min(found, less, key=lambda each: (not each.certificate.converged, each.certificate.figure))


def _least_coefficients(p: Problem, at: Iterate) -> Iterate:
    """The same function with the least coefficients: without those along eigenvectors whose eigenvalue is rounding."""
    values, axes = np.linalg.eigh(p.space @ np.eye(len(at.alpha)))
    kept = values > 10.0 * values.size * float(np.finfo(np.float64).eps) * values[-1]
    return replace(at, alpha=axes[:, kept] @ (axes[:, kept].T @ at.alpha))


def _certify_predictions(p: Problem, fitted: ExactFit) -> ExactFit:
    """The fit with the certificate of the values that its coefficients predict."""
    assert p.predict is not None
    at = replace(fitted.at, values=p.predict(fitted.at.alpha))
    mu, done, known = fitted.multiplier * p.total, fitted.certificate, offers(p.fit.loss, "conjugate")
    with np.errstate(over="ignore", invalid="ignore"):
        primal = objective(p, at)
        best, point, least = p.certificate(primal, -np.inf, done.violation, done.iterations, ""), fitted.u, np.inf
        for u, Ku in _points(p, at, fitted.u, mu):
            dual, violation, share = primal, done.violation, 1.0
            if known:
                dual, share = bound(dual_point(p, at, u, Ku, careful=True), p.goal.penalty, p.goal.strength, p.total)
            else:
                size, violation = _stationarity(u, Ku, at, mu)
                dual = primal - size / (2.0 * mu)
            if abs(primal - dual) < least:
                best = p.certificate(primal, dual, violation, done.iterations, fitted.why)
                point, least = share * u, abs(primal - dual)
            if u.size > SMALL and least <= CLOSE * p.goal.tol * max(abs(primal), p.least_scale):
                break
    # Errors of rows have random signs, and a sum of them is within two standard deviations.
    steep = 2.0 * float(np.linalg.norm(p.fit.gradient(at.f))) / max(abs(primal), p.least_scale)
    error = p.space.gram.rounding * float(np.abs(p.space.gram.diagonal()).max())
    return replace(fitted, at=at, u=point, certificate=less_rounding(best, p.goal.tol, steep, at.alpha, error))


def _points(p: Problem, at: Iterate, u: Array, mu: float) -> Iterator[tuple[Array, Array]]:
    """Points of the dual and K times them: from the coefficients, the solver's, and the slopes at f."""
    own = _feasible(p, -mu * at.alpha) if np.isfinite(mu) else u
    points = [_feasible(p, u), _feasible(p, p.fit.gradient(at.f))]
    if np.abs(own + mu * at.alpha).max() <= 1e-12 * np.abs(own).max():
        yield own, -mu * at.values
    else:
        points.append(own)
    yield from zip(points, np.hsplit(p.space @ np.hstack(points), len(points)), strict=True)


def _feasible(p: Problem, u: Array) -> Array:
    """The point moved into its bounds, with sum zero as far as they allow."""
    low, high = p.fit.box()
    u = np.clip(u, low, high)
    if p.fit.coupled or not p.goal.intercept:
        return u
    off = u.sum(axis=0)
    room = np.where(off > 0, u - low, high - u)
    room = np.where(np.isinf(room).any(axis=0), np.isinf(room), room)
    return np.clip(u - off * room / np.maximum(room.sum(axis=0), np.finfo(np.float64).tiny), low, high)


def _stationarity(u: Array, Ku: Array, at: Iterate, mu: float) -> tuple[float, float]:
    """``‖u + μ f‖²``, and its root relative to ‖u‖."""
    size = max(float(np.sum((u + mu * at.alpha) * (Ku + mu * at.values))), 0.0)
    norm = float(np.sqrt(max(float(np.sum(u * Ku)), 0.0)))
    return size, float(np.sqrt(size)) / (norm or 1.0)
