"""Covariances of features over passes, summed about a sample mean to avoid cancellation; projections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramian.data.parts import Need, Part, Sums, total
from gramian.data.passes import Passes
from gramian.solvers.in_features.worker_map import WorkerMap

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Covariance:
    """Sums of products of features."""

    scatter: Array  # (m, m): ``Σ (ψ - mean)(ψ - mean)ᵀ``, or ``Σ ψψᵀ`` without centring
    mean: Array  # (m,): The mean, or zeros
    count: int  # Rows
    error: float  # The trace error of the map


def _scatter(shared: tuple[WorkerMap, Array], parts: Iterator[Part]) -> Sums | None:
    lift, middle = shared
    return total(_scatter_of(lift, F, part, middle) for F, part in lift.strips(parts))


def _scatter_of(lift: WorkerMap, F: Array, part: Part, middle: Array) -> Sums:
    errors = Sums.of(missed=0.0, trace=0.0) if lift.basis is None else lift.error_sums(F, part)
    F = F - middle
    sums = {"second": F.T @ F, "first": F.sum(axis=0), "count": np.array(float(F.shape[0]))}
    return Sums({**sums, **errors.arrays})


def covariance(passes: Passes, lift: WorkerMap, sample: Part, *, center: bool) -> Covariance:
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
        product = self.passes.sum(_product, (self.lift, self.mean, V), need=Need(y=False))["product"]
        return product.reshape(V.shape)


def _product(shared: tuple[WorkerMap, Array, Array], parts: Iterator[Part]) -> Sums | None:
    lift, mean, V = shared
    return total(_product_of(F, mean, V) for F, _ in lift.strips(parts))


def _product_of(F: Array, mean: Array, V: Array) -> Sums:
    G = F @ V - mean @ V
    return Sums.of(product=F.T @ G - np.multiply.outer(mean, G.sum(axis=0)))


def projections(passes: Passes, lift: WorkerMap, directions: Array) -> Array:
    """Return the features of every row times some directions, in one pass: directions (m, r) → (n, r)."""
    return np.vstack(list(passes.map(_projected, (lift, directions), need=Need(y=False))))


def _projected(shared: tuple[WorkerMap, Array], parts: Iterator[Part]) -> Array:
    lift, directions = shared
    return np.vstack([F @ directions for F, _ in lift.strips(parts)])
