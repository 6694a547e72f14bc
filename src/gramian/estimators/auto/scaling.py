"""Two ways to bring columns to one scale, as frozen values: by deviation, or by rank to the normal law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

__all__ = ["SCALINGS", "Normal", "Standard", "fit_scaling"]

Array = NDArray[np.float64]

SCALINGS = ("standard", "normal")
"""By mean and deviation; by rank to the normal law, for heavy tails."""
QUANTILES = 500
"""Points of the distribution that ``Normal`` keeps, at most."""
TAIL = 1e-3
"""The rank of the smallest value; beyond it the map is flat."""


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


def fit_scaling(name: str, Z: Array, places: list[int]) -> Any:
    """Learn a scaling: Z (n, d)."""
    at = np.asarray(places, dtype=np.intp)
    some = Z[:, at]
    if name == "standard":
        unit = _unit(np.abs(some).max(axis=0, initial=0.0))  # so that no square overflows or vanishes
        mean, deviation = (some * unit).mean(axis=0) / unit, (some * unit).std(axis=0) / unit
        floor = 10.0 * np.finfo(np.float64).eps * np.abs(mean)
        return Standard(at, mean, np.where(deviation > floor, deviation, 1.0))
    ranks = np.linspace(0.0, 1.0, min(QUANTILES, Z.shape[0]))
    return Normal(at, np.quantile(some, ranks, axis=0) if at.size else np.zeros((ranks.size, 0)))


def _unit(size: Array) -> Array:
    """Powers of two, so that a product with them is exact, that bring numbers of some size near one."""
    return np.ldexp(1.0, np.clip(-np.frexp(size)[1], -1020, 1020))
