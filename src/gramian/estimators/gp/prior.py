"""What the Gaussian processes share: the prior that a user's kernel stands for, and the rows it takes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable as Fn
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from gramian.certificates import Certificate
from gramian.estimators.base import rows_of
from gramian.gram.operator import units
from gramian.kernels import Callable, Columns, Composed, Kernel, Spectrum, WordCount, resolve
from gramian.kernels.tunable import FREE
from gramian.progress import Clock, Tick
from gramian.solvers.gp.hyperparameters import VARIANCES, Optimizer, Optimum, data_starts, maximise

__all__ = [
    "Part",
    "Prior",
    "checked_rows",
    "learn",
    "location",
    "merged",
    "noise_of_repeats",
    "prior_kernel",
    "takes_objects",
    "warn_at_bounds",
    "widened",
]

SCREEN = 500
"""Rows on which the starts compete."""
LENGTHS = ("lengthscale", "period")
"""Parameters that carry the units of X."""
BINDING = 0.1
"""Slope of the evidence, in the logarithm of a parameter, from which its bound is worth a warning."""
REPEATS = 20
"""Degrees of freedom that equal rows must leave before they tell of the noise."""


def prior_kernel(kernel: Any, default: Kernel, X: Any = None) -> Kernel:
    """Return the kernel that a user's ``kernel=`` stands for: X (n, d)."""
    return default if kernel is None else resolve(kernel, X)


def takes_objects(kernel: Any) -> bool:
    """Tell whether rows may be something else than numbers."""
    if isinstance(kernel, Composed) and isinstance(kernel.phi, Columns):
        return takes_objects(kernel.kernel)
    if isinstance(kernel, Kernel):
        of_objects = (Spectrum, WordCount, Callable, Composed)
        return isinstance(kernel, of_objects) or any(takes_objects(k) for k in kernel.children)
    return callable(kernel) and not hasattr(kernel, "theta")


def checked_rows(estimator: Any, *data: Any, **options: Any) -> Any:
    """Validate X, and y where it is given, as scikit-learn does, for vectors or for objects."""
    if takes_objects(estimator.kernel):
        return validate_data(estimator, *data, ensure_2d=False, dtype=None, accept_sparse="csr", **options)
    return validate_data(estimator, *data, dtype=[np.float64, np.float32], accept_sparse="csr", **options)


def learn(
    kernel: Kernel,
    evidence: Fn[..., Any],
    screen: Fn[..., Any],
    data: tuple[Any, NDArray[np.float64]],
    *,
    start: str,
    optimizer: str | Optimizer,
    restarts: list[NDArray[np.float64]],
    tol: float,
    max_iter: int,
    rng: np.random.RandomState,
    clock: Clock,
    tick: Tick,
) -> Optimum:
    """Maximise the evidence over the free parameters of a kernel: restarts (p,)."""
    own = None if isinstance(optimizer, str) else optimizer
    starts = [kernel.theta]
    if start == "data":
        # L-BFGS begins at the kernel's own values too, as scikit-learn's does; a user's optimizer is called once.
        candidates = data_starts(kernel, *data, rng)
        starts, others = (starts, candidates[1:]) if own is None else ([], candidates)
        values = [screen(kernel.with_theta(theta)).value for theta in others]
        starts += [others[int(np.argmax(values))]] if others else []

    def climb(evidence: Fn[..., Any], theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        at = evidence(kernel.with_theta(theta), gradient=True)
        return at.value, at.gradient

    return maximise(
        partial(climb, evidence),
        starts + restarts,
        kernel.bounds,
        screen=partial(climb, screen),
        optimizer=own,
        tol=tol,
        max_iter=max_iter,
        clock=clock,
        tick=tick,
    )


def warn_at_bounds(kernel: Kernel, slope: NDArray[np.float64], silent: str = "") -> None:
    """Warn, in scikit-learn's words, of learned parameters whose evidence still rises where their bounds end."""
    place = 0
    for p in (p for p in kernel.all_parameters() if p.free):
        for dimension, value in enumerate(p.values):
            up = bool(slope[place] > 0)
            bound = float(p.bounds[up])
            # Far below the variance that y asks for, the evidence hardly rises with it.
            least = 0.0 if up and p.name.endswith(VARIANCES) else BINDING
            if p.name != silent and abs(slope[place]) > least and np.isclose(value, bound, atol=0.0):
                end, change = ("upper", "Increasing") if up else ("lower", "Decreasing")
                warnings.warn(
                    f"The optimal value found for dimension {dimension} of parameter {p.name} is close to the "
                    f"specified {end} bound {bound}. {change} the bound and calling fit again may find a better value.",
                    ConvergenceWarning,
                    stacklevel=4,
                )
            place += 1


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


def merged(learned: Certificate, solved: Certificate) -> Certificate:
    """Join what the learning and the conditioning prove into one certificate."""
    posterior = f"the posterior's residual is {solved.violation:.1e}, {solved.message}" if solved.message else ""
    message = " ".join(m for m in (learned.message, posterior) if m)
    seconds = max(learned.seconds, solved.seconds)
    return replace(learned, converged=learned.converged and solved.converged, seconds=seconds, message=message)


class Prior:
    """A process that has seen no data, with the methods of a posterior."""

    def __init__(self, kernel: Kernel, targets: int) -> None:
        self.kernel, self.targets = kernel, targets

    def mean(self, X: Any) -> NDArray[np.float64]:
        """Return zeros: X (m, d) → (m, t)."""
        return np.zeros((X.shape[0], self.targets))

    def variance(self, X: Any) -> NDArray[np.float64]:
        """Return k(x, x): X (m, d) → (m,)."""
        return np.asarray(self.kernel.diag(X))

    def covariance(self, X: Any) -> NDArray[np.float64]:
        """Return k(X, X): X (m, d) → (m, m)."""
        return np.asarray(self.kernel(X))


@dataclass(frozen=True, eq=False)
class Part:
    """Rows, targets and noise, to take the same rows of all three."""

    X: Any  # Rows
    Y: NDArray[np.float64]  # (n, t): Targets
    noise: float | NDArray[np.float64]  # (n,): Variances
    kernel: Kernel  # What compares the rows: of a Gram matrix, columns are taken too

    def take(self, index: NDArray[np.intp]) -> tuple[Any, NDArray[np.float64], float | NDArray[np.float64]]:
        """Return some rows."""
        noise = self.noise[index] if isinstance(self.noise, np.ndarray) else self.noise
        return rows_of(self.kernel, self.X, index), self.Y[index], noise


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


def location(y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and deviation of each target: y (n,) or (n, t)."""
    # In units in which squares neither overflow nor vanish.
    size = units(y)
    mean, deviation = size * np.mean(y / size, axis=0), size * np.std(y / size, axis=0)
    # Rounding leaves a constant column a deviation of a few ulps of its mean.
    floor = 10.0 * np.finfo(np.float64).eps * np.abs(mean)
    return mean, np.where(deviation > floor, deviation, 1.0)
