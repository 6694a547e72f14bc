"""Learning the parameters of a kernel: starts from the data, and L-BFGS with restarts on their logarithms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, OptimizeResult, minimize
from scipy.spatial.distance import pdist

from gramian.certificates import Certificate
from gramian.kernels import Kernel
from gramian.kernels.parameters import Parameter
from gramian.progress import Clock, Tick, silent
from gramian.solvers.evidence import signal_and_noise

__all__ = ["Objective", "Optimizer", "Optimum", "data_starts", "maximise", "random_starts"]

Objective = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]
"""From theta to a value to be made large, and its gradient."""
Optimizer = Callable[..., tuple[NDArray[np.float64], float]]
"""scikit-learn's contract: ``optimizer(obj_func, initial_theta, bounds)`` returns theta and the least value."""

STATIONARY = 1e-4
"""Slope, relative to the value, below which a line search that fails has nothing left to find."""
SAMPLE = 500
"""Rows that a typical distance is taken from."""
CELLS = 10_000_000
"""Numbers that those rows hold at most, where inputs are very many."""
MULTIPLES = (0.5, 1.0, 2.0)
"""Of the typical distance: the lengthscales that compete for the start."""
VARIANCES = ("factor", "value")
"""Parameters that carry the units of y², beside the noise."""
NOISE = 0.1
"""The share of the mean square of y that the noise is tried at."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best of several runs.

    Parameters
    ----------
    theta : array of shape (p,)
        Where.
    value : float
        How large; ``-inf`` where no start had a finite value.
    certificate : Certificate
        Of kind ``"evidence"``: ``primal`` is the value, ``violation`` the largest slope that the bounds allow.
    """

    theta: NDArray[np.float64]
    value: float
    certificate: Certificate


def maximise(
    objective: Objective,
    starts: Sequence[NDArray[np.float64]],
    bounds: NDArray[np.float64],
    *,
    optimizer: Optimizer | None = None,
    tol: float = 1e-7,
    max_iter: int = 1000,
    clock: Clock | None = None,
    tick: Tick = silent,
) -> Optimum:
    """Climb from every start and keep the highest place.

    Parameters
    ----------
    objective : callable
        From theta to value and gradient.
    starts : sequence of array of shape (p,)
        Where to begin; moved inside the bounds.
    bounds : array of shape (p, 2)
        Box constraints.
    optimizer : callable or None, default=None
        A user's own, by scikit-learn's contract; L-BFGS by default.
    tol : float, default=1e-7
        L-BFGS stops where a step gains less than this, relative to the value.
    max_iter : int, default=1000
        Steps of each run.
    clock : Clock or None, default=None
        No further step once it has expired.
    tick : callable, default=silent
        Told the steps taken, and the value.

    Returns
    -------
    Optimum
        The best of the runs.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.solvers.hyperparameters import maximise
    >>> parabola = lambda t: (-float(t @ t), -2.0 * t)
    >>> best = maximise(parabola, [np.ones(2)], np.array([[-2.0, 2.0], [0.5, 2.0]]))
    >>> best.theta.round(6) + 0.0
    array([0. , 0.5])
    """
    climb = _Climb(objective, bounds, clock or Clock(), tick)
    runs: list[_Run] = []
    for start in starts:
        if runs and climb.clock.expired:
            break
        inside = np.clip(start, *bounds.T)
        runs.append(climb.lbfgs(inside, tol, max_iter) if optimizer is None else climb.by(optimizer, inside))
    best = max(runs, key=lambda run: run.value)
    return Optimum(best.theta, best.value, climb.certificate(best))


@dataclass(frozen=True, eq=False)
class _Run:
    """Where one run ended, and why."""

    theta: NDArray[np.float64]
    value: float
    slope: NDArray[np.float64]
    success: bool
    message: str


class _Climb:
    """One objective, its sign turned for minimisers, with the count of steps and the clock."""

    def __init__(self, objective: Objective, bounds: NDArray[np.float64], clock: Clock, tick: Tick) -> None:
        self.objective, self.bounds, self.clock, self.tick = objective, bounds, clock, tick
        self.iterations = 0

    def lbfgs(self, start: NDArray[np.float64], tol: float, max_iter: int) -> _Run:
        found = minimize(
            self.descend,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(*self.bounds.T),
            callback=self.step,
            options={"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": tol, "gtol": 1e-5},
        )
        return _Run(found.x, -float(found.fun), -np.asarray(found.jac), bool(found.success), str(found.message))

    def by(self, optimizer: Optimizer, start: NDArray[np.float64]) -> _Run:
        theta = np.asarray(optimizer(self._for_users, start, bounds=self.bounds)[0], dtype=np.float64)
        value, slope = self.objective(theta)
        return _Run(theta, value, slope, True, "")

    def _for_users(self, theta: NDArray[np.float64], eval_gradient: bool = True) -> Any:
        value, slope = self.descend(np.asarray(theta, dtype=np.float64))
        return (value, slope) if eval_gradient else value

    def descend(self, theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, slope = self.objective(theta)
        return -value, -slope

    def step(self, intermediate_result: OptimizeResult) -> None:
        self.iterations += 1
        self.tick(self.iterations, evidence=-float(intermediate_result.fun))
        if self.clock.expired:
            raise StopIteration

    def certificate(self, best: _Run) -> Certificate:
        slope = np.clip(best.theta + best.slope, *self.bounds.T) - best.theta
        violation = float(np.abs(slope).max(initial=0.0))
        finite = math.isfinite(best.value)
        flat = violation <= STATIONARY * max(1.0, abs(best.value)) if finite else False
        converged = finite and (best.success or flat)
        return Certificate(
            kind="evidence",
            primal=best.value,
            violation=violation,
            converged=converged,
            iterations=self.iterations,
            seconds=self.clock.seconds,
            message="" if converged else self._reason(best),
        )

    def _reason(self, best: _Run) -> str:
        if not math.isfinite(best.value):
            return "the kernel matrix was not positive definite at any start; raise alpha, or learn the noise."
        if self.clock.expired:
            return "max_time passed while hyperparameters were learned; raise it, or learn from fewer rows (evidence=)."
        return f"the optimiser stopped early ({best.message}); raise max_iter, or try other starts."


def random_starts(bounds: NDArray[np.float64], count: int, rng: np.random.RandomState) -> list[NDArray[np.float64]]:
    """Draw starts uniformly within the bounds of theta.

    Parameters
    ----------
    bounds : array of shape (p, 2)
        Bounds.
    count : int
        How many.
    rng : numpy.random.RandomState
        The source of randomness.

    Returns
    -------
    list of array of shape (p,)
        The starts.
    """
    return [rng.uniform(bounds[:, 0], bounds[:, 1]) for _ in range(count)]


def data_starts(
    kernel: Kernel, X: Any, Y: NDArray[np.float64], rng: np.random.RandomState
) -> list[NDArray[np.float64]]:
    """List promising starts: the kernel's own theta first, then lengthscales and variances taken from the data.

    A lengthscale common to all inputs starts at half, one and two median distances; one per input at such multiples
    of √d deviations of that input. Variances are tried as they are, and so that the prior has the size of y and the
    noise a tenth of it.

    Parameters
    ----------
    kernel : Kernel
        The kernel to be learned.
    X : array-like of shape (n, d)
        Rows; where they are no numbers, only the variances are touched.
    Y : array of shape (n, t)
        Targets.
    rng : numpy.random.RandomState
        Chooses the rows that distances are taken from.

    Returns
    -------
    list of array of shape (p,)
        Values of ``kernel.theta``, within its bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.kernels import RBF
    >>> from gramian.solvers.hyperparameters import data_starts
    >>> X = np.array([[0.0], [100.0]])
    >>> np.exp(data_starts(RBF(1.0), X, np.ones((2, 1)), np.random.RandomState(0))).round(6).ravel()[:4]
    array([  1.,  50., 100., 200.])
    """
    given = kernel.theta
    by_scale = [given]
    typical = _typical_lengthscales(kernel, X, rng)
    if typical is not None:
        changed = np.isfinite(typical)
        by_scale += [np.where(changed, typical + math.log(multiple), given) for multiple in MULTIPLES]
    starts = list(by_scale)
    size = float(np.mean(Y**2))
    if size > 0:
        starts += [_in_units(kernel, start, X, size) for start in by_scale]
    return [np.clip(start, *kernel.bounds.T) for start in starts]


def _in_units(kernel: Kernel, theta: NDArray[np.float64], X: Any, size: float) -> NDArray[np.float64]:
    """Theta with variances such that the prior has the size of y, and the noise a tenth of it."""
    names = [p.name.rpartition(".")[2] for p in kernel.all_parameters() if p.free for _ in p.values]
    noise = np.array([name == "noise" for name in names], dtype=bool)
    scaled = np.array([name in VARIANCES for name in names], dtype=bool)
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
