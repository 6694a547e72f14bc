"""Truncated Newton for min_{f, b} D(f + b) + (μ/2) ‖f‖², f = Kα, where the data term D has curvature.

The constant b is optimal at every point. The duality gap is free: with g = ∇D and r = -(g + μα) it equals, at the
dual point -g/μ, ``‖r‖²_K / (2μ)``.

A step solves ``(S Sᵀ K + μ) δ = r``, where S Sᵀ is the curvature of the data term.

By the push-through identity ``δ = (r - S a) / μ`` with ``(SᵀK S + μI) a = SᵀK r``, a symmetric system with eigenvalues
of at least μ, which involves only the rows with curvature. Minimising over a constant too projects the system on the
complement of Sᵀ1. An inexact a, from conjugate gradients that start at zero, still gives a direction of descent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramian.gram.lowrank import weighted_square
from gramian.progress import Clock
from gramian.resources import one_blas_thread
from gramian.solvers.conjugate_gradients import conjugate_gradients
from gramian.solvers.machine.data_term import best_constant
from gramian.solvers.machine.penalties import Goal

FLAT = 1e-11
"""A slope below this, relative to the objective, changes the objective by rounding only."""

INDEFINITE = 1e-6
"""Rounding may make a gap negative by this, relative to the objective."""

SHORTEST = 1e-8
"""The shortest step of the line search, relative to Newton's."""
SMOOTH_SHORTEST = 1e-16
"""The same for a smooth loss: without curvature (as Huber's far from its targets) Newton's step is as long as 1/μ."""
DIRECT_SIZE = 2000
"""Up to this many unknowns the system is factorised, in a fraction of a second."""
STIFF_SIZE = 5000
"""The same if the curvature comes from kinks: conjugate gradients would take hundreds of steps."""
FORCING = 0.1
"""The residual of a Newton step is reduced to this share of the last one, at most."""
CG_STEPS = 500
"""Conjugate gradient steps of one Newton step at most."""
SHARE = 0.25
"""Share of the memory for a factorisation, beside the stored part of K."""
LARGE = 2_000_000
"""From this many numbers in F on, sums over its rows are computed in single precision."""
SINGLE_LOSS = 1e-7
"""The error of that sum in single precision, relative to its trace."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Iterate:
    """A function and a constant."""

    alpha: Array  # (n, k): Coefficients
    values: Array  # (n, k): K @ alpha
    b: Array  # (k,): Constants

    @property
    def f(self) -> Array:
        """Fitted values, with the constant."""
        return self.values + self.b

    @property
    def norm2(self) -> float:
        """‖f‖² without the constant."""
        return max(float(np.sum(self.alpha * self.values)), 0.0)


@dataclass(frozen=True, eq=False)
class NewtonResult:
    """The result of Newton's method."""

    iterate: Iterate  # The function
    u: Array  # (n, k): The gradient of the data term there, a dual point
    Ku: Array  # (n, k): K @ u
    gap: float  # ``‖u + μα‖²_K / (2μ)``
    steps: int  # Newton steps taken
    why: str = ""  # Why it stopped short, if it did


def origin(fit: Any, intercept: bool) -> Iterate:
    """Return the best constant function."""
    zero = np.zeros_like(fit.y)
    b = np.zeros(fit.y.shape[1])
    return Iterate(zero, zero, best_constant(fit, zero, b) if intercept else b)


def minimise(space: Any, fit: Any, mu: float, start: Iterate, goal: Goal, floor: float = 0.0) -> NewtonResult:
    """Minimise ``D(f + b) + (μ/2) ‖f‖²``, to a gap relative to the objective, or of at most ``floor``."""
    intercept, clock = goal.intercept, goal.clock
    at = replace(start, b=best_constant(fit, start.values, start.b)) if intercept else start
    best, objective, why, flat, strikes = None, squared_objective(fit, mu, at), "", False, 0
    scale = float(np.abs(space.gram.diagonal()).max())
    for step in range(goal.max_iter + 1):
        u = fit.gradient(at.f)
        r = -(u + mu * at.alpha)
        Kr = space @ r
        gap = _gap(r, Kr, mu, objective, scale)
        goal.tick(step, gap=gap)
        # When the objective changes by rounding only, the gap alone tells whether steps still gain.
        strikes += int(best is not None and flat and gap > 0.5 * best.gap)
        if best is None or not flat or gap < best.gap:
            best = NewtonResult(at, u, -Kr - mu * at.values, gap, step)
        met = gap <= max(goal.tol * abs(objective), floor)
        if met or strikes > 1:
            break
        if why := clock.ended(step, goal.max_iter):
            break
        system = System(space, fit.half_curvature(at.f), mu, intercept, fit.stiff)
        at, objective, flat = _step(space, fit, mu, at, system.direction(r, Kr, clock), r, objective, intercept)
    assert best is not None
    if not why and best.gap > max(goal.tol * abs(objective), floor):
        why = "stopped by rounding in float64"
    return replace(best, steps=step, why=why)


def _gap(r: Array, Kr: Array, mu: float, objective: float, scale: float) -> float:
    """``‖r‖²_K / (2μ)``; a negative one within the rounding of entries up to ``scale`` counts by its size."""
    size = float(np.sum(r * Kr))
    rounding = 64.0 * float(np.finfo(np.float64).eps) * scale * float(np.abs(r).sum()) ** 2
    if size < -max(INDEFINITE * mu * abs(objective), rounding):
        raise ValueError(
            "K is not positive semi-definite on these rows; check the kernel with is_kernel, or raise lam."
        )
    return abs(size) / (2.0 * mu)


def squared_objective(fit: Any, mu: float, at: Iterate) -> float:
    """Return ``D(f + b) + (μ/2) ‖f‖²``."""
    return float(fit.value(at.f)) + 0.5 * mu * at.norm2


def _step(
    space: Any, fit: Any, mu: float, at: Iterate, delta: Array, r: Array, objective: float, intercept: bool
) -> tuple[Iterate, float, bool]:
    """One step along delta with a line search; whether the objective changed by rounding only."""
    values = space @ delta
    slope = -float(np.sum(r * values))
    flat = abs(slope) <= FLAT * abs(objective)
    b, length = at.b, 1.0
    while True:
        trial = Iterate(at.alpha + length * delta, at.values + length * values, b)
        if intercept:
            trial = replace(trial, b=best_constant(fit, trial.values, b))
        reached = squared_objective(fit, mu, trial)
        if flat or reached <= objective + 1e-4 * length * slope:
            return trial, reached, flat
        length *= 0.5
        if length < (SHORTEST if fit.stiff else SMOOTH_SHORTEST):
            return at, objective, True


# ---- the step --------------------------------------------------------------------------------------------------------


class Woodbury:
    """The inverse of ``diag(s) F Fᵀ diag(s) + μI``, without a scaled copy of F."""

    def __init__(self, F: Array, s: Array, mu: float) -> None:
        self.F, self.s, self.mu = F, s[:, None], mu
        core = self._square()
        core[np.diag_indices_from(core)] += mu
        self.largest = _largest(core)
        self.core = np.linalg.cholesky(core).T, False

    def _square(self) -> Array:
        """FᵀD²F, multiplied in single precision if its error is small beside μ."""
        trace = float(np.einsum("ij,ij->i", self.F, self.F) @ self.s[:, 0] ** 2)
        single = self.F.size >= LARGE and SINGLE_LOSS * trace <= FORCING**2 * self.mu
        return weighted_square(self.F, self.s, np.float32 if single else np.float64)

    def solve(self, B: Array) -> Array:
        """Return the solution of the system: B (n, k) → (n, k)."""
        inner = scipy.linalg.cho_solve(self.core, self.F.T @ (self.s * B), check_finite=False)
        return np.asarray((B - self.s * (self.F @ inner)) / self.mu)


def _largest(A: Array) -> float:
    """A close lower bound of the largest eigenvalue, by the power method."""
    v = np.ones(A.shape[0])
    size = 0.0
    for _ in range(10):
        v = A @ v
        size = float(np.linalg.norm(v))
        v /= size or 1.0
    return size


class System:
    """``SᵀK S + μI`` on the rows with curvature and, with an intercept, orthogonal to Q = Sᵀ1."""

    def __init__(self, space: Any, S: Array, mu: float, intercept: bool, stiff: bool = False) -> None:
        self.space, self.mu = space, mu
        self.direct_size = STIFF_SIZE if stiff else DIRECT_SIZE
        self.S, self.coupled = S, S.ndim == 3
        self.rows = np.flatnonzero(np.any(S.reshape(S.shape[0], -1) != 0, axis=1))
        self.Q = self._constants() if intercept else None

    def _constants(self) -> Array:
        """Columns Sᵀ e_c, flattened over rows and classes."""
        S = self.S[self.rows]
        columns = S.transpose(0, 2, 1).reshape(-1, S.shape[1]) if self.coupled else S
        # An orthonormal basis, without the directions of rounding if the columns are linearly dependent.
        U, sizes, _ = np.linalg.svd(columns, full_matrices=False)
        return np.asarray(U[:, sizes > 1e-10 * sizes.max(initial=0.0)])

    def _forward(self, a: Array) -> Array:
        """S a, on all rows."""
        out = np.zeros(self.S.shape[:2])
        S = self.S[self.rows]
        out[self.rows] = np.einsum("icd,id->ic", S, a) if self.coupled else S * a
        return out

    def _back(self, v: Array) -> Array:
        """Sᵀ v, on the rows with curvature."""
        S, v = self.S[self.rows], v[self.rows]
        return np.einsum("icd,ic->id", S, v) if self.coupled else S * v

    def direction(self, r: Array, Kr: Array, clock: Clock) -> Array:
        """Return Newton's direction δ: r, Kr (n, k) → (n, k)."""
        if not self.rows.size:
            return r / self.mu
        h = self._back(Kr)
        affordable = h.size <= self.direct_size and 4 * 8 * h.size**2 <= SHARE * self.space.memory
        size = np.sqrt(max(float(np.sum(r * Kr)), 0.0))
        a = self._direct(h) if affordable else self._iterate(h, size, clock)
        return (r - self._forward(a)) / self.mu

    def _factor(self) -> Array:
        """F at the rows with curvature; a view if these are all rows or regularly spaced."""
        F, rows = self.space.factor, self.rows
        even = rows.size > 1 and np.ptp(np.diff(rows)) == 0
        if even and F.flags.c_contiguous:
            return np.asarray(F[rows[0] : rows[-1] + 1 : rows[1] - rows[0]])
        return np.asarray(F if rows.size == F.shape[0] else F[rows])

    def _direct(self, h: Array) -> Array:
        K, S = self.space.block(self.rows), self.S[self.rows]
        if self.coupled:
            M = np.einsum("iec,ij,jed->icjd", S, K, S, optimize=True).reshape(h.size, h.size)
        else:
            M = S * K * S.T
        M[np.diag_indices_from(M)] += self.mu
        try:
            factor = scipy.linalg.cho_factor(M, check_finite=False)
        except np.linalg.LinAlgError:
            return self._clipped(M, h)

        def solve(B: Array) -> Array:
            return np.asarray(scipy.linalg.cho_solve(factor, B, check_finite=False))

        return self._bordered(solve(h.reshape(-1, 1)), solve).reshape(h.shape)

    def _clipped(self, M: Array, h: Array) -> Array:
        """Used if rounding, or a constant absorbed by b, made M indefinite: its eigenvalues should be at least μ."""
        P = np.eye(h.size) if self.Q is None else np.eye(h.size) - self.Q @ self.Q.T
        values, vectors = np.linalg.eigh(P @ M @ P)
        a = vectors @ ((vectors.T @ (P @ h.reshape(-1))) / np.maximum(values, self.mu))
        return self._project(a.reshape(h.shape))

    def _bordered(self, a: Array, solve: Callable[[Array], Array]) -> Array:
        """The solution orthogonal to Q, from one that need not be."""
        if self.Q is None or not self.Q.size:
            return a
        Z = solve(self.Q)
        return np.asarray(a - Z @ np.linalg.solve(self.Q.T @ Z, self.Q.T @ a))

    # ---- conjugate gradients ------------------------------------------------------------------------------------

    def _project(self, a: Array) -> Array:
        if self.Q is None:
            return a
        return np.asarray(a - (self.Q @ (self.Q.T @ a.reshape(-1))).reshape(a.shape))

    def _times(self, a: Array) -> Array:
        return self._project(self._back(self.space.fast(self._forward(a))) + self.mu * a)

    @cached_property
    def _preconditioner(self) -> tuple[Callable[[Array], Array], float]:
        """The inverse with F Fᵀ for K, column by column, and the largest eigenvalue of SᵀK S, or nearly."""
        F, S = self._factor(), self.S[self.rows]
        roots = np.sqrt(np.einsum("icd,icd->ic", S, S)) if self.coupled else S
        parts = [Woodbury(F, roots[:, c], self.mu) for c in range(roots.shape[1])]

        def precondition(R: Array) -> Array:
            return np.hstack([part.solve(R[:, [c]]) for c, part in enumerate(parts)])

        return precondition, max(part.largest for part in parts)

    def _iterate(self, h: Array, size: float, clock: Clock) -> Array:
        """Stop when the next r, which is S times this residual over μ, is at most ``FORCING`` times r."""
        precondition, largest = self._preconditioner
        goal = FORCING * self.mu * size / np.sqrt(2.0 * largest)
        shape, steps = h.shape, iter(range(CG_STEPS))

        def times(v: Array, _: Any) -> Array:
            return self._times(v.reshape(shape)).reshape(-1, 1)

        def approximate(v: Array, _: Any) -> Array:
            return self._project(precondition(v.reshape(shape))).reshape(-1, 1) if v.size else v

        def proceed() -> bool:
            return not clock.expired and next(steps, None) is not None

        with one_blas_thread():  # idle BLAS threads would keep spinning while our own threads multiply
            r = self._project(h).reshape(-1, 1)
            return conjugate_gradients(r, times, approximate, goal, proceed=proceed).reshape(shape)
