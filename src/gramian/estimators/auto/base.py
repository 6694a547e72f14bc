"""The base of the two automatic estimators: parameters, reading tables, the search and the last fit."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from gramian.data.blocks import Blocks, as_blocks, is_blocks
from gramian.estimators.auto.candidates import Means, candidates, checked_machines
from gramian.estimators.auto.columns import NumberColumn, columns_of, encode, fit_scaling, scalings_for
from gramian.estimators.auto.leaderboard import TOO_SLOW, WINNER, Leaderboard
from gramian.estimators.auto.plans import Plan, Planner, Sizes
from gramian.estimators.auto.refit import Refit, Winner, refit, refit_over_passes
from gramian.estimators.auto.response import Classes, Response
from gramian.estimators.auto.search import Search, rungs
from gramian.estimators.auto.steps import Observer, Step
from gramian.estimators.base import COMMON, restored_on_failure, warn_unless_converged
from gramian.features.base import sample_seed
from gramian.kernels import Kernel, resolve
from gramian.kernels.tunable import Nested
from gramian.progress import Clock, Tick, progress, silent
from gramian.resources import memory_budget, random_of
from gramian.solvers.gp.hyperparameters import noise_of_repeats

Array = NDArray[np.float64]
LOG = logging.getLogger("gramian")
COPIES = 4
"""Copies of the rows that must fit in memory for all of them to be searched for repeats, which sorts them."""


@dataclass(eq=False, repr=False)
class AutoKernel(Nested, BaseEstimator):
    """Parameters, the search and the refit; a subclass knows its targets."""

    time_limit: float | None = 60.0
    _: KW_ONLY
    memory: int | str | None = None
    cv: int = 5
    machines: str | Sequence[str] = "auto"
    kernel: Any = None
    scoring: str | None = None
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "time_limit": [Interval(Real, 0, None, closed="neither"), None],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "machines": [StrOptions({"auto"}), list, tuple],
        "kernel": [None, str, Kernel],
        "scoring": [None, str],
        **{name: COMMON[name] for name in ("memory", "random_state", "n_jobs", "verbose")},
    }

    _observer: Observer | None = field(default=None, init=False)
    """For a live view: set on the instance, called before and after every trial."""
    _sizes = Sizes()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        tags.non_deterministic = self.time_limit is not None
        return tags

    # ---- fit ----------------------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, clock: Clock | None = None, way: Plan | None = None) -> Self:
        """Search, on a sample where rows come by blocks, and fit the winner to all rows."""
        with restored_on_failure(self):
            X, y, blocks = self._sampled(as_blocks(X, y)) if is_blocks(X) else (X, y, None)
            clock = clock or Clock(self.time_limit)
            search, winner = self._searched(X, y, clock)
            self._seen(silent, clock, search.leaderboard, "the winner on all rows")
            if blocks is None:
                last = refit(winner, way)
            else:
                last = refit_over_passes(winner, blocks, getattr(self, "classes_", None))
            self._keep(search, winner, last)
        warn_unless_converged(self.certificate_, self)
        return self

    def _sampled(self, blocks: Blocks) -> tuple[Any, Any, Blocks | None]:
        """Some rows of blocks, their targets, and the blocks where they hold more rows."""
        name = type(self).__name__
        if not blocks.has_targets:
            raise ValueError(f"{name} requires y to be passed: name it, as Blocks(..., target='y').")
        if blocks.weight is not None:
            raise ValueError(f"{name} takes no weights; leave weight= out of Blocks.")
        sample = blocks.sample(self._sizes.sample, sample_seed(self.random_state))
        table = sample.X
        if blocks.names is not None:
            import pyarrow as pa

            table = pa.table(dict(zip(blocks.names, sample.X.T, strict=True)))
        return table, sample.y, None if sample.index.size == blocks.n_rows else blocks

    def _searched(self, X: Any, y: Any, clock: Clock) -> tuple[Search, Winner]:
        """Read a table, and find the machine that predicts best."""
        if y is None:
            name = type(self).__name__
            raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
        machines = checked_machines(self.machines)
        table = columns_of(self, X, reset=True)
        n = table[0].values.shape[0]
        check_consistent_length(table[0].values, y)
        response = self._response(y)
        if n < 2:
            raise ValueError(f"Found array with {n} sample(s) while a minimum of 2 is required: nothing to hold out.")
        encoding = encode(table)
        if encoding.width == 0:
            why = "; ".join(f"{column.name}: {column}" for column in encoding.columns)
            raise ValueError(f"X has no usable column: {why}.")
        Z = encoding.transform(table)
        del table
        means = self._means(Z, response, clock)
        numbers = encoding.places(NumberColumn)
        scalings = {name: fit_scaling(name, Z, numbers) for name in scalings_for(Z, numbers)}
        scaled = {name: scaling.transform(Z) for name, scaling in scalings.items()}
        kernel = None if self.kernel is None else resolve(self.kernel, Z)
        classes, limit = isinstance(response, Classes), math.inf if self.time_limit is None else self.time_limit
        planner = Planner(n, response.targets.shape[1], means.memory, limit, classes, self._sizes)
        with progress(self.verbose, type(self).__name__) as tick:
            search = Search(response, scaled, machines, means, planner.reserve, partial(self._seen, tick, clock))
            steps = rungs(response, n, self.cv, means.seed, self._sizes, self.time_limit)
            count = response.targets.shape[1] if classes else 0
            ranked = search.run(candidates(encoding, n, machines, kernel, count, tuple(scalings)), steps)
        best = next((found for found in ranked if planner.affordable(found.candidate.machine)), ranked[0])
        for better in ranked[: ranked.index(best)]:
            search.mark(better, TOO_SLOW)
        scaling, source = best.candidate.scaling, search.source_of(best)
        rows = (encoding, scalings[scaling], scaled[scaling])
        return search, Winner(best, source, response, *rows, means, planner, source.kernels[0])

    def _means(self, Z: Array, response: Response, clock: Clock) -> Means:
        seed = int(random_of(self.random_state).randint(2**31 - 1))
        memory = memory_budget(self.memory)
        if self.memory is None:
            memory = 1 << (memory.bit_length() - 1)  # what is available changes, and sizes should not
        some = slice(max(memory // (COPIES * 8 * Z.shape[1]), 1))
        return Means(memory, self.n_jobs, seed, noise_of_repeats(Z[some], response.targets[some]), clock)

    def _seen(self, tick: Tick, clock: Clock, board: Leaderboard, doing: str) -> None:
        """Show a step on the progress bar, in the log and to the observer."""
        best = board.best
        tick(len(board), **({} if best is None else {board.metric: best.score}))
        step = Step(board, doing, clock.seconds, math.inf if clock.max_time is None else clock.max_time)
        if doing:
            LOG.info("%s", step)
        if self._observer is not None:
            self._observer(step)

    def _keep(self, search: Search, winner: Winner, last: Refit) -> None:
        best, response = winner.found, winner.response
        search.mark(best, WINNER)
        self.leaderboard_ = _as_saved(search.leaderboard, last.model)
        self.best_trial_ = self.leaderboard_[0]
        baseline = self.leaderboard_.baseline
        self.baseline_ = math.nan if baseline is None else baseline.score
        self.columns_, self.scaling_ = winner.encoding, winner.scaling
        self.best_, self.machine_, self.refit_ = last.model, last.machine, last.note + search.unfinished
        self.certificate_, self._centre, self._scale = last.model.certificate_, response.centre, response.scale
        held, rows = (best.held, best.rung.held_out) if last.held is None else (last.held, last.rows)
        self._calibrate(response, np.asarray(held), np.asarray(rows))

    def _response(self, y: Any) -> Response:
        raise NotImplementedError(f"{type(self).__name__} must define _response(y).")

    def _calibrate(self, response: Any, held: Array, rows: NDArray[np.intp]) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _calibrate(response, held, rows).")

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


def _as_saved(board: Leaderboard, model: Any) -> Leaderboard:
    """The leaderboard with the kernel and the certificate of the model that was made of the winner."""
    kernel = getattr(model, "kernel_", getattr(model, "_kernel", None))
    saved = {"certificate": model.certificate_, **({} if kernel is None else {"kernel": repr(kernel)})}
    return Leaderboard([replace(t, **saved) if t.status == WINNER else t for t in board], board.metric)
