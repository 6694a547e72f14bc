"""Covariances of features over passes, summed about a sample mean to avoid cancellation; projections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramian.data.passes import Need, Part, Passes, Sums
from gramian.features.base import WorkerMap, error_of

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Covariance:
    """Sums of products of features."""

    scatter: Array  # (m, m): ``Σ (ψ - mean)(ψ - mean)ᵀ``, or ``Σ ψψᵀ`` without centring
    mean: Array  # (m,): The mean, or zeros
    count: int  # Rows
    error: float  # The trace error of the map


def _scatter(part: Part, lift: WorkerMap, middle: Array) -> Sums:
    F = part.made(lift)
    errors = lift.error_sums(F, part).arrays
    F = F - middle
    return Sums.of(second=F.T @ F, first=F.sum(axis=0), count=F.shape[0], **errors)


def covariance(passes: Passes, lift: WorkerMap, sample: Part, *, center: bool) -> Covariance:
    """Return the covariance of the features of all rows."""
    middle = np.zeros(lift.width)
    if center:
        features = [part.made(lift).sum(axis=0) for part in sample.strips(lift.width)]
        middle = np.sum(features, axis=0) / sample.index.size
    sums = passes.sum(_scatter, lift, middle, need=Need(y=False), width=lift.width)
    error, n = error_of(sums), float(sums["count"])
    if not center:
        return Covariance(sums["second"], middle, int(n), error)
    shift = sums["first"] / n
    return Covariance(sums["second"] - n * np.outer(shift, shift), middle + shift, int(n), error)


@dataclass(frozen=True, eq=False)
class CentredProducts:
    """``Σ (ψ - mean)(ψ - mean)ᵀ`` as an operator, one pass for each product; free of cancellation."""

    passes: Passes
    lift: WorkerMap
    mean: Array

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (m, m) of the operator."""
        return self.lift.width, self.lift.width

    def __matmul__(self, V: Array) -> Array:
        product = self.passes.sum(_product, self.lift, self.mean, V, need=Need(y=False), width=self.lift.width)
        return product["product"].reshape(V.shape)


def _product(part: Part, lift: WorkerMap, mean: Array, V: Array) -> Sums:
    F = part.made(lift)
    G = F @ V - mean @ V
    return Sums.of(product=F.T @ G - np.multiply.outer(mean, G.sum(axis=0)))


def projections(passes: Passes, lift: WorkerMap, directions: Array) -> Array:
    """Return the features of every row times some directions, in one pass: directions (m, r) → (n, r)."""
    return np.vstack(list(passes.map(_projected, (lift, directions), need=Need(y=False))))


def _projected(shared: tuple[WorkerMap, Array], parts: Iterator[Part]) -> Array:
    lift, directions = shared
    return np.vstack([strip.made(lift) @ directions for part in parts for strip in part.strips(lift.width)])
