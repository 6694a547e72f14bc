"""Least squares in features over blocks: by sums of outer products, or by conjugate gradients that only multiply.

With features F, weights W and ridge μ both solve ``(FᵀWF + μI) w = FᵀWy``. The sums take one pass and n m² operations;
conjugate gradients take a pass for each iteration, in which kernel values are made anew, and of them only n m
(Falkon: Rudi, Carratino and Rosasco, 2017). Which is cheaper is a matter of counting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from gramian.certificates import Certificate
from gramian.data.parts import Part
from gramian.data.passes import Passes
from gramian.data.sums import Sums, total
from gramian.progress import Clock
from gramian.solvers.choice import Choice
from gramian.solvers.in_features.worker_map import Lift, strips_of
from gramian.solvers.linear.least_squares import LeastSquares, Moments
from gramian.solvers.linear.leave_one_out import default_grid
from gramian.solvers.solution import relative_residuals

__all__ = ["by_leave_one_out", "by_pcg", "choose", "moments", "targets_of"]

Array = NDArray[np.float64]

VALUE = 150
"""Operations that making one kernel value, or one feature, counts as beside those of products of matrices."""
ITERATIONS = 30
"""Iterations that conjugate gradients are expected to take."""


def choose(n: int, m: int, k: int, sample: int, asked: str = "auto") -> Choice:
    """Choose between sums of outer products and conjugate gradients by their operations."""
    if asked != "auto":
        return Choice("pcg" if asked == "pcg" else "moments", "as asked")
    sums = n * m * (2.0 * m + VALUE) + m**3 / 3.0
    iterate = ITERATIONS * n * m * (4.0 * k + VALUE) + sample * m * (2.0 * m + VALUE) + m**3
    counted = f"{min(sums, iterate):.1e} operations, against {max(sums, iterate):.1e}"
    return Choice("moments" if sums <= iterate else "pcg", counted)


def targets_of(part: Part) -> Array:
    """Return targets as columns of numbers: → (r, k)."""
    if part.y is None or part.y.dtype.kind not in "fiub":
        kind = "nothing" if part.y is None else part.y.dtype
        raise ValueError(f"the target must be numbers, got {kind}; name it as Blocks(..., target=...).")
    return np.asarray(part.y, dtype=np.float64).reshape(part.index.size, -1)


# ---- sums of outer products ---------------------------------------------------------------------------------------


def _moments(lift: Lift, parts: Iterator[Part]) -> Sums | None:
    return total(_moments_of(lift, F, part) for F, part in lift.strips(parts))


def _moments_of(lift: Lift, F: Array, part: Part) -> Sums:
    errors = lift.error_sums(F, part)
    Y = targets_of(part)
    if part.weight is not None:
        root = np.sqrt(part.weight)[:, None]
        F, Y = root * F, root * Y
    return Sums({"second": F.T @ F, "right": F.T @ Y, "count": np.array(float(F.shape[0])), **errors.arrays})


def moments(passes: Passes, lift: Lift) -> tuple[Moments, float]:
    """Return the moments of all rows, in one pass."""
    sums = passes.sum(_moments, lift)
    error = float(sums["missed"] / sums["trace"]) if sums["trace"] > 0 else 0.0
    return Moments(sums["second"], sums["right"], int(sums["count"])), error


@dataclass(frozen=True, eq=False)
class _Grid:
    """What the leave-one-out errors of a grid of ridges need: ``FᵀWF = V diag(s) Vᵀ`` and ``VᵀFᵀWY``."""

    lift: Lift
    vectors: Array
    values: Array
    right: Array
    ridges: Array


def _left_out(grid: _Grid, parts: Iterator[Part]) -> Sums | None:
    return total(_left_out_of(grid, F, part) for F, part in grid.lift.strips(parts))


def _left_out_of(grid: _Grid, F: Array, part: Part) -> Sums:
    Y, w = targets_of(part), part.weights[:, None]
    G = F @ grid.vectors
    shrink = 1.0 / (grid.values[:, None] + grid.ridges)
    leverage = w * ((G * G) @ shrink)
    path = np.empty((grid.ridges.size, Y.shape[1]))
    for i in range(grid.ridges.size):
        errors = (Y - G @ (shrink[:, [i]] * grid.right)) / np.maximum(1.0 - leverage[:, [i]], np.finfo(float).eps)
        path[i] = np.sum(w * errors**2, axis=0)
    return Sums.of(path=path, weight=w.sum())


def by_leave_one_out(
    passes: Passes, lift: Lift, found: Moments, grid: Array | None
) -> tuple[Array, Array, NDArray[np.float64]]:
    """Choose for every target the ridge with the least leave-one-out error, in one more pass: grid (g,)."""
    values, vectors = np.linalg.eigh(found.second)
    values = np.maximum(values, 0.0)
    grid = default_grid(values) if grid is None else grid
    sums = passes.sum(_left_out, _Grid(lift, vectors, values, vectors.T @ found.right, grid))
    path = sums["path"] / sums["weight"]
    return grid, path, grid[np.argmin(path, axis=0)]


# ---- conjugate gradients --------------------------------------------------------------------------------------------


def _right(lift: Lift, parts: Iterator[Part]) -> Sums | None:
    return total(
        Sums.of(right=lift.raw(part.X).T @ (part.weights[:, None] * targets_of(part)), count=part.index.size)
        for part in strips_of(parts, lift.width)
    )


def _product(shared: tuple[Lift, Array], parts: Iterator[Part]) -> Sums | None:
    lift, u = shared
    return total(_product_of(lift.raw(part.X), u, part) for part in strips_of(parts, lift.width))


def _product_of(R: Array, u: Array, part: Part) -> Sums:
    return Sums.of(product=R.T @ (part.weights[:, None] * (R @ u)))


def by_pcg(
    passes: Passes, lift: Lift, sample: Part, ridge: Array, *, tol: float, max_iter: int, clock: Clock
) -> LeastSquares:
    """Solve by conjugate gradients, preconditioned by the moments of a sample: ridge (k,)."""
    start = passes.sum(_right, lift)
    B, n = lift.mixed(start["right"]), float(start["count"])

    def times(V: Array) -> Array:
        return lift.mixed(passes.sum(_product, (lift, lift.unmixed(V)))["product"]) + ridge * V

    precondition = _preconditioner(lift, sample, n, ridge)
    w, steps, why = _iterate(B, times, precondition, tol, max_iter, clock)
    worst = float(relative_residuals(B - times(w), B).max(initial=0.0))
    met = worst <= tol
    return LeastSquares(
        w,
        Certificate(
            kind="residual",
            violation=worst,
            converged=met,
            iterations=steps,
            seconds=clock.seconds,
            message="" if met else f"above tol={tol:.0e}: {why}",
        ),
        ridge,
    )


def _preconditioner(lift: Lift, sample: Part, n: float, ridge: Array) -> Any:
    """The inverse of the system with the moments of a sample, scaled up, in place of those of all rows."""
    height = sample.index.size
    sums = total(Sums.of(second=(part.weights[:, None] * F).T @ F) for F, part in lift.strips(iter([sample])))
    assert sums is not None
    factors = {}
    for value in np.unique(ridge):
        A = (n / height) * sums["second"]
        A[np.diag_indices_from(A)] += value
        factors[float(value)] = cho_factor(A, lower=True, overwrite_a=True, check_finite=False)

    def precondition(R: Array) -> Array:
        Z = np.empty_like(R)
        for value, factor in factors.items():
            Z[:, ridge == value] = cho_solve(factor, R[:, ridge == value], check_finite=False)
        return Z

    return precondition


def _iterate(
    B: Array, times: Any, precondition: Any, tol: float, max_iter: int, clock: Clock
) -> tuple[Array, int, str]:
    """Each target by itself, one product for all."""
    w, R = np.zeros_like(B), B.copy()
    Z = precondition(R)
    P, rho = Z, np.einsum("ij,ij->j", R, Z)
    goal = 0.5 * tol * np.linalg.norm(B, axis=0)
    for step in range(max_iter):
        if np.all(np.linalg.norm(R, axis=0) <= goal):
            return w, step, "rounding in float64 stops it; regularise more, or take fewer features."
        if clock.expired:
            return w, step, f"max_time={clock.max_time:g} s passed; allow more."
        Q = times(P)
        curvature = np.einsum("ij,ij->j", P, Q)
        sound = (curvature > 0) & (rho > 0)
        length = np.where(sound, rho, 0.0) / np.where(sound, curvature, 1.0)
        w, R = w + length * P, R - length * Q
        Z = precondition(R)
        rho, old = np.einsum("ij,ij->j", R, Z), rho
        P = Z + (rho / np.where(old > 0, old, 1.0)) * P
    return w, max_iter, f"max_iter={max_iter} was reached; allow more, or regularise more."
