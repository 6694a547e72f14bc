"""Quadratic programs in a box, by an interior-point method: dual points of losses with straight pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from gramian.verification.rows import EPS, Array

STEPS = 100
"""Steps at most; twenty are usual."""
SHORT = 0.99
"""The share of the way to the boundary that a step goes."""
SMALL = 1e-12
"""Complementarity, relative to the value, at which to stop."""
WORK = 1e8
"""Operations of a step up to which such a program is solved."""
TINIEST = 1e-300


def root_of(times: Callable[[Array], Array], n: int) -> Array:
    """Return F with ``FFᵀ = K``, from the product with K, without eigenvalues that are rounding."""
    K = times(np.eye(n))
    values, vectors = np.linalg.eigh(0.5 * (K + K.T))
    large = values > n * EPS * max(float(values[-1]), 0.0)
    large[-1] = True  # at least one column
    return np.asarray(vectors[:, large] * np.sqrt(np.maximum(values[large], 0.0)))


def towards_minimum(F: Array, c: Array, low: Array, high: Array, balanced: bool) -> Iterator[Array]:
    """Yield points towards the minimum of ``½ ‖Fᵀu‖² + cᵀu`` in a box, ``Σu = 0`` if balanced: F (n, m), others (n,).

    Mehrotra's method (Nocedal and Wright, chapter 16) for ``u = low + width t``, with ``r = 1 - t``, the multipliers p
    of ``t >= 0`` and q of ``r >= 0``, and v of the sum.
    """
    free = high > low
    u, width = np.array(low), (high - low)[free]
    G, h = width[:, None] * F[free], width * (F[free] @ (F.T @ low) + c[free])
    unit, sum_unit = float(np.abs(h).max(initial=TINIEST)), float(width.max(initial=TINIEST))
    G, h, w = G / unit**0.5, h / unit, width / sum_unit
    t, r, v, step = np.full(w.size, 0.5), np.full(w.size, 0.5), 0.0, 1.0
    slope = G @ (G.T @ t) + h
    p, q = (np.maximum(side * slope, 0.0) + float(np.abs(slope).mean()) for side in (1.0, -1.0))
    for _ in range(STEPS):
        u[free] = np.minimum(low[free] + width * t, high[free])
        yield u.copy()
        gap, value = float(p @ t + q @ r), (0.5 * float(np.sum((F.T @ u) ** 2)) + float(c @ u)) / unit
        if gap <= SMALL * abs(value) or step < SMALL:
            break
        short = -float(u.sum()) / sum_unit if balanced else 0.0
        rest, solve = p - q - v * w - G @ (G.T @ t) - h, _solver(G, p / t + q / r)
        by_sum = solve(w)
        dt, dp, dq, goal = 0.0 * t, 0.0 * t, 0.0 * t, 0.0
        for _ in ("predictor", "corrector"):
            at_low, at_high = goal - p * t - dt * dp, goal - q * r + dt * dq
            dt, dv = solve(rest + at_low / t - at_high / r), 0.0
            if balanced:
                dv = (float(w @ dt) - short) / float(w @ by_sum)
                dt = dt - dv * by_sum
            dp, dq = (at_low - p * dt) / t, (at_high + q * dt) / r
            pairs = (t, dt), (r, -dt), (p, dp), (q, dq)
            step = min(1.0, *(SHORT * float(np.min(-a[d < 0] / d[d < 0], initial=math.inf)) for a, d in pairs))
            left = float((p + step * dp) @ (t + step * dt) + (q + step * dq) @ (r - step * dt))
            goal = 0.5 * gap / w.size * (left / gap) ** 3
        t, r, p, q, v = t + step * dt, r - step * dt, p + step * dp, q + step * dq, v + step * dv


def _solver(G: Array, D: Array) -> Callable[[Array], Array]:
    """The product with ``(GGᵀ + D)⁻¹``: what least squares of ``[D^-½G, I]`` leave of ``D^-½ r``."""
    root = D**-0.5
    Q = np.linalg.qr(np.vstack([root[:, None] * G, np.eye(G.shape[1])]))[0]

    def solve(r: Array) -> Array:
        b = np.append(root * r, np.zeros(G.shape[1]))
        for _ in range(2):
            b = b - Q @ (Q.T @ b)
        return np.asarray(root * b[: root.size])

    return solve
