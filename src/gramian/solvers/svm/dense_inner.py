"""The compiled part of ``dense``: pair steps and the active-set method for many small problems in one call.

Imported only when a fit begins, because numba costs a good part of a second. There are loops where NumPy would have one
expression: numba compiles an assignment between arrays for seconds, with the text of every error it might raise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.compiled import compiled
from gramian.solvers.svm.tasks import SNAP

Array = NDArray[Any]
V, N, M, B = "f8[::1]", "i8[::1]", "f8[:, ::1]", "b1[::1]"
"""The types of arrays: numbers, positions, matrices, marks."""
EPSILON = float(np.finfo(np.float64).eps)
ETA_FLOOR = 1e-12
RIDGE = 1e-14
STEPS, VIOLATION, DUAL, GAP, CAREFUL_GAP, NORM2, SIZE, LENGTH, FIRST, SECOND, OFF, FAILED, SPREAD = range(13)
"""Columns of the figures: what is known of a problem when it is done."""
FIGURES = 13


@compiled(f"f8({V}, {V}, i8)", nogil=True, error_model="numpy", fastmath={"nnan", "nsz", "contract", "reassoc"})
def _dot(a: Array, b: Array, size: int) -> float:
    total = 0.0
    for t in range(size):
        total += a[t] * b[t]
    return total


@compiled(f"{V}({M}, {N}, i8, {M}, {B})", nogil=True, error_model="numpy")
def _row(K: Array, ids: Array, t: int, B: Array, made: Array) -> Array:
    """K between one object of a problem and all of them, gathered when it is first asked for."""
    if not made[t]:
        source, row = K[ids[t]], B[t]
        for u in range(ids.size):
            row[u] = source[ids[u]]
        made[t] = True
    return B[t]


@compiled(f"void({M}, {N}, {V}, {V}, {M}, {B}, {V})", nogil=True, error_model="numpy")
def _gradient(K: Array, ids: Array, linear: Array, beta: Array, B: Array, made: Array, gradient: Array) -> None:
    for t in range(beta.size):
        gradient[t] = linear[t]
    for t in range(beta.size):
        if beta[t] != 0.0:
            row, b = _row(K, ids, t, B, made), beta[t]
            for u in range(beta.size):
                gradient[u] += b * row[u]


@compiled(f"void({V}, {V}, {V}, f8, {V}, {V}, {V})", nogil=True, error_model="numpy")
def _slopes(beta: Array, lower: Array, upper: Array, kink: float, gradient: Array, up: Array, down: Array) -> None:
    for t in range(beta.size):
        b = beta[t]
        up[t] = gradient[t] + (kink if b >= 0.0 else -kink) if b < upper[t] else np.inf
        down[t] = gradient[t] + (kink if b > 0.0 else -kink) if b > lower[t] else -np.inf


@compiled(f"f8({V}, {V}, i8, i8)", nogil=True, error_model="numpy")
def _multiplier(up: Array, down: Array, start: int, stop: int) -> float:
    """The mean slope of the free variables, else the middle of what the KKT conditions allow."""
    total, count, low, high = 0.0, 0, -np.inf, np.inf
    for t in range(start, stop):
        if up[t] == down[t]:
            total, count = total + up[t], count + 1
        low, high = max(low, down[t]), min(high, up[t])
    if count:
        return total / count
    if np.isinf(low) or np.isinf(high):
        return low if np.isinf(high) else high
    return 0.5 * (low + high)


@compiled(
    f"Tuple((i8, b1))({M}, {N}, {V}, {V}, f8, i8, f8, i8, f8, {V}, {V}, {M}, {B})", nogil=True, error_model="numpy"
)
def _pair_steps(
    K: Array, ids: Array, lower: Array, upper: Array, kink: float, split: int, tol: float, limit: int, noise: float,
    beta: Array, gradient: Array, B: Array, made: Array,
) -> tuple[int, bool]:  # fmt: skip
    """SMO by second-order working sets (Fan, Chen, Lin 2005) until no pair of a group violates by more than ``tol``."""
    m, bent = beta.size, False
    for step in range(limit):
        i, least, greatest, start, stop = 0, np.inf, -np.inf, 0, split
        for g in range(2):
            a, z = (0, split) if g == 0 else (split, m)
            low, high, where = np.inf, -np.inf, a
            for t in range(a, z):
                b, d = beta[t], gradient[t]
                u = d + (kink if b >= 0.0 else -kink)
                if b < upper[t] and u < low:
                    low, where = u, t
                v = d + (kink if b > 0.0 else -kink)
                if b > lower[t] and v > high:
                    high = v
            if high - low > greatest - least:
                i, least, greatest, start, stop = where, low, high, a, z
        if not greatest - least > tol:
            return step, bent
        row = _row(K, ids, i, B, made)
        own, best, j = row[i], -1.0, start
        for t in range(start, stop):
            b = beta[t]
            d = gradient[t] + (kink if b > 0.0 else -kink) - least
            if b > lower[t] and d > 0.0:
                curvature = max(own + K[ids[t], ids[t]] - 2.0 * row[t], ETA_FLOOR)
                if d * d > best * curvature:
                    best, j = d * d / curvature, t
        other = _row(K, ids, j, B, made)
        curvature = own + other[j] - 2.0 * row[j]
        bent |= curvature < -noise * (abs(own) + abs(other[j]))
        move = (gradient[j] + (kink if beta[j] > 0.0 else -kink) - least) / max(curvature, ETA_FLOOR)
        top = 0.0 if kink > 0.0 and beta[i] < 0.0 else upper[i]
        bottom = 0.0 if kink > 0.0 and beta[j] > 0.0 else lower[j]
        room_i, room_j = top - beta[i], beta[j] - bottom
        move = min(move, room_i, room_j)
        # Land on a bound exactly: a bound missed by rounding counts as free.
        beta[i] = top if move == room_i else beta[i] + move
        beta[j] = bottom if move == room_j else beta[j] - move
        for t in range(m):
            gradient[t] += move * (row[t] - other[t])
    return limit, bent


@compiled(f"void({M}, {V}, i8)", nogil=True, error_model="numpy")
def _solve(H: Array, right: Array, size: int) -> None:
    """Overwrite the right-hand side with ``(H + ridge)⁻¹`` times it; H keeps its upper half, diagonal included."""
    diagonal, ridge, largest = np.empty(size), 0.0, 0.0
    for i in range(size):
        largest = max(largest, abs(H[i, i]))
    ridge = RIDGE * largest if largest > 0.0 else RIDGE
    while True:
        done = True
        for i in range(size):
            for j in range(i):
                H[i, j] = (H[j, i] - _dot(H[i], H[j], j)) / diagonal[j]
            left = H[i, i] + ridge - _dot(H[i], H[i], i)
            if not left > 0.0:
                done, ridge = False, 100.0 * ridge
                break
            diagonal[i] = np.sqrt(left)
        if done:
            break
    for i in range(size):
        right[i] = (right[i] - _dot(H[i], right, i)) / diagonal[i]
    for i in range(size - 1, -1, -1):
        right[i] /= diagonal[i]
        for j in range(i):
            right[j] -= H[i, j] * right[i]


@compiled(f"void({M}, {N}, i8, {V}, {B}, f8, {V})", nogil=True, error_model="numpy")
def _newton(K: Array, ids: Array, split: int, slope: Array, moving: Array, noise: float, step: Array) -> None:
    """The step of the moving variables to where their slopes are equal, group by group, or far down where they fall.

    In the differences from one moving variable of each group, which leave the sums of the groups alone.
    """
    m = moving.size
    for t in range(m):
        step[t] = 0.0
    free, anchor, size = np.empty(m, np.int64), np.empty(m, np.int64), 0
    for g in range(2):
        first = -1
        for t in range(0 if g == 0 else split, split if g == 0 else m):
            if moving[t] and first < 0:
                first = t
            elif moving[t]:
                free[size], anchor[size] = t, first
                size += 1
    right, worst = np.empty(size), 0.0
    for i in range(size):
        right[i] = slope[free[i]] - slope[anchor[i]]
        worst = max(worst, abs(right[i]))
    if worst <= noise:
        return
    H, found = np.empty((size, size)), np.empty(size)
    for i in range(size):
        found[i] = -right[i]
        own, base = K[ids[free[i]]], K[ids[anchor[i]]]
        for j in range(i, size):
            f, a = ids[free[j]], ids[anchor[j]]
            H[i, j] = own[f] - own[a] - base[f] + base[a]
    _solve(H, found, size)
    fall, curvature = -_dot(right, found, size), 0.0
    for i in range(size):
        total = 0.5 * H[i, i] * found[i]
        for j in range(i + 1, size):
            total += H[i, j] * found[j]
        curvature += 2.0 * total * found[i]
    if not fall > 0.0:
        return
    length = fall / curvature if curvature > EPSILON * fall else 1.0 / EPSILON
    for i in range(size):
        step[free[i]] += length * found[i]
        step[anchor[i]] -= length * found[i]


@compiled(f"b1({M}, {N}, {V}, {V}, {V}, f8, i8, f8, {V}, {V}, {M}, {B})", nogil=True, error_model="numpy")
def _active_set(
    K: Array, ids: Array, linear: Array, lower: Array, upper: Array, kink: float, split: int, work: float,
    beta: Array, gradient: Array, B: Array, made: Array,
) -> bool:  # fmt: skip
    """``active_set.polish`` within some work: solve the KKT equations of the free variables; tell whether it ended."""
    m = beta.size
    sign, moving, step, slope = np.empty(m), np.empty(m, np.bool_), np.empty(m), np.empty(m)
    up, down, last, fresh, top, largest = np.empty(m), np.empty(m), np.inf, False, 0.0, 0.0
    for t in range(m):
        sign[t] = 1.0 if beta[t] > 0.0 else -1.0 if beta[t] < 0.0 else 0.0
        moving[t] = lower[t] < beta[t] < upper[t] and (sign[t] != 0.0 or kink == 0.0)
        top, largest = max(top, abs(K[ids[t], ids[t]])), max(largest, abs(linear[t]))
    while work > 0.0:
        total, count = 0.0, 0
        for t in range(m):
            total += np.sqrt(abs(K[ids[t], ids[t]])) * abs(beta[t])
            slope[t] = gradient[t] + kink * sign[t]
            count += moving[t]
        work -= count**3 / 3.0 + count * m
        noise = EPSILON * (np.sqrt(top) * total + largest)
        _newton(K, ids, split, slope, moving, noise, step)
        length = 1.0
        for t in range(m):
            if moving[t] and step[t] != 0.0:
                low = 0.0 if kink > 0.0 and sign[t] > 0.0 else lower[t]
                high = 0.0 if kink > 0.0 and sign[t] < 0.0 else upper[t]
                length = min(length, (high - beta[t] if step[t] > 0.0 else beta[t] - low) / abs(step[t]))
        stopped = False
        for t in range(m):
            if moving[t] and step[t] != 0.0:
                low = 0.0 if kink > 0.0 and sign[t] > 0.0 else lower[t]
                high = 0.0 if kink > 0.0 and sign[t] < 0.0 else upper[t]
                room = high - beta[t] if step[t] > 0.0 else beta[t] - low
                before = beta[t]
                if room / abs(step[t]) <= length:
                    beta[t] = high if step[t] > 0.0 else low
                    moving[t], stopped = False, True
                else:
                    beta[t] += length * step[t]
                row, change = _row(K, ids, t, B, made), beta[t] - before
                fresh &= change == 0.0
                for u in range(m):
                    gradient[u] += change * row[u]
        if stopped:
            continue
        _slopes(beta, lower, upper, kink, gradient, up, down)
        # The worst of a group that has moving variables, the worst pair of another.
        worst, riser, faller, spread = 4.0 * noise, -1, -1, 0.0
        for g in range(2):
            a, z = (0, split) if g == 0 else (split, m)
            level, count, i, j, low, high = 0.0, 0, -1, -1, np.inf, -np.inf
            for t in range(a, z):
                if moving[t]:
                    level, count = level + 0.5 * (up[t] + down[t]), count + 1
                    low, high = min(low, gradient[t] + kink * sign[t]), max(high, gradient[t] + kink * sign[t])
                else:
                    i = t if i < 0 or up[t] < up[i] else i
                    j = t if j < 0 or down[t] > down[j] else j
            spread = max(spread, high - low if count else 0.0)
            if i < 0:
                continue
            if not count:
                if down[j] - up[i] > worst:
                    worst, riser, faller = down[j] - up[i], i, j
                continue
            level /= count
            if level - up[i] > worst:
                worst, riser, faller = level - up[i], i, -1
            if down[j] - level > worst:
                worst, riser, faller = down[j] - level, -1, j
        if riser >= 0:
            moving[riser], sign[riser] = True, 1.0 if beta[riser] >= 0.0 else -1.0
        if faller >= 0:
            moving[faller], sign[faller] = True, 1.0 if beta[faller] > 0.0 else -1.0
        if riser >= 0 or faller >= 0:
            last = np.inf
        elif not fresh:
            _gradient(K, ids, linear, beta, B, made, gradient)
            fresh = True
        else:
            # No variable is to move; another step removes what rounding left of the last one, if anything.
            if not noise < spread < 0.5 * last:
                return True
            last = spread
    return False


@compiled(f"void({V}, {V}, {V}, f8, i8, f8, {V}, {V}, {V}, {V})", nogil=True, error_model="numpy")
def _certify(
    linear: Array, lower: Array, upper: Array, kink: float, split: int, rounding: float, start: Array, beta: Array,
    gradient: Array, figures: Array,
) -> None:  # fmt: skip
    """The figures of ``tasks.State`` at the end: violation, dual value, gap, multipliers, sums."""
    m = beta.size
    up, down, square, size, begun = np.empty(m), np.empty(m), 0.0, 0.0, 0.0
    _slopes(beta, lower, upper, kink, gradient, up, down)
    figures[DUAL] = figures[GAP] = figures[CAREFUL_GAP] = figures[OFF] = 0.0
    figures[VIOLATION] = -np.inf
    for t in range(m):
        figures[NORM2] += beta[t] * (gradient[t] - linear[t])
        square, size, begun = square + beta[t] ** 2, size + abs(beta[t]), begun + abs(start[t])
        figures[DUAL] -= linear[t] * beta[t] + kink * abs(beta[t])
    figures[DUAL] -= 0.5 * figures[NORM2]
    figures[SIZE], figures[LENGTH] = size, np.sqrt(square)
    lost = rounding * np.sqrt(square)
    for g in range(2):
        a, z = (0, split) if g == 0 else (split, m)
        if a == z:
            continue
        level, off, low, high = _multiplier(up, down, a, z), 0.0, np.inf, -np.inf
        figures[SECOND] = level
        if g == 0:
            figures[FIRST] = level
        for t in range(a, z):
            low, high, off = min(low, up[t]), max(high, down[t]), off + beta[t] - start[t]
            d = gradient[t] - level
            # min over b of d·b + ε|b| on [lower, upper]: at an end, or at the kink.
            one, two = d + np.sign(lower[t]) * kink, d + np.sign(upper[t]) * kink
            least = min(0.0 if one == 0.0 else lower[t] * one, 0.0 if two == 0.0 else upper[t] * two)
            if lower[t] <= 0.0 <= upper[t]:
                least = min(least, 0.0)
            figures[GAP] += d * beta[t] + kink * abs(beta[t]) - least
            if abs(abs(d) - kink) <= lost:
                figures[CAREFUL_GAP] += lost * (upper[t] - lower[t])
        figures[VIOLATION] = max(figures[VIOLATION], high - low)
        figures[OFF] = max(figures[OFF], abs(off) / max(size, begun, 1e-300))
    figures[CAREFUL_GAP] += figures[GAP]


@compiled(
    f"void({M}, {N}, {N}, {N}, {V}, {V}, {V}, f8, f8, i8, i8, f8, f8, f8, b1, f8, {V}, {V}, {M})",
    nogil=True,
    error_model="numpy",
)
def solve_all(
    K: Array, edges: Array, splits: Array, ids: Array, linear: Array, lower: Array, upper: Array, kink: float,
    tol: float, limit: int, polished: int, work: float, noise: float, rounding: float, scaled: bool, unit: float,
    beta: Array, values: Array, figures: Array,
) -> None:  # fmt: skip
    """Solve problems that stand one behind the other in flat arrays, each on its own objects of one dense K.

    β holds the starts, and then the answers; ``values`` Kβ at their objects; ``figures``, zeros, a line each.
    """
    widest = 0
    for p in range(splits.size):
        widest = max(widest, edges[p + 1] - edges[p])
    room, flags, before, start = (
        np.empty((widest, widest)),
        np.empty(widest, np.bool_),
        np.empty(widest),
        np.empty(widest),
    )
    for p in range(splits.size):
        span, m = slice(edges[p], edges[p + 1]), edges[p + 1] - edges[p]
        B, made, own, split = room, flags[:m], ids[span], splits[p]
        b, gradient, low, high, pull, line = (
            beta[span],
            values[span],
            lower[span],
            upper[span],
            linear[span],
            figures[p],
        )
        for t in range(m):
            made[t], start[t] = False, b[t]
        _gradient(K, own, pull, b, B, made, gradient)
        up, down, measure, bent = np.empty(m), np.empty(m), unit, False
        if scaled:
            # The largest squared distance of an object from the first, in feature space.
            for t in range(m):
                line[SPREAD] = max(line[SPREAD], K[own[t], own[t]] + K[own[0], own[0]] - 2.0 * K[own[0], own[t]])
        ends = m <= polished
        for _ in range(8):
            if scaled:
                _slopes(b, low, high, kink, gradient, up, down)
                measure = max(
                    0.5 * (_multiplier(up, down, 0, split) - _multiplier(up, down, split, m)),
                    1e-7 * line[SPREAD],
                )
            taken, curved = _pair_steps(
                K,
                own,
                low,
                high,
                kink,
                split,
                (1.0 if ends else 0.9) * tol * measure,
                limit,
                noise,
                b,
                gradient,
                B,
                made,
            )
            line[STEPS] += taken
            bent |= curved
            if taken == 0 or taken == limit or not scaled:
                break
        settled = not bent and (taken < limit or ends)
        if ends and settled:
            for t in range(m):
                before[t] = b[t]
            settled = _active_set(K, own, pull, low, high, kink, split, work, b, gradient, B, made)
            for t in range(0 if settled else m):
                b[t] = before[t]
        largest = 0.0
        for t in range(m):
            largest = max(largest, abs(b[t]))
        for t in range(m):  # as State.snap: what rounding keeps from a bound or the kink would count as free
            for place in (0.0, low[t], high[t]):
                if abs(b[t] - place) <= SNAP * min(high[t] - low[t], largest):
                    b[t] = place
        _gradient(K, own, pull, b, B, made, gradient)
        _certify(pull, low, high, kink, split, rounding, start, b, gradient, line)
        line[FAILED] = 1.0 if bent or not settled else 0.0
        for t in range(m):
            gradient[t] -= pull[t]
