"""A cross-fitted forest of boosted trees, whose predictions are more columns for the machines of a search.

Smooth kernels cannot follow thresholds and products of categories; trees can. They are grown by scikit-learn's
histogram boosting and kept as arrays. A training row is predicted by trees that were grown without its fold, so that
it never sees its own target; a new row by all trees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from gramian.compiled import compiled
from gramian.estimators.auto.columns import Encoding
from gramian.estimators.auto.encoders import LevelMeans
from gramian.estimators.auto.fits import Resources
from gramian.estimators.auto.metrics import log_loss
from gramian.estimators.auto.response import Classes, Response
from gramian.estimators.auto.row_hashes import Folds
from gramian.progress import Clock
from gramian.resources import run, worker_count

Array = NDArray[np.float64]

FOLDS = 5
CODES = 254
"""Levels of a category that trees tell apart; the others share a code."""
TOTAL, RATES = 30.0, (0.05, 0.2)
"""The learning rate is this divided by the number of trees, within these bounds."""
PATIENCE, CHUNK = 40, 50
"""Boosting ends where so many trees have not improved predictions of the rows left out, which is looked at after so
many trees."""
TREES = (60, 1000)
"""Fewer trees than the first are not worth their time; more than the second are not grown."""
LEAST_ROWS, MOST_CLASSES = 1000, 10
"""Without so many different rows, or with more classes, no forest is grown."""
SHARE, DEADLINE = 0.2, 0.35
"""The share of the time limit that counts give to the forest, and the share at which the clock ends it."""
SPEED, BINS = 0.9e9, 256
"""Sums into histograms in a second of the nominal machine, and bins of a histogram."""
UNLIMITED = 300.0
"""Seconds from which the time of the forest is counted where there is no limit."""


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


def level_codes(encoding: Encoding, Z: Array) -> tuple[LevelCodes, ...]:
    """Return codes for the levels that are read by mean targets, the frequent ones first: Z (n, d) the training rows.

    Every fold has means of its own. Levels of equal means share a code; they have few rows.
    """
    found, place = [], 0
    for column in encoding.columns:
        if isinstance(column, LevelMeans):
            table = column.means.reshape(-1, len(column.levels) + 2, column.width)[:, :, 0]
            means, first = np.unique(table, return_index=True)
            known = LevelCodes(place, means, (first % table.shape[1]).astype(np.int32))
            order = np.argsort(-np.bincount(known(Z), minlength=table.shape[1]), kind="stable")
            codes = np.minimum(np.argsort(order), CODES).astype(np.int32)
            found.append(replace(known, codes=codes[known.codes]))
        place += column.width
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Forest:
    """Scaled columns, and beside them the predictions of boosted trees; or these alone."""

    scaling: Any  # Of the columns; None where there are predictions alone
    levels: tuple[LevelCodes, ...]  # Codes that trees may ask about
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
        predicted = self.predictions(Z) / self.deviation
        return predicted if self.scaling is None else np.hstack([self.scaling.transform(Z), predicted])

    def predictions(self, Z: Array) -> Array:
        """Return predictions by the trees grown without a row's fold, or the mean over folds: Z (n, d) → (n, c)."""
        out, fold = np.zeros((Z.shape[0], self.constants.shape[1])), self.folds(Z)
        asked, nodes = with_codes(Z, self.levels), (self.columns, self.thresholds, self.children, self.sets)
        for k, constant in enumerate(self.constants):
            (rows,) = np.nonzero((fold == k) | (fold < 0))
            total = np.tile(constant, (rows.size, 1))
            add_trees(asked[rows], len(self.levels), *nodes, self.roots[slice(*self.starts[k : k + 2])], total)
            out[rows] += total / np.where(fold[rows] < 0, self.folds.count, 1)[:, None]
        return out


def with_codes(Z: Array, levels: Sequence[LevelCodes]) -> Array:
    """Return codes and columns side by side: Z (n, d) → (n, q + d)."""
    return np.column_stack([*(codes(Z) for codes in levels), Z])


def tree_seconds(setting: Setting, n: int, d: int, outputs: int) -> float:
    """Return what a tree for each output takes on the nominal machine."""
    return outputs * d * (n * math.log2(setting.leaves) + 2.0 * BINS * setting.leaves) / SPEED


def affordable_trees(Z: Array, response: Response, limit: float | None) -> int:
    """Return how many trees each fold may have; zero where a forest is not worth its time."""
    (n, d), outputs = Z.shape, response.targets.shape[1]
    if n < LEAST_ROWS or outputs > MOST_CLASSES:
        return 0
    budget, runs = SHARE * (UNLIMITED if limit is None else limit), FOLDS + len(SETTINGS) - 1
    trees = min(TREES[1], int(budget / (runs * tree_seconds(SETTINGS[0], n, d, outputs))))
    return trees if trees >= TREES[0] else 0


def grow_forest(
    scaling: Any, encoding: Encoding, Z: Array, response: Response, limit: float | None, resources: Resources
) -> tuple[Forest | None, float]:
    """Grow trees for each fold on the other folds, and return what that takes on the nominal machine: Z (n, d).

    There is no forest where rows are few, or where counts or the clock leave no time for it.
    """
    trees, folds = affordable_trees(Z, response, limit), Folds.of_rows(Z, FOLDS)
    fold, labels = folds(Z), response.codes if isinstance(response, Classes) else response.targets[:, 0]
    few = isinstance(response, Classes) and any(
        np.unique(response.codes[fold != k]).size < response.count for k in range(FOLDS)
    )
    if not trees or few or folds.known.size < LEAST_ROWS:
        return None, 0.0
    levels = level_codes(encoding, Z)
    boosting = _Boosting(with_codes(Z, levels), len(levels), labels, response, fold, trees, resources.seed)
    try:
        parts, seconds = boosting.of_all_folds(resources.clock.share(DEADLINE), worker_count(resources.n_jobs))
    except TimeoutError:
        return None, 0.0
    nodes = joined([part for part, _ in parts], len(levels))
    starts, constants = np.cumsum([0, *(part.roots.size for part, _ in parts)]), np.stack([c for _, c in parts])
    made = Forest(scaling, levels, *nodes, starts, constants, np.ones(constants.shape[1]), folds)
    spread = made.predictions(Z).std(axis=0)
    return replace(made, deviation=np.where(spread > 0, spread, 1.0)), seconds


@dataclass(frozen=True, eq=False)
class _Boosting:
    """Trees that leave out a fold, by the rows left out."""

    rows: Array  # (n, q + d): Codes, then columns
    codes: int  # How many of the columns are codes
    labels: Any  # (n,)
    response: Response
    fold: NDArray[np.intp]  # (n,)
    trees: int  # For each output, at most
    seed: int

    def of_all_folds(self, clock: Clock, workers: int) -> tuple[list[tuple[Trees, Array]], float]:
        """Return trees and constants of all folds, by the setting that is best on the first, and nominal seconds."""
        tried = [s for s in SETTINGS if self.codes or not s.codes]
        tried += [LARGE] if not self.codes and self.fold.size >= MANY_ROWS else []
        first = run(lambda setting: self.grown(setting, 0, clock), tried, workers)
        best = min(range(len(tried)), key=lambda i: first[i][2])
        others = run(lambda k: self.grown(tried[best], k, clock), range(1, FOLDS), workers)
        settings, shape = [*tried, *(FOLDS - 1) * [tried[best]]], (*self.rows.shape, self.response.targets.shape[1])
        counts = [grown[3] for grown in (*first, *others)]
        seconds = sum(count * tree_seconds(s, *shape) for s, count in zip(settings, counts, strict=True))
        return [(trees, constant) for trees, constant, *_ in (first[best], *others)], seconds

    def grown(self, setting: Setting, k: int, clock: Clock) -> tuple[Trees, Array, float, int]:
        """Return the trees that leave out a fold, their constant, their loss there, and how many were grown."""
        learn, left_out = np.flatnonzero(self.fold != k), np.flatnonzero(self.fold == k)
        skipped = 0 if setting.codes else self.codes
        rows, others, labels = self.rows[learn, skipped:], self.rows[left_out], self.labels[learn]
        known = [np.unique(rows[:, j]).astype(np.intp) for j in range(self.codes - skipped)]
        shape = (*self.rows.shape, self.response.targets.shape[1])
        trees = int(self.trees * min(tree_seconds(SETTINGS[0], *shape) / tree_seconds(setting, *shape), 1.0))
        make = HistGradientBoostingClassifier if isinstance(self.response, Classes) else HistGradientBoostingRegressor
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
                raise TimeoutError("no time left for a forest.")
            model.set_params(max_iter=min(len(found) + CHUNK, trees))
            with threadpool_limits(1, "openmp"):  # of each fold: threads would wait for those of other folds
                model.fit(rows, labels, self.response.weights_of(learn))
            if not found:  # scikit-learn has no public way to the nodes of its trees
                constant = np.ravel(model._baseline_prediction)
                out = np.tile(constant, (left_out.size, 1))
            for each in model._predictors[len(found) :]:
                found.append(joined([_tree(tree, known, skipped) for tree in each], self.codes))
                add_trees(others, self.codes, *found[-1], out)
                losses.append(self._loss(out, left_out))
        best = int(np.argmin(losses))
        return joined(found[: best + 1], self.codes), constant, losses[best], len(found)

    def _loss(self, F: Array, rows: NDArray[np.intp]) -> float:
        """The mean loss of some rows: F (m, c)."""
        weights = self.response.weights_of(rows)
        if isinstance(self.response, Classes):
            logs = log_softmax(np.hstack([np.zeros_like(F), F]) if F.shape[1] == 1 else F, axis=1)
            return log_loss(logs, self.response.codes[rows], weights)
        return float(np.average((self.response.targets[rows, 0] - F[:, 0]) ** 2, weights=weights))


def _tree(tree: Any, known: Sequence[NDArray[np.intp]], skipped: int) -> Trees:
    """A tree of scikit-learn, whose codes are places among the known ones, as arrays."""
    nodes, leaf = tree.nodes, tree.nodes["is_leaf"].astype(bool)
    columns = np.where(leaf, -1, nodes["feature_idx"] + skipped).astype(np.int32)
    bits = np.unpackbits(tree.raw_left_cat_bitsets.view(np.uint8), axis=1, bitorder="little")
    by_code = ~leaf & (nodes["is_categorical"] > 0)
    sets = np.zeros_like(bits)
    for column, place in zip(columns[by_code], nodes["bitset_idx"][by_code], strict=True):
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
