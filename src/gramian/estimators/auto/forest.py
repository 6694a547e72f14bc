"""A cross-fitted forest of boosted trees, whose predictions are more columns for the machines of a search.

Smooth kernels cannot follow thresholds and products of categories; trees can. The trees are symmetric: each of its
levels asks one question of all rows, so that a tree is a list of questions and a table of values. A training row is
predicted by trees that were grown without its fold, so that it never sees its own target; a new row by all trees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from gramian.compiled import compiled
from gramian.estimators.auto.candidates import Means
from gramian.estimators.auto.response import Classes, Response
from gramian.estimators.auto.row_hashes import Folds
from gramian.progress import Clock
from gramian.resources import run, worker_count

Array = NDArray[np.float64]

FOLDS = 5
DEPTH = 6
"""Questions of a tree."""
BINS = 250
"""Values of a column that questions tell apart, at most."""
NONE = 255
"""The bin of a question that all rows answer with no."""
COLUMNS = 0.6
"""The share of the columns that a question is chosen from, drawn anew for each."""
SHRINKAGE = 3.0
"""Rows of value zero that each leaf counts beside its own; for classes in units of the largest curvature, 1/4."""
TOTAL, RATES = 30.0, (0.05, 0.2)
"""The learning rate is this divided by the number of trees, within these bounds."""
PATIENCE = 40
"""Boosting ends where so many trees have not improved predictions of the rows left out."""
TREES = (60, 800)
"""Fewer trees than the first are not worth their time; more than the second are not grown."""
LEAST_ROWS, MOST_CLASSES = 1000, 10
"""Without so many different rows, or with more classes, no forest is grown."""
SHARE, DEADLINE = 0.15, 0.35
"""The share of the time limit that counts give to the forest, and the share at which the clock ends it."""
SPEED = 1e9
"""Sums into histograms in a second of the nominal machine."""
UNLIMITED = 300.0
"""Seconds from which the time of the forest is counted where there is no limit."""


@dataclass(frozen=True, eq=False)
class Forest:
    """Scaled columns, and beside them the predictions of boosted trees."""

    scaling: Any  # Of the columns
    columns: NDArray[np.intp]  # (t, depth): Which column each question is about
    thresholds: Array  # (t, depth): Whether it exceeds this
    values: Array  # (t, 2^depth, c): By the answers, the first the lowest bit
    starts: NDArray[np.intp]  # (folds + 1,): Where the trees of each fold begin and end
    constants: Array  # (folds, c)
    deviation: Array  # (c,): Of the predictions
    folds: Folds  # Which rows the trees were grown without

    @property
    def places(self) -> NDArray[np.intp]:
        """Which columns are scaled."""
        return np.asarray(self.scaling.places)

    def transform(self, Z: Array) -> Array:
        """Return the scaled rows and their predictions: Z (n, d) → (n, d + c)."""
        return np.hstack([self.scaling.transform(Z), self.predictions(Z) / self.deviation])

    def predictions(self, Z: Array) -> Array:
        """Return predictions by the trees grown without a row's fold, or the mean over folds: Z (n, d) → (n, c)."""
        out, fold = np.zeros((Z.shape[0], self.values.shape[2])), self.folds(Z)
        for k, constant in enumerate(self.constants):
            (rows,) = np.nonzero((fold == k) | (fold < 0))
            some, total = slice(*self.starts[k : k + 2]), np.tile(constant, (rows.size, 1))
            trees = self.columns[some], self.thresholds[some], self.values[some]
            add_trees(np.ascontiguousarray(Z[rows].T), *trees, total)
            out[rows] += total / np.where(fold[rows] < 0, self.folds.count, 1)[:, None]
        return out


def forest_seconds(trees: int, n: int, d: int, outputs: int) -> float:
    """Return what so many trees, those of all folds together, take on the nominal machine."""
    return trees * DEPTH * n * math.ceil(COLUMNS * d) * (outputs + 1) / SPEED


def affordable_trees(Z: Array, response: Response, limit: float | None) -> int:
    """Return how many trees each fold may have; zero where a forest is not worth its time."""
    (n, d), outputs = Z.shape, response.targets.shape[1]
    if n < LEAST_ROWS or outputs > MOST_CLASSES:
        return 0
    budget = SHARE * (UNLIMITED if limit is None else limit)
    trees = min(TREES[1], int(budget / forest_seconds(FOLDS, n, d, outputs)))
    return trees if trees >= TREES[0] else 0


def grow_forest(
    scaling: Any, Z: Array, response: Response, limit: float | None, means: Means
) -> tuple[Forest | None, float]:
    """Grow trees for each fold on the other folds, and return what that takes on the nominal machine: Z (n, d).

    There is no forest where rows are few, or where counts or the clock leave no time for it.
    """
    if not (trees := affordable_trees(Z, response, limit)):
        return None, 0.0
    borders = [_borders(column) for column in Z.T]
    binned = np.stack([np.searchsorted(b, z).astype(np.uint8) for b, z in zip(borders, Z.T, strict=True)])
    folds = Folds.of_rows(Z, FOLDS)
    if folds.known.size < LEAST_ROWS:
        return None, 0.0
    sizes, end = np.array([b.size + 1 for b in borders]), means.clock.share(DEADLINE)
    grow = partial(_boosted, binned, sizes, response, folds(Z), trees, means.seed, end)
    try:
        parts = run(grow, range(FOLDS), worker_count(means.n_jobs))
    except TimeoutError:
        return None, 0.0
    columns, bins, values = (np.concatenate([part[i] for part in parts]) for i in range(3))
    wide = np.full((len(borders), NONE + 1), np.inf)
    for row, b in zip(wide, borders, strict=True):
        row[: b.size] = b
    starts = np.cumsum([0, *(part[0].shape[0] for part in parts)])
    constants = np.stack([part[3] for part in parts])
    made = Forest(scaling, columns, wide[columns, bins], values, starts, constants, np.ones(values.shape[2]), folds)
    spread = made.predictions(Z).std(axis=0)
    seconds = forest_seconds(int(starts[-1]) + FOLDS * PATIENCE, Z.shape[0], Z.shape[1], values.shape[2])
    return replace(made, deviation=np.where(spread > 0, spread, 1.0)), seconds


def _borders(z: Array) -> Array:
    """Thresholds between the values of a column: all of few values, else between quantiles."""
    values = np.unique(z)
    if values.size > BINS:
        cut = np.unique(np.quantile(z, np.linspace(0.0, 1.0, BINS + 1)[1:-1], method="lower"))
        after = values[np.minimum(np.searchsorted(values, cut, side="right"), values.size - 1)]
        return np.unique(0.5 * (cut + after))
    return np.asarray(0.5 * (values[1:] + values[:-1]))


def _boosted(
    binned: NDArray[np.uint8], sizes: Any, response: Response, folds: Any, trees: int, seed: int, clock: Clock, k: int
) -> tuple[Any, Any, Array, Array]:
    """Columns, bins and values of the trees that leave out a fold, and their constant."""
    learn, left_out = np.flatnonzero(folds != k), np.flatnonzero(folds == k)
    loss, rng = _Loss(response), np.random.default_rng([seed, k])
    rows, others, d = np.ascontiguousarray(binned[:, learn]), np.ascontiguousarray(binned[:, left_out]), len(sizes)
    counts = np.ones(learn.size) if response.weights is None else response.weights[learn]
    rate = float(np.clip(TOTAL / trees, *RATES))
    constant = loss.constant(learn, counts)
    F, out = np.tile(constant, (learn.size, 1)), np.tile(constant, (left_out.size, 1))
    found: list[tuple[Any, Any, Array]] = []
    best, kept = loss.mean(out, left_out), 0
    while len(found) < trees and len(found) - kept < PATIENCE:
        if clock.expired:
            raise TimeoutError("no time left for a forest.")
        G, H = loss.slope(F, learn)
        weights = counts * rng.exponential(size=learn.size)  # the Bayesian bootstrap
        asked = np.stack([rng.permutation(d)[: math.ceil(COLUMNS * d)] for _ in range(DEPTH)])
        columns, bins, leaves = grow_tree(rows, sizes, G, weights, asked, SHRINKAGE)
        values = rate * leaf_values(leaves, G * counts[:, None], H * counts[:, None], loss.least, 1 << DEPTH)
        F += values[leaves]
        add_trees(others, columns[None], bins[None], values[None], out)
        found.append((columns, bins, values))
        if (score := loss.mean(out, left_out)) < best:
            best, kept = score, len(found)
    found = found[: max(kept, 1)]
    return *(np.stack([tree[i] for tree in found]) for i in range(3)), constant  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class _Loss:
    """Squared error of numbers, or the logistic loss of classes; of two classes, of one function."""

    response: Response

    @property
    def least(self) -> float:
        """What shrinks the values of leaves, in units of curvature."""
        return 0.25 * SHRINKAGE if isinstance(self.response, Classes) else SHRINKAGE

    def _hot(self, rows: Any) -> Array:
        codes, outputs = self.response.codes[rows], self.response.targets.shape[1]
        return np.asarray(codes[:, None] == np.arange(outputs) + (outputs == 1), dtype=np.float64)

    def _shares(self, F: Array) -> Array:
        whole = softmax(np.hstack([np.zeros_like(F), F]) if F.shape[1] == 1 else F, axis=1)
        return whole[:, 1:] if F.shape[1] == 1 else whole

    def constant(self, rows: Any, counts: Array) -> Array:
        """Return what is predicted before the first tree: (c,)."""
        if not isinstance(self.response, Classes):
            return np.average(self.response.targets[rows], axis=0, weights=counts)
        shares = np.clip(np.average(self._hot(rows), axis=0, weights=counts), 1e-6, 1.0 - 1e-6)
        return np.log(shares / (1.0 - shares)) if shares.size == 1 else np.log(shares)

    def slope(self, F: Array, rows: Any) -> tuple[Array, Array]:
        """Return the negative gradient and the curvature: F (m, c) → (m, c) each."""
        if not isinstance(self.response, Classes):
            return self.response.targets[rows] - F, np.ones_like(F)
        P = self._shares(F)
        return self._hot(rows) - P, np.maximum(P * (1.0 - P), 1e-6)

    def mean(self, F: Array, rows: Any) -> float:
        """Return the mean loss of some rows."""
        weights = self.response.weights_of(rows)
        if not isinstance(self.response, Classes):
            return float(np.average(np.sum((self.response.targets[rows] - F) ** 2, axis=1), weights=weights))
        P, hot = self._shares(F), self._hot(rows)
        own = np.sum(P * hot, axis=1) if F.shape[1] > 1 else np.where(hot[:, 0] > 0, P[:, 0], 1.0 - P[:, 0])
        return float(np.average(-np.log(np.maximum(own, 1e-15)), weights=weights))


# ---- compiled -----------------------------------------------------------------------------------------------------


@compiled(nogil=True, error_model="numpy")
def grow_tree(binned: Any, sizes: Any, G: Any, weights: Any, asked: Any, shrinkage: float) -> Any:
    """Choose the questions of a tree one by one, each the one of the largest gain: binned (d, n), G (n, c).

    Returns columns and bins of the questions (depth,), and the leaf of each row (n,).
    """
    depth, (n, c) = asked.shape[0], G.shape
    leaves, columns, bins = np.zeros(n, np.intp), np.zeros(depth, np.intp), np.zeros(depth, np.intp)
    for level in range(depth):
        best = -1.0
        bins[level] = NONE
        for f in asked[level]:
            size = sizes[f]
            if size < 2:
                continue
            sums = np.zeros((1 << level, size, c + 1))
            for i in range(n):
                cell = sums[leaves[i], binned[f, i]]
                for j in range(c):
                    cell[j] += weights[i] * G[i, j]
                cell[c] += weights[i]
            gain = np.zeros(size - 1)
            for leaf in range(1 << level):
                whole, part = np.zeros(c + 1), np.zeros(c + 1)
                for b in range(size):
                    for j in range(c + 1):
                        whole[j] += sums[leaf, b, j]
                for b in range(size - 1):
                    for j in range(c + 1):
                        part[j] += sums[leaf, b, j]
                    for j in range(c):
                        rest = whole[j] - part[j]
                        gain[b] += part[j] ** 2 / (part[c] + shrinkage) + rest**2 / (whole[c] - part[c] + shrinkage)
            b = int(np.argmax(gain))
            if gain[b] > best:
                best = gain[b]
                columns[level], bins[level] = f, b
        for i in range(n):
            if binned[columns[level], i] > bins[level]:
                leaves[i] += 1 << level
    return columns, bins, leaves


@compiled(nogil=True, error_model="numpy")
def leaf_values(leaves: Any, G: Any, H: Any, least: float, count: int) -> Any:
    """One Newton step in each leaf: G, H (n, c) → (count, c)."""
    up, down = np.zeros((count, G.shape[1])), np.full((count, G.shape[1]), least)
    for i in range(leaves.size):
        for j in range(G.shape[1]):
            up[leaves[i], j] += G[i, j]
            down[leaves[i], j] += H[i, j]
    return up / down


@compiled(nogil=True)
def add_trees(Z: Any, columns: Any, thresholds: Any, values: Any, out: Any) -> None:
    """Add the values of trees to ``out`` (n, c): Z (d, n), the other arrays with one row for each tree."""
    leaves = np.zeros(out.shape[0], np.intp)
    for t in range(columns.shape[0]):
        leaves[:] = 0
        for level in range(columns.shape[1]):
            column, threshold = Z[columns[t, level]], thresholds[t, level]
            for i in range(leaves.size):
                if column[i] > threshold:
                    leaves[i] += 1 << level
        for i in range(leaves.size):
            for j in range(out.shape[1]):
                out[i, j] += values[t, leaves[i], j]
