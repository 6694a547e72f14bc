"""A machine's problem, its answer, and which solver leads from one to the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.losses import missing, offers
from gramian.progress import Clock, Tick, silent
from gramian.solvers.choice import Choice
from gramian.solvers.machine.data_term import DataFit, least_scale
from gramian.solvers.machine.newton import Iterate

__all__ = ["NEEDS", "Fitted", "Problem", "choose"]

NEEDS = {
    "newton": ("value", "gradient", "curvature"),
    "proximal": ("value", "gradient"),
    "ccp": ("value", "gradient", "convex_part", "concave_gradient"),
}
"""What each solver needs of a loss."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be minimised, and how far."""

    space: Any  # Where f lives
    fit: DataFit  # The data term
    intercept: bool  # Whether a constant is free
    solver: str  # A key of ``NEEDS``
    tol: float = 1e-6  # Relative gap to reach
    max_iter: int = 1000  # Newton steps at most, for one multiplier
    polish: bool = False  # Whether small problems are solved to rounding
    clock: Clock = field(default_factory=Clock)  # Stops it once expired
    tick: Tick = silent  # Told the steps done
    # From coefficients to values as the estimator predicts them: what a certificate is made of
    predict: Callable[[Array], Array] | None = None

    @property
    def total(self) -> float:
        """The sum of the weights, by which the data term is divided to make a mean."""
        return float(self.fit.w.sum())

    @cached_property
    def least_scale(self) -> float:
        """What a gap is relative to, at least."""
        return least_scale(self.fit, self.intercept)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted function."""

    at: Iterate  # Coefficients, values and constants
    u: Array  # (n, k): The dual point behind the certificate
    certificate: Certificate  # How far from optimal
    multiplier: float  # The lam of the squared penalty that has the same solution; infinite where f is zero
    why: str = ""  # Why the solver stopped short, where it did


def choose(loss: Any, asked: str = "auto") -> Choice:
    """Choose a solver by what a loss offers."""
    if asked != "auto":
        lacking = missing(loss, NEEDS[asked])
        if lacking or (asked == "proximal" and (not getattr(loss, "convex", True) or getattr(loss, "coupled", False))):
            able = [name for name in NEEDS if not missing(loss, NEEDS[name])]
            lack = " and ".join(lacking) or "what makes it convex entry by entry"
            raise ValueError(
                f"solver={asked!r} needs {', '.join(NEEDS[asked])} of a loss; {type(loss).__name__} lacks {lack}. "
                f"Use solver='auto'{f' or {able[0]!r}' if able else ''}, or another loss."
            )
        return Choice(asked, "as asked")
    if not missing(loss, NEEDS["ccp"]):
        return Choice("ccp", "the loss is a difference of two convex ones")
    if offers(loss, "curvature"):
        return Choice("newton", "the loss has curvature")
    if offers(loss, "prox"):
        return Choice("proximal", "the loss has kinks, and a proximal point")
    return Choice("newton", "the loss offers its gradient, of which differences are taken")
