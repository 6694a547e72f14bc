"""Principal components in feature space, from the Gram matrix or from explicit features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.passes import Part, Passes
from gramian.features.base import WorkerMap
from gramian.gram import Gram, SymmetricGram
from gramian.kernels.resolve import is_precomputed
from gramian.solvers.in_features.covariance import CentredProducts, covariance, projections
from gramian.solvers.spectral import eigen
from gramian.solvers.spectral.eigen import Eigenpairs, Request

Array = NDArray[np.float64]

DENSE_ROWS = 1000
"""Rows up to which a full decomposition is as fast as Lanczos."""
BASIS = 5
"""Vectors in the Lanczos basis for each eigenvector requested, at most, roughly."""
SINGLE = 1e-6
"""Relative residual that float32 products can be expected to reach."""
SINGLE_UNIT = 1e-8
"""Residual due to rounding in float32 products, relative to the norm of K."""
SINGLE_RANGE = 1e-30, 1e30
"""Largest k(x, x) for which K is stored in float32."""
RANGE = 1e-140, 1e140
"""Largest k(x, x) that can be squared in float64."""


def by_gram(gram: Gram, X: Any, ask: Request) -> Eigenpairs:
    """Decompose the Gram matrix, stored or by products within its memory budget: X (n, d)."""
    n, solver, size = gram.shape[0], _solver(ask, gram.shape[0]), float(np.abs(gram.diagonal()).max())
    if size and not RANGE[0] < size < RANGE[1]:
        raise ValueError(
            f"the largest k(x, x) is {size:.1e}, and squares of such numbers overflow or vanish in double precision; "
            "multiply the kernel by a constant, or scale X."
        )
    K = X if is_precomputed(gram.kernel) else SymmetricGram(gram, 0, np.float64)
    means = (K @ np.ones((n, 1)))[:, 0] / n if ask.center else np.zeros(n)
    ask = replace(ask, rounding=replace(ask.rounding, offset=abs(n * float(means.mean())), seen=True))
    if solver == "dense":
        matrix = gram.dense().astype(np.float64, copy=False)
        if ask.center:
            matrix -= means
            matrix -= means[:, None]
            matrix += means.mean()
        pairs = eigen.dense(_centred(K, ask), matrix, ask, gram.card.eigh if gram.card is not None else eigen.lapack)
    elif solver == "lanczos":
        single = isinstance(K, SymmetricGram) and SINGLE_RANGE[0] < size < SINGLE_RANGE[1]
        pairs = _lanczos(gram, K, ask, single=single and not 0 < ask.tol < SINGLE)
    else:
        A = _centred(_stored(gram, K, ask, np.float64), ask)
        pairs = eigen.arpack(A, ask) if solver == "arpack" else eigen.randomized(A, ask)
    trace = float(gram.diagonal().sum(dtype=np.float64) - n * means.mean())
    least = float(pairs.values.min(initial=0.0))
    return replace(pairs, values=pairs.cleaned, least=least, trace=trace, means=means)


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


def _centred(K: Any, ask: Request) -> Any:
    return eigen.CentredOperator(K) if ask.center else K


def _stored(gram: Gram, K: Any, ask: Request, dtype: Any) -> Any:
    """K for repeated products: stored as far as memory allows beside the basis."""
    budget = max(gram.memory - 2 * BASIS * ask.rank * 8 * gram.shape[0], 0)
    return SymmetricGram(gram, budget, dtype) if isinstance(K, SymmetricGram) else K


def _lanczos(gram: Gram, K: Any, ask: Request, *, single: bool) -> Eigenpairs:
    """Lanczos on K, if possible in float32, certified in float64; if that does not converge, it goes on in float64."""
    start = None
    if single:
        rough = _stored(gram, K, ask, np.float32)
        # If K is recomputed for every product, fewer and wider products are cheaper.
        block = int(np.clip(ask.rank // 4, 4, 16) if rough.stored == 1.0 else np.clip(ask.rank // 2, 4, 32))
        pairs = eigen.lanczos(_centred(rough, ask), ask, block=block, exact=_centred(K, ask), unit=SINGLE_UNIT)
        del rough
        if pairs.certificate.converged or pairs.exhausted:
            return pairs
        start = pairs.vectors
    return eigen.lanczos(_centred(_stored(gram, K, ask, np.float64), ask), ask, start=start)


def by_features(
    passes: Passes, lift: WorkerMap, sample: Part, ask: Request, *, every: bool
) -> tuple[Eigenpairs, float]:
    """Decompose ``F Fᵀ``, centred or not, through the covariance of the features; also return the map's trace error.

    The eigenvectors have entries for every row, or for the rows of the sample only.
    """
    found = covariance(passes, lift, sample, center=ask.center)
    means, C = found.mean, found.scatter
    rounding = replace(ask.rounding, offset=found.count * float(means @ means), growth=lift.growth)
    ask = replace(ask, rank=min(ask.rank, C.shape[0], found.count), rounding=rounding)
    judge = CentredProducts(passes, lift, means)
    pairs = eigen.dense(judge, C, ask) if _solver(ask, C.shape[0]) == "dense" else eigen.lanczos(C, ask, exact=judge)
    if every:
        vectors = projections(passes, lift, pairs.vectors)
    else:
        vectors = np.vstack([part.made(lift) @ pairs.vectors for part in sample.strips(lift.width)])
    vectors -= means @ pairs.vectors
    roots = np.sqrt(np.maximum(pairs.values, 0.0))
    vectors = np.divide(vectors, roots, out=np.zeros_like(vectors), where=roots > 0)
    values, trace = pairs.cleaned, float(np.trace(C))
    directions = np.where(values > 0, pairs.vectors, 0.0)  # nothing is projected on what may be rounding
    shown: Any = {"smallest": max(pairs.smallest, 0.0), "means": means, "directions": directions}  # F Fᵀ ≥ 0
    return replace(pairs, values=values, vectors=vectors, trace=trace, **shown), found.error
