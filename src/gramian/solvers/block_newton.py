"""Machines with any loss over blocks: Newton's method on the weights of features, a pass for each step.

``min_{w, b} Σ_i w_i ℓ(<w, ψ_i> + b, y_i) + (μ/2) ‖w‖²``. A pass brings back value, gradient and Hessian at a point, all
functions at once; a step that goes too far costs one more pass, which needs values only. A loss with kinks is replaced
by its Moreau envelope, whose width shrinks until the duality gap of the loss itself is small enough: the envelope's
slopes are a point of the dual.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from gramian.certificates import Certificate
from gramian.data.parts import Part
from gramian.data.passes import Passes
from gramian.data.sums import Sums, total
from gramian.losses import offers
from gramian.progress import Clock
from gramian.solvers.block_features import Lift
from gramian.solvers.datafit import DataFit, Envelope

__all__ = ["Functions", "Targets", "minimise"]

Array = NDArray[np.float64]

SHRINK = 0.25
"""Of the width of the envelope from one stage to the next."""
STAGE = 0.01
"""A stage is solved to this part of the gap that its width leaves."""
NARROWEST = 1e-14
"""Of the width, relative to the first."""
FLAT = 1e-11
"""A slope this small, relative to the objective, cannot be seen in the objective."""
LENGTHS: Array = np.power(0.5, np.arange(0.5, 15.5, 0.5))
"""Lengths of a step that are tried where a full one goes too far."""
TINY = 1e-4
"""An objective below this part of the first is as good as zero."""


class Targets(Protocol):
    """How the rows of a part become the targets of each function."""

    def of(self, part: Part) -> tuple[list[Array], Array]:
        """Return the targets of each function, and weights.

        Parameters
        ----------
        part : Part
            Rows.

        Returns
        -------
        tuple of list of array and array
            Targets of shape (r, k), and weights of shape (r,).
        """


@dataclass(frozen=True, eq=False)
class Functions:
    """What is fitted: functions, or groups of functions that a loss couples.

    Parameters
    ----------
    losses : tuple
        One for each.
    targets : Targets
        Their targets.
    intercept : bool
        Whether each has a constant.
    lam : float
        Strength, of mean loss + (lam/2) ‖f‖².
    kinks : bool
        Whether losses are replaced by envelopes.
    """

    losses: tuple[Any, ...]
    targets: Targets
    intercept: bool
    lam: float
    kinks: bool


@dataclass(frozen=True, eq=False)
class _Point:
    """Where a pass evaluates the functions that are not done: weights with constants below, widths of envelopes."""

    lift: Lift
    functions: Functions
    which: tuple[int, ...]
    theta: tuple[Array, ...]
    widths: tuple[float, ...]
    steps: tuple[Array, ...] = ()


# ---- on the workers -------------------------------------------------------------------------------------------------


def _fits(point: _Point, part: Part) -> list[tuple[DataFit, Any]]:
    """Data terms of a strip: the loss's own, and what is minimised."""
    targets, weights = point.functions.targets.of(part)
    out = []
    for which, width in zip(point.which, point.widths, strict=True):
        fit = DataFit(point.functions.losses[which], targets[which], weights)
        envelope = Envelope(fit, width, np.zeros_like(fit.y)) if point.functions.kinks else fit
        out.append((fit, envelope))
    return out


def _values(F: Array, theta: Array) -> Array:
    return F @ theta[: F.shape[1]] + (theta[F.shape[1] :] if theta.shape[0] > F.shape[1] else 0.0)


def _local(point: _Point, parts: Iterator[Part]) -> Sums | None:
    return total(_local_of(point, F, part) for F, part in point.lift.strips(parts))


def _local_of(point: _Point, F: Array, part: Part) -> Sums:
    sums: dict[str, Any] = dict(point.lift.error_sums(F, part).arrays)
    for i, (fit, smooth) in enumerate(_fits(point, part)):
        f = _values(F, point.theta[i])
        u = smooth.gradient(f)
        sums[f"objective{i}"] = smooth.value(f)
        sums[f"value{i}"] = fit.value(f)
        sums[f"weight{i}"] = fit.w.sum()
        # Fenchel's equality, at the point where u is a slope: no rounding takes it out of the conjugate's domain.
        z = smooth.point(f) if point.functions.kinks else f
        sums[f"conjugate{i}"] = np.sum(u * z) - fit.value(z)
        sums[f"gradient{i}"] = _extended(F.T @ u, u, point.functions.intercept)
        sums[f"hessian{i}"] = _hessian(F, smooth.half_curvature(f), point.functions.intercept)
    return Sums.of(**sums)


def _extended(below: Array, u: Array, intercept: bool) -> Array:
    return np.vstack([below, u.sum(axis=0)]) if intercept else below


def _hessian(F: Array, S: Array, intercept: bool) -> Array:
    """``Σ_i (S_i S_iᵀ) ⊗ (ψ_i, 1)(ψ_i, 1)ᵀ``, features within functions."""
    G = np.hstack([F, np.ones((F.shape[0], 1))]) if intercept else F
    if S.ndim == 2:
        scaled = S * G
        return np.asarray(scaled.T @ scaled)
    C = np.einsum("icd,ied->ice", S, S)
    k, m = C.shape[1], G.shape[1]
    H = np.empty((k, m, k, m))
    for a in range(k):
        for b in range(a + 1):
            H[a, :, b] = G.T @ (C[:, a, b, None] * G)
            H[b, :, a] = H[a, :, b]
    return H.reshape(k * m, k * m)


def _along(point: _Point, parts: Iterator[Part]) -> Sums | None:
    return total(_along_of(point, F, part) for F, part in point.lift.strips(parts))


def _along_of(point: _Point, F: Array, part: Part) -> Sums:
    sums = {}
    for i, (_, smooth) in enumerate(_fits(point, part)):
        f, df = _values(F, point.theta[i]), _values(F, point.steps[i])
        sums[f"objective{i}"] = [smooth.value(f + length * df) for length in LENGTHS]
    return Sums.of(**sums)


# ---- on the client --------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Run:
    """One function on its way: the point it stands at, the one it tries, and how it is going."""

    theta: Array
    width: float
    first: float
    trial: Array | None = None
    objective: float = np.inf
    slope: float = 0.0
    scale: float = 0.0
    mu: float = 0.0
    total: float = 1.0
    gap: float = np.inf
    primal: float = np.inf
    dual: float = -np.inf
    violation: float = np.inf
    strikes: int = 0
    sure: bool = False
    stuck: bool = False
    steps: int = 0
    done: bool = False
    why: str = ""
    best: tuple[float, Array] = field(default_factory=lambda: (np.inf, np.empty(0)))


def minimise(
    passes: Passes,
    lift: Lift,
    functions: Functions,
    start: list[Array],
    widths: list[float],
    *,
    tol: float,
    max_iter: int,
    clock: Clock,
) -> tuple[list[Array], list[Certificate], float]:
    """Minimise, each function by itself, in passes that serve all.

    Parameters
    ----------
    passes : Passes
        The rows.
    lift : Lift
        The map.
    functions : Functions
        Losses and targets.
    start : list of array of shape (m, k) or (m + 1, k)
        Where each begins; constants below the weights, where there are any.
    widths : list of float
        First widths of the envelopes of losses with kinks.
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Passes with a Hessian at most.
    clock : Clock
        Stops it once expired.

    Returns
    -------
    tuple of list of array, list of Certificate and float
        Weights and constants, certificates, and the trace error of the map.
    """
    runs = [_Run(theta, width, width, trial=theta) for theta, width in zip(start, widths, strict=True)]
    error = 0.0
    for number in range(max_iter + 1):
        which = tuple(i for i, run in enumerate(runs) if not run.done)
        if not which:
            break
        live = [runs[i] for i in which]
        here = _Point(lift, functions, which, tuple(_tried(run) for run in live), tuple(run.width for run in live))
        sums = passes.sum(_local, here)
        error = float(sums["missed"] / sums["trace"]) if sums["trace"] > 0 else 0.0
        turned = [run for i, run in enumerate(live) if not _arrived(run, i, sums, functions, lift.width, tol)]
        ended = "" if number < max_iter else f"max_iter={max_iter} was reached"
        ended = f"max_time={clock.max_time:g} s passed" if clock.expired else ended
        if ended:
            for run in live:
                run.why = run.why or ended
            break
        if turned:
            _shorten(passes, here, live, turned, functions.kinks)
    certificates = [_certificate(run, functions, tol, clock) for run in runs]
    return [run.best[1] for run in runs], certificates, error


def _tried(run: _Run) -> Array:
    return run.theta if run.trial is None else run.trial


def _penalised(theta: Array, m: int) -> Array:
    """Weights without constants, zero in their place."""
    out = theta.copy()
    out[m:] = 0.0
    return out


def _arrived(run: _Run, i: int, sums: Sums, functions: Functions, m: int, tol: float) -> bool:
    """Take over the point that was tried and find the next; ``False`` where the step went too far."""
    theta = _tried(run)
    run.total = float(sums[f"weight{i}"])
    run.mu = mu = functions.lam * run.total
    w = _penalised(theta, m)
    penalty = 0.5 * mu * float(np.sum(w * w))
    objective = float(sums[f"objective{i}"]) + penalty
    flat = not run.sure and abs(run.slope) <= FLAT * abs(objective)
    if not (run.sure or flat or objective <= run.objective + 1e-4 * run.slope):
        return False
    run.theta, run.objective, run.sure = theta, objective, False
    run.steps += 1
    gradient = sums[f"gradient{i}"]
    run.primal = float(sums[f"value{i}"]) + penalty
    dual = -float(sums[f"conjugate{i}"]) - 0.5 * float(np.sum(gradient[:m] ** 2)) / mu
    run.scale = run.scale or TINY * abs(run.primal)
    run.violation = float(np.linalg.norm(gradient + mu * w)) / (float(np.linalg.norm(gradient)) + mu or 1.0)
    # A dual point has slopes that sum to zero; these nearly do, and P - P* <= P - D - s b + s (b - b*).
    left = float(np.sum(gradient[m:] * theta[m:]))
    smoothing = max(run.primal - dual - left, 0.0)
    slack = _slack(sums[f"hessian{i}"], gradient, m)
    gap = smoothing + slack
    run.dual = run.primal - gap
    _note(run, gap, flat)
    if gap <= tol * max(abs(run.primal), run.scale):
        run.done = True
        return True
    stage = 0.5 * float(np.sum((gradient[:m] + mu * w[:m]) ** 2)) / mu + slack
    if functions.kinks and (stage <= STAGE * smoothing or run.stuck):
        # As good as this width allows: go on with a narrower one, from here.
        run.width *= SHRINK
        run.trial, run.sure, run.stuck, run.objective, run.slope = theta, True, False, np.inf, 0.0
        run.done = run.width < NARROWEST * run.first
    else:
        _aim(run, sums[f"hessian{i}"], gradient + mu * w, mu, m)
    if run.strikes > 2:
        run.done, run.why = True, "rounding in float64 stops it"
    return True


def _slack(H: Array, gradient: Array, m: int) -> float:
    """The slopes s of the constants times how far they are from their best, s over the curvature."""
    bend = np.diagonal(H).reshape(gradient.shape[1], -1)[:, m:]
    return float(np.sum(gradient[m:].T ** 2 / np.maximum(bend, np.finfo(float).tiny)))


def _note(run: _Run, gap: float, flat: bool) -> None:
    """Keep the best point; where the objective shows no difference, the gap tells whether steps still gain."""
    if flat and np.isfinite(run.gap):
        run.strikes += int(gap > 0.5 * run.best[0])
    run.gap = gap
    if gap <= run.best[0]:
        run.best = (gap, run.theta)


def _aim(run: _Run, H: Array, slope: Array, mu: float, m: int) -> None:
    """The point at the end of Newton's step."""
    k = slope.shape[1]
    rows = slope.shape[0]
    ridge = np.full((k, rows), mu)
    # A constant is not penalised; where nothing bends under it, or only its difference to others counts, it stays.
    ridge[:, m:] = 1e-12 * (float(np.trace(H)) / H.shape[0] + mu)
    A = H.copy()
    A[np.diag_indices_from(A)] += ridge.ravel()
    right = -slope.T.ravel()
    try:
        step = cho_solve(cho_factor(A, overwrite_a=True, check_finite=False), right, check_finite=False)
    except LinAlgError:
        step = np.asarray(np.linalg.lstsq(H + np.diag(ridge.ravel()), right, rcond=None)[0], dtype=np.float64)
    direction = step.reshape(k, rows).T
    if k > 1:
        # Constants of coupled functions count by their differences: keep them at sum zero.
        direction[m:] -= direction[m:].mean(axis=1, keepdims=True)
    run.slope = float(np.sum(slope * direction))
    run.trial = run.theta + direction


def _shorten(passes: Passes, here: _Point, live: list[_Run], turned: list[_Run], kinks: bool) -> None:
    """Find, in a pass of values only, how much of each step to take."""
    places = [i for i, run in enumerate(live) if run in turned]
    runs = [live[i] for i in places]
    steps = tuple(_tried(run) - run.theta for run in runs)
    point = replace(
        here,
        which=tuple(here.which[i] for i in places),
        theta=tuple(run.theta for run in runs),
        widths=tuple(run.width for run in runs),
        steps=steps,
    )
    sums = passes.sum(_along, point)
    m = here.lift.width
    for i, run in enumerate(runs):
        penalties = [0.5 * run.mu * float(np.sum(_penalised(run.theta + t * steps[i], m) ** 2)) for t in LENGTHS]
        reached = sums[f"objective{i}"] + np.array(penalties)
        best = int(np.argmin(reached))
        if reached[best] < run.objective:
            run.trial, run.sure = run.theta + LENGTHS[best] * steps[i], True
        else:
            run.trial, run.sure, run.stuck = run.theta, True, True
            run.strikes += int(not kinks) * 3


def _certificate(run: _Run, functions: Functions, tol: float, clock: Clock) -> Certificate:
    loss = functions.losses[0]
    known = offers(loss, "conjugate") or not functions.kinks
    gap = run.best[0] / max(abs(run.primal), run.scale)
    met = gap <= max(tol, 1e-12)
    why = run.why or "rounding in float64 stops it"
    return Certificate(
        kind="duality gap" if known else "stationary",
        primal=run.primal / run.total,
        dual=run.dual / run.total if known else np.nan,
        gap=gap if known else np.nan,
        violation=run.violation,
        converged=bool(met),
        iterations=run.steps,
        seconds=clock.seconds,
        message="" if met else f"tol={tol:.0e} not met: {why}; allow more, ask for less, or regularise more.",
    )
