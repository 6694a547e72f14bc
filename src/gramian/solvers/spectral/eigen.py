"""The largest eigenvalues of a symmetric operator given by its products, with the residuals that certify them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from gramian.certificates import Certificate, certify
from gramian.kernels.points import asarray, is_foreign, namespace, to_numpy
from gramian.progress import Clock, Tick, silent
from gramian.resources import answering, one_blas_thread

Array = NDArray[np.float64]
Operator = Any
"""A symmetric matrix or operator, with a shape and a product with blocks of vectors."""

TOLERANCE = {"dense": 1e-8, "lanczos": 1e-5, "randomized": 1e-2}
"""Tolerance of each solver for ``tol=0``; ARPACK iterates to machine precision."""
EPS = float(np.finfo(np.float64).eps)
PROBE = 30
"""Lanczos steps in the search for a negative eigenvalue."""
OVERSAMPLES = 10
"""Vectors that subspace iteration uses in addition to those requested."""
DIGITS = 100.0
"""Ratio of an eigenvalue to its residual below which it has fewer than two correct digits."""


@dataclass(frozen=True)
class Rounding:
    """Size of rounding errors in a spectrum."""

    offset: float = 0.0  # Norm of the part that centring removed
    floor: float = 1e-12  # Eigenvalues below this fraction of the largest are set to zero
    unit: float = 64.0 * EPS  # Rounding in a residual, relative to the norm of the matrix
    growth: float = 1.0  # How much larger rounding is in explicit features than in kernel values
    seen: bool = False  # Whether residuals show all of it: not that of features, of which the matrix is made

    def _of(self, values: Array) -> float:
        """Return the size of a residual that is due to rounding."""
        return self.unit * (float(np.abs(values).max(initial=0.0)) + self.offset)

    def zero(self, residuals: Array, values: Array, n: int) -> float:
        """Return the threshold below which an eigenvalue is numerically zero.

        If all n are computed, some are nothing but rounding, and those kept must have two digits.
        """
        largest, rounding = float(np.abs(values).max(initial=0.0)), self._of(values)
        nothing = (DIGITS * EPS * self.growth) ** 2 * self.offset  # squared rounding error of centred features
        if largest <= DIGITS * rounding:
            return max(self.floor * largest, nothing)
        if values.size == n:
            # The bound is hundreds of times the usual error, so residuals tell better which have two digits.
            actual = max(float(residuals.max(initial=0.0)), EPS * (largest + self.offset))
            rounding = DIGITS * (min(rounding, actual) if self.seen else rounding)
        return max(self.floor * largest, nothing, rounding)

    def _worst(self, residuals: Array, values: Array, n: int) -> float:
        """Return the worst residual relative to its own eigenvalue, or to the largest if it is only rounding."""
        size, largest, rounding = np.abs(values), float(np.abs(values).max(initial=0.0)), self._of(values)
        zero = self.zero(residuals, values, n)
        residuals = residuals + EPS * np.sqrt(self.offset * size)  # the rounding of features before they were centred
        excused = (residuals <= rounding) & ((size <= zero) | (DIGITS * residuals <= size))
        excused |= (size <= zero) & (residuals <= self.floor * largest)
        if values.max(initial=0.0) <= zero:  # none is kept: nothing to be relative to
            residuals = np.where(excused | (residuals <= rounding), 0.0, residuals)
        scale = np.where(excused, largest, np.maximum(size, self.floor * largest))
        # If all eigenvalues found are zero and the matrix is not, the residual is infinitely large beside them.
        relative = np.where(residuals > 0, np.inf, 0.0)
        return float(np.max(np.divide(residuals, scale, out=relative, where=scale > 0), initial=0.0))


DOUBLE = Rounding()
"""Rounding in double precision for a matrix that was not centred."""


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """Eigenvalues in descending order, and their eigenvectors; for a Gram matrix, also what projections need."""

    values: Array  # (r,): Eigenvalues
    vectors: Array  # (n, r): Orthonormal eigenvectors
    smallest: float  # The smallest Ritz value: an upper bound on the smallest eigenvalue
    certificate: Certificate  # Worst ``‖A v - λ v‖ / λ``; relative to λ₁ if it is only rounding
    zero: float = 0.0  # Eigenvalues up to this are numerically zero
    exhausted: bool = False  # Whether iterations or time ran out
    least: float = 0.0  # The smallest eigenvalue found, before negative ones were set to zero
    trace: float = 0.0  # The sum of all eigenvalues
    means: Any = None  # Means of the columns of K, (n,), or of the features, (m,); zero if not centred
    directions: Array | None = None  # (m, r): Principal directions in the features, if there is an explicit map

    @property
    def cleaned(self) -> Array:
        """The eigenvalues, with negative and numerically zero ones set to zero."""
        return np.where(self.values > self.zero, self.values, 0.0)


@dataclass(frozen=True, eq=False)
class CentredOperator:
    """The operator ``(I - 11ᵀ/n) K (I - 11ᵀ/n)``: K of the centred features."""

    K: Operator  # Square

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return self.K.shape

    def _place(self, V: Array) -> Any:
        """Return vectors on the device that multiplies them."""
        return _placed(self.K, V)

    def __matmul__(self, V: Any) -> Any:
        V = V if is_foreign(V) else np.asarray(V, dtype=np.float64)
        product = self.K @ (V - V.mean(axis=0))
        product = product if is_foreign(product) else np.asarray(product, dtype=np.float64)
        return product - product.mean(axis=0)


def _placed(A: Operator, V: Array) -> Any:
    """Move vectors to the device of an operator, a GPU or the CPU."""
    return A._place(V) if hasattr(A, "_place") else V


@dataclass(frozen=True, eq=False)
class Request:
    """Options of an eigensolver."""

    rank: int  # Number of eigenvalues
    tol: float = 0.0  # Relative residual; zero for the solver's default
    solver: str = "auto"  # ``"auto"``, ``"dense"``, ``"lanczos"``, ``"arpack"`` or ``"randomized"``
    center: bool = True  # Whether to centre in feature space
    max_iter: int | None = None  # Largest number of iterations
    power: int | None = None  # Products of ``"randomized"``; ``None`` is 7 for few values, else 4
    rounding: Rounding = DOUBLE
    random_state: np.random.RandomState = field(default_factory=lambda: np.random.RandomState(0))
    clock: Clock = field(default_factory=Clock)
    tick: Tick = silent

    def certified(
        self, A: Operator, values: Array, vectors: Array, smallest: float, tol: float, iterations: int, advice: str
    ) -> Eigenpairs:
        """Certify eigenpairs by their residuals, computed with one more product."""
        residuals = np.linalg.norm(np.asarray(A @ vectors) - vectors * values, axis=0)
        worst = self.rounding._worst(residuals, values, A.shape[0])
        seconds = self.clock.seconds
        certificate = certify("eigen-residual", worst, tol, advice, seconds=seconds, iterations=iterations)
        zero = self.rounding.zero(residuals, values, A.shape[0])
        return Eigenpairs(values, vectors, float(smallest), certificate, zero)


def lowest(A: Operator) -> float:
    """Return an upper bound on the smallest eigenvalue by a few Lanczos steps, which find the ends of a spectrum first.

    The start is fixed, so that no random numbers are taken from the caller's generator.
    """
    n = A.shape[0]
    Q = np.zeros((n, min(PROBE, n)))
    q = np.random.RandomState(0).standard_normal(n)
    for j in range(Q.shape[1]):
        for _ in range(2):
            q = q - Q[:, :j] @ (Q[:, :j].T @ q)
        size = float(np.linalg.norm(q))
        if size == 0.0:
            Q = Q[:, :j]
            break
        Q[:, j] = q / size
        q = np.asarray(A @ Q[:, j : j + 1])[:, 0]
    H = Q.T @ np.asarray(A @ Q)
    return float(scipy.linalg.eigvalsh((H + H.T) / 2.0)[0])


def lapack(matrix: Array, rank: int) -> tuple[Array, Array]:
    """Return the largest eigenvalues in ascending order, and their vectors, by LAPACK: matrix (n, n)."""
    first, n = matrix.shape[0] - rank, matrix.shape[0]
    # LAPACK's driver for a range of eigenvalues may find none if all coincide; then all are computed.
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=(first, n - 1), check_finite=False)
    if values.size < rank:
        values, vectors = scipy.linalg.eigh(matrix, check_finite=False)
        values, vectors = values[first:], vectors[:, first:]
    return values, vectors


def dense(
    A: Operator, matrix: Array, ask: Request, decompose: Callable[[Array, int], tuple[Array, Array]] = lapack
) -> Eigenpairs:
    """Decompose the matrix itself: matrix (n, n)."""
    first = matrix.shape[0] - ask.rank
    values, vectors = answering(lambda: decompose(matrix, ask.rank))
    advice = "the matrix is not symmetric, not finite, or so large before centring that only rounding is left of it."
    smallest = min(values[0], lowest(matrix)) if first else values[0]
    return ask.certified(A, values[::-1], vectors[:, ::-1], smallest, ask.tol or TOLERANCE["dense"], 1, advice)


def lanczos(
    A: Operator,
    ask: Request,
    *,
    block: int | None = None,
    start: Array | None = None,
    exact: Operator | None = None,
    unit: float | None = None,
) -> Eigenpairs:
    """Find the largest eigenvalues by block Lanczos with full reorthogonalisation and thick restarts.

    Products with ``A`` may have errors of ``unit`` times its norm if ``exact`` is given to certify the result.
    """
    n, rank, tol, rounding = A.shape[0], ask.rank, ask.tol or TOLERANCE["lanczos"], ask.rounding
    limit = 300 if ask.max_iter is None else ask.max_iter
    coarse = rounding if unit is None else replace(rounding, unit=unit)
    b = int(np.clip(rank // 3, 4, 32)) if block is None else block
    b = min(b, max((n - rank) // 3, 1))  # the basis has room for a few blocks
    first = ask.random_state.standard_normal((n, b)) if start is None else start
    b = first.shape[1]
    basis = _Basis(min(max(4 * rank, rank + 12 * b), n - b), _placed(A, first), ask.random_state)
    steps, worst, stop, smallest = 0, np.inf, "", np.inf
    values, S = np.zeros(0), np.zeros((0, 0))
    with one_blas_thread():  # a pool of BLAS threads would spin while our own threads work
        while worst > 0.5 * tol:
            if basis.size >= rank and (ask.clock.expired or steps >= limit):
                stop = "max_time" if ask.clock.expired else f"max_iter={limit} products"
                break
            if basis.size + b > basis.room:
                basis.restart(values, S, rank + (basis.room - rank) // 3)
            tail = basis.extend(A)
            steps += 1
            if basis.size >= rank:
                values, S = basis.ritz()
                smallest = min(smallest, values[-1])
                residuals = np.linalg.norm(tail @ S[-tail.shape[1] :, :rank], axis=0)
                residuals[residuals <= 0.5 * coarse._of(values)] = 0.0  # at the level of rounding: converged
                worst = rounding._worst(residuals, values[:rank], n)
            ask.tick(steps, residual=worst)
    vectors = to_numpy(basis.rotated(S[:, :rank]))
    advice = f"stopped by {stop}; allow more, or ask for fewer components." if stop else "loosen tol, or use 'dense'."
    judge = A if exact is None else exact
    found = ask.certified(judge, values[:rank], vectors, smallest, tol, steps, advice)
    return replace(found, exhausted=bool(stop))


class _Basis:
    """An orthonormal basis Q on the device of the operator, the matrix H = QᵀAQ on the CPU, and the next block N.

    ``A Q = Q H + N Bᵀ``, where only the last rows of B are nonzero.
    """

    def __init__(self, room: int, first: Any, rng: np.random.RandomState) -> None:
        self._xp = namespace(first)
        self._Q = self._xp.zeros((room, first.shape[0]), dtype=first.dtype, device=first.device).T  # column-major
        self._H = np.zeros((room, room))
        self._rng = rng
        self.room, self.size = room, 0
        self._next = self._xp.linalg.qr(first)[0]

    @property
    def vectors(self) -> Any:
        return self._Q[:, : self.size]

    def rotated(self, S: Array) -> Any:
        """Return Q S: S (size, k)."""
        return self.vectors @ asarray(S.copy(), self._Q)  # torch takes no negative strides

    def extend(self, A: Operator) -> Array:
        """Append the next block to the basis; return the nonzero rows of B, transposed."""
        start, b = self.size, self._next.shape[1]
        self.size += b
        self._Q[:, start : self.size] = self._next
        W = asarray(A @ self._next, self._Q)
        Q = self.vectors
        inside = Q.T @ W
        W = W - Q @ inside
        coefficients, H = to_numpy(inside), self._H[: self.size, start : self.size]
        H[:] = coefficients
        self._H[start : self.size, : self.size] = H.T
        block = self._H[start : self.size, start : self.size]
        block[:] = (block + block.T) / 2.0
        self._next, R = self._orthonormal(W, float(np.abs(coefficients).max(initial=0.0)))
        return R

    def _orthonormal(self, W: Any, size: float) -> tuple[Any, Array]:
        """Factorise W = N R with N orthonormal and orthogonal to the basis, completed randomly if W lacks full rank."""
        N, R = self._xp.linalg.qr(W)
        factors: Any = scipy.linalg.qr(to_numpy(R), pivoting=True, check_finite=False)  # with the same pivots as W
        turn, R, order = factors
        N = N @ asarray(turn, N)
        (lacking,) = np.nonzero(np.abs(np.diagonal(R)) <= 1e-14 * max(size, np.finfo(float).tiny))
        R[lacking] = 0.0
        if lacking.size:
            N[:, lacking] = asarray(self._rng.standard_normal((N.shape[0], lacking.size)), N)
        Q = self.vectors
        for _ in range(2):
            N, T = self._xp.linalg.qr(N - Q @ (Q.T @ N))
            R = to_numpy(T) @ R
            R[lacking] = 0.0  # rows of the random directions
        back = np.empty_like(R)
        back[:, order] = R
        return N, back

    def ritz(self) -> tuple[Array, Array]:
        """Eigenvalues of H in descending order, and its eigenvectors."""
        values, S = scipy.linalg.eigh(self._H[: self.size, : self.size], check_finite=False)
        return values[::-1], S[:, ::-1]

    def restart(self, values: Array, S: Array, keep: int) -> None:
        """Thick restart: keep the leading Ritz vectors; A maps them into their span and the next block."""
        keep = min(keep, self.size - 1)
        self._Q[:, :keep] = self.rotated(S[:, :keep])
        self._H[:] = 0.0
        self._H[range(keep), range(keep)] = values[:keep]
        self.size = keep


def arpack(A: Operator, ask: Request) -> Eigenpairs:
    """Find the largest eigenvalues by ARPACK, with products of one vector at a time."""
    products = 0

    def multiply(v: Array) -> Array:
        nonlocal products
        products += 1
        if ask.clock.expired:
            raise TimeoutError(f"ARPACK did not converge within max_time={ask.clock.max_time} s; use 'lanczos'.")
        return np.asarray(A @ v.reshape(-1, 1)).ravel()

    operator = LinearOperator(A.shape, matvec=multiply, dtype=np.float64)
    start = ask.random_state.uniform(-1, 1, A.shape[0])
    try:
        values, vectors = eigsh(operator, ask.rank, which="LA", tol=ask.tol, maxiter=ask.max_iter, v0=start)
    except ArpackError as error:
        raise np.linalg.LinAlgError(
            f"{error} ARPACK did not find {ask.rank} eigenvalues in max_iter={ask.max_iter}: raise max_iter, loosen "
            "tol, or use 'lanczos' or 'dense', which also work if K is zero."
        ) from error
    order = np.argsort(values)[::-1]
    # ARPACK's criterion is also relative to |λ|, but only estimated.
    tol = max(10.0 * ask.tol, 1e-8)
    smallest = min(values.min(), lowest(A))
    advice = "lower tol." if ask.tol else "rounding in K hides the eigenvectors from ARPACK; use 'dense'."
    return ask.certified(A, values[order], vectors[:, order], smallest, tol, products, advice)


def randomized(A: Operator, ask: Request) -> Eigenpairs:
    """Find the largest eigenvalues by subspace iteration from a random block (Halko, Martinsson and Tropp, 2011)."""
    n, rank = A.shape[0], ask.rank
    power = ask.power if ask.power is not None else (7 if rank < 0.1 * n else 4)
    Q = np.linalg.qr(ask.random_state.standard_normal((n, min(rank + OVERSAMPLES, n))))[0]
    for _ in range(power):
        Q = np.linalg.qr(np.asarray(A @ Q))[0]
    H = Q.T @ np.asarray(A @ Q)
    values, S = scipy.linalg.eigh((H + H.T) / 2.0)
    values, vectors = values[::-1], Q @ S[:, : -rank - 1 : -1]
    tol, advice = ask.tol or TOLERANCE["randomized"], "raise iterated_power, or use 'lanczos'."
    smallest = min(values[-1], lowest(A))
    return ask.certified(A, values[:rank], vectors, smallest, tol, power + 1, advice)
