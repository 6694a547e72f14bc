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
from scipy.optimize import Bounds, OptimizeResult, minimize
from scipy.spatial.distance import pdist

from gramian.certificates import Certificate, certify
from gramian.kernels import Kernel
from gramian.kernels.tunable import FREE
from gramian.progress import Clock, Tick, silent
from gramian.resources import random_of, repeatable
from gramian.solvers.gp.evidence import signal_and_noise

Array = NDArray[np.float64]

Theta = Array
Objective = Callable[[Theta], tuple[float, Theta]]
"""From theta to the value to maximise, and its gradient."""
Optimizer = Callable[..., tuple[Theta, float]]
"""scikit-learn's contract: ``optimizer(obj_func, initial_theta, bounds)`` returns theta and the least value."""

ROUGH = {"ftol": 1e-5, "gtol": 1e-1}
"""Tolerances of a rough climb, whose end is compared with others."""
AIM, POLISHED = 0.01, 0.1
"""Shares of the largest slope that converges: where L-BFGS stops, and below which no Newton step is taken."""
STRIDE, EXPLORING = 1.0, 4.0
"""The longest first step, in theta, of the climb to the end, and of a rough one: a longer one finds more optima."""
ENOUGH = 0.5
"""The share where L-BFGS stops if an evaluation takes seconds."""
FLAT_VALUE = 1e-11
"""Below this relative gain L-BFGS follows rounding errors."""
FINE = {"ftol": FLAT_VALUE, "maxls": 10}
"""Tolerances of a climb to the end, beside that of its slope."""
SETTLED, CHEAP = 1e-4, 3
"""The share below which no Newton step is taken if there are so few parameters, or if one was put at its bound: small
enough that fits to rows that differ by rounding agree."""
HANDED_OVER = 10.0
"""The share at which Newton's method takes over from L-BFGS if there are few parameters."""
NEAR = 0.3
"""A climb within this distance, in theta, of the end of another one stops."""
APART = 1.0
"""Ends of rough climbs further apart than this, in theta, are different optima."""
NEWTON_STEPS = 5
"""Newton steps at most; they are judged by the slope, since near the optimum the value is constant to rounding."""
MUCH = 0.1
"""After a step that reduces the slope to less than this share, the next one uses the same Hessian."""
HAIRS = (1e-13, -1e-13, 2e-13)
"""Steps, in theta, that change rounding errors only."""
UNFELT = 0.01
"""Slopes that change by less than this share of the largest that converges are not made of rounding."""
DIFFERENCE = 1e-4
"""The step, in theta, of the differences that a Hessian is made of; entries of a linear map may be known to 1e-3."""
BINDING = 0.1
"""A bound is warned of if the slope of the evidence there, by the logarithm of the parameter, exceeds this."""
PLATEAU = 1e-3
"""Where the evidence curves less than this along a parameter it may be constant, and higher elsewhere."""
SCREEN = 500
"""Starts are compared on at most this many rows."""
FEW, LEAST, PART = 300, 150, 3
"""Up to ``FEW`` rows starts are compared on all; up to ``SCREEN``, on one in ``PART`` but at least ``LEAST``."""
LARGE, SMALL, THIRD = 16_000, 4000, 3
"""Above ``LARGE`` rows, the climb starts at the optimum, with the Hessian, of one in ``THIRD`` rows; and that one at
those of ``SMALL`` rows."""
FLATTEST = 1e-6
"""Smaller curvatures are replaced by this share of the largest, which bounds the length of a Newton step."""
PATIENCE = 10
"""So many quasi-Newton steps must halve the slope, or L-BFGS takes over: it is faster in a curved valley."""
SHORTER, SHORTEST = 0.25, 5
"""The factor by which a step that lowers the value is shortened, and how often."""
WOBBLE = 1e-9
"""A relative decrease of the value that may be rounding: such a step is judged by the slope."""
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
QUIET = 1e-3
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
            on, bent = evidence_of(np.sort(order[:more])), near.curvature * (more / fewer)
            near = learn(kernel.with_theta(near.theta), on, thorough=False, bent=bent, curved=more < n, **options)
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
            options["spare"] = [*spare, *_quiet(kernel, spare)]

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
    bent: Array | None = None,
    curved: bool = False,
    clock: Clock | None = None,
    tick: Tick = silent,
) -> Optimum:
    """Climb to the end from the start whose rough climb, on ``screen`` if given, leads highest.

    If that is on a plateau, all starts of ``spare`` are tried. ``share`` is that of the rows that ``screen`` is of.
    ``bent`` is minus the Hessian at the only start, if it is known. With ``curved``, that at the optimum is returned.
    """
    climb = _Climb(objective, bounds, math.sqrt(tol), max_iter, clock or Clock(), tick)
    polish = SETTLED if bounds.shape[0] <= CHEAP else POLISHED
    climb.aim, climb.polish = (AIM, polish) if thorough else (ENOUGH, 1.0)
    inside = [np.clip(start, *bounds.T) for start in starts]
    if optimizer is not None:
        ends = [optimizer(climb.descend, start, bounds=bounds)[0] for start in inside]
        best = max((climb.at(np.asarray(end, dtype=np.float64)) for end in ends), key=lambda run: run.value)
    elif screen is not None and len(inside) > 1:
        ends = climb.ranked(inside, screen, share)
        best = climb.first_finite(ends) if value is None else climb.finals(ends, inside, value)
    else:
        best = climb.competition(inside) if bent is None else climb.from_curvature(inside[0], bent)
        if climb.plateau and spare:
            best = max(best, climb.competition(list(spare)), key=lambda run: run.value)
    curvature = climb.curvature(best, np.ones(best.theta.size, dtype=bool)) if curved else None
    return Optimum(best.theta, best.value, best.slope, climb.certificate(best), curvature)


@dataclass(frozen=True, eq=False)
class _Run:
    """The end of one climb; ``limited`` if it was stopped by its number of steps."""

    theta: Theta
    value: float
    slope: Theta
    limited: bool = False


class _Climb:
    """The maximisation of one objective: its tolerances, count of steps, and clock."""

    def __init__(
        self, objective: Objective, bounds: Array, flat: float, max_iter: int, clock: Clock, tick: Tick
    ) -> None:
        self.objective, self.bounds, self.clock, self.tick = objective, bounds, clock, tick
        self.flat, self.max_iter = flat, max_iter
        self.iterations, self.aim, self.polish = 0, AIM, POLISHED
        self.plateau = False  # whether the last Hessian is as good as zero along a parameter
        self.known: list[Theta] = []  # ends of earlier climbs; a climb that comes near one of them stops
        self.bent: tuple[Theta, Array] | None = None  # an end, and about minus the Hessian there

    def ranked(self, starts: list[Theta], screen: Objective, share: float) -> list[Theta]:
        """The ends of rough climbs on a cheaper objective, the highest first, where the Hessian is estimated."""
        runs: list[_Run] = []
        objective, self.objective = self.objective, screen
        for start in starts:
            if runs and self.clock.expired:
                break
            runs.append(self.lbfgs(start, ROUGH))
            self.known.append(runs[-1].theta)
        runs.sort(key=lambda run: -run.value)
        if math.isfinite(runs[0].value):
            B = self.curvature(runs[0], np.ones(runs[0].theta.size, dtype=bool), timed=True)
            self.bent = None if B is None else (runs[0].theta, B / share)
        self.objective, self.known = objective, []
        return [run.theta for run in runs]

    def first_finite(self, starts: list[Theta]) -> _Run:
        """The end of the climb from the first start with a finite value."""
        for start in starts:
            run = self.to_the_end(start)
            if math.isfinite(run.value):
                break
        return run

    def finals(self, ends: list[Theta], starts: list[Theta], value: Callable[[Theta], float]) -> _Run:
        """The starts and the ends of rough climbs, compared again by the objective itself."""
        distinct = [end for i, end in enumerate(ends) if not any(_near(end, other, APART) for other in ends[:i])]
        first = max([*distinct, *starts], key=value)
        return self.competition([first, *(end for end in distinct if not _near(end, first, APART))])

    def competition(self, starts: list[Theta]) -> _Run:
        """The end of the first climb, unless a rough climb from another start leads higher."""
        best = self.first_finite(starts)
        for start in starts[1:]:
            if self.clock.expired:
                break
            self.known = [best.theta]
            rough = self.lbfgs(start, ROUGH)
            self.known = []
            if rough.value > best.value:
                best = max(best, self.to_the_end(rough.theta), key=lambda run: run.value)
        return best

    def to_the_end(self, start: Theta) -> _Run:
        """L-BFGS, then Newton steps, which need no line search; both until the slope vanishes."""
        if self.bent is not None and self.bent[0] is start:
            (_, B), self.bent = self.bent, None
            return self.from_curvature(start, B)
        first = HANDED_OVER if start.size <= CHEAP and self.aim < HANDED_OVER else self.aim
        run = self.polished(self.lbfgs(start, FINE | {"gtol": first * self.flat}, STRIDE), self.polish * self.flat)
        ended = run.limited or self.clock.expired
        if not ended and first > self.aim and self.violation(run) > self.aim * self.flat:
            again = self.lbfgs(run.theta, FINE | {"gtol": self.aim * self.flat})
            run = self.polished(again, self.polish * self.flat)
        if not ended and self.flat < self.violation(run) < math.inf:  # in a curved valley
            again = self.lbfgs(run.theta, FINE | {"gtol": self.aim * self.flat, "ftol": 0.0})
            run = min(run, self.polished(again, self.polish * self.flat), key=self.violation)
        bound = self.towards(run)
        if bound is None or not self.at(bound).value >= run.value:
            return run
        # The value is constant up to the bound, so that any end before it would depend on rounding.
        return self.polished(self.lbfgs(bound, FINE | {"gtol": self.aim * self.flat}), SETTLED * self.flat)

    def polished(self, run: _Run, flat: float) -> _Run:
        """Newton steps while they lower the slope; one Hessian serves as long as they lower it much."""
        steps = NEWTON_STEPS if math.isfinite(run.value) and not run.limited else 0
        B: Array | None = None
        for _ in range(steps):
            left, free = self.violation(run), self.free(run)
            if left <= flat or self.clock.expired:
                break
            if B is None:
                B = self.curvature(run, free, timed=True)
                if B is None:
                    break
                self.plateau = bool(np.diagonal(B)[free].min(initial=np.inf) < PLATEAU)
            trial = self.at(self.top(run, B, 1e-3))
            self.iterations += 1
            after = self.violation(trial)
            if not after < left:
                break
            run, B = trial, B if after < MUCH * left and np.array_equal(free, self.free(trial)) else None
        return run

    def towards(self, run: _Run) -> Theta | None:
        """Theta with the parameter of the largest slope moved to its bound; None if all slopes vanish."""
        slope = np.clip(run.theta + run.slope, *self.bounds.T) - run.theta
        if not self.aim * self.flat < self.violation(run) < math.inf:
            return None
        worst, moved = int(np.argmax(np.abs(slope))), run.theta.copy()
        moved[worst] = self.bounds[worst, int(slope[worst] > 0)]
        return moved

    def free(self, run: _Run) -> NDArray[np.bool_]:
        """Which parameters are not held at a bound."""
        low, high = self.bounds.T
        return ~(((run.theta <= low) & (run.slope < 0)) | ((run.theta >= high) & (run.slope > 0)))

    def curvature(self, run: _Run, free: NDArray[np.bool_], *, timed: bool = False) -> Array | None:
        """Minus the Hessian, by differences of slopes in the free parameters; None if ``timed`` and time runs out."""
        inward = np.where(run.theta + DIFFERENCE > self.bounds[:, 1], -DIFFERENCE, DIFFERENCE)
        B = np.zeros((run.theta.size, run.theta.size))
        for j in np.flatnonzero(free):
            if timed and self.clock.expired:
                return None
            moved = run.theta.copy()
            moved[j] += inward[j]
            B[j] = (run.slope - self.objective(moved)[1]) / inward[j]
        return 0.5 * (B + B.T)

    def top(self, run: _Run, B: Array, flattest: float) -> Theta:
        """The end of a Newton step within the bounds; curvatures are at least a share of the largest."""
        free = self.free(run)
        curvature, axes = np.linalg.eigh(B[np.ix_(free, free)])
        size = np.maximum(np.abs(curvature), flattest * np.abs(curvature).max(initial=self.flat))
        step = np.zeros_like(run.theta)
        step[free] = np.clip(axes @ ((axes.T @ run.slope[free]) / size), -1.0, 1.0)
        return np.asarray(np.clip(run.theta + step, *self.bounds.T))

    def from_curvature(self, start: Theta, B: Array) -> _Run:
        """Quasi-Newton steps, followed by L-BFGS unless the slope vanishes."""
        run = self.bfgs(start, B)
        return run if self.violation(run) <= self.polish * self.flat else self.to_the_end(run.theta)

    def bfgs(self, start: Theta, B: Array) -> _Run:
        """BFGS from a Hessian known from fewer rows, until the slope vanishes or no step helps."""
        run = self.at(start)
        enough, slopes = min(self.aim, self.polish) * self.flat, [math.inf] * PATIENCE
        for _ in range(self.max_iter):
            slopes.append(self.violation(run))
            if not enough < slopes[-1] < 0.5 * slopes[-1 - PATIENCE] or self.clock.expired:
                break
            trial = self.uphill(run, self.top(run, B, FLATTEST))
            gain, wobble = trial.value - run.value, WOBBLE * abs(run.value)
            if not gain > (-wobble if self.violation(trial) < self.violation(run) else wobble):
                break
            step, bend = trial.theta - run.theta, run.slope - trial.slope
            Bs = B @ step
            if bend @ step > 0 and step @ Bs > 0:
                B = B + np.outer(bend, bend) / (bend @ step) - np.outer(Bs, Bs) / (step @ Bs)
            run = trial
            self.iterations += 1
            self.tick(self.iterations, evidence=run.value)
        return run

    def uphill(self, run: _Run, target: Theta) -> _Run:
        """The end of a step, shortened while it lowers the value."""
        for _ in range(SHORTEST):
            trial = self.at(target)
            if trial.value >= run.value - WOBBLE * abs(run.value):
                break
            target = run.theta + SHORTER * (target - run.theta)
        return trial

    def at(self, theta: Theta) -> _Run:
        return _Run(theta, *self.objective(theta))

    def lbfgs(self, start: Theta, stop: dict[str, float], stride: float = EXPLORING) -> _Run:
        """L-BFGS within the bounds; SciPy's first step is the whole gradient, which ``unit`` keeps within a stride."""
        first = self.at(start)
        if not math.isfinite(first.value):
            return first
        unit, size = max(float(np.abs(first.slope).max(initial=0.0)) / stride, 1.0), abs(first.value)

        def descend(theta: Theta) -> tuple[float, Theta]:
            value, slope = (first.value, first.slope) if np.array_equal(theta, start) else self.objective(theta)
            return -value / unit, -slope / unit

        def step(intermediate_result: OptimizeResult) -> None:
            self.step(intermediate_result.x, -unit * float(intermediate_result.fun))

        flat = {"gtol": stop["gtol"] / unit, "ftol": stop["ftol"] * max(size, 1.0) / max(size, unit)}
        options: Any = {"maxiter": self.max_iter, "maxfun": 20 * self.max_iter, "maxcor": 20, **stop, **flat}
        limits = Bounds(*self.bounds.T)
        found = minimize(descend, start, jac=True, method="L-BFGS-B", bounds=limits, callback=step, options=options)
        return _Run(found.x, -unit * float(found.fun), -unit * np.asarray(found.jac), found.nit >= self.max_iter)

    def descend(self, theta: Theta, eval_gradient: bool = True) -> Any:
        value, slope = self.objective(np.asarray(theta, dtype=np.float64))
        return (-value, -slope) if eval_gradient else -value

    def step(self, theta: Theta, value: float) -> None:
        """Count a step of L-BFGS, and stop it if the time is over or the end of another climb is near."""
        self.iterations += 1
        self.tick(self.iterations, evidence=value)
        near = any(_near(theta, end) for end in self.known)
        if near or self.clock.expired:
            raise StopIteration

    def violation(self, run: _Run) -> float:
        """The largest slope that the bounds allow to follow."""
        slope = np.clip(run.theta + run.slope, *self.bounds.T) - run.theta
        return float(np.abs(slope).max(initial=0.0)) if math.isfinite(run.value) else math.inf

    def surely(self, run: _Run) -> float:
        """The violation by the steepest slope that rounding may hide: at most the range of slopes a hair apart off."""
        runs = [run]
        for hair in HAIRS:
            runs.append(self.at(np.clip(run.theta + hair, *self.bounds.T)))
            change = np.abs(runs[-1].slope - run.slope)
            # Equal slopes prove nothing: sums of large terms are multiples of the last digit of those.
            if np.all((change > 0) & (change < UNFELT * self.flat)):
                break
        slopes, value = np.array([near.slope for near in runs]), min(near.value for near in runs)
        middle, reach = 0.5 * (slopes.min(axis=0) + slopes.max(axis=0)), np.ptp(slopes, axis=0)
        return max(self.violation(replace(run, value=value, slope=middle + side * reach)) for side in (-1.0, 1.0))

    def certificate(self, best: _Run) -> Certificate:
        violation = self.violation(best)
        if violation <= self.flat:
            violation = self.surely(best)
        why = "the slope of the evidence does not vanish, or rounding hides it; raise alpha, or learn the noise."
        if not math.isfinite(best.value):
            why = "the kernel matrix was not positive definite at any start; raise alpha, or learn the noise."
        elif self.clock.expired:
            why = "max_time passed while hyperparameters were learned; raise it, or learn from fewer rows (evidence=)."
        elif best.limited:
            why = "the optimiser reached its limit of steps; raise max_iter, or try other starts."
        seconds = self.clock.seconds
        return certify(
            "evidence", violation, self.flat, why, iterations=self.iterations, seconds=seconds, primal=best.value
        )


def _near(a: Theta, b: Theta, distance: float = NEAR) -> bool:
    return bool(np.abs(a - b).max(initial=0.0) < distance)


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


def _quiet(kernel: Kernel, starts: list[Theta]) -> list[Theta]:
    """The same starts with less noise; none if the kernel has no noise to learn."""
    names = np.array([p.name.rpartition(".")[2] for p in kernel.all_parameters() if p.free for _ in p.values])
    step = np.where(names == "noise", math.log(QUIET), 0.0)
    return [np.clip(start + step, *kernel.bounds.T) for start in starts] if step.any() else []


def _in_units(kernel: Kernel, theta: Theta, X: Any, size: float) -> Theta:
    """Theta with variances that give the prior the size of y², and the noise a tenth of it."""
    names = np.array([p.name.rpartition(".")[2] for p in kernel.all_parameters() if p.free for _ in p.values])
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
    rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)
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
