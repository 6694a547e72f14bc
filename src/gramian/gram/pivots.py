"""Landmarks: which few rows of X stand for all of them, and the factor K ≈ F Fᵀ that they give.

Every rule returns the same value. What F Fᵀ misses is the trace error tr(K - F Fᵀ) / tr K: the mean of what is left
on the diagonal, for K - F Fᵀ is positive semi-definite (Nyström = partial Cholesky).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from gramian.gram.operator import Gram
from gramian.gram.tiles import one_blas_thread, run, spans
from gramian.kernels.parameters import natural

__all__ = ["RULES", "Pivots", "greedy", "kmeans", "leverage", "rpcholesky", "select", "uniform"]

STRIP = 4096
"""Rows of F that a thread makes at a time, at most: few enough to stay in its cache."""
BLOCK = 256
"""Landmarks that are eliminated at a time where all are known."""
ROWS = 1024
"""Rows of F that a thread makes at a time where all landmarks are known."""
STRIPS = 8
"""Strips at least, so that threads share them evenly, unless rows are few."""

Seed = int | np.random.RandomState | None


@dataclass(frozen=True, eq=False)
class Pivots:
    """Landmarks and the low-rank factor they span.

    Parameters
    ----------
    indices : array of shape (r,)
        Rows of X, in the order in which they were chosen.
    factor : array of shape (n, r)
        F with ``K ≈ F Fᵀ``, exact on the landmarks; float64 unless asked otherwise.
    residual : array of shape (n,)
        Diagonal of ``K - F Fᵀ``, never negative.
    trace_error : float
        ``tr(K - F Fᵀ) / tr K``.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, greedy
    >>> from gramian.kernels import Linear
    >>> p = greedy(Gram(Linear(), np.eye(3)[:, :2]), 3)
    >>> p.rank, p.trace_error
    (2, 0.0)
    """

    indices: NDArray[np.intp]
    factor: NDArray[Any]
    residual: NDArray[np.float64]
    trace_error: float

    @property
    def rank(self) -> int:
        """Number of landmarks."""
        return int(self.indices.size)


def _checked(gram: Gram, rank: int) -> NDArray[np.float64]:
    n = gram.shape[0]
    if isinstance(rank, bool) or not isinstance(rank, Integral) or not 1 <= rank <= n:
        raise ValueError(f"rank must be a whole number between 1 and the number of rows, {n}; got {rank!r}.")
    diagonal = gram.diagonal().astype(np.float64)
    if not np.all(np.isfinite(diagonal)):
        raise ValueError("k(x, x) overflows on these rows; scale them down or normalise the kernel.")
    if np.any(diagonal < 0):
        raise ValueError(f"the kernel has k(x, x) = {diagonal.min():.3g} < 0 on these rows, so it is no kernel.")
    return diagonal


def _checked_tol(tol: float) -> float:
    if not 0 <= tol < np.inf:
        raise ValueError(f"tol must be a number >= 0, got {tol!r}.")
    return float(tol)


def rounding_floor(gram: Gram, diagonal: NDArray[np.float64]) -> float:
    """Return the residual below which a pivot is rounding, not information.

    Parameters
    ----------
    gram : Gram
        K of X with itself.
    diagonal : array of shape (n,)
        Its diagonal.

    Returns
    -------
    float
        Ten times the rounding of the largest entry.
    """
    return float(10.0 * gram.rounding * diagonal.max(initial=0.0))


def _done(indices: Any, factor: NDArray[Any], diagonal: NDArray[np.float64], residual: NDArray[np.float64]) -> Pivots:
    indices = np.asarray(indices, dtype=np.intp)
    trace = float(diagonal.sum())
    residual = np.maximum(residual, 0.0)
    error = float(residual.sum()) / trace if trace > 0 else 0.0
    return Pivots(indices, factor, residual, error)


def rpcholesky(
    gram: Gram,
    rank: int,
    random_state: Seed = None,
    *,
    tol: float = 0.0,
    block: int | None = None,
    dtype: Any = np.float64,
) -> Pivots:
    """Choose landmarks by randomly pivoted Cholesky, accelerated by rejection.

    Each pivot is drawn in proportion to what the earlier ones leave on the diagonal. Here ``block`` proposals are
    drawn at once from a diagonal that grows stale, and each is accepted with the probability that makes the law the
    same as one at a time (Epperly, Tropp and Webber, 2024). O(n rank²) operations and O(n rank) kernel values.

    Parameters
    ----------
    gram : Gram
        K of X with itself.
    rank : int
        How many landmarks at most; fewer where the rest is rounding.
    random_state : int, RandomState or None, default=None
        Seed.
    tol : float, default=0.0
        Stop where the trace error falls below this.
    block : int or None, default=None
        Proposals at once; by default about a tenth of the rank, between 10 and 200.
    dtype : dtype, default=float64
        Of the factor. float32 takes half of the time and of the memory, and is enough for a preconditioner.

    Returns
    -------
    Pivots
        Landmarks, factor and trace error.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, rpcholesky
    >>> from gramian.kernels import RBF
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> rpcholesky(Gram(RBF(0.5), X), 8, random_state=0).trace_error < 1e-6
    True
    """
    diagonal = _checked(gram, rank)
    rng = check_random_state(random_state)
    block = min(max(10, -(-rank // 10)), 200) if block is None else natural("block", block)
    tol = _checked_tol(tol)
    store = np.empty((rank, gram.shape[0]), dtype)  # Fᵀ: new columns of F are rows of K, made in place
    residual = diagonal.copy()
    floor = max(rounding_floor(gram, diagonal), 10.0 * float(np.finfo(dtype).eps) * diagonal.max(initial=0.0))
    chosen: list[int] = []
    while len(chosen) < rank and residual.sum() > tol * diagonal.sum() and residual.max() > floor:
        proposals = rng.choice(gram.shape[0], size=block, p=residual / residual.sum())
        found = store[: len(chosen)]
        with one_blas_thread():  # a pool of BLAS threads would go on spinning while our own threads work
            accepted, lower = _accept(gram, proposals, residual, found[:, proposals].T, rng.random_sample(block), floor)
            accepted = accepted[: rank - len(chosen)]
            _grow(gram, store, len(chosen), accepted, lower[: accepted.size, : accepted.size], residual)
        chosen += accepted.tolist()
        residual[chosen] = 0.0
    store = store if len(chosen) == rank else store[: len(chosen)].copy()
    return _done(chosen, store.T, diagonal, residual)


def _grow(
    gram: Gram,
    store: NDArray[Any],
    rank: int,
    index: NDArray[np.intp],
    lower: NDArray[np.float64],
    residual: NDArray[np.float64],
) -> None:
    """Append L⁻¹ (K[index] - F[index] Fᵀ) to the ``rank`` rows of Fᵀ, and take it off the residual."""
    found, new = store[:rank], store[rank : rank + index.size]
    known, inverse = found[:, index].T.copy(), _inverse(lower).astype(store.dtype)
    single = gram.on(1)  # a strip is one thread's work

    def strip(columns: slice) -> None:
        rows = single.rows(index, columns, np.empty((index.size, columns.stop - columns.start), store.dtype))
        rows -= known @ found[:, columns]
        # By the inverse of the small block, and not by SciPy's triangular solves, which let no other thread run.
        rows = np.matmul(inverse, rows, out=new[:, columns])
        left = residual[columns]
        np.maximum(left - np.einsum("ij,ij->j", rows, rows, dtype=np.float64), 0.0, out=left)

    run(strip, spans(gram.shape[0], _strip(gram.shape[0])), gram.workers)


def _inverse(lower: NDArray[np.float64]) -> NDArray[np.float64]:
    identity = np.eye(len(lower))
    return np.asarray(scipy.linalg.solve_triangular(lower, identity, lower=True, check_finite=False))


def _strip(n: int) -> int:
    """Rows of a strip."""
    return min(max(n // STRIPS, STRIP // STRIPS), STRIP)


def _accept(
    gram: Gram,
    proposals: NDArray[np.intp],
    residual: NDArray[np.float64],
    factor: NDArray[Any],
    uniforms: NDArray[np.float64],
    floor: float,
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Which proposals become landmarks, and the Cholesky factor of what is left of K there; F has their rows."""
    H = gram.rows(proposals, proposals).astype(np.float64)
    factor = factor.astype(np.float64)
    H -= factor @ factor.T
    kept, lower = eliminate(H, residual[proposals], uniforms, floor)
    return proposals[kept], lower


def eliminate(
    H: NDArray[np.float64], stale: NDArray[np.float64], uniforms: NDArray[np.float64], floor: float
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Go through candidates one by one, eliminating each that is accepted from those behind it.

    A candidate was drawn by the stale residual; accepting it with probability (residual now) / (residual then) leaves
    the law of drawing by the residual now.

    Parameters
    ----------
    H : array of shape (c, c)
        What is left of K between the candidates; overwritten.
    stale : array of shape (c,)
        The residuals by which they were drawn.
    uniforms : array of shape (c,)
        Draws from [0, 1).
    floor : float
        Residual below which a pivot is rounding.

    Returns
    -------
    kept : array of shape (a,)
        Which were accepted.
    lower : array of shape (a, a)
        The Cholesky factor of their block of H.
    """
    kept: list[int] = []
    lower = np.zeros_like(H)
    for i in range(len(H)):
        now = H[i, i]
        if now > floor and uniforms[i] * stale[i] < now:
            column = lower[i:, len(kept)]
            np.divide(H[i:, i], np.sqrt(now), out=column)
            H[i:, i:] -= np.outer(column, column)
            kept.append(i)
    return np.asarray(kept, dtype=np.intp), lower[np.ix_(kept, range(len(kept)))]


def _columns(gram: Gram, index: NDArray[np.intp]) -> NDArray[np.float64]:
    """K[:, index] in float64, as rows of the symmetric K."""
    return gram.rows(index, out=np.empty((index.size, gram.shape[1]))).T


def greedy(gram: Gram, rank: int, random_state: Seed = None, *, tol: float = 0.0) -> Pivots:
    """Choose landmarks by pivoted Cholesky: always the row that is worst represented.

    Deterministic, and misled by outliers. O(n rank²) operations, one row of K at a time.

    Parameters
    ----------
    gram : Gram
        K of X with itself.
    rank : int
        How many landmarks at most; fewer where the rest is rounding.
    random_state : int, RandomState or None, default=None
        Not used: the rule is deterministic.
    tol : float, default=0.0
        Stop where the trace error falls below this.

    Returns
    -------
    Pivots
        Landmarks, factor and trace error.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, greedy
    >>> from gramian.kernels import RBF
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> greedy(Gram(RBF(0.3), X), 10).trace_error < 1e-4
    True
    """
    diagonal = _checked(gram, rank)
    tol = _checked_tol(tol)
    factor = np.zeros((gram.shape[0], rank))
    residual = diagonal.copy()
    floor = rounding_floor(gram, diagonal)
    chosen: list[int] = []
    while len(chosen) < rank and residual.sum() > tol * diagonal.sum() and residual.max() > floor:
        i, r = int(np.argmax(residual)), len(chosen)
        column = _columns(gram, np.array([i]))[:, 0] - factor[:, :r] @ factor[i, :r]
        column /= np.sqrt(residual[i])
        factor[:, r] = column
        residual = np.maximum(residual - column**2, 0.0)
        chosen.append(i)
        residual[chosen] = 0.0
    return _done(chosen, factor[:, : len(chosen)].copy(), diagonal, residual)


def uniform(gram: Gram, rank: int, random_state: Seed = None) -> Pivots:
    """Choose landmarks uniformly without replacement.

    Parameters
    ----------
    gram : Gram
        K of X with itself.
    rank : int
        How many landmarks; those that coincide with others are dropped.
    random_state : int, RandomState or None, default=None
        Seed.

    Returns
    -------
    Pivots
        Landmarks, factor and trace error.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, uniform
    >>> from gramian.kernels import RBF
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> uniform(Gram(RBF(0.3), X), 10, random_state=0).rank <= 10
    True
    """
    diagonal = _checked(gram, rank)
    return factorise(gram, check_random_state(random_state).choice(gram.shape[0], rank, replace=False), diagonal)


def factorise(gram: Gram, indices: NDArray[np.intp], diagonal: NDArray[np.float64] | None = None) -> Pivots:
    """Return the Nyström factor of given landmarks, by a Cholesky factorisation of their block, pivoted if need be.

    Parameters
    ----------
    gram : Gram
        K of X with itself.
    indices : array of shape (r,)
        Landmarks; those that the others already determine to rounding are dropped.
    diagonal : array of shape (n,) or None, default=None
        Diagonal of K, where it is known.

    Returns
    -------
    Pivots
        The landmarks kept, the factor, the trace error.
    """
    indices = np.asarray(indices, dtype=np.intp)
    diagonal = gram.diagonal().astype(np.float64) if diagonal is None else diagonal
    block = gram.rows(indices, indices).astype(np.float64)
    lower, order, rank = _pivoted_cholesky(block, rounding_floor(gram, diagonal))
    kept = indices[order[:rank]]
    factor = np.empty((gram.shape[0], rank))
    L, single = lower[:rank, :rank], gram.on(1)
    blocks = [(part, _inverse(L[part, part]).T) for part in spans(rank, BLOCK)]

    def solve(rows: slice) -> None:
        strip = single.rows(rows, kept, np.empty((rows.stop - rows.start, rank)))
        for part, inverse in blocks:
            strip[:, part] -= factor[rows, : part.start] @ L[part, : part.start].T
            np.matmul(strip[:, part], inverse, out=factor[rows, part])

    run(solve, spans(gram.shape[0], ROWS), gram.workers)
    residual = diagonal - np.einsum("ij,ij->i", factor, factor)
    residual[kept] = 0.0
    return _done(kept, factor, diagonal, residual)


def _pivoted_cholesky(A: NDArray[np.float64], floor: float) -> tuple[NDArray[np.float64], NDArray[np.intp], int]:
    """In the order given where every pivot is more than rounding; else by pivots, as far as they are."""
    try:
        lower = np.asarray(np.linalg.cholesky(A), dtype=np.float64)
        if np.all(np.diagonal(lower) ** 2 > floor):
            return lower, np.arange(len(A)), len(A)
    except np.linalg.LinAlgError:
        pass
    c, order, rank, _ = scipy.linalg.lapack.dpstrf(A, tol=floor, lower=1)
    return np.tril(c), np.asarray(order, dtype=np.intp) - 1, int(rank)


def leverage(gram: Gram, rank: int, random_state: Seed = None) -> Pivots:
    """Choose landmarks by approximate ridge leverage scores.

    A row's score is how much it counts in a ridge fit at the level where a quarter of ``rank`` directions do. The
    scores come from a uniform pilot of the same rank (El Alaoui and Mahoney, 2015), with what the pilot misses of a
    row added to its score, and are refined once from the landmarks they give. Three times the cost of ``uniform``.

    Parameters
    ----------
    gram : Gram
        K of X with itself.
    rank : int
        How many landmarks; those that coincide with others are dropped.
    random_state : int, RandomState or None, default=None
        Seed.

    Returns
    -------
    Pivots
        Landmarks, factor and trace error.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, leverage
    >>> from gramian.kernels import RBF
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> leverage(Gram(RBF(0.3), X), 10, random_state=0).trace_error < 0.1
    True
    """
    diagonal = _checked(gram, rank)
    rng = check_random_state(random_state)
    pivots = factorise(gram, rng.choice(gram.shape[0], rank, replace=False), diagonal)
    for _ in range(2 if pivots.rank else 0):
        scores = _leverage_scores(pivots, rank / 4.0)
        drawn = rng.choice(scores.size, min(rank, np.count_nonzero(scores)), replace=False, p=scores / scores.sum())
        pivots = factorise(gram, drawn, diagonal)
    return pivots


def _leverage_scores(pivots: Pivots, dimension: float) -> NDArray[np.float64]:
    """Leverage in F Fᵀ at the ridge of a given effective dimension, plus what F misses, at most one."""
    eigenvalues, vectors = np.linalg.eigh(pivots.factor.T @ pivots.factor)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    ridge = _ridge_of_dimension(eigenvalues, min(dimension, 0.9 * np.count_nonzero(eigenvalues)))
    projected = pivots.factor @ (vectors / np.sqrt(eigenvalues + ridge))
    return np.minimum(np.einsum("ij,ij->i", projected, projected) + pivots.residual / ridge, 1.0)


def _ridge_of_dimension(eigenvalues: NDArray[np.float64], dimension: float) -> float:
    """Solve Σ λ/(λ + ridge) = dimension by bisection on the logarithm."""
    low, high = np.log(1e-16 * eigenvalues.max() + 1e-300), np.log(eigenvalues.sum() / dimension + 1e-300)
    for _ in range(60):
        middle = (low + high) / 2.0
        above = np.sum(eigenvalues / (eigenvalues + np.exp(middle))) > dimension
        low, high = (middle, high) if above else (low, middle)
    return float(np.exp(high))


def kmeans(gram: Gram, rank: int, random_state: Seed = None, *, X: Any = None) -> Pivots:
    """Choose as landmarks the rows nearest to the centres of k-means.

    Parameters
    ----------
    gram : Gram
        K of X with itself.
    rank : int
        How many landmarks; centres that share their nearest row give one.
    random_state : int, RandomState or None, default=None
        Seed.
    X : array-like of shape (n, d)
        The rows, which must be vectors.

    Returns
    -------
    Pivots
        Landmarks, factor and trace error.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, kmeans
    >>> from gramian.kernels import RBF
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> kmeans(Gram(RBF(0.3), X), 5, random_state=0, X=X).trace_error < 0.1
    True
    """
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import pairwise_distances_argmin

    diagonal = _checked(gram, rank)
    if X is None or np.shape(X)[0] != gram.shape[0]:
        raise ValueError(f"kmeans needs the {gram.shape[0]} rows themselves: pass X=.")
    batch = max(1024, 4 * rank)
    model = MiniBatchKMeans(rank, random_state=random_state, batch_size=batch, n_init=1, max_iter=20).fit(X)
    nearest = pairwise_distances_argmin(model.cluster_centers_, X)
    return factorise(gram, np.unique(nearest), diagonal)


RULES: dict[str, Callable[..., Pivots]] = {
    "uniform": uniform,
    "rpcholesky": rpcholesky,
    "greedy": greedy,
    "leverage": leverage,
    "kmeans": kmeans,
}


def select(rule: str, gram: Gram, rank: int, random_state: Seed = None, *, X: Any = None) -> Pivots:
    """Choose landmarks by the name of a rule.

    Parameters
    ----------
    rule : str
        One of ``RULES``.
    gram : Gram
        K of X with itself.
    rank : int
        How many landmarks.
    random_state : int, RandomState or None, default=None
        Seed.
    X : array-like of shape (n, d), optional
        The rows, for ``"kmeans"``.

    Returns
    -------
    Pivots
        Landmarks, factor and trace error.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, select
    >>> from gramian.kernels import RBF
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> select("rpcholesky", Gram(RBF(0.3), X), 10, random_state=0).rank <= 10
    True
    """
    if rule not in RULES:
        raise ValueError(f"selection must be one of {sorted(RULES)}, got {rule!r}.")
    return RULES[rule](gram, rank, random_state, **({"X": X} if rule == "kmeans" else {}))
