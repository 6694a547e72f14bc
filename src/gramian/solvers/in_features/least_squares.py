"""Ridge regression on the features of a map, over passes: by sums of outer products, or by conjugate gradients.

With features F, weights W and ridge μ both solve ``(FᵀWF + μI) w = FᵀWy``. The sums take one pass and n m² operations;
conjugate gradients take one pass and n m operations per iteration (Falkon: Rudi, Carratino and Rosasco, 2017).

Computing the features of landmarks, F = K_nm L⁻ᵀ with L Lᵀ = K_mm, would take another n m² operations. It is avoided
with ``FᵀWF = L⁻¹ (K_mn W K_nm) L⁻ᵀ``. Iterative refinement recovers the digits lost to the squared condition number of
K_mm, one pass for each residual; if it does not reach the tolerance, the features are computed after all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from gramian.certificates import certify, measured, relative_residuals, residual_certificate
from gramian.data.passes import Part, Passes, Sums, total
from gramian.features.base import WorkerMap, error_of
from gramian.gram.operator import units
from gramian.progress import Clock
from gramian.resources import answering
from gramian.solvers.choice import Choice, choose_in_features
from gramian.solvers.conjugate_gradients import conjugate_gradients
from gramian.solvers.linear.leave_one_out import default_grid
from gramian.solvers.linear.ridge import Moments
from gramian.solvers.solution import Solution

Array = NDArray[np.float64]

REFINEMENTS = 3
"""Most steps of iterative refinement: either each gains digits, or the factor is too inaccurate for it to converge."""


@dataclass(frozen=True, eq=False)
class FeatureSolution:
    """A solution in the space of a map, and how it was found."""

    found: Solution  # Weights of the features
    choice: Choice  # The solver
    error: float  # The trace error of the map
    moments: Moments | None = None  # The sums, to which further rows may be added


def solve(
    passes: Passes,
    lift: WorkerMap,
    sample: Part,
    ridge: Array | None,
    *,
    grid: Array | None = None,
    loo: bool = False,
    solver: str = "auto",
    tol: float = 1e-6,
    max_iter: int = 1000,
    clock: Clock | None = None,
) -> FeatureSolution:
    """Solve for ridge (k,); if it is None, for the ridges of a grid (g,) with the least leave-one-out errors.

    ``loo`` also returns the leave-one-out residuals, (n, k).
    """
    clock = clock or Clock()
    choice = Choice("moments", "leave-one-out takes one decomposition for all ridges")
    if ridge is not None and not loo:
        choice = choose_in_features(passes.blocks.n_rows, lift.width, ridge.size, sample.index.size, solver)
        if choice.name == "pcg":
            found, error = by_pcg(passes, lift, sample, ridge, tol=tol, max_iter=max_iter, clock=clock)
            return FeatureSolution(found, choice, error)
        if lift.independent and (fit := by_kernel_values(passes, lift, ridge, choice, tol=tol, clock=clock)):
            return fit
    sums, error = moments(passes, lift)
    path = errors = None
    if ridge is None or loo:
        system = _LeaveOneOut.of(lift, sums, units(targets_of(sample)))
        if ridge is None:
            grid, path, ridge = _chosen(passes, system, grid)
        errors = np.vstack(list(passes.map(_left_out_rows, (system, ridge)))) if loo else None
    found = replace(sums.solve(ridge, tol=tol, clock=clock), loo=errors, grid=grid, path=path)
    if lift.basis is not None:
        # Predictions use the expansion in the landmarks, so the certificate is computed from it.
        R = _residual(passes, lift, found.x, found.ridge, by_features=True)
        found = replace(found, certificate=measured(found.certificate, R, sums.right, tol))
    return FeatureSolution(found, choice, error, sums)


def targets_of(part: Part) -> Array:
    """Return targets as columns of numbers: → (r, k)."""
    if part.y is None or part.y.dtype.kind not in "fiub":
        kind = "nothing" if part.y is None else part.y.dtype
        raise ValueError(f"the target must be numbers, got {kind}; name it as Blocks(..., target=...).")
    return np.asarray(part.y, dtype=np.float64).reshape(part.index.size, -1)


class _Factors:
    """Cholesky factors of ``A + μI``, one for each distinct ridge: A (m, m), ridge (k,)."""

    def __init__(self, A: Array, ridge: Array) -> None:
        self.ridge, self.factors = ridge, {}
        for value in np.unique(ridge):
            shifted = A.copy(order="F")
            shifted[np.diag_indices_from(shifted)] += value
            self.factors[float(value)] = cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, B: Array, columns: Any = slice(None)) -> Array:
        """Solve for the right-hand sides B (m, j) of some targets."""
        X, ridge = np.empty_like(B), self.ridge[columns]
        for value in np.unique(ridge):
            X[:, ridge == value] = cho_solve(self.factors[float(value)], B[:, ridge == value], check_finite=False)
        return X


# ---- sums of outer products ---------------------------------------------------------------------------------------


def _moments(part: Part, lift: WorkerMap) -> Sums:
    F = lift.sparse(part.X) if sp.issparse(part.X) and lift.basis is None else part.made(lift)
    second, right = _products(F, targets_of(part), part.weight)
    return Sums.of(second=second, right=right, count=part.index.size, **lift.error_sums(F, part).arrays)


def _products(F: Any, Y: Array, weight: Array | None) -> tuple[Array, Array]:
    """FᵀWF and FᵀWY; F dense or sparse."""
    if weight is not None:
        root = np.sqrt(weight)[:, None]
        F, Y = root * F if isinstance(F, np.ndarray) else F.multiply(root).tocsr(), root * Y
    second = F.T @ F
    return np.asarray(second if isinstance(second, np.ndarray) else second.toarray()), np.asarray(F.T @ Y)


def moments(passes: Passes, lift: WorkerMap) -> tuple[Moments, float]:
    """Return the moments of all rows, in one pass, and the trace error of the map."""
    sums = passes.sum(_moments, lift, width=lift.width)
    return Moments(sums["second"], sums["right"], int(sums["count"])), error_of(sums)


# ---- kernel values of landmarks in place of features --------------------------------------------------------------


def _values(part: Part, lift: WorkerMap) -> Sums:
    K = lift.raw(part)
    second, right = _products(K, targets_of(part), part.weight)
    sums = {"second": second, "right": right, "count": part.index.size, "trace": lift.diagonal(part).sum()}
    return Sums.of(**sums) if part.weight is None else Sums.of(**sums, unweighted=K.T @ K)


def _remainder(part: Part, lift: WorkerMap, u: Array, by_features: bool) -> Sums:
    R = lift.raw(part)
    missed = part.weights[:, None] * (targets_of(part) - R @ u)
    return Sums.of(product=(part.made(lift) if by_features else R).T @ missed)


def _residual(passes: Passes, lift: WorkerMap, w: Array, ridge: Array, *, by_features: bool = False) -> Array:
    """``FᵀW(y - f) - μw`` with the predictions f, in one pass; ``by_features`` computes F itself, for more digits."""
    product = passes.sum(_remainder, lift, lift.unmixed(w), by_features, width=lift.width)["product"]
    return (product if by_features else lift.mixed(product)) - ridge * w


def by_kernel_values(
    passes: Passes, lift: WorkerMap, ridge: Array, choice: Choice, *, tol: float, clock: Clock
) -> FeatureSolution | None:
    """Solve without computing features; None if refinement does not converge."""
    sums = passes.sum(_values, lift, width=lift.width)
    second, right = lift.congruent(sums["second"]), lift.mixed(sums["right"])
    try:
        factors = _Factors(second, ridge)
    except np.linalg.LinAlgError:
        return None
    w, R, before = np.zeros_like(right), right, np.inf
    for _ in range(REFINEMENTS + 1):
        w = w + factors.solve(R)
        R = _residual(passes, lift, w, ridge)
        worst = float(relative_residuals(R, right).max(initial=0.0))
        if worst <= tol or not worst < before:
            break
        before = worst
    certificate = residual_certificate(R, right, tol, clock, "regularise more, or take fewer landmarks")
    if not certificate.converged:
        return None
    plain = lift.congruent(sums["unweighted"]) if "unweighted" in sums.arrays else second
    error = max(1.0 - float(np.trace(plain) / sums["trace"]), 0.0) if sums["trace"] > 0 else 0.0
    found = Solution(w, certificate, ridge)
    return FeatureSolution(found, choice, error, Moments(second, right, int(sums["count"])))


# ---- leave-one-out ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _LeaveOneOut:
    """Sums for leave-one-out errors: ``FᵀWF = V diag(s) Vᵀ``, ``VᵀFᵀWY``, and a unit for each target."""

    lift: WorkerMap
    vectors: Array
    values: Array
    right: Array
    unit: Array

    @classmethod
    def of(cls, lift: WorkerMap, sums: Moments, unit: Array) -> _LeaveOneOut:
        """Take the eigenvalues and vectors of the moments, without eigenvalues that are zero to rounding."""
        values, vectors = answering(lambda: np.linalg.eigh(sums.second))
        keep = values > values.size * np.finfo(np.float64).eps * max(float(values[-1]), 0.0)
        vectors = vectors[:, keep]
        return cls(lift, vectors, values[keep], vectors.T @ (sums.right / unit), unit)

    def errors(self, part: Part, ridges: Array) -> Iterator[Array]:
        """Yield the errors at each of some ridges, in units of the targets: ridges (g, 1) or (g, k) → (r, k)."""
        Y, w, G = targets_of(part) / self.unit, part.weights[:, None], part.made(self.lift) @ self.vectors
        squares = G * G
        for ridge in ridges:
            shrink = 1.0 / (self.values[:, None] + ridge)
            left = np.maximum(1.0 - w * (squares @ shrink), np.finfo(float).eps)
            yield (Y - G @ (shrink * self.right)) / left


def _left_out(part: Part, system: _LeaveOneOut, grid: Array) -> Sums:
    w = part.weights[:, None]
    path = [np.sum(w * errors**2, axis=0) for errors in system.errors(part, grid[:, None])]
    return Sums.of(path=np.array(path), weight=w.sum())


def _left_out_rows(shared: tuple[_LeaveOneOut, Array], parts: Iterator[Part]) -> Array:
    system, ridge = shared
    strips = (strip for part in parts for strip in part.strips(system.lift.width))
    return system.unit * np.vstack([next(system.errors(strip, ridge[None])) for strip in strips])


def _chosen(passes: Passes, system: _LeaveOneOut, grid: Array | None) -> tuple[Array, Array, Array]:
    """The grid, the mean squared errors of every target there, and for each target the best ridge."""
    grid = default_grid(system.values) if grid is None else grid
    sums = passes.sum(_left_out, system, grid, width=system.lift.width)
    path = sums["path"] / sums["weight"]
    with np.errstate(over="ignore", under="ignore"):
        return grid, system.unit * (system.unit * path), grid[np.argmin(path, axis=0)]


# ---- conjugate gradients --------------------------------------------------------------------------------------------


def _right(part: Part, lift: WorkerMap) -> Sums:
    return Sums.of(right=lift.raw(part).T @ (part.weights[:, None] * targets_of(part)), count=part.index.size)


def _product(part: Part, lift: WorkerMap, u: Array) -> Sums:
    R = lift.raw(part)
    return Sums.of(product=R.T @ (part.weights[:, None] * (R @ u)))


def by_pcg(
    passes: Passes, lift: WorkerMap, sample: Part, ridge: Array, *, tol: float, max_iter: int, clock: Clock
) -> tuple[Solution, float]:
    """Solve by conjugate gradients, preconditioned by the moments of a sample: ridge (k,)."""
    start = passes.sum(_right, lift, width=lift.width)
    B, n, done = lift.mixed(start["right"]), float(start["count"]), 0

    def times(V: Array, columns: Any) -> Array:
        nonlocal done
        done += 1
        product = passes.sum(_product, lift, lift.unmixed(V), width=lift.width)["product"]
        return lift.mixed(product) + ridge[columns] * V

    rough = total(_moments(part, lift) for part in sample.strips(lift.width))
    assert rough is not None
    factors = _Factors((n / sample.index.size) * rough["second"], ridge)
    goal = 0.5 * tol * np.linalg.norm(B, axis=0)
    w = conjugate_gradients(B, times, factors.solve, goal, proceed=lambda: not clock.ended(done, max_iter))
    steps, ended = done, clock.ended(done, max_iter)
    why = f"{ended}; allow more," if ended else "stopped by rounding in float64; take fewer features,"
    worst = float(relative_residuals(B - times(w, slice(None)), B).max(initial=0.0))
    certificate = certify("residual", worst, tol, f"{why} or regularise more.", seconds=clock.seconds, iterations=steps)
    return Solution(w, certificate, ridge), error_of(rough)
