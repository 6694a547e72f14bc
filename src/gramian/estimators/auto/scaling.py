"""Scalings that bring the number columns of a table to one scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Array = NDArray[np.float64]

SCALINGS = ("standard", "normal", "robust", "common")
"""By mean and deviation; by rank to the normal law, for heavy tails; by median and quartiles, with far values drawn in;
by one deviation for all columns, where they share a unit."""
FOREST = "forest"
"""The first of these, with the predictions of a forest as more columns, or these alone (``Forest``)."""
QUARTILES = 1.349
"""Distance between the quartiles of the normal law, in deviations."""
NEAR = 3.0
"""``Robust`` maps every value to within this many deviations."""
TOGETHER, APART = 8, 2.0
"""A common scale is tried for at least this many columns, such as pixels, whose deviations differ by this factor."""
QUANTILES = 500
"""``Normal`` keeps at most this many quantiles of a column."""
TAIL = 1e-3
"""Rank of the smallest value; beyond it the map is flat."""


@dataclass(frozen=True, eq=False)
class Standard:
    """``(x - mean) / deviation`` in some columns."""

    places: NDArray[np.intp]  # Which columns; the others stay
    mean: Array  # (k,): Of those columns
    deviation: Array  # (k,): Of those columns

    def transform(self, Z: Array) -> Array:
        """Return the scaled rows: Z (n, d) → (n, d)."""
        Z = Z.copy()
        unit = _unit(self.deviation)  # so that no difference overflows
        Z[:, self.places] = (Z[:, self.places] * unit - self.mean * unit) / (self.deviation * unit)
        return Z


@dataclass(frozen=True, eq=False)
class Normal:
    """Each value by its rank among those fitted, through the inverse of the normal distribution, in some columns."""

    places: NDArray[np.intp]  # Which columns; the others stay
    quantiles: Array  # (q, k): Ascending, evenly spaced by rank

    def transform(self, Z: Array) -> Array:
        """Return the scaled rows: Z (n, d) → (n, d)."""
        Z = Z.copy()
        ranks = np.linspace(0.0, 1.0, self.quantiles.shape[0])
        for place, known in zip(self.places, self.quantiles.T, strict=True):
            # The mean of the two interpolations puts tied values in the middle of their ranks.
            upward = np.interp(Z[:, place], known, ranks)
            downward = np.interp(-Z[:, place], -known[::-1], ranks)
            Z[:, place] = ndtri(np.clip(0.5 * (upward + 1.0 - downward), TAIL, 1.0 - TAIL))
        return Z


@dataclass(frozen=True, eq=False)
class Robust:
    """``u / √(1 + (u/3)²)`` with ``u = (x - median) / spread`` in some columns."""

    places: NDArray[np.intp]  # Which columns; the others stay
    median: Array  # (k,): Of those columns
    spread: Array  # (k,): Of those columns

    def transform(self, Z: Array) -> Array:
        """Return the scaled rows: Z (n, d) → (n, d)."""
        Z = Standard(self.places, self.median, self.spread).transform(Z)
        u = np.clip(Z[:, self.places], -1e150, 1e150)
        Z[:, self.places] = u / np.hypot(1.0, u / NEAR)
        return Z


def scalings_for(Z: Array, places: list[int]) -> tuple[str, ...]:
    """Return the scalings worth a trial: a common one where no column dominates, and some would be blown up alone."""
    with np.errstate(over="ignore"):
        deviation = Z[:, places].std(axis=0)
        typical = float(np.sqrt(np.mean(deviation**2))) if deviation.size else 0.0
    if deviation.size < TOGETHER or not np.isfinite(typical):
        return SCALINGS[:3]
    return SCALINGS if deviation.max() <= APART * typical and deviation.min() * APART < typical else SCALINGS[:3]


def fit_scaling(name: str, Z: Array, places: list[int]) -> Any:
    """Learn a scaling: Z (n, d)."""
    at = np.asarray(places, dtype=np.intp)
    some = Z[:, at]
    if name == "common":
        return Standard(at, some.mean(axis=0), np.full(at.size, np.sqrt(np.mean(some.var(axis=0)))))
    if name == "standard":
        unit = _unit(np.abs(some).max(axis=0, initial=0.0))  # so that no square overflows or vanishes
        mean, deviation = (some * unit).mean(axis=0) / unit, (some * unit).std(axis=0) / unit
        floor = 10.0 * np.finfo(np.float64).eps * np.abs(mean)
        return Standard(at, mean, np.where(deviation > floor, deviation, 1.0))
    if name == "robust" and at.size:
        spread = np.subtract(*np.quantile(some, [0.75, 0.25], axis=0)) / QUARTILES
        deviation = fit_scaling("standard", Z, places).deviation  # where more than half of the values are equal
        return Robust(at, np.median(some, axis=0), np.where(spread > 0, spread, deviation))
    ranks = np.linspace(0.0, 1.0, min(QUANTILES, Z.shape[0]))
    return Normal(at, np.quantile(some, ranks, axis=0) if at.size else np.zeros((ranks.size, 0)))


def _unit(size: Array) -> Array:
    """Powers of two, so that a product with them is exact, that bring numbers of some size near one."""
    return np.ldexp(1.0, np.clip(-np.frexp(size)[1], -1020, 1020))
