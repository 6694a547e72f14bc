"""Landmarks: the factor K ≈ F Fᵀ that a few rows of X give, and their choice by randomly pivoted Cholesky.

What F Fᵀ misses is the trace error tr(K - F Fᵀ) / tr K: the mean of what is left on the diagonal, for K - F Fᵀ is
positive semi-definite (Nyström = partial Cholesky).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramian.docstrings import filled
from gramian.gram.operator import Gram
from gramian.gram.threads import SMALL
from gramian.kernels.tunable import natural
from gramian.resources import one_blas_thread, random_of, run, spans

BLOCK = 256
"""Landmarks that are eliminated at a time."""
ROWS = 1024
"""Rows of F that a thread makes at a time."""
STRIP = 4096
"""Rows of F that a thread makes at a time, at most: few enough to stay in its cache."""
STRIPS = 8
"""Strips at least, so that threads share them evenly, unless rows are few."""
LARGEST = 200
"""Most proposals that are drawn at once."""
CHUNK, CHUNKS = 200, 8
"""Candidates in a pool, at least; for many landmarks, pools have an eighth of their number."""
WORTH = 4
"""Rows per landmark from which the factor on all rows is avoided, and candidates for each that is accepted."""

SHARED = {
    "{parameters}": """Parameters
----------
gram : Gram
    K of X with itself.
rank : int
    How many landmarks at most; fewer if what they leave is rounding error.
random_state : int, RandomState, Generator or None, default=None
    Seed, unless the rule is deterministic.""",
    "{returns}": """Returns
-------
Pivots
    Landmarks, factor and trace error.""",
}
"""Sections that the docstrings of functions that choose landmarks share."""

Seed = int | np.random.RandomState | None
Index = NDArray[np.intp]
Array = NDArray[np.float64]


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

    indices: Index
    factor: NDArray[Any]
    residual: Array
    trace_error: float

    @property
    def rank(self) -> int:
        """Number of landmarks."""
        return int(self.indices.size)


def checked(gram: Gram, rank: int) -> Array:
    """Return the diagonal of K, or raise if it is negative somewhere or the rank is impossible: → (n,)."""
    n = gram.shape[0]
    if isinstance(rank, bool) or not isinstance(rank, Integral) or not 1 <= rank <= n:
        raise ValueError(f"rank must be a whole number between 1 and the number of rows, {n}; got {rank!r}.")
    diagonal = gram.diagonal().astype(np.float64)
    if not np.all(np.isfinite(diagonal)):
        raise ValueError("k(x, x) overflows on these rows; scale them down or normalise the kernel.")
    if np.any(diagonal < 0):
        raise ValueError(
            f"the kernel has k(x, x) = {diagonal.min():.3g} < 0 on these rows, so it is not positive semi-definite."
        )
    return diagonal


def checked_tol(tol: float) -> float:
    """Return a valid tolerance, or raise."""
    if not 0 <= tol < np.inf:
        raise ValueError(f"tol must be a number >= 0, got {tol!r}.")
    return float(tol)


def rounding_floor(gram: Gram, diagonal: Array) -> float:
    """Return the residual below which a pivot is rounding error: diagonal (n,)."""
    return float(10.0 * gram.rounding * diagonal.max(initial=0.0))


def done(indices: Any, factor: NDArray[Any], diagonal: Array, residual: Array) -> Pivots:
    """Return the landmarks with their trace error: factor (n, r), diagonal, residual (n,)."""
    indices = np.asarray(indices, dtype=np.intp)
    trace = float(diagonal.sum())
    residual = np.maximum(residual, 0.0)
    error = float(residual.sum()) / trace if trace > 0 else 0.0
    return Pivots(indices, factor, residual, error)


def factorise(gram: Gram, indices: Index, diagonal: Array | None = None) -> Pivots:
    """Return the Nyström factor of given landmarks, by a Cholesky factorisation of their block, pivoted if need be."""
    indices = np.asarray(indices, dtype=np.intp)
    diagonal = gram.diagonal().astype(np.float64) if diagonal is None else diagonal
    block = gram.rows(indices, indices).astype(np.float64)
    lower, order, rank = _pivoted_cholesky(block, rounding_floor(gram, diagonal))
    kept = indices[order[:rank]]
    factor = np.empty((gram.shape[0], rank))
    L, single = lower[:rank, :rank], gram.on(1)
    blocks = [(part, inverse(L[part, part]).T) for part in spans(rank, BLOCK)]

    def solve(rows: slice) -> None:
        strip = single.rows(rows, kept, np.empty((rows.stop - rows.start, rank)))
        for part, inverse in blocks:
            strip[:, part] -= factor[rows, : part.start] @ L[part, : part.start].T
            np.matmul(strip[:, part], inverse, out=factor[rows, part])

    run(solve, spans(gram.shape[0], ROWS), gram.workers)
    residual = diagonal - np.einsum("ij,ij->i", factor, factor)
    residual[kept] = 0.0
    return done(kept, factor, diagonal, residual)


def _pivoted_cholesky(A: Array, floor: float) -> tuple[Array, Index, int]:
    """Cholesky in the given order if every pivot exceeds the floor, else pivoted, up to the numerical rank."""
    try:
        lower = np.asarray(np.linalg.cholesky(A), dtype=np.float64)
        if np.all(np.diagonal(lower) ** 2 > floor):
            return lower, np.arange(len(A)), len(A)
    except np.linalg.LinAlgError:
        pass
    c, order, rank, _ = scipy.linalg.lapack.dpstrf(A, tol=floor, lower=1)
    return np.tril(c), np.asarray(order, dtype=np.intp) - 1, int(rank)


def inverse(lower: Array) -> Array:
    """Return the inverse of a small triangular matrix, for threads that multiply by it: lower (b, b) → (b, b).

    SciPy's triangular solves hold the global interpreter lock.
    """
    return np.asarray(scipy.linalg.lapack.dtrtri(lower, lower=1)[0])


def rpcholesky(
    gram: Gram,
    rank: int,
    random_state: Seed = None,
    *,
    tol: float = 0.0,
    block: int | None = None,
    dtype: Any = np.float64,
    store: NDArray[Any] | None = None,
    start: Index | None = None,
) -> Pivots:
    """Choose landmarks by randomly pivoted Cholesky, accelerated by rejection.

    Each pivot is drawn in proportion to what the earlier ones leave on the diagonal. Here ``block`` proposals are
    drawn at once from a diagonal that grows stale, and each is accepted with the probability that makes the law the
    same as one at a time (Epperly, Tropp and Webber, 2024). O(n rank²) operations and O(n rank) kernel values.

    {parameters}
    tol : float, default=0.0
        Stop once the trace error falls below this.
    block : int or None, default=None
        Proposals at once; by default about a tenth of the rank, between 10 and 200, and twice as many each time that
        half of them are accepted, unless ``tol`` is given.
    dtype : dtype, default=float64
        Of the factor. float32 takes half of the time and of the memory, and is enough for a preconditioner.
    store : array of shape (rank or more, n) or None, default=None
        Where to write the transposed factor, for callers that append to it; of that dtype.
    start : array of shape (s,) or None, default=None
        Landmarks that were chosen before, by the same law.

    {returns}

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, rpcholesky
    >>> from gramian.kernels import RBF
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> rpcholesky(Gram(RBF(0.5), X), 8, random_state=0).trace_error < 1e-6
    True
    """
    diagonal = checked(gram, rank)
    rng = random_of(random_state)
    tol = checked_tol(tol)
    grows = block is None and tol == 0.0  # with a tolerance, larger blocks would overshoot it
    block = min(max(10, -(-rank // 10)), LARGEST) if block is None else natural("block", block)
    given = store is not None
    if store is None:
        store = np.empty((rank, gram.shape[0]), dtype)  # Fᵀ: new columns of F are computed in place, from rows of K
    residual = diagonal.copy()
    floor = max(rounding_floor(gram, diagonal), 10.0 * float(np.finfo(dtype).eps) * diagonal.max(initial=0.0))
    chosen: list[int] = [] if start is None else start.tolist()
    if start is not None and start.size:
        lower = np.linalg.cholesky(gram.rows(start, start).astype(np.float64, copy=False))
        with one_blas_thread():
            _grow(gram, store, 0, start, lower, residual)
        residual[start] = 0.0
    while len(chosen) < rank and residual.sum() > tol * diagonal.sum() and residual.max() > floor:
        proposals = rng.choice(gram.shape[0], size=block, p=residual / residual.sum())
        found = store[: len(chosen)]
        with one_blas_thread():  # BLAS threads would keep spinning while our own work
            H, F = gram.rows(proposals, proposals).astype(np.float64), found[:, proposals].T.astype(np.float64)
            H -= F @ F.T
            now = H.diagonal()
            wanted = rank - len(chosen)
            kept, lower = eliminate(H, residual[proposals], rng.random_sample(block), floor, wanted)
            if not kept.size:  # their stale residuals may be rounding error: take the current ones
                residual[proposals] = np.minimum(residual[proposals], np.where(now > floor, now, 0.0))
                continue
            _grow(gram, store, len(chosen), proposals[kept], lower, residual)
        chosen += proposals[kept].tolist()
        residual[chosen] = 0.0
        block = min(2 * block, LARGEST) if grows and 2 * kept.size >= block else block
    found = store[: len(chosen)]
    # Unused columns are not kept.
    return done(chosen, found.T if given or len(chosen) == rank else found.copy().T, diagonal, residual)


def _grow(gram: Gram, store: NDArray[Any], rank: int, index: Index, lower: Array, residual: Array) -> None:
    """Append L⁻¹ (K[index] - F[index] Fᵀ) to the ``rank`` rows of Fᵀ, and update the residual."""
    found, new = store[:rank], store[rank : rank + index.size]
    known, small = found[:, index].T.copy(), inverse(lower).astype(store.dtype)
    single = gram.on(1)  # a strip is one thread's work

    def strip(columns: slice) -> None:
        rows = single.rows(index, columns, np.empty((index.size, columns.stop - columns.start), store.dtype))
        rows -= known @ found[:, columns]
        rows = np.matmul(small, rows, out=new[:, columns])
        left = residual[columns]
        np.maximum(left - np.einsum("ij,ij->j", rows, rows, dtype=np.float64), 0.0, out=left)

    n = gram.shape[0]
    if n <= STRIP and n * index.size <= SMALL:
        strip(slice(0, n))
    else:
        run(strip, spans(n, min(max(n // STRIPS, STRIP // STRIPS), STRIP)), gram.workers)


def eliminate(H: Array, stale: Array, uniforms: Array, floor: float, wanted: int) -> tuple[Index, Array]:
    """Test candidates until enough are accepted, eliminating each of these from those after it: H (b, b).

    A candidate was drawn by the stale residual; accepting it with probability (residual now) / (residual then) leaves
    the law of drawing by the residual now.
    """
    own, asked = H.diagonal().tolist(), (uniforms * stale).tolist()
    upper: Array = np.zeros_like(H)
    kept: list[int] = []
    for i, least in enumerate(asked):
        found = upper[: len(kept), i:]
        column = found[:, 0]
        now = own[i] - float(column @ column)
        if now > floor and least < now:
            row = np.subtract(H[i, i:], column @ found, out=upper[len(kept), i:])
            row /= math.sqrt(now)
            kept.append(i)
            if len(kept) == wanted:
                break
    return np.asarray(kept, dtype=np.intp), upper[: len(kept), kept].T


def draw_landmarks(gram: Gram, rank: int, random_state: Seed = None) -> Index:
    """Choose landmarks by the law of ``rpcholesky``, if possible without a factor on all rows.

    That factor is what ``rpcholesky`` costs, n rank² operations. Its law needs far less: a row drawn by a stale
    residual and accepted with the probability (residual now) / (residual then) is a row drawn by the residual now. So
    pools are drawn by the diagonal of K, and only a pool's own block of K is eliminated. If too few candidates are
    accepted, the first half of the landmarks is completed by the factor on all rows, at a quarter of the cost, and the
    second half comes from pools drawn by the residual that the first leaves.

    {parameters}

    Returns
    -------
    array of shape (r,)
        Rows of X, in the order in which they were chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, draw_landmarks
    >>> from gramian.kernels import RBF
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> draw_landmarks(Gram(RBF(0.01), X), 20, random_state=0).size
    20
    """
    return landmarks_and_factor(gram, rank, random_state)[0]


for _choose in (rpcholesky, draw_landmarks):
    filled(_choose, SHARED)


def landmarks_and_factor(gram: Gram, rank: int, random_state: Seed = None) -> tuple[Index, Array]:
    """``draw_landmarks``, with the Cholesky factor of K at the landmarks: → (r,), (r, r)."""
    diagonal, rng = checked(gram, rank), random_of(random_state)
    n, half = gram.shape[0], rank // 2
    chosen, lower, stale = np.zeros(0, np.intp), np.zeros((0, 0)), diagonal
    drawn = accepted = 0  # since ``stale`` was computed
    while chosen.size < rank:
        total = float(stale.sum())
        if n >= WORTH * rank and total > 0:
            wanted = rank - chosen.size
            size = min(max(CHUNK, rank // CHUNKS), WORTH * wanted)
            pool = rng.choice(n, size=size, p=stale / total)
            draws = pool, stale[pool], rng.random_sample(size)
            found, lower = _accepted(gram, chosen, lower, draws, diagonal, wanted)
            chosen, drawn, accepted = np.concatenate([chosen, found]), drawn + size, accepted + found.size
        if chosen.size < rank and accepted * WORTH <= drawn:
            # The spectrum decays fast, or ends: all rows must be considered.
            enough = half if chosen.size < half and n >= WORTH * rank else rank
            grown = rpcholesky(gram, enough, rng, start=chosen)
            chosen, lower, stale = grown.indices, np.tril(grown.factor[grown.indices]), grown.residual
            drawn = accepted = 0
            if grown.rank < enough:
                break
    return chosen, lower


def _accepted(
    gram: Gram, chosen: Index, lower: Array, draws: tuple[Index, Array, Array], diagonal: Array, wanted: int
) -> tuple[Index, Array]:
    """The candidates that become landmarks, at most ``wanted``, and the Cholesky factor of K at all landmarks.

    ``draws`` are the candidates, the residuals by which they were drawn, and uniform numbers.
    """
    pool, stale, uniforms = draws
    rows, where = np.unique(np.concatenate([chosen, pool]), return_inverse=True)
    block, old, new = gram.submatrix(rows), where[: chosen.size], where[chosen.size :]
    K = block.dense().astype(np.float64, copy=False)[new]
    H: Array = K[:, new]
    F = K[:, old]
    if chosen.size:
        F = scipy.linalg.blas.dtrsm(1.0, lower.T, F.T, trans_a=1, overwrite_b=1).T
        H -= F @ F.T
    kept, corner = eliminate(H, stale, uniforms, rounding_floor(block, diagonal), wanted)
    return pool[kept], np.block([[lower, np.zeros((chosen.size, kept.size))], [F[kept], corner]])
