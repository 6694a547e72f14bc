"""Joint losses, by cutting planes: ``L(f(x_1), ..., f(x_n)) + (lam/2) ‖f‖²`` for any convex L.

Every value and gradient of L define a plane below it. Minimising the maximum of the planes so far is a small quadratic
program on a simplex, whose value is a lower bound on the optimum; every function gives an upper bound. When the two
meet, the fit is proved optimal, whether L is smooth or not.

References
----------
Teo, Vishwanathan, Smola, Le: Bundle methods for regularized risk minimization. JMLR 2010.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import certify
from gramian.gram import Gram
from gramian.kernels import Precomputed
from gramian.solvers.machine.newton import Iterate
from gramian.solvers.machine.penalties import Goal
from gramian.solvers.machine.solve import ExactFit
from gramian.solvers.svm import smo
from gramian.solvers.svm.row_cache import KernelRows, RowCache
from gramian.solvers.svm.tasks import Task

IDLE = 50
"""An inactive plane is dropped after this many rounds."""
FREE = 1e-9
"""The gradient of a loss that ignores constants sums to less than this, relative to its absolute values."""
STEP = 1e-5
"""The step of the differences that check a gradient."""
LEAST = 1e-9
"""Gaps are relative to the objective, or to this share of the loss of zero if that is larger."""

Array = NDArray[np.float64]


def solve(space: Any, loss: Any, y: Array, goal: Goal) -> ExactFit:
    """Fit a function to a joint loss: y (n, 1)."""
    plane, lam = _checked(loss, y[:, 0], goal.intercept), goal.strength
    n = y.shape[0]
    U, KU, c = np.empty((n, 0)), np.empty((n, 0)), np.empty(0)
    idle = np.empty(0, dtype=np.intp)
    alpha, values = np.zeros(n), np.zeros(n)
    best, lower, point, why, rounds = (np.inf, alpha, values), -np.inf, np.zeros(n), "", 0
    scale = max(LEAST * abs(plane(values)[0]), float(np.finfo(np.float64).tiny))
    while True:
        value, slope = plane(values)
        objective = value + 0.5 * lam * float(alpha @ values)
        best = min(best, (objective, alpha, values), key=lambda each: each[0])
        goal.tick(rounds, gap=best[0] - lower)
        if best[0] - lower <= goal.tol * max(abs(best[0]), scale):
            break
        if why := goal.clock.ended(rounds, goal.max_iter):
            break
        keep = idle < IDLE
        U, KU = np.column_stack([U[:, keep], slope]), np.column_stack([KU[:, keep], space @ slope[:, None]])
        c, idle = np.append(c[keep], value - float(slope @ values)), np.append(idle[keep], 0)
        a = _simplex(U.T @ KU / lam, c)
        idle = np.where(a > 0, 0, idle + 1)
        found = float(c @ a) - 0.5 * float(a @ (U.T @ KU) @ a) / lam
        if found > lower:
            lower, point = found, U @ a
        alpha, values, rounds = -(U @ a) / lam, -(KU @ a) / lam, rounds + 1
    gap = (best[0] - lower) / max(abs(best[0]), scale)
    at = Iterate(best[1][:, None], best[2][:, None], np.zeros(1))
    advice = f"{why or 'stopped by rounding'}; allow more iterations, raise tol, or regularise more."
    figures: Any = {"primal": best[0], "dual": lower, "iterations": max(rounds, 1), "seconds": goal.clock.seconds}
    said = certify("duality gap", gap, max(goal.tol, 1e-12), advice, **figures)
    return ExactFit(at, point[:, None], replace(said, violation=gap), lam, why)


def _simplex(G: Array, c: Array) -> Array:
    """The a >= 0 with sum one that maximises ``cᵀa - ½ aᵀGa``."""
    t = c.size
    start = np.zeros(t)
    start[-1] = 1.0
    unit = float(np.abs(G).max()) or 1.0
    rows = KernelRows([RowCache(Gram(Precomputed(), 0.5 * (G + G.T) / unit, n_jobs=1), np.arange(t), 8 * t * t)], 1)
    task = Task(-c / unit, np.zeros(t), np.ones(t), start, np.arange(t), t)
    a = np.maximum(smo.solve(task, rows, tol=1e-12, max_iter=200 * t + 1000).beta, 0.0)
    return np.asarray(a / a.sum())


def _checked(loss: Any, y: Array, intercept: bool) -> Any:
    """The loss as a function from values to its value and gradient, after checking both."""
    name = type(loss).__name__

    def plane(f: Array) -> tuple[float, Array]:
        value, slope = np.asarray(loss.value(f, y), dtype=np.float64), np.asarray(loss.gradient(f, y), dtype=np.float64)
        if value.size != 1 or slope.shape != f.shape:
            raise ValueError(
                f"{name} is a joint loss: value(f, y) must be one number and gradient(f, y) of shape {f.shape}; they "
                f"have shapes {value.shape} and {slope.shape}."
            )
        if not np.isfinite(value) or not np.all(np.isfinite(slope)):
            raise ValueError(f"{name}: value and gradient must be finite at every f.")
        if intercept and abs(float(slope.sum())) > FREE * float(np.abs(slope).sum()):
            raise ValueError(
                f"{name} changes when a constant is added to all values, and a joint loss is fitted without one; set "
                "fit_intercept=False."
            )
        return float(value), slope

    rng, wrong = np.random.RandomState(0), 0
    size = float(np.abs(y).max(initial=0.0)) or 1.0
    for _ in range(8):
        f, v = size * rng.standard_normal(y.size), rng.standard_normal(y.size)
        h = STEP * size
        ahead, behind = (float(np.asarray(loss.value(f + s * h * v, y)).sum()) for s in (1.0, -1.0))
        given = float(plane(f)[1] @ v)
        wrong += not abs((ahead - behind) / (2.0 * h) - given) <= 1e-3 * (1.0 + abs(given))
    if wrong > 2:  # a kink may lie between the two points
        raise ValueError(f"{name}: gradient disagrees with value along {wrong} of 8 directions; correct one of them.")
    return plane
