"""Truncated Newton for min_{f, b} D(f + b) + (μ/2) ‖f‖², f = Kα, where the data term D has curvature.

With g = ∇D, r = -(g + μα) and curvature S Sᵀ, Newton's step solves ``(S Sᵀ K + μ) δ = r``. By the push-through
identity ``δ = (r - S a) / μ`` with ``(SᵀK S + μI) a = SᵀK r``, a symmetric system with eigenvalues of at least μ, in
which rows without curvature take no part. The constant b is at its best at every point, which projects the system
on the complement of Sᵀ1. The duality gap is free: at the dual point -g/μ it equals ``‖r‖²_K / (2μ)``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramian.gram import LowRank
from gramian.progress import Clock, Tick, silent
from gramian.solvers.datafit import best_constant

__all__ = ["Iterate", "Newton", "minimise", "origin"]

DIRECT_SIZE = 2000
"""Unknowns up to which the system is factorised: it then takes a fraction of a second."""
FORCING = 0.1
"""How far, at most, the residual of a Newton step is lowered relative to that of the last."""
CG_STEPS = 500
"""Conjugate gradient steps of one Newton step at most."""
FLAT = 1e-11
"""A slope this small, relative to the objective, cannot be seen in the objective."""

INDEFINITE = 1e-6
"""How far below zero, relative to the objective, rounding may bring a gap."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Iterate:
    """A function and a constant.

    Parameters
    ----------
    alpha : array of shape (n, k)
        Coefficients.
    values : array of shape (n, k)
        K @ alpha.
    b : array of shape (k,)
        Constants.
    """

    alpha: Array
    values: Array
    b: Array

    @property
    def f(self) -> Array:
        """Fitted values, with the constant."""
        return self.values + self.b

    @property
    def norm2(self) -> float:
        """‖f‖² without the constant."""
        return max(float(np.sum(self.alpha * self.values)), 0.0)


@dataclass(frozen=True, eq=False)
class Newton:
    """Where Newton's method ended.

    Parameters
    ----------
    at : Iterate
        The function.
    u : array of shape (n, k)
        The gradient of the data term there, a dual point.
    Ku : array of shape (n, k)
        K @ u.
    gap : float
        ``‖u + μα‖²_K / (2μ)``.
    steps : int
        Newton steps.
    why : str
        Why it stopped short, where it did.
    """

    at: Iterate
    u: Array
    Ku: Array
    gap: float
    steps: int
    why: str = ""


def origin(space: Any, fit: Any, intercept: bool) -> Iterate:
    """Return the best constant function.

    Parameters
    ----------
    space : ExactSpace or FeatureSpace
        The space.
    fit : DataFit
        The data term.
    intercept : bool
        Whether a constant is allowed; zero otherwise.

    Returns
    -------
    Iterate
        With alpha zero.
    """
    zero = np.zeros_like(fit.y)
    b = np.zeros(fit.y.shape[1])
    return Iterate(zero, zero, best_constant(fit, zero, b) if intercept else b)


def minimise(
    space: Any,
    fit: Any,
    mu: float,
    start: Iterate,
    *,
    intercept: bool,
    goal: float,
    floor: float = 0.0,
    max_iter: int = 100,
    clock: Clock | None = None,
    tick: Tick = silent,
) -> Newton:
    """Minimise ``D(f + b) + (μ/2) ‖f‖²``.

    Parameters
    ----------
    space : ExactSpace or FeatureSpace
        Where f lives.
    fit : DataFit or Envelope
        D.
    mu : float
        μ, > 0.
    start : Iterate
        Where to begin.
    intercept : bool
        Whether b is free.
    goal : float
        Gap, relative to the objective, at which to stop; zero to go on as far as rounding lets it.
    floor : float, default=0.0
        Gap, not relative, at which to stop too.
    max_iter : int, default=100
        Steps at most.
    clock : Clock or None, default=None
        Stops it once expired.
    tick : callable, default=silent
        Told the steps done, with ``gap=``.

    Returns
    -------
    Newton
        The best point met.
    """
    clock = clock or Clock()
    at = replace(start, b=best_constant(fit, start.values, start.b)) if intercept else start
    best, objective, why, strikes = None, _objective(fit, mu, at), "", 0
    for step in range(max_iter + 1):
        u = fit.gradient(at.f)
        r = -(u + mu * at.alpha)
        Kr = space @ r
        size = float(np.sum(r * Kr))
        if size < -INDEFINITE * mu * abs(objective):
            raise ValueError(
                "K is not positive semi-definite on these rows, so it is the Gram matrix of no kernel; see is_kernel, "
                "or raise lam."
            )
        gap = max(size, 0.0) / (2.0 * mu)
        tick(step, gap=gap)
        if best is None or gap < best.gap or strikes == 0:
            best = Newton(at, u, -Kr - mu * at.values, gap, step)
        if gap <= max(goal * abs(objective), floor) or strikes > 1:
            break
        if step == max_iter or clock.expired:
            why = f"max_time={clock.max_time:g} s passed" if clock.expired else f"max_iter={max_iter} was reached"
            break
        previous = best.gap
        at, objective, flat = _step(space, fit, mu, at, r, Kr, objective, intercept)
        strikes = strikes + 1 if flat and gap >= 0.5 * previous and step else (1 if flat and strikes else int(flat))
    assert best is not None
    if not why and best.gap > max(goal * abs(objective), floor):
        why = "rounding in float64 stops it"
    return replace(best, steps=step, why=why)


def _objective(fit: Any, mu: float, at: Iterate) -> float:
    return float(fit.value(at.f)) + 0.5 * mu * at.norm2


def _step(
    space: Any, fit: Any, mu: float, at: Iterate, r: Array, Kr: Array, objective: float, intercept: bool
) -> tuple[Iterate, float, bool]:
    """One Newton step with a line search; whether the objective no longer shows the difference."""
    system = _System(space, fit.half_curvature(at.f), mu, intercept)
    delta = system.direction(r, Kr)
    values = space @ delta
    slope = -float(np.sum(r * values))
    flat = abs(slope) <= FLAT * abs(objective)
    b, length = at.b, 1.0
    while True:
        trial = Iterate(at.alpha + length * delta, at.values + length * values, b)
        if intercept:
            trial = replace(trial, b=best_constant(fit, trial.values, b))
        reached = _objective(fit, mu, trial)
        if flat or reached <= objective + 1e-4 * length * slope:
            return trial, reached, flat
        length *= 0.5
        if length < 1e-8:
            return at, objective, True


class _System:
    """``SᵀK S + μI`` on the rows with curvature and, with an intercept, orthogonal to Q = Sᵀ1."""

    def __init__(self, space: Any, S: Array, mu: float, intercept: bool) -> None:
        self.space, self.mu = space, mu
        self.S, self.coupled = S, S.ndim == 3
        self.rows = np.flatnonzero(np.any(S.reshape(S.shape[0], -1) != 0, axis=1))
        self.Q = self._constants() if intercept else None

    def _constants(self) -> Array:
        """Columns Sᵀ e_c, flattened over rows and classes."""
        S = self.S[self.rows]
        columns = S.transpose(0, 2, 1).reshape(-1, S.shape[1]) if self.coupled else S
        # An orthonormal basis, without what rounding adds where the columns depend on one another.
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

    def direction(self, r: Array, Kr: Array) -> Array:
        """Newton's direction δ."""
        if not self.rows.size:
            return r / self.mu
        h = self._back(Kr)
        if h.size <= DIRECT_SIZE:
            a = self._direct(h)
        elif self.space.low_rank and not self.coupled:
            a = self._bordered(LowRank(self.S[self.rows] * self.space.factor[self.rows], self.mu).solve, h)
        else:
            a = self._iterate(h, np.sqrt(max(float(np.sum(r * Kr)), 0.0)))
        return (r - self._forward(a)) / self.mu

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
        return self._bordered(lambda B: scipy.linalg.cho_solve(factor, B, check_finite=False), h)

    def _clipped(self, M: Array, h: Array) -> Array:
        """Where rounding, or a constant that b absorbs, made M indefinite: its eigenvalues should be at least μ."""
        P = np.eye(h.size) if self.Q is None else np.eye(h.size) - self.Q @ self.Q.T
        values, vectors = np.linalg.eigh(P @ M @ P)
        a = vectors @ ((vectors.T @ (P @ h.reshape(-1))) / np.maximum(values, self.mu))
        return self._project(a.reshape(h.shape))

    def _bordered(self, solve: Any, h: Array) -> Array:
        """The solution orthogonal to Q, from solutions that need not be."""
        right = h.reshape(-1, 1)
        if self.Q is None or not self.Q.size:
            return np.asarray(solve(right).reshape(h.shape))
        both = solve(np.hstack([right, self.Q]))
        a, Z = both[:, :1], both[:, 1:]
        return np.asarray((a - Z @ np.linalg.solve(self.Q.T @ Z, self.Q.T @ a)).reshape(h.shape))

    # ---- conjugate gradients ------------------------------------------------------------------------------------

    def _project(self, a: Array) -> Array:
        if self.Q is None:
            return a
        return np.asarray(a - (self.Q @ (self.Q.T @ a.reshape(-1))).reshape(a.shape))

    def _times(self, a: Array) -> Array:
        return self._project(self._back(self.space.fast(self._forward(a))) + self.mu * a)

    def _preconditioner(self) -> tuple[Any, float]:
        """Woodbury's inverse with F Fᵀ for K, column by column, and the largest eigenvalue of SᵀK S, or nearly."""
        F = self.space.factor[self.rows]
        S = self.S[self.rows]
        roots = np.sqrt(np.einsum("icd,icd->ic", S, S)) if self.coupled else S
        parts = [LowRank(roots[:, [c]] * F, self.mu) for c in range(roots.shape[1])]
        largest = max(_largest(part.factor) for part in parts)
        return lambda R: np.column_stack([p.solve(R[:, c]) for c, p in enumerate(parts)]), largest

    def _iterate(self, h: Array, size: float) -> Array:
        """Stop where the next r, which is S times this residual over μ, is ``FORCING`` of r or less."""
        precondition, largest = self._preconditioner()
        goal = FORCING * self.mu * size / np.sqrt(2.0 * largest + self.mu)
        a, R = np.zeros_like(h), self._project(h)
        Z = self._project(precondition(R))
        P, rho = Z, float(np.sum(R * Z))
        for _ in range(CG_STEPS):
            if np.linalg.norm(R) <= goal or rho <= 0.0:
                break
            T = self._times(P)
            length = rho / float(np.sum(P * T))
            a, R = a + length * P, R - length * T
            Z = self._project(precondition(R))
            rho, old = float(np.sum(R * Z)), rho
            P = Z + (rho / old) * P
        return a


def _largest(F: Array) -> float:
    """A close lower bound of the largest eigenvalue of F Fᵀ, by the power method."""
    v = np.ones(F.shape[1])
    size = 0.0
    for _ in range(10):
        v = F.T @ (F @ v)
        size = float(np.linalg.norm(v))
        v /= size or 1.0
    return size
