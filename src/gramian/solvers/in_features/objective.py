"""The objective of a machine over blocks: what a pass brings back of its value, slope and curvature at a point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gramian.data.parts import Part
from gramian.data.sums import Sums, total
from gramian.solvers.in_features.worker_map import Lift
from gramian.solvers.machine.corners import near
from gramian.solvers.machine.data_term import DataFit, Envelope

__all__ = ["LENGTHS", "REACHES", "Functions", "Point", "Targets", "along", "fits_of", "local", "reach_of", "values_of"]

Array = NDArray[np.float64]

LENGTHS: Array = np.power(0.5, np.arange(0.0, 15.5, 0.5))
"""Lengths of a step that are tried where it may go too far."""
REACHES: Array = 3.0 * np.power(2.0, np.arange(8))
"""How far around a value kinks are counted, in widths of the envelope."""


class Targets(Protocol):
    """How the rows of a part become the targets of each function."""

    def of(self, part: Part) -> tuple[list[Array], Array]:
        """Return the targets of each function, and weights."""


@dataclass(frozen=True, eq=False)
class Functions:
    """What is fitted: functions, or groups of functions that a loss couples."""

    losses: tuple[Any, ...]  # One for each
    targets: Targets  # Their targets
    intercept: bool  # Whether each has a constant
    lam: float  # Strength, of mean loss + (lam/2) ‖f‖²
    kinks: bool  # Whether losses are replaced by envelopes
    typical: float = 1.0  # A weight as most rows have it


@dataclass(frozen=True, eq=False)
class Point:
    """Where a pass evaluates functions."""

    lift: Lift  # The map
    functions: Functions  # Losses and targets
    which: tuple[int, ...]  # Of them, those that are evaluated
    theta: tuple[Array, ...]  # (m, k) or (m + 1, k): Weights, with constants below
    widths: tuple[float, ...]  # Of envelopes
    steps: tuple[Array, ...] = ()  # Directions along which values are wanted
    bends: tuple[bool, ...] = ()  # Of which functions the Hessian is wanted too


def fits_of(point: Point, part: Part) -> list[tuple[DataFit, Any]]:
    """Return the data terms of some rows."""
    targets, weights = point.functions.targets.of(part)
    out = []
    for which, width in zip(point.which, point.widths, strict=True):
        fit = DataFit(point.functions.losses[which], targets[which], weights)
        envelope = Envelope(fit, width, np.zeros_like(fit.y)) if point.functions.kinks else fit
        out.append((fit, envelope))
    return out


def values_of(F: Array, theta: Array) -> Array:
    """Return the values of functions: F (r, m), theta (m, k) or (m + 1, k) → (r, k)."""
    return F @ theta[: F.shape[1]] + (theta[F.shape[1] :] if theta.shape[0] > F.shape[1] else 0.0)


def reach_of(scale: float, fit: DataFit, typical: float) -> Array:
    """Return how far around its value a row's kinks are looked for: → (r, 1)."""
    return np.asarray(scale * np.maximum(fit.w, typical))


def local(point: Point, parts: Iterator[Part]) -> Sums | None:
    """Return value, slope and curvature at a point: a task of ``Passes.sum``."""
    return total(_local_of(point, F, part) for F, part in point.lift.strips(parts))


def _local_of(point: Point, F: Array, part: Part) -> Sums:
    sums: dict[str, Any] = dict(point.lift.error_sums(F, part).arrays)
    for i, (fit, smooth) in enumerate(fits_of(point, part)):
        f = values_of(F, point.theta[i])
        u = smooth.gradient(f)
        sums[f"objective{i}"] = smooth.value(f)
        sums[f"value{i}"] = fit.value(f)
        sums[f"weight{i}"] = fit.w.sum()
        # Fenchel's equality, at the point where u is a slope: no rounding takes it out of the conjugate's domain.
        z = f
        if isinstance(smooth, Envelope):
            z = smooth.point(f)
            sums[f"near{i}"] = _counts(point, i, fit, f)
        sums[f"conjugate{i}"] = np.sum(u * z) - fit.value(z)
        intercept = point.functions.intercept
        sums[f"gradient{i}"] = _extended(F.T @ u, u, intercept)
        S = smooth.half_curvature(f)
        sums[f"bend{i}"] = np.sum(S**2, axis=0 if S.ndim == 2 else (0, 2))
        if isinstance(smooth, Envelope):
            turned = point.widths[i] * S**2 * u
            sums[f"turns{i}"] = _extended(F.T @ turned, turned, intercept)
        if point.bends[i]:
            sums[f"hessian{i}"] = _hessian(F, S, intercept)
    return Sums.of(**sums)


def _counts(point: Point, i: int, fit: DataFit, f: Array) -> list[int]:
    """Rows with a kink within each of ``REACHES``."""
    reach = reach_of(point.widths[i], fit, point.functions.typical)
    return [int(np.count_nonzero(near(fit, f, times * reach))) for times in REACHES]


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


def along(point: Point, parts: Iterator[Part]) -> Sums | None:
    """Return values along directions: a task of ``Passes.sum``."""
    return total(_along_of(point, F, part) for F, part in point.lift.strips(parts))


def _along_of(point: Point, F: Array, part: Part) -> Sums:
    sums: dict[str, Any] = {}
    for i, (fit, smooth) in enumerate(fits_of(point, part)):
        f, df = values_of(F, point.theta[i]), values_of(F, point.steps[i])
        for name, term in (("objective", smooth), ("value", fit)):
            sums[f"{name}{i}"] = [term.value(f + length * df) for length in LENGTHS]
        if isinstance(smooth, Envelope):
            sums[f"near{i}"] = _counts(point, i, fit, f + df)
    return Sums.of(**sums)
