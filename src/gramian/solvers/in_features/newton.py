"""Newton's method on the weights of features, for a machine with any loss: a pass over the rows for each step.

``min_{w, b} Σ_i w_i ℓ(<w, ψ_i> + b, y_i) + (μ/2) ‖w‖²``. A pass serves all functions at once and brings back value,
gradient and Hessian at a point; as long as steps gain much they make do with the last Hessian and what gradients tell
of it since. A step that goes too far costs a pass of values only.

A loss with kinks is replaced by its Moreau envelope, whose width shrinks: its slopes are a point of the dual.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from gramian.data.parts import Sums
from gramian.data.passes import Passes
from gramian.solvers.in_features.objective import LENGTHS, Ask, Functions, Point, along, local
from gramian.solvers.in_features.worker_map import WorkerMap
from gramian.solvers.machine.penalties import Goal

Array = NDArray[np.float64]

SMALL, SETTLED = 10**6, 1e-14
"""With so many features of all rows, a smooth loss goes on to this gap: a pass or two that cost next to nothing."""
CLOSE = 0.5
"""Steps go on to this part of the tolerance: from the function alone, less is found to prove it."""
NEAR = 0.1
"""With a gap below this, relative to the objective, the first step is expected to gain much."""
CHORD = 0.1
"""As long as steps leave no more than this of the gap, they make do with the last Hessian."""
MOST_PAIRS = 10
"""Steps with a Hessian that leaves out how functions bend together, before it is made anew."""
SHRINK, STEEPEST = 0.5, 1e-3
"""Of the width of the envelope from one stage to the next: at first, and at least where stages are easy."""
STAGE = 0.3
"""A stage is solved to this part of what the envelope takes off the objective."""
NARROWEST = 1e-12
"""Of the width, relative to the first."""
FLAT = 1e-14
"""A slope this small, relative to the objective, cannot be seen in the objective."""
EPS = 1e-15
"""A gap below this, relative to the objective, is rounding."""
LONG = 0.9
"""A step of which less than this is taken went too far."""
PATIENCE = 20
"""Steps with one envelope, after which a wider one is taken."""
STRIKES = 4
"""Steps in a row that may gain nothing."""


@dataclass(frozen=True, eq=False)
class Start:
    """Where a function begins."""

    theta: Array  # (m, k) or (m + 1, k): Weights, with constants below
    width: float = 1.0  # Of the envelope of a row of weight one, where the loss has kinks
    wide: float = 0.0  # The width where the start turns out to be a bad one
    scale: float = 0.0  # What a gap of the mean loss is relative to, at least


@dataclass(frozen=True)
class Slopes:
    """A point of the dual: u, one number for each row and function, which sum to zero where there is a constant."""

    own: float  # Σ w ℓ*(u / w)
    at_zero: float  # The same at zero
    norm: float  # ‖Σ_i u_i ψ_i‖

    def conjugate(self, share: float) -> float:
        """Return a bound on the sum at a share of u, which convexity gives."""
        return share * self.own + (1.0 - share) * self.at_zero

    def mixed(self, other: Slopes, share: float) -> Slopes:
        """Return a bound on a share of this point and the rest of another."""
        own = share * self.own + (1.0 - share) * other.own
        return Slopes(own, self.at_zero, share * self.norm + (1.0 - share) * other.norm)


@dataclass(frozen=True, eq=False)
class Optimum:
    """Where a function ended."""

    theta: Array  # (m, k) or (m + 1, k): Weights, with constants below
    width: float  # Of the last envelope
    slopes: Slopes  # The best point of the dual
    primal: float  # The objective, times the sum of the weights
    dual: float  # A lower bound of it
    violation: float  # The gradient, relative to that of the data term
    total: float  # The sum of the weights
    error: float  # What the map leaves of the trace of the kernel
    scale: float  # What gaps are relative to, at least
    steep: float  # What an error of one in every value would cost
    steps: int = 0  # Points looked at
    why: str = ""  # Why it stopped short, where it did

    @property
    def size(self) -> float:
        """What gaps are relative to."""
        return max(abs(self.primal), self.scale, np.finfo(float).tiny)

    @property
    def gap(self) -> float:
        """The gap, relative to the objective."""
        return max(self.primal - self.dual, 0.0) / self.size


@dataclass(frozen=True, eq=False)
class _Seen:
    """What a pass has shown of a function at a point."""

    ask: Ask
    objective: float  # With the envelope in place of the loss
    slope: Array  # Its gradient
    smooth_gap: float  # How far it is from its own optimum, at most
    kink_gap: float  # What the envelope adds to that
    found: Optimum  # The point as an answer
    hessian: Array | None
    turns: Array | None
    mu: float  # The penalty's strength
    m: int  # Features

    @property
    def width(self) -> float:
        """Of the envelope."""
        return self.ask.width


Way = Generator[Ask, tuple[Sums, int], Optimum]
Look = Generator[Ask, tuple[Sums, int], _Seen]


def minimise(
    passes: Passes, lift: WorkerMap, functions: Functions, starts: dict[int, Start], limits: Goal
) -> dict[int, Optimum]:
    """Minimise some of the functions, each by itself, in passes that serve all."""
    settled = not functions.kinks and passes.blocks.n_rows * lift.width <= SMALL
    limits = replace(limits, tol=min(limits.tol, SETTLED) if settled else CLOSE * limits.tol)
    runs = {i: _newton(i, start, functions, lift.width, limits) for i, start in starts.items()}
    waiting = {i: next(run) for i, run in runs.items()}
    found: dict[int, Optimum] = {}
    while waiting:
        for task in (local, along):
            asked = {i: ask for i, ask in waiting.items() if (ask.step is not None) == (task is along)}
            if not asked:
                continue
            sums = passes.sum(task, Point(lift, functions, tuple(asked.values())))
            for place, i in enumerate(asked):
                try:
                    waiting[i] = runs[i].send((sums, place))
                except StopIteration as end:
                    found[i] = end.value
                    del waiting[i]
    return found


def _newton(which: int, start: Start, functions: Functions, m: int, limits: Goal) -> Way:
    """One function's way to its optimum: it asks for what it wants to know and is sent the answers."""

    def looked(theta: Array, width: float, hessian: bool = True) -> Look:
        ask = Ask(which, theta, width, hessian)
        return _seen(ask, *(yield ask), functions, m, start.scale)

    here = yield from looked(start.theta, start.width)
    if functions.kinks and start.wide > start.width and here.found.gap > NEAR:
        here = yield from looked(start.theta, start.wide)
    best, strikes, shrink, tries, left = here.found, 0, SHRINK, 0, float(here.smooth_gap > NEAR * abs(here.objective))
    assert here.hessian is not None
    long = False
    curvature = Curvature.of(here.hessian, here.mu, m, len(here.slope))
    goal = limits.tol
    for steps in range(1, limits.max_iter + 1):
        best = replace(best, steps=steps)
        why = _ended(steps, strikes, limits)
        if best.gap <= goal or why:
            return replace(best, why=why)
        step, tries, flat = curvature.step(here.slope), tries + 1, False
        descent = float(np.sum(here.slope * step))
        if functions.kinks and _stage_solved(here, 0.0 if strikes else np.inf if long else -0.5 * descent, goal):
            shrink = max(shrink**2, STEEPEST) if tries == 1 and here.smooth_gap <= here.kink_gap else SHRINK
            share = max(shrink, _useful(here, goal * best.size, EPS * best.size), NARROWEST * start.width / here.width)
            there, tries, long = (yield from _next_stage(here, min(share, SHRINK), m, looked)), 0, False
        elif functions.kinks and tries > PATIENCE:
            # Steps that cross kinks again and again gain little; a wider envelope has fewer of them.
            there, tries, long = (yield from looked(here.ask.theta, here.width / SHRINK**4)), 0, False
            shrink = SHRINK
        else:
            chord = left <= CHORD or (functions.diagonal and len(curvature.pairs) < MOST_PAIRS)
            flat = abs(descent) <= FLAT * abs(here.objective)
            enough = np.inf if flat else here.objective + 1e-4 * descent
            hessian, long = functions.kinks or not chord, long and not flat
            there, long = yield from _stepped(here, step, enough, hessian, long, looked)
            long, left = functions.kinks and long, there.smooth_gap / (here.smooth_gap or 1.0)
        gained = there.found.primal < best.primal or there.found.dual > best.dual
        strikes = 0 if gained or (there is not here and not flat) else strikes + 1
        done = functions.kinks and there.found.gap <= goal  # then a warm start from it is done at once
        if functions.kinks:
            best = there.found if done else _better(best, there.found)
        elif there.found.primal <= best.primal + EPS * best.size:
            best = there.found  # with its own gap: what a constant may cost is an estimate, good near the optimum only
        if there.hessian is not None:
            curvature = Curvature.of(there.hessian, there.mu, m, len(here.slope))
        else:
            curvature = curvature.learned(there.ask.theta - here.ask.theta, there.slope - here.slope)
        here = there
    raise AssertionError("max_iter ends it before.")


def _stage_solved(here: _Seen, left: float, goal: float) -> bool:
    """Whether a narrower envelope gains more than the next step; one that is narrow enough is solved to the end."""
    return here.kink_gap > STAGE * goal * here.found.size and left <= STAGE * here.kink_gap


def _useful(here: _Seen, goal: float, rounding: float) -> float:
    """Return the share of the width from which on a narrower envelope is narrow enough."""
    return STAGE * goal / max(here.kink_gap, rounding)


def _next_stage(here: _Seen, share: float, m: int, looked: Callable[..., Look]) -> Look:
    """Look at a share of the width: where its first step is expected to end or, where that is worse, from here."""
    there = yield from looked(here.ask.theta + _narrowed(here, share, m), share * here.width)
    if there.objective <= here.found.primal:
        return there
    return (yield from looked(here.ask.theta, max(share, SHRINK) * here.width))


def _narrowed(here: _Seen, share: float, m: int) -> Array:
    """Newton's step for an envelope of a share of the width, as far as this one tells of it.

    Where a row is at a kink its slope times the width is its distance, so that slope and curvature both grow.
    """
    assert here.hessian is not None
    assert here.turns is not None
    slope = here.slope + (1.0 / share - 1.0) * here.turns
    return Curvature.of(here.hessian / share, here.mu, m, len(slope)).step(slope)


def _stepped(
    here: _Seen, step: Array, enough: float, hessian: bool, long: bool, looked: Callable[..., Look]
) -> Generator[Ask, tuple[Sums, int], tuple[_Seen, bool]]:
    """Take a step, or what gains of it, and tell whether it went too far; after one that did, the next is likely to."""
    if not long:
        there = yield from looked(here.ask.theta + step, here.width, hessian)
        if there.objective <= enough:
            return there, False
    there = yield from _shortened(here, step, looked)
    return there, bool(LONG * np.abs(step).max() > np.abs(there.ask.theta - here.ask.theta).max())


def _shortened(here: _Seen, step: Array, looked: Callable[..., Look]) -> Look:
    """Find, in a pass of values only, how much of a step to take, and look there."""
    ask = here.ask
    sums, place = yield replace(ask, step=step)
    penalties = [0.5 * here.mu * float(np.sum((ask.theta + t * step)[: here.m] ** 2)) for t in LENGTHS]
    reached = np.nan_to_num(sums[f"objective{place}"] + penalties, nan=np.inf)
    best = int(np.argmin(reached))
    if reached[best] < here.objective:
        return (yield from looked(ask.theta + LENGTHS[best] * step, ask.width))
    return here if here.hessian is not None else (yield from looked(ask.theta, ask.width))


def _ended(steps: int, strikes: int, limits: Goal) -> str:
    if limits.clock.expired:
        return f"max_time={limits.clock.max_time:g} s passed"
    if steps == limits.max_iter:
        return f"max_iter={limits.max_iter} was reached"
    return "stopped by rounding in float64" if strikes > STRIKES else ""


def _seen(ask: Ask, sums: Sums, i: int, functions: Functions, m: int, scale: float) -> _Seen:
    """What the sums of a pass say of a point: the objective there, its slope, and a lower bound of the optimum."""
    total, gradient = float(sums[f"weight{i}"]), sums[f"gradient{i}"]
    mu, w = functions.lam * total, ask.theta.copy()
    w[m:] = 0.0
    penalty, slope = 0.5 * mu * float(np.sum(w * w)), gradient + mu * w
    primal, objective = float(sums[f"value{i}"]) + penalty, float(sums[f"objective{i}"]) + penalty
    with np.errstate(over="ignore"):
        # The slopes s of the constants times how far they are from their best, s over the curvature.
        slack = float(np.sum(gradient[m:] ** 2 / np.maximum(sums[f"bend{i}"], np.finfo(float).tiny)))
    # What is left of the gap of the smooth problem, without a difference of large numbers.
    gap = smooth_gap = 0.5 * float(np.sum(slope[:m] ** 2)) / mu + slack
    kink_gap, slopes = 0.0, _slopes(sums, i, ask.theta, m, slack, functions.intercept)
    if functions.kinks:
        kink_gap = float(sums[f"value{i}"] + sums[f"conjugate{i}"] - np.sum(gradient * ask.theta))
        gap = max(primal + slopes.own + 0.5 * slopes.norm**2 / mu, 0.0)
    gap = gap if np.isfinite(gap) and np.isfinite(primal) else np.inf
    error = float(sums["missed"] / sums["trace"]) if sums["trace"] > 0 else 0.0
    violation = float(np.linalg.norm(slope)) / (float(np.linalg.norm(gradient)) + mu or 1.0)
    said = (primal, primal - gap, violation, total, error, scale * total, float(sums[f"steep{i}"]))
    found = Optimum(ask.theta, ask.width, slopes, *said)
    H = sums[f"hessian{i}"] if ask.hessian else None
    turns = sums[f"turns{i}"] if ask.hessian and functions.kinks else None
    return _Seen(ask, objective, slope, smooth_gap, kink_gap, found, H, turns, mu, m)


def _slopes(sums: Sums, i: int, theta: Array, m: int, slack: float, intercept: bool) -> Slopes:
    """The slopes at a point as a point of the dual.

    With a constant they have to sum to zero, so some of one sign are scaled: ``ℓ*(t u) <= t ℓ*(u) + (1 - t) ℓ*(0)``.
    Those where the loss bends lose next to nothing by it.
    """
    if f"signs{i}" not in sums.arrays:
        # Those of coupled functions stay as they are: a slope s of a constant costs s (b - b*), and ``slack`` is that.
        gradient = sums[f"gradient{i}"]
        left = float(np.sum(gradient[m:] * theta[m:]))
        return Slopes(float(sums[f"conjugate{i}"]) - left + slack, 0.0, float(np.linalg.norm(gradient[:m])))
    sizes, conjugates, zeros, gradients = (sums[f"{name}{i}"] for name in ("signs", "parts", "zeros", "rises"))
    t = np.ones(4)
    if intercept:
        up, down = sizes[[0, 2]].sum(), sizes[[1, 3]].sum()
        larger, excess = (0, up - down) if up > down else (1, down - up)
        few = sizes[larger] > excess
        t[[larger] if few else [larger, larger + 2]] -= excess / (sizes[larger] if few else max(up, down, EPS))
    conjugate = float(t @ conjugates + (1.0 - t) @ zeros)
    return Slopes(conjugate, float(zeros.sum()), float(np.linalg.norm(gradients @ t)))


def _better(best: Optimum, here: Optimum) -> Optimum:
    """The better function with the better bound."""
    a = here if here.primal < best.primal else best
    bound = here if here.dual > best.dual else best
    return replace(a, dual=bound.dual, slopes=bound.slopes, width=bound.width, steps=best.steps)


# ---- a Hessian that is kept ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Curvature:
    """The Hessian of an objective at some point, corrected by gradients at others (Nocedal, 1980)."""

    factors: tuple[Any, ...]  # Cholesky factors, or matrices that have none: of all functions, or one for each
    constants: int  # The row at which the constants of functions stand, below their weights
    pairs: tuple[tuple[Array, Array], ...] = ()  # Steps since, and by how much the gradient changed

    @classmethod
    def of(cls, H: Array, mu: float, m: int, rows: int) -> Curvature:
        """Factor the Hessian of data terms and penalty for (rows, k) unknowns: H (k rows, k rows), or its blocks."""
        return cls(tuple(_factored(A, mu, m, rows) for A in (H if H.ndim == 3 else H[None])), m)

    def learned(self, step: Array, change: Array) -> Curvature:
        """Return what is known after one more step: step, change (m, k) or (m + 1, k)."""
        if not np.sum(step * change) > 1e-8 * np.linalg.norm(step) * np.linalg.norm(change):
            return self
        return replace(self, pairs=(*self.pairs, (step, change)))

    def step(self, slope: Array) -> Array:
        """Return Newton's step: slope (m, k) or (m + 1, k)."""
        right, shares = -slope, []
        for step, change in reversed(self.pairs):
            share = float(np.sum(step * right) / np.sum(step * change))
            shares.append(share)
            right = right - share * change
        out = self._solved(right)
        for (step, change), share in zip(self.pairs, reversed(shares), strict=True):
            out = out + (share - float(np.sum(change * out) / np.sum(step * change))) * step
        if slope.shape[1] > 1:
            # Constants of coupled functions count by their differences: keep them at sum zero.
            out[self.constants :] -= out[self.constants :].mean(axis=1, keepdims=True)
        return out

    def _solved(self, right: Array) -> Array:
        blocks = np.split(right.T.ravel(), len(self.factors))
        found = np.concatenate([_solution(factor, b) for factor, b in zip(self.factors, blocks, strict=True)])
        return np.array(found, dtype=np.float64).reshape(right.T.shape).T


def _factored(H: Array, mu: float, m: int, rows: int) -> Any:
    """A Cholesky factor of a Hessian with the penalty, or the matrix itself where it has none."""
    ridge = np.full((H.shape[0] // rows, rows), mu)
    # A constant is not penalised; where nothing bends under it, or only its difference to others counts, it stays.
    ridge[:, m:] = 1e-12 * (float(np.trace(H)) / H.shape[0] + mu)
    A = H.copy()
    A[np.diag_indices_from(A)] += ridge.ravel()
    try:
        return cho_factor(A, check_finite=False)
    except LinAlgError:
        return A


def _solution(factor: Any, right: Array) -> Array:
    if isinstance(factor, tuple):
        return np.asarray(cho_solve(factor, right, check_finite=False))
    return np.asarray(np.linalg.lstsq(factor, right, rcond=None)[0])
