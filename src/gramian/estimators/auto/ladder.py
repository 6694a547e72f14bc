"""The ladder: rows that a candidate is tried on first, and those for candidates that did well."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold

from gramian.estimators.auto.machines import quiet
from gramian.estimators.auto.plans import Sizes
from gramian.estimators.auto.response import Response
from gramian.solvers.choice import factor_operations, nominal_seconds

__all__ = ["Rung", "rungs"]

Rows = NDArray[np.intp]

HELD_OUT = 4000
"""Rows to judge by at most, where a part is held out."""
STEP = 1.25
"""A step of the ladder is taken where there are this many times its rows."""
SCREEN_ROWS = 150
"""Rows from which two of the folds decide who is judged on all of them."""
TRIAL_FACTORS = 15
"""Factorisations that a trial takes, about."""
SHARE = 0.4
"""The part of the time limit that one trial may take by its count."""
DEFAULT = Sizes()


@dataclass(frozen=True, eq=False)
class Rung:
    """One step of the ladder: which rows to learn from and which to judge by."""

    splits: list[tuple[Rows, Rows]]  # Rows to learn from, rows held out; several pairs are folds
    parts: list[Rows]  # Positions among all held-out rows
    rows: int  # Rows that take part

    @property
    def learning(self) -> int:
        """Rows that a fit learns from."""
        return int(self.splits[0][0].size)

    @property
    def held_out(self) -> Rows:
        """All held-out rows, in the order of the splits."""
        return np.concatenate([test for _, test in self.splits])


def rungs(
    response: Response, n: int, cv: int, seed: int, sizes: Sizes = DEFAULT, limit: float | None = None
) -> list[Rung]:
    """Lay out the steps for n rows; those that no time limit allows are left out."""
    steps = _steps(response, n, cv, seed, sizes)
    if limit is None:
        return steps
    trials = [nominal_seconds(TRIAL_FACTORS * factor_operations(s.learning, inverse=True)) for s in steps]
    return [s for i, (s, each) in enumerate(zip(steps, trials, strict=True)) if i == 0 or each <= SHARE * limit]


def _steps(response: Response, n: int, cv: int, seed: int, sizes: Sizes) -> list[Rung]:
    if n <= sizes.folds:
        folds = _folds(response, n, cv, seed)
        cheaper = Rung(folds.splits[:2], folds.parts[:2], n)
        return [cheaper, folds] if n >= SCREEN_ROWS and len(folds.splits) > 2 else [folds]
    order = _order(response, n, seed)
    steps = [_held_out(order, size, cv) for size in sizes.ladder if size * STEP <= n]
    if steps[-1].learning < sizes.ladder[-1]:
        steps.append(_held_out(order, int(0.8 * n), cv))
    return steps


def _order(response: Response, n: int, seed: int) -> Rows:
    """A random order in which every first part has about the classes' own shares."""
    rng = np.random.default_rng(seed)
    if response.strata is None:
        return rng.permutation(n)
    # Each class is spread evenly over [0, 1), from a random offset.
    at = np.empty(n)
    for code in np.unique(response.strata):
        (own,) = np.nonzero(response.strata == code)
        at[rng.permutation(own)] = (np.arange(own.size) + rng.random(own.size)) / own.size
    return np.argsort(at, kind="stable")


def _held_out(order: Rows, size: int, cv: int) -> Rung:
    test = order[size : size + HELD_OUT]
    parts = [np.arange(start, test.size, cv) for start in range(min(cv, test.size))]
    return Rung([(order[:size], test)], parts, size + test.size)


def _folds(response: Response, n: int, cv: int, seed: int) -> Rung:
    if response.strata is None:
        made: Any = KFold(min(cv, n), shuffle=True, random_state=seed).split(np.zeros(n))
    else:
        most = int(np.unique(response.strata, return_counts=True)[1].max())
        if most < 2:
            raise ValueError("every class has one row only, so none can be held out; pass more rows of each class.")
        folds = StratifiedKFold(min(cv, most), shuffle=True, random_state=seed)
        with quiet():  # it warns of classes with fewer rows than folds
            made = list(folds.split(np.zeros(n), response.strata))
    splits = [(np.asarray(train), np.asarray(test)) for train, test in made]
    ends = np.cumsum([0, *(test.size for _, test in splits)])
    return Rung(splits, [np.arange(a, b) for a, b in itertools.pairwise(ends)], n)
