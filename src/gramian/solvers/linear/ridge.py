"""Kernel ridge regression, min Σ_i w_i (f(x_i) - y_i)² + μ ‖f‖²: the problem, and the solvers for it.

With weights the system is ``(K + μ W⁻¹) α = y``. With S = √W and α = S a it becomes ``(S K S + μ I) a = S y``, which is
better conditioned, and whose leave-one-out residuals are those of the targets times S.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import predicted_residual, relative_residuals, residual_certificate
from gramian.gram import Gram, SymmetricGram
from gramian.gram.operator import units
from gramian.progress import Clock, Tick, progress, silent
from gramian.resources import readable
from gramian.solvers.choice import Choice, choose, worthwhile_iterations
from gramian.solvers.linear import pcg
from gramian.solvers.linear.cholesky import NotPositiveDefiniteError, cholesky, solve, solve_with
from gramian.solvers.linear.diagnose import diagnosis
from gramian.solvers.linear.leave_one_out import Eigenbasis, default_grid
from gramian.solvers.linear.trend import TrendBasis
from gramian.solvers.solution import Solution

EIGEN_MATRICES = 4
"""n x n matrices in memory: K, its eigenvectors, and two as workspace of LAPACK's divide and conquer."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RidgeProblem:
    """Rows of positive weight, their targets, and the options of the solver."""

    gram: Gram  # K of the rows, in float64
    Y: Array  # (n, k)
    weights: Array  # (n,)
    ridge: Array | None  # (k,): μ of each target; None to choose it by leave-one-out
    grid: Array | None = None  # (g,): Candidates for the ridge
    start: Array | None = None  # (n, k): Initial guess of iterations
    trend: Array | None = None  # (n, q): Trend functions at the rows, not penalised
    names: NDArray[np.intp] | None = None  # (n,): Row numbers, for messages
    solver: str = "auto"
    loo: bool = False  # Whether to compute leave-one-out residuals
    tol: float = 1e-8
    max_iter: int = 1000
    random_state: Any = None
    clock: Clock = field(default_factory=Clock)
    verbose: int | bool = False

    @property
    def scale(self) -> Array:
        """The diagonal of S, as a column (n, 1)."""
        return np.sqrt(self.weights)[:, None]

    @cached_property
    def basis(self) -> TrendBasis | None:
        """QR of S T, if there is a trend."""
        return None if self.trend is None else TrendBasis.of(self.scale * self.trend)

    def solve(self, points: Any) -> tuple[Solution, Choice]:
        """Solve by the requested or an automatic solver; the certificate is for the predictions at the points."""
        if self.ridge is None:
            choice = Choice("eigenvectors", "one decomposition serves the whole grid of alpha='loo'")
            return self._as_predicted(self.by_eigenvectors(), points), choice
        # With a trend, all targets use one solver; without, the solver is chosen for each target by its ridge.
        least = np.full(self.ridge.size, self.ridge.min()) if self.trend is not None else self.ridge
        choices = [choose(self.gram, float(r), self.tol, factor=self.loo, asked=self.solver) for r in least]
        iterated, choice, found = np.array([each.name == "pcg" for each in choices]), choices[0], None
        if iterated.any():
            # If K fits in memory, stop iterating once that has cost as much as factorising would.
            spare, part = self.solver == "auto" and self.gram.fits, self._part(iterated)
            worth = worthwhile_iterations(self.gram.shape[0]) * np.unique(np.asarray(part.ridge)).size
            found = part._by_pcg(np.asarray(part.ridge), min(self.max_iter, worth) if spare else self.max_iter)
            done = found.certificate
            if iterated.all() and (done.converged or not spare or self.clock.expired):
                return self._as_predicted(found, points), choice
            choice = Choice("cholesky", f"pcg was at residual {done.violation:.0e} after {done.iterations} iterations")
            iterated[iterated] = False if found.residuals is None else found.residuals <= self.tol
        try:
            with progress(self.verbose, "KernelRidge, cholesky", 1.0) as tick:
                direct = self._part(~iterated).by_cholesky(tick)
        except np.linalg.LinAlgError as error:
            room = EIGEN_MATRICES * self.gram.nbytes <= self.gram.memory
            if np.any(self.ridge) or self.trend is not None or self.loo or self.solver != "auto" or not room:
                raise
            return self.least_squares(), Choice("least squares", f"alpha is 0, and {error}")
        if found is not None and iterated.any():
            direct = self._merged(direct, found, iterated)
        return self._as_predicted(direct, points), choice

    def _part(self, columns: NDArray[np.bool_]) -> RidgeProblem:
        """The same problem for some of the targets."""
        if columns.all():
            return self
        start = None if self.start is None else self.start[:, columns]
        return replace(self, Y=self.Y[:, columns], ridge=np.asarray(self.ridge)[columns], start=start)

    def _merged(self, direct: Solution, found: Solution, iterated: NDArray[np.bool_]) -> Solution:
        """Combine the targets on which iterations converged with those solved by factorisation."""
        x, done = np.empty(self.Y.shape), found.residuals <= self.tol
        x[:, iterated], x[:, ~iterated] = found.x[:, done], direct.x
        worst = max(float(found.residuals[done].max()), direct.certificate.violation)
        return Solution(x, replace(direct.certificate, violation=worst), ridge=self.ridge)

    def _as_predicted(self, found: Solution, points: Any) -> Solution:
        """The solution with the coefficients of the trend, certified for the predicted function."""
        found = self.with_trend(found)
        beside = None if self.trend is None or found.trend is None else self.trend @ found.trend
        D = found.ridge / self.weights[:, None]
        given: Any = (found.certificate, found.x, self.gram, points, self.Y, D, self.tol)
        return replace(found, certificate=predicted_residual(*given, scale=self.scale, beside=beside))

    def with_trend(self, found: Solution) -> Solution:
        """Return the solution with the coefficients of the trend."""
        if self.basis is None or found.trend is not None:
            return found
        return replace(found, trend=self.basis.coefficients(self.scale * (self.Y - self.gram @ found.x)))

    def _by_pcg(self, ridge: Array, max_iter: int) -> Solution:
        """Solve by conjugate gradients; a trend is eliminated by solving for its columns at every distinct ridge."""
        if self.basis is None:
            return self._systems(self.Y, ridge, max_iter, self.start)
        x, trend, T = np.empty(self.Y.shape), np.empty((self.basis.R.shape[0], self.Y.shape[1])), self.trend
        done = []
        for value in np.unique(ridge):
            own = ridge == value
            both = np.hstack([self.Y[:, own], np.asarray(T)])
            found = self._systems(both, np.full(both.shape[1], value), max_iter, None)
            Z, V = np.split(found.x, [np.count_nonzero(own)], axis=1)
            # V is zero if rounding allows no step; the least squares are then those of no trend.
            trend[:, own] = np.linalg.lstsq(np.asarray(T).T @ V, np.asarray(T).T @ Z)[0]
            x[:, own] = Z - V @ trend[:, own]
            done.append(found.certificate)
        return Solution(x, max(done, key=lambda each: each.violation), ridge=ridge, trend=trend)

    def _systems(self, Y: Array, ridge: Array, max_iter: int, start: Array | None) -> Solution:
        options: Any = {"weights": self.weights, "start": start, "tol": self.tol, "max_iter": max_iter}
        with progress(self.verbose, "KernelRidge, pcg") as tick:
            options |= {"random_state": self.random_state, "clock": self.clock, "tick": tick}
            return pcg.solve(self.gram, Y, ridge, **options)

    def by_cholesky(self, tick: Tick = silent) -> Solution:
        """Factorise K once for every distinct ridge."""
        ridge, scale = np.asarray(self.ridge), self.scale
        factor: Any = None
        on_card = self.gram.card is not None
        B = scale * self.Y if self.basis is None else self.basis.residual(scale * self.Y)
        tau, A, diagonal = 0.0, np.empty((0, 0)), np.empty(0)
        if not on_card:
            A = self._matrix()
            tau = 0.0 if self.basis is None else self.basis.put_into(A)
            diagonal = np.diagonal(A).copy()
        x, errors = np.empty(self.Y.shape), np.empty(self.Y.shape) if self.loo else None
        certificates = []
        for value in np.unique(ridge):
            columns = ridge == value
            try:
                if on_card:
                    factor = self._on_card(factor, float(value))
                else:
                    A = A if factor is None else factor.give_back()
                    np.fill_diagonal(A, diagonal + value)
                    factor = cholesky(A, jitter_limit=0.0, clock=self.clock, tick=tick)
            except NotPositiveDefiniteError as error:
                raise self._singular(value) from error
            solution = solve_with(factor, B[:, columns], self.tol, self.clock)
            # Invertible if the smallest pivot is above rounding.
            rounding = factor.n * np.finfo(np.float64).eps * factor.diagonal.max()
            if value == 0 and not (solution.certificate.converged and factor.smallest_pivot() > rounding):
                raise self._singular(0.0)
            x[:, columns] = scale * solution.x
            if errors is not None:
                own, held = factor.inverse_diagonal(), factor.tau if on_card else tau + value
                own = own if self.basis is None else own - self.basis.leverages() / held
                errors[:, columns] = solution.x / own[:, None] / scale
            certificates.append(solution.certificate)
        worst = max(certificates, key=lambda each: each.violation)
        return Solution(x, worst, ridge=ridge, loo=errors)

    def _on_card(self, last: Any, ridge: float) -> Any:
        """The factor of S K S + ridge · I on a GPU, in the memory of the previous one."""
        assert self.gram.card is not None
        if last is not None:
            last.release()
        given = (self.gram.left, self.gram.right, self.scale, ridge)
        if self.basis is None and not self.loo and ridge > 0:
            factor = self.gram.card.solver(*given)
        else:
            factor = self.gram.card.factor(*given, None if self.basis is None else self.basis.Q)
        if factor.failed:
            raise NotPositiveDefiniteError(factor.failed - 1, 0.0)
        return factor

    def _eigenbasis(self, A: Array) -> Eigenbasis:
        """The eigenvectors of a matrix, on the GPU where K is made there: A (n, n)."""
        card = self.gram.card
        return Eigenbasis.of_matrix(A) if card is None else Eigenbasis.of_matrix(A, lambda M: card.eigh(M, len(M)))

    def _matrix(self) -> Array:
        """S K S."""
        A = self.gram.dense().astype(np.float64, copy=False)
        if np.any(self.weights != 1.0):
            A *= self.scale
            A *= self.scale.T
        return A

    def _singular(self, ridge: float) -> np.linalg.LinAlgError:
        advice = "remove them, or add to the diagonal (nugget= or alpha=)"
        if ridge > 0:
            advice = f"{ridge:.1e} on the diagonal is too little, add more"
        return np.linalg.LinAlgError(f"{diagnosis(self.gram, self.names)}; {advice}.")

    def least_squares(self) -> Solution:
        """Minimum-norm least-squares solution of ``S K S a = S y``, certified by the normal equations."""
        A, B = self._matrix(), self.scale * self.Y
        basis = self._eigenbasis(A)
        kept = basis.values > 10.0 * A.shape[0] * np.finfo(np.float64).eps * basis.values.max(initial=0.0)
        a = Eigenbasis(basis.vectors[:, kept], basis.values[kept]).dual(B, 0.0)
        R = B - A @ a
        certificate = residual_certificate(A @ R, A @ B, self.tol, self.clock, "set alpha > 0")
        missed = (
            f"of the normal equations; the targets are missed by {relative_residuals(R, B).max():.1e} of their size"
        )
        certificate = replace(certificate, message="; ".join(filter(None, (certificate.message, missed))))
        return Solution(self.scale * a, certificate, ridge=np.asarray(self.ridge))

    def by_eigenvectors(self) -> Solution:
        """Decompose S K S once, and choose for every target the ridge with the least leave-one-out error."""
        if (needed := EIGEN_MATRICES * self.gram.nbytes) > self.gram.memory:
            raise MemoryError(
                f"alpha='loo' needs {readable(needed)} for the Gram matrix, its eigenvectors and their workspace, and "
                f"memory is {readable(self.gram.memory)}; raise memory= or use approximation=Nystroem(...)."
            )
        A, scale, B = self._matrix(), self.scale, self.scale * self.Y
        if self.basis is not None:
            self.basis.project(A, 2.0 * float(np.linalg.norm(A)))  # τ larger than all other eigenvalues
            B = self.basis.residual(B)
        basis, unit = self._eigenbasis(A), units(scale * self.Y)
        if self.basis is not None:  # the last eigenvectors span the trend, which is not penalised
            q = self.basis.R.shape[0]
            basis = replace(basis, values=np.append(basis.values[:-q], np.full(q, np.inf)))
        grid = default_grid(basis.values[np.isfinite(basis.values)]) if self.grid is None else self.grid
        path = basis.path(B / unit, grid) / self.weights.sum()
        ridge = grid[np.argmin(path, axis=0)]
        with np.errstate(over="ignore", under="ignore"):
            path = unit * (unit * path)
        a = basis.dual(B, ridge)
        R = B - (scale * (SymmetricGram(self.gram, 0, np.float64) @ (scale * a)) + ridge * a)
        R = R if self.basis is None else self.basis.residual(R)
        certificate = residual_certificate(R, B, self.tol, self.clock, "regularise more")
        return Solution(
            scale * a, certificate, ridge=ridge, loo=basis.residuals(B, ridge) / scale, grid=grid, path=path
        )


@dataclass(frozen=True, eq=False)
class Moments:
    """Sufficient statistics of least squares in features: sums over rows, which add up over blocks."""

    second: Array  # (m, m): ``FᵀWF``
    right: Array  # (m, k): ``FᵀWY``
    count: int  # Number of rows

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.second + other.second, self.right + other.right, self.count + other.count)

    def solve(self, ridge: Array, *, tol: float = 1e-8, clock: Clock | None = None) -> Solution:
        """Solve ``(FᵀWF + μI) w = FᵀWy``: ridge (k,)."""
        w = np.empty_like(self.right)
        for value in np.unique(ridge):
            columns = ridge == value
            A = self.second.copy()
            A[np.diag_indices_from(A)] += value
            w[:, columns] = solve(A, self.right[:, columns], tol=tol, jitter_limit=1e-12)[0].x
        R = self.right - self.second @ w - ridge * w
        advice = "regularise more, or take fewer features"
        return Solution(w, residual_certificate(R, self.right, tol, clock or Clock(), advice), ridge=ridge)
