"""Newton's method on the weights of features, for a machine with any loss: one pass over the rows per step.

``min_{w, b} Σ_i w_i ℓ(<w, ψ_i> + b, y_i) + (μ/2) ‖w‖²``. A pass serves all functions at once and returns value,
gradient and Hessian at a point. While steps reduce the gap fast, the last Hessian is kept and corrected by the
gradients since (L-BFGS). After a step that is too long, a line search takes one pass of values only.

A loss with kinks is replaced by its Moreau envelope, whose width shrinks; its slopes are a point of the dual.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from gramian.data.passes import Passes, Sums
from gramian.features.base import WorkerMap, error_of
from gramian.solvers.in_features.objective import LENGTHS, Ask, Functions, Point, along, local
from gramian.solvers.machine.penalties import Goal

Array = NDArray[np.float64]

SMALL, SETTLED = 10**6, 1e-14
"""With at most so many features in all (rows times width), a smooth loss is solved to this gap: it costs little."""
CLOSE = 0.5
"""Steps continue to this fraction of the tolerance, as a certificate computed from the function alone is looser."""
NEAR = 0.1
"""Relative gap below which a start counts as close: Newton's first step is expected to converge fast."""
CHORD = 0.1
"""While each step leaves at most this fraction of the gap, the last Hessian is kept."""
MOST_PAIRS = 10
"""Steps with the same block-diagonal Hessian of coupled functions before it is computed again."""
SHRINK, STEEPEST = 0.5, 1e-3
"""Ratio of the envelope's widths in successive stages: the default, and the smallest when stages are easy."""
STAGE = 0.3
"""A stage is solved to this fraction of the gap that the envelope causes."""
NARROWEST = 1e-12
"""Smallest width of the envelope, relative to the first."""
FLAT = 1e-14
"""Below this decrease predicted by the gradient, relative to the objective, its values show only rounding."""
EPS = 1e-15
"""Relative gap below which the gap is rounding."""
LONG = 0.9
"""A step was too long if less than this fraction of it was taken."""
PATIENCE = 20
"""Steps with one envelope before a wider one is taken."""
MOST_STALLS = 4
"""Most steps in a row without progress."""


@dataclass(frozen=True, eq=False)
class FeatureStart:
    """The starting point of a function."""

    theta: Array  # (m, k) or (m + 1, k): Weights, then a row of intercepts
    width: float = 1.0  # Of the envelope of a row of weight one, if the loss has kinks
    wide: float = 0.0  # The width to use if the start turns out to be a bad one
    scale: float = 0.0  # Lower bound on the mean loss to which gaps are relative


@dataclass(frozen=True)
class SlopeSums:
    """A dual point u, one number for each row and function; with an intercept they sum to zero."""

    own: float  # Σ w ℓ*(u / w)
    at_zero: float  # The same at zero
    norm: float  # ‖Σ_i u_i ψ_i‖

    def conjugate(self, share: float) -> float:
        """Return an upper bound on ``Σ w ℓ*(share u / w)``, by convexity."""
        return share * self.own + (1.0 - share) * self.at_zero

    def mixed(self, other: SlopeSums, share: float) -> SlopeSums:
        """Return upper bounds for the convex combination ``share self + (1 - share) other``."""
        own = share * self.own + (1.0 - share) * other.own
        return SlopeSums(own, self.at_zero, share * self.norm + (1.0 - share) * other.norm)


@dataclass(frozen=True, eq=False)
class FeatureOptimum:
    """The result for one function."""

    theta: Array  # (m, k) or (m + 1, k): Weights, then a row of intercepts
    width: float  # Of the last envelope
    slopes: SlopeSums  # The best point of the dual
    primal: float  # The objective, times the sum of the weights
    dual: float  # A lower bound on its minimum
    violation: float  # The gradient, relative to that of the data term
    total: float  # The sum of the weights
    error: float  # The trace error of the map
    scale: float  # Lower bound on the objective to which gaps are relative
    steep: float  # Σ|u|, the cost of an error of one in every value
    steps: int = 0  # Points evaluated
    why: str = ""  # Why it stopped before the tolerance, if it did

    @property
    def size(self) -> float:
        """The size of the objective to which gaps are relative."""
        return max(abs(self.primal), self.scale, np.finfo(float).tiny)

    @property
    def gap(self) -> float:
        """The gap, relative to the objective."""
        return max(self.primal - self.dual, 0.0) / self.size


@dataclass(frozen=True, eq=False)
class _Seen:
    """A function's objective at a point, as evaluated by a pass."""

    ask: Ask
    objective: float  # With the envelope in place of the loss
    slope: Array  # Its gradient
    smooth_gap: float  # Upper bound on its distance from its own minimum
    kink_gap: float  # The part of the gap that the envelope causes
    found: FeatureOptimum  # The point as a result
    hessian: Array | None
    curvature: Curvature  # Its own, or that of a point before
    turns: Array | None  # The part of the gradient from rows at kinks, which grows as the width shrinks
    mu: float  # The penalty's strength
    m: int  # Features

    @property
    def width(self) -> float:
        """The width of the envelope."""
        return self.ask.width


Way = Generator[Ask, tuple[Sums, int], FeatureOptimum]
Look = Generator[Ask, tuple[Sums, int], _Seen]


def minimise(
    passes: Passes, lift: WorkerMap, functions: Functions, starts: dict[int, FeatureStart], limits: Goal
) -> dict[int, FeatureOptimum]:
    """Minimise some of the functions independently, in passes shared by all."""
    settled = not functions.kinks and passes.blocks.n_rows * lift.width <= SMALL
    limits = replace(limits, tol=min(limits.tol, SETTLED) if settled else CLOSE * limits.tol)
    runs = {i: _newton(i, start, functions, lift.width, limits) for i, start in starts.items()}
    waiting = {i: next(run) for i, run in runs.items()}
    found: dict[int, FeatureOptimum] = {}
    while waiting:
        for statistic in (local, along):
            asked = {i: ask for i, ask in waiting.items() if (ask.step is not None) == (statistic is along)}
            if not asked:
                continue
            sums = passes.sum(statistic, Point(lift, functions, tuple(asked.values())), width=lift.width)
            for place, i in enumerate(asked):
                try:
                    waiting[i] = runs[i].send((sums, place))
                except StopIteration as end:
                    found[i] = end.value
                    del waiting[i]
    return found


def _newton(which: int, start: FeatureStart, functions: Functions, m: int, limits: Goal) -> Way:
    """Newton's method for one function, as a coroutine: it yields points to evaluate and is sent their sums."""

    def looked(theta: Array, width: float, hessian: bool = True) -> Look:
        ask = Ask(which, theta, width, hessian)
        return _seen(ask, *(yield ask), functions, m, start.scale, curvature)

    curvature: Curvature | None = None
    here = yield from looked(start.theta, start.width)
    if functions.kinks and start.wide > start.width and here.found.gap > NEAR:
        here = yield from looked(start.theta, start.wide)
    best, stalls, shrink, tries, left = here.found, 0, SHRINK, 0, float(here.smooth_gap > NEAR * abs(here.objective))
    long, curvature = False, here.curvature
    goal = limits.tol
    for steps in range(1, limits.max_iter + 1):
        best = replace(best, steps=steps)
        why = limits.clock.ended(steps, limits.max_iter)
        why = why or ("stopped by rounding in float64" if stalls > MOST_STALLS else "")
        if best.gap <= goal or why:
            return replace(best, why=why)
        step, tries, flat = curvature.step(here.slope), tries + 1, False
        descent = float(np.sum(here.slope * step))
        if functions.kinks and _stage_solved(here, 0.0 if stalls else np.inf if long else -0.5 * descent, goal):
            shrink = max(shrink**2, STEEPEST) if tries == 1 and here.smooth_gap <= here.kink_gap else SHRINK
            # At this share of the width the envelope is narrow enough for the goal.
            useful = STAGE * goal * best.size / max(here.kink_gap, EPS * best.size)
            share = max(shrink, useful, NARROWEST * start.width / here.width)
            there, tries, long = (yield from _next_stage(here, min(share, SHRINK), m, looked)), 0, False
        elif functions.kinks and tries > PATIENCE:
            # Steps that keep crossing kinks gain little; a wider envelope has fewer kinks.
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
        stalls = 0 if gained or (there is not here and not flat) else stalls + 1
        done = functions.kinks and there.found.gap <= goal  # so that a warm start from it stops at once
        if functions.kinks:
            best = there.found if done else _better(best, there.found)
        elif there.found.primal <= best.primal + EPS * best.size:
            best = there.found  # with its own gap: the intercept's part of a gap is an estimate, valid near the optimum
        curvature = there.curvature
        if there.hessian is None:
            curvature = curvature.learned(there.ask.theta - here.ask.theta, there.slope - here.slope)
        here = there
    raise AssertionError("max_iter ends it before.")


def _stage_solved(here: _Seen, left: float, goal: float) -> bool:
    """Whether to narrow the envelope: it causes more of the gap than the next step, and is not yet narrow enough."""
    return here.kink_gap > STAGE * goal * here.found.size and left <= STAGE * here.kink_gap


def _next_stage(here: _Seen, share: float, m: int, looked: Callable[..., Look]) -> Look:
    """Evaluate with a share of the width, at the predicted end of its first step or, if that is worse, right here."""
    there = yield from looked(here.ask.theta + _narrowed(here, share, m), share * here.width)
    if there.objective <= here.found.primal:
        return there
    return (yield from looked(here.ask.theta, max(share, SHRINK) * here.width))


def _narrowed(here: _Seen, share: float, m: int) -> Array:
    """Newton's step for an envelope with a share of the width, predicted from the present one.

    A row at a kink has slope distance / width, so its slope and curvature both grow by 1 / share.
    """
    assert here.hessian is not None
    assert here.turns is not None
    slope = here.slope + (1.0 / share - 1.0) * here.turns
    return Curvature.of(here.hessian / share, here.mu, m, len(slope)).step(slope)


def _stepped(
    here: _Seen, step: Array, enough: float, hessian: bool, long: bool, looked: Callable[..., Look]
) -> Generator[Ask, tuple[Sums, int], tuple[_Seen, bool]]:
    """Take a step, shortened if needed, and return whether it was too long; ``long`` searches along it right away."""
    if not long:
        there = yield from looked(here.ask.theta + step, here.width, hessian)
        if there.objective <= enough:
            return there, False
    there = yield from _shortened(here, step, looked)
    return there, bool(LONG * np.abs(step).max() > np.abs(there.ask.theta - here.ask.theta).max())


def _shortened(here: _Seen, step: Array, looked: Callable[..., Look]) -> Look:
    """Find the best length of a step in one pass of values only, and evaluate there."""
    ask = here.ask
    sums, place = yield replace(ask, step=step)
    penalties = [0.5 * here.mu * float(np.sum((ask.theta + t * step)[: here.m] ** 2)) for t in LENGTHS]
    reached = np.nan_to_num(sums[f"objective{place}"] + penalties, nan=np.inf)
    best = int(np.argmin(reached))
    if reached[best] < here.objective:
        return (yield from looked(ask.theta + LENGTHS[best] * step, ask.width))
    return here if here.hessian is not None else (yield from looked(ask.theta, ask.width))


def _seen(ask: Ask, sums: Sums, i: int, functions: Functions, m: int, scale: float, before: Curvature | None) -> _Seen:
    """The objective at a point, its gradient and a lower bound on the optimum, from the sums of a pass."""
    total, gradient = float(sums[f"weight{i}"]), sums[f"gradient{i}"]
    mu, w = functions.lam * total, ask.theta.copy()
    w[m:] = 0.0
    penalty, slope = 0.5 * mu * float(np.sum(w * w)), gradient + mu * w
    primal, objective = float(sums[f"value{i}"]) + penalty, float(sums[f"objective{i}"]) + penalty
    H = sums[f"hessian{i}"] if ask.hessian else None
    curvature = before if H is None else Curvature.of(H, mu, m, len(slope))
    assert curvature is not None
    # The derivative by each intercept times its distance from its best value, which is about Newton's step.
    slack = float(np.abs(gradient[m:] * curvature.step(slope)[m:]).sum()) if functions.intercept else 0.0
    # The gap of the smooth problem in closed form, without subtracting large numbers.
    gap = smooth_gap = 0.5 * float(np.sum(slope[:m] ** 2)) / mu + slack
    kink_gap, slopes = 0.0, _slopes(sums, i, ask.theta, m, slack, functions.intercept)
    if functions.kinks:
        kink_gap = float(sums[f"value{i}"] + sums[f"conjugate{i}"] - np.sum(gradient * ask.theta))
        gap = max(primal + slopes.own + 0.5 * slopes.norm**2 / mu, 0.0)
    gap = gap if np.isfinite(gap) and np.isfinite(primal) else np.inf
    violation = float(np.linalg.norm(slope)) / (float(np.linalg.norm(gradient)) + mu or 1.0)
    said = (primal, primal - gap, violation, total, error_of(sums), scale * total, float(sums[f"steep{i}"]))
    found = FeatureOptimum(ask.theta, ask.width, slopes, *said)
    turns = sums[f"turns{i}"] if ask.hessian and functions.kinks else None
    return _Seen(ask, objective, slope, smooth_gap, kink_gap, found, H, curvature, turns, mu, m)


def _slopes(sums: Sums, i: int, theta: Array, m: int, slack: float, intercept: bool) -> SlopeSums:
    """The slopes at a point as a dual point.

    With an intercept they must sum to zero, so some of one sign are scaled: ``ℓ*(t u) <= t ℓ*(u) + (1 - t) ℓ*(0)``.
    Rows where the loss is curved are scaled first, as the bound loses almost nothing there.
    """
    if f"signs{i}" not in sums.arrays:
        # Those of coupled functions are not scaled: a derivative s by an intercept costs s (b - b*), the ``slack``.
        gradient = sums[f"gradient{i}"]
        left = float(np.sum(gradient[m:] * theta[m:]))
        return SlopeSums(float(sums[f"conjugate{i}"]) - left + slack, 0.0, float(np.linalg.norm(gradient[:m])))
    sizes, conjugates, zeros, gradients = (sums[f"{name}{i}"] for name in ("signs", "parts", "zeros", "rises"))
    t = np.ones(4)
    if intercept:
        up, down = sizes[[0, 2]].sum(), sizes[[1, 3]].sum()
        larger, excess = (0, up - down) if up > down else (1, down - up)
        few = sizes[larger] > excess
        t[[larger] if few else [larger, larger + 2]] -= excess / (sizes[larger] if few else max(up, down, EPS))
    conjugate = float(t @ conjugates + (1.0 - t) @ zeros)
    return SlopeSums(conjugate, float(zeros.sum()), float(np.linalg.norm(gradients @ t)))


def _better(best: FeatureOptimum, here: FeatureOptimum) -> FeatureOptimum:
    """The function with the lower objective, with the better of the two dual bounds."""
    a = here if here.primal < best.primal else best
    bound = here if here.dual > best.dual else best
    return replace(a, dual=bound.dual, slopes=bound.slopes, width=bound.width, steps=best.steps)


# ---- quasi-Newton updates --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Curvature:
    """The Hessian of an objective at one point, with L-BFGS updates from later gradients (Nocedal, 1980)."""

    # For all functions, or for each: a Cholesky factor, or a matrix that has none, of unknowns in units of their own
    factors: tuple[tuple[Any, Array], ...]
    constants: int  # The row of theta that holds the intercepts
    pairs: tuple[tuple[Array, Array], ...] = ()  # Later steps and changes of the gradient

    @classmethod
    def of(cls, H: Array, mu: float, m: int, rows: int) -> Curvature:
        """Factorise the Hessian of data term and penalty for (rows, k) unknowns: H (k rows, k rows), or its blocks."""
        return cls(tuple(_factored(A, mu, m, rows) for A in (H if H.ndim == 3 else H[None])), m)

    def learned(self, step: Array, change: Array) -> Curvature:
        """Return the curvature updated by one more step: step, change (m, k) or (m + 1, k)."""
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
            # Only differences of the intercepts of coupled functions matter: keep their sum at zero.
            out[self.constants :] -= out[self.constants :].mean(axis=1, keepdims=True)
        return out

    def _solved(self, right: Array) -> Array:
        blocks = np.split(right.T.ravel(), len(self.factors))
        found = np.concatenate([_solution(*factor, b) for factor, b in zip(self.factors, blocks, strict=True)])
        return np.array(found, dtype=np.float64).reshape(right.T.shape).T


def _factored(H: Array, mu: float, m: int, rows: int) -> tuple[Any, Array]:
    """A Cholesky factor of the Hessian plus penalty, or the matrix itself if it is not positive definite, and units.

    In these its diagonal is one, so that beside large features intercepts are not taken for rounding.
    """
    ridge = np.full((H.shape[0] // rows, rows), mu)
    # Intercepts are not penalised; this keeps them in place if the loss is flat or only their differences matter.
    bend = float(np.diagonal(H).reshape(ridge.shape)[:, m:].max(initial=0.0))
    ridge[:, m:] = 1e-12 * (bend or mu)
    A = H.copy()
    A[np.diag_indices_from(A)] += ridge.ravel()
    units = 1.0 / np.sqrt(np.diagonal(A))
    A *= units[:, None] * units
    try:
        return cho_factor(A, check_finite=False), units
    except LinAlgError:
        return A, units


def _solution(factor: Any, units: Array, right: Array) -> Array:
    if isinstance(factor, tuple):
        return np.asarray(units * cho_solve(factor, units * right, check_finite=False))
    return np.asarray(units * np.linalg.lstsq(factor, units * right, rcond=None)[0])
