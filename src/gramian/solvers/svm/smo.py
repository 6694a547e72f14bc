"""Sequential minimal optimisation on two levels, for every task of the support vector family.

All of them are one quadratic program. With signed variables β (``α_i y_i`` in classification, ``α_i - α_i*`` in
regression) it reads

    min ½ βᵀKβ + pᵀβ + ε Σ|β_v|   subject to   lower ≤ β ≤ upper,   Σ_{v in group} β_v = what the start sums to,

with one group, or two for the ν tasks and the hard margin. A working set of the worst violators is optimised in
compiled code on its own small kernel matrix; the gradient of all other variables follows by one sum of kernel rows.

References
----------
Fan, Chen, Lin: Working set selection using second order information. JMLR 2005.
Wen, Shi, Li, He, Chen: ThunderSVM. JMLR 2018 (the two levels).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np

from gramian.certificates import Certificate
from gramian.progress import Clock, Tick, silent
from gramian.resources import one_blas_thread
from gramian.solvers.machine.origin_row import AnchoredRows
from gramian.solvers.svm.active_set import polish
from gramian.solvers.svm.dense import Batch, solve_dense
from gramian.solvers.svm.row_cache import CardRows, FeatureRows, Index, KernelRows
from gramian.solvers.svm.tasks import (
    EPSILON,
    FEASIBLE,
    NOISE,
    NOTHING,
    PAIR,
    TINIEST,
    VANISHED,
    Solution,
    State,
    Task,
    Vector,
)

Rows = KernelRows | FeatureRows | CardRows | AnchoredRows
WORKING_SET = 1024
CARD_SET = 1536
"""On a GPU a round costs more than the longer steps of a larger set."""
COSTLY_SET = 256
"""Where a kernel value costs much, a smaller set asks for fewer rows that turn out not to be needed."""
SHARE = 8
"""One in so many variables is in the working set, at least: to make K of more takes longer than the steps on it."""
TINY_SET = 16
STEPS_PER_VARIABLE = 100
MOST_PATIENCE = 400
"""Steps per variable after which the active-set method has had its chances."""
SHRINK_EVERY = 8
"""Outer rounds between two looks at what could be shrunk."""
SHRINK_WORTH = 0.7
"""Shrinking forgets work at the end: it has to leave at most this share of the variables."""
POLISHED = 512
"""Problems of at most this many variables are solved to machine precision."""
INNER, CARD_INNER = 0.1, 0.2
"""Pair steps on a working set stop at this share of the violation; on a GPU sooner, as rounds cost less."""
STUBBORN = 2048
"""Up to this many, the same is done where pair steps take too long."""
WORTHWHILE = 0.01
"""Share of the gap by which the active-set method has to come nearer, or it is at its end."""
ENDLESS = "pair steps do not converge: the kernel is not positive semi-definite; use another kernel"
LOST = "the optimum is lost in the rounding of sums of kernel values; lower C, scale the inputs or the target"
LOOSE = 1000.0
"""Bounds on β, times kernel values, that are so many times the targets are not expected to bind."""
ROUNDING = 0.25
"""The share of the tolerance that rounding of kernel rows may use up."""
REFINEMENTS = 2
AUDIT = 64
"""Rows of the gradient that are computed anew, in full precision, before an optimum is accepted."""


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
                # ν bounds the sum of |β|; what is missing could be added to both β of a row without any effect.
                return replace(found, beta=np.concatenate([np.maximum(found.beta, 0.0), np.minimum(found.beta, 0.0)]))
        return _Descent(task, rows, *limits).run(tol, polished)


def _is_loose(task: Task, rows: Rows) -> bool:
    """Whether C is so large beside y that a regression may well go through every target."""
    if task.split > STUBBORN // 2:
        return False
    loss = float(task.upper @ np.abs(task.linear - np.median(task.linear)))
    return float((task.upper**2).sum()) * float(np.abs(rows.diagonal()).max(initial=0.0)) > LOOSE * loss


class _StoppedError(Exception):
    """Time or steps are used up; the text says which, and what to do."""


class _StalledError(_StoppedError):
    """No step changes anything in floating point."""


class _Descent:
    def __init__(
        self, task: Task, rows: Rows, max_iter: int, shrink_every: int, working_set: int, clock: Clock, tick: Tick
    ) -> None:
        self.task, self.rows, self.clock, self.tick = task, rows, clock, tick
        largest = min(working_set, max(task.start.size // SHARE, COSTLY_SET))
        largest = CARD_SET if isinstance(rows, CardRows) else largest
        self.most, self.shrink_every = largest if rows.direct else min(COSTLY_SET, working_set), shrink_every
        self.shrinkable = rows.shrinkable if shrink_every else None
        self.inner = CARD_INNER if isinstance(rows, CardRows) else INNER
        self.budget = math.inf if max_iter < 0 else max_iter
        self.steps = 0
        self.effort = 0
        """Pair steps, or variables where a working set has none to take."""
        self.drift = 0.0
        """What rounding may have added to Kβ since it was last computed anew."""
        self.convex = rows.definite
        self.refined = 0
        diagonal = rows.diagonal()
        self.state = State(task, task.start.astype(np.float64), np.zeros(diagonal.size), diagonal)
        self.scale = float(np.max(np.abs(diagonal), initial=0.0)) or 1.0
        self.rebuild()

    # ---- the whole way -------------------------------------------------------------------------------------------

    def run(self, tol: float, polished: int) -> Solution:
        """Descend, check, and go on with a finer tolerance until violation and gap are both small enough."""
        # Targets much smaller than one want a finer tolerance from the start, for the sake of the gap.
        fine, message = tol * min(float(np.ptp(self.task.linear)) or 1.0, 1.0), ""
        m = self.state.beta.size
        patience = STEPS_PER_VARIABLE * m if m <= STUBBORN else math.inf
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
                if not self.check_rows(fine):
                    continue
                exact = self.convex and (m <= polished or not arrived)
                if exact:
                    self.polish()
                self.state.snap()
                certificate = self.certify(tol)
                if certificate.converged or self.vanished(self.state) or (arrived and not self.convex):
                    break
                if not self.convex and self.effort > 10 * STEPS_PER_VARIABLE * m:
                    raise _StoppedError(ENDLESS)
                nearer = certificate.dual - best > WORTHWHILE * (certificate.primal - certificate.dual)
                spent, lost = patience > MOST_PATIENCE * m, fine * self.unit(self.state) < self.rounding
                if (spent or not nearer) if exact else lost:
                    raise _StoppedError(LOST)
                best = certificate.dual
                fine, patience = (0.3 * fine, patience) if arrived else (fine, 2 * patience)
        except _StoppedError as stop:
            message = str(stop)
            certificate = self.certify(tol)
        if not certificate.converged and not self.vanished(self.state):
            certificate = replace(certificate, message=message or LOST)
        state = self.state
        return Solution(state.beta, state.values, state.multipliers(), certificate, self.convex, self.vanished(state))

    def rebuild(self) -> None:
        """Compute Kβ anew from every variable that is not zero; the free ones last, so that their rows stay."""
        state = self.state
        weights = state.by_object
        free = np.zeros(state.values.size, dtype=bool)
        free[state.task.objects[(state.beta > state.task.lower) & (state.beta < state.task.upper)]] = True
        (used,) = np.nonzero(weights)
        used = used[np.argsort(free[used], kind="stable")]
        state.values = np.zeros(state.values.size)
        self.rows.add(used, weights[used], state.values)
        self.drift = 0.0

    def check_rows(self, tol: float) -> bool:
        """Compare some of Kβ with full precision, and tell whether the rounding of the rows may be neglected.

        Where it may not, Kβ is computed anew: from then on the rounding is that of the steps still to come, which
        are small. Where even that shows, the rows themselves are kept in full precision from then on.
        """
        state = self.state
        weights = state.by_object
        (used,) = np.nonzero(weights)
        if not used.size:
            return True
        sample = np.unique(np.linspace(0, state.values.size - 1, AUDIT).astype(np.intp))
        error = np.abs(self.rows.exact(sample, used) @ weights[used] - state.values[sample]).max()
        if error <= ROUNDING * tol * self.unit(state):
            return True
        if self.refined < REFINEMENTS:
            self.refined += 1
            state.values = self.rows.exact_sum(used, weights[used])
        elif self.rows.upgrade():
            self.rebuild()
        else:
            return True
        return False

    # ---- one descent ---------------------------------------------------------------------------------------------

    def descend(self, state: State, tol: float, until: float = math.inf) -> bool:
        """Lower the objective until no pair violates the KKT conditions by more than ``tol``, or ``until`` an effort.

        Returns whether the tolerance was met.
        """
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
            self.improve(state, np.sort(recent), max(0.9 * tol * self.unit(state), self.inner * violation))
            rounds += 1
            if state is self.state and self.drift > max(ROUNDING * tol * self.unit(state), 8.0 * self.rounding):
                self.rebuild()
            if self.shrinkable and state is self.state and rounds % self.shrink_every == 0:
                pressed, evicted = self.rows.evicted > evicted, self.rows.evicted
                if pressed and self.shrunk_descent(self.shrinkable, tol):
                    recent, evicted = np.empty(0, dtype=np.intp), self.rows.evicted

    def divisor(self, state: State) -> float:
        """What the tolerance is counted in: one, the ρ that the answer will be divided by, or values of the kernel."""
        if not self.task.scaled:
            return 1.0 if self.task.linear.any() else self.scale * float(self.task.upper.max())
        first, second = state.multipliers()
        return 0.5 * (first - second)

    def unit(self, state: State) -> float:
        """The same for the descent, which does not chase a ρ that vanishes."""
        return max(self.divisor(state), 1e-7 * self.spread) if self.task.scaled else self.divisor(state)

    @cached_property
    def spread(self) -> float:
        """The largest squared distance of an object from the first, in feature space."""
        everybody = np.arange(self.state.values.size)
        diagonal, row = self.rows.diagonal(), self.rows.exact(everybody[:1], everybody)[0]
        return max(float(np.max(diagonal + diagonal[0] - 2.0 * row)), EPSILON * self.scale)

    def vanished(self, state: State) -> bool:
        """Whether ‖w‖ is nothing beside the objects: two hulls that meet."""
        if not self.task.scaled:
            return False
        mass = 0.5 * float(np.abs(state.beta).sum())
        return state.norm2 <= max(VANISHED * self.spread, 64.0 * EPSILON * self.scale) * mass**2

    def check_limits(self) -> None:
        for over, name in ((self.clock.expired, "max_time"), (self.steps >= self.budget, "max_iter")):
            if over:
                raise _StoppedError(f"{name} was reached; raise it, raise tol, or scale the inputs")

    def working_set(self, state: State, up: Vector, down: Vector, recent: Index) -> Index:
        """The younger half of the last working set, then the worst violators of each group and direction."""
        q = min(self.most, self.rows.largest_square, state.beta.size)
        if q == state.beta.size:
            return np.arange(q)
        kept = recent[recent.size - min(recent.size, q // 2) :]
        groups = [g for g in state.groups if g.stop > g.start]
        if q < TINY_SET:
            # No room for more than the worst pair.
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

    def improve(self, state: State, working: Index, tol: float) -> None:
        """Optimise the working set, with all other variables fixed."""
        from gramian.solvers.svm.inner import pair_steps

        objects = state.task.objects[working]
        K = self.rows.square(objects)
        before = state.beta[working]
        beta = before.copy()
        limit = int(min(STEPS_PER_VARIABLE * working.size, self.budget - self.steps))
        task, split = state.task, int(np.searchsorted(working, state.task.split))
        box = task.lower[working], task.upper[working], float(task.kink), split
        noise, gradient = NOISE[K.dtype.name], state.gradient[working]
        K = K.astype(np.float64, copy=False)
        taken, bent = pair_steps(K, state.diagonal[objects], *box, tol, limit, noise, beta, gradient)
        self.steps += int(taken)
        self.effort += max(int(taken), working.size)
        self.convex &= not bent
        (moved,) = np.nonzero(beta != before)
        if not moved.size:
            raise _StalledError(LOST)
        state.beta[working] = beta
        moves = (beta - before)[moved]
        self.rows.add(objects[moved], moves, state.values)
        self.drift += EPSILON * self.scale * float(np.abs(moves).max())

    # ---- shrinking -----------------------------------------------------------------------------------------------

    def shrunk_descent(self, rows: KernelRows, tol: float) -> bool:
        """Solve without the variables that look settled, then bring them back with a gradient made anew."""
        state = self.state
        up, down = state.slopes()
        live = np.zeros(state.beta.size, dtype=bool)
        for g in state.groups:
            live[g] = (up[g] <= down[g].max(initial=-np.inf)) | (down[g] >= up[g].min(initial=np.inf))
        used = np.zeros(state.values.size, dtype=bool)
        used[state.task.objects[live]] = True
        live = used[state.task.objects]
        if np.count_nonzero(live) > SHRINK_WORTH * live.size:
            return False
        (variables,), (kept,) = np.nonzero(live), np.nonzero(used)
        part = state.restrict(variables, kept)
        columns = rows.ids
        rows.restrict(kept)
        try:
            self.descend(part, tol)
        finally:
            state.beta[variables] = part.beta
            rows.widen(columns)
            self.rebuild()
        return True

    # ---- what is known at the end --------------------------------------------------------------------------------

    def certify(self, tol: float) -> Certificate:
        """Dual objective, and the gap as a sum of Fenchel-Young terms, each of them >= 0."""
        state, rounding = self.state, self.rounding
        unit = max(self.divisor(state), TINIEST)
        violation = state.violation(*state.slopes()) / unit
        dual, gap = state.dual(), max(state.gap(), 0.0)
        size = max(abs(dual), abs(dual + gap), NOTHING * self.worth, TINIEST)
        lost = PAIR * rounding / unit
        met = violation + lost <= tol and (state.gap(rounding) <= tol * size or not self.convex)
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

    @property
    def feasible(self) -> bool:
        """Whether the sums of the groups are what they were at the start, up to rounding; bounds are kept exactly."""
        beta, start = self.state.beta, self.task.start
        off = [abs(float(beta[g].sum() - start[g].sum())) for g in self.state.groups]
        return max(off) <= FEASIBLE * max(float(np.abs(beta).sum()), float(np.abs(start).sum()))

    @property
    def rounding(self) -> float:
        """What rounding in float64 will add to a value Σ_j β_j k(x_j, x): errors of either sign."""
        return max(EPSILON, self.rows.rounding) * self.scale * float(np.linalg.norm(self.state.by_object))

    @property
    def worth(self) -> float:
        """The scale of the objective: the loss of a function that is zero, or else the norms of the objects."""
        task = self.task
        most = np.maximum(np.abs(task.lower), np.abs(task.upper))
        if task.linear.any():
            return float(most @ (np.abs(task.linear) + task.kink))
        return self.scale * float(most.sum()) * float(np.abs(task.start).sum())

    def polish(self) -> None:
        """Solve the KKT equations of the free variables, which makes the answer independent of the path."""
        everything = np.arange(self.state.values.size)
        K = self.rows.exact(everything, everything).astype(np.float64, copy=False)
        self.state.beta = polish(K, self.state, self.clock)
        self.state.values = K @ self.state.by_object


def _least(values: Vector, count: int, edge: float) -> Index:
    """Positions of the ``count`` least values below ``edge``, in ascending order of value."""
    found = np.argpartition(values, count)[:count] if count < values.size else np.arange(values.size)
    found = found[values[found] < edge]
    return found[np.argsort(values[found], kind="stable")]
