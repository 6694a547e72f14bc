"""The certificate of a machine: what the function that predicts loses, and the best lower bound that is known.

Every u bounds the objective from below by ``-Σ w ℓ*(u/w) + b* Σu``, less ``‖u‖²_K / (2μ)`` for the squared penalty or
``radius ‖u‖_K`` for the ball; for the norm, where ``‖u‖_K <= λ``. At the optimum u is a slope of the loss, and -μα.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.losses import offers
from gramian.progress import Clock
from gramian.solvers.machine.newton import Iterate
from gramian.solvers.machine.problem import Fitted, Problem

__all__ = ["certificate", "certified", "gap_certificate", "lower_bound", "objective"]

Array = NDArray[np.float64]

CLOSE = 0.1
"""A gap this small, relative to the tolerance, is good enough where another point costs a product with a large K."""
SMALL = 1000
"""Coefficients up to which all points are tried."""
OUTSIDE = 1e-9
"""How far beyond the ball, relative to its radius, rounding may bring a function."""


def objective(p: Problem, penalty: str, strength: float, at: Iterate) -> float:
    """Return the loss and the penalty of a function, times the sum of the weights."""
    size = np.sqrt(at.norm2)
    if penalty == "ball":
        return p.fit.value(at.f) if size**2 <= ((1.0 + OUTSIDE) * strength) ** 2 + _lost(p, at) else np.inf
    return p.fit.value(at.f) + strength * p.total * float(size if penalty == "norm" else 0.5 * size**2)


def _lost(p: Problem, at: Iterate) -> float:
    """What rounding may add to ``‖f‖² = αᵀKα``, whose terms cancel."""
    largest = float(np.abs(p.space.gram.diagonal()).max())
    return 64.0 * float(np.finfo(np.float64).eps) * largest * float(np.abs(at.alpha).sum()) ** 2


def lower_bound(p: Problem, penalty: str, strength: float, at: Iterate, u: Array, norm2: float) -> float:
    """Return what a point of the dual proves: u (n, k)."""
    norm = float(np.sqrt(max(norm2, 0.0)))
    shrink, own = 1.0, 0.0
    if penalty == "norm":
        shrink = min(1.0, strength * p.total / norm) if norm > 0 else 1.0
    else:
        own = strength * norm if penalty == "ball" else 0.5 * norm**2 / (strength * p.total)
    u, away = shrink * _feasible(p, u), 0.0
    if p.intercept:
        # Slopes that do not sum to zero leave the constant free; it is taken to be no further off than values are.
        off = u.sum(axis=0)
        away = float(np.abs(off).sum()) * float(np.abs(at.values).max() + np.abs(at.f - p.fit.y).max()) - float(
            off @ at.b
        )
    # Zero is a point too, and the best where nothing is lost.
    found = np.array([-p.fit.conjugate(u) - own - away, -p.fit.conjugate(np.zeros_like(u))])
    return float(np.where(np.isfinite(found), found, -np.inf).max())


def certificate(
    p: Problem, primal: float, dual: float, violation: float, steps: int, why: str = "", *, known: bool = True
) -> Certificate:
    """Return the gap where the loss has a conjugate; else how far the gradient is from zero."""
    return gap_certificate(primal, dual, p.least_scale, p.total, p.tol, violation, steps, p.clock, why, known=known)


def gap_certificate(
    primal: float,
    dual: float,
    scale: float,
    total: float,
    tol: float,
    violation: float,
    steps: int,
    clock: Clock,
    why: str = "",
    *,
    known: bool = True,
) -> Certificate:
    """Return the certificate of a machine whose objective, times ``total``, is between two numbers."""
    # A dual value above the primal one is rounding, and no less open than one below it.
    gap = abs(primal - dual) / max(abs(primal), scale) if np.isfinite(primal - dual) else np.inf
    met = gap <= max(tol, 1e-12)
    missed = f"tol={tol:.0e} not met: {why or 'rounding in float64 stops it'}"
    return Certificate(
        kind="duality gap" if known else "stationary",
        primal=primal / total,
        dual=dual / total if known else np.nan,
        gap=gap if known else np.nan,
        violation=float(violation),
        converged=bool(met),
        iterations=steps,
        seconds=clock.seconds,
        message="" if met else f"{missed}; allow more, ask for less, or regularise more.",
    )


def certified(p: Problem, penalty: str, strength: float, fitted: Fitted) -> Fitted:
    """Return a fit with the certificate of the function that it predicts."""
    if p.predict is None:
        return fitted
    at = replace(fitted.at, values=p.predict(fitted.at.alpha))
    mu = fitted.multiplier * p.total
    with np.errstate(over="ignore", invalid="ignore"):
        primal, done = objective(p, penalty, strength, at), fitted.certificate
        known = offers(p.fit.loss, "conjugate")
        best, point, least = (
            certificate(p, primal, -np.inf, done.violation, done.iterations, known=known),
            fitted.u,
            np.inf,
        )
        for u, Ku in _points(p, at, fitted.u, mu):
            if known:
                dual = lower_bound(p, penalty, strength, at, u, float(np.sum(u * Ku)))
                found = certificate(p, primal, dual, done.violation, done.iterations, fitted.why)
            else:
                size, violation = _rest(u, Ku, at, mu)
                dual = primal - size / (2.0 * mu)
                found = certificate(p, primal, dual, violation, done.iterations, fitted.why, known=False)
            if abs(primal - dual) < least:
                best, point, least = found, u, abs(primal - dual)
            if u.size > SMALL and least <= CLOSE * p.tol * max(abs(primal), p.least_scale):
                break
    return replace(fitted, at=at, u=point, certificate=best)


def _points(p: Problem, at: Iterate, u: Array, mu: float) -> Iterator[tuple[Array, Array]]:
    """Points of the dual and K times them: what the coefficients say, the solver's, the slopes at f."""
    own = _feasible(p, -mu * at.alpha) if np.isfinite(mu) else u
    points = [_feasible(p, u), _feasible(p, p.fit.gradient(at.f))]
    if np.abs(own + mu * at.alpha).max() <= 1e-12 * np.abs(own).max():
        yield own, -mu * at.values
    else:
        points.append(own)
    yield from zip(points, np.hsplit(p.space @ np.hstack(points), len(points)), strict=True)


def _feasible(p: Problem, u: Array) -> Array:
    """A point within its bounds, and with sum zero as far as they have room: what rounding left of it is spread."""
    low, high = p.fit.box()
    u = np.clip(u, low, high)
    if p.fit.coupled or not p.intercept:
        return u
    off = u.sum(axis=0)
    room = np.where(off > 0, u - low, high - u)
    room = np.where(np.isinf(room).any(axis=0), np.isinf(room), room)
    return np.clip(u - off * room / np.maximum(room.sum(axis=0), np.finfo(np.float64).tiny), low, high)


def _rest(u: Array, Ku: Array, at: Iterate, mu: float) -> tuple[float, float]:
    """``‖u + μ f‖²``, and its root relative to ‖u‖."""
    size = max(float(np.sum((u + mu * at.alpha) * (Ku + mu * at.values))), 0.0)
    norm = float(np.sqrt(max(float(np.sum(u * Ku)), 0.0)))
    return size, float(np.sqrt(size)) / (norm or 1.0)
