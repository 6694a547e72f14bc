"""The method of multipliers for ``(μ/2) ‖w‖² + <G, θ> + Σ_k J_k (<w, ψ_k> + b - c_k)_+``, each step by Newton's method.

With multipliers u and a width γ every term is replaced by one whose slope is ``clip(u + (f - c) / γ, 0, J)``; these
slopes are the next multipliers. Terms are linear on both sides of their kink, so that a few steps end at the solution
(Li, Sun and Toh, 2018). What ``proximal`` does for rows and losses, without a loss.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

__all__ = ["Hinges", "multipliers"]

Array = NDArray[np.float64]

STEPS = 40
"""Updates of the multipliers at most."""
NEWTON = 40
"""Steps for one update."""
SHRINK = 0.3
"""Of γ from one update to the next."""
LEAST = 1e-3
"""Of the first width of the smooth zone, relative to where the kinks are."""
NARROWEST = 1e-6
"""Of γ relative to the first."""
SETTLED = 1e-6
"""Multipliers that move by no more, relative to the largest jump, and not less than before, move no more."""
FLAT = 1e-11
"""A slope below this, relative to where it began, is none."""


class Hinges(Protocol):
    """What the method needs of a problem: ψ, c, J and G."""

    @property
    def features(self) -> Array:
        """Features, of shape (a, m)."""

    @property
    def place(self) -> Array:
        """Where each term bends."""

    @property
    def jump(self) -> Array:
        """By how much its slope grows there."""

    @property
    def slope(self) -> Array:
        """G, of shape (m,), or (m + 1,) where there is a constant."""


def multipliers(problem: Hinges, mu: float, u: Array) -> tuple[Array, Array]:
    """Return multipliers near those of the optimum, and the point they belong to: u (a,) → (a,)."""
    constant = problem.slope.size > problem.features.shape[1]
    G = np.hstack([problem.features, np.ones((u.size, 1))]) if constant else problem.features
    ridge = np.full(G.shape[1], mu)
    if constant:
        ridge[-1] = 0.0
    theta = np.zeros(G.shape[1])
    theta[: problem.features.shape[1]] = -(problem.slope[: problem.features.shape[1]] + problem.features.T @ u) / mu
    if constant:
        theta[-1] = float(np.median(problem.place - problem.features @ theta[:-1]))
    gamma = first = _width(problem, G @ theta)
    moved = np.inf
    for _ in range(STEPS):
        theta = _minimised(problem, G, ridge, theta, u, gamma)
        last, u = u, _slopes(problem, G @ theta, u, gamma)
        before, moved = moved, float(np.abs(u - last).max(initial=0.0)) / float(problem.jump.max())
        # Where the multipliers have no one solution, rounding moves them for ever.
        if moved <= FLAT or 0.5 * before < moved <= SETTLED:
            break
        gamma = max(SHRINK * gamma, NARROWEST * first)
    return u, theta


def _width(problem: Hinges, f: Array) -> float:
    """The γ at which the smooth zone reaches as far as values do."""
    reach = float(np.mean(np.abs(f - problem.place)))
    # Where all values lie at their kinks, they may have to go further than that.
    return max(reach, LEAST * float(np.mean(np.abs(problem.place))), 1e-12) / float(problem.jump.mean())


def _slopes(problem: Hinges, f: Array, u: Array, gamma: float) -> Array:
    return np.asarray(np.clip(u + (f - problem.place) / gamma, 0.0, problem.jump))


def _minimised(problem: Hinges, G: Array, ridge: Array, theta: Array, u: Array, gamma: float) -> Array:
    """Newton's method on the smooth problem."""

    def value(theta: Array, f: Array) -> float:
        t = u + (f - problem.place) / gamma
        s = np.clip(t, 0.0, problem.jump)
        return float(0.5 * np.sum(ridge * theta**2) + problem.slope @ theta + gamma * np.sum(s * (t - 0.5 * s)))

    if ridge[-1] == 0.0:
        # With the constant at its best some terms bend under it, which Newton's steps need.
        theta = np.append(theta[:-1], _balanced(problem, G @ theta - theta[-1], theta[-1], u, gamma))
    f = G @ theta
    here, start = value(theta, f), 0.0
    for _ in range(NEWTON):
        s = _slopes(problem, f, u, gamma)
        slope = ridge * theta + problem.slope + G.T @ s
        start = start or float(np.linalg.norm(slope))
        if np.linalg.norm(slope) <= FLAT * start:
            break
        inside = G[(s > 0) & (s < problem.jump)]
        step = _step(inside, ridge, slope, gamma)
        df, length, fall = G @ step, 1.0, float(slope @ step)
        while length > 1e-8 and value(theta + length * step, f + length * df) > here + 1e-4 * length * fall:
            length *= 0.5
        there = value(theta + length * step, f + length * df)
        if not there < here:
            break
        theta, f, here = theta + length * step, f + length * df, there
    return theta


def _balanced(problem: Hinges, values: Array, start: float, u: Array, gamma: float) -> float:
    """The constant at which slopes sum to what they must, by bisection."""
    at = problem.place - gamma * u - values
    low, high = float(at.min()), float((at + gamma * problem.jump).max())
    wanted = -float(problem.slope[-1])
    if not 0.0 < wanted < float(problem.jump.sum()):
        return start
    for _ in range(100):
        middle = 0.5 * (low + high)
        if float(_slopes(problem, values + middle, u, gamma).sum()) < wanted:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _step(inside: Array, ridge: Array, slope: Array, gamma: float) -> Array:
    A = inside.T @ inside / gamma
    # Where nothing bends under the constant, it moves little.
    A[np.diag_indices_from(A)] += np.maximum(ridge, 1e-10 * (float(np.trace(A)) / A.shape[0] + ridge.max()))
    try:
        return np.asarray(-cho_solve(cho_factor(A, overwrite_a=True, check_finite=False), slope, check_finite=False))
    except LinAlgError:
        return -slope / float(np.linalg.norm(slope))
