"""Compiled parts of the support vector solvers: pair steps (SMO) and the active-set method.

Imported only when a fit begins, because loading numba takes a good part of a second. To keep compilation short, only
functions that Python calls have a wrapper and a file on disk, arguments have one type each, and loops replace array
assignments, which numba compiles together with the text of every error that they could raise. Maxima use ``larger``
so that their loops vectorise; a second loop finds the position.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.compiled import compiled, larger, part
from gramian.solvers.svm.tasks import SNAP

Array = NDArray[Any]
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
FAST = {"nnan", "nsz", "contract"}
EPSILON, SINGLE = float(np.finfo(np.float64).eps), float(np.finfo(np.float32).eps)
DOUBT = 4.0
"""Descents below so many roundings of the largest slope count as none."""
ETA_FLOOR = 1e-12
"""The least curvature along a pair step, relative to the largest k(x, x)."""
RIDGE = 1e-14
STEPS, FAILED, SPREAD = range(3)
"""Columns of ``figures``: pair steps, whether the general solver has to take over, the largest squared distance."""
FRESH, LAST = range(2)
"""State of the active-set method: whether the gradient was just recomputed, and the last spread of the slopes."""


# ---- pair steps ---------------------------------------------------------------------------------------------------


@part()
def _costs(b: float, lower: float, upper: float, kink: float) -> tuple[float, float]:
    """Subtracted from -gradient or gradient, they give the slopes of ``_slope``: the kink, or infinity at a bound."""
    up = (kink if b >= 0.0 else -kink) if b < upper else np.inf
    down = (-kink if b > 0.0 else kink) if b > lower else np.inf
    return up, down


@part()
def _slope(b: float, gradient: float, lower: float, upper: float, kink: float) -> tuple[float, float]:
    """The descent per unit when a variable increases, and when it decreases; -∞ at a bound."""
    up, down = _costs(b, lower, upper, kink)
    return -gradient - up, gradient - down


@part(fastmath=FAST)  # not "reassoc": _where_slope has to find the very same numbers
def _move(row: Array, other: Array, step: float, gradient: Array, up: Array, down: Array) -> tuple[float, float]:
    """Update the gradient after a pair step; return the steepest descent of an increase and of a decrease."""
    rise = fall = gradient.dtype.type(-np.inf)
    for t in range(gradient.size):
        g = gradient[t] + step * gradient.dtype.type(row[t] - other[t])
        gradient[t] = g
        rise, fall = larger(rise, -g - up[t]), larger(fall, g - down[t])
    return rise, fall


@part(fastmath=FAST | {"reassoc", "arcp"})
def _gains(
    row: Array, own: float, diagonal: Array, gradient: Array, down: Array, rise: float, worst: float, scale: float,
    gains: Array,
) -> Any:  # fmt: skip
    """Fill in the second-order gain of a pair step of i with each j, up to a common factor; return the largest."""
    real, best = gradient.dtype.type, np.float32(0.0)
    slope, unit, two, nothing, least = real(1.0 / worst), real(1.0 / scale), real(2.0), real(0.0), real(ETA_FLOOR)
    for t in range(gains.size):
        d = np.float32(larger(slope * (gradient[t] - down[t] + rise), nothing))
        curvature = np.float32(larger(unit * (own + diagonal[t] - two * real(row[t])), least))
        gains[t] = d * d / curvature
        best = larger(best, gains[t])
    return best


@part()
def _where(values: Array, best: Any) -> int:
    """The first position of a value, or one beyond the last."""
    found = values.size
    for t in range(values.size):
        place = t if values[t] == best else values.size
        found = place if place < found else found
    return found


@part()
def _where_slope(gradient: Array, up: Array, best: float) -> int:
    """The first position where the descent of an increase has this value, or one beyond the last."""
    found = gradient.size
    for t in range(gradient.size):
        place = t if -gradient[t] - up[t] == best else gradient.size
        found = place if place < found else found
    return found


@part()
def _gather(K: Array, ids: Array, t: int, B: Array, made: Array) -> None:
    """Fill row t of B, the matrix of the problem's objects, from K, unless that was done before."""
    if not made[t]:
        source, row = K[ids[t]], B[t]
        for u in range(ids.size):
            row[u] = source[ids[u]]
        made[t] = True


@part()
def _pair_steps(
    K: Array, ids: Array, diagonal: Array, lower: Array, upper: Array, kink: float, split: int, tol: float, limit: int,
    noise: float, beta: Array, gradient: Array, B: Array, made: Array,
) -> tuple[int, bool]:  # fmt: skip
    """SMO by second-order working sets (Fan, Chen, Lin 2005) until no pair of a group violates by more than ``tol``."""
    m, indefinite, scale, move, doubt, real = beta.size, False, 0.0, 0.0, 0.0, gradient.dtype
    up, down, gains = np.empty(m, real), np.empty(m, real), np.empty(m, np.float32)
    for t in range(m):
        up[t], down[t] = _costs(beta[t], lower[t], upper[t], kink)
        scale, doubt = max(scale, abs(diagonal[t])), max(doubt, abs(gradient[t]))
    scale = scale if scale > 0.0 else 1.0
    doubt *= DOUBT * (SINGLE if gradient.itemsize == 4 else EPSILON)
    tol = max(tol, 2.0 * doubt)
    i = j = 0
    _gather(K, ids, 0, B, made)
    for step in range(limit + 1):
        worst, rise, a, z = real.type(-np.inf), real.type(0.0), 0, m
        for k in range(2):
            first, end = (0, split) if k == 0 else (split, m)
            if first < end:
                row, other = B[i, first:end], B[j, first:end]
                most, fall = _move(row, other, real.type(move), gradient[first:end], up[first:end], down[first:end])
                if most + fall > worst:
                    worst, rise, a, z = most + fall, most, first, end
        if step == limit or not worst > tol:
            return step, indefinite
        i = min(a + _where_slope(gradient[a:z], up[a:z], rise), m - 1)
        _gather(K, ids, i, B, made)
        row, own = B[i], diagonal[i]
        sure = real.type(rise - doubt)
        best = _gains(row[a:z], own, diagonal[a:z], gradient[a:z], down[a:z], sure, worst, scale, gains[a:z])
        j = min(a + _where(gains[a:z], best), m - 1)
        _gather(K, ids, j, B, made)
        curvature = own + diagonal[j] - 2.0 * row[j]
        indefinite |= curvature < -noise * (abs(own) + abs(diagonal[j]))
        move = (gradient[j] - down[j] + rise) / max(curvature, ETA_FLOOR * scale)
        top = 0.0 if kink > 0.0 and beta[i] < 0.0 else upper[i]
        bottom = 0.0 if kink > 0.0 and beta[j] > 0.0 else lower[j]
        room_i, room_j = top - beta[i], beta[j] - bottom
        move = min(move, room_i, room_j)
        # Set it to the bound exactly: a variable off its bound by rounding would count as free.
        beta[i] = top if move == room_i else beta[i] + move
        beta[j] = bottom if move == room_j else beta[j] - move
        up[i], down[i] = _costs(beta[i], lower[i], upper[i], kink)
        up[j], down[j] = _costs(beta[j], lower[j], upper[j], kink)
    return limit, indefinite


# ---- the active-set method ----------------------------------------------------------------------------------------


@part(fastmath=FAST | {"reassoc"})
def _dot(a: Array, b: Array, size: int) -> float:
    total = 0.0
    for t in range(size):
        total += a[t] * b[t]
    return total


@part()
def _gradient(K: Array, ids: Array, linear: Array, beta: Array, B: Array, made: Array, gradient: Array) -> None:
    for t in range(beta.size):
        gradient[t] = linear[t]
    for t in range(beta.size):
        if beta[t] != 0.0:
            _gather(K, ids, t, B, made)
            row, b = B[t], beta[t]
            for u in range(beta.size):
                gradient[u] += b * row[u]


@part()
def _solve(H: Array, right: Array) -> None:
    """Overwrite the right-hand side with ``(H + ridge)⁻¹`` times it; H keeps its upper half, diagonal included."""
    size = right.size
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


@part()
def _newton(K: Array, ids: Array, split: int, slope: Array, moving: Array, noise: float, step: Array) -> None:
    """The Newton step of the moving variables; very long along a direction without curvature.

    In coordinates that keep the sum of each group: differences from its first moving variable.
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
    _solve(H, found)
    fall, curvature = -_dot(right, found, right.size), 0.0
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


@part()
def _end(step: float, sign: float, lower: float, upper: float, kink: float) -> float:
    """The next bound or kink of a variable in the direction of its step."""
    if step > 0.0:
        return 0.0 if kink > 0.0 and sign < 0.0 else upper
    return 0.0 if kink > 0.0 and sign > 0.0 else lower


@part()
def _walk(
    K: Array, ids: Array, lower: Array, upper: Array, kink: float, step: Array, beta: Array, gradient: Array,
    sign: Array, moving: Array, B: Array, made: Array,
) -> int:  # fmt: skip
    """Step until a variable reaches a bound or the kink and fix it there; return 2 if one did, else 1 if β changed."""
    m, length, done = beta.size, 1.0, 0
    room = np.empty(m)
    for t in range(m):
        if moving[t] and step[t] != 0.0:
            room[t] = abs(_end(step[t], sign[t], lower[t], upper[t], kink) - beta[t]) / abs(step[t])
            length = min(length, room[t])
    for t in range(m):
        if moving[t] and step[t] != 0.0:
            before = beta[t]
            if room[t] <= length:
                beta[t], moving[t], done = _end(step[t], sign[t], lower[t], upper[t], kink), False, 2
            else:
                beta[t] += length * step[t]
                done = max(done, 1)
            _gather(K, ids, t, B, made)
            row, change = B[t], beta[t] - before
            for u in range(m):
                gradient[u] += change * row[u]
    return done


@part()
def _release(
    lower: Array, upper: Array, kink: float, split: int, noise: float, beta: Array, gradient: Array, sign: Array,
    moving: Array,
) -> float:  # fmt: skip
    """Release the fixed variable that violates KKT most, or a pair in a group where all are fixed, and return -1.

    Without a violation, return the largest difference between slopes of moving variables of one group.
    """
    worst, riser, faller, spread = 4.0 * noise, -1, -1, 0.0
    for g in range(2):
        level, count, i, j, low, high, up, down = 0.0, 0, -1, -1, np.inf, -np.inf, -np.inf, -np.inf
        for t in range(0 if g == 0 else split, split if g == 0 else beta.size):
            if moving[t]:
                slope = gradient[t] + kink * sign[t]
                level, count, low, high = level + slope, count + 1, min(low, slope), max(high, slope)
            else:
                rise, fall = _slope(beta[t], gradient[t], lower[t], upper[t], kink)
                if rise > up:
                    i, up = t, rise
                if fall > down:
                    j, down = t, fall
        if count:
            level, spread = level / count, max(spread, high - low)
            if level + up > worst:
                worst, riser, faller = level + up, i, -1
            if down - level > worst:
                worst, riser, faller = down - level, -1, j
        elif up + down > worst:
            worst, riser, faller = up + down, i, j
    if riser >= 0:
        moving[riser], sign[riser] = True, 1.0 if beta[riser] >= 0.0 else -1.0
    if faller >= 0:
        moving[faller], sign[faller] = True, 1.0 if beta[faller] > 0.0 else -1.0
    return spread if riser < 0 and faller < 0 else -1.0


@part()
def _advance(
    K: Array, ids: Array, linear: Array, lower: Array, upper: Array, kink: float, split: int, noise: float,
    step: Array, beta: Array, gradient: Array, sign: Array, moving: Array, B: Array, made: Array, memo: Array,
) -> bool:  # fmt: skip
    """Take a step of the active-set method; return whether it has converged."""
    done = _walk(K, ids, lower, upper, kink, step, beta, gradient, sign, moving, B, made)
    if done:
        memo[FRESH] = 0.0
    if done == 2:
        return False
    spread = _release(lower, upper, kink, split, noise, beta, gradient, sign, moving)
    if spread < 0.0:
        memo[LAST] = np.inf
        return False
    if memo[FRESH] == 0.0:
        _gradient(K, ids, linear, beta, B, made, gradient)
        memo[FRESH] = 1.0
        return False
    # No variable violates KKT: go on only while steps still halve the spread of the slopes.
    last, memo[LAST] = memo[LAST], spread
    return not noise < spread < 0.5 * last


@part()
def _active_set(
    K: Array, ids: Array, diagonal: Array, linear: Array, lower: Array, upper: Array, kink: float, split: int,
    work: float, beta: Array, gradient: Array, B: Array, made: Array,
) -> bool:  # fmt: skip
    """``active_set.polish`` within ``work`` operations; return whether it has converged."""
    m, top, largest = beta.size, 0.0, 0.0
    sign, moving, step, slope, memo = np.empty(m), np.empty(m, np.bool_), np.empty(m), np.empty(m), np.empty(2)
    memo[FRESH], memo[LAST] = 0.0, np.inf
    for t in range(m):
        sign[t] = 1.0 if beta[t] > 0.0 else -1.0 if beta[t] < 0.0 else 0.0
        moving[t] = lower[t] < beta[t] < upper[t] and (sign[t] != 0.0 or kink == 0.0)
        top, largest = max(top, abs(diagonal[t])), max(largest, abs(linear[t]))
    while work > 0.0:
        total, count = 0.0, 0
        for t in range(m):
            total += np.sqrt(abs(diagonal[t])) * abs(beta[t])
            slope[t] = gradient[t] + kink * sign[t]
            count += moving[t]
        work -= count**3 / 3.0 + count * m
        noise = EPSILON * (np.sqrt(top) * total + largest)
        _newton(K, ids, split, slope, moving, noise, step)
        if _advance(
            K, ids, linear, lower, upper, kink, split, noise, step, beta, gradient, sign, moving, B, made, memo
        ):
            return True
    return False


# ---- what Python calls --------------------------------------------------------------------------------------------


@part()
def _half_margin(lower: Array, upper: Array, kink: float, split: int, beta: Array, gradient: Array) -> float:
    """Half the difference of the two groups' multipliers, as ``tasks.multipliers`` computes them."""
    difference = 0.0
    for g in range(2):
        total, count, low, high = 0.0, 0, -np.inf, np.inf
        for t in range(0 if g == 0 else split, split if g == 0 else beta.size):
            rise, fall = _slope(beta[t], gradient[t], lower[t], upper[t], kink)
            if fall == -rise:
                total, count = total + fall, count + 1
            low, high = max(low, fall), min(high, -rise)
        level = total / count if count else 0.5 * (low + high)
        level = low if np.isinf(high) else high if np.isinf(low) else level
        difference += level if g == 0 else -level
    return 0.5 * difference


@part()
def _snap(lower: Array, upper: Array, beta: Array) -> None:
    """``State.snap``: move variables within rounding of a bound or the kink onto it."""
    largest = 0.0
    for t in range(beta.size):
        largest = max(largest, abs(beta[t]))
    for t in range(beta.size):
        near = SNAP * min(upper[t] - lower[t], largest)
        if abs(beta[t]) <= near:
            beta[t] = 0.0
        elif abs(beta[t] - lower[t]) <= near:
            beta[t] = lower[t]
        elif abs(beta[t] - upper[t]) <= near:
            beta[t] = upper[t]


@part()
def _solve_one(
    K: Array, ids: Array, linear: Array, lower: Array, upper: Array, kink: float, split: int, tol: float, limit: int,
    polished: int, work: float, noise: float, scaled: bool, unit: float, beta: Array, gradient: Array, line: Array,
    diagonal: Array, B: Array, made: Array,
) -> None:  # fmt: skip
    """Solve one problem by pair steps; if it is small, go on with the active-set method."""
    for t in range(beta.size):
        diagonal[t] = K[ids[t], ids[t]]
        # The largest squared distance of an object from the first, in feature space.
        line[SPREAD] = max(line[SPREAD], diagonal[t] + diagonal[0] - 2.0 * K[ids[0], ids[t]])
    _gradient(K, ids, linear, beta, B, made, gradient)
    exact, indefinite, converged = beta.size <= polished, False, True
    for _ in range(8):
        if scaled:
            unit = max(_half_margin(lower, upper, kink, split, beta, gradient), 1e-7 * line[SPREAD])
        goal = (1.0 if exact else 0.9) * tol * unit
        taken, negative = _pair_steps(
            K, ids, diagonal, lower, upper, kink, split, goal, limit, noise, beta, gradient, B, made
        )
        line[STEPS] += taken
        indefinite |= negative
        converged = taken < limit or exact
        if taken == 0 or taken == limit or not scaled:
            break
    if exact and not indefinite:
        before = np.empty(beta.size)
        for t in range(beta.size):
            before[t] = beta[t]
        converged = _active_set(K, ids, diagonal, linear, lower, upper, kink, split, work, beta, gradient, B, made)
        for t in range(0 if converged else beta.size):
            beta[t] = before[t]
    _snap(lower, upper, beta)
    _gradient(K, ids, linear, beta, B, made, gradient)
    line[FAILED] = 1.0 if indefinite or not converged else 0.0


@compiled(**OPTIONS)
def solve_all(
    K: Array, edges: Array, splits: Array, ids: Array, linear: Array, lower: Array, upper: Array, kink: float,
    tol: float, limit: int, polished: int, work: float, noise: float, scaled: bool, unit: float, beta: Array,
    gradient: Array, figures: Array,
) -> None:  # fmt: skip
    """Solve problems that are concatenated in flat arrays, each on its own objects of one dense K.

    β holds the starts and is overwritten by the solutions, ``gradient`` by the gradients there; ``figures`` has a row
    for each problem, zero at first. Problems of at most ``polished`` variables are solved to machine precision.
    """
    widest, single = 0, splits.size == 1 and ids.size == K.shape[0]
    for p in range(splits.size):
        widest = max(widest, edges[p + 1] - edges[p])
    for t in range(ids.size if single else 0):
        single &= ids[t] == t
    # A single problem on all rows in order uses K itself, without a copy.
    room, made, diagonal = K, np.empty(widest, np.bool_), np.empty(widest)
    if not single:
        room = np.empty((widest, widest))
    for p in range(splits.size):
        a, z = edges[p], edges[p + 1]
        for t in range(z - a):
            made[t] = single
        _solve_one(
            K, ids[a:z], linear[a:z], lower[a:z], upper[a:z], kink, splits[p], tol, limit, polished, work, noise,
            scaled, unit, beta[a:z], gradient[a:z], figures[p], diagonal[: z - a], room, made,
        )  # fmt: skip


@compiled(**OPTIONS)
def pair_steps(
    K: Array, ids: Array, B: Array, made: Array, diagonal: Array, lower: Array, upper: Array, kink: float, split: int,
    tol: float, limit: int, noise: float, beta: Array, gradient: Array,
) -> tuple[int, bool]:  # fmt: skip
    """Take pair steps; return their number, and whether negative curvature was met.

    B is K between the objects ``ids``; rows of it that are not ``made`` are read from K when they are first needed.
    """
    return _pair_steps(K, ids, diagonal, lower, upper, kink, split, tol, limit, noise, beta, gradient, B, made)


@compiled(**OPTIONS)
def advance(
    K: Array, linear: Array, lower: Array, upper: Array, kink: float, split: int, noise: float, step: Array,
    beta: Array, gradient: Array, sign: Array, moving: Array, memo: Array,
) -> bool:  # fmt: skip
    """Take a step of the active-set method on a whole matrix; return whether it has converged."""
    ids, made = np.arange(beta.size), np.ones(beta.size, np.bool_)
    return _advance(K, ids, linear, lower, upper, kink, split, noise, step, beta, gradient, sign, moving, K, made, memo)
