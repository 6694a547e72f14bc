"""A cross-fitted forest of boosted trees, whose predictions are more columns for the machines of a search.

Smooth kernels cannot follow thresholds and products of categories; trees can. They are grown by scikit-learn's
histogram boosting and kept as arrays. A training row is predicted by trees that were grown without its fold, so that
it never sees its own target; a new row by all trees.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import sklearn
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from gramian.compiled import compiled
from gramian.estimators.auto.columns import Encoding
from gramian.estimators.auto.encoders import Category, LevelMeans
from gramian.estimators.auto.fits import Resources
from gramian.estimators.auto.response import Classes, Response
from gramian.estimators.auto.row_hashes import Folds
from gramian.estimators.auto.scoring import log_loss
from gramian.progress import Clock
from gramian.resources import run, worker_count
from gramian.warning import warn

Array = NDArray[np.float64]

FOLDS = 5
CODES = 254
"""Levels of a category that trees tell apart; the others share a code."""
TOTAL, RATES = 30.0, (0.05, 0.2)
"""The learning rate is this divided by the number of trees, within these bounds."""
PATIENCE, CHUNK, GROWTH = 40, 50, 0.3
"""Boosting ends where so many trees have not improved predictions of the rows left out, which is looked at after so
many trees, and after this share of those grown."""
TREES = (100, 2000)
"""Fewer trees than the first are not worth their time; more than the second are not grown."""
LEAST_ROWS, MOST_CLASSES = 500, 30
"""Without so many rows, or with more classes, no forest is grown."""
SHARE, OF_NUMBERS, DEADLINE = 0.25, 0.08, 0.4
"""The share of the time limit that counts give to the forest, that of one of numbers alone, which is no column for
kernels and must leave them time, and the share at which the clock ends it."""
LEAF, HISTOGRAM, SUM = 15e-6, 6e-7, 1.7e-10
"""Nominal seconds to grow a leaf, for each of its histograms, and for each row in one of those that lead to it."""
BINNING = 2e-7
"""Nominal seconds that a run takes for each number of its rows, to sort them into bins after each ``CHUNK``."""
COMPARED = 20
"""Rows on which the trees that were read are compared with scikit-learn's predictions."""
BINS = 256
"""Of a histogram."""
UNLIMITED = 300.0
"""Seconds from which the time of the forest is counted where there is no limit."""


class UnreadableTreesError(RuntimeError):
    """Trees of this version of scikit-learn are kept in another way than those that are known here."""


class Setting(NamedTuple):
    """What distinguishes forests; the first fold tells which is grown."""

    leaves: int  # Of a tree, at most
    rows: int  # Of a leaf, at least
    shrinkage: float  # Rows of value zero that each leaf counts beside its own
    codes: bool  # Whether trees may ask which level of a long category a row has, beside its mean target


SETTINGS = (Setting(63, 5, 1.0, True), Setting(63, 5, 1.0, False), Setting(10, 20, 3.0, False))
LARGE, MANY_ROWS = Setting(255, 5, 1.0, False), 20_000
"""For numbers alone, tried too where there are so many rows; it has fewer trees, which take the same time."""


class Trees(NamedTuple):
    """Binary trees, node by node."""

    columns: NDArray[np.int32]  # (m,): Which column a node asks about, codes first; -1 at a leaf
    thresholds: Array  # (m,): Whether it is at most this; of codes, the place in ``sets``; at a leaf, the value
    children: NDArray[np.int32]  # (m, 2): The node for yes, and for no
    sets: NDArray[np.uint8]  # (s, 32): Which codes are in a set, bit by bit
    roots: NDArray[np.int32]  # (t,): First nodes; the trees of several outputs in turn


@dataclass(frozen=True, eq=False)
class LevelCodes:
    """The level of a long category, told by its mean target."""

    place: int  # Of the means among the columns
    means: Array  # (k,): Ascending
    codes: NDArray[np.int32]  # (k,): Of the level that has this mean

    def __call__(self, Z: Array) -> NDArray[np.int32]:
        """Return the code of each row: Z (n, d) → (n,)."""
        found = np.searchsorted(self.means, Z[:, self.place])
        return np.asarray(self.codes[np.minimum(found, self.means.size - 1)])


@dataclass(frozen=True)
class FewLevels:
    """The level of a short category, which has a column for each."""

    place: int  # Of the first of them
    width: int

    def __call__(self, Z: Array) -> NDArray[np.int32]:
        """Return the code of each row: Z (n, d) → (n,)."""
        return np.argmax(Z[:, self.place : self.place + self.width], axis=1).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Means:
    """The columns that hold the mean targets of a long category, and which level each training row has."""

    place: int  # Of the first of them
    encoder: LevelMeans
    at: NDArray[np.intp]  # (n,)


def level_codes(encoding: Encoding, Z: Array) -> tuple[tuple[LevelCodes | FewLevels, ...], list[Means]]:
    """Return codes for levels, those read by mean targets first, and these means: Z (n, d) the training rows.

    Of a long category frequent levels come first. Every fold has means of its own. Levels of equal means share a code;
    they have few rows.
    """
    found, short, means_of, place = [], [], [], 0
    for column in encoding.columns:
        if isinstance(column, LevelMeans):
            table = column.means.reshape(-1, len(column.levels) + 2, column.width)[:, :, 0]
            means, first = np.unique(table, return_index=True)
            known = LevelCodes(place, means, (first % table.shape[1]).astype(np.int32))
            means_of.append(Means(place, column, known(Z).astype(np.intp)))
            order = np.argsort(-np.bincount(means_of[-1].at, minlength=table.shape[1]), kind="stable")
            codes = np.minimum(np.argsort(order), CODES).astype(np.int32)
            found.append(replace(known, codes=codes[known.codes]))
        elif isinstance(column, Category):
            short.append(FewLevels(place, column.width))
        place += column.width
    return (*found, *short), means_of


@dataclass(frozen=True, eq=False)
class Forest:
    """Scaled columns, and beside them the predictions of boosted trees; or these alone."""

    scaling: Any  # Of the columns; None where there are predictions alone
    levels: tuple[LevelCodes | FewLevels, ...]  # Codes that trees may ask about
    columns: NDArray[np.int32]  # These five as in ``Trees``
    thresholds: Array
    children: NDArray[np.int32]
    sets: NDArray[np.uint8]
    roots: NDArray[np.int32]
    starts: NDArray[np.intp]  # (folds + 1,): Where the trees of each fold begin and end
    constants: Array  # (folds, c)
    deviation: Array  # (c,): Of the predictions
    folds: Folds  # Which rows the trees were grown without

    @property
    def places(self) -> NDArray[np.intp]:
        """Which columns are scaled."""
        return np.asarray(getattr(self.scaling, "places", ()), dtype=np.intp)

    def transform(self, Z: Array) -> Array:
        """Return the scaled rows and their predictions: Z (n, d) → (n, d + c)."""
        return self._columns(Z, self.folds(Z))

    def of_training_rows(self, Z: Array) -> Array:
        """Return the same for all training rows in their order, none predicted by trees that know it."""
        return self._columns(Z, self.folds.of_training_rows(Z))

    def _columns(self, Z: Array, fold: NDArray[np.intp]) -> Array:
        predicted = self.predictions(Z, fold) / self.deviation
        return predicted if self.scaling is None else np.hstack([self.scaling.transform(Z), predicted])

    def predictions(self, Z: Array, fold: NDArray[np.intp]) -> Array:
        """Return predictions by the trees grown without each row's fold, for -1 the mean over folds: → (n, c)."""
        out = np.zeros((Z.shape[0], self.constants.shape[1]))
        asked, nodes = with_codes(Z, self.levels), (self.columns, self.thresholds, self.children, self.sets)
        for k, constant in enumerate(self.constants):
            (rows,) = np.nonzero((fold == k) | (fold < 0))
            total = np.tile(constant, (rows.size, 1))
            add_trees(asked[rows], len(self.levels), *nodes, self.roots[slice(*self.starts[k : k + 2])], total)
            out[rows] += total / np.where(fold[rows] < 0, self.folds.count, 1)[:, None]
        return out


def with_codes(Z: Array, levels: Sequence[LevelCodes | FewLevels]) -> Array:
    """Return codes and columns side by side: Z (n, d) → (n, q + d)."""
    return np.column_stack([*(codes(Z) for codes in levels), Z])


def tree_seconds(setting: Setting, n: int, d: int, outputs: int) -> float:
    """Return what a tree for each output takes on the nominal machine."""
    rows = SUM * n * d * math.log2(setting.leaves)
    return outputs * (setting.leaves * (LEAF + HISTOGRAM * d) + rows)


def grow_forest(
    scaling: Any, encoding: Encoding, Z: Array, response: Response, limit: float | None, resources: Resources
) -> tuple[Forest | None, float]:
    """Grow trees for each fold on the other folds, and return what that takes on the nominal machine: Z (n, d).

    There is no forest where rows are few, or where counts or the clock leave no time for it.
    """
    folds = Folds.of_rows(Z, FOLDS, apart=True)
    fold = folds.of_training_rows(Z)
    few = isinstance(response, Classes) and any(
        np.unique(response.codes[fold != k]).size < response.count for k in range(FOLDS)
    )
    if few or Z.shape[0] < LEAST_ROWS or response.targets.shape[1] > MOST_CLASSES:
        return None, 0.0
    levels, means = level_codes(encoding, Z)
    budget = (OF_NUMBERS if scaling is None else SHARE) * (UNLIMITED if limit is None else limit)
    boosting = _Boosting(Z, levels, means, response, fold, budget, resources.seed)
    try:
        parts, seconds = boosting.of_all_folds(resources.clock, worker_count(resources.n_jobs))
    except TimeoutError:
        return None, 0.0
    except UnreadableTreesError as error:
        warn(f"no forest joins the search: trees of scikit-learn {sklearn.__version__} cannot be read ({error}).")
        return None, 0.0
    nodes = joined([part for part, _ in parts], len(levels))
    starts, constants = np.cumsum([0, *(part.roots.size for part, _ in parts)]), np.stack([c for _, c in parts])
    made = Forest(scaling, levels, *nodes, starts, constants, np.ones(constants.shape[1]), folds)
    spread = made.predictions(Z, fold).std(axis=0)
    return replace(made, deviation=np.where(spread > 0, spread, 1.0)), seconds


@dataclass(frozen=True, eq=False)
class _Boosting:
    """Trees that leave out a fold, by the rows left out."""

    Z: Array  # (n, d)
    levels: Sequence[LevelCodes | FewLevels]  # (q,)
    means: Sequence[Means]  # Of the first of these
    response: Response
    fold: NDArray[np.intp]  # (n,)
    budget: float  # Nominal seconds
    seed: int

    def of_all_folds(self, clock: Clock, workers: int) -> tuple[list[tuple[Trees, Array]], float]:
        """Return trees and constants of all folds, by the setting that is best on the first, and nominal seconds."""
        tried = [s for s in SETTINGS if self.means or not s.codes]
        tried += [LARGE] if not self.levels and self.fold.size >= MANY_ROWS else []
        tried = [s for s in tried if self.trees(s) >= TREES[0]]
        if not tried:
            raise TimeoutError("no time for a forest.")
        turns = -(-len(tried) // workers), -(-(FOLDS - 1) // workers)
        ends = [clock.share(DEADLINE * (turn + 1) / sum(turns)) for turn in range(sum(turns))]
        first = run(lambda i: self.grown(tried[i], 0, ends[i // workers]), range(len(tried)), workers)
        best = min(range(len(tried)), key=lambda i: first[i][2].min())
        others = run(
            lambda k: self.grown(tried[best], k, ends[turns[0] + (k - 1) // workers]), range(1, FOLDS), workers
        )
        settings = [*tried, *(FOLDS - 1) * [tried[best]]]
        counts = [len(grown[2]) for grown in (*first, *others)]
        seconds = sum(count * self.tree_seconds(s) for s, count in zip(settings, counts, strict=True))
        kept = (first[best], *others)
        end = _best_end([losses for *_, losses in kept])
        return [(joined(trees[:end], len(self.levels)), constant) for trees, constant, _ in kept], seconds

    def trees(self, setting: Setting) -> int:
        """Return how many trees of each output a fold may have."""
        binning = BINNING * self.fold.size * self.asked(setting).size
        each = self.budget / (FOLDS + len(SETTINGS) - 1) - binning
        return max(min(TREES[1], int(each / self.tree_seconds(setting))), 0)

    def tree_seconds(self, setting: Setting) -> float:
        """Return what a tree for each output takes on the nominal machine."""
        return tree_seconds(setting, self.fold.size, self.asked(setting).size, self.response.targets.shape[1])

    def asked(self, setting: Setting) -> NDArray[np.intp]:
        """Which of the codes and columns trees see: of a short category, the code instead of its columns."""
        q, skipped = len(self.levels), 0 if setting.codes else len(self.means)
        short = [level for level in self.levels if isinstance(level, FewLevels)]
        hidden = [level.place + np.arange(level.width) for level in short]
        columns = np.setdiff1d(np.arange(self.Z.shape[1]), np.concatenate(hidden) if hidden else [])
        return np.r_[skipped:q, q + columns]

    def without(self, k: int) -> Array:
        """Codes and columns for trees that leave out a fold, whose rows must not count in mean targets: → (n, q + d).

        Other rows have means of those before them in a random order. The rows left out keep theirs.
        """
        rows, (learn,) = with_codes(self.Z, self.levels), np.nonzero(self.fold != k)
        weights = self.response.weights_of(learn)
        weights = np.ones(learn.size) if weights is None else weights
        order = np.random.default_rng([self.seed, k]).permutation(learn.size)
        for means in self.means:
            at = len(self.levels) + means.place
            found = means.encoder.in_order(means.at[learn], self.response.targets[learn], weights, order)
            rows[learn, at : at + means.encoder.width] = found
        return rows

    def grown(self, setting: Setting, k: int, clock: Clock) -> tuple[list[Trees], Array, Array]:
        """Return the trees that leave out a fold, their constant, and their loss there after each."""
        learn, left_out = np.flatnonzero(self.fold != k), np.flatnonzero(self.fold == k)
        rows, asked, codes = self.without(k), self.asked(setting), len(self.levels)
        rows, others = rows[learn], rows[left_out]
        known = {int(j): np.unique(rows[:, j]).astype(np.intp) for j in asked if j < codes}
        trees, classes = self.trees(setting), isinstance(self.response, Classes)
        labels = self.response.codes[learn] if classes else self.response.targets[learn, 0]
        make = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
        model = make(
            learning_rate=float(np.clip(TOTAL / trees, *RATES)),
            max_leaf_nodes=setting.leaves,
            min_samples_leaf=setting.rows,
            l2_regularization=setting.shrinkage,
            max_features=0.5,
            categorical_features=list(range(len(known))) or None,
            early_stopping=False,
            warm_start=True,
            random_state=(self.seed + k) % 2**31,
        )
        found: list[Trees] = []
        losses: list[float] = []
        constant, out = np.zeros(0), np.zeros((0, 0))
        while len(found) < trees and (not losses or len(losses) - np.argmin(losses) <= PATIENCE):
            if clock.expired:
                if not found:
                    raise TimeoutError("no time left for a forest.")
                break
            model.set_params(max_iter=min(len(found) + max(CHUNK, int(GROWTH * len(found))), trees))
            with threadpool_limits(1, "openmp"):  # of each fold: threads would wait for those of other folds
                model.fit(rows[:, asked], labels, self.response.weights_of(learn))
            constant, more = _grown_trees(model, len(found), rows, known, asked, codes)
            out = out if found else np.tile(constant, (left_out.size, 1))
            for each in more:
                found.append(each)
                add_trees(others, codes, *each, out)
                losses.append(self._loss(out, left_out))
        return found, constant, np.array(losses)

    def _loss(self, F: Array, rows: NDArray[np.intp]) -> float:
        """The mean loss of some rows: F (m, c)."""
        weights = self.response.weights_of(rows)
        if isinstance(self.response, Classes):
            logs = log_softmax(np.hstack([np.zeros_like(F), F]) if F.shape[1] == 1 else F, axis=1)
            return log_loss(self.response.codes[rows], logs, weights)
        return float(np.average((self.response.targets[rows, 0] - F[:, 0]) ** 2, weights=weights))


def _best_end(losses: Sequence[Array]) -> int:
    """The number of trees of the least mean loss over folds; a fold that has ended has none after."""
    most = max(each.size for each in losses)
    return 1 + int(np.argmin(sum(np.pad(each, (0, most - each.size), mode="edge") for each in losses)))


def _grown_trees(
    model: Any, before: int, rows: Array, known: Mapping[int, NDArray[np.intp]], asked: NDArray[np.intp], codes: int
) -> tuple[Array, list[Trees]]:
    """The constant of a model of scikit-learn, and its trees after some, for all outputs together: rows (n, q + d).

    There is no public way to them, so that what is read is compared with what the model says.
    """
    try:
        constant = np.ravel(model._baseline_prediction)
        found = [joined([_tree(tree, known, asked) for tree in each], codes) for each in model._predictors[before:]]
    except (AttributeError, ValueError, IndexError) as error:
        raise UnreadableTreesError(f"{type(error).__name__}: {error}") from error
    if not before:
        some = rows[:COMPARED]
        told = (model.decision_function if hasattr(model, "classes_") else model.predict)(some[:, asked])
        out = np.tile(constant, (some.shape[0], 1))
        add_trees(some, codes, *joined(found, codes), out)
        if not np.allclose(out, np.reshape(told, out.shape)):
            raise UnreadableTreesError("they do not add up to its predictions")
    return constant, found


def _tree(tree: Any, known: Mapping[int, NDArray[np.intp]], asked: NDArray[np.intp]) -> Trees:
    """A tree of scikit-learn, whose codes are places among the known ones, as arrays."""
    nodes, leaf = tree.nodes, tree.nodes["is_leaf"].astype(bool)
    columns = np.where(leaf, -1, asked[nodes["feature_idx"]]).astype(np.int32)
    bits = np.unpackbits(tree.raw_left_cat_bitsets.view(np.uint8), axis=1, bitorder="little")
    by_code = ~leaf & (nodes["is_categorical"] > 0)
    sets = np.zeros_like(bits)
    for column, place in zip(columns[by_code].tolist(), nodes["bitset_idx"][by_code], strict=True):
        sets[place, known[column]] = bits[place, : known[column].size]
    thresholds = np.where(by_code, nodes["bitset_idx"], nodes["num_threshold"])
    children = np.stack([nodes["left"], nodes["right"]], axis=1).astype(np.int32)
    packed, root = np.packbits(sets, axis=1).reshape(-1, BINS // 8), np.zeros(1, np.int32)
    return Trees(columns, np.where(leaf, nodes["value"], thresholds), children, packed, root)


def joined(parts: Sequence[Trees], codes: int) -> Trees:
    """Return the trees of several parts as one."""
    at = np.cumsum([0, *(part.columns.size for part in parts)]).astype(np.int32)
    sets = np.cumsum([0, *(part.sets.shape[0] for part in parts)])
    moved = []
    for part, a, s in zip(parts, at, sets, strict=False):
        by_code = (part.columns >= 0) & (part.columns < codes)
        moved.append(Trees(part.columns, part.thresholds + s * by_code, part.children + a, part.sets, part.roots + a))
    return Trees(*(np.concatenate(each) for each in zip(*moved, strict=True)))


@compiled(nogil=True)
def add_trees(
    rows: Any, codes: int, columns: Any, thresholds: Any, children: Any, sets: Any, roots: Any, out: Any
) -> None:
    """Add the values of trees to ``out`` (n, c): rows (n, q + d), the other arrays as in ``Trees``."""
    for i in range(out.shape[0]):
        for t in range(roots.size):
            node = roots[t]
            while columns[node] >= 0:
                z = rows[i, columns[node]]
                if columns[node] < codes:
                    code = int(z)
                    yes = (sets[int(thresholds[node]), code >> 3] >> (7 - (code & 7))) & 1 == 1
                else:
                    yes = z <= thresholds[node]
                node = children[node, 0] if yes else children[node, 1]
            out[i, t % out.shape[1]] += thresholds[node]
