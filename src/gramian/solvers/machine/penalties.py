"""The penalties of a machine: the squared one, and others by a search over its strength; losses that are not convex.

By the representer theorem every penalty that grows with ‖f‖ leads to the same functions as the squared one, for some
multiplier lam: ``λ‖f‖`` where ``lam ‖f‖ = λ``, the ball where ``‖f‖ = radius``. Both sides are monotone in lam, so
each is a search over a path of squared problems, and each is certified by the gap of its own dual. Every point u of
the dual bounds the objective from below by ``-Σ w ℓ*(u/w)``, less ``‖u‖²_K / (2μ)`` for the squared penalty or
``radius ‖u‖_K`` for the ball; for the norm, where ``‖u‖_K <= λ``.

For a loss that is the difference of two convex ones, the concave part is replaced by its tangent, the convex problem
is solved, and so on: the objective never rises, and once the tangents no longer change the point is stationary (the
convex-concave procedure: Yuille and Rangarajan, 2003).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate, certify
from gramian.losses import missing, offers
from gramian.progress import Clock, Tick, silent
from gramian.solvers.choice import Choice

NEEDS = {
    "newton": ("value", "gradient", "curvature"),
    "proximal": ("value", "gradient"),
    "ccp": ("value", "gradient", "convex_part", "concave_gradient"),
    "bundle": ("value", "gradient"),
}
"""Methods of a loss that each solver needs."""
SEARCH = 60
"""The search for a multiplier solves at most this many squared problems."""
FAR = 60.0
"""The largest logarithm of a multiplier in the search."""
MARGIN = 0.9
"""A search ends at this share of the tolerance: predictions differ a little from the values used in the search."""
SLACK = 0.1
"""Squared problems are solved to this share of the tolerance, so that the gap is due to the multiplier."""
INEXACT = 10.0
"""Where functions are not exact enough, so are trials whose numbers are up to this many times as large."""
GRID = np.logspace(-6.0, 6.0, 49)
"""Norms at which a custom penalty is checked."""
FARTHEST = 1e8
"""The largest norm in the search for a slope."""
BISECTIONS = 100
"""Bisections in the search for a slope of a penalty."""
ROUNDS = 100
"""Linearisations of a problem that is not convex, at most; a handful is usual."""


@dataclass(frozen=True, eq=False)
class Goal:
    """The penalty and its strength, the solver, and when it may stop."""

    solver: str  # A key of ``NEEDS``
    penalty: Any = "squared"  # A name, or a custom penalty
    strength: float = 1e-3  # lam, or the radius
    intercept: bool = True  # Whether a constant is free
    tol: float = 1e-6  # Relative gap to reach
    max_iter: int = 1000  # Newton steps at most, for one multiplier
    clock: Clock = field(default_factory=Clock)  # Ends the fit when expired
    tick: Tick = silent  # Called with the number of steps


def choose(loss: Any, asked: str = "auto") -> Choice:
    """Choose a solver by what a loss offers."""
    joint = bool(getattr(loss, "joint", False))
    if asked != "auto" and joint != (asked == "bundle"):
        what = "is" if joint else "is not"
        raise ValueError(
            f"solver={asked!r} does not suit {type(loss).__name__}, which {what} joint; use solver='auto'."
        )
    if joint:
        return Choice("bundle", "the loss is of all values jointly")
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
    return Choice("newton", "the loss has a gradient only; its curvature is taken from differences")


def gap_certificate(
    goal: Goal,
    primal: float,
    dual: float,
    scale: float,
    total: float,
    violation: float,
    steps: int,
    why: str = "",
    *,
    loss: Any,
) -> Certificate:
    """Return the certificate of a machine whose objective, times ``total``, is between two numbers."""
    # A dual value above the primal one is rounding, and proves no more than one as far below it.
    gap = abs(primal - dual) / max(abs(primal), scale) if np.isfinite(primal - dual) else np.inf
    why = f"{why or 'stopped by rounding in float64'}; allow more time or iterations, raise tol, or regularise more."
    values: Any = {"primal": primal / total, "dual": dual / total, "violation": float(violation), "iterations": steps}
    said = certify("duality gap", gap, max(goal.tol, 1e-12), why, seconds=goal.clock.seconds, **values)
    if not is_convex(goal.penalty):  # no dual bound is tight: all that is known is that the multiplier is right
        short = "" if violation <= max(goal.tol, 1e-12) else why
        note = f"the penalty is not convex, so this is a stationary point and perhaps not an optimum; {short}"
        met = not short
        return replace(said, kind="stationary", dual=np.nan, gap=np.nan, converged=met, message=note.rstrip("; "))
    # Without a conjugate, only the gradient is known.
    return said if offers(loss, "conjugate") else replace(said, kind="stationary", dual=np.nan, gap=np.nan)


def less_rounding(said: Certificate, tol: float, steep: float, alpha: NDArray[np.float64], error: float) -> Certificate:
    """Return a certificate that allows for rounding in values ``Σ_j α_j k(x_j, x)``.

    ``steep`` is the cost of errors of one in all values, and ``error`` the rounding error of a kernel value.
    """
    shortfall = steep * error * float(np.linalg.norm(alpha, axis=0).max(initial=0.0))
    if said.converged and not np.nan_to_num(said.gap) + shortfall <= max(tol, 1e-12):
        why = "the coefficients are so large that rounding in predictions exceeds tol; regularise more, or raise tol."
        return replace(said, converged=False, message=why)
    return said


# ---- penalties as functions of the norm -----------------------------------------------------------------------------


NORM = SimpleNamespace(value=float, derivative=lambda r: 1.0)
"""The penalty g(r) = r."""


def function_of(penalty: Any) -> Any:
    """Return the g of a penalty ``lam g(‖f‖)``, a custom one or "norm"."""
    return NORM if penalty == "norm" else penalty


def check_penalty(g: Any) -> None:
    """Raise ``ValueError`` if a penalty g(r) is not increasing, or its derivative is not its slope."""
    r = GRID
    value, slope = (np.array([float(f(x)) for x in r]) for f in (g.value, g.derivative))
    if not np.all(np.isfinite(value)) or not np.all(np.isfinite(slope)):
        raise ValueError("penalty: value(r) and derivative(r) must be finite for every r > 0.")
    if np.any(slope < 0) or np.any(np.diff(value) < 0):
        raise ValueError(f"penalty must grow with r = ‖f‖, but value(r) falls near r={r[np.argmin(slope)]:.3g}.")
    step = 1e-6 * r
    measured = np.array(
        [(float(g.value(x + h)) - float(g.value(x - h))) / (2.0 * h) for x, h in zip(r, step, strict=True)]
    )
    wrong = np.abs(measured - slope) > 1e-3 * (np.abs(slope) + np.abs(measured)) + 1e-9 * np.abs(value) / step
    if wrong.mean() > 0.1:
        i = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"penalty: derivative(r) disagrees with value(r); at r={r[i]:.3g} it returns {slope[i]:.4g}, differences "
            f"give {measured[i]:.4g}. Correct one of them."
        )


def is_convex(penalty: Any) -> bool:
    """Tell whether a penalty is convex in ‖f‖, as all named ones are."""
    if isinstance(penalty, str):
        return True
    slopes = np.array([float(penalty.derivative(x)) for x in GRID])
    return bool(np.all(np.diff(slopes) >= -1e-9 * np.abs(slopes).max()))


def penalty_conjugate(g: Any, t: float) -> tuple[float, float]:
    """Return ``sup_r t r - g(r)`` of a convex penalty at a share of t for which it is finite, the share first."""
    steepest = float(g.derivative(FARTHEST))
    share = min(1.0, steepest / t) if t > 0 else 1.0
    t = min(t, steepest)
    if t <= float(g.derivative(GRID[0])):
        return share, max(t * GRID[0] - float(g.value(GRID[0])), -float(g.value(0.0)))
    low, high = float(np.log(GRID[0])), float(np.log(FARTHEST))
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float(g.derivative(np.exp(middle))) < t else (low, middle)
    r = float(np.exp(0.5 * (low + high)))
    return share, t * r - float(g.value(r))


class Slopes(Protocol):
    """A point u of the dual."""

    @property
    def norm(self) -> float:
        """‖u‖_K."""

    def conjugate(self, share: float) -> float:
        """Return ``Σ w ℓ*(u / w)`` at a share of u, or an upper bound, plus what a free constant may cost."""

    def mixed(self, other: Any, share: float) -> Any:
        """Return a share of this point and the rest of another, or a bound on it."""


def bound(slopes: Slopes, penalty: Any, strength: float, total: float) -> tuple[float, float]:
    """Return the lower bound that a point of the dual proves, and at which share of it; zero is a point too."""
    share, own, none = 1.0, 0.0, 0.0
    if penalty not in ("squared", "ball"):
        g, scale = function_of(penalty), strength * total
        share, own = penalty_conjugate(g, slopes.norm / scale)
        own, none = scale * own, scale * float(g.value(0.0))
    else:
        own = strength * slopes.norm if penalty == "ball" else 0.5 * slopes.norm**2 / (strength * total)
    found = np.array([-slopes.conjugate(share) - own, none - slopes.conjugate(0.0)])
    found = np.where(np.isfinite(found), found, -np.inf)
    return float(found.max()), share if found[0] >= found[1] else 0.0


@dataclass(frozen=True, eq=False)
class PathPoint:
    """The optimum of a squared problem, or a function near it."""

    result: Any  # The function, in the representation of its space
    value: float  # Its data term
    total: float  # The sum of the weights
    norm: float  # ‖f‖
    slopes: Slopes  # A point of the dual
    start: Any  # The start of the next problem


@dataclass(frozen=True, eq=False)
class Turn:
    """The next step of the convex-concave procedure: the tangents at the current function, and what they change."""

    path: PenaltyPath  # The convex problem with tangents at the function
    settled: bool  # Whether the tangents are those it was found with
    excess: float  # The mean loss minus that of the convex problem
    wrong: float  # The share of rows on the wrong side


class PenaltyPath(ABC):
    """The squared problems of a machine on some rows, for every multiplier."""

    goal: Goal
    loss: Any

    @abstractmethod
    def plain(self, start: Any) -> Any:
        """Fit with the squared penalty itself."""

    @abstractmethod
    def squared(self, multiplier: float, start: Any, tol: float) -> PathPoint:
        """Solve one of the problems."""

    @abstractmethod
    def zero(self, start: Any) -> PathPoint:
        """Return the best constant."""

    @abstractmethod
    def scaled(self, found: PathPoint, share: float) -> PathPoint:
        """Return a share of a function."""

    @abstractmethod
    def fitted(
        self, function: PathPoint, proof: PathPoint, primal: float, dual: float, violation: float, multiplier: float
    ) -> Any:
        """Return a function as a fit, certified by the dual point of a problem, which may be another."""

    @abstractmethod
    def turned(self, fitted: Any) -> Turn:
        """Linearise the concave part at a fit."""

    def again(self, start: Any, fitted: Any) -> Any:
        """Return the start of the next problem, from the start and the result of the last."""
        return fitted.start

    def solve(self, start: Any) -> Any:
        """Fit by any solver, under any penalty."""
        return self._by_tangents(start) if self.goal.solver == "ccp" else self._penalised(start)

    def _penalised(self, start: Any) -> Any:
        if self.goal.penalty == "squared":
            return self.plain(start)
        if missing(self.loss, ("conjugate",)):
            raise ValueError(
                f"penalties other than 'squared' need conjugate of a loss, which certifies the multiplier; "
                f"{type(self.loss).__name__} lacks it. Define conjugate(u, y), or use penalty='squared'."
            )
        return self._by_ball(start) if self.goal.penalty == "ball" else self._by_slope(start)

    def _by_slope(self, start: Any) -> Any:
        """Minimise ``mean loss + lam g(‖f‖)``: either f is zero, or its multiplier is ``lam g'(‖f‖) / ‖f‖``."""
        lam, g, zero = self.goal.strength, function_of(self.goal.penalty), self.zero(start)
        convex, points = is_convex(g), list[Any]()

        def slope(norm: float) -> float:
            return max(lam * float(g.derivative(max(norm, GRID[0]))), 1e-300)

        def fitted(function: PathPoint, proof: PathPoint, multiplier: float) -> Any:
            slopes, total, is_zero = proof.slopes, proof.total, function is zero
            here = slopes.norm / total if is_zero else multiplier * function.norm
            off = here / slope(function.norm) - 1.0
            primal = function.value + lam * total * float(g.value(function.norm))
            violation, dual = max(off, 0.0) if is_zero else abs(off), bound(slopes, g, lam, total)[0]
            return self.fitted(function, proof, primal, dual, violation, multiplier)

        def trial(multiplier: float, start: Any, tol: float) -> tuple[float, Any, Any]:
            found = self.squared(multiplier, start, tol)
            # Of dual points between one inside the ball and one outside, the one on its boundary proves the most.
            size, own = found.total * slope(0.0), found.slopes
            pairs = [p for p in points if min(p.norm, own.norm) < size < max(p.norm, own.norm)]
            candidates = [own, *(own.mixed(p, (size - p.norm) / (own.norm - p.norm)) for p in pairs)]
            points.append(own)
            found = replace(found, slopes=max(candidates, key=lambda point: bound(point, g, lam, found.total)[0]))
            best = fitted(found, found, multiplier)
            if convex:
                best = min(fitted(zero, found, np.inf), best, key=lambda each: each.certificate.gap)
            return float(np.log(max(multiplier * found.norm, 1e-300) / slope(found.norm))), best, found.start

        nothing = fitted(zero, zero, np.inf)
        return nothing if nothing.certificate.converged else self._search(trial, lam, start)

    def _by_ball(self, start: Any) -> Any:
        """Minimise the mean loss over ``‖f‖ <= radius``."""
        radius = self.goal.strength

        def trial(multiplier: float, start: Any, tol: float) -> tuple[float, Any, Any]:
            found = self.squared(multiplier, start, tol)
            inside = self.scaled(found, radius / found.norm) if found.norm > radius else found
            dual, violation = bound(found.slopes, "ball", radius, found.total)[0], abs(found.norm / radius - 1.0)
            fitted = self.fitted(inside, found, inside.value, dual, violation, multiplier)
            return -float(np.log(max(found.norm, 1e-300) / radius)), fitted, found.start

        return self._search(trial, 1.0, start)

    def _search(self, trial: Callable[[float, Any, float], tuple[float, Any, Any]], first: float, start: Any) -> Any:
        """Find the root of a trial, which increases with the multiplier, until the gap of the actual penalty is small.

        A trial takes a multiplier, a start and a tolerance, and returns a number, a fit with its certificate, and the
        next start.
        """
        here, met, steps, found, clock = float(np.log(first)), list[tuple[float, float]](), 0, [], self.goal.clock
        tol, again = SLACK * self.goal.tol, False
        for _ in range(SEARCH):
            value, fitted, start = trial(float(np.exp(here)), start, tol)
            taken = fitted.certificate.iterations
            steps += taken
            found.append(fitted)
            if fitted.certificate.figure <= MARGIN * max(self.goal.tol, 1e-12) or clock.expired or abs(here) > FAR:
                break
            again = bool(met) and not taken and not again
            if again:  # the last function is near enough to this optimum too, so ask for more
                tol, met = SLACK * tol, [point for point in met if abs(point[1]) > INEXACT * abs(value)]
            else:
                met.append((here, value))
                here = _next(met)
        best = min(found, key=lambda each: each.certificate.figure)
        return replace(best, certificate=replace(best.certificate, iterations=steps, seconds=clock.seconds))

    def _by_tangents(self, start: Any) -> Any:
        """Find a stationary point of a loss that is not convex."""
        steps, turn, clock, least = 0, self.turned(None), self.goal.clock, np.inf
        for _ in range(ROUNDS):
            found = turn.path._penalised(start)
            after, steps = turn.path.turned(found), steps + found.certificate.iterations
            value = found.certificate.primal + after.excess
            fall = max(least - value, 0.0) / abs(value) if value else least
            # If linearising at the last function gains nothing, that function is stationary.
            settled, stationary = after.settled, after.settled or fall <= SLACK * self.goal.tol
            if settled or not stationary:
                fitted, turn, least = found, after, value
            if stationary or clock.expired:
                break
            start = self.again(start, found)
        last = found.certificate
        met = stationary and last.converged
        why = last.message if stationary else "the linearisation was still changing; allow more time or iterations."
        message = f"a stationary point, not an optimum; training 0-1 loss {turn.wrong:.4g}"
        said = replace(
            last,
            kind="stationary",
            primal=least,
            dual=np.nan,
            gap=np.nan,
            violation=last.gap if settled else last.gap + fall,
            converged=met,
            iterations=steps,
            seconds=clock.seconds,
            message=message if met else f"{message}; {why}",
        )
        return replace(fitted, certificate=said)


def _next(met: list[tuple[float, float]]) -> float:
    """The next point: beyond those so far, or within the bracket of the root, by secant steps and bisection."""
    low = max((point for point in met if point[1] < 0), default=None)
    high = min((point for point in met if point[1] >= 0), default=None)
    if low is None or high is None:
        stride = min(2.0 ** len(met), 8.0)
        return met[-1][0] + (stride if high is None else -stride)
    width = high[0] - low[0]
    share = 0.5 if len(met) % 3 == 0 else -low[1] / (high[1] - low[1])
    return low[0] + float(np.clip(share, 0.01, 0.99)) * width
