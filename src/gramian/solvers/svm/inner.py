"""The compiled parts of the support vector solvers: pair steps and the active-set method.

Imported only when a fit begins, because numba costs a good part of a second. Three things keep compiling short: only
what Python calls is kept on disk and has a wrapper; a loop stands where NumPy would have one expression, because an
assignment between arrays is compiled with the text of every error it might raise; and there is one type for each
argument. Loops that are to be fast take minima lane by lane, which vectorises, and look up an index afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.compiled import compiled, part
from gramian.solvers.svm.tasks import SNAP

Array = NDArray[Any]
V, N, M, B = "f8[::1]", "i8[::1]", "f8[:, ::1]", "b1[::1]"
"""The types of arrays: numbers, positions, matrices, marks."""
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
FAST = {"nnan", "nsz", "contract"}
LANES = 32
EPSILON = float(np.finfo(np.float64).eps)
ETA_FLOOR = 1e-12
RIDGE = 1e-14
STEPS, FAILED, SPREAD = range(3)
"""Columns of the figures: pair steps taken, whether it is for the general solver, the largest squared distance."""
FRESH, LAST = range(2)
"""What the active-set method remembers: whether the gradient was computed anew, and the last spread of the slopes."""


# ---- pair steps ---------------------------------------------------------------------------------------------------


@part(fastmath=FAST)
def _largest(values: Array, lanes: Array) -> int:
    """Position of the largest of some numbers."""
    for k in range(LANES):
        lanes[k] = -np.inf
    whole = values.size // LANES
    # Slices, because numba checks a computed index for its sign, and the check keeps the loop from vectorising.
    for block in range(whole):
        v = values[block * LANES : (block + 1) * LANES]
        for k in range(LANES):
            lanes[k] = v[k] if v[k] > lanes[k] else lanes[k]
    best, where = -np.inf, 0
    for k in range(LANES):
        if lanes[k] > best:
            best, where = lanes[k], k
    while where < (whole - 1) * LANES and values[where] != best:
        where += LANES
    for t in range(whole * LANES, values.size):
        if values[t] > best:
            best, where = values[t], t
    return where


@part(fastmath=FAST | {"arcp"})
def _gains(row: Array, own: float, diagonal: Array, fall: Array, level: float, gains: Array) -> None:
    """Fill what a step of i with each j gains, to second order."""
    for t in range(gains.size):
        d = fall[t] - level
        d = d if d > 0.0 else 0.0
        curvature = own + diagonal[t] - 2.0 * row[t]
        curvature = curvature if curvature > ETA_FLOOR else ETA_FLOOR
        gains[t] = d * d / curvature


@part(fastmath=FAST)
def _move(row: Array, other: Array, step: float, gradient: Array, rise: Array, fall: Array) -> None:
    for t in range(gradient.size):
        change = step * (row[t] - other[t])
        gradient[t] += change
        rise[t] -= change
        fall[t] += change


@part()
def _slope(b: float, gradient: float, lower: float, upper: float, kink: float) -> tuple[float, float]:
    """How fast the objective falls where a variable grows, and where it shrinks; -∞ where there is no room."""
    rise = -gradient - (kink if b >= 0.0 else -kink) if b < upper else -np.inf
    fall = gradient + (kink if b > 0.0 else -kink) if b > lower else -np.inf
    return rise, fall


@part()
def _gather(K: Array, ids: Array, t: int, B: Array, made: Array) -> None:
    """Write K between one object of a problem and all of them into B, when it is first asked for."""
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
    m, bent = beta.size, False
    rise, fall, gains, lanes = np.empty(m), np.empty(m), np.empty(m), np.empty(LANES)
    for t in range(m):
        rise[t], fall[t] = _slope(beta[t], gradient[t], lower[t], upper[t], kink)
    for step in range(limit):
        i, worst, start, stop = 0, -np.inf, 0, 0
        for g in range(2):
            a, z = (0, split) if g == 0 else (split, m)
            if a < z:
                up, down = a + _largest(rise[a:z], lanes), a + _largest(fall[a:z], lanes)
                if rise[up] + fall[down] > worst:
                    i, worst, start, stop = up, rise[up] + fall[down], a, z
        if not worst > tol:
            return step, bent
        _gather(K, ids, i, B, made)
        row, own, level = B[i], diagonal[i], -rise[i]
        _gains(row[start:stop], own, diagonal[start:stop], fall[start:stop], level, gains[start:stop])
        j = start + _largest(gains[start:stop], lanes)
        _gather(K, ids, j, B, made)
        curvature = own + diagonal[j] - 2.0 * row[j]
        bent |= curvature < -noise * (abs(own) + abs(diagonal[j]))
        move = (fall[j] - level) / max(curvature, ETA_FLOOR)
        top = 0.0 if kink > 0.0 and beta[i] < 0.0 else upper[i]
        bottom = 0.0 if kink > 0.0 and beta[j] > 0.0 else lower[j]
        room_i, room_j = top - beta[i], beta[j] - bottom
        move = min(move, room_i, room_j)
        # Land on a bound exactly: a bound missed by rounding counts as free.
        beta[i] = top if move == room_i else beta[i] + move
        beta[j] = bottom if move == room_j else beta[j] - move
        _move(row, B[j], move, gradient, rise, fall)
        rise[i], fall[i] = _slope(beta[i], gradient[i], lower[i], upper[i], kink)
        rise[j], fall[j] = _slope(beta[j], gradient[j], lower[j], upper[j], kink)
    return limit, bent


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
    """Where the linear piece of the objective ends on which a variable is."""
    if step > 0.0:
        return 0.0 if kink > 0.0 and sign < 0.0 else upper
    return 0.0 if kink > 0.0 and sign > 0.0 else lower


@part()
def _walk(
    K: Array, ids: Array, lower: Array, upper: Array, kink: float, step: Array, beta: Array, gradient: Array,
    sign: Array, moving: Array, B: Array, made: Array,
) -> int:  # fmt: skip
    """Go as far as the ends of the pieces allow: 2 where a variable was stopped, which then rests, 1 if β changed."""
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
    """Let the worst of a group that has moving variables move, or the worst pair of another, and return -1.

    Where nobody is to move, return by how much slopes differ that should be equal.
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
    """Take a step of the active-set method, and tell whether it was the last."""
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
    # No variable is to move; another step removes what rounding left of the last one, if anything.
    last, memo[LAST] = memo[LAST], spread
    return not noise < spread < 0.5 * last


@part()
def _active_set(
    K: Array, ids: Array, diagonal: Array, linear: Array, lower: Array, upper: Array, kink: float, split: int,
    work: float, beta: Array, gradient: Array, B: Array, made: Array,
) -> bool:  # fmt: skip
    """``active_set.polish`` within some work: solve the KKT equations of the free variables; tell whether it ended."""
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
    """Half the difference of the groups' multipliers: of mean slopes of free variables, else of what KKT allow."""
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
    """``State.snap``: what rounding keeps from a bound or the kink would count as free."""
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
    """Solve one problem by pair steps, then one of few variables by the active-set method."""
    for t in range(beta.size):
        diagonal[t] = K[ids[t], ids[t]]
        # The largest squared distance of an object from the first, in feature space.
        line[SPREAD] = max(line[SPREAD], diagonal[t] + diagonal[0] - 2.0 * K[ids[0], ids[t]])
    _gradient(K, ids, linear, beta, B, made, gradient)
    ends, bent, settled = beta.size <= polished, False, True
    for _ in range(8):
        if scaled:
            unit = max(_half_margin(lower, upper, kink, split, beta, gradient), 1e-7 * line[SPREAD])
        goal = (1.0 if ends else 0.9) * tol * unit
        taken, curved = _pair_steps(
            K, ids, diagonal, lower, upper, kink, split, goal, limit, noise, beta, gradient, B, made
        )
        line[STEPS] += taken
        bent |= curved
        settled = taken < limit or ends
        if taken == 0 or taken == limit or not scaled:
            break
    if ends and not bent:
        before = np.empty(beta.size)
        for t in range(beta.size):
            before[t] = beta[t]
        settled = _active_set(K, ids, diagonal, linear, lower, upper, kink, split, work, beta, gradient, B, made)
        for t in range(0 if settled else beta.size):
            beta[t] = before[t]
    _snap(lower, upper, beta)
    _gradient(K, ids, linear, beta, B, made, gradient)
    line[FAILED] = 1.0 if bent or not settled else 0.0


@compiled(f"void({M}, {N}, {N}, {N}, {V}, {V}, {V}, f8, f8, i8, i8, f8, f8, b1, f8, {V}, {V}, {M})", **OPTIONS)
def solve_all(
    K: Array, edges: Array, splits: Array, ids: Array, linear: Array, lower: Array, upper: Array, kink: float,
    tol: float, limit: int, polished: int, work: float, noise: float, scaled: bool, unit: float, beta: Array,
    gradient: Array, figures: Array,
) -> None:  # fmt: skip
    """Solve problems that stand one behind the other in flat arrays, each on its own objects of one dense K.

    β holds the starts, and then the answers; ``gradient`` the gradients there; ``figures``, zeros, a line each. Those
    of at most ``polished`` variables are solved to machine precision.
    """
    widest, alone = 0, splits.size == 1 and ids.size == K.shape[0]
    for p in range(splits.size):
        widest = max(widest, edges[p + 1] - edges[p])
    for t in range(ids.size if alone else 0):
        alone &= ids[t] == t
    # One problem of all rows in their order has its matrix already.
    room, made, diagonal = K, np.empty(widest, np.bool_), np.empty(widest)
    if not alone:
        room = np.empty((widest, widest))
    for p in range(splits.size):
        a, z = edges[p], edges[p + 1]
        for t in range(z - a):
            made[t] = alone
        _solve_one(
            K, ids[a:z], linear[a:z], lower[a:z], upper[a:z], kink, splits[p], tol, limit, polished, work, noise,
            scaled, unit, beta[a:z], gradient[a:z], figures[p], diagonal[: z - a], room, made,
        )  # fmt: skip


@compiled(**OPTIONS)
def pair_steps(
    K: Array, diagonal: Array, lower: Array, upper: Array, kink: float, split: int, tol: float, limit: int,
    noise: float, beta: Array, gradient: Array,
) -> tuple[int, bool]:  # fmt: skip
    """Take pair steps on the variables of a whole matrix; return their number, and whether it curves downwards."""
    ids, made = np.arange(beta.size), np.ones(beta.size, np.bool_)
    return _pair_steps(K, ids, diagonal, lower, upper, kink, split, tol, limit, noise, beta, gradient, K, made)


@compiled(**OPTIONS)
def advance(
    K: Array, linear: Array, lower: Array, upper: Array, kink: float, split: int, noise: float, step: Array,
    beta: Array, gradient: Array, sign: Array, moving: Array, memo: Array,
) -> bool:  # fmt: skip
    """Take a step of the active-set method on a whole matrix, and tell whether it was the last."""
    ids, made = np.arange(beta.size), np.ones(beta.size, np.bool_)
    return _advance(K, ids, linear, lower, upper, kink, split, noise, step, beta, gradient, sign, moving, K, made, memo)
