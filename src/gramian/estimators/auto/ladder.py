"""Rungs of successive halving: which rows candidates learn from and which they are judged by, few rows first."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold

from gramian.estimators.auto.fits import quiet
from gramian.estimators.auto.plans import Sizes
from gramian.estimators.auto.response import Response
from gramian.solvers.choice import factor_operations, nominal_seconds

Rows = NDArray[np.intp]

HELD_OUT = 4000
"""Where one part of the rows is held out, it has at most this many."""
STEP = 1.25
"""A rung is used where the table has this many times its rows."""
PARTS = 5
"""Where a user's splitter holds out one part, the spread of a score comes from so many pieces of it."""
SCREEN_ROWS = 150
"""From this many rows on, two of the folds decide which candidates are judged on all folds."""
TRIAL_FACTORS, SHARE = 15, 0.4
"""A rung is left out where this many factorisations, about one trial, take more than this share of the time limit."""
DEFAULT = Sizes()


@dataclass(frozen=True, eq=False)
class Rung:
    """Which rows to learn from, and which to judge by."""

    splits: list[tuple[Rows, Rows]]  # Rows to learn from, rows held out; several pairs are folds
    parts: list[Rows]  # Positions among all held-out rows
    rows: int  # Rows that take part
    asked: bool = False  # Whether a user chose the splits
    learns_kernels: bool = True  # Whether processes do so here; else they keep what fewer rows taught them

    @property
    def training_rows(self) -> int:
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
    """Return the rungs for n rows, by a user's splits where there are some; none is too slow for the time limit."""
    steps = _steps(response, n, cv, seed, sizes) if asked is None else _asked_steps(asked, n, seed, sizes)
    first, *others = steps
    most = math.inf if limit is None else SHARE * limit / TRIAL_FACTORS
    return [first, *(s for s in others if nominal_seconds(factor_operations(s.training_rows, inverse=True)) <= most)]


def larger(response: Response, n: int, cv: int, seed: int, memory: int, sizes: Sizes = DEFAULT) -> Rung | None:
    """Return a last rung of many rows, held-out ones not seen before; None where rows are too few, or K too large."""
    size = min(sizes.many, n - min(HELD_OUT, n // 4))
    if size < 2 * sizes.ladder[-1] or memory < np.dtype(float).itemsize * size**2:
        return None
    return replace(_held_out(_order(response, n, seed), size, cv), learns_kernels=False)


def _asked_steps(splits: Sequence[tuple[Rows, Rows]], n: int, seed: int, sizes: Sizes) -> list[Rung]:
    """All splits where rows are few; else parts of the split that holds out most rows, the last of several such."""
    if n <= sizes.folds:
        return _screened(replace(_rung(splits, n), asked=True))
    rng = np.random.default_rng(seed)
    train, test = (rng.permutation(part) for part in max(reversed(splits), key=lambda split: split[1].size))
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
    if steps[-1].training_rows < sizes.ladder[-1]:
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
