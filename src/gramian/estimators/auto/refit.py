"""The winner on everything: exactly where time and memory allow, else by iteration, else through landmarks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.estimators.auto.costs import PCG_TOL, Effort, Rates, efforts, measure
from gramian.estimators.auto.fitting import PAIRS, Means, fit, outputs, quiet, unit
from gramian.estimators.auto.plans import RESERVE, Plan, part, plan, reserve, through_landmarks
from gramian.estimators.auto.search import Found, Search
from gramian.estimators.auto.task import Classes, Numbers, Task
from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.estimators.machine.regressor import KernelMachineRegressor
from gramian.estimators.ridge import KernelRidge
from gramian.estimators.svm import SVC, SVR
from gramian.features.nystrom import Nystroem
from gramian.kernels import Kernel
from gramian.progress import Clock
from gramian.resources import spans
from gramian.solvers.gp.evidence import signal_and_noise

__all__ = ["LEARN_ROWS", "Refit", "affordable", "needed", "refit"]

Array = NDArray[np.float64]

LANDMARK_FLOOR = 2e-5
"""The least ridge of a fit through landmarks, relative to k(x, x)."""
USELESS = 0.05
"""A residual above this makes landmarks, or fewer rows, the better choice."""
ENOUGH, CLEARLY = 2, 0.98
"""A part of the rows competes with landmarks where it has this many times as many, and wins with this error or less."""
LEARN_ROWS = 2000
"""Rows up to which hyperparameters are learned again from everything."""
WITNESSES = 2000
"""Rows that are predicted before they are added, to see how wrong a fit through landmarks is."""
FIRST_ROWS = 20_000
"""Rows that landmarks are chosen from."""
PART = 20_000
"""Rows that are added at a time."""
GROWTH, CAUTION = 2.4, 2.0
"""The power of the rows that support vectors and kernel machines take time by, and how wrong that may be."""
MACHINE_TOL = 1e-4
"""The duality gap asked of a kernel machine: its probabilities change by less than they are uncertain."""


SHARE_OF_LEARNING, SHARE_OF_ITERATION, SHARE_OF_PART = 0.3, 0.75, 0.9
"""Of the time left: for learning again, for an iteration over all rows, and over a part where that is all there is."""
GRACE, LAST = 0.1, 0.3
"""Of the time limit, and of what was left of it: what a fit has in any case, where the search or the probes overran."""
OTHER_LANDMARKS = 1000
"""Of support vectors and kernel machines on more rows than they can take."""
OTHERS: dict[tuple[str, bool], tuple[Any, dict[str, Any]]] = {
    ("svm", False): (SVR, {}),
    ("svm", True): (SVC, PAIRS),
    ("machine", False): (KernelMachineRegressor, {"tol": MACHINE_TOL}),
    ("machine", True): (KernelMachineClassifier, {"tol": MACHINE_TOL}),
}
"""By machine, and whether classes are predicted."""


@dataclass(frozen=True, eq=False)
class Refit:
    """The winner, fitted to everything."""

    model: Any  # It
    machine: str  # How to read its outputs
    certificate: Certificate  # Of the fit
    note: str  # How it was fitted, and why so
    held: Array | None = None  # (m
    rows: NDArray[np.intp] | None = None  # Which rows


def refit(found: Found, sources: dict[str, Found], task: Task, Z: Array, means: Means, clock: Clock) -> Refit:
    """Fit the winner of a search to all rows: Z (n, d)."""
    left = math.inf if clock.max_time is None else max(clock.max_time - clock.seconds, GRACE * clock.max_time)
    learned = _relearned(found, sources, task, Z, means, left)
    with quiet():
        if found.candidate.machine in ("gp", "ridge"):
            return _least_squares(found, learned, task, Z, means, left)
        return _other(found, learned, task, Z, means, left)


def _relearned(found: Found, sources: dict[str, Found], task: Task, Z: Array, means: Means, left: float) -> Kernel:
    """The kernel: where all rows are few, what the process learns from all of them."""
    source = sources[found.candidate.source] if found.candidate.source else found
    kernel = source.kernels[0]
    if source.candidate.machine != "gp" or Z.shape[0] > LEARN_ROWS:
        return kernel
    limited = replace(means, clock=_within(SHARE_OF_LEARNING * left))
    again: Kernel = fit(source.candidate, task, Z, np.arange(Z.shape[0]), kernel, limited)[0].kernel
    return again


def _within(seconds: float) -> Clock:
    return Clock(None if seconds == math.inf else seconds)


# ---- least squares ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Problem:
    """Least squares on all rows: the kernel, what is added to its diagonal, and what may be used."""

    kernel: Kernel
    ridge: float
    size: float
    task: Task
    Z: Array
    means: Means
    clock: Clock

    @property
    def left(self) -> float:
        """Seconds; some in any case, for nobody is served by a model that is no good in time."""
        limit = self.clock.max_time
        return math.inf if limit is None else max(limit - self.clock.seconds, LAST * limit)

    @cached_property
    def measured(self) -> tuple[Rates, list[Effort]]:
        """What this machine takes for this kernel."""
        Y, means = self.task.targets, self.means
        rates = measure(self.kernel, self.Z, Y.shape[1], means.n_jobs)
        return rates, efforts(self.kernel, self.Z, Y, self.ridge, means.memory, means.n_jobs)

    def iterate(self, ridge: float, share: float, rows: Any = slice(None)) -> KernelRidge:
        """Conjugate gradients within a share of the time left; what they have by then."""
        limited = replace(self.means, clock=_within(share * self.left))
        options: Any = {"solver": "pcg", "tol": PCG_TOL, "random_state": self.means.seed, **limited.common()}
        model = KernelRidge(ridge, kernel=self.kernel, **options)
        model.fit(self.Z[rows], self.task.targets[rows])
        return model

    def split(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """All rows but some, and those, in random order: to be predicted before they are fitted to."""
        order = np.random.default_rng(self.means.seed).permutation(self.Z.shape[0])
        first = self.Z.shape[0] - min(WITNESSES, self.Z.shape[0] // 5)
        return order[:first], order[first:]


def _problem(found: Found, learned: Kernel, task: Task, Z: Array, means: Means, left: float) -> _Problem:
    _, size, noise = unit(learned, Z)
    ridge = noise if found.candidate.machine == "gp" else float(found.settings["alpha"])
    return _Problem(signal_and_noise(learned)[0], ridge, size, task, Z, means, _within(left))


def _least_squares(found: Found, learned: Kernel, task: Task, Z: Array, means: Means, left: float) -> Refit:
    deviations = found.candidate.machine == "gp" and isinstance(task, Numbers)
    p = _problem(found, learned, task, Z, means, left)
    how = _way(p, loo=not deviations)
    if how.way == "exact" and deviations:
        model = GaussianProcessRegressor(learned, optimizer=None, solver="cholesky", **means.common()).fit(
            Z, task.targets
        )
        return Refit(model, "gp", model.certificate_, how.reason)
    if how.way == "exact":
        model = KernelRidge(p.ridge, kernel=p.kernel, solver="cholesky", store_loo=True, **means.common()).fit(
            Z, task.targets
        )
        held = task.from_least_squares(task.targets - model.loo_residuals_)
        return Refit(model, "ridge", model.certificate_, how.reason, held, np.arange(Z.shape[0]))
    if how.way == "pcg":
        iterated = _by_iteration(p, how)
        if iterated is not None:
            return iterated
        how = through_landmarks(Z.shape[0], p.measured[0], p.left, means.memory)
        how = replace(how, reason=f"an iteration over all rows did not converge; {how.reason}")
    return _by_landmarks_or_part(p, how)


def _way(p: _Problem, *, loo: bool) -> Plan:
    """How to fit all rows; few rows are not worth a measurement."""
    n, targets = p.task.targets.shape
    if n <= LEARN_ROWS and 8 * n * n <= p.means.memory:
        return Plan("exact", 0.0, f"{n:,} rows, exactly")
    rates, ridges = p.measured
    return plan(n, targets, rates, ridges, p.left, p.means.memory, loo=loo)


def _by_iteration(p: _Problem, how: Plan) -> Refit | None:
    """Conjugate gradients; None where they came nowhere."""
    clock = Clock()
    model = p.iterate(how.ridge, SHARE_OF_ITERATION)
    if model.certificate_.violation > USELESS:
        return None
    held, rows = None, None
    if 1.2 * clock.seconds < p.left:
        rows = p.split()[1]
        held = _without(model, rows, p)
    return Refit(model, "ridge", model.certificate_, how.reason, held, rows)


def _without(model: KernelRidge, rows: NDArray[np.intp], p: _Problem) -> Array:
    """Outputs for some rows of the fit that has not seen them, from where the full fit ended."""
    left = None if p.left == math.inf else p.left
    other = KernelRidge(**{**model.get_params(deep=False), "warm_start": True, "max_time": left})
    other.dual_coef_ = model.dual_coef_.copy()
    weights = np.ones(p.Z.shape[0])
    weights[rows] = 0.0
    other.fit(p.Z, p.task.targets, weights)
    return outputs("ridge", other, p.task, p.Z[rows])


def _by_landmarks_or_part(p: _Problem, how: Plan) -> Refit:
    """All rows through landmarks, or some of them without: whichever predicts rows better that neither has seen."""
    clock = Clock()
    landmarks = _by_landmarks(p, how)
    if p.left == math.inf or landmarks.held is None:
        return landmarks
    # What was just done tells more of this machine than the probes that it was planned by.
    rates, ridges = p.measured
    rates = rates.times(min(clock.seconds / max(how.seconds, clock.seconds), 1.0))
    n, targets = p.task.targets.shape
    count, effort = part(n, targets, rates, ridges, p.left, p.means.memory)
    rest, last = p.split()
    if count < ENOUGH * how.landmarks:
        return landmarks
    model = p.iterate(effort.ridge, SHARE_OF_PART, rest[:count])
    held = outputs("ridge", model, p.task, p.Z[last])
    some = [np.arange(last.size)]
    worse, better = (p.task.judge(each, last, some).score for each in (landmarks.held, held))
    if not better <= CLEARLY * worse:
        return landmarks
    note = f"{min(count, rest.size):,} of {n:,} rows predict others better than {how.landmarks:,} landmarks of all"
    return Refit(model, "ridge", model.certificate_, f"{note} ({better:.3g} against {worse:.3g})", held, last)


def _by_landmarks(p: _Problem, how: Plan) -> Refit:
    """Moments of the features, part by part: the last part is predicted before it is added."""
    Z, task, means = p.Z, p.task, p.means
    rest, last = p.split()
    first = max(min(FIRST_ROWS, rest.size, means.memory // (4 * 8 * how.landmarks)), how.landmarks)
    landmarks = Nystroem(n_components=how.landmarks, selection="uniform")
    common: Any = {"memory": means.memory, "n_jobs": means.n_jobs, "random_state": means.seed}
    ridge = max(p.ridge, LANDMARK_FLOOR * p.size)
    model = KernelRidge(ridge, kernel=p.kernel, approximation=landmarks, **common)
    model.partial_fit(Z[rest[:first]], task.targets[rest[:first]])
    for some in spans(rest.size - first, PART):
        at = rest[first:][some]
        model.partial_fit(Z[at], task.targets[at])
    held = outputs("ridge", model, task, Z[last])
    model.partial_fit(Z[last], task.targets[last])
    return Refit(model, "ridge", model.certificate_, how.reason, held, last)


# ---- support vectors and any loss -------------------------------------------------------------------------------


def _other(found: Found, learned: Kernel, task: Task, Z: Array, means: Means, left: float) -> Refit:
    n, machine, classes = Z.shape[0], found.candidate.machine, isinstance(task, Classes)
    make, options = OTHERS[machine, classes]
    note, approximation = f"{n:,} rows, exactly", None
    if not affordable(found, n, left):
        m = int(max(min(OTHER_LANDMARKS, n // 2, means.memory // (6 * 8 * n)), 1))
        approximation = Nystroem(n_components=m, selection="uniform", random_state=means.seed)
        note = f"Nyström with {m:,} landmarks: {n:,} rows are too many for the {left:.0f} s that are left"
    limited = replace(means, clock=_within(left))
    model = make(
        kernel=unit(learned, Z)[0] if found.candidate.source else learned,
        approximation=approximation,
        **found.settings,
        **options,
        **limited.common(),
    ).fit(Z, task.labels)
    return Refit(model, machine, model.certificate_, note)


def affordable(found: Found, n: int, left: float) -> bool:
    """Tell whether a candidate can be fitted to all rows in the time that is left."""
    return found.candidate.machine in ("gp", "ridge") or CAUTION * _seconds_on_all(found, n) <= left


def _seconds_on_all(found: Found, n: int) -> float:
    """What one fit to all rows should take, by what the trial took."""
    if found.rung is None:
        return 0.0
    return float(found.trial.fit_seconds / found.fits * (n / found.rung.learning) ** GROWTH)


def needed(found: Found, search: Search, means: Means, limit: float) -> float:
    """Return how much of a time limit should be left for fitting a candidate to all rows."""
    task, Z = search.task, search.scaled[found.candidate.scaling]
    n, targets = task.targets.shape
    low, high = (share * limit for share in RESERVE)
    process = search.found.get(found.candidate.source, found)
    own = 0.0 if found is process else CAUTION * _seconds_on_all(found, n)
    if process.candidate.machine not in ("gp", "ridge"):
        return float(np.clip(CAUTION * _seconds_on_all(found, n), low, high))
    p = _problem(process, process.kernels[0], task, Z, means, limit)
    rates, ridges = p.measured
    squares = reserve(n, targets, rates, limit, means.memory, loo=isinstance(task, Classes), ridges=ridges)
    return max(squares, own if own <= high else 0.0)
