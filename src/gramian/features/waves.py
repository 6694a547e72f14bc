"""Cosines and sines of X @ W by blocks of rows, on threads; temporaries are no larger than a block."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.kernels import points
from gramian.resources import run, spans, worker_count

BYTES = 1 << 20
"""Bytes of the phases of a block: few enough for the cache, enough that threads rarely wait for the interpreter."""
BLOCKS = 4
"""Blocks that share one scratch array."""
SMALL = 1 << 17
"""Number of phases up to which one thread is used."""
PHASES = 1e3
"""Phases of float32 rows that may be larger than this are computed in double precision."""
COMPILED = 1 << 22
"""Number of phases from which compiled code is used, in float32 only, where NumPy is limited by memory bandwidth."""


def waves(
    X: Any,
    W: NDArray[np.float64],
    offset: NDArray[np.float64],
    scale: float,
    size: int,
    n_jobs: int | None,
    center: NDArray[Any] | float = 0.0,
) -> NDArray[Any]:
    """Return the first ``size`` columns of ``scale · (cos P, sin P)``, ``P = (X - center) @ W + offset``, by blocks."""
    out = np.empty((X.shape[0], size), X.dtype)
    work = np.dtype(np.float64) if X.dtype != np.float32 or _reach(X, W, center) > PHASES else X.dtype
    half = np.ascontiguousarray(0.5 * W, work)
    dense, centred = isinstance(X, np.ndarray), bool(np.any(center))
    # A sparse X is not centred; its phases are shifted instead.
    shift = np.asarray(0.5 * (offset if dense or not centred else offset - center @ W), work)
    shifted = bool(np.any(shift))
    middle = np.asarray(center, work) if dense and centred else None
    n, m = X.shape[0], W.shape[1]
    height = max(BYTES // (half.itemsize * m), 1)
    fill = _filler(work, n * m)

    def several(blocks: list[slice]) -> None:
        scratch = np.empty((2, height, m), work)
        for rows in blocks:
            part = X[rows] if middle is None else X[rows] - middle
            phases, spare = scratch[:, : part.shape[0]]
            if dense:
                np.matmul(part, half, out=phases)
            else:
                phases[:] = part @ half
            if shifted:
                phases += shift
            fill(phases, spare, scale, out[rows])

    blocks = spans(n, height)
    workers = worker_count(n_jobs) if n * m > SMALL else 1
    run(several, [blocks[part] for part in spans(len(blocks), BLOCKS)], workers)
    return out


def _reach(X: Any, W: NDArray[np.float64], center: NDArray[Any] | float) -> float:
    """Return a bound on the phases."""
    rows = X - np.asarray(center, X.dtype) if isinstance(X, np.ndarray) else X
    squares = points.squared_norms(rows) if isinstance(X, np.ndarray) else rows.multiply(rows).sum(axis=1)
    return math.sqrt(float(np.max(squares, initial=0.0)) * float(points.squared_norms(W.T).max()))


def _filler(dtype: Any, phases: int) -> Callable[[NDArray[Any], NDArray[Any], float, NDArray[Any]], None]:
    if dtype != np.float32 or phases < COMPILED:
        return _by_tangents
    from gramian.gram.loops import fill_waves

    return lambda half, _, scale, out: fill_waves(half, np.float32(scale), out)


def _by_tangents(t: NDArray[Any], u: NDArray[Any], scale: float, out: NDArray[Any]) -> None:
    """Cosine and sine from one tangent: with t = tan(p/2) and u = 2/(1 + t²), cos p = u - 1 and sin p = t u.

    Accurate to a few ulps. In double precision NumPy vectorises the tangent but not the cosine.
    """
    m = t.shape[1]
    sines = out.shape[1] - m
    np.tan(t, out=t)
    np.multiply(t, t, out=u)
    u += 1.0
    np.divide(2.0 * scale, u, out=u)
    np.multiply(t[:, :sines], u[:, :sines], out=out[:, m:])
    np.subtract(u, scale, out=out[:, :m])
