"""Expectation-maximisation for Gaussian mixtures.

The log-likelihood per row is split as

    log p(X | Θ) = L(q, Θ) + KL(q ‖ p(Z | X, Θ)).

An E-step chooses q such that the divergence is zero, an M-step chooses Θ to increase the bound L, so the likelihood
never decreases. With hard assignment q assigns each row to one component, and only L, the complete-data likelihood, is
guaranteed not to decrease.

**The effect of regularisation.** With ``reg_covar = ε`` an M-step does not maximise ``L(q, Θ)`` but
``L(q, Θ) - (ε/2) Σ_k π_k tr Σ_k⁻¹``, with π the new proportions. So an iteration may decrease the likelihood, but by at
most ``(ε/2) Σ_k π_k (tr Σ_k⁻¹ before - tr Σ_k⁻¹ after)``. A larger decrease, beyond rounding, is a bug and raises an
error.

References
----------
A. P. Dempster, N. M. Laird and D. B. Rubin (1977), Maximum likelihood from incomplete data via the EM algorithm.
R. M. Neal and G. E. Hinton (1998), A view of the EM algorithm that justifies incremental, sparse, and other variants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from gramian.progress import Clock, Tick, silent
from gramian.solvers.mixture.covariances import EPS, quadratics
from gramian.solvers.mixture.e_step import ROUNDING, Statistics, expect
from gramian.solvers.mixture.exponential_family import Mixture
from gramian.solvers.mixture.row_tiles import Tiles, Workers


@dataclass(frozen=True)
class EvidenceSplit:
    """The split of the evidence after an M-step, per row, with the q of the E-step before it."""

    log_likelihood: float  # ``log p(X | Θ)``, from the rows
    bound: float  # ``L(q, Θ)``
    kl: float  # ``KL(q ‖ p(Z | X, Θ))``, the difference, which the next E-step gains


@dataclass(frozen=True, eq=False)
class EMResult:
    """The parameters at which EM stopped, and the history of the objective."""

    mixture: Mixture  # The parameters, with means relative to the rows' centre
    log_likelihood: float  # Per row, at ``mixture``
    gradient_norm: float  # At ``mixture``
    gain: float  # Change of the objective per row in the last iteration; nan without iterations
    evidence: tuple[EvidenceSplit, ...]  # One for each iteration
    values: tuple[float, ...]  # The objective per row at the E-step of each iteration
    drop: float  # The largest fall of the objective, which reg_covar explains; zero if there was only rounding
    converged: bool  # Whether the objective changed by less than the tolerance
    expired: bool  # Whether time ran out


def em(
    rows: Tiles,
    start: Mixture,
    workers: Workers,
    *,
    reg_covar: float,
    tol: float,
    max_iter: int,
    hard: bool = False,
    previous: float = -math.inf,
    clock: Clock | None = None,
    tick: Tick = silent,
    expect: Callable[..., Statistics] = expect,
) -> EMResult:
    """Alternate E-steps and M-steps until the objective changes by less than ``tol``."""
    clock = clock or Clock()
    mixture, statistics = start, expect(rows, start, workers, hard=hard)
    value, rounding = _objective(statistics), _rounding(rows, start)
    values: list[float] = []
    evidence: list[EvidenceSplit] = []
    converged = expired = False
    while len(values) < max_iter and not (converged or expired):
        change, previous = value - previous, value
        values.append(value)
        still = hard and change == 0
        before, slack, again = mixture, rounding, partial(expect, rows, mixture, workers, hard=hard)
        mixture, used = refine(statistics, reg_covar, again)
        bound = _bound(used, mixture)
        statistics = expect(rows, mixture, workers, hard=hard)
        value = _objective(statistics)
        rounding = _rounding(rows, mixture)
        _require_rise(before, mixture, reg_covar, previous, value, slack + rounding)
        # When EM leaves a plateau its steps grow again, so both the last step and the one before must be small.
        converged = still or max(abs(change), abs(value - previous)) < tol
        likelihood = statistics.log_likelihood / statistics.total
        bound = min(bound, likelihood)
        evidence.append(EvidenceSplit(likelihood, bound, likelihood - bound))
        tick(len(values), log_likelihood=likelihood, change=value - previous)
        expired = clock.expired and not converged
    falls = -np.diff([*values, value])
    return EMResult(
        mixture=mixture,
        log_likelihood=statistics.log_likelihood / statistics.total,
        gradient_norm=gradient_norm(statistics, mixture, reg_covar),
        gain=value - values[-1] if values else math.nan,
        evidence=tuple(evidence),
        values=tuple(values),
        drop=float(np.max(falls[falls > ROUNDING * (1 + abs(value))], initial=0.0)),
        converged=converged,
        expired=expired,
    )


def maximise(statistics: Statistics, reg_covar: float) -> Mixture:
    """Take the M-step: the maximum-likelihood parameters for given statistics."""
    covariances = statistics.family.covariances(statistics.second, statistics.weights, reg_covar)
    return Mixture.of(statistics.family, statistics.weights, statistics.means, covariances)


def refine(statistics: Statistics, reg_covar: float, again: Callable[..., Statistics]) -> tuple[Mixture, Statistics]:
    """Take the M-step; if the moments have cancelled, recompute them about the new means first."""
    try:
        mixture = maximise(statistics, reg_covar)
        lost = EPS * mixture.magnitude(mixture.means - statistics.origin)
    except ValueError:  # perhaps singular only because of cancellation
        lost = math.inf
    if lost <= ROUNDING:
        return mixture, statistics
    statistics = again(origin=statistics.means)
    return maximise(statistics, reg_covar), statistics


def gradient_norm(statistics: Statistics, mixture: Mixture, reg_covar: float) -> float:
    """Return the norm of the objective's gradient per row, in whitened coordinates."""
    family, weights = mixture.family, statistics.weights
    shifts = statistics.means - mixture.means
    about = statistics.second + quadratics(family, shifts)
    departures = family.departure(mixture.stacked, family.covariances(about, weights, reg_covar))
    in_weights = np.abs(weights - mixture.weights)
    in_means = weights * np.linalg.norm(mixture.whiten(shifts), axis=1)
    return float(np.sum(in_weights + in_means + 0.5 * weights * departures))


def _objective(statistics: Statistics) -> float:
    """The objective of EM, ``L(q, Θ)`` per row, at the mixture of the E-step."""
    return (statistics.log_likelihood - statistics.divergence) / statistics.total


def _bound(statistics: Statistics, mixture: Mixture) -> float:
    """``L(q, Θ)`` per row at the mixture of the M-step, computed from its statistics alone."""
    distances = np.sum(mixture.coefficients * statistics.second, axis=1)
    expected_joint = float(statistics.weights @ (mixture.constants - 0.5 * distances))
    return expected_joint + statistics.entropy / statistics.total


def _require_rise(
    before: Mixture, after: Mixture, reg_covar: float, previous: float, value: float, rounding: float
) -> None:
    """Raise if the objective has decreased by more than regularisation and rounding explain."""
    regularisation = 0.5 * reg_covar * max(0.0, float(after.weights @ (before.traces - after.traces)))
    rounding += ROUNDING * (1 + abs(previous))
    if not value >= previous - regularisation - rounding:
        raise ArithmeticError(
            f"the objective of EM fell from {previous!r} to {value!r} per row, which neither reg_covar "
            f"(at most {regularisation:.1e}) nor rounding ({rounding:.1e}) explains; please report this bug."
        )


def _rounding(rows: Tiles, mixture: Mixture) -> float:
    """Bound on the rounding error of the objective per row, from residuals and from factors."""
    # An error of eps · √magnitude in a whitened coordinate, times a coordinate of size one.
    residuals = EPS * math.sqrt(mixture.family.n_features * mixture.magnitude(rows.reach))
    # An error in the factor of a nearly singular covariance enters the objective by its square, near the maximum.
    return residuals + float(mixture.weights @ (10 * mixture.departures) ** 2)
