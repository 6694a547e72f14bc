"""Losses whose conjugate is linear on an interval: their dual is a quadratic program on a box, the one of ``smo``.

With ``ℓ*(u) = u y + ε |u|`` on [low, high], the coefficients ``α = -u/μ`` of ``min Σ w ℓ(f + b) + (μ/2) ‖f‖²`` solve

    min ½ αᵀKα - yᵀα + ε Σ|α|   subject to   -w high / μ ≤ α ≤ -w low / μ,   Σα = 0.

Pair steps are quick where most α end at a bound or at zero, and slow where few do; so they get a budget, and
``proximal`` goes on from where they end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.losses import offers
from gramian.progress import Clock, Tick, silent
from gramian.solvers import smo
from gramian.solvers.datafit import DataFit, best_constant
from gramian.solvers.newton import Iterate, Newton

__all__ = ["minimise", "suits"]

STEPS_PER_ROW = 20
"""Pair steps, for each row, within which the quick cases are done."""

Array = NDArray[np.float64]


def suits(fit: Any, intercept: bool) -> bool:
    """Tell whether a data term has such a dual.

    Parameters
    ----------
    fit : DataFit
        The data term.
    intercept : bool
        Whether a constant is free, from which the one equality comes.

    Returns
    -------
    bool
        The answer.
    """
    return intercept and type(fit) is DataFit and fit.y.shape[1] == 1 and offers(fit.loss, "tube")


def minimise(space: Any, fit: DataFit, mu: float, *, goal: float, clock: Clock, tick: Tick = silent) -> Newton:
    """Minimise ``D(f + b) + (μ/2) ‖f‖²`` as far as a budget of pair steps goes.

    Parameters
    ----------
    space : ExactSpace or FeatureSpace
        Where f lives.
    fit : DataFit
        D, one that ``suits``.
    mu : float
        μ, > 0.
    goal : float
        Gap, relative to the objective, at which to stop.
    clock : Clock
        Stops it once expired.
    tick : callable, default=silent
        Told the pair steps done, with ``gap=``.

    Returns
    -------
    Newton
        Where it came to, with its gap and the pair steps taken.
    """
    low, high = (fit.w * end for end in fit.loss.domain(fit.y))
    n = fit.y.shape[0]
    task = smo.Task(
        linear=-fit.y[:, 0],
        lower=-high[:, 0] / mu,
        upper=-low[:, 0] / mu,
        start=np.zeros(n),
        objects=np.arange(n),
        split=n,
        kink=float(fit.loss.tube()),
    )
    budget = STEPS_PER_ROW * n
    found = smo.solve(task, space.rows(), tol=max(goal, 1e-12), max_iter=budget, clock=clock, tick=tick)
    alpha, values = found.beta[:, None], found.values[:, None]
    at = Iterate(alpha, values, best_constant(fit, values, np.array([found.bias]), middle=True))
    u = np.clip(-mu * alpha, low, high)
    dual = -fit.conjugate(u) - 0.5 * mu * at.norm2
    gap = fit.value(at.f) + 0.5 * mu * at.norm2 - dual
    return Newton(at, u, -mu * values, max(gap, 0.0), found.certificate.iterations)
