"""The winner on everything: exactly where time and memory allow, else by iteration, else through landmarks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.estimators.auto.costs import Plan, measure, plan
from gramian.estimators.auto.fitting import Means, fit, outputs, quiet, unit
from gramian.estimators.auto.search import Found
from gramian.estimators.auto.task import Classes, Numbers, Task
from gramian.estimators.gp import GaussianProcessRegressor
from gramian.estimators.machine_classifier import KernelMachineClassifier
from gramian.estimators.machine_regressor import KernelMachineRegressor
from gramian.estimators.ridge import KernelRidge
from gramian.estimators.svm import SVC, SVR
from gramian.features.nystrom import Nystroem
from gramian.gram.tiles import spans
from gramian.kernels import Kernel
from gramian.progress import Clock
from gramian.solvers.evidence import signal_and_noise

__all__ = ["LEARN_ROWS", "Refit", "affordable", "refit"]

Array = NDArray[np.float64]

FLOOR = 2e-3
"""The least ridge of an iteration, relative to k(x, x): with less, conjugate gradients take too long."""
PCG_TOL = 1e-3
"""Relative residual; the noise of the targets is larger."""
USELESS = 0.05
"""A residual above this makes landmarks the better choice."""
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


SHARE_OF_ITERATION, SPARE = 0.7, 0.2
"""Of the time left, for an iteration and for landmarks that may have to stand in."""
OTHER_LANDMARKS = 1000
"""Of support vectors and kernel machines on more rows than they can take."""
OTHERS: dict[tuple[str, bool], tuple[Any, dict[str, Any]]] = {
    ("svm", False): (SVR, {}),
    ("svm", True): (SVC, {}),
    ("machine", False): (KernelMachineRegressor, {"tol": MACHINE_TOL}),
    ("machine", True): (KernelMachineClassifier, {"tol": MACHINE_TOL}),
}
"""By machine, and whether classes are predicted."""


@dataclass(frozen=True, eq=False)
class Refit:
    """The winner, fitted to everything.

    Parameters
    ----------
    model : estimator
        It.
    machine : str
        How to read its outputs.
    certificate : Certificate
        Of the fit.
    note : str
        How it was fitted, and why so.
    held : array of shape (m, c) or None
        Outputs of a fit that had not seen these rows, where there are some of the full size.
    rows : array of int or None
        Which rows.
    """

    model: Any
    machine: str
    certificate: Certificate
    note: str
    held: Array | None = None
    rows: NDArray[np.intp] | None = None


def refit(found: Found, sources: dict[str, Found], task: Task, Z: Array, means: Means, clock: Clock) -> Refit:
    """Fit the winner of a search to all rows.

    Parameters
    ----------
    found : Found
        The winner.
    sources : dict of str to Found
        What the search found, by name.
    task : Numbers or Classes
        What to predict.
    Z : array of shape (n, d)
        All rows, scaled as the winner wants.
    means : Means
        What may be used; its ``max_time`` is not looked at.
    clock : Clock
        With all the seconds there are.

    Returns
    -------
    Refit
        The fitted winner.
    """
    left = math.inf if clock.max_time is None else max(clock.max_time - clock.seconds, 0.05 * clock.max_time)
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
    limited = replace(means, max_time=None if left == math.inf else 0.3 * left)
    again: Kernel = fit(source.candidate, task, Z, np.arange(Z.shape[0]), kernel, limited)[0].kernel
    return again


# ---- least squares ----------------------------------------------------------------------------------------------


def _least_squares(found: Found, learned: Kernel, task: Task, Z: Array, means: Means, left: float) -> Refit:
    process = found.candidate.machine == "gp"
    _, size, noise = unit(learned, Z)
    kernel = signal_and_noise(learned)[0]
    ridge = noise if process else float(found.settings["alpha"])
    deviations = process and isinstance(task, Numbers)
    how = _way(kernel, Z, task, means, left, loo=not deviations)
    if how.way == "exact" and deviations:
        model = GaussianProcessRegressor(learned, optimizer=None, solver="cholesky", **means.common()).fit(
            Z, task.targets
        )
        return Refit(model, "gp", model.certificate_, how.reason)
    if how.way == "exact":
        model = KernelRidge(ridge, kernel=kernel, solver="cholesky", store_loo=True, **means.common()).fit(
            Z, task.targets
        )
        held = task.from_least_squares(task.targets - model.loo_residuals_)
        return Refit(model, "ridge", model.certificate_, how.reason, held, np.arange(Z.shape[0]))
    if how.way == "pcg":
        iterated = _by_iteration(kernel, max(ridge, FLOOR * size), task, Z, means, left, how)
        if iterated is not None:
            return iterated
        without = replace(means, memory=min(means.memory, Z.shape[0] ** 2))
        how = replace(_way(kernel, Z, task, without, SPARE * left, loo=False), reason="the iteration did not converge")
    return _by_landmarks(kernel, max(ridge, FLOOR * 1e-2 * size), task, Z, means, how)


def _way(kernel: Kernel, Z: Array, task: Task, means: Means, left: float, *, loo: bool) -> Plan:
    """How to fit all rows; few rows are not worth a measurement."""
    n, targets = task.targets.shape
    if n <= LEARN_ROWS and 8 * n * n <= means.memory:
        return Plan("exact", 0.0, f"{n:,} rows, exactly")
    return plan(n, targets, measure(kernel, Z, targets, means.n_jobs), left, means.memory, loo=loo)


def _by_iteration(
    kernel: Kernel, ridge: float, task: Task, Z: Array, means: Means, left: float, how: Plan
) -> Refit | None:
    """Conjugate gradients; None where they came nowhere."""
    limited = replace(means, max_time=None if left == math.inf else SHARE_OF_ITERATION * left)
    clock = Clock()
    model = KernelRidge(
        ridge, kernel=kernel, solver="pcg", tol=PCG_TOL, random_state=means.seed, **limited.common()
    ).fit(Z, task.targets)
    if model.certificate_.violation > USELESS:
        return None
    held, rows = None, None
    if clock.seconds * 1.5 < left - clock.seconds:
        rows = np.random.default_rng(means.seed).permutation(Z.shape[0])
        rows = rows[: min(WITNESSES, rows.size // 5)]
        held = _without(model, rows, task, Z)
    return Refit(model, "ridge", model.certificate_, how.reason, held, rows)


def _without(model: KernelRidge, rows: NDArray[np.intp], task: Task, Z: Array) -> Array:
    """Outputs for some rows of the fit that has not seen them, from where the full fit ended."""
    other = KernelRidge(**{**model.get_params(), "warm_start": True})
    other.dual_coef_ = model.dual_coef_.copy()
    weights = np.ones(Z.shape[0])
    weights[rows] = 0.0
    other.fit(Z, task.targets, weights)
    return outputs("ridge", other, task, Z[rows])


def _by_landmarks(kernel: Kernel, ridge: float, task: Task, Z: Array, means: Means, how: Plan) -> Refit:
    """Moments of the features, part by part: the last part is predicted before it is added."""
    order = np.random.default_rng(means.seed).permutation(Z.shape[0])
    witnesses = min(WITNESSES, Z.shape[0] // 5)
    rest, last = order[: Z.shape[0] - witnesses], order[Z.shape[0] - witnesses :]
    first = max(min(FIRST_ROWS, rest.size, means.memory // (4 * 8 * how.landmarks)), how.landmarks)
    landmarks = Nystroem(n_components=how.landmarks, selection="uniform")
    common: Any = {"memory": means.memory, "n_jobs": means.n_jobs, "random_state": means.seed}
    model = KernelRidge(ridge, kernel=kernel, approximation=landmarks, **common)
    model.partial_fit(Z[rest[:first]], task.targets[rest[:first]])
    for part in spans(rest.size - first, PART):
        at = rest[first:][part]
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
    limited = replace(means, max_time=None if left == math.inf else left)
    model = make(
        kernel=unit(learned, Z)[0] if found.candidate.source else learned,
        approximation=approximation,
        **found.settings,
        **options,
        **limited.common(),
    ).fit(Z, task.labels)
    return Refit(model, machine, model.certificate_, note)


def affordable(found: Found, n: int, left: float) -> bool:
    """Tell whether a candidate can be fitted to all rows in the time that is left.

    Parameters
    ----------
    found : Found
        The candidate.
    n : int
        All rows.
    left : float
        Seconds.

    Returns
    -------
    bool
        Least squares always can; the others where they are not too slow.
    """
    return found.candidate.machine in ("gp", "ridge") or CAUTION * _seconds_on_all(found, n) <= left


def _seconds_on_all(found: Found, n: int) -> float:
    """What one fit to all rows should take, by what the trial took."""
    if found.rung is None:
        return 0.0
    return float(found.trial.fit_seconds / found.fits * (n / found.rung.learning) ** GROWTH)
