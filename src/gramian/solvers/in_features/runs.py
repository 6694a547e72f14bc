"""Functions on their way through passes over blocks: what a pass has shown of each, and where the next one looks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.data.sums import Sums
from gramian.losses import offers
from gramian.progress import Clock
from gramian.solvers.in_features.objective import REACHES, Functions
from gramian.solvers.in_features.quasi_newton import Curvature
from gramian.solvers.machine.corners import Memo

__all__ = ["Run", "arrived", "certificate_of", "narrow", "note", "penalised", "reach_of"]

Array = NDArray[np.float64]

CLOSE = 1e-8
"""How far from the optimum a smooth loss may end, in norm and relative to it."""
CHORD = 0.01
"""As long as steps leave no more than this of the gap, they make do with the last Hessian."""
SHRINK = 0.25
"""Of the width of the envelope from one stage to the next, at first."""
STEEPEST = 1e-3
"""And at least, where stages are easy."""
AIM = 0.7
"""Of the rows near a kink that a corner may have, how many a narrower envelope is to have."""
TIED = 0.9
"""Where no more rows than this, of those within twice the reach, are within it, they do not all lie at the kink."""
STAGE = 0.3
"""A stage is solved to this part of what the envelope takes off the objective."""
PATIENCE = 30
"""Passes, once the gap is small enough, in which a loss with kinks may look for its optimum."""
STALLED = 0.9
"""A step that leaves more than this of the gap has gained nothing."""
REFUSALS = 2
"""Corners without a solution after which no more are tried: the loss is not made of straight pieces."""
NARROWEST = 1e-10
"""Of the width, relative to the first."""
FLAT = 1e-11
"""A slope this small, relative to the objective, cannot be seen in the objective."""
EXACT = 1e-13
"""A gap below this, relative to the objective, is rounding."""
TINY = 1e-4
"""An objective below this part of the first is as good as zero."""


@dataclass(eq=False)
class Run:
    """One function on its way: the point it stands at, the one it tries, and how it is going."""

    theta: Array  # (m, k) or (m + 1, k): Where it stands
    width: float  # Of its envelope
    bends: bool = True  # Whether the next pass is to bring a Hessian
    # Where it looks next, and what is known of the way there.
    trial: Array = field(init=False)
    curvature: Curvature | None = field(init=False, default=None)
    last: tuple[Array, Array] | None = field(init=False, default=None)
    objective: float = field(init=False, default=np.inf)
    slope: float = field(init=False, default=0.0)
    sure: bool = field(init=False, default=False)
    stuck: bool = field(init=False, default=False)
    # How good it is.
    scale: float = field(init=False, default=0.0)
    mu: float = field(init=False, default=0.0)
    total: float = field(init=False, default=1.0)
    gap: float = field(init=False, default=np.inf)
    primal: float = field(init=False, default=np.inf)
    bound: float = field(init=False, default=-np.inf)
    violation: float = field(init=False, default=np.inf)
    best: tuple[float, Array, float] = field(init=False, default=(np.inf, np.empty(0), np.inf))
    # Envelopes and corners.
    first: float = field(init=False)
    shrink: float = field(init=False, default=SHRINK)
    reach: float = field(init=False, default=0.0)
    memo: Memo | None = field(init=False, default=None)
    # What was tried, and how it ended.
    tries: int = field(init=False, default=0)
    strikes: int = field(init=False, default=0)
    extra: int = field(init=False, default=0)
    refusals: int = field(init=False, default=0)
    steps: int = field(init=False, default=0)
    done: bool = field(init=False, default=False)
    why: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.trial, self.first = self.theta, self.width

    @property
    def size(self) -> float:
        """What gaps are relative to."""
        return max(abs(self.primal), self.scale)


def penalised(theta: Array, m: int) -> Array:
    """Return weights without constants, zero in their place: theta (m, k) or (m + 1, k)."""
    out = theta.copy()
    out[m:] = 0.0
    return out


def arrived(run: Run, i: int, sums: Sums, functions: Functions, m: int, tol: float, most_kinks: int) -> bool:
    """Take over the point that was tried and find the next."""
    theta = run.trial
    run.total = float(sums[f"weight{i}"])
    run.mu = mu = functions.lam * run.total
    w = penalised(theta, m)
    penalty = 0.5 * mu * float(np.sum(w * w))
    objective = float(sums[f"objective{i}"]) + penalty
    primal = float(sums[f"value{i}"]) + penalty
    flat = not run.sure and abs(run.slope) <= FLAT * abs(objective)
    if not (run.sure or flat or objective <= run.objective + 1e-4 * run.slope):
        return False
    run.theta, run.objective, run.primal, run.sure = theta, objective, primal, False
    run.scale = run.scale or TINY * abs(primal)
    run.steps += 1
    gradient = sums[f"gradient{i}"]
    run.violation = float(np.linalg.norm(gradient + mu * w)) / (float(np.linalg.norm(gradient)) + mu or 1.0)
    # The slopes s of the constants times how far they are from their best, s over the curvature.
    with np.errstate(over="ignore"):
        slack = float(np.sum(gradient[m:] ** 2 / np.maximum(sums[f"bend{i}"], np.finfo(float).tiny)))
    # What is left of the gap of the smooth problem, without a difference of large numbers.
    gap = 0.5 * float(np.sum((gradient[:m] + mu * w[:m]) ** 2)) / mu + slack
    if functions.kinks:
        # A dual point has slopes that sum to zero; these nearly do, and P - P* <= P - D - s b + s (b - b*).
        dual = -float(sums[f"conjugate{i}"]) - 0.5 * float(np.sum(gradient[:m] ** 2)) / mu
        left = float(np.sum(gradient[m:] * theta[m:]))
        run.bound = max(run.bound, primal - max(primal - dual - left, 0.0) - slack)
        _pointed(run, i, sums, gradient + mu * w, gap, m, flat, tol, most_kinks)
    else:
        _smoothly(run, sums[f"hessian{i}"] if run.bends else None, gradient + mu * w, gap, m, flat, tol)
    if run.strikes > 2:
        run.done, run.why = True, "rounding in float64 stops it"
    return True


# ---- smooth losses --------------------------------------------------------------------------------------------------


def _smoothly(run: Run, H: Array | None, slope: Array, gap: float, m: int, flat: bool, tol: float) -> None:
    """Newton's step; once it gains much, with the Hessian of an earlier point."""
    fell = np.isfinite(run.gap) and gap <= CHORD * run.gap
    run.strikes += int(flat and gap > 0.5 * run.best[0])
    run.gap = gap
    if gap <= run.best[0]:
        run.best = (gap, run.theta, run.primal)
    met = gap <= tol * run.size
    norm = float(np.linalg.norm(run.theta[:m]))
    # The objective is μ-strongly convex in the weights.
    if met and np.sqrt(2.0 * gap / run.mu) <= CLOSE * norm:
        run.done = True
        return
    if H is not None:
        run.curvature = Curvature.of(H, run.mu, m, slope.shape)
    elif run.curvature is not None and run.last is not None:
        run.curvature = run.curvature.learned(run.theta - run.last[0], slope - run.last[1])
    run.last, run.bends = (run.theta, slope), not (fell or (met and H is not None))
    if run.curvature is None:
        run.trial, run.sure, run.bends = run.theta, True, True
        return
    _aim(run, run.curvature, slope)


# ---- losses with kinks ----------------------------------------------------------------------------------------------


def _pointed(
    run: Run, i: int, sums: Sums, slope: Array, gap: float, m: int, flat: bool, tol: float, most_kinks: int
) -> None:
    """Solve the corner here, or go on with this envelope, or with a narrower one."""
    before = run.gap
    note(run, flat)
    met = run.best[0] <= tol * run.size
    run.extra += int(met)
    # Differences of slopes in a narrow envelope tell little of the curvature beside the kinks.
    run.strikes += int(met and run.refusals >= REFUSALS and run.gap > STALLED * before)
    run.done |= run.extra > PATIENCE
    if run.done:
        return
    near = sums[f"near{i}"]
    reach = reach_of(run, near, most_kinks)
    if not run.bends:
        run.reach, run.trial, run.sure, run.bends = reach, run.theta, True, True
        return
    H = sums[f"hessian{i}"]
    _aim(run, Curvature.of(H, run.mu, m, slope.shape), slope)
    run.tries += 1
    if reach:
        run.reach = reach
        return
    if not run.stuck and _unsolved(run, gap, met, tol):
        return
    share, tied = run.shrink, near[0] >= TIED * near[1]
    if not tied:
        # Few rows at a kink make Newton's steps short: no narrower than a corner needs it.
        share = max(share, AIM * most_kinks / max(float(near[0]), 1.0))
    # Where a row is at a kink, its slope times the width is its distance: a narrower envelope has the same Hessian.
    wider = 1.0 / share
    _aim(run, Curvature.of(wider * H, run.mu, m, slope.shape), slope + (wider - 1.0) * sums[f"turns{i}"])
    run.shrink = max(run.shrink**2, STEEPEST) if run.tries == 1 else SHRINK
    narrow(run, share, run.trial)
    # A corner, which is likely to come next, needs no Hessian.
    run.bends = tied or float(near[0]) * share > most_kinks or run.refusals >= REFUSALS


def _unsolved(run: Run, gap: float, met: bool, tol: float) -> bool:
    """Whether the next step gains more than a narrower envelope; in the end, the dual point has to be good too."""
    taken = run.primal - run.objective
    last = taken <= tol * run.size and not met
    return bool(
        -0.5 * run.slope > STAGE * taken
        or (run.refusals >= REFUSALS and gap > STAGE * taken)
        or (last and gap > STAGE * tol * run.size)
    )


def reach_of(run: Run, near: Array, most: int) -> float:
    """Return how far around the values kinks are to be looked for: near (len(REACHES),)."""
    fits = np.flatnonzero(near <= most) if run.refusals < REFUSALS else np.empty(0, dtype=np.intp)
    return float(REACHES[fits[-1]]) * run.width if fits.size and near[fits[-1]] else 0.0


def narrow(run: Run, share: float = SHRINK, trial: Array | None = None) -> None:
    """Go on with a narrower envelope."""
    run.width *= share
    run.trial = run.theta if trial is None else trial
    run.sure, run.stuck, run.objective, run.slope, run.tries = True, False, np.inf, 0.0, 0
    run.reach, run.memo, run.bends = 0.0, None, True
    run.done = run.width < NARROWEST * run.first


def note(run: Run, flat: bool = False) -> None:
    """Keep the best point, and see whether it is the optimum."""
    gap = max(run.primal - run.bound, 0.0)
    if flat and np.isfinite(run.gap):
        run.strikes += int(gap > 0.5 * run.best[0])
    run.gap = gap
    if run.primal <= run.best[2]:
        run.best = (gap, run.theta, run.primal)
    run.best = (max(run.best[2] - run.bound, 0.0), *run.best[1:])
    run.done = run.best[0] <= EXACT * run.size


# ---- both -----------------------------------------------------------------------------------------------------------


def _aim(run: Run, curvature: Curvature, slope: Array) -> None:
    """The point at the end of Newton's step."""
    step = curvature.step(slope)
    run.slope, run.trial = float(np.sum(slope * step)), run.theta + step


def certificate_of(run: Run, functions: Functions, tol: float, clock: Clock) -> Certificate:
    """Return how far from optimal a function ended."""
    loss = functions.losses[0]
    known = offers(loss, "conjugate") or not functions.kinks
    least, _, primal = run.best
    gap = least / max(abs(primal), run.scale)
    met = gap <= max(tol, 1e-12)
    why = run.why or "rounding in float64 stops it"
    return Certificate(
        kind="duality gap" if known else "stationary",
        primal=primal / run.total,
        dual=(primal - least) / run.total if known else np.nan,
        gap=gap if known else np.nan,
        violation=run.violation,
        converged=bool(met),
        iterations=run.steps,
        seconds=clock.seconds,
        message="" if met else f"tol={tol:.0e} not met: {why}; allow more, ask for less, or regularise more.",
    )
