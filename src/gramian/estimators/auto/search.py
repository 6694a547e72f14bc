"""The search: cheap subsets first, the better part goes on to more rows, all under one clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, RidgeCV

from gramian.estimators.auto.candidates import Candidate, derived
from gramian.estimators.auto.fitting import Fitted, Means, fit, outputs, quiet
from gramian.estimators.auto.ladder import Rung
from gramian.estimators.auto.leaderboard import DONE, DROPPED, Leaderboard, Trial
from gramian.estimators.auto.task import Classes, Judgement, Task
from gramian.kernels import Kernel
from gramian.progress import Clock

__all__ = ["Found", "Search"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

SURVIVORS = (5, 2)
"""How many candidates reach the second and the third step."""
OTHERS = 2
"""And how many of the other kind of lengthscale, where none are among them."""
LEADERS = 1
"""Processes whose kernels other machines take over."""
GROWTH = 2.6
"""The time of a trial grows with this power of its rows; between n² for the Gram matrix and n³ for its factor."""


@dataclass(frozen=True, eq=False)
class Found:
    """What came of a candidate on one step."""

    candidate: Candidate  # It
    trial: Trial  # For the leaderboard
    kernels: list[Kernel] = field(default_factory=list)  # What was learned in each split
    settings: dict[str, Any] = field(default_factory=dict)  # The best of its settings
    held: Array | None = None  # (m, c): Outputs for the held-out rows
    rung: Rung | None = None  # The step
    fits: int = 1  # How many fits the trial's time was spent on


class Search:
    """One run over the ladder."""

    def __init__(
        self,
        task: Task,
        scaled: dict[str, Array],
        machines: Sequence[str],
        means: Means,
        clock: Clock,
        limit: float | None = None,
        observer: Callable[[Leaderboard], None] | None = None,
    ) -> None:
        self.task, self.scaled, self.machines, self.clock = task, scaled, machines, clock
        self.means = replace(means, clock=clock)
        self.limit, self.observer = limit, observer
        self.found: dict[str, Found] = {}
        self.reserve: Callable[[Found], float] | None = None

    @property
    def leaderboard(self) -> Leaderboard:
        """All trials so far."""
        return Leaderboard([found.trial for found in self.found.values()], self.task.metric)

    def run(self, first: list[Candidate], steps: list[Rung]) -> list[Found]:
        """Climb the ladder."""
        group = first
        for number, step in enumerate(steps):
            last = number == len(steps) - 1
            self._baselines(step)
            tried = self._step(group, step, must=number == 0)
            if number == 0 or last:
                tried += self._step(derived(self.machines, self._leaders(step)), step, must=False)
            if not last:
                self._look_ahead()
                group = self._survivors(step, SURVIVORS[min(number, len(SURVIVORS) - 1)])
                if not self._affordable(group, steps[number + 1]):
                    break
        if not self._ranked:
            raise self._nothing()
        return self._ranked

    @property
    def _ranked(self) -> list[Found]:
        return [self.found[trial.name] for trial in self.leaderboard if trial.ok and not trial.baseline]

    def _look_ahead(self) -> None:
        """Set the end of the search by what the best so far will need."""
        if self.reserve is None or self.limit is None or not self._ranked:
            return
        self.clock = replace(self.clock, max_time=self.limit - self.reserve(self._ranked[0]))
        self.means = replace(self.means, clock=self.clock)

    def _step(self, group: list[Candidate], step: Rung, *, must: bool) -> list[Candidate]:
        """Try a group while there is time; the first of the first step in any case."""
        tried: list[Candidate] = []
        for candidate in group:
            first = must and not tried
            if not first and (self.clock.expired or not self._fits(candidate, step)):
                continue
            self._try(candidate, step)
            tried.append(candidate)
            if first and self.limit is not None and self.clock.seconds > self.limit:
                raise TimeoutError(
                    f"time_limit={self.limit:g} s is too short for one trial, which took {self.clock.seconds:.3g} s; "
                    f"allow at least {math.ceil(3 * self.clock.seconds):g} s."
                )
        return tried

    def _fits(self, candidate: Candidate, step: Rung) -> bool:
        """Whether a candidate that was timed on fewer rows will be done in time on more."""
        return self._estimate(candidate, step) <= self._left

    @property
    def _left(self) -> float:
        return math.inf if self.clock.max_time is None else self.clock.max_time - self.clock.seconds

    def _estimate(self, candidate: Candidate, step: Rung) -> float:
        before = self.found.get(candidate.name) or self._alike(candidate)
        if before is None or before.rung is None:
            return 0.0
        ratio = (step.learning / before.rung.learning) ** GROWTH * len(step.splits) / len(before.rung.splits)
        return before.trial.fit_seconds * ratio

    def _alike(self, candidate: Candidate) -> Found | None:
        """The same machine with the kernel of another process, where this one has not been timed."""
        others = [f for f in self.found.values() if f.candidate.source and f.candidate.machine == candidate.machine]
        return others[-1] if others and candidate.source else None

    def _affordable(self, group: list[Candidate], step: Rung) -> bool:
        """Whether the first of a group can be judged on the next step in the time that is left."""
        return bool(group) and self._fits(group[0], step)

    def _survivors(self, step: Rung, count: int) -> list[Candidate]:
        """The best of a step, the others being marked as dropped; machines that follow a process bring it along."""
        ranked = [found for found in self._ranked if found.rung is step]
        kept: list[Candidate] = []
        for found in _varied(ranked, count):
            source = self.found[found.candidate.source].candidate if found.candidate.source else None
            kept += [c for c in (source, found.candidate) if c is not None and c not in kept]
        for found in ranked:
            if found.candidate not in kept:
                self._keep(replace(found, trial=replace(found.trial, status=DROPPED)))
        # A process must be fitted before those that take its kernel.
        return sorted(kept, key=lambda c: bool(c.source))

    def _leaders(self, step: Rung) -> list[Candidate]:
        processes = [self.found[t.name] for t in self.leaderboard if t.machine == "gp" and t.ok]
        leaders = [found.candidate for found in processes if found.rung is step][:LEADERS]
        taken = {(found.candidate.source) for found in self.found.values() if found.rung is step}
        return [leader for leader in leaders if leader.name not in taken]

    def _keep(self, found: Found) -> None:
        self.found[found.trial.name] = found

    def _report(self) -> None:
        if self.observer is not None:
            self.observer(self.leaderboard)

    # ---- one trial ----------------------------------------------------------------------------------------------

    def _try(self, candidate: Candidate, step: Rung) -> None:
        try:
            self._keep(self._judged(candidate, step))
        except (ValueError, ArithmeticError, MemoryError, np.linalg.LinAlgError, TimeoutError) as error:
            before = self.found.get(candidate.name)
            if before is None or not before.trial.ok:
                self._keep(Found(candidate, _failed(candidate, step, error)))
        self._report()

    def _judged(self, candidate: Candidate, step: Rung) -> Found:
        Z = self.scaled[candidate.scaling]
        fits: list[list[Fitted]] = []
        held: list[list[Array]] = []
        fitting = predicting = 0.0
        for split, (train, test) in enumerate(step.splits):
            begun = time.perf_counter()
            models = fit(candidate, self.task, Z, train, self._given(candidate, split, fits), self.means)
            between = time.perf_counter()
            held.append([outputs(candidate.machine, m.model, self.task, Z[test]) for m in models])
            fits.append([replace(m, model=None) for m in models])
            fitting, predicting = fitting + between - begun, predicting + time.perf_counter() - between
        pooled = [np.concatenate(each) for each in zip(*held, strict=True)]
        judged = [self.task.judge(each, step.held_out, step.parts) for each in pooled]
        best = min(range(len(judged)), key=lambda i: (judged[i].score, judged[i].figures.get("log_loss", 0.0)))
        chosen = [models[best] for models in fits]
        trial = _trial(candidate, step, chosen[-1], judged[best], fitting, predicting)
        count = len(step.splits) * len(pooled)
        return Found(candidate, trial, [m.kernel for m in chosen], chosen[-1].settings, pooled[best], step, count)

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

    # ---- baselines ----------------------------------------------------------------------------------------------

    def _baselines(self, step: Rung) -> None:
        classes = isinstance(self.task, Classes)
        for name, rule in (("majority" if classes else "mean", self._simplest), ("linear", self._linear)):
            begun = time.perf_counter()
            with quiet():
                held = np.concatenate([rule(train, test) for train, test in step.splits])
            judged = self.task.judge(held, step.held_out, step.parts)
            trial = Trial(
                name=name,
                machine="baseline",
                kernel="",
                settings={},
                score=judged.score,
                spread=judged.spread,
                fit_seconds=time.perf_counter() - begun,
                predict_seconds=0.0,
                rows=step.rows,
                baseline=True,
                figures=judged.figures,
            )
            self._keep(Found(Candidate(name, "baseline", ""), trial))
        self._report()

    def _simplest(self, train: Rows, test: Rows) -> Array:
        return np.broadcast_to(self.task.baseline(train), (test.size, self.task.baseline(train).size))

    def _linear(self, train: Rows, test: Rows) -> Array:
        Z = self.scaled["standard"]
        if isinstance(self.task, Classes):
            present = np.unique(self.task.codes[train])
            if present.size < 2:
                return self._simplest(train, test)
            model: Any = LogisticRegression(max_iter=200).fit(Z[train], self.task.codes[train])
            out = np.full((test.size, self.task.count), math.log(0.5 / train.size))
            out[:, present] = model.predict_log_proba(Z[test])
            return np.maximum(out, -700.0)
        model = RidgeCV(np.logspace(-3, 4, 15)).fit(Z[train], self.task.targets[train, 0])
        return np.asarray(model.predict(Z[test])).reshape(-1, 1)

    def _nothing(self) -> Exception:
        failed = [t for t in self.leaderboard if not t.baseline]
        if failed:
            first = f"{failed[0].name}, {failed[0].status}".rstrip(".")
            return ValueError(f"no machine could be fitted; the first: {first}.")
        return ValueError("no machine could be tried; allow more in machines=.")


def _varied(ranked: list[Found], count: int) -> list[Found]:
    """The first few, and the best of the other kind of process: many lengthscales need more rows than one does."""
    first = ranked[:count]
    kinds = {found.candidate.each for found in first if found.candidate.machine == "gp"}
    others = [f for f in ranked[count:] if f.candidate.machine == "gp" and f.candidate.each not in kinds]
    return first + others[:OTHERS] if count > OTHERS else first


def _failed(candidate: Candidate, step: Rung, error: Exception) -> Trial:
    return Trial(
        name=candidate.name,
        machine=candidate.machine,
        kernel="",
        settings={},
        score=math.nan,
        spread=math.nan,
        fit_seconds=0.0,
        predict_seconds=0.0,
        rows=step.rows,
        status=f"failed: {error}",
    )


def _trial(c: Candidate, step: Rung, fitted: Fitted, judged: Judgement, fitting: float, predicting: float) -> Trial:
    return Trial(
        name=c.name,
        machine=c.machine,
        kernel=repr(fitted.kernel),
        settings={"scaling": c.scaling, **fitted.settings},
        score=judged.score,
        spread=judged.spread,
        fit_seconds=fitting,
        predict_seconds=predicting,
        certificate=fitted.certificate,
        rows=step.rows,
        status=DONE,
        figures=judged.figures,
    )
