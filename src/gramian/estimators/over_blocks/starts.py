"""Where machines over blocks begin: at the optimum of the sample that the map was fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gramian.data.parts import Part
from gramian.progress import Clock
from gramian.solvers.in_features.newton import minimise
from gramian.solvers.in_features.objective import Functions
from gramian.solvers.in_features.start import ROUGH, STEPS, Start, origin, started
from gramian.solvers.in_features.worker_map import Lift
from gramian.solvers.machine.data_term import DataFit

__all__ = ["starts"]

COPIES = 3
"""Arrays of the shape (sample, features) alive at once."""


@dataclass(frozen=True, eq=False)
class _Held:
    """Passes over rows in memory."""

    part: Part

    def sum(self, task: Any, shared: Any) -> Any:
        return task(shared, iter([self.part]))


def starts(
    lift: Lift, sample: Part, functions: Functions, solver: str, memory: int, share: float, clock: Clock
) -> list[Start]:
    """Return where functions begin: at the optimum of a sample, of as many rows as fit with their features."""
    most = max(memory // (COPIES * 8 * lift.width), 1)
    stride = -(-sample.index.size // most)
    part = sample.take(np.arange(0, sample.index.size, stride))
    targets, weights = functions.targets.of(part)
    fits = [DataFit(loss, y, weights) for loss, y in zip(functions.losses, targets, strict=True)]
    share /= stride
    if fits[0].coupled:
        # Hessians of all functions at once take fewer operations than solvers in memory.
        begun = [origin(fits[0], lift.width, functions.intercept)]
        if np.any(np.ptp(fits[0].y, axis=0) == 0.0):
            return begun
        held: Any = _Held(part)
        found, _, _ = minimise(held, lift, functions, begun, tol=ROUGH, max_iter=STEPS, clock=clock)
        return [Start(found[0], 1.0, share >= 1.0)]
    F = lift(part.X)
    return [started(F, fit, functions.intercept, functions.lam, solver, share, clock) for fit in fits]
