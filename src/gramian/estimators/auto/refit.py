"""The last fit, of the winner to all rows: exact where time allows, else by conjugate gradients, else by landmarks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.blocks import Blocks
from gramian.estimators.auto.candidates import LINEAR
from gramian.estimators.auto.columns import Encoding
from gramian.estimators.auto.fits import LINEAR_COSTS, Resources, fit, linear_model, quiet, unit
from gramian.estimators.auto.plans import LEAST_SQUARES, PCG_TOL, Plan, Planner, efforts, trial_seconds
from gramian.estimators.auto.response import Classes, Response, one_hot
from gramian.estimators.auto.search import Found, ScaledRows
from gramian.estimators.auto.tables import array_columns
from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.estimators.ridge import KernelRidge
from gramian.features.nystrom import Nystroem
from gramian.kernels import Kernel
from gramian.losses import EpsilonInsensitive
from gramian.progress import Clock
from gramian.resources import spans
from gramian.solvers.gp.evidence import signal_and_noise

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

LANDMARK_FLOOR, PASSES_FLOOR = 2e-5, 1e-6
"""The least ridge of a fit through landmarks, in memory and over passes, relative to k(x, x)."""
WORST_RESIDUAL = 0.05
"""Above this residual, landmarks are the better choice."""
HELD_OUT_TOL = 1e-2
"""Relative residual of the second run of conjugate gradients, which estimates the error."""
HELD_OUT_ROWS = 2000
"""Rows held out of a first fit, to estimate the error."""
FIRST_ROWS, MORE_ROWS = 20_000, 20_000
"""Rows that landmarks are chosen from, and rows that are added at a time."""
TOLERANCES = {"svm": 1e-3, "machine": 1e-4}
"""Tolerances of the last fits of other machines."""
SHARE_OF_LEARNING, SHARE_OF_ITERATION = 0.3, 0.75
"""Shares of the time left for learning again, and for conjugate gradients over all rows."""
LINEAR_ROWS, FOLDS, SAME_SIZE = 20_000, 5, 0.6
"""A linear model of classes is cross-validated once more on so many rows, in so many folds, unless the search has used
this share of them."""
LEAST_SHARE = 0.1
"""The share of the time limit that the last fit of the first machine has even where the search overran."""


@dataclass(frozen=True, eq=False)
class Refit:
    """A winner, fitted to all rows."""

    model: Any
    machine: str  # ``"gp"``, ``"ridge"``, ``"svm"`` or ``"machine"``
    note: str  # How it was fitted, why so, and what the time limit cut
    held: Array | None = None  # (m, c): Outputs for rows that it had not seen
    rows: Rows | None = None  # Which rows

    @property
    def cut(self) -> bool:
        """Whether the fit ended for lack of time."""
        return not self.model.certificate_.converged and "max_time" in self.model.certificate_.message


@dataclass(frozen=True, eq=False)
class Winner:
    """A winner of the search, with the rows and resources of its last fit."""

    found: Found
    source: Found  # The process that learned its kernel, or the winner itself
    response: Response
    encoding: Encoding
    scaled: ScaledRows
    resources: Resources
    planner: Planner
    learned: Kernel  # With the noise of a process
    way: Plan | None = None  # How it is fitted to all rows; None where that is planned then

    @cached_property
    def Z(self) -> Array:  # noqa: N802
        """The rows, encoded and scaled."""
        return self.scaled[:]

    @property
    def scaling(self) -> Any:
        """How numbers are scaled."""
        return self.scaled.scaling

    @property
    def machine(self) -> str:
        """Its name."""
        return self.found.candidate.machine

    @cached_property
    def kernel(self) -> Kernel:
        """Without the noise; for other machines than least squares, with k(x, x) about one."""
        if self.machine in LEAST_SQUARES:
            return signal_and_noise(self.learned)[0]
        return unit(self.learned, self.Z)[0] if self.found.candidate.source else self.learned

    @cached_property
    def ridge(self) -> float:
        """What least squares adds to the diagonal: the noise of a process, or the ridge."""
        return signal_and_noise(self.learned)[1] if self.machine == "gp" else float(self.found.settings["alpha"])

    @property
    def deviations(self) -> bool:
        """Whether the posterior of a process gives deviations."""
        return self.machine == "gp" and not isinstance(self.response, Classes) and self.response.weights is None

    @property
    def tells(self) -> bool:
        """Whether its last fit, which is planned, predicts rows that it has not seen."""
        exact = self.way is not None and self.way.way == "exact"
        return self.machine == LINEAR or (self.machine in LEAST_SQUARES and not (self.deviations and exact))

    def plan(self, budget: float) -> Plan:
        """How to fit all rows in nominal seconds: by the time limit and sizes, never by a clock."""
        n, planner = self.planner.n, self.planner
        again = 0.0  # what learning again takes
        if self.source.candidate.machine == "gp" and n <= planner.sizes.exact:
            again = trial_seconds("gp", n, self.scaled.Z.shape[1], again=True)
        if self.machine == LINEAR:
            return Plan("other", f"{n:,} rows, exactly")
        if self.machine not in LEAST_SQUARES:
            return Plan("other", f"{n:,} rows, exactly", again + planner.other_seconds(self.machine))
        if n <= planner.sizes.exact and 8 * n * n <= self.resources.memory:
            return Plan("exact", f"{n:,} rows, exactly", again)
        ridges = efforts(self.kernel, self.Z, self.response.targets, self.ridge, self.resources.memory)
        name = self.source.candidate.name
        powers = self.scaled.Z.shape[1] if "Power" in name or "Laplace" in name else 0
        return planner.plan(ridges, budget, loo=not self.deviations, powers=powers)

    def split(self) -> tuple[Rows, Rows]:
        """All rows but some, and those, in random order: to be predicted before they are fitted to."""
        order = np.random.default_rng(self.resources.seed).permutation(self.Z.shape[0])
        first = self.Z.shape[0] - min(HELD_OUT_ROWS, self.Z.shape[0] // 5)
        return order[:first], order[first:]


def affordable(offered: Iterable[Winner], planner: Planner) -> list[Winner]:
    """Return the first winner, and those after it that counts say can be fitted in the time left, with their plans.

    One machine at most is fitted through landmarks, beside linear models.
    """
    found: list[Winner] = []
    left = planner.reserve("gp")
    for p in offered:
        way = p.plan(left)
        alone = all(f.machine == LINEAR for f in found)
        if not found or (way.whole <= left and (way.way != "nystroem" or alone)):
            found.append(replace(p, way=way))
            left -= way.whole
    return found


def refit(p: Winner, *, grace: float = LEAST_SHARE) -> Refit:
    """Fit the winner of a search to all rows."""
    clock = p.resources.clock
    if clock.max_time is not None:
        clock = replace(clock, max_time=max(clock.max_time, clock.seconds + grace * clock.max_time))
    resources, threads = replace(p.resources, clock=clock).few_threads(p.planner.n)
    p, cut = _learned_again(replace(p, resources=resources))
    with quiet(), threads:
        if p.machine in LEAST_SQUARES:
            done = _least_squares(p, p.way or p.plan(p.planner.reserve("gp")))
        else:
            done = _linear(p) if p.machine == LINEAR else _other(p)
    return replace(done, note=done.note + cut + ("; time_limit stopped it short" if done.cut else ""))


def refit_others(team: Iterable[Winner]) -> list[Refit | None]:
    """Fit the members of an average beside its first; None of those that the clock leaves no time for."""
    done: list[Refit | None] = []
    for p in team:
        late = p.way is not None and p.resources.nominal_left < p.way.whole
        last = None if late else refit(p, grace=0.0)
        done.append(None if last is None or last.cut else last)
    return done


def _learned_again(p: Winner) -> tuple[Winner, str]:
    """The winner with hyperparameters learned from all rows, where they are few; and a note where time ran out."""
    n = p.Z.shape[0]
    if p.source.candidate.machine != "gp" or n > p.planner.sizes.exact:
        return p, ""
    limited = replace(p.resources, clock=p.resources.clock.share(SHARE_OF_LEARNING))
    again = fit(p.source.candidate, p.response, p.Z, np.arange(n), p.learned, limited)[0].kernel
    return replace(p, learned=again), "; time_limit stopped learning on all rows" if limited.clock.expired else ""


# ---- least squares ----------------------------------------------------------------------------------------------


def _least_squares(p: Winner, how: Plan) -> Refit:
    if how.way == "exact":
        if p.planner.n <= p.planner.sizes.exact or how.seconds <= p.resources.nominal_left:
            return _exactly(p, how)
        how = p.planner.through_landmarks(p.resources.nominal_left, "time_limit stopped an exact fit; ")
    if how.way == "pcg":
        iterated = _by_iteration(p, how)
        if iterated.model.certificate_.violation <= WORST_RESIDUAL:
            return iterated
        why = "time_limit stopped an iteration" if iterated.cut else "conjugate gradients stalled"
        how = p.planner.through_landmarks(p.planner.reserve("gp"), f"{why} over all rows; ")
    return _by_landmarks(p, how)


def _exactly(p: Winner, how: Plan) -> Refit:
    targets, few = p.response.targets, p.planner.n <= p.planner.sizes.exact
    common = p.resources.common(timed=not few)
    if p.deviations:
        process = GaussianProcessRegressor(p.learned, optimizer=None, solver="cholesky", **common)
        return Refit(process.fit(p.Z, targets), "gp", how.reason)
    model = KernelRidge(p.ridge, kernel=p.kernel, solver="cholesky", store_loo=True, **common)
    model.fit(p.Z, targets, p.response.weights)
    held = p.response.from_least_squares(targets - model.loo_residuals_)
    return Refit(model, "ridge", how.reason, held, np.arange(p.Z.shape[0]))


def _by_iteration(p: Winner, how: Plan) -> Refit:
    """Conjugate gradients over all rows, and again without some, whose predictions estimate the error."""
    resources = replace(p.resources, clock=p.resources.clock.share(SHARE_OF_ITERATION))
    options = {"tol": PCG_TOL, "random_state": resources.seed, **resources.common()}
    model = KernelRidge(how.ridge, kernel=p.kernel, solver="pcg", **options)
    model.fit(p.Z, p.response.targets, p.response.weights)
    if model.certificate_.violation > WORST_RESIDUAL or not model.certificate_.converged:
        return Refit(model, "ridge", how.reason)
    rows = p.split()[1]
    changed = {"warm_start": True, "tol": HELD_OUT_TOL, **p.resources.common()}
    other = KernelRidge(**{**model.get_params(deep=False), **changed})
    other.dual_coef_ = model.dual_coef_.copy()
    weights = np.ones(p.Z.shape[0]) if p.response.weights is None else p.response.weights.copy()
    weights[rows] = 0.0
    other.fit(p.Z, p.response.targets, weights)
    if not other.certificate_.converged:
        return Refit(model, "ridge", f"{how.reason}; time_limit left no time to measure its error")
    return Refit(model, "ridge", how.reason, p.response.outputs(other, p.Z[rows]), rows)


def _by_landmarks(p: Winner, how: Plan) -> Refit:
    """Least squares in landmark features, some rows at a time; the last rows are predicted before they are added."""
    Z, Y, resources, weights_of = p.Z, p.response.targets, p.resources, p.response.weights_of
    rest, last = p.split()
    first = max(min(FIRST_ROWS, rest.size, resources.memory // (4 * 8 * how.landmarks)), how.landmarks)
    landmarks = Nystroem(n_components=how.landmarks, selection="uniform")
    common = {"random_state": resources.seed, **resources.common(timed=False)}
    ridge = max(p.ridge, LANDMARK_FLOOR * unit(p.learned, Z)[1])
    model = KernelRidge(ridge, kernel=p.kernel, approximation=landmarks, **common)
    model.partial_fit(Z[rest[:first]], Y[rest[:first]], weights_of(rest[:first]))
    note = how.reason
    for some in spans(rest.size - first, MORE_ROWS):
        if resources.clock.expired:
            note = f"{note}; time_limit stopped it after {first + some.start:,} rows"
            break
        at = rest[first:][some]
        model.partial_fit(Z[at], Y[at], weights_of(at))
    held = p.response.outputs(model, Z[last])
    model.partial_fit(Z[last], Y[last], weights_of(last))
    return Refit(model, "ridge", note, held, last)


# ---- support vectors and any loss -------------------------------------------------------------------------------


def _other(p: Winner) -> Refit:
    n, note, approximation = p.planner.n, f"{p.planner.n:,} rows, exactly", None
    if not p.planner.affordable(p.machine):
        m = int(max(min(p.planner.sizes.other_landmarks, n // 2, p.resources.memory // (6 * 8 * n)), 1))
        approximation = Nystroem(n_components=m, selection="uniform", random_state=p.resources.seed)
        note = f"Nyström with {m:,} landmarks: {n:,} rows are too many for time_limit"
    options = {"tol": TOLERANCES[p.machine], **p.found.settings, **p.resources.common()}
    model = p.response.makers[p.machine](kernel=p.kernel, approximation=approximation, **options)
    return Refit(model.fit(p.Z, p.response.labels, p.response.weights), p.machine, note)


def _linear(p: Winner) -> Refit:
    """A linear model: numbers by least squares, whose ridge is chosen again, or classes."""
    n, note, classes = p.planner.n, f"{p.planner.n:,} rows, exactly", isinstance(p.response, Classes)
    if classes:
        settings, held, rows = _on_more_rows(p)
        model = linear_model(classes, n, p.resources, settings).fit(p.Z, p.response.labels, p.response.weights)
        return Refit(model, "machine", note, held, rows)
    model = linear_model(classes, n, p.resources, {}).fit(p.Z, p.response.targets, p.response.weights)
    held = p.response.from_least_squares(p.response.targets - model.loo_residuals_)
    return Refit(model, "ridge", note, held, np.arange(n))


def _on_more_rows(p: Winner) -> tuple[dict[str, Any], Array | None, Rows | None]:
    """The penalty of a linear model of classes, and its cross-validated outputs, on many rows.

    The search has seen few rows: the penalty and the temperature that suit those are too strong for all rows.
    """
    rung, response, settings = p.found.rung, p.response, p.found.settings
    rows = np.random.default_rng(p.resources.seed).permutation(p.planner.n)[:LINEAR_ROWS]
    if rung.asked or rung.training_rows >= SAME_SIZE * rows.size:
        return settings, None, None
    best: tuple[float, dict[str, Any], Array | None] = (math.inf, settings, None)
    fold, clock = np.arange(rows.size) % FOLDS, p.resources.clock.share(SHARE_OF_LEARNING)
    for C in LINEAR_COSTS:
        held: Array = np.empty((rows.size, np.unique(response.labels).size))
        for part in range(FOLDS):
            if clock.expired:
                return settings, None, None
            train, test = rows[fold != part], rows[fold == part]
            model = linear_model(True, train.size, p.resources, {"C": C}, tol=TOLERANCES["machine"])
            model.fit(p.Z[train], response.labels[train], response.weights_of(train))
            held[fold == part] = response.outputs(model, p.Z[test])
        best = min(best, (response.judge(held, rows, [np.arange(rows.size)]).score, {"C": C}, held), key=lambda b: b[0])
    return best[1], best[2], rows


# ---- over passes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows as the winner takes them: columns encoded and scaled, targets as least squares or a machine has them."""

    columns: Encoding
    scaling: Any
    centre: Any  # Of the targets of least squares
    scale: float
    classes: NDArray[Any] | None  # Labels; None where numbers are predicted
    least_squares: bool
    log: bool = False  # Whether the logarithms of targets are learned

    def __call__(self, X: Any, y: Any) -> tuple[Any, Any]:
        rows = None if X is None else np.asarray(self.scaling.transform(self.columns.transform(array_columns(X))))
        return rows, None if y is None else self._targets(np.asarray(y))

    def _targets(self, y: NDArray[Any]) -> NDArray[Any]:
        if self.classes is not None:
            labels, y = y, np.searchsorted(self.classes, y)
            known = np.take(self.classes, y, mode="clip") == labels
            if not np.all(known):
                rare = str(labels[~known][0])
                raise ValueError(f"label {rare!r} is too rare: no row of the sample that was searched has it.")
            if not self.least_squares:
                return y
            y = one_hot(y, self.classes.size)
        if self.log:
            if y.min() <= 0.0:
                raise ValueError(f"target_scale='log' needs positive targets, got {y.min():.6g}; use 'linear'.")
            y = np.log(y)
        return np.asarray((y - self.centre) / self.scale)


def refit_over_passes(p: Winner, blocks: Blocks, labels: NDArray[Any] | None) -> Refit:
    """Fit the kernel of the winner on a sample to all rows of blocks, through landmarks."""
    n, some, classes = blocks.n_rows, p.Z.shape[0], labels is not None
    squares = p.machine in LEAST_SQUARES or (p.machine == LINEAR and not classes)
    landmarks = Nystroem(n_components=min(p.planner.sizes.other_landmarks, some // 2), selection="uniform")
    common = {"approximation": landmarks, "random_state": p.resources.seed, **p.resources.common(timed=False)}
    common, settings = {"kernel": p.kernel, **common}, p.found.settings
    if p.machine == LINEAR:
        final: Any = linear_model(classes, n, replace(p.resources, clock=Clock()), settings)
    elif squares:
        # A map cannot interpolate.
        final = KernelRidge(max(p.ridge, PASSES_FLOOR * float(np.mean(p.kernel.diag(p.Z[:100])))), **common)
    else:
        loss: Any = "logistic" if classes else "huber"
        if p.machine == "svm":
            loss = "hinge" if classes else EpsilonInsensitive(settings["epsilon"])
        # C counts each row, lam the mean of all.
        lam = 1.0 / (n * settings["C"]) if "C" in settings else settings["lam"] * some / n
        final = p.response.makers["machine"](loss, lam=lam, **common)
    encoded = Encoded(p.encoding, p.scaling, p.response.centre, p.response.scale, labels, squares, p.response.log)
    final.fit(blocks.mapped(encoded))
    count = (
        "exactly" if p.machine == LINEAR else f"Nyström with {final.approximation_.components_.shape[0]:,} landmarks"
    )
    note = f"{count} over {n:,} rows in blocks; chosen on {some:,}"
    # The search may have had one function for each pair of classes, here there is one for each class: calibrate anew,
    # on a sample that is a small part of the rows.
    held = p.response.outputs(final, p.Z) if classes and not squares else None
    return Refit(final, "ridge" if squares else "machine", note, held, np.arange(some))
