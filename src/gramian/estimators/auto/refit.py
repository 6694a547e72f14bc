"""The winner on all rows: exactly where the plan allows, else by iteration, else through landmarks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.estimators.auto.fitting import PAIRS, Means, fit, outputs, quiet, unit
from gramian.estimators.auto.plans import (
    LEAST_SQUARES,
    PCG_TOL,
    RACE,
    Effort,
    Plan,
    Sizes,
    affordable,
    efforts,
    part,
    plan,
    reserve,
    through_landmarks,
)
from gramian.estimators.auto.response import Classes, Numbers, Response
from gramian.estimators.auto.search import Found
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

__all__ = ["Refit", "kernel_of", "refit", "ridge_of"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

LANDMARK_FLOOR = 2e-5
"""The least ridge of a fit through landmarks, relative to k(x, x)."""
USELESS = 0.05
"""A residual above this makes landmarks, or fewer rows, the better choice."""
ENOUGH, CLEARLY = 2, 0.98
"""A part of the rows competes with landmarks where it has this many times as many, and wins with this error or less."""
WITNESSES = 2000
"""Rows that are predicted before they are added, to see how wrong a fit is."""
FIRST_ROWS, MORE_ROWS = 20_000, 20_000
"""Rows that landmarks are chosen from, and that are added at a time."""
MACHINE_TOL = 1e-4
"""The duality gap asked of a kernel machine: its probabilities change by less than they are uncertain."""
SHARE_OF_LEARNING, SHARE_OF_ITERATION = 0.3, 0.75
"""Of the time left: for learning again, and for an iteration over all rows."""
GRACE = 0.1
"""Of the time limit: what the last fit has in any case, where the search overran."""
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
    note: str  # How it was fitted, why so, and what the time limit cut
    held: Array | None = None  # (m, c): Outputs for rows that it had not seen
    rows: Rows | None = None  # Which rows

    @property
    def certificate(self) -> Certificate:
        """Of the fit."""
        proof: Certificate = self.model.certificate_
        return proof


def refit(
    found: Found, sources: dict[str, Found], response: Response, Z: Array, means: Means, sizes: Sizes, way: Plan | None
) -> Refit:
    """Fit the winner of a search to all rows: Z (n, d). A plan that is given is followed."""
    limit = means.clock.max_time
    if limit is not None:
        means = replace(means, clock=replace(means.clock, max_time=max(limit, means.clock.seconds + GRACE * limit)))
    learned, cut = _relearned(found, sources, response, Z, means, sizes)
    p = _Problem(found, learned, response, Z, means, sizes, float("inf") if limit is None else limit)
    with quiet():
        done = _least_squares(p, way or p.plan) if found.candidate.machine in LEAST_SQUARES else _other(p)
    if _cut(done.certificate):
        cut = f"{cut}; time_limit stopped it short"
    return replace(done, note=done.note + cut)


def _cut(certificate: Certificate) -> bool:
    """Whether time, and not the problem, ended a fit."""
    return not certificate.converged and "max_time" in certificate.message


def _relearned(
    found: Found, sources: dict[str, Found], response: Response, Z: Array, means: Means, sizes: Sizes
) -> tuple[Kernel, str]:
    """The kernel: where all rows are few, what the process learns from all of them; and whether time cut that."""
    source = kernel_of(found, sources)
    kernel = source.kernels[0]
    if source.candidate.machine != "gp" or Z.shape[0] > sizes.exact:
        return kernel, ""
    limited = replace(means, clock=means.clock.share(SHARE_OF_LEARNING))
    again: Kernel = fit(source.candidate, response, Z, np.arange(Z.shape[0]), kernel, limited)[0].kernel
    return again, "; time_limit stopped learning on all rows" if limited.clock.expired else ""


def kernel_of(found: Found, sources: dict[str, Found]) -> Found:
    """Return the candidate that learned the kernel: a process, or the candidate itself."""
    return sources[found.candidate.source] if found.candidate.source else found


def ridge_of(found: Found, learned: Kernel) -> float:
    """Return what least squares adds to the diagonal: the noise of a process, or the ridge."""
    return signal_and_noise(learned)[1] if found.candidate.machine == "gp" else float(found.settings["alpha"])


# ---- least squares ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Problem:
    """The winner, all rows, and what may be used."""

    found: Found
    learned: Kernel
    response: Response
    Z: Array
    means: Means
    sizes: Sizes
    limit: float

    @cached_property
    def kernel(self) -> Kernel:
        """Without the noise of a process."""
        return signal_and_noise(self.learned)[0]

    @cached_property
    def ridge(self) -> float:
        """What is added to the diagonal."""
        return ridge_of(self.found, self.learned)

    @cached_property
    def efforts(self) -> list[Effort]:
        """How many iterations this kernel takes."""
        return efforts(self.kernel, self.Z, self.response.targets, self.ridge, self.means.memory)

    @property
    def deviations(self) -> bool:
        """Whether the posterior of a process gives deviations."""
        return self.found.candidate.machine == "gp" and isinstance(self.response, Numbers)

    @cached_property
    def budget(self) -> float:
        """Nominal seconds for the last fit: by the time limit and sizes, never by a clock."""
        if self.limit == float("inf"):
            return self.limit
        n, targets = self.response.targets.shape
        return reserve("gp", n, targets, self.limit, self.means.memory, loo=isinstance(self.response, Classes))

    @property
    def plan(self) -> Plan:
        """How to fit all rows."""
        (n, targets), memory = self.response.targets.shape, self.means.memory
        if n <= self.sizes.exact and 8 * n * n <= memory:
            return Plan("exact", f"{n:,} rows, exactly")
        options: Any = {"loo": not self.deviations, "most": self.sizes.landmarks}
        return plan(n, targets, self.efforts, self.budget, memory, **options)

    def fewer(self, budget: float, why: str) -> Plan:
        """Landmarks in place of a way that came nowhere."""
        how = through_landmarks(self.Z.shape[0], budget, self.means.memory, self.sizes.landmarks)
        return replace(how, reason=f"{why}; {how.reason}")

    def iterate(self, ridge: float, clock: Clock, rows: Any = slice(None)) -> KernelRidge:
        """Conjugate gradients; what they have when the time is up."""
        options = replace(self.means, clock=clock).common()
        model = KernelRidge(
            ridge, kernel=self.kernel, solver="pcg", tol=PCG_TOL, random_state=self.means.seed, **options
        )
        return model.fit(self.Z[rows], self.response.targets[rows])

    def split(self) -> tuple[Rows, Rows]:
        """All rows but some, and those, in random order: to be predicted before they are fitted to."""
        order = np.random.default_rng(self.means.seed).permutation(self.Z.shape[0])
        first = self.Z.shape[0] - min(WITNESSES, self.Z.shape[0] // 5)
        return order[:first], order[first:]


def _least_squares(p: _Problem, how: Plan) -> Refit:
    if how.way == "exact":
        try:
            return _exactly(p, how)
        except TimeoutError:
            how = p.fewer(GRACE * p.limit, "time_limit stopped an exact fit")
    if how.way == "pcg":
        iterated = _by_iteration(p, how)
        if iterated.certificate.violation <= USELESS:
            return iterated
        why = "time_limit stopped an iteration" if _cut(iterated.certificate) else "conjugate gradients stalled"
        how = p.fewer(p.budget, f"{why} over all rows")
    return _by_landmarks_or_part(p, how)


def _exactly(p: _Problem, how: Plan) -> Refit:
    targets, few = p.response.targets, p.Z.shape[0] <= p.sizes.exact
    common = (replace(p.means, clock=Clock()) if few else p.means).common()
    if not few and p.means.clock.left < how.seconds:
        raise TimeoutError("the search left less time than the factor takes by its count.")
    if p.deviations:
        process = GaussianProcessRegressor(p.learned, optimizer=None, solver="cholesky", **common)
        return Refit(process.fit(p.Z, targets), "gp", how.reason)
    model = KernelRidge(p.ridge, kernel=p.kernel, solver="cholesky", store_loo=True, **common).fit(p.Z, targets)
    held = p.response.from_least_squares(targets - model.loo_residuals_)
    return Refit(model, "ridge", how.reason, held, np.arange(p.Z.shape[0]))


def _by_iteration(p: _Problem, how: Plan) -> Refit:
    """Conjugate gradients, and once more without some rows, to see how wrong they are."""
    model = p.iterate(how.ridge, p.means.clock.share(SHARE_OF_ITERATION))
    if model.certificate_.violation > USELESS or not model.certificate_.converged:
        return Refit(model, "ridge", how.reason)
    rows = p.split()[1]
    other = KernelRidge(**{**model.get_params(deep=False), "warm_start": True, **p.means.common()})
    other.dual_coef_ = model.dual_coef_.copy()
    weights = np.ones(p.Z.shape[0])
    weights[rows] = 0.0
    other.fit(p.Z, p.response.targets, weights)
    if not other.certificate_.converged:
        return Refit(model, "ridge", f"{how.reason}; time_limit left none to see how wrong it is")
    return Refit(model, "ridge", how.reason, outputs("ridge", other, p.response, p.Z[rows]), rows)


def _by_landmarks_or_part(p: _Problem, how: Plan) -> Refit:
    """All rows through landmarks, or some of them without: whichever predicts rows better that neither has seen."""
    landmarks = _by_landmarks(p, how)
    if p.limit == float("inf"):
        return landmarks
    if p.means.clock.expired:
        return replace(landmarks, note=f"{landmarks.note}; time_limit left none to try fewer rows without them")
    n, targets = p.response.targets.shape
    count, effort = part(n, targets, p.efforts, (1.0 - RACE) * p.budget, p.means.memory)
    rest, last = p.split()
    if count < ENOUGH * how.landmarks:
        return landmarks
    model = p.iterate(effort.ridge, p.means.clock, rest[:count])
    held = outputs("ridge", model, p.response, p.Z[last])
    some = [np.arange(last.size)]
    worse, better = (p.response.judge(each, last, some).score for each in (landmarks.held, held))
    if not better <= CLEARLY * worse:
        return landmarks
    note = f"{min(count, rest.size):,} of {n:,} rows predict others better than {how.landmarks:,} landmarks of all"
    return Refit(model, "ridge", f"{note} ({better:.3g} against {worse:.3g})", held, last)


def _by_landmarks(p: _Problem, how: Plan) -> Refit:
    """Moments of the features, some rows at a time: the last are predicted before they are added."""
    Z, Y, means = p.Z, p.response.targets, p.means
    rest, last = p.split()
    first = max(min(FIRST_ROWS, rest.size, means.memory // (4 * 8 * how.landmarks)), how.landmarks)
    landmarks = Nystroem(n_components=how.landmarks, selection="uniform")
    common: Any = {"memory": means.memory, "n_jobs": means.n_jobs, "random_state": means.seed}
    ridge = max(p.ridge, LANDMARK_FLOOR * unit(p.learned, Z)[1])
    model = KernelRidge(ridge, kernel=p.kernel, approximation=landmarks, **common)
    model.partial_fit(Z[rest[:first]], Y[rest[:first]])
    note = how.reason
    for some in spans(rest.size - first, MORE_ROWS):
        if means.clock.expired:
            note = f"{note}; time_limit stopped it after {first + some.start:,} rows"
            break
        at = rest[first:][some]
        model.partial_fit(Z[at], Y[at])
    held = outputs("ridge", model, p.response, Z[last])
    model.partial_fit(Z[last], Y[last])
    return Refit(model, "ridge", note, held, last)


# ---- support vectors and any loss -------------------------------------------------------------------------------


def _other(p: _Problem) -> Refit:
    (n, targets), found, means = p.response.targets.shape, p.found, p.means
    make, options = OTHERS[found.candidate.machine, isinstance(p.response, Classes)]
    note, approximation = f"{n:,} rows, exactly", None
    if not affordable(found.candidate.machine, n, targets, p.limit):
        m = int(max(min(p.sizes.other_landmarks, n // 2, means.memory // (6 * 8 * n)), 1))
        approximation = Nystroem(n_components=m, selection="uniform", random_state=means.seed)
        note = f"Nyström with {m:,} landmarks: {n:,} rows are too many for time_limit"
    kernel = unit(p.learned, p.Z)[0] if found.candidate.source else p.learned
    model = make(kernel=kernel, approximation=approximation, **found.settings, **options, **means.common())
    return Refit(model.fit(p.Z, p.response.labels), found.candidate.machine, note)
