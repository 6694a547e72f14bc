"""Sequential minimal optimisation on two levels, for every task of the support vector family.

All of them are one quadratic program. With signed variables β (``α_i y_i`` in classification, ``α_i - α_i*`` in
regression) it reads

    min ½ βᵀKβ + pᵀβ + ε Σ|β_v|   subject to   lower ≤ β ≤ upper,   Σ_{v in group} β_v = its value at the start,

with one group, or two for the ν tasks and the hard margin. A working set of the worst violators is optimised in
compiled code on its own small kernel matrix; then one sum of kernel rows updates the gradient of all variables.
Problems whose matrix is small go to ``dense`` first, which runs the same compiled steps without working sets.

References
----------
Fan, Chen, Lin: Working set selection using second order information. JMLR 2005.
Wen, Shi, Li, He, Chen: ThunderSVM. JMLR 2018 (the two levels).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.progress import Clock, Tick, silent
from gramian.resources import one_blas_thread
from gramian.solvers.svm.active_set import minimum_on_face, polish
from gramian.solvers.svm.dense import Batch, solve_dense
from gramian.solvers.svm.row_cache import Index, KernelRows, Rows
from gramian.solvers.svm.tasks import (
    EPSILON,
    EXCESS,
    FEASIBLE,
    NOISE,
    PAIR,
    TINIEST,
    VANISHED,
    Solution,
    State,
    Task,
    Vector,
    multipliers,
    nothing,
)

WORKING_SET = 1024
CARD_SET = 1536
"""Size of the working set on a GPU, where a round costs more than the longer steps of a larger set."""
COSTLY_SET = 256
"""Least size of the working set; small, so that expensive kernels compute few rows that are never needed."""
SHARE = 8
"""For cheap kernels, the working set has at least one in SHARE of the variables."""
ROOMY = 1.25
"""Least size of the working set, in numbers of free variables; smaller sets undo each other's steps."""
STRETCH = 2.5
"""The working set is larger by up to this factor where that makes room for all free variables."""
TINY_SET = 16
"""Below this size, a working set is the worst pair alone."""
STEPS_PER_VARIABLE = 100
"""Limit on pair steps per variable of a working set; after as many per variable overall, try the active-set method."""
BEFORE_NEWTON = 20
"""The limit where Newton's method on the free variables follows, which takes about as long."""
MOST_FREE = 1536
"""Largest number of free variables for Newton's method, whose matrix then takes 19 MB."""
MOST_PATIENCE, LAST_PATIENCE = 400, 10_000
"""Steps per variable after which the active-set method is not tried again; after which larger problems give up."""
SHRINK_EVERY = 8
"""Rounds between two attempts to shrink."""
SHRINK_WORTH = 0.7
"""Shrink only to this share of the variables or less, because the gradient has to be recomputed afterwards."""
POLISHED = 512
"""Problems of at most this many variables are solved to machine precision."""
INNER, CARD_INNER = 0.1, 0.2
"""Pair steps on a working set stop at this share of the violation; with a GPU sooner, since these steps, on the CPU,
then take most of the time."""
STUBBORN = 2048
"""Problems of at most this many variables also go to the active-set method if pair steps converge slowly."""
WORTHWHILE = 0.01
"""The active-set method is tried again only if it has closed at least this share of the gap."""
ENDLESS = "pair steps do not converge: the kernel is not positive semi-definite; use another kernel"
LOST = "the optimum is lost in the rounding of sums of kernel values; "
SLOW = "pair steps converge too slowly; "
BY_C, BY_NU = "lower C, scale the inputs or the target", "raise tol or scale the inputs"
BY_INFINITY = "no multiplier reaches C, so set C=inf, which has the same solution without rounding times C"
LOOSE = 1000.0
"""Bounds on β are not expected to bind if bounds times kernel values exceed the targets by this factor."""
ROUNDING = 0.25
"""The share of the tolerance that rounding of kernel values may take up."""
SINGLE = float(np.finfo(np.float32).eps) / 2.0
"""Rounding error of a kernel value in single precision, relative to the largest k(x, x)."""
HELD = 1e-30, 1e30
"""Kernel values and slopes between these are held in single precision, with all that matters beside the largest."""
SLOPE_ROUNDING = 0.01
"""The share of the tolerance that rounding of slopes may take up for pair steps in single precision."""
REFINEMENTS = 2
"""How often Kβ is recomputed in full precision before switching to kernel rows in full precision."""
NOISY_ROUNDS = 16
"""After this many rounds in float32 that add more rounding than ROUNDING allows, or hit the step limit, switch to
float64."""
AUDIT = 64
"""Entries of the gradient that are recomputed in full precision before an optimum is accepted."""


def solve(
    task: Task,
    rows: Rows,
    *,
    tol: float,
    max_iter: int = -1,
    shrinking: bool = True,
    clock: Clock | None = None,
    tick: Tick = silent,
    working_set: int = WORKING_SET,
    polished: int = POLISHED,
    shrink_every: int = SHRINK_EVERY,
) -> Solution:
    """Solve a task to a KKT violation and a relative duality gap of at most ``tol``."""
    limits = max_iter, shrink_every if shrinking else 0, working_set, clock or Clock(), tick
    unwatched = tick is silent and (clock is None or clock.max_time is None)
    loose = task.tubeless is not None and _is_loose(task.tubeless, rows)
    if rows.whole is not None and not loose and unwatched:
        K, ids, own = rows.whole, rows.ids, rows.ids[task.objects]
        batch = Batch.of([replace(task, objects=own)])
        quick = next(solve_dense(K, batch, tol, rows.rounding, polished, max_iter).solutions())
        if quick is not None:
            sums = np.bincount(own, quick.beta, len(K))
            return quick if own.size == ids.size else replace(quick, values=(K @ sums)[ids])
    with one_blas_thread():
        if task.tubeless is not None and loose:
            found = _Descent(task.tubeless, rows, *limits).run(tol, polished)
            if found.convex and np.abs(found.beta).sum() <= np.abs(task.start).sum():
                # ν fixes the sum of |β|; the rest can be added to both variables of a row, where it cancels.
                return replace(found, beta=np.concatenate([np.maximum(found.beta, 0.0), np.minimum(found.beta, 0.0)]))
        return _Descent(task, rows, *limits).run(tol, polished)


def _is_loose(task: Task, rows: Rows) -> bool:
    """Whether C is so large compared to y that the regression may interpolate the targets."""
    if task.split > STUBBORN // 2:
        return False
    loss = float(task.upper @ np.abs(task.linear - np.median(task.linear)))
    return float((task.upper**2).sum()) * float(np.abs(rows.diagonal()).max(initial=0.0)) > LOOSE * loss


class _StoppedError(Exception):
    """A limit was reached; the message says which, and what to do."""


class _StalledError(_StoppedError):
    """No step changes anything in floating point."""


class _Descent:
    def __init__(
        self, task: Task, rows: Rows, max_iter: int, shrink_every: int, working_set: int, clock: Clock, tick: Tick
    ) -> None:
        self.task, self.rows, self.clock, self.tick = task, rows, clock, tick
        self.largest_set = CARD_SET if rows.on_card else working_set
        least = max(task.start.size // SHARE if rows.direct else 0, COSTLY_SET)
        self.least_set = self.largest_set if rows.on_card else min(self.largest_set, least)
        self.stretched_set = self.largest_set if rows.on_card else STRETCH * self.largest_set
        self.shrink_every = shrink_every
        self.shrinkable = rows.shrinkable if shrink_every else None
        self.inner = CARD_INNER if rows.on_card else INNER
        self.budget = math.inf if max_iter < 0 else max_iter
        self.steps = 0
        self.effort = 0
        """Pair steps, counting at least one for each variable of a working set."""
        self.drift = 0.0
        """Bound on the rounding in Kβ since it was last recomputed."""
        self.convex = rows.definite
        self.newton = not rows.on_card
        """Whether Newton's method on the free variables may still help."""
        self.scratch = np.empty(0)
        self.refined = self.noisy = 0
        diagonal = rows.diagonal()
        known = np.zeros(diagonal.size) if task.values is None else task.values
        self.state = State(task, task.start.astype(np.float64), known, diagonal)
        self.scale = float(np.max(np.abs(diagonal), initial=0.0)) or 1.0
        if task.values is None:
            self.rebuild()

    # ---- the outer loop -------------------------------------------------------------------------------------------

    def run(self, tol: float, polished: int) -> Solution:
        """Descend, certify, and repeat with a finer tolerance until violation and gap are both small enough."""
        # The gap is relative: targets much smaller than one need a finer tolerance from the start.
        fine, message = tol * min(float(np.ptp(self.task.linear)) or 1.0, 1.0), ""
        m = self.state.beta.size
        patience = (STEPS_PER_VARIABLE if m <= STUBBORN else LAST_PATIENCE) * m
        best = -math.inf
        try:
            while True:
                try:
                    arrived = self.descend(self.state, fine, self.effort + patience)
                except _StalledError:
                    if not self.rows.upgrade():
                        raise
                    self.rebuild()
                    continue
                if not arrived and m > STUBBORN:
                    raise _StoppedError(SLOW + self.advice)
                if not self.check_rows(fine):
                    continue
                exact = self.convex and (m <= polished or not arrived)
                if exact:
                    self.polish()
                self.snap()
                certificate = self.certify(tol)
                if certificate.converged or self.vanished(self.state) or (arrived and not self.convex):
                    break
                if not self.convex and self.effort > 10 * STEPS_PER_VARIABLE * m:
                    raise _StoppedError(ENDLESS)
                progressed = certificate.dual - best > WORTHWHILE * (certificate.primal - certificate.dual)
                spent, below_rounding = patience > MOST_PATIENCE * m, fine * self.unit(self.state) < self.rounding
                progressed |= arrived and not below_rounding and self.doubtful(certificate.violation) > tol
                give_up = (spent or not progressed) if exact else below_rounding
                if give_up:
                    raise _StoppedError(self.why_lost)
                best = certificate.dual
                fine, patience = (0.3 * fine, patience) if arrived else (fine, 2 * patience)
        except _StoppedError as stop:
            message = str(stop)
            if self.rows.narrow and not self.clock.expired:
                self.check_rows(fine)
            certificate = self.certify(tol)
        if not certificate.converged and not self.vanished(self.state):
            certificate = replace(certificate, message=message or self.why_lost)
        state = self.state
        return Solution(state.beta, state.values, state.multipliers(), certificate, self.convex, self.vanished(state))

    def rebuild(self) -> None:
        """Recompute Kβ from all nonzero variables; free ones last, so that their rows stay in the cache."""
        state = self.state
        weights = state.by_object
        free = np.zeros(state.values.size, dtype=bool)
        free[state.task.objects[(state.beta > state.task.lower) & (state.beta < state.task.upper)]] = True
        (used,) = np.nonzero(weights)
        used = used[np.argsort(free[used], kind="stable")]
        state.values = np.zeros(state.values.size)
        self.rows.add(used, weights[used], state.values)
        self.drift = 0.0

    def snap(self) -> None:
        """``State.snap``, with Kβ: at large kernel values it changes by more than rounding."""
        before = self.state.by_object
        self.state.snap()
        moved = self.state.by_object - before
        (objects,) = np.nonzero(moved)
        self.rows.add(objects, moved[objects], self.state.values)

    def check_rows(self, tol: float) -> bool:
        """Compute values of Kβ in full precision; return whether the rounding of the kernel rows was negligible.

        For rows in single precision these are all values whose terms of the gap rounding could change, so that the
        certificate is that of the exact kernel; otherwise they are a sample. If rounding was not negligible, all of Kβ
        is recomputed, so that only later, smaller steps bring new rounding; in the end rows in full precision follow.
        """
        state = self.state
        weights = state.by_object
        (used,) = np.nonzero(weights)
        if not used.size:
            return True
        most, checked = ROUNDING * tol * self.unit(state), np.linspace(0, state.values.size - 1, AUDIT).astype(np.intp)
        if self.rows.narrow:
            largest = self.rows.narrow_rounding * self.scale * float(np.abs(weights).sum())
            most, checked = min(most, largest), self.in_doubt(largest)
        values = self.rows.exact_sum(used, weights[used], checked)
        error = np.abs(values - state.values[checked]).max(initial=0.0)
        if self.rows.narrow:
            state.values[checked] = values
        if error <= most:
            return True
        if self.refined < REFINEMENTS:
            self.refined += 1
            state.values = self.rows.exact_sum(used, weights[used])
        elif self.rows.upgrade():
            self.rebuild()
        else:
            return True
        return False

    def in_doubt(self, error: float) -> Index:
        """Objects whose terms of the gap may change if slopes have errors of that size; those of others stay zero."""
        state, (up, down) = self.state, self.state.slopes()
        level = np.repeat(multipliers(up, down, state.starts), np.diff([*state.starts, state.beta.size]))
        return np.unique(state.task.objects[(up < level + error) | (down > level - error)])

    # ---- one descent ---------------------------------------------------------------------------------------------

    def descend(self, state: State, tol: float, until: float = math.inf) -> bool:
        """Descend until no pair violates KKT by more than ``tol``; return False if ``until`` steps are not enough."""
        recent = np.empty(0, dtype=np.intp)
        rounds = evicted = 0
        while True:
            up, down = state.slopes()
            violation = state.violation(up, down)
            if self.tick is not silent:
                self.tick(self.steps, gap=self.certify(tol).gap, violation=max(violation, 0.0))
            if violation <= tol * self.unit(state) or self.vanished(state):
                return True
            if self.effort >= until:
                return False
            self.check_limits()
            recent = self.working_set(state, up, down, recent)
            if not self.improve(state, np.sort(recent), max(0.9 * tol * self.unit(state), self.inner * violation)):
                self.minimise_free(state)
            rounds += 1
            if state is self.state and self.drift > max(ROUNDING * tol * self.unit(state), 8.0 * self.rounding):
                self.rebuild()
            if self.shrinkable and state is self.state and rounds % self.shrink_every == 0:
                pressed, evicted = self.rows.evicted > evicted, self.rows.evicted
                if pressed and self.shrunk_descent(self.shrinkable, tol, until):
                    recent, evicted = np.empty(0, dtype=np.intp), self.rows.evicted

    def divisor(self, state: State) -> float:
        """The unit of the tolerance: one, the ρ by which the solution will be divided, or the scale of the kernel."""
        if not self.task.scaled:
            return 1.0 if self.task.linear.any() else self.scale * float(self.task.upper.max())
        first, second = state.multipliers()
        return 0.5 * (first - second)

    def unit(self, state: State) -> float:
        """The unit of the tolerance during the descent, bounded away from zero for ρ → 0."""
        return max(self.divisor(state), 1e-7 * self.spread) if self.task.scaled else self.divisor(state)

    @cached_property
    def spread(self) -> float:
        """The largest squared distance of an object from the first, in feature space."""
        others = np.arange(self.state.values.size)
        diagonal, row = self.rows.diagonal(), self.rows.exact(others[:1], others)[0]
        return max(float(np.max(diagonal + diagonal[0] - 2.0 * row)), EPSILON * self.scale)

    def vanished(self, state: State) -> bool:
        """Whether ‖w‖ is negligible, that is, the two hulls intersect."""
        if not self.task.scaled:
            return False
        mass = 0.5 * float(np.abs(state.beta).sum())
        return state.norm2 <= max(VANISHED * self.spread, 64.0 * EPSILON * self.scale) * mass**2

    def check_limits(self) -> None:
        for over, name in ((self.clock.expired, "max_time"), (self.steps >= self.budget, "max_iter")):
            if over:
                raise _StoppedError(f"{name} was reached; raise it, raise tol, or scale the inputs")

    def working_set(self, state: State, up: Vector, down: Vector, recent: Index) -> Index:
        """The most recent half of the last working set, then the worst violators of each group in each direction."""
        free = np.count_nonzero((state.beta > state.task.lower) & (state.beta < state.task.upper))
        for_free = int(ROOMY * free)
        q = max(self.least_set, for_free if for_free <= self.stretched_set else min(for_free, self.largest_set))
        q = min(q, self.rows.largest_square, state.beta.size)
        if q == state.beta.size:
            return np.arange(q)
        kept = recent[recent.size - min(recent.size, q // 2) :]
        groups = [g for g in state.groups if g.stop > g.start]
        if q < TINY_SET:
            kept, groups = recent[:0], [max(groups, key=lambda g: down[g].max() - up[g].min())]
        share = max((q - kept.size) // (2 * len(groups)), 1)
        taken = np.zeros(state.beta.size, dtype=bool)
        taken[kept] = True
        parts = [kept]
        for g in groups:
            low, high = up[g].min(), down[g].max()
            for slope, edge in ((up[g], high), (-down[g], -low)):
                found = g.start + _least(slope, share + kept.size, edge)
                found = found[~taken[found]][:share]
                taken[found] = True
                parts.append(found)
        return np.concatenate(parts)

    def improve(self, state: State, working: Index, tol: float) -> bool:
        """Optimise the working set, with all other variables fixed; return False if that takes too many pair steps."""
        from gramian.solvers.svm.pair_steps import pair_steps

        objects, before = state.task.objects[working], state.beta[working]
        beta, gradient = before.copy(), state.gradient[working]
        most = (BEFORE_NEWTON if self.newton else STEPS_PER_VARIABLE) * working.size
        limit = int(min(most, self.budget - self.steps))
        task, split = state.task, int(np.searchsorted(working, state.task.split))
        lower, upper = task.lower[working], task.upper[working]
        held = HELD[0] < min(self.scale, tol) and max(self.scale, float(np.abs(gradient).max())) < HELD[1]
        coarse = held and SINGLE * self.scale * float((upper - lower).max()) <= ROUNDING * tol
        block = self.block(objects, np.dtype(np.float32 if coarse else np.float64))
        if coarse and SINGLE * float(np.abs(gradient).max()) <= SLOPE_ROUNDING * tol:
            gradient = gradient.astype(np.float32)
        box = state.diagonal[objects].astype(gradient.dtype), lower, upper, float(task.kink), split
        taken, indefinite = pair_steps(*block, *box, tol, limit, NOISE[block[2].dtype.name], beta, gradient)
        self.steps += int(taken)
        self.effort += max(int(taken), working.size)
        self.convex &= not indefinite
        (moved,) = np.nonzero(beta != before)
        if not moved.size:
            raise _StalledError(self.why_lost)
        state.beta[working] = beta
        noise = self.add(objects[moved], (beta - before)[moved], state)
        self.noisy += self.rows.narrow and (noise > ROUNDING * tol or taken == STEPS_PER_VARIABLE * working.size)
        if self.noisy > NOISY_ROUNDS and self.rows.narrow:
            raise _StalledError(self.why_lost)
        return int(taken) < most

    def add(self, objects: Index, moves: Vector, state: State) -> float:
        """Update Kβ after moves of the variables of some objects; return its rounding in single precision."""
        self.rows.add(objects, moves, state.values)
        self.drift += EPSILON * self.scale * float(np.abs(moves).max(initial=0.0))
        return SINGLE * self.scale * float(np.linalg.norm(moves))

    def minimise_free(self, state: State) -> None:
        """Minimise over the free variables by Newton's method, as far as bounds allow."""
        task, kink, beta = state.task, state.task.kink, state.beta
        (free,) = np.nonzero((beta > task.lower) & (beta < task.upper) & ((beta != 0.0) | (kink == 0.0)))
        objects, most = task.objects[free], min(MOST_FREE, self.rows.largest_square)
        if not (self.newton and self.convex and 1 < free.size <= most):
            return
        if self.rows.direct or self.rows.narrow:  # without the rounding of the cache
            K = np.array(self.rows.exact(objects, objects), dtype=np.float64)
        else:
            self.rows.square(objects, K := np.empty((free.size, free.size)))
        before, values, sign = beta[free], state.values.copy(), np.sign(beta[free]) * (kink > 0.0)
        lower = np.where(sign > 0.0, np.maximum(task.lower[free], 0.0), task.lower[free])
        upper = np.where(sign < 0.0, np.minimum(task.upper[free], 0.0), task.upper[free])
        edges = np.searchsorted(free, [g.start for g in state.groups])
        groups = [slice(a, z) for a, z in zip(edges, [*edges[1:], free.size], strict=True) if a < z]
        slope = state.gradient[free] + kink * sign
        after = minimum_on_face(K, slope, before, lower, upper, groups)
        if after is None:
            self.newton = False
            return
        moves = after - before
        self.add(objects, moves, state)
        # The mean of both gradients times the step: the difference of the objectives without cancellation.
        self.newton = bool((slope + state.gradient[free] + kink * sign) @ moves < 0.0)
        if self.newton:
            beta[free] = after
        else:
            state.values = values

    def block(self, objects: Index, dtype: np.dtype[Any]) -> tuple[Vector, Index, Vector, NDArray[np.bool_]]:
        """A matrix, the objects' row numbers in it, K between the objects (q, q), and which of its rows are filled."""
        q, stored, dtype = objects.size, self.rows.stored, min(self.rows.dtype, dtype)
        if self.scratch.size < q * q or self.scratch.dtype != dtype:
            self.scratch = self.rows.scratch(q * q, dtype)
        K = self.scratch[: q * q].reshape(q, q)
        if stored is not None:
            return stored, self.rows.ids[objects], K, np.zeros(q, dtype=bool)
        self.rows.square(objects, K)
        return K, np.arange(q), K, np.ones(q, dtype=bool)

    # ---- shrinking -----------------------------------------------------------------------------------------------

    def shrunk_descent(self, rows: KernelRows, tol: float, until: float) -> bool:
        """Solve without the variables likely to stay at their bounds; return False if these are too few, or all."""
        state = self.state
        up, down = state.slopes()
        live = np.zeros(state.beta.size, dtype=bool)
        for g in state.groups:
            live[g] = (up[g] <= down[g].max(initial=-np.inf)) | (down[g] >= up[g].min(initial=np.inf))
        used = np.zeros(state.values.size, dtype=bool)
        used[state.task.objects[live]] = True
        live = used[state.task.objects]
        if not 0 < np.count_nonzero(live) <= SHRINK_WORTH * live.size:
            return False
        (variables,), (kept,) = np.nonzero(live), np.nonzero(used)
        part = state.restrict(variables, kept)
        columns = rows.ids
        rows.restrict(kept)
        try:
            self.descend(part, tol, until)
        finally:
            state.beta[variables] = part.beta
            rows.widen(columns)
            self.rebuild()
        return True

    # ---- the certificate --------------------------------------------------------------------------------

    def certify(self, tol: float) -> Certificate:
        """The certificate of the current β; its gap is a sum of Fenchel-Young terms, each of them >= 0."""
        state, rounding = self.state, self.rounding
        unit = max(self.divisor(state), TINIEST)
        violation = state.violation(*state.slopes()) / unit
        dual, gap = state.dual(), max(state.gap(), 0.0)
        size = max(abs(dual), abs(dual + gap), nothing(tol) * self.worth, TINIEST)
        met = self.doubtful(violation) <= tol and (state.gap(EXCESS * rounding) <= tol * size or not self.convex)
        return Certificate(
            kind="duality gap" if self.convex else "stationary",
            primal=dual + gap,
            dual=dual,
            gap=gap / size if self.convex else math.nan,
            violation=max(violation, 0.0),
            converged=met and self.feasible,
            iterations=self.steps,
            seconds=self.clock.seconds,
        )

    def doubtful(self, violation: float) -> float:
        """A violation with what rounding may add to it."""
        return violation + PAIR * self.rounding / max(self.divisor(self.state), TINIEST)

    @property
    def feasible(self) -> bool:
        """Whether the groups still have the sums of the start, up to rounding; bounds hold exactly."""
        beta, start = self.state.beta, self.task.start
        off = [abs(float(beta[g].sum() - start[g].sum())) for g in self.state.groups]
        return max(off) <= FEASIBLE * max(float(np.abs(beta).sum()), float(np.abs(start).sum()))

    @property
    def advice(self) -> str:
        """What to change if the fit does not converge; without a linear term there is no C or target."""
        return BY_C if self.task.linear.any() else BY_NU

    @property
    def why_lost(self) -> str:
        """Why rounding ends the descent, and what to do."""
        task, beta = self.task, self.state.beta
        bounded = task.split < beta.size or beta[(beta <= task.lower) | (beta >= task.upper)].any()
        return LOST + (self.advice if bounded or not task.linear.any() else BY_INFINITY)

    @property
    def rounding(self) -> float:
        """Expected rounding error of a value Σ_j β_j k(x_j, x) in float64, with errors of random sign."""
        return max(EPSILON, self.rows.rounding) * self.scale * float(np.linalg.norm(self.state.by_object))

    @property
    def worth(self) -> float:
        """The scale of the objective: the loss of f = 0, or if there is no linear term, the norms of the objects."""
        task = self.task
        most = np.maximum(np.abs(task.lower), np.abs(task.upper))
        if task.linear.any():
            return float(most @ (np.abs(task.linear) + task.kink))
        return self.scale * float(most.sum()) * float(np.abs(task.start).sum())

    def polish(self) -> None:
        """Run the active-set method, whose solution does not depend on the pair steps taken before it."""
        rows = np.arange(self.state.values.size)
        K = self.rows.exact(rows, rows).astype(np.float64, copy=False)
        self.state.beta = polish(K, self.state, self.clock)
        self.state.values = K @ self.state.by_object


def _least(values: Vector, count: int, edge: float) -> Index:
    """Positions of the ``count`` least values below ``edge``, in ascending order of value."""
    (found,) = np.nonzero(values < edge)
    if count < found.size:
        found = found[np.argpartition(values[found], count)[:count]]
    return found[np.argsort(values[found], kind="stable")]
