"""The base of the two automatic estimators: parameters, reading tables, the search and the last fit."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted

from gramian.data.blocks import Blocks, as_blocks, is_blocks
from gramian.estimators.auto.candidates import LINEAR, candidates, checked_machines
from gramian.estimators.auto.columns import checked_words, encode
from gramian.estimators.auto.encoders import Category, LevelMeans
from gramian.estimators.auto.explain import explained
from gramian.estimators.auto.fits import Resources, warm_up
from gramian.estimators.auto.forest import grow_forest
from gramian.estimators.auto.ladder import larger, rungs
from gramian.estimators.auto.leaderboard import TOO_SLOW, WINNER, Leaderboard
from gramian.estimators.auto.plans import OFFERED, Plan, Planner, Sizes
from gramian.estimators.auto.refit import Refit, Winner, refit, refit_others, refit_over_passes
from gramian.estimators.auto.response import Classes, Response
from gramian.estimators.auto.row_hashes import indexed_hashes, row_hashes
from gramian.estimators.auto.scaling import FOREST, fit_scaling, scalings_for
from gramian.estimators.auto.search import BASELINE, ScaledRows, Search, cheap_score
from gramian.estimators.auto.splits import among, own_order, repeated, splits_asked_for
from gramian.estimators.auto.steps import Observer, Step
from gramian.estimators.auto.tables import Column, columns_of, plain, read_again
from gramian.estimators.auto.team import Team, chosen
from gramian.estimators.base import COMMON, restored_on_failure, warn_unless_converged
from gramian.features.base import parameters_checked, sample_seed
from gramian.gram.device import device_for, device_speed, wished
from gramian.kernels import Kernel, resolve
from gramian.kernels.tunable import Nested
from gramian.numerals import listed
from gramian.progress import Clock, Tick, progress, silent
from gramian.resources import memory_budget, random_of
from gramian.solvers.gp.hyperparameters import noise_of_repeats

Array = NDArray[np.float64]
LOG = logging.getLogger("gramian")
NAMED = 5
"""Columns that an error names."""
COPIES = 4
"""Copies of the rows that must fit in memory for all of them to be searched for repeats, which sorts them."""


@dataclass(frozen=True, eq=False)
class Given:
    """What fit was called with."""

    X: Any
    y: Any
    sample_weight: Any = None
    groups: Any = None
    sampled: bool = False  # Whether X and y are some of many rows


@dataclass(eq=False, repr=False)
class AutoKernel(Nested, BaseEstimator):
    """Regression or classification by the kernel machine that a search finds best. Not for direct use.

    Parameters
    ----------
    time_limit : float or None, default=60.0
        Seconds for the whole fit; ``None`` tries everything. Too short for one trial is a ``TimeoutError``. The sizes
        of the last fit follow from it by counting operations; what the clock cuts is said in ``refit_``.
    columns : mapping of names (or places) to words, or None, default=None
        How to read columns, where it differs from what is found: ``"number"``, ``"category"``, ``"date"``, ``"text"``,
        ``"identifier"`` or ``"id"`` (which is left out), ``"drop"``.
    memory : int, str or None, default=None
        Bytes to hold at most, as a number or ``"2GB"``; by default half of what is available, rounded down to a
        power of two.
    cv : int, splitter or iterable, default=5
        Folds; with more than 2,000 rows, one part is held out instead and cut into so many for the spread. Or a
        splitter of scikit-learn, or pairs of rows to learn from and rows held out; with more than 2,000 rows, the last.
    machines : "auto" or list of {"gp", "ridge", "svm", "machine", "linear"}, default="auto"
        What may win. A linear model is judged in any case, and wins where it is allowed to and nothing is better.
    kernel : Kernel, str or None, default=None
        The only kernel to be tried, on the columns as ``columns_`` makes them; ``None`` for a choice of kernels.
    random_state : int, RandomState, Generator or None, default=None
        Seed: with the same, and time for the same trials, the model is the same.
    n_jobs : int or None, default=None
        Threads; ``None`` for every core.
    device : {"cuda", "cuda:0", ..., "auto"} or None, default=None
        A GPU on which machines are tried and fitted, through torch (``pip install '.[gpu]'``), where their
        kernels can run there; ``"auto"`` takes one where there is one. Not saved with the model.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    best_trial_ : Trial
        The winner's.
    others_ : tuple of Member
        The other machines of an average, each with ``name``, ``machine``, ``scaling`` and ``model``; else empty.
    refit_ : str
        How it was fitted to all rows, and why so.
    baseline_ : float
        The score of the better baseline, to compare ``best_trial_.score`` with.
    columns_ : Encoding
        How every column was read; prints as a list.
    scaling_ : Standard, Normal, Robust or Forest
        How numbers were scaled; a forest adds its predictions as columns.
    n_features_in_, feature_names_in_ : int, array of shape (n_features_in_,)
        Number of columns of X, and their names if X has names.
    certificate_ : Certificate
        Of the last fit.
    """

    time_limit: float | None = 60.0
    _: KW_ONLY
    columns: Mapping[Any, str] | None = None
    memory: int | str | None = None
    cv: Any = 5
    machines: str | Sequence[str] = "auto"
    kernel: Any = None
    scoring: Any = None
    random_state: Any = None
    n_jobs: int | None = None
    device: str | None = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "time_limit": [Interval(Real, 0, None, closed="neither"), None],
        "columns": [Mapping, None],
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods(["split", "get_n_splits"]), Iterable],
        "machines": [StrOptions({"auto"}), list, tuple],
        "kernel": [None, str, Kernel],
        "scoring": [None, str, callable],
        **{name: COMMON[name] for name in ("memory", "random_state", "n_jobs", "device", "verbose")},
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

    @parameters_checked
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Search, and fit the winner to all rows.

        Parameters
        ----------
        X : data frame of pandas or polars, table of pyarrow, array or nested list, of shape (n, d); Blocks or path
            The table. Of blocks, the search looks at a sample, and the winner's kernel is fitted to all rows.
        y : array-like of shape (n,)
            Numbers to predict, or labels.
        sample_weight : array-like of shape (n,) or None, default=None
            How much each row counts, in fits, scores and calibration, relative to the others; one of weight zero is as
            if it were not there. Of at most 2,000 rows in splits that ``cv`` lists, whole weights are repetitions. With
            weights, intervals come from residuals.
        groups : array-like of shape (n,) or None, default=None
            Rows of one group are never both learned from and held out.

        Returns
        -------
        AutoKernel
            The fitted estimator.
        """
        return self._fit(X, y, sample_weight=sample_weight, groups=groups)

    def _fit(self, X: Any, y: Any, clock: Clock | None = None, way: Plan | None = None, **beside: Any) -> Self:
        """Search, on a sample where rows come by blocks, and fit the winner to all rows; ``beside`` as in ``fit``."""
        with restored_on_failure(self):
            blocks = None
            if is_blocks(X):
                if any(each is not None for each in beside.values()) or not isinstance(self.cv, Integral):
                    raise ValueError("rows in blocks take no sample_weight and no groups, and cv must be a number.")
                X, y, blocks = self._sampled(as_blocks(X, y))
            given = Given(X, y, sampled=blocks is not None, **beside)
            clock = clock or Clock(self.time_limit)
            search, team = self._searched(given, clock, alone=bool(blocks or way))
            winner = team.winners[0]
            self._seen(silent, clock, search.leaderboard, "the winner on all rows")
            if blocks is None:
                last = refit(winner if way is None else replace(winner, way=way))
            else:
                last = refit_over_passes(winner, blocks, getattr(self, "classes_", None))
            self._keep(search, team, [last, *refit_others(team.winners[1:])])
            if blocks is not None:  # those outputs are of rows that the last fit has seen
                del self._held_hashes, self._held_out
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

    def _searched(self, given: Given, clock: Clock, *, alone: bool = False) -> tuple[Search, Team]:
        """Read a table, and find the machines that predict best."""
        if given.y is None:
            name = type(self).__name__
            raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
        machines = checked_machines(self.machines, self.kernel)
        table = columns_of(self, given.X, reset=True)
        check_consistent_length(table[0].values, given.y)
        cv, table, given = counted(self.cv, table, given, self._sizes)
        n = table[0].values.shape[0]
        response = self._response(given.y, given.sample_weight)
        if n < 2:
            raise ValueError(f"Found array with {n} sample(s) while a minimum of 2 is required: nothing to hold out.")
        words = checked_words(self.columns, [column.name for column in table])
        # Means of targets would tell splits that are not random, such as those by time, of rows held out.
        by_means = given.groups is None and isinstance(cv, Integral)
        read = partial(self._read, table, words, by_means)
        encoding, Z, scaled = read(response)
        resources = self._resources(Z, response, clock)
        kernel = None if self.kernel is None else resolve(self.kernel, Z)
        asked = splits_asked_for(cv, response.codes, n, given.groups, resources.seed)
        steps = rungs(response, n, cv, resources.seed, self._sizes, self.time_limit, asked)
        if not given.sampled:
            rescaled = self._rescaled(response, partial(cheap_score, scaled["standard"], steps[0], resources))
            if rescaled is not response and encoding.places(LevelMeans):
                encoding, Z, scaled = read(rescaled)
            response = rescaled
        del table, read
        classes, limit = isinstance(response, Classes), math.inf if self.time_limit is None else self.time_limit
        speed = device_speed(resources.device, Z)
        planner = Planner(n, response.targets.shape[1], resources.memory, limit, classes, self._sizes, speed)
        grown = 0.0
        # Of numbers alone, kernels on all rows predict numbers better than a forest does, which else joins an average.
        levels = bool(encoding.places(Category, LevelMeans))
        usable = by_means and kernel is None and not given.sampled and "gp" in machines
        if usable and (levels or (LINEAR in machines and (classes or planner.typical.way == "nystroem"))):
            self._seen(silent, clock, Leaderboard((), response.scorer.name), "a forest on all rows")
            scaling = scaled["standard"].scaling if levels else None
            forest, grown = grow_forest(scaling, encoding, Z, response, self.time_limit, resources)
            if forest is not None:
                scaled[FOREST] = ScaledRows(Z, forest, forest.of_training_rows(Z))
        with progress(self.verbose, type(self).__name__) as tick:
            search = Search(response, scaled, machines, resources, planner, partial(self._seen, tick, clock), grown)
            count = response.targets.shape[1] if classes else 0
            many = None if asked is not None else larger(response, n, cv, resources.seed, resources.memory, self._sizes)
            more = response.targets.shape[1] if FOREST in scaled and levels else 0
            ranked = search.run(candidates(encoding, n, machines, kernel, count, tuple(scaled), more), steps, many)
        # A linear model wins where it is the best, not where those before it are too slow.
        able = [f for f in ranked if planner.affordable(f.candidate.machine) and f.candidate != BASELINE]
        best = ranked[0] if ranked[0].candidate == BASELINE else next(iter(able), ranked[0])
        for better in ranked[: ranked.index(best)]:
            search.mark(better, TOO_SLOW)
        offered = [best, *(f for f in ranked if f is not best and f.rung is best.rung)]
        resources = resources.measured(n)
        winners = []
        for found in offered[: 1 if alone else OFFERED]:
            source = search.source_of(found)
            rows = scaled[found.candidate.scaling]
            winners.append(Winner(found, source, response, encoding, rows, resources, planner, source.kernels[0]))
        return search, chosen(search, winners, planner)

    def _read(self, table: list[Column], words: dict[str, str], means: bool, response: Response) -> Any:
        """The encoding of a table, its rows as numbers, and these by every scaling worth a trial."""
        options: Any = {"named": hasattr(self, "feature_names_in_"), "means": means, "weights": response.weights}
        encoding = encode(table, words, response.targets, **options)
        if encoding.width == 0:
            why = listed((f"{column.name}: {column}" for column in encoding.columns), NAMED, "; ")
            raise ValueError(f"X has no usable column: {why}.")
        Z = encoding.transform(table)
        names = scalings_for(Z, encoding.scalable)
        return encoding, Z, {name: ScaledRows(Z, fit_scaling(name, Z, encoding.scalable)) for name in names}

    def _resources(self, Z: Array, response: Response, clock: Clock) -> Resources:
        seed = int(random_of(self.random_state).randint(2**31 - 1))
        memory = memory_budget(self.memory)
        if self.memory is None:
            memory = 1 << (memory.bit_length() - 1)  # what is available changes, and sizes should not
        some = slice(max(memory // (COPIES * 8 * Z.shape[1]), 1))
        card = device_for(self.device, Z)
        device = None if card is None else wished(card)  # where a kernel has no GPU code: here
        if device is not None:
            warm_up(Z.shape[1], response.targets.shape[1], device)
        return Resources(memory, self.n_jobs, seed, noise_of_repeats(Z[some], response.targets[some]), clock, device)

    def _seen(self, tick: Tick, clock: Clock, board: Leaderboard, doing: str) -> None:
        """Show a step on the progress bar, in the log and to the observer."""
        best = board.best
        tick(len(board), **({} if best is None else {board.metric_name: best.score}))
        step = Step(board, doing, clock.seconds, math.inf if clock.max_time is None else clock.max_time)
        if doing:
            LOG.info("%s", step)
        if self._observer is not None:
            self._observer(step)

    def _keep(self, search: Search, chosen: Team, fitted: list[Refit | None]) -> None:
        team, lasts = chosen.settled(search, fitted)
        note = chosen.note(fitted) if None in fitted else team.note(lasts)
        first, last = team.winners[0], lasts[0]
        response = first.response
        search.mark(team.found, WINNER)
        self.leaderboard_ = search.leaderboard if len(lasts) > 1 else _as_saved(search.leaderboard, last.model)
        self.best_trial_ = self.leaderboard_[0]
        baseline = self.leaderboard_.baseline
        self.baseline_ = math.nan if baseline is None else baseline.score
        self.columns_, self.scaling_ = first.encoding, first.scaling
        self.best_, self.machine_, self.refit_ = last.model, last.machine, note + search.unfinished
        self.weights_, self.others_ = team.weights, team.others(lasts)
        self._centre, self._scale = response.centre, response.scale
        self._row_hashes = row_hashes(first.scaled.Z)
        certificates = [done.model.certificate_ for done in lasts]
        self.certificate_ = next((c for c in certificates if not c.converged), certificates[0])
        outputs, rows, _ = team.outputs(lasts)
        predicted = self._calibrate(response, np.tensordot(team.weights, outputs, axes=1), rows)
        self._held_hashes, kept = indexed_hashes(first.scaled.Z[rows])
        self._held_out = predicted[kept]

    def _response(self, y: Any, weights: Array | None) -> Response:
        raise NotImplementedError(f"{type(self).__name__} must define _response(y, weights).")

    def _rescaled(self, response: Any, judged: Callable[[Any], float]) -> Any:
        """The response on the scale that predicts best, given the score of a cheap trial."""
        return response

    def _calibrate(self, response: Any, held: Array, rows: NDArray[np.intp]) -> Array:
        """Learn from held-out outputs how sure predictions are; return what is predicted for those rows."""
        raise NotImplementedError(f"{type(self).__name__} must define _calibrate(response, held, rows).")

    def explain(self) -> str:
        """Say in a few sentences what was tried, what won and by how much, how columns are used, and how sure it is."""
        check_is_fitted(self)
        return "\n\n".join(explained(self))

    # ---- predict ------------------------------------------------------------------------------------------------

    def _rows(self, X: Any) -> Array:
        """New rows as ``best_`` takes them."""
        return np.asarray(self.scaling_.transform(self._encoded(X)))

    def _encoded(self, X: Any) -> Array:
        check_is_fitted(self)
        return np.asarray(read_again(self, self.columns_, X))

    def _members(self, X: Any) -> Iterator[tuple[float, str, Any, Array]]:
        """Weight, machine, model and scaled rows of every machine that predictions are made of."""
        Z = self._encoded(X)
        for weight, machine, model, scaling in self._parts:
            yield weight, machine, model, np.asarray(scaling.transform(Z))

    @property
    def _parts(self) -> list[tuple[float, str, Any, Any]]:
        """Weight, machine, model and scaling of every machine that predictions are made of."""
        others = getattr(self, "others_", ())  # older model files have none
        parts = [(self.machine_, self.best_, self.scaling_), *((m.machine, m.model, m.scaling) for m in others)]
        weights = self.weights_ if others else [1.0]
        return [(float(weight), *part) for weight, part in zip(weights, parts, strict=True)]


def counted(cv: Any, table: list[Column], given: Given, sizes: Sizes) -> tuple[Any, list[Column], Given]:
    """Return splits, table, targets, weights and groups of the rows that count; weights are one on average.

    Within splits that a user gives, whole weights of few rows are repetitions, and no order matters.
    """
    n, y = table[0].values.shape[0], np.asarray(plain(given.y))
    groups = None if given.groups is None else column_or_1d(plain(given.groups))
    check_consistent_length(table[0].values, groups)
    rows: Any = np.empty((n, 1))
    weights = _check_sample_weight(plain(given.sample_weight), rows, dtype=np.float64, ensure_non_negative=True)
    pairs = not isinstance(cv, Integral) and not hasattr(cv, "split")
    cv = list(cv) if pairs else cv
    kept, weights = repeated(weights, sizes.folds if pairs else 0)
    if pairs and n <= sizes.folds and y.size == n:
        keys = [*(column.values for column in table), y.ravel(), *([] if groups is None else [groups])]
        order = own_order([*(key[kept] for key in keys), weights])
        kept, weights = kept[order], weights[order]
    if not np.array_equal(kept, np.arange(n)):
        table = [replace(column, values=column.values[kept]) for column in table]
        groups, cv = None if groups is None else groups[kept], among(cv, kept, n)
        given = replace(given, y=y[kept])
    equal = weights.size == 0 or np.ptp(weights) == 0.0
    return cv, table, replace(given, sample_weight=None if equal else weights / weights.mean(), groups=groups)


def fit_by_clock(
    model: AutoKernel, X: Any, y: Any, clock: Clock, observer: Observer | None = None, **beside: Any
) -> AutoKernel:
    """Fit an automatic model by a clock that is already running; the observer sees the steps of the search."""
    model._observer = observer
    try:
        return model._fit(X, y, clock, **beside)
    finally:
        model.__dict__.pop("_observer", None)


def _as_saved(board: Leaderboard, model: Any) -> Leaderboard:
    """The leaderboard with the kernel and the certificate of the model that was made of the winner."""
    kernel = getattr(model, "kernel_", getattr(model, "_kernel", None))
    saved = {"certificate": model.certificate_, **({} if kernel is None else {"kernel": repr(kernel)})}
    return replace(board, trials=[replace(t, **saved) if t.status == WINNER else t for t in board])
