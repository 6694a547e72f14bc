"""Learning a linear map of the rows: by the evidence behind it, or by the average outer product of gradients (AGOP).

The process behind the map has the kernel ``amplitude · k(Lᵀx, Lᵀz)`` and noise of variance ``noise / w_i`` at row i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, OptimizeResult, minimize

from gramian.gram import Gram
from gramian.kernels import Kernel
from gramian.progress import Clock, Tick, silent
from gramian.solvers.gp.evidence import WeightedEvidence, blas_for

Array = NDArray[np.float64]

AMPLITUDES, NOISES = (1e-3, 1e3), (1e-8, 1e2)
"""Bounds of the variances, for targets of variance one."""
SCALES = (-8.0, 3.0)
"""How far the logarithm of a scale may move in one search: at large scales nothing correlates and the slope is zero."""
FAILED = 1e25
"""Stands for an infinite objective, from which a line search could not recover."""


@dataclass(frozen=True, eq=False)
class Prior:
    """A process behind a linear map."""

    L: Array  # (d, k)
    amplitude: float = 1.0
    noise: float = 0.1

    def kernel(self, base: Kernel) -> Kernel:
        """Return its kernel, for a base kernel with fixed parameters."""
        return self.amplitude * base.fix().metric(self.L)


class MetricEvidence(WeightedEvidence):
    """The log evidence of some rows as a function of the map before the kernel."""

    def __init__(self, kernel: Kernel, *rows: Any) -> None:
        super().__init__(*rows)
        self.kernel = kernel

    def at(self, prior: Prior) -> tuple[float, Array, Array]:
        """Return the evidence and its derivatives by L (d, k), and by the logarithms of amplitude and noise (2,)."""
        with blas_for(self.Y.shape[0]):
            value, slope, by_noise = self.beside_noise(prior.kernel(self.kernel), prior.noise)
        return value, slope[1:].reshape(prior.L.shape), np.array([slope[0], by_noise])

    def gradients(self, prior: Prior) -> Array:
        """Return the gradients of the posterior means at the rows: → (t, n, d)."""
        kernel, self.noise = prior.kernel(self.kernel), prior.noise / self.weights
        alpha = self._factorised(kernel)[1].solve(self.Y)
        gram = Gram(kernel, self.X, memory=self.memory, n_jobs=self.workers, device=self.device)
        return np.stack([gram.grad_inputs(a) for a in alpha.T])

    def outer_products(self, prior: Prior) -> Array:
        """Return the weighted mean over rows of ∇f ∇fᵀ, summed over targets: → (d, d)."""
        G = self.gradients(prior)
        return np.asarray(np.einsum("tnd,n,tne->de", G, self.weights / self.weights.sum(), G, optimize=True))


@dataclass(frozen=True, eq=False)
class MapFit:
    """Where a search ended."""

    prior: Prior
    value: float
    slope: float  # The largest that the bounds allow to follow, per row
    iterations: int


def learn_map(
    evidence: MetricEvidence,
    start: Prior,
    free: str,
    *,
    max_iter: int,
    clock: Clock,
    tick: Tick = silent,
    noises: tuple[float, float] = NOISES,
) -> MapFit:
    """Maximise the evidence over variances and, of L, the ``"scale"``, scales of ``"rows"``, or ``"entries"``."""
    entries, (d, k), unit = free == "entries", start.L.shape, unit_of(start.L)
    size = {"scale": 1, "rows": d, "entries": d * k}[free]
    limits = Bounds(
        np.r_[np.full(size, -1e4 if entries else SCALES[0]), np.log([AMPLITUDES[0], noises[0]])],
        np.r_[np.full(size, 1e4 if entries else SCALES[1]), np.log([AMPLITUDES[1], noises[1]])],
    )
    first = np.r_[start.L.reshape(-1) / unit if entries else np.zeros(size), np.log([start.amplitude, start.noise])]
    steps = 0

    def prior_at(x: Array) -> Prior:
        L = unit * x[:-2].reshape(d, k) if entries else start.L * np.exp(x[:-2])[:, None]
        return Prior(L, *np.exp(x[-2:]).tolist())

    def descend(x: Array) -> tuple[float, Array]:
        prior = prior_at(x)
        value, by_L, by_variances = evidence.at(prior)
        if not math.isfinite(value):
            return FAILED, np.zeros(x.size)
        own = unit * by_L.reshape(-1) if entries else (by_L * prior.L).sum(axis=1)
        return -value, -np.r_[own.sum() if free == "scale" else own, by_variances]

    def step(intermediate_result: OptimizeResult) -> None:
        nonlocal steps
        steps += 1
        tick(steps, evidence=-float(intermediate_result.fun))
        if clock.expired:
            raise StopIteration

    options: Any = {"maxiter": max_iter, "maxfun": 2 * max_iter + 20, "ftol": 1e-9, "gtol": 1e-3}
    found = minimize(descend, first, jac=True, method="L-BFGS-B", bounds=limits, callback=step, options=options)
    best, rise = prior_at(found.x), -np.asarray(found.jac)
    rise[:-2] *= unit_of(best.L) / unit if entries else 1.0
    slope = np.clip(found.x + rise, limits.lb, limits.ub) - found.x
    return MapFit(best, -float(found.fun), float(np.abs(slope).max()) / evidence.Y.shape[0], steps)


def unit_of(L: Array) -> float:
    """Return the root mean square length of the columns of a map; slopes by its entries, times that, have no units."""
    return float(np.linalg.norm(L)) / math.sqrt(L.shape[1])


def root(G: Array, power: float, rank: int | None) -> Array:
    """Return L with ``LLᵀ = G^power``: symmetric, or of the ``rank`` largest eigenvalues only: G (d, d)."""
    values, axes = np.linalg.eigh(0.5 * (G + G.T))
    half = np.maximum(values, 0.0) ** (0.5 * power)
    if rank is None:
        return (axes * half) @ axes.T
    L = axes[:, ::-1][:, :rank] * half[::-1][:rank]
    return L * np.where(L[np.abs(L).argmax(axis=0), np.arange(rank)] < 0, -1.0, 1.0)


def moved(L: Array, M: Array) -> float:
    """Return the distance between two metrics LLᵀ and MMᵀ, each scaled to norm one."""
    A, B = L @ L.T, M @ M.T
    return float(np.linalg.norm(A / (np.linalg.norm(A) or 1.0) - B / (np.linalg.norm(B) or 1.0)))


def agop_round(evidence: MetricEvidence, prior: Prior, power: float, rank: int | None) -> Prior:
    """Return the prior behind the map ``LLᵀ ∝ G^power``, G the mean outer product of gradients, of the same trace."""
    G = evidence.outer_products(prior)
    L = root(G / (np.trace(G) or 1.0), power, rank)
    size = float(np.linalg.norm(L))
    return replace(prior, L=L * (float(np.linalg.norm(prior.L)) / size)) if size > 0 else prior
