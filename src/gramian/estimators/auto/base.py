"""What the two automatic estimators share: parameters, reading tables, the search and the refit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from gramian.certificates import Certificate
from gramian.estimators.auto.candidates import candidates, checked_machines
from gramian.estimators.auto.columns import Encoding, NumberColumn, encode
from gramian.estimators.auto.costs import measure
from gramian.estimators.auto.fitting import Means, outputs
from gramian.estimators.auto.ladder import rungs
from gramian.estimators.auto.leaderboard import TOO_SLOW, WINNER, Leaderboard, Trial
from gramian.estimators.auto.plans import RESERVE, reserve
from gramian.estimators.auto.refit import LEARN_ROWS, Refit, affordable, needed, refit
from gramian.estimators.auto.scaling import SCALINGS, fit_scaling
from gramian.estimators.auto.search import Found, Search
from gramian.estimators.auto.tables import columns_of
from gramian.estimators.auto.task import Classes, Task
from gramian.estimators.base import COMMON, restored_on_failure, warn_unless_converged
from gramian.kernels import Kernel, Matern, resolve
from gramian.kernels.tunable import Nested
from gramian.progress import Clock, progress
from gramian.resources import memory_budget
from gramian.solvers.gp.starts import noise_of_repeats

__all__ = ["AutoKernel", "Observer"]

Array = NDArray[np.float64]
Observer = Callable[[Leaderboard], None]
"""Called with the leaderboard after every trial."""
COPIES = 4
"""Copies of the rows that must fit in memory for all of them to be searched for repeats, which sorts them."""


class AutoKernel(Nested, BaseEstimator):
    """Parameters, the search and the refit; a subclass knows its targets."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "time_limit": [Interval(Real, 0, None, closed="neither"), None],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "machines": [StrOptions({"auto"}), list, tuple],
        "kernel": [None, str, Kernel],
        "scoring": [None, str],
        **{name: COMMON[name] for name in ("memory", "random_state", "n_jobs", "verbose")},
    }

    _observer: Observer | None = None
    """For a live view: set on the instance, called with the leaderboard after every trial."""

    leaderboard_: Leaderboard
    best_: Any
    best_trial_: Trial
    columns_: Encoding
    certificate_: Certificate
    machine_: str

    def __init__(
        self,
        time_limit: float | None = 60.0,
        *,
        memory: int | str | None = None,
        cv: int = 5,
        machines: str | Sequence[str] = "auto",
        kernel: Any = None,
        scoring: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.time_limit = time_limit
        self.memory = memory
        self.cv = cv
        self.machines = machines
        self.kernel = kernel
        self.scoring = scoring
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        tags.non_deterministic = self.time_limit is not None
        return tags

    # ---- fit ----------------------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any) -> Self:
        clock = Clock(self.time_limit)
        machines = checked_machines(self.machines)
        with restored_on_failure(self):
            if y is None:
                raise ValueError(
                    f"This {type(self).__name__} estimator requires y to be passed, but the target y is None."
                )
            table = columns_of(self, X, reset=True)
            n = table[0].values.shape[0]
            check_consistent_length(table[0].values, y)
            task = self._task(y)
            if n < 2:
                raise ValueError(
                    f"Found array with {n} sample(s) while a minimum of 2 is required: nothing to hold out."
                )
            encoding = encode(table)
            if encoding.width == 0:
                why = "; ".join(f"{column.name}: {column}" for column in encoding.columns)
                raise ValueError(f"no column of X can be learned from: {why}.")
            Z = encoding.transform(table)
            del table
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            memory = memory_budget(self.memory)
            some = slice(max(memory // (COPIES * 8 * encoding.width), 1))
            means = Means(memory, self.n_jobs, seed, noise_of_repeats(Z[some], task.targets[some]))
            self._choose(task, encoding, Z, machines, means, clock)
        warn_unless_converged(self.certificate_, self)
        return self

    def _choose(
        self, task: Task, encoding: Encoding, Z: Array, machines: Sequence[str], means: Means, clock: Clock
    ) -> None:
        scalings = {name: fit_scaling(name, Z, encoding.places(NumberColumn)) for name in SCALINGS}
        scaled = {name: scaling.transform(Z) for name, scaling in scalings.items()}
        kernel = None if self.kernel is None else resolve(self.kernel, Z)
        first = candidates(encoding, Z.shape[0], machines, kernel, isinstance(task, Classes))
        steps = rungs(task, Z.shape[0], self.cv, means.seed)
        with self._watched() as observer:
            until = self._search_time(scaled["standard"], task, means)
            search = Search(task, scaled, machines, means, Clock(until, clock.start), clock.max_time, observer)
            if (limit := self.time_limit) is not None and Z.shape[0] > LEARN_ROWS:
                search.reserve = lambda best: needed(best, search, means, limit)
            ranked = search.run(first, steps)
            left = math.inf if self.time_limit is None else self.time_limit - clock.seconds
            winner = next((found for found in ranked if affordable(found, Z.shape[0], left)), ranked[0])
            for better in ranked[: ranked.index(winner)]:
                search.found[better.trial.name] = replace(better, trial=replace(better.trial, status=TOO_SLOW))
            done = refit(winner, search.found, task, scaled[winner.candidate.scaling], means, clock)
        self._keep(task, encoding, scalings[winner.candidate.scaling], search, winner, done)

    def _search_time(self, Z: Array, task: Task, means: Means) -> float | None:
        """Seconds from the start at which the search ends, so that the winner can still be fitted to everything."""
        if self.time_limit is None:
            return None
        n, targets = Z.shape[0], task.targets.shape[1]
        if n <= LEARN_ROWS:
            return (1.0 - RESERVE[0]) * self.time_limit
        rates = measure(Matern(math.sqrt(Z.shape[1])), Z, targets, self.n_jobs)
        loo = isinstance(task, Classes)
        return self.time_limit - reserve(n, targets, rates, self.time_limit, means.memory, loo=loo)

    @contextmanager
    def _watched(self) -> Iterator[Observer | None]:
        """The observer, with a progress bar where one is wanted."""
        with progress(self.verbose, type(self).__name__) as tick:

            def seen(board: Leaderboard) -> None:
                best = board.best
                tick(len(board), **({} if best is None else {board.metric: best.score}))
                if self._observer is not None:
                    self._observer(board)

            yield seen if self.verbose or self._observer is not None else None

    def _keep(self, task: Task, encoding: Encoding, scaling: Any, search: Search, winner: Found, done: Refit) -> None:
        self.best_trial_ = replace(winner.trial, status=WINNER)
        others = [trial for trial in search.leaderboard if trial.name != winner.trial.name]
        self.leaderboard_ = Leaderboard([self.best_trial_, *others], task.metric)
        baseline = self.leaderboard_.baseline
        self.baseline_ = math.nan if baseline is None else baseline.score
        self.columns_, self.scaling_ = encoding, scaling
        self.best_, self.machine_, self.refit_ = done.model, done.machine, done.note
        self.certificate_ = done.certificate
        if done.held is None or done.rows is None:
            held, rows = winner.held, winner.rung.held_out if winner.rung else None
        else:
            held, rows = done.held, done.rows
        self._calibrate(task, np.asarray(held), np.asarray(rows))
        if self._observer is not None:
            self._observer(self.leaderboard_)

    def _task(self, y: Any) -> Task:
        raise NotImplementedError(f"{type(self).__name__} must define _task(y).")

    def _calibrate(self, task: Task, held: Array, rows: NDArray[np.intp]) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _calibrate(task, held, rows).")

    def _metric(self, metrics: tuple[str, ...]) -> str:
        if self.scoring is not None and self.scoring not in metrics:
            raise ValueError(f"scoring must be one of {', '.join(metrics)} or None, got {self.scoring!r}.")
        return self.scoring or metrics[0]

    # ---- predict ------------------------------------------------------------------------------------------------

    def _rows(self, X: Any) -> Array:
        """New rows as the fitted machine takes them."""
        check_is_fitted(self)
        table = columns_of(self, X, reset=False)
        return np.asarray(self.scaling_.transform(self.columns_.transform(table)))

    def _outputs(self, X: Any, task: Task) -> Array:
        return outputs(self.machine_, self.best_, task, self._rows(X))
