"""Successive halving under one clock: cheap subsets first, the better part goes on to more rows."""

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
from gramian.estimators.auto.leaderboard import DROPPED, Leaderboard, Trial
from gramian.estimators.auto.response import Classes, Judgement, Response
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

FAILED = Judgement(math.nan, math.nan, {})


@dataclass(frozen=True, eq=False)
class Found:
    """What came of a candidate on one step."""

    candidate: Candidate  # It
    trial: Trial  # For the leaderboard
    kernels: list[Kernel] = field(default_factory=list)  # What was learned in each split
    settings: dict[str, Any] = field(default_factory=dict)  # The best of its settings
    held: Array | None = None  # (m, c): Outputs for the held-out rows
    rung: Rung | None = None  # The step


class Search:
    """One run over the ladder."""

    def __init__(
        self,
        response: Response,
        scaled: dict[str, Array],
        machines: Sequence[str],
        means: Means,
        reserve: Callable[[str], float],
        observer: Callable[[Leaderboard], None] | None = None,
    ) -> None:
        self.response, self.scaled, self.machines = response, scaled, machines
        self.means, self.reserve, self.observer = means, reserve, observer
        self.limit = means.clock.max_time
        self.found: dict[str, Found] = {}
        self.unfinished = ""
        self._end_for(machines[0])

    @property
    def leaderboard(self) -> Leaderboard:
        """All trials so far."""
        return Leaderboard([found.trial for found in self.found.values()], self.response.metric)

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
                if self._ranked:
                    self._end_for(self._ranked[0].candidate.machine)
                group = self._survivors(step, SURVIVORS[min(number, len(SURVIVORS) - 1)])
                if not group or not self._fits(group[0], steps[number + 1]):
                    self.unfinished = f"; time_limit ended the search after {number + 1} of {len(steps)} steps"
                    break
        if not self._ranked:
            raise self._nothing()
        return self._ranked

    @property
    def _ranked(self) -> list[Found]:
        return [self.found[trial.name] for trial in self.leaderboard if trial.ok and not trial.baseline]

    def _end_for(self, machine: str) -> None:
        """End the search so early that a machine can still be fitted to all rows."""
        if self.limit is not None:
            clock = replace(self.means.clock, max_time=self.limit - self.reserve(machine))
            self.means = replace(self.means, clock=clock)

    @property
    def _clock(self) -> Clock:
        return self.means.clock

    def _step(self, group: list[Candidate], step: Rung, *, must: bool) -> list[Candidate]:
        """Try a group while there is time; the first of the first step in any case."""
        tried: list[Candidate] = []
        for candidate in group:
            first = must and not tried
            if not first and (self._clock.expired or not self._fits(candidate, step)):
                continue
            self._try(candidate, step)
            tried.append(candidate)
            if first and self.limit is not None and self._clock.seconds > self.limit:
                raise TimeoutError(
                    f"time_limit={self.limit:g} s is too short for one trial, which took {self._clock.seconds:.3g} s; "
                    f"allow at least {math.ceil(3 * self._clock.seconds):g} s."
                )
        return tried

    def _fits(self, candidate: Candidate, step: Rung) -> bool:
        """Whether a candidate that was timed on fewer rows will be done in time on more."""
        before = self.found.get(candidate.name) or self._alike(candidate)
        if before is None or before.rung is None:
            return True
        ratio = (step.learning / before.rung.learning) ** GROWTH * len(step.splits) / len(before.rung.splits)
        return before.trial.fit_seconds * ratio <= self._clock.left

    def _alike(self, candidate: Candidate) -> Found | None:
        """The same machine with the kernel of another process, where this one has not been timed."""
        others = [f for f in self.found.values() if f.candidate.source and f.candidate.machine == candidate.machine]
        return others[-1] if others and candidate.source else None

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
                self._keep(Found(candidate, _trial(candidate, step, FAILED, status=f"failed: {error}")))
        self._report()

    def _judged(self, candidate: Candidate, step: Rung) -> Found:
        Z = self.scaled[candidate.scaling]
        fits: list[list[Fitted]] = []
        held: list[list[Array]] = []
        fitting = predicting = 0.0
        for split, (train, test) in enumerate(step.splits):
            begun = time.perf_counter()
            models = fit(candidate, self.response, Z, train, self._given(candidate, split, fits), self.means)
            between = time.perf_counter()
            held.append([outputs(candidate.machine, m.model, self.response, Z[test]) for m in models])
            fits.append([replace(m, model=None) for m in models])
            fitting, predicting = fitting + between - begun, predicting + time.perf_counter() - between
        pooled = [np.concatenate(each) for each in zip(*held, strict=True)]
        judged = [self.response.judge(each, step.held_out, step.parts) for each in pooled]
        best = min(range(len(judged)), key=lambda i: (judged[i].score, judged[i].figures.get("log_loss", 0.0)))
        chosen = [models[best] for models in fits]
        known = {"kernel": repr(chosen[-1].kernel), "certificate": chosen[-1].certificate}
        settings = {"scaling": candidate.scaling, **chosen[-1].settings}
        trial = _trial(candidate, step, judged[best], fitting, predicting, settings=settings, **known)
        return Found(candidate, trial, [m.kernel for m in chosen], chosen[-1].settings, pooled[best], step)

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
        classes = isinstance(self.response, Classes)
        for name, rule in (("majority" if classes else "mean", self._simplest), ("linear", self._linear)):
            begun = time.perf_counter()
            with quiet():
                held = np.concatenate([rule(train, test) for train, test in step.splits])
            judged = self.response.judge(held, step.held_out, step.parts)
            candidate = Candidate(name, "baseline", "")
            self._keep(Found(candidate, _trial(candidate, step, judged, time.perf_counter() - begun, baseline=True)))
        self._report()

    def _simplest(self, train: Rows, test: Rows) -> Array:
        return np.broadcast_to(self.response.baseline(train), (test.size, self.response.baseline(train).size))

    def _linear(self, train: Rows, test: Rows) -> Array:
        Z = self.scaled["standard"]
        if isinstance(self.response, Classes):
            present = np.unique(self.response.codes[train])
            if present.size < 2:
                return self._simplest(train, test)
            model: Any = LogisticRegression(max_iter=200).fit(Z[train], self.response.codes[train])
            out = np.full((test.size, self.response.count), math.log(0.5 / train.size))
            out[:, present] = model.predict_log_proba(Z[test])
            return np.maximum(out, -700.0)
        model = RidgeCV(np.logspace(-3, 4, 15)).fit(Z[train], self.response.targets[train, 0])
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


def _trial(
    c: Candidate, step: Rung, judged: Judgement, fitting: float = 0.0, predicting: float = 0.0, **more: Any
) -> Trial:
    given: dict[str, Any] = {"kernel": "", "settings": {}, **vars(judged), **more}
    return Trial(
        name=c.name, machine=c.machine, rows=step.rows, fit_seconds=fitting, predict_seconds=predicting, **given
    )
