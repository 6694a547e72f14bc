"""Successive halving under a time limit: candidates are tried on few rows, and the best of them on more."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.estimators.auto.candidates import LINEAR, MEDIUM, Candidate, derived, metrics
from gramian.estimators.auto.fits import Fitted, Resources, condition, fit
from gramian.estimators.auto.ladder import Rung
from gramian.estimators.auto.leaderboard import DONE, DROPPED, Leaderboard, Trial
from gramian.estimators.auto.plans import MEMBERS, OFFERED, RESERVE, Planner, conditioned_seconds, trial_seconds
from gramian.estimators.auto.response import Classes, Judgement, Response
from gramian.estimators.auto.scaling import FOREST
from gramian.kernels import RBF, Kernel

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

CARD_ROWS, CARD_GAIN = 500, 6
"""Below this many rows a GPU is latency-bound; above, it takes this many times the rows of a CPU in the same time."""
SURVIVORS = (6, 4)
"""How many candidates go on to the second and to the third rung."""
PHASES = {
    1: ((0.8, 0.8, 1.0),),
    2: ((0.35, 0.35, 0.45), (0.75, 0.9, 1.0)),
    3: ((0.25, 0.25, 0.3), (0.5, 0.7, 0.7), (0.95, 0.95, 1.0)),
}
"""For 1, 2 or 3 rungs, a row for each: the shares of the search time after which no candidates, metrics, and machines
with a taken-over kernel are started."""
REJUDGE_SHARE, REJUDGE_LEAST = 0.2, 3
"""The share of the search time kept for judging the best on many rows, and how many must fit into it."""
OTHERS = 2
"""Where all survivors have one lengthscale, or all have several, or all use a forest, this many others go on too."""
ROUGH = ("Power", "Laplace", "Matern-1/2")
"""Kernels of rough functions, which do relatively better the more rows there are."""
LEADERS = 1
"""Number of Gaussian processes whose kernels other machines take over."""
WORTH = 0.001
"""A kernel machine must be better than a linear model by this part of its score."""
BASELINE = Candidate(LINEAR, LINEAR, "standard")
"""The linear model that every candidate is compared with."""


# ---- cheap trials -------------------------------------------------------------------------------------------------


def cheap_score(Z: Any, rung: Rung, resources: Resources, response: Response) -> float:
    """Return the better score of a linear model and a ridge with a typical kernel: Z (n, d)."""
    ridge = Candidate("ridge", "ridge", "", (RBF(math.sqrt(2.0 * Z.shape[1])),))
    scores = []
    for tried in (BASELINE, ridge):
        models = [(fit(tried, response, Z, train, None, resources)[0].model, test) for train, test in rung.splits]
        held = np.concatenate([response.outputs(model, Z[test]) for model, test in models])
        scores.append(response.judge(held, rung.held_out, rung.parts).score)
    return min(scores)


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Training rows that are scaled on access."""

    Z: Array  # (n, d): Encoded
    scaling: Any
    scaled: Array | None = None  # All of them, where they cannot be scaled one by one

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all rows."""
        return self.Z.shape[0], int(self[:1].shape[1])

    def __getitem__(self, rows: Any) -> Array:
        return np.asarray(self.scaling.transform(self.Z[rows])) if self.scaled is None else self.scaled[rows]


# ---- the search ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Found:
    """The outcome of a candidate on one rung."""

    candidate: Candidate
    trial: Trial  # For the leaderboard
    rung: Rung
    kernels: Sequence[Kernel] = ()  # What was learned in each split
    settings: dict[str, Any] = field(default_factory=dict)  # The best of its settings
    held: Array | None = None  # (m, c): Outputs for the held-out rows


@dataclass(eq=False)
class Search:
    """One search over all rungs."""

    response: Response
    scaled: dict[str, ScaledRows]  # The rows by each scaling
    machines: Sequence[str]
    resources: Resources  # Its clock ends early enough for the last fit
    planner: Planner  # Tells how many seconds the last fit of a machine takes
    observer: Callable[[Leaderboard, str], None]  # Called with all trials, and what is tried now, around every trial
    before: float = 0.0  # Nominal seconds taken before the search
    found: dict[str, Found] = field(default_factory=dict)
    unfinished: str = ""
    spent: float = 0.0  # Nominal seconds
    paces: dict[str, float] = field(default_factory=dict)  # Seconds that a nominal one took at last, by machine

    def __post_init__(self) -> None:
        self.limit = self.resources.clock.max_time
        # Nominal; nan without a limit
        self.seconds = self.planner.limit - self.planner.reserve(self.machines[0]) - self.before
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

    def run(self, group: list[Candidate], rungs: list[Rung], many: Rung | None = None) -> list[Found]:
        """Try candidates rung by rung; where there are none, judge the linear model on the last rung."""
        rungs = rungs if group else rungs[-1:]
        share = 1.0 if many is None else 1.0 - REJUDGE_SHARE
        phases = [[share * end for end in ends] for ends in PHASES[min(len(rungs), 3)]]
        for number, rung in enumerate(rungs):
            last, ends = number == len(rungs) - 1, phases[min(number, 2)]
            self.resources = self.resources.measured(rung.training_rows)
            self._baselines(rung)
            self._try_all(group, rung, ends[0], must=number == 0)
            if number == 1:
                self._try_all(self._metrics(rung), rung, ends[1])
            if number == 0 or last:
                self._try_all(derived(self.machines, self._leaders(rung)), rung, ends[2])
            if last or not self._ranked:
                break
            self._end_for(self._ranked[0].candidate.machine)
            group = self._survivors(rung, SURVIVORS[min(number, len(SURVIVORS) - 1)])
            process = next((c for c in group if c.machine != LINEAR), None)
            cost = math.inf if process is None else self._cost(process, rungs[number + 1])
            end = phases[min(number + 1, 2)][0] * self.seconds
            # Without time for the best process, the machines that take over its kernel would be judged alone.
            if process is None or self.spent + cost > end or self._is_late(process, cost):
                self.unfinished = f"; time_limit ended the search after {number + 1} of {len(rungs)} steps"
                break
        if many is not None:
            self._judge_again(many)
        if not (ranked := self._with_linear(self._ranked)):
            first = next(trial for trial in self.leaderboard if not trial.ok)
            raise ValueError(f"no machine could be fitted; the first: {first.name}, {first.status.rstrip('.')}.")
        return ranked

    def _judge_again(self, rung: Rung) -> None:
        """Judge the best on many rows: which kernel wins may depend on how many there are.

        Those with a forest, which has seen all rows, lead on few rows, so the best with and without one take turns.
        """
        kinds = [[f for f in self._ranked if by_forest(f) is kind] for kind in (True, False)]
        best = [f for pair in zip_longest(*kinds) for f in pair if f is not None][:OFFERED]
        before = dict(self.found)
        # What fewer rows have chosen or learned is kept.
        group = [replace(f.candidate, kernels=tuple(f.kernels[:1])) if _chooses(f) else f.candidate for f in best]
        cheapest = sorted(self._cost(c, rung) for c in group)[:REJUDGE_LEAST]
        if len(cheapest) < REJUDGE_LEAST or self.spent + sum(cheapest) > self.seconds:
            return
        self.resources = self.resources.measured(rung.training_rows)
        self._baselines(rung)
        self._try_all(group, rung, 1.0)
        if sum(found.rung is rung for found in self._ranked) < 2:  # nothing to compare it with
            self.found = before

    @property
    def _ranked(self) -> list[Found]:
        return [self.found[trial.name] for trial in self.leaderboard if trial.ok and not trial.baseline]

    def _with_linear(self, ranked: list[Found]) -> list[Found]:
        """Insert the linear model before those of the same rung that are hardly better."""
        linear = self.found[LINEAR]
        if LINEAR not in self.machines or not linear.trial.ok:
            return ranked
        same = [found for found in ranked if found.rung is linear.rung]
        better = [found for found in same if beats(found.trial, linear.trial)]
        place = len(better) if same else len(ranked)
        return [*ranked[:place], linear, *ranked[place:]]

    def _end_for(self, machine: str) -> None:
        """Set the clock of the search to leave time for fitting a machine to all rows, if need be without others."""
        if self.limit is not None:
            kept = self.planner.reserve(machine)
            kept = max(kept, min(kept * self.resources.pace / MEMBERS, RESERVE[1] * self.limit))
            self.resources = replace(self.resources, clock=replace(self.resources.clock, max_time=self.limit - kept))

    def _try_all(self, group: list[Candidate], rung: Rung, end: float, *, must: bool = False) -> None:
        """Try candidates until a share of the search time is used; the first one of the first rung in any case."""
        for place, candidate in enumerate(group):
            first, cost = must and place == 0, self._cost(candidate, rung)
            if not first and (self.spent + cost > end * self.seconds or self._is_late(candidate, cost)):
                continue
            self.spent += cost
            left = self.resources.clock.left
            self._try(candidate, rung)
            if self.limit is not None:
                self.paces[candidate.machine] = (left - self.resources.clock.left) / cost
            took = self.resources.clock.seconds
            if first and self.limit is not None and took > self.limit:
                raise TimeoutError(
                    f"time_limit={self.limit:g} s is too short for one trial, which took {took:.3g} s; allow at least "
                    f"{math.ceil(3 * took):g} s."
                )

    def _cost(self, c: Candidate, rung: Rung) -> float:
        """Nominal seconds of a trial; hyperparameters from fewer rows, or from the first split, save steps."""
        n, (_, d) = rung.training_rows, self.scaled[c.scaling].shape
        if self.resources.device is not None and c.machine == "gp":
            n = max(min(n, CARD_ROWS), n // CARD_GAIN)
        shape: Any = {"targets": self.response.targets.shape[1], "kernels": max(len(c.kernels), 1)}
        shape["powers"] = "Power" in c.name or "Laplace" in c.name
        if not rung.learns_kernels and c.machine == "gp":
            return conditioned_seconds(n, shape["targets"], self.resources.memory)
        again = c.name in self.found
        return trial_seconds(c.machine, n, d, again=again, **shape) + (len(rung.splits) - 1) * trial_seconds(
            c.machine, n, d, again=True, **shape
        )

    def _is_late(self, c: Candidate, cost: float) -> bool:
        """Whether the time left is too short for nominal seconds, on a machine as busy as this one."""
        pace = self.paces.get(c.machine, self.resources.pace)
        return self.resources.clock.expired or pace * cost > self.resources.clock.left

    def _survivors(self, rung: Rung, count: int) -> list[Candidate]:
        """The best of a rung, with the processes whose kernels they use; the others are marked as dropped."""
        ranked = [found for found in self._ranked if found.rung is rung]
        chosen = ranked[:count]
        if count > OTHERS:
            # The best of other kinds too: more rows favour several lengthscales and rough functions.
            for most, kind in ((OTHERS, _of_each), (1, _is_rough), (OTHERS, by_forest)):
                kinds = {kind(found) for found in chosen if found.candidate.machine == "gp"}
                others = [f for f in ranked[count:] if f.candidate.machine == "gp" and kind(f) not in kinds]
                chosen = chosen + others[:most]
        chosen += [f for f in ranked[count:] if f.candidate.machine == LINEAR]  # which takes no time
        kept = list(dict.fromkeys(c for f in chosen for c in (self.source_of(f).candidate, f.candidate)))
        for found in ranked:
            if found.candidate not in kept:
                self.mark(found, DROPPED)
        # A process is fitted before the machines that use its kernel.
        return sorted(kept, key=lambda c: bool(c.source))

    def _leaders(self, rung: Rung) -> list[Candidate]:
        processes = [self.found[t.name] for t in self.leaderboard if t.machine == "gp" and t.ok]
        leaders = [found.candidate for found in processes if found.rung is rung][:LEADERS]
        taken = {found.candidate.source for found in self.found.values() if found.rung is rung}
        return [leader for leader in leaders if leader.name not in taken]

    def _metrics(self, rung: Rung) -> list[Candidate]:
        """Metrics that start from the best process with a radial kernel, where there are enough rows to learn them."""
        if rung.rows < MEDIUM:
            return []
        classes = isinstance(self.response, Classes)
        for found in self._ranked:
            if found.rung is rung and found.candidate.machine == "gp":
                d = self.scaled[found.candidate.scaling].shape[1]
                made = metrics(found.candidate, found.kernels[0], d, classes=classes)
                if made:
                    return made
        return []

    def mark(self, found: Found, status: str) -> None:
        """Set the status of a trial on the leaderboard."""
        self.found[found.trial.name] = replace(found, trial=replace(found.trial, status=status))

    def _keep(self, candidate: Candidate, rung: Rung, trial: dict[str, Any], **learned: Any) -> None:
        made = Trial(name=candidate.name, machine=candidate.machine, rows=rung.rows, **trial)
        self.found[candidate.name] = Found(candidate, made, rung, **learned)

    def add_average(self, members: Sequence[Found], weights: Array, judged: Judgement, status: str = DONE) -> Found:
        """Put an average of trials on the leaderboard."""
        name, own = f"average of {len(members)}", [m.candidate.name for m in members]
        trial = {"settings": {"weights": dict(zip(own, weights.tolist(), strict=True))}, "status": status}
        seconds = {f"{w}_seconds": sum(getattr(m.trial, f"{w}_seconds") for m in members) for w in ("fit", "predict")}
        self._keep(Candidate(name, "average", ""), members[0].rung, {**vars(judged), **seconds, **trial})
        return self.found[name]

    def _try(self, candidate: Candidate, rung: Rung) -> None:
        self.observer(self.leaderboard, f"{candidate.name} on {rung.rows:,} rows")
        try:
            self._judge(candidate, rung)
        except (ValueError, ArithmeticError, MemoryError, np.linalg.LinAlgError, TimeoutError) as error:
            before = self.found.get(candidate.name)
            if before is None or not before.trial.ok:
                failed = {"score": math.nan, "spread": math.nan, "status": f"failed: {error}"}
                self._keep(candidate, rung, failed)
        self.observer(self.leaderboard, "")

    def _judge(self, candidate: Candidate, rung: Rung) -> None:
        Z = self.scaled[candidate.scaling]
        fits: list[list[Fitted]] = []
        held: list[list[Array]] = []
        fitting = predicting = 0.0
        for split, (train, test) in enumerate(rung.splits):
            begun = time.perf_counter()
            given = self._given(candidate, split, fits)
            if not rung.learns_kernels and candidate.machine == "gp" and given is not None:
                models = condition(self.response, Z, train, given, self.resources)
            else:
                models = fit(candidate, self.response, Z, train, given, self.resources)
            between = time.perf_counter()
            held.append([self.response.outputs(m.model, Z[test]) for m in models])
            fits.append([replace(m, model=None) for m in models])
            fitting, predicting = fitting + between - begun, predicting + time.perf_counter() - between
        pooled = [np.concatenate(each) for each in zip(*held, strict=True)]
        judged = [self.response.judge(each, rung.held_out, rung.parts) for each in pooled]
        best = min(range(len(judged)), key=lambda i: order(judged[i]))
        chosen = [models[best] for models in fits]
        last = chosen[-1]
        trial = {"fit_seconds": fitting, "predict_seconds": predicting, **vars(judged[best])}
        trial |= {"baseline": candidate == BASELINE}
        trial |= {"settings": {"scaling": candidate.scaling, **last.settings}}
        trial |= {"kernel": repr(last.kernel), "certificate": last.certificate}
        kernels = [m.kernel for m in chosen]
        self._keep(candidate, rung, trial, kernels=kernels, settings=last.settings, held=pooled[best])

    def _given(self, candidate: Candidate, split: int, fits: list[list[Fitted]]) -> Kernel | None:
        """The kernel to start from: that of the source, or what the process itself learned before."""
        if candidate.source:
            kernels = self.found[candidate.source].kernels
            return kernels[min(split, len(kernels) - 1)]
        if candidate.machine != "gp":
            return None
        if fits:
            return fits[0][0].kernel
        before = self.found.get(candidate.name)
        return before.kernels[0] if before is not None and before.kernels else None

    def _baselines(self, rung: Rung) -> None:
        """The simplest rule, and a linear model."""
        begun = time.perf_counter()
        held = np.concatenate([self.response.simplest(train, test) for train, test in rung.splits])
        judged = self.response.judge(held, rung.held_out, rung.parts)
        trial = {"fit_seconds": time.perf_counter() - begun, "baseline": True, **vars(judged)}
        self._keep(Candidate(self.response.simplest_rule, "baseline", ""), rung, trial)
        self._try(BASELINE, rung)


def _of_each(found: Found) -> bool:
    return found.candidate.each


def _chooses(found: Found) -> bool:
    """Whether a machine tries several kernels and takes the best."""
    return found.candidate.machine == "ridge" and len(found.kernels) > 0


def _is_rough(found: Found) -> bool:
    return any(kernel in found.candidate.name for kernel in ROUGH)


def by_forest(found: Found) -> bool:
    """Tell whether it learns from the predictions of a forest."""
    return found.candidate.scaling == FOREST


def beats(judged: Judgement | Trial, linear: Trial) -> bool:
    """Tell whether predictions are enough better than those of a linear model to justify a kernel."""
    return linear.score - judged.score > WORTH * abs(linear.score)


def order(judged: Judgement | Trial) -> tuple[float, float]:
    """Return the sort key of a trial: its score, lower is better, then its log-loss."""
    return judged.score, judged.figures.get("log_loss", 0.0)
