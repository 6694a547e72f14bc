"""Least squares in the span of landmarks from kernel values alone: no features of the rows are made.

With L Lᵀ = K_mm the features of the rows are F = K_nm L⁻ᵀ, at n m² operations, and FᵀWF takes as many again. Here
FᵀWF = L⁻¹ (K_mn W K_nm) L⁻ᵀ is made from small matrices, at half of that. What the squared condition of K_mm loses is
won back by refinement: the residual of ``(FᵀWF + μI) w = FᵀWy`` comes from products with K_nm itself, and where
refinement does not bring it below the tolerance, there is no answer, and the features have to be made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramian.progress import Clock
from gramian.solvers.linear.least_squares import LeastSquares, residual_certificate, square
from gramian.solvers.solution import relative_residuals

__all__ = ["Spanned", "by_landmarks"]

REFINEMENTS = 3
"""Corrections at most: each gains digits, or the matrix is too far off for any number of them."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Spanned:
    """A solution, and how much of K the landmarks span."""

    found: LeastSquares  # Weights of the features
    trace: float  # ``tr F Fᵀ``


def by_landmarks(
    K: Array, lower: Array, Y: Array, ridge: Array, weights: Array, *, tol: float = 1e-8, clock: Clock | None = None
) -> Spanned | None:
    """Solve ``(FᵀWF + μI) w = FᵀWY`` for ``F = Kᵀ L⁻ᵀ``."""
    clock = clock or Clock()
    level, W = bool(np.all(weights == 1.0)), weights[:, None]
    second = _between(lower, square(K.T, weights))
    right = _solved(lower, K @ (W * Y))
    systems = []
    for value in np.unique(ridge):
        A = second.copy(order="F")
        A[np.diag_indices_from(A)] += value
        try:
            factor = scipy.linalg.cho_factor(A, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None
        systems.append((ridge == value, factor))
    w, R, before = np.zeros_like(right), right, np.inf
    for _ in range(REFINEMENTS + 1):
        for columns, factor in systems:
            w[:, columns] += scipy.linalg.cho_solve(factor, R[:, columns], check_finite=False)
        R = right - _solved(lower, K @ (W * (K.T @ _solved(lower.T, w, lower=False)))) - ridge * w
        worst = float(relative_residuals(R, right).max(initial=0.0))
        if worst <= tol or not worst < before:
            break
        before = worst
    certificate = residual_certificate(R, right, tol, clock, "regularise more, or take fewer landmarks")
    if not certificate.converged:
        return None
    trace = float(np.trace(second if level else _between(lower, square(K.T))))
    return Spanned(LeastSquares(w, certificate, ridge), trace)


def _between(lower: Array, A: Array) -> Array:
    """The upper triangle of L⁻¹ A L⁻ᵀ, in the place of the symmetric A."""
    # Transposed: what LAPACK overwrites must be in the order of Fortran, and then it copies nothing.
    upper = np.ascontiguousarray(lower).T
    return np.asarray(scipy.linalg.lapack.dsygst(A.T, upper, itype=1, lower=0, overwrite_a=1)[0])


def _solved(triangle: Array, B: Array, *, lower: bool = True) -> Array:
    return np.asarray(scipy.linalg.solve_triangular(triangle, B, lower=lower, check_finite=False))
