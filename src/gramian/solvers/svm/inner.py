"""The compiled parts of SMO: pair steps inside a working set, and sums of kernel rows.

Imported only when a fit begins, because numba costs a good part of a second. All loops are written so that they
vectorise: minima are taken lane by lane over blocks, and an index is looked up once its value is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.compiled import compiled

Array = NDArray[Any]
LANES = 64
ETA_FLOOR = 1e-12


@compiled(nogil=True, inline="always")
def _offsets(b: float, lo: float, hi: float, kink: float) -> tuple[float, float]:
    up = (kink if b >= 0.0 else -kink) if b < hi else np.inf
    down = (kink if b > 0.0 else -kink) if b > lo else -np.inf
    return up, down


@compiled(nogil=True, fastmath={"nnan", "nsz", "contract"})
def _steepest(gradient: Array, up: Array, down: Array, lanes_up: Array, lanes_down: Array) -> tuple[int, float, float]:
    """Position of the least slope up, its value, and the greatest slope down."""
    if gradient.size == 0:
        return 0, np.inf, -np.inf
    lanes_up[:] = np.inf
    lanes_down[:] = -np.inf
    whole = gradient.size // LANES
    # Slices, because numba checks a computed index for its sign, and the check keeps the loop from vectorising.
    for block in range(whole):
        span = slice(block * LANES, (block + 1) * LANES)
        g, u, d = gradient[span], up[span], down[span]
        for k in range(LANES):
            a, b = g[k] + u[k], g[k] + d[k]
            lanes_up[k] = a if a < lanes_up[k] else lanes_up[k]
            lanes_down[k] = b if b > lanes_down[k] else lanes_down[k]
    for t in range(whole * LANES, gradient.size):
        lanes_up[0] = min(lanes_up[0], gradient[t] + up[t])
        lanes_down[0] = max(lanes_down[0], gradient[t] + down[t])
    least, greatest = lanes_up.min(), lanes_down.max()
    where = 0
    for k in range(LANES):
        if lanes_up[k] == least:
            where = k
    while where < gradient.size - LANES and gradient[where] + up[where] != least:
        where += LANES
    if gradient[where] + up[where] != least:
        where = 0
        while where < gradient.size - 1 and gradient[where] + up[where] != least:
            where += 1
    return where, least, greatest


@compiled(nogil=True, fastmath={"nnan", "nsz", "contract", "arcp"})
def _gains(row: Array, own: float, diagonal: Array, gradient: Array, down: Array, level: float, gains: Array) -> None:
    """Fill what a step of i with each j gains, to second order."""
    for t in range(gains.size):
        d = gradient[t] + down[t] - level
        d = d if d > 0.0 else 0.0
        curvature = own + diagonal[t] - 2.0 * row[t]
        curvature = curvature if curvature > ETA_FLOOR else ETA_FLOOR
        gains[t] = d * d / curvature


@compiled(nogil=True, fastmath={"nnan", "nsz"})
def _largest(values: Array, lanes: Array) -> int:
    """Position of the largest of some numbers that are not negative."""
    lanes[:] = -1.0
    whole = values.size // LANES
    for block in range(whole):
        v = values[block * LANES : (block + 1) * LANES]
        for k in range(LANES):
            lanes[k] = v[k] if v[k] > lanes[k] else lanes[k]
    best = lanes.max()
    where = 0
    for k in range(LANES):
        if lanes[k] == best:
            where = k
    while where < whole * LANES - LANES and values[where] != best:
        where += LANES
    for t in range(whole * LANES, values.size):
        if values[t] > best:
            best, where = values[t], t
    return where


@compiled(nogil=True, fastmath={"nnan", "nsz", "contract"})
def _move(a: Array, b: Array, gradient: Array, step: float) -> None:
    for t in range(gradient.size):
        gradient[t] += step * (a[t] - b[t])


@compiled(nogil=True)
def pair_steps(
    K: Array,
    diagonal: Array,
    beta: Array,
    lower: Array,
    upper: Array,
    gradient: Array,
    kink: float,
    split: int,
    tol: float,
    limit: int,
    noise: float,
) -> tuple[int, bool]:
    """Run SMO inside a working set until its worst violation is at most ``tol``."""
    q = beta.size
    up, down, gains = np.empty(q), np.empty(q), np.empty(q)
    lanes_up, lanes_down = np.empty(LANES), np.empty(LANES)
    for t in range(q):
        up[t], down[t] = _offsets(beta[t], lower[t], upper[t], kink)
    bent = False
    for step in range(limit):
        start, stop = 0, split
        i, least, greatest = _steepest(gradient[:split], up[:split], down[:split], lanes_up, lanes_down)
        if split < q:
            other, least2, greatest2 = _steepest(gradient[split:], up[split:], down[split:], lanes_up, lanes_down)
            if greatest2 - least2 > greatest - least:
                i, least, greatest, start, stop = split + other, least2, greatest2, split, q
        if not greatest - least > tol:
            return step, bent
        span = slice(start, stop)
        _gains(K[i, span], diagonal[i], diagonal[span], gradient[span], down[span], least, gains[span])
        j = start + _largest(gains[span], lanes_up)
        curvature = diagonal[i] + diagonal[j] - 2.0 * K[i, j]
        bent |= curvature < -noise * (abs(diagonal[i]) + abs(diagonal[j]))
        curvature = max(curvature, ETA_FLOOR)
        move = (gradient[j] + down[j] - least) / curvature
        top = 0.0 if kink > 0.0 and beta[i] < 0.0 else upper[i]
        bottom = 0.0 if kink > 0.0 and beta[j] > 0.0 else lower[j]
        room_i, room_j = top - beta[i], beta[j] - bottom
        move = min(move, room_i, room_j)
        # Land on a bound exactly: a bound missed by rounding counts as free.
        beta[i] = top if move == room_i else beta[i] + move
        beta[j] = bottom if move == room_j else beta[j] - move
        _move(K[i], K[j], gradient, move)
        up[i], down[i] = _offsets(beta[i], lower[i], upper[i], kink)
        up[j], down[j] = _offsets(beta[j], lower[j], upper[j], kink)
    return limit, bent


@compiled(nogil=True, fastmath={"contract"})
def add_rows(store: Array, slots: Array, weights: Array, out: Array, start: int, stop: int) -> None:
    """Add ``weights @ store[slots]`` to ``out``, in float64, for the columns from ``start`` to ``stop``."""
    width = 2048
    for left in range(start, stop, width):
        right = min(left + width, stop)
        total = out[left:right]
        k = 0
        # Four rows at a time: the sums stay in registers while four rows stream by.
        while k + 3 < slots.size:
            a, b = store[slots[k], left:right], store[slots[k + 1], left:right]
            c, d = store[slots[k + 2], left:right], store[slots[k + 3], left:right]
            wa, wb, wc, wd = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
            for t in range(right - left):
                total[t] += (wa * a[t] + wb * b[t]) + (wc * c[t] + wd * d[t])
            k += 4
        while k < slots.size:
            a, wa = store[slots[k], left:right], weights[k]
            for t in range(right - left):
                total[t] += wa * a[t]
            k += 1


@compiled(nogil=True)
def compact(flat: Array, width: int, columns: Array, rows: int) -> None:
    """Keep only some columns of the first rows of a matrix stored flat, in place: a third of NumPy's time by rows."""
    for r in range(rows):
        source, target = r * width, r * columns.size
        for t in range(columns.size):
            flat[target + t] = flat[source + columns[t]]
