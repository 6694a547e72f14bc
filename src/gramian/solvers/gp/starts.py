"""Starts and bounds of hyperparameters from the data: typical lengthscales, variances, and the noise of equal rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from gramian.kernels import Kernel
from gramian.kernels.tunable import FREE
from gramian.solvers.gp.ascent import Theta
from gramian.solvers.gp.evidence import signal_and_noise

Array = NDArray[np.float64]

SAMPLE = 500
"""The median distance is taken over this many rows."""
CELLS = 10_000_000
"""At most this many numbers in those rows."""
MULTIPLES = (0.02, 0.1, 0.5, 1.0, 2.0)
"""Lengthscales to start at, as multiples of the median distance."""
VARIANCES = ("factor", "value", "noise")
"""Parameters in units of y²."""
LENGTHS = ("lengthscale", "period")
"""Parameters in units of X."""
NOISE = 0.1
"""The noise to start at, as a share of the mean square of y."""
QUIET = 1e-3
"""On a plateau, starts are tried with this share of the noise too."""
REPEATS = 20
"""Equal rows bound the noise from below if they leave at least this many degrees of freedom."""


def data_starts(kernel: Kernel, X: Any, size: float, rng: np.random.RandomState) -> list[Theta]:
    """List promising starts: the kernel's own theta first, then lengthscales and variances taken from the data.

    A lengthscale common to all inputs starts at 0.02 to 2 median distances; one per input at such multiples of √d
    deviations of that input. Variances give the prior the size of y², and the noise a tenth of it.
    """
    given = kernel.theta
    starts = [given]
    typical = _typical_lengthscales(kernel, X, rng)
    if typical is not None:
        starts += [np.where(np.isfinite(typical), typical + math.log(multiple), given) for multiple in MULTIPLES]
    if size > 0:
        scaled = [_in_units(kernel, start, X, size) for start in starts]
        starts = scaled if np.array_equal(scaled[0], given) else [given, *scaled]
    return [np.clip(start, *kernel.bounds.T) for start in starts]


def quiet_starts(kernel: Kernel, starts: list[Theta]) -> list[Theta]:
    """Return the same starts with less noise; none if the kernel has no noise to learn."""
    step = np.where(_names(kernel) == "noise", math.log(QUIET), 0.0)
    return [np.clip(start + step, *kernel.bounds.T) for start in starts] if step.any() else []


def _names(kernel: Kernel) -> NDArray[np.str_]:
    """The name of the parameter of each entry of theta, without the path to it."""
    return np.array([p.name.rpartition(".")[2] for p in kernel.all_parameters() if p.free for _ in p.values])


def _in_units(kernel: Kernel, theta: Theta, X: Any, size: float) -> Theta:
    """Theta with variances that give the prior the size of y², and the noise a tenth of it."""
    names = _names(kernel)
    prior = float(np.mean(signal_and_noise(kernel.with_theta(theta))[0].diag(X)))
    shift = math.log(size / prior) if prior > 0 else 0.0
    theta = np.where(np.isin(names, VARIANCES), theta + shift, theta)
    return np.where(names == "noise", math.log(NOISE * size), theta)


def _typical_lengthscales(kernel: Kernel, X: Any, rng: np.random.RandomState) -> Theta | None:
    """Logs of lengthscales from the spread of the rows, nan for other parameters; None if the rows are not vectors."""
    free = [p for p in kernel.all_parameters() if p.free]
    vectors = getattr(X, "ndim", 0) == 2 and X.dtype.kind in "fiu"
    if not vectors or not any(p.name.endswith("lengthscale") for p in free):
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
    typical = [np.full(p.values.size, np.nan) for p in free]
    for p, values in zip(free, typical, strict=True):
        if p.name.endswith("lengthscale") and not isinstance(p.value, tuple):
            values[:] = math.log(float(np.median(distances)))
        elif p.name.endswith("lengthscale") and values.size == each.size:
            values[:] = each
    return np.concatenate(typical)


def widened(kernel: Kernel, X: Any, size: float, *, back: bool = False) -> Kernel:
    """Return the kernel with its default bounds widened by the spread of the rows and the size of y²."""
    spread = float(np.sqrt(np.sum(np.var(X, axis=0)))) if _numbers(X) else 1.0
    units = {VARIANCES: size, LENGTHS: 1.0 if 1e-3 <= spread <= 1e3 else spread}
    changes = {}
    for names, unit in units.items():
        factor = unit if 0.0 < unit < math.inf else 1.0
        wide = (FREE[0] * min(factor, 1.0), FREE[1] * max(factor, 1.0))
        old, new = (wide, FREE) if back else (FREE, wide)
        for p in kernel.all_parameters():
            if p.bounds == old and p.name.endswith(names) and np.all((p.values >= new[0]) & (p.values <= new[1])):
                changes[f"{p.name}_bounds"] = new
    return kernel.with_fields(changes)


def noise_of_repeats(X: Any, Y: Array) -> float:
    """Return a lower bound of the noise, from equal rows with different targets: Y (n, t)."""
    if not _numbers(X):
        return 0.0
    _, group, count = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    group, freedom = group.ravel(), (Y.shape[0] - count.size) * Y.shape[1]
    if freedom < REPEATS:
        return 0.0
    means = np.stack([np.bincount(group, y) / count for y in Y.T], axis=1)
    return float(np.sum((Y - means[group]) ** 2)) / freedom * (1.0 - 2.0 * math.sqrt(2.0 / freedom))


def _numbers(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f" and X.size > 0
