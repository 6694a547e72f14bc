"""Gaussian processes through a map, over blocks: the collapsed bound and its gradient from sums of two passes.

The first pass brings back ``ΦᵀΦ``, ``ΦᵀY`` and a few numbers, of which the bound is made; with its factors, the second
brings back the gradient, row by row. What is between is as in ``collapsed``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

from gramian.data.parts import Part
from gramian.data.passes import Passes
from gramian.data.sums import Sums, total
from gramian.gram import Gram
from gramian.kernels import Kernel
from gramian.progress import Clock
from gramian.resources import memory_budget
from gramian.solvers.gp.evidence import Evidence, signal_and_noise
from gramian.solvers.in_features.least_squares import targets_of
from gramian.solvers.in_features.sparse_gp import CollapsedBound, FeaturePosterior, _Features, _jittered
from gramian.solvers.in_features.worker_map import Lift, strips_of

__all__ = ["BlockBound", "Units", "feature_posterior"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Units:
    """What targets are shifted and divided by."""

    centre: Array  # (t,): Of each target
    scale: Array  # (t,): Of each target

    def of(self, part: Part) -> Array:
        """Return targets in these units: → (r, t)."""
        return np.asarray((targets_of(part) - self.centre) / self.scale)


@dataclass(frozen=True, eq=False)
class _Place:
    """The kernel and the landmarks at which a pass evaluates rows."""

    kernel: Kernel
    landmarks: Array
    L: Array
    D: float
    units: Units

    def strips(self, parts: Iterator[Part]) -> Iterator[tuple[Array, Array, Array]]:
        """Rows, their features Φ = K_nm L⁻ᵀ, and their targets."""
        signal, _ = signal_and_noise(self.kernel)
        for part in strips_of(parts, self.L.shape[0]):
            X = part.X.astype(np.float64, copy=False)
            K = Gram(signal, X, self.landmarks, n_jobs=1).dense()
            phi = solve_triangular(self.L, K.T, lower=True, overwrite_b=True, check_finite=False).T
            yield X, phi, self.units.of(part)


@dataclass(frozen=True, eq=False)
class _Slope:
    """What the gradient of every row needs to know of all rows."""

    place: _Place
    weights: Array
    LC: Array
    through_alpha: Array
    mixing: Array


def _first(place: _Place, parts: Iterator[Part]) -> Sums | None:
    return total(_first_of(place, *strip) for strip in place.strips(parts))


def _first_of(place: _Place, X: Array, phi: Array, Y: Array) -> Sums:
    signal, _ = signal_and_noise(place.kernel)
    missed = np.asarray(signal.diag(X), dtype=np.float64).sum() - float(np.sum(phi * phi))
    return Sums.of(second=phi.T @ phi, right=phi.T @ Y, squares=np.sum(Y * Y), missed=missed, count=X.shape[0])


def _second(slope: _Slope, parts: Iterator[Part]) -> Sums | None:
    return total(_second_of(slope, *strip) for strip in slope.place.strips(parts))


def _second_of(slope: _Slope, X: Array, phi: Array, Y: Array) -> Sums:
    place, t = slope.place, Y.shape[1]
    D, kernel = place.D, place.kernel
    alpha = (Y - phi @ slope.weights) / D
    W = alpha @ slope.through_alpha + t * ((phi / D) @ slope.mixing)
    whitened = solve_triangular(slope.LC, phi.T, lower=True, check_finite=False)
    noise = float(np.sum(alpha**2)) - t * X.shape[0] / D + t * float(np.sum(whitened**2)) / D**2
    # Other objects than the landmarks themselves, so that no white noise is between them.
    through = Gram(kernel, X, place.landmarks.copy(), n_jobs=1).vjp(W)
    points, _ = kernel.prepare(X)
    diagonal = kernel.diagonal_vjp(points, np.full(X.shape[0], -0.5 * t / D))
    return Sums.of(through=through, diagonal=diagonal, noise=0.5 * noise)


class BlockBound(CollapsedBound):
    """The collapsed bound on the log evidence of rows that come by blocks, landmarks held still."""

    def __init__(
        self, passes: Passes, units: Units, noise: float, landmarks: Array, memory: int | str | None = None
    ) -> None:
        self.passes, self.units, self.variance, self.landmarks = passes, units, noise, landmarks
        self.memory, self.n_jobs = memory_budget(memory), 1
        # What the rows of a bound in memory are asked for is asked of the landmarks here.
        self.X, self.Y, self.noise = landmarks, np.zeros((landmarks.shape[0], 1)), noise
        self._last: tuple[Kernel, tuple[_Place, _Features, Sums, float]] | None = None

    def __call__(self, kernel: Kernel, *, gradient: bool = False) -> Evidence:
        """Evaluate the bound, in one pass or two."""
        try:
            place, model, sums, jitter = self._at(kernel)
        except LinAlgError:
            return Evidence(-math.inf, np.zeros(kernel.theta.size) if gradient else None, math.nan)
        t = model.weighted.shape[1]
        value = _evidence(model, sums, place.D) - 0.5 * t * float(sums["missed"]) / place.D
        return Evidence(value, self._slope(place, model, sums) if gradient else None, jitter)

    def factors(self, kernel: Kernel) -> tuple[Array, _Features, float]:
        """Factorise at a kernel: → (m, m)."""
        place, model, _, jitter = self._at(kernel)
        return place.L, model, jitter

    def _at(self, kernel: Kernel) -> tuple[_Place, _Features, Sums, float]:
        """What one pass tells; the last answer is kept, for it is often asked for twice."""
        if self._last is None or self._last[0] != kernel:
            self._last = kernel, self._passed(kernel)
        return self._last[1]

    def _passed(self, kernel: Kernel) -> tuple[_Place, _Features, Sums, float]:
        signal, white = signal_and_noise(kernel)
        D = float(self.variance + white)
        if not D > 0:
            raise ValueError("a sparse process needs noise > 0 on every row; raise alpha, or learn the noise.")
        L, jitter = _jittered(np.asarray(signal(self.landmarks), dtype=np.float64))
        place = _Place(kernel, self.landmarks, L, D, self.units)
        sums = self.passes.sum(_first, place)
        return place, _model(sums, D), sums, jitter

    def _slope(self, place: _Place, model: _Features, sums: Sums) -> Array:
        """½ Σ W∘∂Q with W = ααᵀ + t D⁻¹ΦC⁻¹ΦᵀD⁻¹, through K_nm and K_mm; the diagonal; and the noise."""
        L, kernel, t, D = place.L, place.kernel, model.weighted.shape[1], place.D
        identity = np.eye(L.shape[0])
        inverse = solve_triangular(L, identity, lower=True, check_finite=False)
        # αᵀΦ is known from the first pass: ΦᵀD⁻¹y - (C - I) w.
        through_alpha = (model.weighted - (model.C - identity) @ model.weights).T @ inverse
        core = identity - cho_solve((model.LC, True), identity, check_finite=False)
        found = self.passes.sum(_second, _Slope(place, model.weights, model.LC, through_alpha, core @ inverse))
        rest = inverse.T @ (model.C @ core - core) @ inverse
        W_mm = -0.5 * (through_alpha.T @ through_alpha + t * rest)
        total = found["through"] + Gram(kernel, self.landmarks, self.landmarks.copy(), n_jobs=1).vjp(W_mm)
        on_noise = float(found["noise"]) + 0.5 * t * float(sums["missed"]) / D**2
        on_signal = -0.5 * t * float(sums["count"]) / D
        row, one = self.landmarks[:1], np.ones((1, 1))
        # What a row has with itself and not with its copy is white noise.
        by_noise = kernel.vjp(row, None, one) - kernel.vjp(row, row.copy(), one)
        return np.asarray(total + found["diagonal"] + by_noise * (on_noise - on_signal), dtype=np.float64)


def _model(sums: Sums, D: float) -> _Features:
    """Bayesian linear regression from its sums; without the features themselves."""
    C = sums["second"] / D
    C[np.diag_indices_from(C)] += 1.0
    nothing = np.empty((0, C.shape[0]))
    return _Features(nothing, np.array([D]), C, cholesky(C, lower=True, check_finite=False), sums["right"] / D)


def _evidence(model: _Features, sums: Sums, D: float) -> float:
    """log N(y | 0, ΦΦᵀ + D), summed over targets."""
    n, t = float(sums["count"]), model.weighted.shape[1]
    logdet = n * math.log(D) + 2.0 * float(np.log(np.diagonal(model.LC)).sum())
    explained = solve_triangular(model.LC, model.weighted, lower=True, check_finite=False)
    fit = float(sums["squares"]) / D - float(np.sum(explained**2))
    return -0.5 * (fit + t * (logdet + n * math.log(2.0 * math.pi)))


def _linear(shared: tuple[Lift, Units], parts: Iterator[Part]) -> Sums | None:
    lift, units = shared
    return total(_linear_of(F, units.of(part)) for F, part in lift.strips(parts))


def _linear_of(F: Array, Y: Array) -> Sums:
    return Sums.of(second=F.T @ F, right=F.T @ Y, squares=np.sum(Y * Y), count=F.shape[0])


def feature_posterior(
    passes: Passes,
    lift: Lift,
    features: Any,
    kernel: Kernel,
    units: Units,
    noise: float,
    X: Array,
    *,
    memory: int,
    workers: int,
    tol: float,
    clock: Clock,
) -> FeaturePosterior:
    """Condition a linear model in the space of a map, in one pass: X (s, d)."""
    D = float(noise + signal_and_noise(kernel)[1])
    if not D > 0:
        raise ValueError("a process in features needs noise > 0 on every row; raise alpha, or learn the noise.")
    sums = passes.sum(_linear, (lift, units))
    model = _model(sums, D)
    common: dict[str, Any] = {"kernel": kernel, "X": X, "alpha": model.weights, "memory": memory, "workers": workers}
    evidence = _evidence(model, sums, D)
    return FeaturePosterior(features, model.LC, evidence, certificate=model.certificate(tol, clock), **common)
