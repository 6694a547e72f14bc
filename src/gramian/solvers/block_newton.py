"""Machines with any loss over blocks: Newton's method on the weights of features, a pass for each step.

``min_{w, b} Σ_i w_i ℓ(<w, ψ_i> + b, y_i) + (μ/2) ‖w‖²``. A pass brings back value, gradient and Hessian at a point, all
functions at once; a step that goes too far costs one more pass, which needs values only. A loss with kinks is replaced
by its Moreau envelope, whose width shrinks until the duality gap of the loss itself is small enough: the envelope's
slopes are a point of the dual. Once few rows are near a kink, these alone are a small problem, whose exact solution is
that of all rows, or leads there (``corners``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from gramian.certificates import Certificate
from gramian.data.passes import Passes
from gramian.data.sums import Sums
from gramian.losses import offers
from gramian.progress import Clock
from gramian.solvers.block_corners import corners
from gramian.solvers.block_features import Lift
from gramian.solvers.block_objective import LENGTHS, REACHES, Functions, Point, along, local
from gramian.solvers.corners import Memo

__all__ = ["minimise"]

Array = NDArray[np.float64]

SHRINK = 0.25
"""Of the width of the envelope from one stage to the next."""
STAGE = 0.01
"""A stage is solved to this part of the gap that its width leaves."""
NARROWEST = 1e-14
"""Of the width, relative to the first."""
FLAT = 1e-11
"""A slope this small, relative to the objective, cannot be seen in the objective."""
EXACT = 1e-13
"""A gap below this, relative to the objective, is rounding."""
TINY = 1e-4
"""An objective below this part of the first is as good as zero."""


@dataclass(eq=False)
class _Run:
    """One function on its way: the point it stands at, the one it tries, and how it is going."""

    theta: Array
    width: float
    first: float
    trial: Array | None = None
    objective: float = np.inf
    slope: float = 0.0
    scale: float = 0.0
    mu: float = 0.0
    total: float = 1.0
    gap: float = np.inf
    primal: float = np.inf
    violation: float = np.inf
    strikes: int = 0
    sure: bool = False
    stuck: bool = False
    steps: int = 0
    done: bool = False
    why: str = ""
    bound: float = -np.inf
    reach: float = 0.0
    cornered: bool = False
    memo: Memo | None = None
    best: tuple[float, Array, float] = field(default_factory=lambda: (np.inf, np.empty(0), np.inf))


def minimise(
    passes: Passes,
    lift: Lift,
    functions: Functions,
    start: list[Array],
    widths: list[float],
    *,
    tol: float,
    max_iter: int,
    clock: Clock,
    most_kinks: int = 0,
) -> tuple[list[Array], list[Certificate], float]:
    """Minimise, each function by itself, in passes that serve all.

    Parameters
    ----------
    passes : Passes
        The rows.
    lift : Lift
        The map.
    functions : Functions
        Losses and targets.
    start : list of array of shape (m, k) or (m + 1, k)
        Where each begins; constants below the weights, where there are any.
    widths : list of float
        First widths of the envelopes of losses with kinks.
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Passes with a Hessian at most.
    clock : Clock
        Stops it once expired.
    most_kinks : int, default=0
        Rows near a kink that may come to the client.

    Returns
    -------
    tuple of list of array, list of Certificate and float
        Weights and constants, certificates, and the trace error of the map.
    """
    runs = [_Run(theta, width, width, trial=theta) for theta, width in zip(start, widths, strict=True)]
    error = 0.0
    for number in range(max_iter + 1):
        which = tuple(i for i, run in enumerate(runs) if not run.done)
        if not which:
            break
        live = [runs[i] for i in which]
        here = Point(lift, functions, which, tuple(_tried(run) for run in live), tuple(run.width for run in live))
        sums = passes.sum(local, here)
        error = float(sums["missed"] / sums["trace"]) if sums["trace"] > 0 else 0.0
        turned = [
            run for i, run in enumerate(live) if not _arrived(run, i, sums, functions, lift.width, tol, most_kinks)
        ]
        ended = "" if number < max_iter else f"max_iter={max_iter} was reached"
        ended = f"max_time={clock.max_time:g} s passed" if clock.expired else ended
        if ended:
            for run in live:
                run.why = run.why or ended
            break
        if turned:
            _shorten(passes, here, live, turned, functions.kinks)
        if any(run.reach for run in live):
            _corner(passes, here, [(i, run) for i, run in zip(which, live, strict=True) if run.reach])
    certificates = [_certificate(run, functions, tol, clock) for run in runs]
    return [run.best[1] for run in runs], certificates, error


def _tried(run: _Run) -> Array:
    return run.theta if run.trial is None else run.trial


def _penalised(theta: Array, m: int) -> Array:
    """Weights without constants, zero in their place."""
    out = theta.copy()
    out[m:] = 0.0
    return out


def _arrived(run: _Run, i: int, sums: Sums, functions: Functions, m: int, tol: float, most_kinks: int) -> bool:
    """Take over the point that was tried and find the next; ``False`` where the step went too far."""
    theta = _tried(run)
    run.total = float(sums[f"weight{i}"])
    run.mu = mu = functions.lam * run.total
    w = _penalised(theta, m)
    penalty = 0.5 * mu * float(np.sum(w * w))
    objective = float(sums[f"objective{i}"]) + penalty
    primal = float(sums[f"value{i}"]) + penalty
    if run.cornered and not primal < run.primal:
        _note(run, run.primal, False)
        return _turn_back(run, tol)
    flat = not run.sure and abs(run.slope) <= FLAT * abs(objective)
    if not (run.sure or flat or objective <= run.objective + 1e-4 * run.slope):
        return False
    run.theta, run.objective, run.primal, run.sure = theta, objective, primal, False
    run.steps += 1
    gradient = sums[f"gradient{i}"]
    dual = -float(sums[f"conjugate{i}"]) - 0.5 * float(np.sum(gradient[:m] ** 2)) / mu
    run.scale = run.scale or TINY * abs(primal)
    run.violation = float(np.linalg.norm(gradient + mu * w)) / (float(np.linalg.norm(gradient)) + mu or 1.0)
    # A dual point has slopes that sum to zero; these nearly do, and P - P* <= P - D - s b + s (b - b*).
    left = float(np.sum(gradient[m:] * theta[m:]))
    smoothing = max(primal - dual - left, 0.0)
    slack = _slack(sums[f"hessian{i}"], gradient, m)
    run.bound = max(run.bound, primal - smoothing - slack)
    before = run.gap
    _note(run, primal, flat)
    stage = 0.5 * float(np.sum((gradient[:m] + mu * w[:m]) ** 2)) / mu + slack
    size = max(abs(primal), run.scale)
    met = run.gap <= tol * size
    run.reach = _reach(run, sums[f"near{i}"], most_kinks) if functions.kinks else 0.0
    if run.cornered and (run.gap > 0.5 * before or run.gap <= EXACT * size):
        run.reach = 0.0
    if met and not run.reach:
        run.done = True
    elif functions.kinks and (met or run.cornered or stage <= STAGE * smoothing or run.stuck):
        # As good as this width allows: solve the corner here, or go on with a narrower one.
        if not run.reach:
            _narrow(run)
    else:
        run.reach = 0.0
        _aim(run, sums[f"hessian{i}"], gradient + mu * w, mu, m)
    run.cornered = False
    if run.strikes > 2:
        run.done, run.why = True, "rounding in float64 stops it"
    return True


def _reach(run: _Run, near: Array, most: int) -> float:
    """How far around the values kinks are to be looked for: as far as there are not too many; zero for nowhere."""
    fits = np.flatnonzero(near <= most)
    return float(REACHES[fits[-1]]) * run.width if fits.size and near[fits[-1]] else 0.0


def _narrow(run: _Run) -> None:
    """Go on with a narrower envelope, from where the function stands."""
    run.width *= SHRINK
    run.trial, run.sure, run.stuck, run.objective, run.slope = run.theta, True, False, np.inf, 0.0
    run.reach, run.cornered, run.memo = 0.0, False, None
    run.done = run.width < NARROWEST * run.first


def _turn_back(run: _Run, tol: float) -> bool:
    """A corner that was no better than the point it was made at has shown a bound at least."""
    _narrow(run)
    run.done |= run.best[0] <= tol * max(abs(run.primal), run.scale)
    return True


def _corner(passes: Passes, here: Point, runs: list[tuple[int, _Run]]) -> None:
    """Try the exact solution of the problem that has kinks near a point only."""
    point = replace(
        here,
        which=tuple(i for i, _ in runs),
        theta=tuple(run.theta for _, run in runs),
        widths=tuple(run.width for _, run in runs),
    )
    each = [run for _, run in runs]
    solved = corners(passes, point, [r.reach for r in each], [r.mu for r in each], [r.memo for r in each])
    for run, found in zip(each, solved, strict=True):
        if found is None:
            _narrow(run)
            continue
        run.trial, bound, run.memo = found
        run.bound = max(run.bound, bound)
        run.sure, run.stuck, run.cornered, run.reach = True, False, True, 0.0


def _slack(H: Array, gradient: Array, m: int) -> float:
    """The slopes s of the constants times how far they are from their best, s over the curvature."""
    bend = np.diagonal(H).reshape(gradient.shape[1], -1)[:, m:]
    return float(np.sum(gradient[m:].T ** 2 / np.maximum(bend, np.finfo(float).tiny)))


def _note(run: _Run, primal: float, flat: bool) -> None:
    """Keep the best point; where the objective shows no difference, the gap tells whether steps still gain."""
    gap = max(primal - run.bound, 0.0)
    if flat and np.isfinite(run.gap):
        run.strikes += int(gap > 0.5 * run.best[0])
    run.gap = gap
    if primal <= run.best[2]:
        run.best = (gap, run.theta, primal)
    run.best = (max(run.best[2] - run.bound, 0.0), *run.best[1:])


def _aim(run: _Run, H: Array, slope: Array, mu: float, m: int) -> None:
    """The point at the end of Newton's step."""
    k = slope.shape[1]
    rows = slope.shape[0]
    ridge = np.full((k, rows), mu)
    # A constant is not penalised; where nothing bends under it, or only its difference to others counts, it stays.
    ridge[:, m:] = 1e-12 * (float(np.trace(H)) / H.shape[0] + mu)
    A = H.copy()
    A[np.diag_indices_from(A)] += ridge.ravel()
    right = -slope.T.ravel()
    try:
        step = cho_solve(cho_factor(A, overwrite_a=True, check_finite=False), right, check_finite=False)
    except LinAlgError:
        step = np.asarray(np.linalg.lstsq(H + np.diag(ridge.ravel()), right, rcond=None)[0], dtype=np.float64)
    direction = step.reshape(k, rows).T
    if k > 1:
        # Constants of coupled functions count by their differences: keep them at sum zero.
        direction[m:] -= direction[m:].mean(axis=1, keepdims=True)
    run.slope = float(np.sum(slope * direction))
    run.trial = run.theta + direction


def _shorten(passes: Passes, here: Point, live: list[_Run], turned: list[_Run], kinks: bool) -> None:
    """Find, in a pass of values only, how much of each step to take."""
    places = [i for i, run in enumerate(live) if run in turned]
    runs = [live[i] for i in places]
    steps = tuple(_tried(run) - run.theta for run in runs)
    point = replace(
        here,
        which=tuple(here.which[i] for i in places),
        theta=tuple(run.theta for run in runs),
        widths=tuple(run.width for run in runs),
        steps=steps,
    )
    sums = passes.sum(along, point)
    m = here.lift.width
    for i, run in enumerate(runs):
        penalties = [0.5 * run.mu * float(np.sum(_penalised(run.theta + t * steps[i], m) ** 2)) for t in LENGTHS]
        reached = sums[f"objective{i}"] + np.array(penalties)
        best = int(np.argmin(reached))
        if reached[best] < run.objective:
            run.trial, run.sure = run.theta + LENGTHS[best] * steps[i], True
        else:
            run.trial, run.sure, run.stuck = run.theta, True, True
            run.strikes += int(not kinks) * 3


def _certificate(run: _Run, functions: Functions, tol: float, clock: Clock) -> Certificate:
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
