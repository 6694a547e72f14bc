"""The posterior of a Gaussian process: its mean, its variance, and a bound on the variance where it is not exact.

Where the n x n factor of K + D is too large, the variance is that of a process which has seen only m combinations
Gᵀy of the data: ``k(x, x) - k(x, X) G (Gᵀ(K + D)G)⁻¹ Gᵀ k(X, x)``. Knowing less cannot make one surer, so it is never
below the exact variance, and it falls to it as m grows. With ``G = D⁻¹F``, F the factor of a Nyström approximation, the
combinations are those that Nyström's mean looks at. (The usual Nyström variance, ``k - φᵀφ + φᵀ(I + FᵀD⁻¹F)⁻¹φ``, has
no such order: it takes what F misses for noise that the other rows do not share, and can be too sure.)
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, qr, solve_triangular

from gramian.certificates import Certificate, predicted_residual
from gramian.gram import Gram, rpcholesky
from gramian.gram.prepared import PreparedColumns, kept
from gramian.kernels import Kernel
from gramian.kernels.points import to_numpy
from gramian.progress import Clock, Tick, silent
from gramian.resources import memory_budget, repeatable, spans
from gramian.solvers.gp.evidence import (
    JITTER_LIMIT,
    card_factor,
    contrasts,
    evidence_value,
    refined_card_factor,
    signal_and_noise,
)
from gramian.solvers.linear import pcg
from gramian.solvers.linear.cholesky import BLOCK, NotPositiveDefiniteError, cholesky, solve_with
from gramian.solvers.linear.diagnose import diagnosis
from gramian.solvers.linear.trend import TrendBasis, columns
from gramian.solvers.solution import Solution

Array = NDArray[np.float64]

RESIDUAL = 1e-6
"""The largest relative residual of the dual coefficients that counts as converged."""
CHUNK = 1024
"""New points whose variances are computed at a time."""
ROWS = 1024
"""Rows of a block of the triangular solve; Ctrl-C is checked between blocks."""
RANK = 1000
"""The number m of combinations for the variance without a factor."""


class Posterior:
    """A Gaussian process conditioned on rows and targets; subclasses apply the inverse of K + D."""

    jitter = 0.0
    """What was added to the diagonal of K + D."""
    singular = ""
    """Why K + D is singular to rounding, if it is: equal rows, and no noise."""
    evidence: float | None = None
    """log p(y | X), where it is known."""
    device: str | None = None
    """Where k(Z, X) is made."""

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        alpha: Array,
        memory: int | str | None,
        workers: int | None,
        certificate: Certificate,
    ) -> None:
        self.kernel, self.X, self.alpha = kernel, X, alpha
        self.memory, self.workers, self.certificate = memory, workers, certificate
        self.signal, _ = signal_and_noise(kernel)

    def under(self, memory: int | str | None, workers: int | None) -> Self:
        """Return the same posterior with another memory budget."""
        if (self.memory, self.workers) == (memory, workers):
            return self
        other = object.__new__(type(self))  # a copy would move a factor from its GPU
        vars(other).update(vars(self), memory=memory, workers=workers)
        return other

    def here(self) -> Posterior:
        """Return the same posterior without a device."""
        other = copy.copy(self)
        vars(other).pop("device", None)
        return other

    def gram(self, Z: Any) -> Gram:
        """Return k(Z, X) as an operator: Z (m, d)."""
        budget = memory_budget(self.memory)
        return Gram(self.signal, Z, self.X, memory=budget // 2, n_jobs=self.workers, device=self.device)

    def few(self, Z: Any) -> Array | None:
        """Return k(Z, X) at once for a few rows of numbers: Z (m, d) → (m, n)."""
        return None if self.device else self._columns.tile(Z)

    @property
    def _columns(self) -> PreparedColumns:
        return kept(self, PreparedColumns, self.signal, self.X, self.memory, self.workers)

    def prior(self, Z: Any, copies: int = 4) -> tuple[Array, Iterator[tuple[slice, Any]]]:
        """Return k(z, z), and an iterator over strips of k(Z, X), ``copies`` of which fit the budget: (m,)."""
        few = None if self.device else self._columns.tile_and_diagonal(Z)
        if few is None:
            return np.asarray(self.kernel.diag(Z), dtype=np.float64).copy(), self._strips(Z, copies)
        K, diagonal = few
        return diagonal + signal_and_noise(self.kernel)[1], iter([(slice(0, K.shape[0]), K)])

    def _strips(self, Z: Any, copies: int) -> Iterator[tuple[slice, Array]]:
        gram = self.gram(Z)
        height = max(min(CHUNK, memory_budget(self.memory) // (copies * 8 * gram.shape[1])), 1)
        for rows in spans(gram.shape[0], height):
            yield rows, gram.rows(rows)

    def mean(self, Z: Any) -> Array:
        """Return k(Z, X) α, by tiles: Z (m, d) → (m, t)."""
        K: Any = self.few(Z)
        return np.asarray((self.gram(Z) if K is None else K) @ self.alpha)

    def variance(self, Z: Any) -> Array:
        """Return the posterior variance, by chunks; never negative: Z (m, d) → (m,)."""
        variance, strips = self.prior(Z)
        for rows, K in strips:
            V = self.whiten(K)
            variance[rows] -= np.einsum("ij,ij->j", V, V)
        return np.maximum(variance, 0.0, out=variance)

    def covariance(self, Z: Any) -> Array:
        """Return the joint posterior covariance: Z (m, d) → (m, m)."""
        covariance = np.asarray(self.kernel(Z), dtype=np.float64) - self._explained(Z)
        np.fill_diagonal(covariance, np.maximum(np.diagonal(covariance), 0.0))
        return covariance

    def _explained(self, Z: Any) -> Array:
        """What the data explain of the prior covariance: Z (m, d) → (m, m)."""
        V = self.whiten(self.gram(Z).dense())
        return V.T @ V

    def whiten(self, K: Array) -> Array:
        """Return V with ``VᵀV = K (K_XX + D)⁻¹ Kᵀ``, or something smaller: K (m, n) → (r, m)."""
        raise NotImplementedError(f"{type(self).__name__} must define whiten(K).")


class ExactPosterior(Posterior):
    """The posterior by the Cholesky factor L of K + D."""

    def __init__(self, L: Array, evidence: float, jitter: float, singular: str, *given: Any) -> None:
        super().__init__(*given)
        self.L, self.evidence, self.jitter, self.singular = L, evidence, jitter, singular

    def whiten(self, K: Array) -> Array:
        V = K.T
        for rows in spans(self.L.shape[0], ROWS):
            block = V[rows] - self.L[rows, : rows.start] @ V[: rows.start] if rows.start else V[rows]
            V[rows] = blas.dtrsm(1.0, self.L[rows, rows].T, block, lower=0, trans_a=1)
        return V


class TrendPosterior(ExactPosterior):
    """Universal kriging: the posterior beside functions with free coefficients, by the factor of the projected K + D.

    A row x has the same trend as the combination Q c of the training rows, with ``c = R⁻ᵀ t(x)``; the variance is that
    of the difference, which does not depend on the trend, less what the data explain of it.
    """

    def __init__(self, basis: TrendBasis, trend: Any, beta: Any, U: Any, *given: Any) -> None:
        super().__init__(*given)
        self.Q, self.R, self.trend, self.beta, self.U = basis.Q, basis.R, trend, beta, U

    def mean(self, Z: Any) -> Array:
        """Return k(Z, X) α + T(Z) β: Z (m, d) → (m, t)."""
        return super().mean(Z) + columns(self.trend, Z) @ self.beta

    def _differences(self, Z: Any, K: Array) -> tuple[Array, Array]:
        """c (q, m), and V (n, m) with VᵀV what the data explain: K (m, n)."""
        c = solve_triangular(self.R, columns(self.trend, Z).T, trans="T")
        rho = K.T - self.U @ c
        return c, self.whiten((rho - self.Q @ (self.Q.T @ rho)).T)

    def variance(self, Z: Any) -> Array:
        variance, strips = self.prior(Z, copies=6)
        core = self.Q.T @ self.U
        for rows, K in strips:
            c, V = self._differences(Z[rows], K)
            between = np.einsum("ij,ij->j", c, core @ c) - 2.0 * np.einsum("ij,ij->j", c, (K @ self.Q).T)
            variance[rows] += between - np.einsum("ij,ij->j", V, V)
        return np.maximum(variance, 0.0, out=variance)

    def _explained(self, Z: Any) -> Array:
        K = self.gram(Z).dense()
        c, V = self._differences(Z, K)
        cross = (K @ self.Q) @ c
        return np.asarray(cross + cross.T - c.T @ (self.Q.T @ self.U) @ c + V.T @ V)


class OnCard(Posterior):
    """The common part of posteriors whose factor is on a GPU; copies, pickles and files hold it in main memory."""

    factor: Any

    def __reduce__(self) -> Any:
        return copy.copy, (self.here(),)

    def whiten(self, K: Array) -> Array:
        return np.asarray(self.factor.whiten(K))

    def _given(self) -> tuple[Any, ...]:
        given = (self.kernel, self.X, self.alpha, self.memory, self.workers, self.certificate)
        return to_numpy(self.factor.lower), float(self.evidence or 0.0), self.jitter, self.singular, *given


class CardPosterior(OnCard):
    """The posterior by the Cholesky factor of K + D on a GPU.

    Where the factor is in single precision, the evidence is not known. Solutions are refined to double precision, for
    the variance less strictly, since their error counts squared there.
    """

    def __init__(
        self, factor: Any, device: str | None, evidence: float | None, jitter: float, singular: str, *given: Any
    ) -> None:
        super().__init__(*given)
        self.factor, self.device = factor, device
        self.evidence, self.jitter, self.singular = evidence, jitter, singular

    def here(self) -> ExactPosterior:
        if self.evidence is None:
            raise MemoryError(
                f"the factor of {self.factor.n:,} rows is kept in single precision on the GPU, where float64 does not "
                "fit; such a model cannot be saved or pickled: use solver='pcg', or fewer rows."
            )
        return ExactPosterior(*self._given())

    def variance(self, Z: Any) -> Array:
        explained = self.factor.explained(self.gram(Z))
        return np.maximum(np.asarray(self.kernel.diag(Z), dtype=np.float64) - explained, 0.0)

    def _explained(self, Z: Any) -> Array:
        return np.asarray(self.factor.explained_jointly(self.gram(Z).dense()))


class CardTrendPosterior(OnCard, TrendPosterior):
    """Universal kriging by a factor on a GPU."""

    def __init__(self, factor: Any, device: str | None, basis: TrendBasis, trend: Any, beta: Any, *given: Any) -> None:
        # The factor itself takes the place of the matrix L.
        super().__init__(basis, trend, beta, to_numpy(factor.seen), factor, *given)
        self.factor, self.device = factor, device

    def here(self) -> TrendPosterior:
        return TrendPosterior(TrendBasis(self.Q, self.R), self.trend, self.beta, self.U, *self._given())


def exact_posterior(
    kernel: Kernel,
    X: Any,
    Y: Array,
    noise: float | Array,
    *,
    memory: int,
    workers: int,
    device: str | None = None,
    clock: Clock | None = None,
    tick: Tick = silent,
    trend: Any = None,
) -> ExactPosterior | OnCard:
    """Condition on all rows, in one n x n array, with or without a trend: X (n, d), Y (n, t), noise (n,)."""
    signal, white = signal_and_noise(kernel)
    gram, D = Gram(signal, X, memory=memory, n_jobs=workers, device=device), white + noise
    gram.check_symmetric()
    basis = None if trend is None else TrendBasis.of(columns(trend, X))
    targets = Y if basis is None else basis.residual(Y)
    clock = Clock() if clock is None else Clock(start=clock.start)
    try:
        factor, tau, U = _factorised(gram, D, basis, clock, tick)
    except NotPositiveDefiniteError as error:
        raise _not_definite(gram) from error
    solution = solve_with(factor, targets, RESIDUAL, clock)
    added = np.asarray(D + (0.0 if tau is None else factor.jitter), dtype=np.float64).reshape(-1, 1)
    beta, beside = None, None
    if basis is not None:

        def residual(alpha: Array) -> Array:
            return np.asarray(Y - gram @ alpha - added * alpha)

        solution = _refined(solution, factor, basis, residual)
        beta = basis.coefficients(residual(solution.x))
        beside = columns(trend, X) @ beta
    said = predicted_residual(solution.certificate, solution.x, gram, X, Y, added, RESIDUAL, beside=beside)
    given: Any = (kernel, X, solution.x, gram.memory, gram.workers, said)
    if tau is None:
        return CardPosterior(factor, gram.engine.name, None, 0.0, "", *given)
    evidence = evidence_value(factor, targets, solution.x) + contrasts(basis, tau, Y.shape[1])
    singular = _singular(gram, factor)
    if singular and not np.any(D > 0):
        raise _not_definite(gram)
    given = (evidence, factor.jitter, singular, *given)
    if gram.card is not None:
        if basis is None:
            return CardPosterior(factor, gram.engine.name, *given)
        return CardTrendPosterior(factor, gram.engine.name, basis, trend, beta, *given)
    L = factor.packed
    for rows in spans(factor.n, BLOCK):
        L[rows, rows.stop :] = 0.0
        L[rows, rows] = np.tril(L[rows, rows])
    return ExactPosterior(L, *given) if basis is None else TrendPosterior(basis, trend, beta, U, L, *given)


def _factorised(gram: Gram, D: Any, basis: Any, clock: Clock, tick: Tick) -> tuple[Any, float | None, Any]:
    """The factor of K + D, any trend projected out; τ, None if the factor is in single precision; and (K + D) Q."""
    if gram.card is not None:
        if basis is None and np.all(D > 0) and not gram.card.holds(gram.shape[0]):
            return refined_card_factor(gram, D), None, None
        factor = card_factor(gram, D, basis)
        return factor, factor.tau, None
    A = gram.dense(out=np.empty(gram.shape))
    A[np.diag_indices_from(A)] += D
    U = None if basis is None else A @ basis.Q
    tau = 0.0 if basis is None else basis.put_into(A)
    found = cholesky(A, jitter_limit=JITTER_LIMIT, clock=clock, tick=tick)
    return found, tau + found.jitter, U


def _not_definite(gram: Gram) -> np.linalg.LinAlgError:
    """The error for a K + D that has no Cholesky factor."""
    return np.linalg.LinAlgError(
        f"{diagnosis(gram)}; use another kernel (check it with gramian.kernels.is_kernel), or raise alpha."
    )


def _refined(solution: Solution, factor: Any, basis: TrendBasis, residual: Callable[[Array], Array]) -> Solution:
    """The solution with one step of refinement if that helps: the projection of K + D loses digits."""
    R = basis.residual(residual(solution.x))
    better = solution.x + factor.solve(R)
    lower = np.linalg.norm(basis.residual(residual(better)), axis=0) < np.linalg.norm(R, axis=0)
    return replace(solution, x=np.where(lower, better, solution.x))


def _singular(gram: Gram, factor: Any) -> str:
    """Why the factored matrix is singular to rounding, if it is."""
    rounding = 10.0 * factor.n * np.finfo(np.float64).eps * float(factor.diagonal.mean())
    return diagnosis(gram) if factor.jitter > 0 or factor.smallest_pivot() <= rounding else ""


class ProjectedPosterior(Posterior):
    """The mean on all rows; the variance given m combinations of the data."""

    def __init__(self, basis: Array, core: Array, *given: Any) -> None:
        super().__init__(*given)
        self.basis, self.core = basis, core

    def whiten(self, K: Array) -> Array:
        return np.asarray(solve_triangular(self.core, (K @ self.basis).T, lower=True, check_finite=False))


def projected_posterior(
    kernel: Kernel,
    X: Any,
    Y: Array,
    noise: float | Array,
    *,
    memory: int,
    workers: int,
    device: str | None = None,
    rank: int = RANK,
    tol: float = RESIDUAL,
    max_iter: int = 1000,
    random_state: Any = None,
    clock: Clock | None = None,
    tick: Tick = silent,
) -> ProjectedPosterior:
    """Condition on all rows by conjugate gradients, and on m combinations of them for the variance."""
    signal, white = signal_and_noise(kernel)
    D = np.broadcast_to(np.asarray(white + noise, dtype=np.float64), Y.shape[:1])
    if not np.all(D > 0):
        raise ValueError("solver='pcg' needs noise on every row: alpha > 0, a White kernel, or noise='learn'.")
    gram = Gram(signal, X, memory=memory, n_jobs=workers, device=device)
    gram.check_symmetric()
    ridge = float(D.mean())
    options: Any = {"tol": tol, "max_iter": max_iter, "random_state": random_state, "clock": clock, "tick": tick}
    # Rows of little noise weigh most in the solver's own residual; the certificate's weighs all rows alike.
    solution = pcg.solve(gram, Y, ridge, weights=ridge / D, weigh_residuals=not np.ptp(D), **options)
    said = predicted_residual(solution.certificate, solution.x, gram, X, Y, D[:, None], tol)
    rank = max(min(rank, memory // (8 * 8 * D.size), D.size), 1)
    spanning = rpcholesky(gram, rank, repeatable(random_state)).factor / D[:, None]
    # An orthonormal G that spans D⁻¹F, and the factor of Gᵀ(K + D)G.
    basis = np.asarray(qr(spanning, mode="economic", overwrite_a=True, check_finite=False)[0], dtype=np.float64)
    H = basis.T @ (gram @ basis) + basis.T @ (D[:, None] * basis)
    core = cholesky(np.ascontiguousarray(0.5 * (H + H.T))).lower()
    found = ProjectedPosterior(basis, core, kernel, X, solution.x, memory, workers, said)
    found.device = gram.engine.name
    return found
