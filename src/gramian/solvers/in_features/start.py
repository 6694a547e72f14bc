"""Where machines over blocks begin: at the optimum of a sample of the rows, found in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.progress import Clock
from gramian.solvers.in_features.objective import values_of
from gramian.solvers.machine.data_term import DataFit
from gramian.solvers.machine.function_space import FeatureSpace
from gramian.solvers.machine.problem import Problem
from gramian.solvers.machine.solve import solve

__all__ = ["Start", "origin", "started"]

Array = NDArray[np.float64]

ROUGH = 1e-3
"""A gap that is far below what a sample tells of all rows."""
FINE = 1e-13
"""Where the sample is all rows, the passes only confirm it."""
STEPS = 200
"""Newton steps for it at most."""


@dataclass(frozen=True, eq=False)
class Start:
    """Where a function begins."""

    theta: Array  # (m, k) or (m + 1, k): Weights, with constants below
    width: float  # Of the envelope, where the loss has kinks
    exact: bool = False  # Whether it is the optimum of all rows


def started(F: Array, fit: DataFit, intercept: bool, lam: float, solver: str, share: float, clock: Clock) -> Start:
    """Return the optimum of a sample, and a width as far as its values are from those of the optimum of all rows.

    Half of the sample is as far from the whole, on average, as the whole is from infinitely many rows.
    """
    if np.any(np.ptp(fit.y, axis=0) == 0.0):
        # Of a class that is not in the sample, or of events that are not, the best constant may be at infinity.
        return origin(fit, F.shape[1], intercept)
    exact, kinks = share >= 1.0, solver == "proximal"
    theta = _optimum(F, fit, intercept, lam, solver, ROUGH if not exact else FINE if kinks else 0.0, clock)
    if not kinks:
        return Start(theta, 1.0, exact)
    f = values_of(F, theta)
    least = max(1e-3 * float(np.sqrt(np.mean(f**2))), 1e-12)
    if exact:
        return Start(theta, _width(fit, f, least), exact)
    every = slice(None, None, 2)
    half = _optimum(F[every], DataFit(fit.loss, fit.y[every], fit.w[every, 0]), intercept, lam, solver, ROUGH, clock)
    apart = float(np.sqrt(np.mean((values_of(F, half) - f) ** 2) * (1.0 - share)))
    return Start(theta, _width(fit, f, max(apart, least)))


def _optimum(F: Array, fit: DataFit, intercept: bool, lam: float, solver: str, tol: float, clock: Clock) -> Array:
    space = FeatureSpace(F)
    problem = Problem(space, fit, intercept, solver, tol=tol, max_iter=STEPS, clock=clock)
    at = solve(problem, "squared", lam).at
    w = space.coordinates(at.alpha)
    return np.vstack([w, at.b]) if intercept else np.asarray(w)


def origin(fit: DataFit, m: int, intercept: bool) -> Start:
    """Return zero, and a width that reaches as far as targets do."""
    theta = np.zeros((m + int(intercept), fit.y.shape[1]))
    return Start(theta, _width(fit, np.zeros_like(fit.y), max(float(np.mean(np.abs(fit.y))), 1e-12)))


def _width(fit: Any, f: Array, reach: float) -> float:
    """The width of an envelope that reaches so far around the values."""
    slope = np.abs(fit.gradient(f))
    typical = float(fit.w.mean())
    return reach / max(float(np.mean(slope[slope > 0])) if slope.any() else typical, 1e-3 * typical)
