"""Accuracy of random features: errors observed on pairs of rows, and bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from gramian.kernels import Kernel
from gramian.kernels.points import dense
from gramian.resources import spans

Array = NDArray[np.float64]

BATCH = 256
"""Pairs of rows evaluated at a time."""
PAIRS = 2000
"""Pairs of rows on which the empirical bound estimates the variance."""


@dataclass(frozen=True)
class Accuracy:
    """The error ``<ψ(x), ψ(z)> - k(x, z)``, observed on random pairs of rows."""

    maximum: float  # The largest error observed
    rms: float  # The root-mean-square error
    rms_interval: tuple[float, float]  # 95% confidence interval of ``rms``, over the choice of pairs
    unseen: float  # Share of pairs that may exceed ``maximum``, with 95% confidence
    pairs: int  # Number of pairs


@dataclass(frozen=True)
class Components:
    """The number of components that keeps the error below ``eps`` with probability 1 - ``delta``."""

    uniform: float  # For all pairs of points in a domain of the same diameter as the rows
    empirical: int  # For all pairs among the rows
    eps: float  # The requested error, relative to k(x, x)
    delta: float  # The requested probability of failure


def observed(
    kernel: Kernel, X: Any, transform: Callable[[Any], NDArray[Any]], pairs: int, rng: np.random.RandomState
) -> Accuracy:
    """Measure the error of a map on random pairs of different rows: X (n, d)."""
    if pairs < 2:
        raise ValueError(f"n_pairs must be at least 2, got {pairs}.")
    errors = np.concatenate(
        [
            _inner(transform(X[i]), transform(X[j])) - np.diagonal(np.asarray(kernel(X[i], X[j]), dtype=np.float64))
            for i, j in _pairs(X.shape[0], pairs, rng)
        ]
    )
    squares = errors**2
    mean, half = float(squares.mean()), 1.96 * float(squares.std(ddof=1)) / math.sqrt(pairs)
    interval = math.sqrt(max(mean - half, 0.0)), math.sqrt(mean + half)
    return Accuracy(float(abs(errors).max()), math.sqrt(mean), interval, -math.log(0.05) / pairs, pairs)


def _inner(F: Any, G: Any) -> Array:
    """<ψ(x), ψ(z)>, pair by pair."""
    if isinstance(F, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", F, G, dtype=np.float64))
    return np.asarray(F.multiply(G).sum(axis=1), dtype=np.float64).ravel()


def _pairs(n: int, pairs: int, rng: np.random.RandomState) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    if n < 2:
        raise ValueError(f"pairs of rows need at least 2 rows, got {n}.")
    i = rng.randint(n, size=pairs)
    j = (i + rng.randint(1, n, size=pairs)) % n
    return ((i[batch], j[batch]) for batch in spans(pairs, BATCH))


def _dense(X: Any, i: NDArray[np.intp], j: NDArray[np.intp]) -> Array:
    difference = X[i].astype(np.float64) - X[j].astype(np.float64)
    return np.asarray(dense(difference))


def _values(kernel: Kernel, differences: Array) -> Array:
    """Values of a stationary kernel at differences of rows."""
    return np.asarray(kernel(np.zeros((1, differences.shape[1])), differences))[0]


def components_for(kernel: Kernel, X: Any, eps: float, delta: float) -> Components:
    """Return how many Fourier components keep the error below eps · k(x, x), with probability 1 - delta: X (n, d).

    Both bounds assume independent frequencies, each with a cosine and a sine.
    """
    for name, value in (("eps", eps), ("delta", delta)):
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name} must be between 0 and 1, got {value!r}.")
    n, d = X.shape
    spread, width = spectral_spread(kernel, d), _diameter(X)
    logarithm = math.log(max(2.0**8 * (spread * width / eps) ** 2 / delta, 1.0)) if math.isfinite(spread) else math.inf
    uniform = 4.0 * (d + 2) / eps**2 * logarithm
    variance, every = _variance(kernel, X), n * (n - 1) / 2
    empirical = 2.0 * (variance + 2.0 * eps / 3.0) / eps**2 * math.log(2.0 * every / delta)
    return Components(_even(uniform), int(_even(empirical)), eps, delta)


def _even(frequencies: float) -> float:
    return 2 * max(math.ceil(frequencies), 1) if math.isfinite(frequencies) else math.inf


def _variance(kernel: Kernel, X: Any) -> float:
    """Largest variance of cos ωᵀ(x - z), (1 + k(2(x-z)))/2 - k(x-z)² for k(0) = 1, on random pairs."""
    worst = 0.0
    for i, j in _pairs(X.shape[0], PAIRS, np.random.RandomState(0)):
        difference = _dense(X, i, j)
        once, twice = (_values(kernel, c * difference) / kernel.amplitude for c in (1.0, 2.0))
        worst = max(worst, float(np.max((1.0 + twice) / 2.0 - once**2)))
    return worst


def _diameter(X: Any) -> float:
    """Upper bound on the diameter of the rows: twice the radius about the mean, or the diagonal of the bounding box."""
    if isinstance(X, np.ndarray):
        radius = float(np.linalg.norm(X - X.mean(axis=0), axis=1).max())
        return min(float(np.linalg.norm(np.ptp(X, axis=0))), 2.0 * radius)
    return float(np.linalg.norm((X.max(axis=0) - X.min(axis=0)).toarray()))


def spectral_spread(kernel: Kernel, d: int) -> float:
    """Return σ_p = √E‖ω‖² from the curvature of the kernel at zero; infinite if the kernel is not smooth there."""
    if kernel.amplitude == 0.0:
        return 0.0
    coarse, fine = (sum(_curvature(kernel, row, drop) for row in np.eye(d)) for drop in (1e-4, 1e-6))
    return math.sqrt(fine) if fine <= 1.1 * coarse else math.inf


def _curvature(kernel: Kernel, direction: Array, drop: float) -> float:
    """2 (1 - k(h)/k(0)) / h² at the distance h where k has fallen by the fraction ``drop``."""

    def fallen(log_h: float) -> float:
        at = math.exp(log_h) * direction[None, :]
        return 1.0 - float(_values(kernel, at)[0]) / kernel.amplitude

    # If k falls at no distance, it is constant in this direction.
    high = next((h for h in range(-40, 41) if fallen(h) >= drop), None)
    if high is None:
        return 0.0
    log_h = brentq(lambda h: fallen(h) - drop, high - 1, high) if high > -40 else high
    return 2.0 * fallen(log_h) / math.exp(2.0 * log_h)
