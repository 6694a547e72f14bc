"""The machine with any loss and any penalty."""

from __future__ import annotations

from gramian.solvers.machine import ccp, newton
from gramian.solvers.machine.dual_point import certified
from gramian.solvers.machine.newton import Iterate
from gramian.solvers.machine.penalties import PENALTIES
from gramian.solvers.machine.problem import Fitted, Problem

__all__ = ["solve"]


def solve(problem: Problem, penalty: str, strength: float, start: Iterate | None = None) -> Fitted:
    """Fit a function by any solver, under any penalty."""
    start = start or newton.origin(problem.fit, problem.intercept)

    def penalised(p: Problem, strength: float, start: Iterate) -> Fitted:
        return certified(p, penalty, strength, PENALTIES[penalty](p, strength, start))

    if problem.solver == "ccp":
        return ccp.minimise(problem, penalised, strength, start)
    return penalised(problem, strength, start)
