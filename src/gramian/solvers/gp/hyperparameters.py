"""Learning the parameters of a kernel: starts from the data, a rough climb from each, and L-BFGS from the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.kernels import Kernel
from gramian.kernels.tunable import FREE
from gramian.progress import Clock, Tick, silent
from gramian.resources import random_of, repeatable
from gramian.solvers.gp.ascent import CHEAP, FINE_AIM, LBFGS_AIM, NEWTON_AIM, Ascent, Objective, Theta
from gramian.solvers.gp.starts import VARIANCES, data_starts, quiet_starts, widened

Array = NDArray[np.float64]

Optimizer = Callable[..., tuple[Theta, float]]
"""scikit-learn's contract: ``optimizer(obj_func, initial_theta, bounds)`` returns theta and the least value."""

ENOUGH = 0.5
"""The share where L-BFGS stops if an evaluation takes seconds."""
BINDING = 0.1
"""A bound is warned of if the slope of the evidence there, by the logarithm of the parameter, exceeds this."""
SCREEN = 500
"""Starts are compared on at most this many rows."""
FEW, LEAST, PART = 300, 150, 3
"""Up to ``FEW`` rows starts are compared on all; up to ``SCREEN``, on one in ``PART`` but at least ``LEAST``."""
LARGE, SMALL, THIRD = 16_000, 4000, 3
"""Above ``LARGE`` rows, the climb starts at the optimum, with the Hessian, of one in ``THIRD`` rows; and that one at
those of ``SMALL`` rows."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best of several runs."""

    theta: Theta  # (p,): Where it is
    value: float  # The value; ``-inf`` if no start had a finite one
    slope: Theta  # (p,): The gradient; at an active bound it points outwards
    certificate: Certificate  # Of kind ``"evidence"``: ``primal`` is the value
    curvature: Array | None = None  # (p, p): Minus the Hessian, if asked for

    def certified(self, solved: Certificate) -> Certificate:
        """Return the certificate combined with that of the posterior."""
        learned = self.certificate
        posterior = f"the posterior's residual is {solved.violation:.1e}, {solved.message}" if solved.message else ""
        message = " ".join(m for m in (learned.message, posterior) if m)
        seconds = max(learned.seconds, solved.seconds)
        return replace(learned, converged=learned.converged and solved.converged, seconds=seconds, message=message)

    def binding(self, kernel: Kernel) -> Iterator[tuple[str, str]]:
        """Name the parameters at a bound beyond which the evidence rises, each with scikit-learn's warning."""
        named = [(p, i) for p in kernel.all_parameters() if p.free for i in range(p.values.size)]
        for (p, dimension), slope in zip(named, self.slope, strict=True):
            up = bool(np.isclose(p.values[dimension], float(p.bounds[1]), atol=0.0))
            bound, end, change = float(p.bounds[up]), *(("upper", "Increasing") if up else ("lower", "Decreasing"))
            # Default bounds matter only if the evidence rises beyond them. By a variance far below that of y its slope
            # is tiny, so there any slope counts.
            least = 0.0 if up and p.name.endswith(VARIANCES) else BINDING
            matters = p.bounds != FREE or (slope if up else -slope) > least
            if matters and np.isclose(p.values[dimension], bound, atol=0.0):
                yield (
                    p.name,
                    f"The optimal value found for dimension {dimension} of parameter {kernel._name_given(p.name)} is "
                    f"close to the specified {end} bound {bound}. {change} the bound and calling fit again may find a "
                    "better value.",
                )


def search_random(random_state: Any, restarts: int) -> np.random.RandomState:
    """Return the randomness of restarts and of the choice of rows; without restarts, always the same with None."""
    return random_of(random_state if restarts else repeatable(random_state))


def learn_from_rows(
    kernel: Kernel,
    evidence_of: Callable[[NDArray[np.intp]], Any],
    index: NDArray[np.intp],
    X: Any,
    size: float,
    rng: np.random.RandomState,
    *,
    start: str = "data",
    restarts: int = 0,
    **options: Any,
) -> Optimum:
    """Maximise the evidence of some rows, for targets of mean square ``size``; starts are compared on few rows."""
    if index.size > LARGE and isinstance(options.get("optimizer"), str):
        order, n = rng.permutation(index), index.size
        rough: Any = {"start": start, "restarts": restarts, "curved": True, **options}
        near = learn_from_rows(kernel, evidence_of, np.sort(order[:SMALL]), X, size, rng, **rough)
        for fewer, more in pairwise(sorted({SMALL, max(n // THIRD, SMALL), n})):
            assert near.curvature is not None
            on, curvature = evidence_of(np.sort(order[:more])), near.curvature * (more / fewer)
            near = learn(
                kernel.with_theta(near.theta), on, thorough=False, curvature=curvature, curved=more < n, **options
            )
        return near
    low, high = widened(kernel, X, size, back=True).bounds.T
    drawn = rng.uniform(low, high, (restarts, low.size))
    compete = SCREEN if index.size > SCREEN else max(index.size // PART, LEAST)
    several = start == "data" or restarts > 0
    screen = evidence_of(np.sort(rng.permutation(index)[:compete])) if index.size > FEW and several else None
    evidence = evidence_of(index)
    data = (evidence.X, size, rng) if start == "data" else None
    options |= {"compare": index.size <= SCREEN, "share": compete / index.size}
    return learn(kernel, evidence, data=data, screen=screen, restarts=list(drawn), **options)


def learn(
    kernel: Kernel,
    evidence: Callable[..., Any],
    *,
    data: tuple[Any, float, np.random.RandomState] | None = None,
    screen: Callable[..., Any] | None = None,
    optimizer: str | Optimizer = "fmin_l_bfgs_b",
    restarts: Sequence[Theta] = (),
    compare: bool = False,
    **options: Any,
) -> Optimum:
    """Maximise the evidence over the free parameters of a kernel, starting at its own values and those from ``data``.

    With ``compare``, the ends of climbs on ``screen`` are compared by the evidence itself.
    """
    own = None if isinstance(optimizer, str) else optimizer
    starts = [kernel.theta]
    if data is not None:
        # L-BFGS starts at the kernel's own values too, as in scikit-learn; a user's optimizer is called once.
        candidates = data_starts(kernel, *data)
        values = [(screen or evidence)(kernel.with_theta(theta)).value for theta in candidates]
        best = int(np.argmax(values))
        # The start of the higher value comes first: the climb from there is shorter.
        starts = [candidates[best], *(starts if best and own is None else ())]
        if own is None and best == 0 and len(candidates) > 1:
            starts.append(candidates[1 + int(np.argmax(values[1:]))])
        if own is None and screen is None:
            spare = [candidates[i] for i in np.argsort(values)[::-1]]
            options["spare"] = [*spare, *quiet_starts(kernel, spare)]

    def climb(evidence: Callable[..., Any], theta: Theta) -> tuple[float, Theta]:
        at = evidence(kernel.with_theta(theta), gradient=True)
        return at.value, at.gradient

    def value(theta: Theta) -> float:
        return float(evidence(kernel.with_theta(theta)).value)

    cheap = None if screen is None else partial(climb, screen)
    options |= {"screen": cheap, "value": value if compare else None, "optimizer": own}
    return maximise(partial(climb, evidence), [*starts, *restarts], kernel.bounds, **options)


def maximise(
    objective: Objective,
    starts: Sequence[Theta],
    bounds: Array,
    *,
    screen: Objective | None = None,
    value: Callable[[Theta], float] | None = None,
    optimizer: Optimizer | None = None,
    spare: Sequence[Theta] = (),
    tol: float = 1e-6,
    max_iter: int = 1000,
    thorough: bool = True,
    share: float = 1.0,
    curvature: Array | None = None,
    curved: bool = False,
    clock: Clock | None = None,
    tick: Tick = silent,
) -> Optimum:
    """Climb to the end from the start whose rough climb, on ``screen`` if given, leads highest.

    If that is on a plateau, all starts of ``spare`` are tried. ``share`` is that of the rows that ``screen`` is of.
    ``curvature`` is minus the Hessian at the only start, if it is known; ``curved`` asks for that at the optimum.
    """
    aims = (LBFGS_AIM, FINE_AIM if bounds.shape[0] <= CHEAP else NEWTON_AIM) if thorough else (ENOUGH, 1.0)
    climb = Ascent(objective, bounds, math.sqrt(tol), max_iter, clock or Clock(), tick, *aims)
    inside = [np.clip(start, *bounds.T) for start in starts]
    if optimizer is not None:
        ends = [optimizer(climb.descend, start, bounds=bounds)[0] for start in inside]
        best = max((climb.at(np.asarray(end, dtype=np.float64)) for end in ends), key=lambda run: run.value)
    elif screen is not None and len(inside) > 1:
        ends = climb.ranked(inside, screen, share)
        best = climb.first_finite(ends) if value is None else climb.compared(ends, inside, value)
    else:
        best = climb.best_of(inside) if curvature is None else climb.from_curvature(inside[0], curvature)
        if climb.plateau and spare:
            best = max(best, climb.best_of(list(spare)), key=lambda run: run.value)
    bend = climb.curvature(best, np.ones(best.theta.size, dtype=bool)) if curved else None
    return Optimum(best.theta, best.value, best.slope, climb.certificate(best), bend)
