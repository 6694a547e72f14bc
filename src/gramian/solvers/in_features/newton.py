"""Machines with any loss over blocks: Newton's method on the weights of features, a pass for each step.

``min_{w, b} Σ_i w_i ℓ(<w, ψ_i> + b, y_i) + (μ/2) ‖w‖²``, from the optimum of a sample on. A pass brings back value and
gradient at a point, and the Hessian where it is wanted, all functions at once; a step that goes too far costs one more
pass, which needs values only. Smooth losses go on beyond the tolerance, with the last Hessian, until they are at the
optimum.

A loss with kinks is replaced by its Moreau envelope, whose width shrinks: its slopes are a point of the dual. Once few
enough rows are near a kink, these alone are a small problem, whose exact solution is that of all rows, or leads there
(``corners``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.data.passes import Passes
from gramian.data.sums import Sums
from gramian.progress import Clock
from gramian.solvers.in_features.block_corners import corners
from gramian.solvers.in_features.objective import LENGTHS, Functions, Point, along, local
from gramian.solvers.in_features.runs import Run, arrived, certificate_of, narrow, note, penalised, reach_of
from gramian.solvers.in_features.start import Start
from gramian.solvers.in_features.worker_map import Lift

__all__ = ["minimise"]

Array = NDArray[np.float64]
Indexed = tuple[int, Run]

GAIN = 0.9
"""Corners are solved one after another as long as each leaves less than this of the gap."""


def minimise(
    passes: Passes,
    lift: Lift,
    functions: Functions,
    starts: list[Start],
    *,
    tol: float,
    max_iter: int,
    clock: Clock,
    most_kinks: int = 0,
) -> tuple[list[Array], list[Certificate], float]:
    """Minimise, each function by itself, in passes that serve all."""
    runs = [Run(start.theta, start.width, bends=not start.exact) for start in starts]
    error = 0.0
    for number in range(max_iter + 1):
        live = [(i, run) for i, run in enumerate(runs) if not run.done]
        if not live:
            break
        ended = "" if number < max_iter else f"max_iter={max_iter} was reached"
        smooth = [each for each in live if not each[1].reach]
        if smooth:
            here = _point(lift, functions, smooth)
            sums = passes.sum(local, here)
            error = float(sums["missed"] / sums["trace"]) if sums["trace"] > 0 else 0.0
            turned = [
                each
                for place, each in enumerate(smooth)
                if not arrived(each[1], place, sums, functions, lift.width, tol, most_kinks)
            ]
        ended = f"max_time={clock.max_time:g} s passed" if clock.expired else ended
        if ended:
            for _, run in live:
                run.why = run.why or ended
            break
        if smooth and turned:
            _shorten(passes, _point(lift, functions, turned), turned, functions.kinks)
        bent = [(i, run) for i, run in live if run.reach]
        if bent:
            _corner(passes, _point(lift, functions, bent), bent, most_kinks)
    certificates = [certificate_of(run, functions, tol, clock) for run in runs]
    return [run.best[1] for run in runs], certificates, error


def _point(lift: Lift, functions: Functions, runs: list[Indexed]) -> Point:
    """Where the next pass looks."""
    each = [run for _, run in runs]
    return Point(
        lift,
        functions,
        which=tuple(i for i, _ in runs),
        theta=tuple(run.trial for run in each),
        widths=tuple(run.width for run in each),
        bends=tuple(run.bends for run in each),
    )


def _values(passes: Passes, here: Point, runs: list[Run]) -> tuple[Sums, list[Array]]:
    """Values along the way from where functions stand to where they look, and what the penalty adds to them."""
    steps = tuple(run.trial - run.theta for run in runs)
    sums = passes.sum(along, replace(here, theta=tuple(run.theta for run in runs), steps=steps))
    m = here.lift.width
    penalties = [
        np.array([0.5 * run.mu * float(np.sum(penalised(run.theta + t * step, m) ** 2)) for t in LENGTHS])
        for run, step in zip(runs, steps, strict=True)
    ]
    return sums, penalties


def _corner(passes: Passes, here: Point, indexed: list[Indexed], most_kinks: int) -> None:
    """Go towards the exact solution of the problem that has kinks near a point only."""
    here = replace(here, theta=tuple(run.theta for _, run in indexed))
    runs = [run for _, run in indexed]
    solved = corners(passes, here, [r.reach for r in runs], [r.mu for r in runs], [r.memo for r in runs])
    for run, found in zip(runs, solved, strict=True):
        if found is None:
            run.refusals += 1
            narrow(run)
            continue
        run.trial, bound, run.memo = found
        run.bound = max(run.bound, bound)
    tried = [each for each, found in zip(indexed, solved, strict=True) if found is not None]
    if not tried:
        return
    runs = [run for _, run in tried]
    sums, penalties = _values(passes, _point(here.lift, here.functions, tried), runs)
    for i, run in enumerate(runs):
        primal = sums[f"value{i}"] + penalties[i]
        best, before, step = int(np.argmin(primal)), run.gap, run.trial - run.theta
        run.steps += 1
        # The way to the solution of a corner leads down at first.
        if primal[best] < run.primal:
            run.theta, run.primal = run.theta + LENGTHS[best] * step, float(primal[best])
        else:
            best = -1
        note(run)
        run.reach = reach_of(run, sums[f"near{i}"], most_kinks)
        if not run.done and (best < 0 or not run.reach or run.gap > GAIN * before):
            narrow(run)


def _shorten(passes: Passes, here: Point, indexed: list[Indexed], kinks: bool) -> None:
    """Find, in a pass of values only, how much of each step to take."""
    runs = [run for _, run in indexed]
    sums, penalties = _values(passes, here, runs)
    for i, run in enumerate(runs):
        reached = sums[f"objective{i}"] + penalties[i]
        best = int(np.argmin(reached))
        run.bends = run.sure = True
        if reached[best] < run.objective:
            run.trial = run.theta + LENGTHS[best] * (run.trial - run.theta)
        else:
            run.trial, run.stuck = run.theta, True
            run.strikes += int(not kinks) * 3
