"""The convex-concave procedure, for a loss that is the difference of two convex ones.

The concave part is replaced by its tangent, the convex problem that is left is solved, and so on: the objective never
rises, and where the tangents no longer change the point is stationary (Yuille and Rangarajan, 2003).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gramian.certificates import Certificate
from gramian.solvers.machine.data_term import DataFit, Tilted
from gramian.solvers.machine.newton import Iterate
from gramian.solvers.machine.problem import Fitted, Problem, choose

__all__ = ["minimise"]

ROUNDS = 100
"""Convex problems at most; a handful is usual."""


def minimise(
    problem: Problem, penalised: Callable[[Problem, float, Iterate], Fitted], strength: float, start: Iterate
) -> Fitted:
    """Find a stationary point."""
    loss, y, w = problem.fit.loss, problem.fit.y, problem.fit.w[:, 0]
    part = loss.convex_part()
    convex = replace(problem, fit=DataFit(part, y, w), solver=choose(part).name)
    fitted = penalised(convex, strength, start)
    steps, settled, tilt = fitted.certificate.iterations, False, np.zeros_like(y)
    for _ in range(ROUNDS):
        bend = loss.concave_gradient(fitted.at.f, y)
        settled = bool(np.array_equal(bend, tilt))
        if settled or problem.clock.expired:
            break
        tilt = bend
        convex = replace(convex, fit=Tilted(part, y, w, tilt))
        fitted = penalised(convex, strength, fitted.at)
        steps += fitted.certificate.iterations
    return replace(fitted, certificate=_certificate(problem, convex, fitted, steps, settled))


def _certificate(problem: Problem, convex: Problem, fitted: Fitted, steps: int, settled: bool) -> Certificate:
    """The last convex problem was solved to ``violation``; the whole is a stationary point, not an optimum."""
    last = fitted.certificate
    y, f, w = problem.fit.y, fitted.at.f, problem.fit.w
    wrong = float(np.sum(w * (y * f <= 0)) / problem.total)
    met = settled and last.converged
    why = last.message if settled else "the tangents still changed; allow more time or iterations."
    return replace(
        last,
        kind="stationary",
        primal=last.primal + (problem.fit.value(f) - convex.fit.value(f)) / problem.total,
        dual=np.nan,
        gap=np.nan,
        violation=last.gap,
        converged=met,
        iterations=steps,
        seconds=problem.clock.seconds,
        message=f"a stationary point, not an optimum; training 0-1 loss {wrong:.4g}" + ("" if met else f"; {why}"),
    )
