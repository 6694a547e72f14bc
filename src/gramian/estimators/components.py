"""Principal components in a kernel's space, by the Gram matrix or by explicit features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.data.parts import Part
from gramian.data.passes import Passes
from gramian.gram import Gram, SymmetricGram
from gramian.kernels import Precomputed
from gramian.progress import Clock, Tick, silent
from gramian.solvers.in_features.covariance import CentredProducts, covariance, projections
from gramian.solvers.in_features.worker_map import WorkerMap
from gramian.solvers.spectral import eigen

__all__ = ["NEGLIGIBLE", "Request", "Spectrum", "by_features", "by_gram"]

Array = NDArray[np.float64]

DENSE_ROWS = 1000
"""Rows up to which a full decomposition takes no longer than Lanczos would."""
BASIS = 5
"""Lanczos keeps up to about this many vectors for each one asked for."""
SINGLE = 1e-6
"""Residuals that float32 products can be expected to reach."""
SINGLE_UNIT = 1e-8
"""What float32 products leave of a residual, as a share of the norm of K."""
NEGLIGIBLE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-7}
"""Eigenvalues below this share of the largest are rounding, by the dtype of X, as in scikit-learn."""
TOLERANCE = {"dense": 1e-8, "lanczos": 1e-5, "arpack": 0.0, "randomized": 1e-2}
"""What ``tol=0`` means to each solver."""


@dataclass(frozen=True)
class Request:
    """What is asked of the eigensolver."""

    rank: int  # How many components
    solver: str = "auto"  # ``"auto"``, ``"dense"``, ``"lanczos"``, ``"arpack"`` or ``"randomized"``
    center: bool = True  # Whether to take away the mean in the kernel's space
    tol: float = 0.0  # Relative eigen-residual; zero for the solver's own
    max_iter: int | None = None  # Iterations at most
    power: int | None = None  # Products of ``"randomized"``; ``None`` for 7 where few components are asked for, else 4
    floor: float = 1e-12  # Eigenvalues below this share of the largest are reported as zero


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues and eigenvectors of a (centred) Gram matrix."""

    values: Array  # (r,): From the largest down
    vectors: Array  # (n, r): Orthonormal
    smallest: float  # The smallest eigenvalue seen on the way
    trace: float  # The sum of all eigenvalues
    means: Array  # Of the columns of K, shape (n,), or of the features, shape (m,); zeros where nothing is centred
    certificate: Certificate  # The eigen-residual
    directions: Array | None = None  # (m, r): Principal directions in the space of the features, where there is a map
    zero: float = 0.0  # Eigenvalues up to this are zero to rounding


def by_gram(
    gram: Gram, X: Any, ask: Request, rng: np.random.RandomState, clock: Clock, tick: Tick = silent
) -> Spectrum:
    """Decompose the Gram matrix, dense or by products within its memory budget: X (n, d)."""
    gram.check_symmetric()
    n = gram.shape[0]
    solver = _solver(ask, n)
    if solver == "dense":
        return _dense(gram, ask, clock)
    K = _exact(gram, X)
    means = (K @ np.ones((n, 1)))[:, 0] / n if ask.center else np.zeros(n)
    rounding = eigen.Rounding(abs(n * float(means.mean())), ask.floor)
    pairs = _iterate(gram, K, solver, ask, {"random_state": rng, "clock": clock, "rounding": rounding}, tick)
    trace = float(gram.diagonal().sum(dtype=np.float64) - n * means.mean())
    zero = rounding.zero(pairs.values, n)
    return Spectrum(pairs.values, pairs.vectors, pairs.smallest, trace, means, pairs.certificate, zero=zero)


def _solver(ask: Request, n: int) -> str:
    if ask.solver == "auto":
        return "dense" if n <= DENSE_ROWS or BASIS * ask.rank > n else "lanczos"
    if ask.solver == "lanczos" and ask.rank > n // BASIS:
        raise ValueError(
            f"eigen_solver='lanczos' finds at most a fifth of the eigenvectors, {n // BASIS} of {n}; "
            f"n_components={ask.rank} needs 'dense'."
        )
    if ask.solver == "arpack" and ask.rank >= n:
        raise ValueError(f"eigen_solver='arpack' needs n_components < n = {n}, got {ask.rank}; use 'dense'.")
    return ask.solver


def _exact(gram: Gram, X: Any) -> Any:
    """K in float64, to multiply by."""
    return X if isinstance(gram.kernel, Precomputed) else SymmetricGram(gram, 0, np.float64)


def _iterate(gram: Gram, K: Any, solver: str, ask: Request, means: dict[str, Any], tick: Tick) -> eigen.Eigenpairs:
    tol = ask.tol or TOLERANCE[solver]
    budget = max(gram.memory - 2 * BASIS * ask.rank * 8 * gram.shape[0], 0)
    if solver == "lanczos":
        return _lanczos(gram, K, ask, tol, budget, {"tick": tick, **means})
    if isinstance(K, SymmetricGram):
        K = SymmetricGram(gram, budget, np.float64)
    A = eigen.Centred(K) if ask.center else K
    if solver == "arpack":
        return eigen.arpack(A, ask.rank, tol=tol, max_iter=ask.max_iter, **means)
    power = ask.power if ask.power is not None else (7 if ask.rank < 0.1 * A.shape[0] else 4)
    return eigen.randomized(A, ask.rank, power=power, tol=tol, **means)


def _lanczos(gram: Gram, K: Any, ask: Request, tol: float, budget: int, means: dict[str, Any]) -> eigen.Eigenpairs:
    """Lanczos on K in float32, certified in float64; in float64 from there where that is not good enough."""
    exact = eigen.Centred(K) if ask.center else K
    pairs = None
    if isinstance(K, SymmetricGram) and tol >= SINGLE:
        rough = SymmetricGram(gram, budget, np.float32)
        # Where K is made anew for every product, fewer and wider products are cheaper.
        block = int(np.clip(ask.rank // 4, 4, 16) if rough.stored == 1.0 else np.clip(ask.rank // 2, 4, 32))
        A = eigen.Centred(rough) if ask.center else rough
        options: Any = {"block": block, "exact": exact, "unit": SINGLE_UNIT, **means}
        pairs = eigen.lanczos(A, ask.rank, tol=tol, max_iter=ask.max_iter, **options)
        del rough, A
        if pairs.certificate.converged or pairs.exhausted:
            return pairs
    if isinstance(K, SymmetricGram):
        K = SymmetricGram(gram, budget, np.float64)
    A = eigen.Centred(K) if ask.center else K
    start = None if pairs is None else pairs.vectors
    return eigen.lanczos(A, ask.rank, tol=tol, max_iter=ask.max_iter, start=start, **means)


def _dense(gram: Gram, ask: Request, clock: Clock) -> Spectrum:
    K = gram.dense().astype(np.float64, copy=False)
    n, trace = K.shape[0], float(np.trace(K))
    means = np.zeros(n)
    if ask.center:
        means = K.mean(axis=0)
        trace -= float(n * means.mean())
        K = _centred(K, means)
    A = eigen.Centred(gram) if ask.center else gram
    rounding = eigen.Rounding(abs(n * float(means.mean())), ask.floor)
    pairs = eigen.dense(A, K, ask.rank, tol=ask.tol or TOLERANCE["dense"], rounding=rounding, clock=clock)
    zero = rounding.zero(pairs.values, n)
    return Spectrum(pairs.values, pairs.vectors, pairs.smallest, trace, means, pairs.certificate, zero=zero)


def _centred(K: Array, means: Array) -> Array:
    """``(I - 11ᵀ/n) K (I - 11ᵀ/n)`` from the means of the columns of K, in place."""
    K -= means
    K -= means[:, None]
    K += means.mean()
    return K


def by_features(
    passes: Passes,
    lift: WorkerMap,
    sample: Part,
    ask: Request,
    rng: np.random.RandomState,
    clock: Clock,
    *,
    every: bool,
) -> tuple[Spectrum, float]:
    """Decompose ``F Fᵀ``, centred or not, through the covariance of the features; and the map's trace error.

    The vectors are those of every row, or of the sample's rows only.
    """
    found = covariance(passes, lift, sample, center=ask.center)
    means, C = found.mean, found.scatter
    rounding = eigen.Rounding(found.count * float(means @ means), ask.floor)
    ask = replace(ask, rank=min(ask.rank, C.shape[0], found.count))
    pairs = _leading(C, ask, rng, clock, rounding, CentredProducts(passes, lift, means))
    if every:
        vectors = projections(passes, lift, pairs.vectors)
    else:
        vectors = np.vstack([F @ pairs.vectors for F, _ in lift.strips(iter([sample]))])
    vectors -= means @ pairs.vectors
    roots = np.sqrt(np.maximum(pairs.values, 0.0))
    vectors = np.divide(vectors, roots, out=np.zeros_like(vectors), where=roots > 0)
    trace, zero = float(np.trace(C)), rounding.zero(pairs.values, C.shape[0])
    done = pairs.certificate
    return Spectrum(pairs.values, vectors, pairs.smallest, trace, means, done, pairs.vectors, zero), found.error


def _leading(
    C: Array, ask: Request, rng: np.random.RandomState, clock: Clock, rounding: eigen.Rounding, judge: Any
) -> eigen.Eigenpairs:
    if _solver(ask, C.shape[0]) == "dense":
        return eigen.dense(judge, C, ask.rank, tol=ask.tol or TOLERANCE["dense"], rounding=rounding, clock=clock)
    options: Any = {"exact": judge, "rounding": rounding, "random_state": rng, "clock": clock}
    return eigen.lanczos(C, ask.rank, tol=ask.tol or TOLERANCE["lanczos"], max_iter=ask.max_iter, **options)
