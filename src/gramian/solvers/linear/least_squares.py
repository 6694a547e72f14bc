"""min Σ_i w_i (f(x_i) - y_i)² + μ ‖f‖²: the routes to it that hold a matrix.

Weights make the system ``(K + μ W⁻¹) α = y``. With S = √W and α = S a it is ``(S K S + μ I) a = S y``, which is as
well conditioned as it can be, and whose leave-one-out residuals are those of the targets times S.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate, certify, relative_residuals
from gramian.gram import Gram, SymmetricGram
from gramian.gram.operator import units
from gramian.progress import Clock, Tick, silent
from gramian.solvers.linear.cholesky import Factor, NotPositiveDefiniteError, solve
from gramian.solvers.linear.diagnose import diagnosis
from gramian.solvers.linear.leave_one_out import Eigenbasis, default_grid

__all__ = [
    "LeastSquares",
    "Moments",
    "by_cholesky",
    "by_eigenvectors",
    "measured",
    "residual_certificate",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """A solution of regularised least squares."""

    x: Array  # (n, k) or (m, k): Dual coefficients, or weights of features
    certificate: Certificate  # The residual of the system that was solved
    ridge: Array  # (k,): μ of each target
    loo: Array | None = None  # (n, k): Leave-one-out residuals, where they were asked for
    grid: Array | None = None  # (g,): Ridges that were chosen among
    path: Array | None = None  # (g, k): Their leave-one-out errors


def by_cholesky(
    gram: Gram,
    Y: Array,
    ridge: Array,
    weights: Array,
    *,
    loo: bool = False,
    tol: float = 1e-8,
    names: NDArray[np.intp] | None = None,
    clock: Clock | None = None,
    tick: Tick = silent,
) -> LeastSquares:
    """Factorise K once for every distinct ridge: Y (n, k), ridge (k,), weights (n,), names (n,)."""
    clock = clock or Clock()
    scale = np.sqrt(weights)[:, None]
    A = _scaled(gram, scale)
    diagonal = np.diagonal(A).copy()
    x, errors = np.empty(Y.shape), np.empty(Y.shape) if loo else None
    worst: Certificate | None = None
    factor: Factor | None = None
    for value in np.unique(ridge):
        columns = ridge == value
        A = A if factor is None else factor.give_back()
        np.fill_diagonal(A, diagonal + value)
        try:
            solution, factor = solve(A, scale * Y[:, columns], tol=tol, clock=clock, tick=tick)
        except NotPositiveDefiniteError as error:
            raise _singular(gram, float(value), names) from error
        if value == 0 and not (solution.certificate.converged and _invertible(factor)):
            raise _singular(gram, 0.0, names)
        x[:, columns] = scale * solution.x
        if errors is not None:
            errors[:, columns] = solution.x / factor.inverse_diagonal()[:, None] / scale
        if worst is None or solution.certificate.violation > worst.violation:
            worst = solution.certificate
    if worst is None:
        raise ValueError("Y must have at least one column.")
    return LeastSquares(x, worst, ridge, errors)


def _invertible(factor: Factor) -> bool:
    """Whether the smallest pivot is more than rounding."""
    return bool(factor.smallest_pivot() > factor.n * np.finfo(np.float64).eps * factor.diagonal.max())


def _scaled(gram: Gram, scale: Array) -> Array:
    A = gram.dense().astype(np.float64, copy=False)
    if np.any(scale != 1.0):
        A *= scale
        A *= scale.T
    return A


def _singular(gram: Gram, ridge: float, names: NDArray[np.intp] | None) -> np.linalg.LinAlgError:
    advice = "remove them, or add to the diagonal (nugget= or alpha=)"
    if ridge > 0:
        advice = f"{ridge:.1e} on the diagonal is too little, add more"
    return np.linalg.LinAlgError(f"{diagnosis(gram, names)}; {advice}.")


def by_eigenvectors(
    gram: Gram,
    Y: Array,
    grid: Array | None,
    weights: Array,
    *,
    tol: float = 1e-8,
    clock: Clock | None = None,
) -> LeastSquares:
    """Decompose K once, and choose for every target the ridge with the least leave-one-out error."""
    clock = clock or Clock()
    scale = np.sqrt(weights)[:, None]
    basis = Eigenbasis.of_matrix(_scaled(gram, scale))
    grid, path, ridge = _chosen(basis, scale * Y, grid, weights)
    a = basis.dual(scale * Y, ridge)
    K = SymmetricGram(gram, 0, np.float64)
    R = scale * Y - (scale * (K @ (scale * a)) + ridge * a)
    certificate = residual_certificate(R, scale * Y, tol, clock, "regularise more")
    return LeastSquares(scale * a, certificate, ridge, basis.residuals(scale * Y, ridge) / scale, grid, path)


def _chosen(basis: Eigenbasis, B: Array, grid: Array | None, weights: Array) -> tuple[Array, Array, Array]:
    """The grid, Σ w e² / Σ w of every target there, and the best ridges; B has the targets times √w."""
    grid = default_grid(basis.values) if grid is None else grid
    unit = units(B)
    path = basis.path(B / unit, grid) / weights.sum()
    with np.errstate(over="ignore", under="ignore"):
        return grid, unit * (unit * path), grid[np.argmin(path, axis=0)]


@dataclass(frozen=True, eq=False)
class Moments:
    """What least squares in features needs of the rows: sums that add up over blocks of them."""

    second: Array  # (m, m): ``FᵀWF``
    right: Array  # (m, k): ``FᵀWY``
    count: int  # How many rows

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.second + other.second, self.right + other.right, self.count + other.count)

    def solve(self, ridge: Array, *, tol: float = 1e-8, clock: Clock | None = None) -> LeastSquares:
        """Solve ``(FᵀWF + μI) w = FᵀWy``: ridge (k,)."""
        w = np.empty_like(self.right)
        for value in np.unique(ridge):
            columns = ridge == value
            A = self.second.copy()
            A[np.diag_indices_from(A)] += value
            w[:, columns] = solve(A, self.right[:, columns], tol=tol, jitter_limit=1e-12)[0].x
        R = self.right - self.second @ w - ridge * w
        advice = "regularise more, or take fewer features"
        return LeastSquares(w, residual_certificate(R, self.right, tol, clock or Clock(), advice), ridge)


def measured(found: LeastSquares, R: Array, B: Array, tol: float) -> LeastSquares:
    """Return a solution with the residual of the function that it predicts: R, B (m, k)."""
    worst = float(relative_residuals(R, B).max(initial=0.0))
    done, met = found.certificate, worst <= tol
    message = done.message
    if met != done.converged:
        large = f"above tol={tol:.0e}: coefficients so large that rounding shows in predictions; regularise more."
        message = "" if met else large
    return replace(found, certificate=replace(done, violation=worst, converged=met, message=message))


def residual_certificate(R: Array, B: Array, tol: float, clock: Clock, advice: str) -> Certificate:
    """Return what a residual certifies: R, B (m, k)."""
    worst = relative_residuals(R, B).max(initial=0.0)
    return certify("residual", worst, tol, f"too ill-conditioned for float64; {advice}.", seconds=clock.seconds)
