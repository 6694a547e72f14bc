"""Landmarks by randomly pivoted Cholesky: each drawn in proportion to what the earlier ones leave of its row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from gramian.gram.operator import Gram
from gramian.gram.pivots import Pivots, Seed, checked, checked_tol, done, inverse, rounding_floor
from gramian.kernels.tunable import natural
from gramian.resources import one_blas_thread, run, spans

__all__ = ["eliminate", "rpcholesky"]

STRIP = 4096
"""Rows of F that a thread makes at a time, at most: few enough to stay in its cache."""
STRIPS = 8
"""Strips at least, so that threads share them evenly, unless rows are few."""


def rpcholesky(
    gram: Gram,
    rank: int,
    random_state: Seed = None,
    *,
    tol: float = 0.0,
    block: int | None = None,
    dtype: Any = np.float64,
    store: NDArray[Any] | None = None,
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
    store : array of shape (rank or more, n) or None, default=None
        Where to write the transposed factor, for whoever has more to put behind it; of that dtype.

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
    diagonal = checked(gram, rank)
    rng = check_random_state(random_state)
    block = min(max(10, -(-rank // 10)), 200) if block is None else natural("block", block)
    tol = checked_tol(tol)
    given = store is not None
    if store is None:
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
    found = store[: len(chosen)]
    # What was reserved for nothing goes.
    return done(chosen, found.T if given or len(chosen) == rank else found.copy().T, diagonal, residual)


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
    known, small = found[:, index].T.copy(), inverse(lower).astype(store.dtype)
    single = gram.on(1)  # a strip is one thread's work

    def strip(columns: slice) -> None:
        rows = single.rows(index, columns, np.empty((index.size, columns.stop - columns.start), store.dtype))
        rows -= known @ found[:, columns]
        rows = np.matmul(small, rows, out=new[:, columns])
        left = residual[columns]
        np.maximum(left - np.einsum("ij,ij->j", rows, rows, dtype=np.float64), 0.0, out=left)

    run(strip, spans(gram.shape[0], _strip(gram.shape[0])), gram.workers)


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
