"""cos and sin of X @ W by row blocks, on threads, without a temporary larger than a block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.gram.tiles import run, spans, worker_count

__all__ = ["cosines", "pairs_of_waves"]

CELLS = 1 << 16
"""Phases of a block: it stays in the cache through all passes."""
BLOCKS = 16
"""Blocks that share one scratch array."""
SMALL = 1 << 17
"""Phases that are not worth a second thread."""


def pairs_of_waves(
    X: Any,
    center: NDArray[Any],
    W: NDArray[np.float64],
    offset: NDArray[np.float64],
    scale: float,
    size: int,
    n_jobs: int | None,
) -> NDArray[Any]:
    """Return the first columns of ``scale · (cos P, sin P)``, ``P = (X - center) @ W + offset``.

    Both come from one tangent: with ``t = tan(p/2)`` and ``u = 2/(1 + t²)``, ``cos p = u - 1`` and ``sin p = t u``,
    to a few units of rounding. NumPy's tangent is vectorised in double precision where its cosine is not.

    Parameters
    ----------
    X : array or CSR of shape (n, d)
        Rows, float32 or float64.
    center : array of shape (d,)
        What is subtracted first.
    W : array of shape (d, m)
        Frequencies.
    offset : array of shape (m,)
        Phases.
    scale : float
        Factor of every entry.
    size : int
        Columns, 2 m or fewer.
    n_jobs : int or None
        Threads; ``None`` for every core.

    Returns
    -------
    array of shape (n, size)
        In the dtype of X.
    """
    m = W.shape[1]
    out = np.empty((X.shape[0], size), X.dtype)

    def waves(rows: slice, t: NDArray[Any], u: NDArray[Any]) -> None:
        np.multiply(t[:, : size - m], u[:, : size - m], out=out[rows, m:])
        np.subtract(u, scale, out=out[rows, :m])

    _by_blocks(X, center, W, offset, scale, waves, n_jobs)
    return out


def cosines(
    X: Any, W: NDArray[np.float64], offset: NDArray[np.float64], scale: float, n_jobs: int | None
) -> NDArray[Any]:
    """Return ``scale · cos(X @ W + offset)``.

    Parameters
    ----------
    X : array or CSR of shape (n, d)
        Rows, float32 or float64.
    W : array of shape (d, m)
        Frequencies.
    offset : array of shape (m,)
        Phases.
    scale : float
        Factor of every entry.
    n_jobs : int or None
        Threads; ``None`` for every core.

    Returns
    -------
    array of shape (n, m)
        In the dtype of X.
    """
    out = np.empty((X.shape[0], W.shape[1]), X.dtype)

    def waves(rows: slice, t: NDArray[Any], u: NDArray[Any]) -> None:
        np.subtract(u, scale, out=out[rows])

    _by_blocks(X, np.zeros(X.shape[1]), W, offset, scale, waves, n_jobs)
    return out


def _by_blocks(
    X: Any,
    center: NDArray[Any],
    W: NDArray[np.float64],
    offset: NDArray[np.float64],
    scale: float,
    use: Callable[[slice, NDArray[Any], NDArray[Any]], None],
    n_jobs: int | None,
) -> None:
    """Hand ``t``, tangents of half the phases, and ``2 scale / (1 + t²)`` to ``use``, block by block."""
    half = np.ascontiguousarray(0.5 * W, X.dtype)
    dense = isinstance(X, np.ndarray)
    # A sparse X stays as it is: the centre moves the phases instead.
    shift = np.asarray(0.5 * (offset if dense else offset - center @ W), X.dtype)
    shifted = bool(np.any(shift))
    middle = np.asarray(center, X.dtype) if dense and np.any(center) else None
    n, m = X.shape[0], W.shape[1]
    height = max(CELLS // m, 1)

    def several(blocks: list[slice]) -> None:
        scratch = np.empty((2, height, m), X.dtype)
        for rows in blocks:
            part = X[rows] if middle is None else X[rows] - middle
            t, u = scratch[:, : part.shape[0]]
            if dense:
                np.matmul(part, half, out=t)
            else:
                t[:] = part @ half
            if shifted:
                t += shift
            np.tan(t, out=t)
            np.multiply(t, t, out=u)
            u += 1.0
            np.divide(2.0 * scale, u, out=u)
            use(rows, t, u)

    blocks = spans(n, height)
    workers = worker_count(n_jobs) if n * m > SMALL else 1
    run(several, [blocks[part] for part in spans(len(blocks), BLOCKS)], workers)
