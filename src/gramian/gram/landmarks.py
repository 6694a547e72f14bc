"""Landmarks by randomly pivoted Cholesky, without the factor.

The factor on all rows is what ``rpcholesky`` costs, n rank² operations. Its law needs far less: a row drawn by a stale
residual and accepted with the probability (residual now) / (residual then) is a row drawn by the residual now. So the
first half of the landmarks is chosen by the factor on all rows, at a quarter of the cost, and the second half from a
pool drawn by the residual that the first leaves, where only the pool's own block of K is eliminated.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from gramian.gram.operator import Gram
from gramian.gram.pivots import Seed, checked, rounding_floor
from gramian.gram.rpcholesky import eliminate, rpcholesky
from gramian.resources import spans

__all__ = ["draw_landmarks"]

CHUNK = 200
"""Candidates that are gone through one by one before the rest of the pool is brought up to date."""
WORTH = 4
"""Rows per landmark from which on the factor on all rows is worth avoiding."""
STALE = 0.1
"""Share of a pool, at least, that is accepted; below it the residual is too stale to draw by."""

Index = NDArray[np.intp]
Array = NDArray[np.float64]


def draw_landmarks(gram: Gram, rank: int, random_state: Seed = None) -> Index:
    """Choose landmarks by the law of ``rpcholesky``, at n rank² / 4 operations.

    Parameters
    ----------
    gram : Gram
        K of X with itself.
    rank : int
        How many landmarks at most; fewer where the rest is rounding.
    random_state : int, RandomState or None, default=None
        Seed.

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
    diagonal, rng = checked(gram, rank), check_random_state(random_state)
    n, half, start = gram.shape[0], rank // 2, rng.get_state()
    if half == 0 or n < WORTH * rank:
        return rpcholesky(gram, rank, rng).indices
    first = rpcholesky(gram, half, rng)
    chosen, stale, floor = first.indices, first.residual, rounding_floor(gram, diagonal)
    while chosen.size < rank:
        wanted, found, total = rank - chosen.size, np.zeros(0, np.intp), float(stale.sum())
        if first.rank == half and total > 0:
            pool = rng.choice(n, size=rank, p=stale / total)
            found = _accepted(gram, chosen, pool, stale[pool], rng.random_sample(rank), floor, wanted)
        if found.size < min(STALE * rank, wanted):
            # A spectrum that falls fast, or ends: all rows must be looked at.
            rng.set_state(start)
            return rpcholesky(gram, rank, rng).indices
        chosen = np.concatenate([chosen, found])
    return chosen


def _accepted(
    gram: Gram, chosen: Index, pool: Index, stale: Array, uniforms: Array, floor: float, wanted: int
) -> Index:
    """Which of the pool become landmarks after those chosen already, as many as are wanted."""
    H = _left(gram, chosen, pool)
    taken = np.zeros(0, np.intp)
    for chunk in spans(pool.size, CHUNK):
        kept, lower = eliminate(H[chunk, chunk].copy(), stale[chunk], uniforms[chunk], floor)
        taken = np.append(taken, pool[chunk][kept])
        if taken.size >= wanted:
            break
        rest = slice(chunk.stop, None)
        W = scipy.linalg.solve_triangular(lower, H[chunk, rest][kept], lower=True, check_finite=False)
        H[rest, rest] -= W.T @ W
    return taken[:wanted]


def _left(gram: Gram, chosen: Index, pool: Index) -> Array:
    """What the landmarks leave of the pool's block of K."""
    block = gram.rows(chosen, chosen).astype(np.float64, copy=False)
    upper = np.linalg.cholesky(block).T
    F = gram.rows(pool, chosen).astype(np.float64, copy=False)
    F = scipy.linalg.blas.dtrsm(1.0, upper, F.T, trans_a=1, overwrite_b=1)
    H: Array = gram.rows(pool, pool).astype(np.float64, copy=False)
    H -= F.T @ F
    return H
