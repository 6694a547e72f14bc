"""Diagnosis of a Gram matrix that cannot be inverted: rows that coincide, or eigenvalues below zero."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramian.gram import Gram, SymmetricGram
from gramian.numerals import listed
from gramian.resources import spans
from gramian.solvers.spectral.eigen import lowest

SAME = 1e-12
"""Squared distance in feature space, relative to k(x, x), below which two rows coincide."""
DENSE_ROWS = 2000
"""Rows up to which all eigenvalues are computed."""
PROBE = 256
"""Rows compared with all others at a time."""
SHOWN = 5
"""Pairs of rows listed in a message."""


def smallest_eigenvalue(gram: Gram, dense_rows: int = DENSE_ROWS) -> float:
    """Return the smallest eigenvalue of K, or, for many rows, a close upper bound on it."""
    n = gram.shape[0]
    if n <= dense_rows:
        return float(scipy.linalg.eigvalsh(gram.rows(slice(None)).astype(np.float64), subset_by_index=[0, 0])[0])
    return lowest(SymmetricGram(gram, gram.memory, np.float64))


def coinciding_rows(gram: Gram) -> list[tuple[int, int]]:
    """Find pairs of rows that coincide in feature space."""
    diagonal = gram.diagonal().astype(np.float64)
    threshold = SAME * float(np.abs(diagonal).max(initial=0.0))
    pairs: list[tuple[int, int]] = []
    for rows in spans(gram.shape[0], PROBE):
        K = gram.rows(rows, slice(0, rows.stop)).astype(np.float64)
        near = diagonal[rows, None] + diagonal[None, : rows.stop] - 2.0 * K <= threshold
        near &= np.arange(rows.stop)[None, :] < np.arange(rows.start, rows.stop)[:, None]
        found = np.flatnonzero(near.any(axis=1))
        pairs += [(int(near[i].argmax()), rows.start + int(i)) for i in found]
    return pairs


def diagnosis(gram: Gram, rows: NDArray[np.intp] | None = None) -> str:
    """Say why K is (nearly) singular, and what to do; rows (n,) are the row numbers for the message."""
    value = smallest_eigenvalue(gram)
    scale = float(np.abs(gram.diagonal()).max(initial=0.0))
    if value < -1e-10 * gram.shape[0] * scale:
        return f"the kernel is not positive semi-definite on these rows: K has the eigenvalue {value:.3g} < 0"
    pairs = coinciding_rows(gram)
    if pairs:
        names = np.arange(gram.shape[0]) if rows is None else rows
        shown = listed((f"{names[i]} and {names[j]}" for i, j in pairs), SHOWN)
        return f"K is singular: rows coincide ({shown}), smallest eigenvalue {value:.1e}"
    return (
        f"K is numerically singular (smallest eigenvalue {value:.1e}, diagonal {scale:.3g}), though no two rows "
        "coincide: the kernel is too smooth, or of too low a rank, for that many rows"
    )
