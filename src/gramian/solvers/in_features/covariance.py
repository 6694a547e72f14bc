"""Covariances of features over blocks: one pass, about a point near their mean so that nothing cancels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramian.data.parts import Need, Part
from gramian.data.passes import Passes
from gramian.data.sums import Sums, total
from gramian.solvers.in_features.worker_map import Lift

__all__ = ["Covariance", "covariance"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Covariance:
    """Sums of products of features."""

    scatter: Array  # (m, m): ``Σ (ψ - mean)(ψ - mean)ᵀ``, or ``Σ ψψᵀ`` where nothing is centred
    mean: Array  # (m,): The mean, or zeros
    count: int  # Rows
    error: float  # The trace error of the map


def _scatter(shared: tuple[Lift, Array], parts: Iterator[Part]) -> Sums | None:
    lift, middle = shared
    return total(_scatter_of(lift, F, part, middle) for F, part in lift.strips(parts))


def _scatter_of(lift: Lift, F: Array, part: Part, middle: Array) -> Sums:
    errors = lift.error_sums(F, part)
    F = F - middle
    sums = {"second": F.T @ F, "first": F.sum(axis=0), "count": np.array(float(F.shape[0]))}
    return Sums({**sums, **errors.arrays})


def covariance(passes: Passes, lift: Lift, sample: Part, *, center: bool) -> Covariance:
    """Return the covariance of the features of all rows."""
    middle = np.zeros(lift.width)
    if center:
        features = [F.sum(axis=0) for F, _ in lift.strips(iter([sample]))]
        middle = np.sum(features, axis=0) / sample.index.size
    sums = passes.sum(_scatter, (lift, middle), need=Need(y=False))
    error = float(sums["missed"] / sums["trace"]) if sums["trace"] > 0 else 0.0
    n = float(sums["count"])
    if not center:
        return Covariance(sums["second"], middle, int(n), error)
    shift = sums["first"] / n
    return Covariance(sums["second"] - n * np.outer(shift, shift), middle + shift, int(n), error)
