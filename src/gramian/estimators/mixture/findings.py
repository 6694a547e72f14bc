"""What to say of a fitted mixture: its certificate, and what is degenerate in it, by name."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.solvers.mixture.em import EMResult
from gramian.solvers.mixture.gaussians import Mixture
from gramian.solvers.mixture.row_tiles import Rows

__all__ = ["certificate", "degeneracies"]

LISTED = 8
"""Columns or components that a sentence names, at most."""


def degeneracies(mixture: Mixture, rows: Rows, reg_covar: float) -> list[str]:
    """Return what is degenerate, what was done about it and what to try."""
    constant = rows.reach == 0
    live = mixture.weights > 0
    variances = mixture.family.variances(mixture.covariances, ~constant)
    # At least half of a variance of up to twice reg_covar is reg_covar.
    flat = live & (np.min(variances, axis=1, initial=np.inf) <= 2 * reg_covar)
    point = flat & (np.max(variances, axis=1, initial=0.0) <= 2 * reg_covar)
    most = f"reg_covar={reg_covar:g} is most of the variance"
    remedy = "lower n_components, raise reg_covar, or scale X"
    found = [
        ("column", constant, f"constant: reg_covar={reg_covar:g} is all the variance there"),
        ("component", ~live, "empty: of weight 0, spread over all samples; lower n_components, or start elsewhere"),
        ("component", point, f"collapsed to a point: {most}; {remedy}"),
        ("component", flat & ~point, f"flat: {most} in some direction; {remedy}, or choose a simpler covariance_type"),
    ]
    return [f"{_subject(noun, which)} {state}." for noun, which, state in found if np.any(which)]


def certificate(solution: EMResult, notes: Iterable[str], hard: bool, seconds: float) -> Certificate:
    """Return the certificate of a fit."""
    return Certificate(
        kind="evidence",
        primal=solution.log_likelihood,
        dual=solution.evidence[-1].bound if solution.evidence else math.nan,
        violation=solution.gradient_norm,
        converged=solution.converged,
        iterations=len(solution.values),
        seconds=seconds,
        message=" ".join([_course(solution, hard), *notes]),
    )


def _course(solution: EMResult, hard: bool) -> str:
    """How the objective went, and why it stopped where it did."""
    if not solution.values:
        return "No iteration was asked for: these are the starting parameters."
    what = (
        "complete-data likelihood never fell (nothing is promised for the likelihood)"
        if hard
        else "likelihood never fell"
    )
    course = f"The {what}; the last iteration added {solution.gain:.1e} per sample."
    if solution.converged:
        return course
    return f"{course} {'max_time ran out' if solution.expired else 'max_iter was reached'}: raise it, or tol."


def _subject(noun: str, which: NDArray[np.bool_]) -> str:
    """For example "columns 1, 3 are"."""
    indices = np.flatnonzero(which)
    if len(indices) == 1:
        return f"{noun} {indices[0]} is"
    listed = ", ".join(map(str, indices[:LISTED]))
    more = f" and {len(indices) - LISTED} more" if len(indices) > LISTED else ""
    return f"{noun}s {listed}{more} are"
