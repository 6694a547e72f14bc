"""Starts and bounds of hyperparameters, taken from the data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from gramian.kernels import Kernel
from gramian.kernels.tunable import FREE, Parameter
from gramian.solvers.gp.evidence import signal_and_noise

__all__ = ["VARIANCES", "data_starts", "noise_of_repeats", "random_starts", "widened"]

SAMPLE = 500
"""Rows that a typical distance is taken from."""
CELLS = 10_000_000
"""Numbers that those rows hold at most, where inputs are very many."""
MULTIPLES = (0.02, 0.1, 0.5, 1.0, 2.0)
"""Of the typical distance: the lengthscales that compete for the start."""
VARIANCES = ("factor", "value", "noise")
"""Parameters that carry the units of y²."""
LENGTHS = ("lengthscale", "period")
"""Parameters that carry the units of X."""
NOISE = 0.1
"""The share of the mean square of y that the noise is tried at."""
REPEATS = 20
"""Degrees of freedom that equal rows must leave before they tell of the noise."""


def random_starts(bounds: NDArray[np.float64], count: int, rng: np.random.RandomState) -> list[NDArray[np.float64]]:
    """Draw starts uniformly within the bounds of theta: bounds (p, 2) → (p,)."""
    return [rng.uniform(bounds[:, 0], bounds[:, 1]) for _ in range(count)]


def data_starts(
    kernel: Kernel, X: Any, Y: NDArray[np.float64], rng: np.random.RandomState
) -> list[NDArray[np.float64]]:
    """List promising starts: the kernel's own theta first, then lengthscales and variances taken from the data.

    A lengthscale common to all inputs starts at 0.02 to 2 median distances; one per input at such multiples of √d
    deviations of that input. Variances are such that the prior has the size of y, and the noise a tenth of it.
    """
    given = kernel.theta
    starts = [given]
    typical = _typical_lengthscales(kernel, X, rng)
    if typical is not None:
        changed = np.isfinite(typical)
        starts += [np.where(changed, typical + math.log(multiple), given) for multiple in MULTIPLES]
    size = float(np.mean(Y**2))
    if size > 0:
        scaled = [_in_units(kernel, start, X, size) for start in starts]
        starts = scaled if np.array_equal(scaled[0], given) else [given, *scaled]
    return [np.clip(start, *kernel.bounds.T) for start in starts]


def _in_units(kernel: Kernel, theta: NDArray[np.float64], X: Any, size: float) -> NDArray[np.float64]:
    """Theta with variances such that the prior has the size of y, and the noise a tenth of it."""
    names = [p.name.rpartition(".")[2] for p in kernel.all_parameters() if p.free for _ in p.values]
    noise = np.array([name == "noise" for name in names], dtype=bool)
    scaled = np.array([name in VARIANCES for name in names], dtype=bool) & ~noise
    signal, _ = signal_and_noise(kernel.with_theta(theta))
    prior = float(np.mean(signal.diag(X)))
    theta = np.where(noise, math.log(NOISE * size), theta)
    return np.where(scaled, theta + math.log(size / prior), theta) if prior > 0 else theta


def _typical_lengthscales(kernel: Kernel, X: Any, rng: np.random.RandomState) -> NDArray[np.float64] | None:
    """Logs of lengthscales that suit the rows, nan elsewhere; None where the rows are not vectors."""
    if not any(p.free and p.name.endswith("lengthscale") for p in kernel.all_parameters()):
        return None
    if getattr(X, "ndim", 0) != 2 or X.dtype.kind not in "fiu":
        return None
    count = min(SAMPLE, X.shape[0], max(CELLS // X.shape[1], 2))
    rows = X[rng.choice(X.shape[0], count, replace=False)]
    rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)
    distances = pdist(rows)
    distances = distances[distances > 0]
    if distances.size == 0:
        return None
    spread = rows.std(axis=0)
    each = np.log(math.sqrt(spread.size) * np.where(spread > 0, spread, 1.0))
    common = math.log(float(np.median(distances)))
    return np.concatenate([_typical(p, each, common) for p in kernel.all_parameters() if p.free])


def _typical(p: Parameter, each: NDArray[np.float64], common: float) -> NDArray[np.float64]:
    """Logs of typical values of one parameter; nan where the rows say nothing about it."""
    if p.name.endswith("lengthscale"):
        if not isinstance(p.value, tuple):
            return np.array([common])
        if p.values.size == each.size:
            return each
    return np.full(p.values.size, np.nan)


def widened(kernel: Kernel, X: Any, Y: NDArray[np.float64], *, back: bool = False) -> Kernel:
    """Return the kernel with the default bounds of its parameters widened by the units of rows and targets."""
    numbers = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f" and X.size > 0
    spread = float(np.sqrt(np.sum(np.var(X, axis=0)))) if numbers else 1.0
    units = {VARIANCES: float(np.mean(Y**2)), LENGTHS: 1.0 if 1e-3 <= spread <= 1e3 else spread}
    changes = {}
    for names, unit in units.items():
        size = unit if 0.0 < unit < math.inf else 1.0
        wide = (FREE[0] * min(size, 1.0), FREE[1] * max(size, 1.0))
        old, new = (wide, FREE) if back else (FREE, wide)
        for p in kernel.all_parameters():
            if p.bounds == old and p.name.endswith(names) and np.all((p.values >= new[0]) & (p.values <= new[1])):
                changes[f"{p.name}_bounds"] = new
    return kernel.with_fields(changes)


def noise_of_repeats(X: Any, Y: NDArray[np.float64]) -> float:
    """Return how much noise there is at least, by rows that are equal and whose targets are not: Y (n, t)."""
    if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f" and X.size):
        return 0.0
    _, group, count = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    group, freedom = group.ravel(), (Y.shape[0] - count.size) * Y.shape[1]
    if freedom < REPEATS:
        return 0.0
    square = 0.0
    for y in Y.T:
        mean = np.bincount(group, y) / count
        square += float(np.sum((y - mean[group]) ** 2))
    return square / freedom * (1.0 - 2.0 * math.sqrt(2.0 / freedom))
