"""Learning the parameters of a kernel: starts from the data, a rough run from each, and L-BFGS from the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from gramian.certificates import Certificate
from gramian.kernels import Kernel
from gramian.kernels.points import dense
from gramian.kernels.tunable import FREE
from gramian.progress import Clock, Tick, silent
from gramian.resources import random_of, repeatable
from gramian.solvers.gp.ascent import CHEAP, FINE_AIM, LBFGS_AIM, NEWTON_AIM, Ascent, Objective, Theta
from gramian.solvers.gp.evidence import signal_and_noise

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
"""Above ``LARGE`` rows, the search starts at the optimum, with the Hessian, of one in ``THIRD`` rows; and that one at
those of ``SMALL`` rows."""
SAMPLE = 500
"""The median distance is taken over this many rows."""
CELLS = 10_000_000
"""At most this many numbers in those rows."""
MULTIPLES = (0.02, 0.1, 0.5, 1.0, 2.0)
"""Lengthscales to start at, as multiples of the median distance."""
VARIANCES = ("factor", "value", "noise")
"""Parameters in units of y²."""
LENGTHS = ("lengthscale", "period")
"""Parameters in units of X."""
NOISE = 0.1
"""The noise to start at, as a share of the mean square of y."""
LESS_NOISE = 1e-3
"""On a plateau, starts are tried with this share of the noise too."""
REPEATS = 20
"""Equal rows bound the noise from below if they leave at least this many degrees of freedom."""


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
            on, guess = evidence_of(np.sort(order[:more])), near.curvature * (more / fewer)
            near = learn(kernel.with_theta(near.theta), on, thorough=False, curvature=guess, curved=more < n, **options)
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

    With ``compare``, the ends of runs on ``screen`` are compared by the evidence itself.
    """
    own = None if isinstance(optimizer, str) else optimizer
    starts = [kernel.theta]
    if data is not None:
        # L-BFGS starts at the kernel's own values too, as in scikit-learn; a user's optimizer is called once.
        candidates = data_starts(kernel, *data)
        values = [(screen or evidence)(kernel.with_theta(theta)).value for theta in candidates]
        best = int(np.argmax(values))
        # The start of the higher value comes first: the run from there is shorter.
        starts = [candidates[best], *(starts if best and own is None else ())]
        if own is None and best == 0 and len(candidates) > 1:
            starts.append(candidates[1 + int(np.argmax(values[1:]))])
        if own is None and screen is None:
            spare = [candidates[i] for i in np.argsort(values)[::-1]]
            options["spare"] = [*spare, *_with_less_noise(kernel, spare)]

    def value_and_slope(evidence: Callable[..., Any], theta: Theta) -> tuple[float, Theta]:
        at = evidence(kernel.with_theta(theta), gradient=True)
        return at.value, at.gradient

    def value(theta: Theta) -> float:
        return float(evidence(kernel.with_theta(theta)).value)

    cheap = None if screen is None else partial(value_and_slope, screen)
    options |= {"screen": cheap, "value": value if compare else None, "optimizer": own}
    return maximise(partial(value_and_slope, evidence), [*starts, *restarts], kernel.bounds, **options)


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
    """Maximise from the start whose rough run, on ``screen`` if given, ends highest.

    If that is on a plateau, all starts of ``spare`` are tried. ``share`` is that of the rows that ``screen`` is of.
    ``curvature`` is minus the Hessian at the only start, if it is known; ``curved`` asks for that at the optimum.
    """
    aims = (LBFGS_AIM, FINE_AIM if bounds.shape[0] <= CHEAP else NEWTON_AIM) if thorough else (ENOUGH, 1.0)
    ascent = Ascent(objective, bounds, math.sqrt(tol), max_iter, clock or Clock(), tick, *aims)
    inside = [np.clip(start, *bounds.T) for start in starts]
    if optimizer is not None:
        ends = [optimizer(ascent.descend, start, bounds=bounds)[0] for start in inside]
        best = max((ascent.at(np.asarray(end, dtype=np.float64)) for end in ends), key=lambda run: run.value)
    elif screen is not None and len(inside) > 1:
        ends = ascent.ranked(inside, screen, share)
        best = ascent.first_finite(ends) if value is None else ascent.compared(ends, inside, value)
    else:
        best = ascent.best_of(inside) if curvature is None else ascent.from_curvature(inside[0], curvature)
        if ascent.plateau and spare:
            best = max(best, ascent.best_of(list(spare)), key=lambda run: run.value)
    bend = ascent.curvature(best, np.ones(best.theta.size, dtype=bool)) if curved else None
    return Optimum(best.theta, best.value, best.slope, ascent.certificate(best), bend)


# ---- starts and bounds from the data ---------------------------------------------------------------------------------


def data_starts(kernel: Kernel, X: Any, size: float, rng: np.random.RandomState) -> list[Theta]:
    """List promising starts: the kernel's own theta first, then lengthscales and variances taken from the data.

    A lengthscale common to all inputs starts at 0.02 to 2 median distances; one per input at such multiples of √d
    deviations of that input. Variances give the prior the size of y², and the noise a tenth of it.
    """
    given = kernel.theta
    starts = [given]
    typical = _typical_lengthscales(kernel, X, rng)
    if typical is not None:
        starts += [np.where(np.isfinite(typical), typical + math.log(multiple), given) for multiple in MULTIPLES]
    if size > 0:
        scaled = [_in_units(kernel, start, X, size) for start in starts]
        starts = scaled if np.array_equal(scaled[0], given) else [given, *scaled]
    return [np.clip(start, *kernel.bounds.T) for start in starts]


def _with_less_noise(kernel: Kernel, starts: list[Theta]) -> list[Theta]:
    """The same starts with less noise; none if the kernel has no noise to learn."""
    step = np.where(_names(kernel) == "noise", math.log(LESS_NOISE), 0.0)
    return [np.clip(start + step, *kernel.bounds.T) for start in starts] if step.any() else []


def _names(kernel: Kernel) -> NDArray[np.str_]:
    """The name of the parameter of each entry of theta, without the path to it."""
    return np.array([p.name.rpartition(".")[2] for p in kernel.all_parameters() if p.free for _ in p.values])


def _in_units(kernel: Kernel, theta: Theta, X: Any, size: float) -> Theta:
    """Theta with variances that give the prior the size of y², and the noise a tenth of it."""
    names = _names(kernel)
    prior = float(np.mean(signal_and_noise(kernel.with_theta(theta))[0].diag(X)))
    shift = math.log(size / prior) if prior > 0 else 0.0
    theta = np.where(np.isin(names, VARIANCES), theta + shift, theta)
    return np.where(names == "noise", math.log(NOISE * size), theta)


def _typical_lengthscales(kernel: Kernel, X: Any, rng: np.random.RandomState) -> Theta | None:
    """Logs of lengthscales from the spread of the rows, nan for other parameters; None if the rows are not vectors."""
    free = [p for p in kernel.all_parameters() if p.free]
    vectors = getattr(X, "ndim", 0) == 2 and X.dtype.kind in "fiu"
    if not vectors or not any(p.name.endswith("lengthscale") for p in free):
        return None
    count = min(SAMPLE, X.shape[0], max(CELLS // X.shape[1], 2))
    rows = X[rng.choice(X.shape[0], count, replace=False)]
    rows = dense(rows, np.float64)
    distances = pdist(rows)
    distances = distances[distances > 0]
    if distances.size == 0:
        return None
    spread = rows.std(axis=0)
    each = np.log(math.sqrt(spread.size) * np.where(spread > 0, spread, 1.0))
    typical = [np.full(p.values.size, np.nan) for p in free]
    for p, values in zip(free, typical, strict=True):
        if p.name.endswith("lengthscale") and not isinstance(p.value, tuple):
            values[:] = math.log(float(np.median(distances)))
        elif p.name.endswith("lengthscale") and values.size == each.size:
            values[:] = each
    return np.concatenate(typical)


def widened(kernel: Kernel, X: Any, size: float, *, back: bool = False) -> Kernel:
    """Return the kernel with its default bounds widened by the spread of the rows and the size of y²."""
    spread = float(np.sqrt(np.sum(np.var(X, axis=0)))) if _numbers(X) else 1.0
    units = {VARIANCES: size, LENGTHS: 1.0 if 1e-3 <= spread <= 1e3 else spread}
    changes = {}
    for names, unit in units.items():
        factor = unit if 0.0 < unit < math.inf else 1.0
        wide = (FREE[0] * min(factor, 1.0), FREE[1] * max(factor, 1.0))
        old, new = (wide, FREE) if back else (FREE, wide)
        for p in kernel.all_parameters():
            if p.bounds == old and p.name.endswith(names) and np.all((p.values >= new[0]) & (p.values <= new[1])):
                changes[f"{p.name}_bounds"] = new
    return kernel.with_fields(changes)


def noise_of_repeats(X: Any, Y: Array) -> float:
    """Return a lower bound of the noise, from equal rows with different targets: Y (n, t)."""
    if not _numbers(X):
        return 0.0
    _, group, count = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    group, freedom = group.ravel(), (Y.shape[0] - count.size) * Y.shape[1]
    if freedom < REPEATS:
        return 0.0
    means = np.stack([np.bincount(group, y) / count for y in Y.T], axis=1)
    return float(np.sum((Y - means[group]) ** 2)) / freedom * (1.0 - 2.0 * math.sqrt(2.0 / freedom))


def _numbers(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f" and X.size > 0
