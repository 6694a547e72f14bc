"""Successive halving under one clock: cheap subsets first, the better part goes on to more rows."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold

from gramian.estimators.auto.candidates import (
    LINEAR,
    MEDIUM,
    RIDGE_ROWS,
    Candidate,
    Fitted,
    Means,
    condition,
    derived,
    fit,
    metrics,
    quiet,
)
from gramian.estimators.auto.leaderboard import DROPPED, Leaderboard, Trial
from gramian.estimators.auto.plans import OFFERED, Planner, Sizes, conditioned_seconds, trial_seconds
from gramian.estimators.auto.response import Classes, Judgement, Response
from gramian.kernels import RBF, Kernel
from gramian.solvers.choice import factor_operations, nominal_seconds

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

CARD_ROWS, CARD_GAIN = 500, 6
"""Rows up to which a GPU waits for its orders, and how many times more it takes in the time of as many here."""
SURVIVORS = (6, 4)
"""How many candidates reach the second and the third step."""
PHASES = {
    1: ((0.8, 0.8, 1.0),),
    2: ((0.35, 0.35, 0.45), (0.75, 0.9, 1.0)),
    3: ((0.25, 0.25, 0.3), (0.5, 0.7, 0.7), (0.95, 0.95, 1.0)),
}
"""Of the time of the search, by steps: when candidates, then metrics, then machines that follow a process must end."""
AGAIN, FEWEST = 0.2, 3
"""The share of the time in which the best are judged again on many rows, and how many of them make it worth it."""
OTHERS = 2
"""And how many of the other kind of lengthscale, where none are among them."""
ROUGH = ("Power", "Laplace", "Matern-1/2")
"""Kernels whose functions have no slope: few rows speak against them more than many do."""
LEADERS = 1
"""Processes whose kernels other machines take over."""
HELD_OUT = 4000
"""Rows to judge by at most, where a part is held out."""
STEP = 1.25
"""A step of the ladder is taken where there are this many times its rows."""
PARTS = 5
"""Parts of rows that a user holds out, for the spread."""
SCREEN_ROWS = 150
"""Rows from which two of the folds decide who is judged on all of them."""
TRIAL_FACTORS = 15
"""Factorisations that a trial takes, about."""
SHARE = 0.4
"""The part of the time limit that one trial may take by its count."""
DEFAULT = Sizes()
WORTH = 0.005
"""The part of the score of a linear model by which others must be better than it."""
BASELINE = Candidate(LINEAR, LINEAR, "standard")
"""What everything is compared with."""


# ---- the ladder ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rung:
    """One step of the ladder: which rows to learn from and which to judge by."""

    splits: list[tuple[Rows, Rows]]  # Rows to learn from, rows held out; several pairs are folds
    parts: list[Rows]  # Positions among all held-out rows
    rows: int  # Rows that take part
    asked: bool = False  # Whether a user chose the splits
    learn: bool = True  # Whether processes learn their kernels; else they have them from fewer rows

    @property
    def learning(self) -> int:
        """Rows that a fit learns from."""
        return int(self.splits[0][0].size)

    @property
    def held_out(self) -> Rows:
        """All held-out rows, in the order of the splits."""
        return np.concatenate([test for _, test in self.splits])


def rungs(
    response: Response,
    n: int,
    cv: Any,
    seed: int,
    sizes: Sizes = DEFAULT,
    limit: float | None = None,
    asked: Sequence[tuple[Rows, Rows]] | None = None,
) -> list[Rung]:
    """Lay out the steps for n rows, by the splits that were asked for; those that no time limit allows are left out."""
    steps = _steps(response, n, cv, seed, sizes) if asked is None else _asked_steps(asked, n, seed, sizes)
    first, *others = steps
    most = math.inf if limit is None else SHARE * limit / TRIAL_FACTORS
    return [first, *(s for s in others if nominal_seconds(factor_operations(s.learning, inverse=True)) <= most)]


def larger(response: Response, n: int, cv: int, seed: int, memory: int, sizes: Sizes = DEFAULT) -> Rung | None:
    """Return a last step on many rows, held-out ones not seen before, where there are so many and K fits in memory."""
    if n < sizes.many + HELD_OUT or memory < np.dtype(float).itemsize * sizes.many**2:
        return None
    return replace(_held_out(_order(response, n, seed), sizes.many, cv), learn=False)


def _asked_steps(splits: Sequence[tuple[Rows, Rows]], n: int, seed: int, sizes: Sizes) -> list[Rung]:
    """All of the splits where rows are few; else parts of the last, which of splits in time has the most rows."""
    if n <= sizes.folds:
        return _screened(replace(_rung(splits, n), asked=True))
    rng = np.random.default_rng(seed)
    train, test = (rng.permutation(part) for part in splits[-1])
    sizes_ = [size for size in sizes.ladder if size <= train.size] or [train.size]
    if sizes_[-1] < min(sizes.ladder[-1], train.size):
        sizes_.append(min(sizes.ladder[-1], train.size))
    return [replace(_held_out(np.r_[train[:size], test], size, PARTS), asked=True) for size in sizes_]


def _screened(folds: Rung) -> list[Rung]:
    """Two of the folds before all of them, where rows are not too few."""
    cheaper = replace(folds, splits=folds.splits[:2], parts=folds.parts[:2])
    return [cheaper, folds] if folds.rows >= SCREEN_ROWS and len(folds.splits) > 2 else [folds]


def _steps(response: Response, n: int, cv: int, seed: int, sizes: Sizes) -> list[Rung]:
    if n <= sizes.folds:
        steps = _screened(_folds(response, n, cv, seed))
        if n >= 2 * sizes.ladder[0] and len(steps) > 1:
            steps[0] = _held_out(_order(response, n, seed), sizes.ladder[0], cv)
        return steps
    order = _order(response, n, seed)
    steps = [_held_out(order, size, cv) for size in sizes.ladder if size * STEP <= n]
    if steps[-1].learning < sizes.ladder[-1]:
        steps.append(_held_out(order, int(0.8 * n), cv))
    return steps


def _order(response: Response, n: int, seed: int) -> Rows:
    """A random order in which every first part has about the classes' own shares."""
    rng = np.random.default_rng(seed)
    if response.codes is None:
        return rng.permutation(n)
    # Each class is spread evenly over [0, 1), from a random offset.
    at = np.empty(n)
    for code in np.unique(response.codes):
        (own,) = np.nonzero(response.codes == code)
        at[rng.permutation(own)] = (np.arange(own.size) + rng.random(own.size)) / own.size
    return np.argsort(at, kind="stable")


def _held_out(order: Rows, size: int, cv: int) -> Rung:
    test = order[size : size + HELD_OUT]
    parts = [np.arange(start, test.size, cv) for start in range(min(cv, test.size))]
    return Rung([(order[:size], test)], parts, size + test.size)


def _folds(response: Response, n: int, cv: int, seed: int) -> Rung:
    if response.codes is None:
        made: Any = KFold(min(cv, n), shuffle=True, random_state=seed).split(np.zeros(n))
    else:
        most = int(np.unique(response.codes, return_counts=True)[1].max())
        if most < 2:
            raise ValueError("every class has only one row, so none can be held out; pass more rows of each class.")
        folds = StratifiedKFold(min(cv, most), shuffle=True, random_state=seed)
        with quiet():  # it warns of classes with fewer rows than folds
            made = list(folds.split(np.zeros(n), response.codes))
    return _rung([(np.asarray(train), np.asarray(test)) for train, test in made], n)


def _rung(splits: Sequence[tuple[Rows, Rows]], n: int) -> Rung:
    """Folds, each a part of the held-out rows."""
    ends = np.cumsum([0, *(test.size for _, test in splits)])
    return Rung(list(splits), [np.arange(a, b) for a, b in itertools.pairwise(ends)], n)


def cheap_score(Z: Any, step: Rung, means: Means, response: Response) -> float:
    """Return the better score of a linear model and a ridge with a typical kernel: Z (n, d)."""
    ridge = Candidate("ridge", "ridge", "", (RBF(math.sqrt(2.0 * Z.shape[1])),))
    scores = []
    for tried in (BASELINE, ridge):
        models = [(fit(tried, response, Z, train, None, means)[0].model, test) for train, test in step.splits]
        held = np.concatenate([response.outputs(model, Z[test]) for model, test in models])
        scores.append(response.judge(held, step.held_out, step.parts).score)
    return min(scores)


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Rows that are scaled when they are asked for."""

    Z: Array  # (n, d): Encoded
    scaling: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all rows."""
        return self.Z.shape

    def __getitem__(self, rows: Any) -> Array:
        return np.asarray(self.scaling.transform(self.Z[rows]))


# ---- the climb ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Found:
    """What came of a candidate on one step."""

    candidate: Candidate  # It
    trial: Trial  # For the leaderboard
    rung: Rung  # The step
    kernels: Sequence[Kernel] = ()  # What was learned in each split
    settings: dict[str, Any] = field(default_factory=dict)  # The best of its settings
    held: Array | None = None  # (m, c): Outputs for the held-out rows


@dataclass(eq=False)
class Search:
    """One run over the ladder."""

    response: Response
    scaled: dict[str, ScaledRows]  # The rows by each scaling
    machines: Sequence[str]
    means: Means  # Whose clock ends early enough for the last fit
    planner: Planner  # Which tells how many seconds the last fit of a machine takes
    observer: Callable[[Leaderboard, str], None]  # Sees all trials, and what is tried, before and after every trial
    found: dict[str, Found] = field(default_factory=dict)
    unfinished: str = ""
    spent: float = 0.0  # Nominal seconds
    passed: int = 0  # Candidates that the time limit has no room for, by counts
    late: int = 0  # And by the clock
    paces: dict[str, float] = field(default_factory=dict)  # Seconds that a nominal one took, by machine, at last

    def __post_init__(self) -> None:
        self.limit = self.means.clock.max_time
        self.seconds = self.planner.limit - self.planner.reserve(self.machines[0])  # nominal; nan without a limit
        self._end_for(self.machines[0])

    @property
    def leaderboard(self) -> Leaderboard:
        """All trials so far."""
        scorer = self.response.scorer
        trials = [replace(f.trial, score=scorer.written(f.trial.score)) for f in self.found.values()]
        return Leaderboard(trials, scorer.name, scorer.top is not None)

    def source_of(self, found: Found) -> Found:
        """Return the candidate that learned the kernel: a process, or the candidate itself."""
        return self.found[found.candidate.source] if found.candidate.source else found

    def run(self, group: list[Candidate], steps: list[Rung], many: Rung | None = None) -> list[Found]:
        """Climb the ladder; a linear model alone is judged on its last step."""
        steps = steps if group else steps[-1:]
        share = 1.0 if many is None else 1.0 - AGAIN
        phases = [[share * end for end in ends] for ends in PHASES[min(len(steps), 3)]]
        for number, step in enumerate(steps):
            last, ends = number == len(steps) - 1, phases[min(number, 2)]
            self._baselines(step)
            self._step(group, step, ends[0], must=number == 0)
            if number == 1:
                self._step(self._metrics(step), step, ends[1])
            if number == 0 or last:
                self._step(derived(self.machines, self._leaders(step)), step, ends[2])
            if last or not self._ranked:
                break
            self._end_for(self._ranked[0].candidate.machine)
            group = self._survivors(step, SURVIVORS[min(number, len(SURVIVORS) - 1)])
            cost = self._cost(group[0], steps[number + 1]) if group else math.inf
            end = phases[min(number + 1, 2)][0] * self.seconds
            # Where the best process has no time, those that follow it would be judged alone.
            if not group or self.spent + cost > end or self._is_late(group[0], cost):
                self.unfinished = f"; time_limit ended the search after {number + 1} of {len(steps)} steps"
                break
        if many is not None:
            self._judge_again(many)
        if not (ranked := self._with_linear(self._ranked)):
            first = next(trial for trial in self.leaderboard if not trial.ok)
            raise ValueError(f"no machine could be fitted; the first: {first.name}, {first.status.rstrip('.')}.")
        return ranked

    def _judge_again(self, step: Rung) -> None:
        """Judge the best on many rows: which kernel wins may depend on how many there are."""
        group = [found.candidate for found in self._ranked][:OFFERED]
        cheapest = sorted(self._cost(c, step) for c in group)[:FEWEST]
        if len(cheapest) == FEWEST and not self.spent + sum(cheapest) > self.seconds:
            self._baselines(step)
            self._step(group, step, 1.0)

    @property
    def _ranked(self) -> list[Found]:
        return [self.found[trial.name] for trial in self.leaderboard if trial.ok and not trial.baseline]

    def _with_linear(self, ranked: list[Found]) -> list[Found]:
        """The linear model among those that were judged on the same rows, before who is hardly better than it."""
        linear = self.found[LINEAR]
        if LINEAR not in self.machines or not linear.trial.ok:
            return ranked
        same = [found for found in ranked if found.rung is linear.rung]
        better = [found for found in same if beats(found.trial, linear.trial)]
        place = len(better) if same else len(ranked)
        return [*ranked[:place], linear, *ranked[place:]]

    def _end_for(self, machine: str) -> None:
        """End the search so early that a machine can still be fitted to all rows."""
        if self.limit is not None:
            clock = replace(self.means.clock, max_time=self.limit - self.planner.reserve(machine))
            self.means = replace(self.means, clock=clock)

    def _step(self, group: list[Candidate], step: Rung, end: float, *, must: bool = False) -> None:
        """Try a group as far as a share of the time goes, by counts; the first of the first step in any case."""
        for place, candidate in enumerate(group):
            first, cost = must and place == 0, self._cost(candidate, step)
            if not first and self.spent + cost > end * self.seconds:
                self.passed += 1
                continue
            if not first and self._is_late(candidate, cost):
                self.late += 1
                continue
            self.spent += cost
            left = self.means.clock.left
            self._try(candidate, step)
            if self.limit is not None:
                self.paces[candidate.machine] = (left - self.means.clock.left) / cost
            took = self.means.clock.seconds
            if first and self.limit is not None and took > self.limit:
                raise TimeoutError(
                    f"time_limit={self.limit:g} s is too short for one trial, which took {took:.3g} s; allow at least "
                    f"{math.ceil(3 * took):g} s."
                )

    def _cost(self, c: Candidate, step: Rung) -> float:
        """Nominal seconds of a trial: what was learned on fewer rows, or in the first split, saves steps."""
        n, (_, d) = step.learning, self.scaled[c.scaling].shape
        n = min(n, RIDGE_ROWS) if c.machine == "ridge" else n
        if self.means.device is not None and c.machine == "gp":
            n = max(min(n, CARD_ROWS), n // CARD_GAIN)
        shape: Any = {"targets": self.response.targets.shape[1], "kernels": max(len(c.kernels), 1)}
        shape["powers"] = "Power" in c.name or "Laplace" in c.name
        if not step.learn and c.machine == "gp":
            return conditioned_seconds(n, shape["targets"], self.means.memory)
        again = c.name in self.found
        return trial_seconds(c.machine, n, d, again=again, **shape) + (len(step.splits) - 1) * trial_seconds(
            c.machine, n, d, again=True, **shape
        )

    def _is_late(self, c: Candidate, cost: float) -> bool:
        """Whether the clock has no room for nominal seconds, on a machine as busy as this one."""
        return self.means.clock.expired or self.paces.get(c.machine, 1.0) * cost > self.means.clock.left

    def _survivors(self, step: Rung, count: int) -> list[Candidate]:
        """The best of a step, the others being marked as dropped; machines that follow a process bring it along."""
        ranked = [found for found in self._ranked if found.rung is step]
        chosen = ranked[:count]
        if count > OTHERS:
            # The best of other kinds of processes, too: many lengthscales, and rough functions, come with more rows.
            for most, kind in ((OTHERS, _of_each), (1, _is_rough)):
                kinds = {kind(found) for found in chosen if found.candidate.machine == "gp"}
                others = [f for f in ranked[count:] if f.candidate.machine == "gp" and kind(f) not in kinds]
                chosen = chosen + others[:most]
        kept = list(dict.fromkeys(c for f in chosen for c in (self.source_of(f).candidate, f.candidate)))
        for found in ranked:
            if found.candidate not in kept:
                self.mark(found, DROPPED)
        # A process must be fitted before those that take its kernel.
        return sorted(kept, key=lambda c: bool(c.source))

    def _leaders(self, step: Rung) -> list[Candidate]:
        processes = [self.found[t.name] for t in self.leaderboard if t.machine == "gp" and t.ok]
        leaders = [found.candidate for found in processes if found.rung is step][:LEADERS]
        taken = {found.candidate.source for found in self.found.values() if found.rung is step}
        return [leader for leader in leaders if leader.name not in taken]

    def _metrics(self, step: Rung) -> list[Candidate]:
        """Metrics from the best process with a radial kernel, where there are rows enough to learn them."""
        if step.rows < MEDIUM:
            return []
        d, classes = next(iter(self.scaled.values())).shape[1], isinstance(self.response, Classes)
        for found in self._ranked:
            if found.rung is step and found.candidate.machine == "gp":
                made = metrics(found.candidate, found.kernels[0], d, classes=classes)
                if made:
                    return made
        return []

    def mark(self, found: Found, status: str) -> None:
        """Write on the leaderboard what became of a trial."""
        self.found[found.trial.name] = replace(found, trial=replace(found.trial, status=status))

    def _keep(self, candidate: Candidate, step: Rung, trial: dict[str, Any], **learned: Any) -> None:
        made = Trial(name=candidate.name, machine=candidate.machine, rows=step.rows, **trial)
        self.found[candidate.name] = Found(candidate, made, step, **learned)

    def add(self, name: str, members: Sequence[Found], judged: Judgement, **trial: Any) -> Found:
        """Put an average of trials on the leaderboard."""
        step = members[0].rung
        seconds = {f"{w}_seconds": sum(getattr(m.trial, f"{w}_seconds") for m in members) for w in ("fit", "predict")}
        self._keep(Candidate(name, "average", ""), step, {**vars(judged), **seconds, **trial})
        return self.found[name]

    def _try(self, candidate: Candidate, step: Rung) -> None:
        self.observer(self.leaderboard, f"{candidate.name} on {step.rows:,} rows")
        try:
            self._judge(candidate, step)
        except (ValueError, ArithmeticError, MemoryError, np.linalg.LinAlgError, TimeoutError) as error:
            before = self.found.get(candidate.name)
            if before is None or not before.trial.ok:
                failed = {"score": math.nan, "spread": math.nan, "status": f"failed: {error}"}
                self._keep(candidate, step, failed)
        self.observer(self.leaderboard, "")

    def _judge(self, candidate: Candidate, step: Rung) -> None:
        Z = self.scaled[candidate.scaling]
        fits: list[list[Fitted]] = []
        held: list[list[Array]] = []
        fitting = predicting = 0.0
        for split, (train, test) in enumerate(step.splits):
            begun = time.perf_counter()
            given = self._given(candidate, split, fits)
            if not step.learn and candidate.machine == "gp" and given is not None:
                models = condition(self.response, Z, train, given, self.means)
            else:
                models = fit(candidate, self.response, Z, train, given, self.means)
            between = time.perf_counter()
            held.append([self.response.outputs(m.model, Z[test]) for m in models])
            fits.append([replace(m, model=None) for m in models])
            fitting, predicting = fitting + between - begun, predicting + time.perf_counter() - between
        pooled = [np.concatenate(each) for each in zip(*held, strict=True)]
        judged = [self.response.judge(each, step.held_out, step.parts) for each in pooled]
        best = min(range(len(judged)), key=lambda i: order(judged[i]))
        chosen = [models[best] for models in fits]
        last = chosen[-1]
        trial = {"fit_seconds": fitting, "predict_seconds": predicting, **vars(judged[best])}
        trial |= {"baseline": candidate.machine == LINEAR}
        trial |= {"settings": {"scaling": candidate.scaling, **last.settings}}
        trial |= {"kernel": repr(last.kernel), "certificate": last.certificate}
        kernels = [m.kernel for m in chosen]
        self._keep(candidate, step, trial, kernels=kernels, settings=last.settings, held=pooled[best])

    def _given(self, candidate: Candidate, split: int, fits: list[list[Fitted]]) -> Kernel | None:
        """For those that follow a process, its kernel; for a process, what it learned before."""
        if candidate.source:
            kernels = self.found[candidate.source].kernels
            return kernels[min(split, len(kernels) - 1)]
        if candidate.machine != "gp":
            return None
        if fits:
            return fits[0][0].kernel
        before = self.found.get(candidate.name)
        return before.kernels[0] if before is not None and before.kernels else None

    def _baselines(self, step: Rung) -> None:
        """The simplest rule, and a linear model."""
        begun = time.perf_counter()
        held = np.concatenate([self.response.simplest(train, test) for train, test in step.splits])
        judged = self.response.judge(held, step.held_out, step.parts)
        trial = {"fit_seconds": time.perf_counter() - begun, "baseline": True, **vars(judged)}
        self._keep(Candidate(self.response.simplest_rule, "baseline", ""), step, trial)
        self._try(BASELINE, step)


def _of_each(found: Found) -> bool:
    return found.candidate.each


def _is_rough(found: Found) -> bool:
    return any(kernel in found.candidate.name for kernel in ROUGH)


def beats(judged: Judgement | Trial, linear: Trial) -> bool:
    """Tell whether predictions are so much better than those of a linear model that they are worth a kernel."""
    return linear.score - judged.score > WORTH * abs(linear.score)


def order(judged: Judgement | Trial) -> tuple[float, float]:
    """Return a score, of which less is better, and what equal scores are told apart by."""
    return judged.score, judged.figures.get("log_loss", 0.0)
