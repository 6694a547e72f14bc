"""The last digits of a machine in features whose loss is made of straight pieces: corners, one after another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.solvers.machine.corners import Corner, Memo, corner_of, most_kinks, near
from gramian.solvers.machine.data_term import DataFit, best_constant
from gramian.solvers.machine.newton import Iterate, Newton

__all__ = ["finished"]

Array = NDArray[np.float64]

ROUNDS = 10
"""Corners at most; near the optimum one or two will do."""
HALVINGS = 50
"""Of the distance from a value within which kinks count."""
ROUNDING = 1e-15
"""A gain below this, relative to the objective, is none."""


def finished(space: Any, fit: Any, mu: float, found: Newton, intercept: bool) -> Newton:
    """Go on from a point near the optimum to the optimum itself, where there is a way."""
    if type(fit) is not DataFit or fit.y.shape[1] > 1 or fit.coupled:
        return found
    most = most_kinks(space.factor.shape[1], space.memory)
    best, u, memo = found, found.u, None
    for _ in range(ROUNDS):
        near_rows = _rows(fit, best.at.f, most)
        if near_rows is None:
            break
        bent, reach = near_rows
        corner = _corner(space.factor, fit, best.at.f, reach, bent, u, intercept, memo)
        solved = None if corner is None else corner.solve(mu)
        if corner is None or solved is None:
            break
        memo = solved[2]
        u = _slopes(fit, best.at.f, reach, bent, memo)
        here = _certified(space, fit, mu, u, solved[0], intercept, best)
        # A gap of zero may come from multipliers that do not sum to zero; the objective itself cannot deceive.
        gained = _objective(fit, mu, best.at) - _objective(fit, mu, here.at)
        if gained < 0.0:
            break
        best = here
        if gained <= ROUNDING * abs(_objective(fit, mu, here.at)):
            break
    return best


def _objective(fit: DataFit, mu: float, at: Iterate) -> float:
    return fit.value(at.f) + 0.5 * mu * at.norm2


def _rows(fit: DataFit, f: Array, most: int) -> tuple[NDArray[np.bool_], Array] | None:
    """Rows near a kink, as far around their values as there are not too many; ``None`` where it is all or none."""
    scale = float(np.abs(f - fit.y).max(initial=0.0)) + 1.0
    for _ in range(HALVINGS):
        reach = np.full_like(f, scale)
        bent = near(fit, f, reach)
        if np.count_nonzero(bent) <= most:
            return (bent, reach) if bent.any() else None
        scale *= 0.5
    return None


def _corner(
    F: Array, fit: DataFit, f: Array, reach: Array, bent: Any, u: Array, intercept: bool, memo: Memo | None
) -> Corner | None:
    straight = DataFit(fit.loss, fit.y[~bent], fit.w[~bent, 0])
    slopes = straight.gradient(f[~bent])
    slope = np.append(F[~bent].T @ slopes[:, 0], slopes.sum())[: F.shape[1] + int(intercept)]
    level = straight.value(f[~bent]) - float(np.sum(slopes * f[~bent]))
    own = DataFit(fit.loss, fit.y[bent], fit.w[bent, 0])
    return corner_of(F[bent], own, f[bent], reach[bent], u[bent], np.flatnonzero(bent), slope, level, memo)


def _slopes(fit: DataFit, f: Array, reach: Array, bent: Any, memo: Memo) -> Array:
    """The point of the dual that a corner's solution is, one number for each row."""
    u = fit.gradient(f)
    u[bent] = (fit.gradient(f - reach))[bent]
    np.add.at(u[:, 0], memo.index, memo.u)
    return u


def _certified(space: Any, fit: DataFit, mu: float, u: Array, theta: Array, intercept: bool, before: Newton) -> Newton:
    Ku = space @ u
    b = theta[-1:] if intercept else before.at.b
    at = Iterate(-u / mu, -Ku / mu, b)
    if intercept:
        at = replace(at, b=best_constant(fit, at.values, b, middle=True))
    dual = -fit.conjugate_at(u, at.f) - 0.5 * float(np.sum(u * Ku)) / mu
    gap = max(_objective(fit, mu, at) - dual, 0.0)
    return replace(before, at=at, u=u, Ku=Ku, gap=gap)
