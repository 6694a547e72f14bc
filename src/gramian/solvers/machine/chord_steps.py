"""The last digits of a smooth machine in features: steps with the factorisation that Newton's method ended with.

In coordinates of f a step costs two products with F, and what gradients tell of the Hessian since makes a few steps do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramian.progress import Clock
from gramian.solvers.in_features.quasi_newton import Curvature
from gramian.solvers.machine.data_term import best_constant
from gramian.solvers.machine.newton_step import System

__all__ = ["settled", "suits"]

STEPS = 12
"""At most: each should gain a digit at least."""
GAIN = 0.3
"""What a step must leave of the slope at most, else rounding stops it."""

Array = NDArray[np.float64]


def suits(system: System) -> bool:
    """Tell whether a system has a factorisation to go on with."""
    return "_woodbury" in vars(system)


def settled(
    space: Any, fit: Any, mu: float, alpha: Array, b: Array, system: System, near: float, clock: Clock
) -> tuple[Array, Array, Array, int]:
    """Go on from a point near the optimum: alpha (n, 1), b (1,)."""
    F, free = space.factor, system.Q is not None
    hessian = _factorised(system, free)
    theta = np.vstack([space.coordinates(alpha), b[None, :]]) if free else space.coordinates(alpha)
    m, done = F.shape[1], 0

    def slope_at(theta: Array) -> tuple[Array, Array]:
        u = fit.gradient(F @ theta[:m] + (theta[m:] if free else b))
        slope = F.T @ u + mu * theta[:m]
        return u, np.vstack([slope, u.sum(axis=0)[None, :]]) if free else slope

    u, slope = slope_at(theta)
    while done < STEPS and not clock.expired:
        # The slope over μ is how far f is from the optimum, at most.
        if np.linalg.norm(slope[:m]) <= near * mu * np.linalg.norm(theta[:m]):
            break
        step = hessian.step(slope)
        there, after = slope_at(theta + step)
        if not np.linalg.norm(after) <= GAIN * np.linalg.norm(slope):
            break
        hessian = hessian.learned(step, after - slope)
        theta, u, slope, done = theta + step, there, after, done + 1
    # f* = -K u*/μ; these coefficients are as near to it as the slope says, and zero where u is.
    alpha = -u / mu
    values = space @ alpha
    return alpha, values, best_constant(fit, values, theta[m:].ravel()) if free else b, done


def _factorised(system: System, free: bool) -> Curvature:
    """The Cholesky factor of the Hessian in coordinates, and of the constant below them."""
    woodbury = system._woodbury
    R, (F, s2) = woodbury.core[0], (woodbury.F, woodbury.s**2)
    m = R.shape[0]
    if not free:
        return Curvature((R, False), m)
    border = scipy.linalg.solve_triangular(R, F.T @ s2, trans=1, check_finite=False)
    rest = max(float(s2.sum()) - float(np.sum(border**2)), np.finfo(np.float64).eps * float(s2.sum()))
    return Curvature((np.block([[R, border], [np.zeros((1, m)), np.full((1, 1), np.sqrt(rest))]]), False), m)
