"""The largest eigenvalues of a symmetric operator known by its products, with the residuals that certify them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

from gramian.certificates import Certificate, certify
from gramian.progress import Clock, Tick, silent
from gramian.resources import one_blas_thread

__all__ = ["Centred", "Eigenpairs", "Rounding", "arpack", "dense", "lanczos", "randomized"]

Array = NDArray[np.float64]

DIGITS = 100.0
"""An eigenvalue that is fewer times its residual has no two digits, and rounding is no excuse."""


@dataclass(frozen=True)
class Rounding:
    """What rounding does to a spectrum."""

    offset: float = 0.0  # What centring took from the norm of the matrix
    floor: float = 1e-12  # Eigenvalues below this share of the largest are reported as zero
    unit: float = 64.0 * float(np.finfo(np.float64).eps)  # What products leave of a residual

    def _of(self, values: Array) -> float:
        """Return what rounding may leave of a residual."""
        return self.unit * (float(np.abs(values).max(initial=0.0)) + self.offset)

    def zero(self, values: Array, n: int) -> float:
        """Return the size up to which an eigenvalue is zero, unless all are; more where all n are asked for."""
        largest, rounding = float(np.abs(values).max(initial=0.0)), self._of(values)
        lost = largest <= DIGITS * rounding
        return max(self.floor * largest, 0.0 if lost else rounding * (DIGITS if values.size == n else 1.0))

    def _worst(self, residuals: Array, values: Array, n: int) -> float:
        """Return the worst residual, relative to its own eigenvalue; to the largest where it is mere rounding."""
        size, largest, rounding = np.abs(values), float(np.abs(values).max(initial=0.0)), self._of(values)
        excused = (residuals <= rounding) & ((size <= self.zero(values, n)) | (DIGITS * residuals <= size))
        scale = np.where(excused, largest, np.maximum(size, self.floor * largest))
        return float(np.max(residuals / np.where(scale > 0, scale, 1.0), initial=0.0))


DOUBLE = Rounding()
"""Of a matrix that was not centred, in double precision."""


class Operator(Protocol):
    """A symmetric matrix that can be multiplied by a block of vectors."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""

    def __matmul__(self, V: Any) -> Any: ...


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """Eigenvalues from the largest down, and their eigenvectors."""

    values: Array  # (r,): Eigenvalues
    vectors: Array  # (n, r): Orthonormal eigenvectors
    smallest: float  # The smallest value seen on the way: an upper bound on the smallest eigenvalue
    certificate: Certificate  # The worst relative residual ``‖A v - λ v‖ / λ``; over λ₁ where it is rounding
    exhausted: bool = False  # Whether iterations or time ran out


@dataclass(frozen=True, eq=False)
class Centred:
    """The operator ``(I - 11ᵀ/n) K (I - 11ᵀ/n)``: K after the mean of the features is taken away."""

    K: Operator  # A square one

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return self.K.shape

    def __matmul__(self, V: Any) -> Array:
        V = np.asarray(V, dtype=np.float64)
        product = np.asarray(self.K @ (V - V.mean(axis=0)), dtype=np.float64)
        return product - product.mean(axis=0)


def _certified(
    A: Operator,
    values: Array,
    vectors: Array,
    smallest: float,
    tol: float,
    *,
    iterations: int,
    clock: Clock,
    advice: str,
    rounding: Rounding,
) -> Eigenpairs:
    """Measure the residuals that count: those of the vectors returned, by one more product."""
    residuals = np.linalg.norm(np.asarray(A @ vectors) - vectors * values, axis=0)
    worst = rounding._worst(residuals, values, A.shape[0])
    certificate = certify("eigen-residual", worst, tol, advice, seconds=clock.seconds, iterations=iterations)
    return Eigenpairs(values, vectors, smallest, certificate)


def dense(
    A: Operator,
    matrix: Array,
    rank: int,
    *,
    tol: float = 1e-8,
    rounding: Rounding = DOUBLE,
    clock: Clock | None = None,
) -> Eigenpairs:
    """Decompose the matrix itself by LAPACK: matrix (n, n)."""
    clock = clock or Clock()
    n = matrix.shape[0]
    # Of a range, LAPACK's fast driver finds none where all eigenvalues coincide; then it is asked for all.
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=(n - rank, n - 1), check_finite=False)
    if values.size < rank:
        values, vectors = scipy.linalg.eigh(matrix, check_finite=False)
        values, vectors = values[n - rank :], vectors[:, n - rank :]
    advice = "the matrix is not symmetric, not finite, or so large before centring that only rounding is left of it."
    how: Any = {"iterations": 1, "clock": clock, "advice": advice, "rounding": rounding}
    return _certified(A, values[::-1], vectors[:, ::-1], float(values[0]), tol, **how)


def lanczos(
    A: Operator,
    rank: int,
    *,
    tol: float = 1e-5,
    max_iter: int | None = None,
    block: int | None = None,
    start: Array | None = None,
    exact: Operator | None = None,
    unit: float | None = None,
    rounding: Rounding = DOUBLE,
    random_state: np.random.RandomState | None = None,
    clock: Clock | None = None,
    tick: Tick = silent,
) -> Eigenpairs:
    """Find the largest eigenvalues by block Lanczos with full reorthogonalisation and thick restarts."""
    clock = clock or Clock()
    rng = random_state or np.random.RandomState(0)
    n, limit = A.shape[0], 300 if max_iter is None else max_iter
    coarse = rounding if unit is None else replace(rounding, unit=unit)
    b = int(np.clip(rank // 3, 4, 32)) if block is None else block
    first = rng.standard_normal((n, b)) if start is None else start
    b = first.shape[1]
    basis = _Basis(min(max(4 * rank, rank + 12 * b), n - b), first, rng)
    steps, worst, stop = 0, np.inf, ""
    values, S = np.zeros(0), np.zeros((0, 0))
    with one_blas_thread():  # a pool of BLAS threads would go on spinning while our own threads multiply
        while worst > 0.5 * tol:
            if basis.size >= rank and (clock.expired or steps >= limit):
                stop = "max_time" if clock.expired else f"max_iter={limit} products"
                break
            if basis.size + b > basis.room:
                basis.restart(values, S, rank + (basis.room - rank) // 3)
            tail = basis.extend(A)
            steps += 1
            if basis.size >= rank:
                values, S = basis.ritz()
                residuals = np.linalg.norm(tail @ S[-tail.shape[1] :, :rank], axis=0)
                residuals[residuals <= 0.5 * coarse._of(values)] = 0.0  # no more work on what rounding leaves
                worst = rounding._worst(residuals, values[:rank], n)
            tick(steps, residual=worst)
    vectors = basis.vectors @ S[:, :rank]
    advice = f"stopped by {stop}; allow more, or ask for fewer components." if stop else "loosen tol, or use 'dense'."
    judge = A if exact is None else exact
    how: Any = {"iterations": steps, "clock": clock, "advice": advice, "rounding": rounding}
    found = _certified(judge, values[:rank], vectors, float(values[-1]), tol, **how)
    return replace(found, exhausted=bool(stop))


class _Basis:
    """An orthonormal basis Q, the matrix H = QᵀAQ, and the block that comes next.

    ``A Q = Q H + N Bᵀ`` with the next block N, where B is zero except for the last rows.
    """

    def __init__(self, room: int, first: Array, rng: np.random.RandomState) -> None:
        self._Q = np.zeros((first.shape[0], room), order="F")
        self._H = np.zeros((room, room))
        self._rng = rng
        self.room, self.size = room, 0
        self._next = np.linalg.qr(first)[0]

    @property
    def vectors(self) -> Array:
        return self._Q[:, : self.size]

    def extend(self, A: Operator) -> Array:
        """Take the next block in; return B of the last rows, transposed."""
        start, b = self.size, self._next.shape[1]
        self.size += b
        self._Q[:, start : self.size] = self._next
        W = np.asarray(A @ self._next, dtype=np.float64)
        Q = self.vectors
        coefficients = Q.T @ W
        W -= Q @ coefficients
        H = self._H[: self.size, start : self.size]
        H[:] = coefficients
        self._H[start : self.size, : self.size] = H.T
        block = self._H[start : self.size, start : self.size]
        block[:] = (block + block.T) / 2.0
        self._next, R = self._orthonormal(W, float(np.abs(coefficients).max(initial=0.0)))
        return R

    def _orthonormal(self, W: Array, size: float) -> tuple[Array, Array]:
        """Factorise W = N R with N orthonormal and orthogonal to the basis; where W lacks rank, N is random."""
        factors: Any = scipy.linalg.qr(W, mode="economic", pivoting=True, check_finite=False)
        N, R, order = factors
        lacking = np.abs(np.diagonal(R)) <= 1e-14 * max(size, np.finfo(float).tiny)
        R[lacking] = 0.0
        N[:, lacking] = self._rng.standard_normal((N.shape[0], int(lacking.sum())))
        Q = self.vectors
        for _ in range(2):
            N -= Q @ (Q.T @ N)
            N, T = np.linalg.qr(N)
            R = T @ R if not lacking.any() else _times_kept(T, R, lacking)
        back = np.empty_like(R)
        back[:, order] = R
        return N, back

    def ritz(self) -> tuple[Array, Array]:
        """Eigenvalues of H from the largest down, and its eigenvectors."""
        values, S = scipy.linalg.eigh(self._H[: self.size, : self.size], check_finite=False)
        return values[::-1], S[:, ::-1]

    def restart(self, values: Array, S: Array, keep: int) -> None:
        """Keep the best Ritz vectors; A times them stays within them and the next block."""
        keep = min(keep, self.size - 1)
        self._Q[:, :keep] = self.vectors @ S[:, :keep]
        self._H[:] = 0.0
        self._H[range(keep), range(keep)] = values[:keep]
        self.size = keep


def _times_kept(T: Array, R: Array, lacking: NDArray[np.bool_]) -> Array:
    """T R, where rows of R that belong to random directions stay zero."""
    product = T @ R
    product[lacking] = 0.0
    return product


def arpack(
    A: Operator,
    rank: int,
    *,
    tol: float = 0.0,
    max_iter: int | None = None,
    rounding: Rounding = DOUBLE,
    random_state: np.random.RandomState | None = None,
    clock: Clock | None = None,
) -> Eigenpairs:
    """Find the largest eigenvalues by ARPACK, one vector at a time."""
    clock = clock or Clock()
    rng = random_state or np.random.RandomState(0)
    products = 0

    def multiply(v: Array) -> Array:
        nonlocal products
        products += 1
        if clock.expired:
            raise TimeoutError(f"ARPACK did not converge within max_time={clock.max_time} s; use 'lanczos'.")
        return np.asarray(A @ v.reshape(-1, 1)).ravel()

    operator = LinearOperator(A.shape, matvec=multiply, dtype=np.float64)
    start = rng.uniform(-1, 1, A.shape[0])
    try:
        values, vectors = eigsh(operator, rank, which="LA", tol=tol, maxiter=max_iter, v0=start)
    except ArpackNoConvergence as error:
        raise np.linalg.LinAlgError(
            f"ARPACK found {len(error.eigenvalues)} of {rank} eigenvalues in max_iter={max_iter}; raise max_iter, "
            "loosen tol, or use 'lanczos'."
        ) from error
    except ArpackError as error:
        raise np.linalg.LinAlgError(
            f"{error} K is zero on these rows, or not finite; use 'dense' or 'lanczos'."
        ) from error
    order = np.argsort(values)[::-1]
    # ARPACK's criterion is relative to |λ| too, but is an estimate.
    return _certified(
        A,
        values[order],
        vectors[:, order],
        float(values.min()),
        max(10.0 * tol, 1e-8),
        iterations=products,
        clock=clock,
        advice="lower tol.",
        rounding=rounding,
    )


def randomized(
    A: Operator,
    rank: int,
    *,
    power: int,
    tol: float = 1e-2,
    oversamples: int = 10,
    rounding: Rounding = DOUBLE,
    random_state: np.random.RandomState | None = None,
    clock: Clock | None = None,
) -> Eigenpairs:
    """Find the largest eigenvalues by subspace iteration from a random block (Halko, Martinsson and Tropp, 2011)."""
    clock = clock or Clock()
    rng = random_state or np.random.RandomState(0)
    n = A.shape[0]
    Q = np.linalg.qr(rng.standard_normal((n, min(rank + oversamples, n))))[0]
    for _ in range(power):
        Q = np.linalg.qr(np.asarray(A @ Q))[0]
    H = Q.T @ np.asarray(A @ Q)
    values, S = scipy.linalg.eigh((H + H.T) / 2.0)
    values, S = values[::-1], S[:, ::-1]
    advice = "raise iterated_power, or use 'lanczos'."
    return _certified(
        A,
        values[:rank],
        Q @ S[:, :rank],
        float(values[-1]),
        tol,
        iterations=power + 1,
        clock=clock,
        advice=advice,
        rounding=rounding,
    )
