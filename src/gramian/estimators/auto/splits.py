"""Splits that a user asks for: a splitter of scikit-learn, pairs of rows, or groups that stay together."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv

Rows = NDArray[np.intp]
Split = tuple[Rows, Rows]


def splits_asked_for(cv: Any, codes: Any, n: int, groups: Any, seed: int) -> list[Split] | None:
    """Return rows to learn from and rows held out, one pair for each fold; None where a number says all.

    ``codes`` are classes that folds should hold equal shares of, or None.
    """
    if groups is not None:
        groups = np.unique(groups.astype(str) if groups.dtype == object else groups, return_inverse=True)[1]
    if isinstance(cv, Integral):
        if groups is None:
            return None
        cv = _by_groups(int(cv), codes is not None, int(groups.max()) + 1, seed)
    y = np.zeros(n) if codes is None else codes
    made = check_cv(cv, y, classifier=codes is not None).split(np.zeros((n, 1)), y, groups)
    return [(_checked(train, n), _checked(test, n)) for train, test in made]


def among(cv: Any, kept: Rows, n: int) -> Any:
    """Return splits of n rows as those of the rows that are kept; numbers and splitters stay."""
    if isinstance(cv, Integral) or hasattr(cv, "split") or kept.size == n:
        return cv
    place = np.full(n, -1, dtype=np.intp)
    place[kept] = np.arange(kept.size)
    found = [[place[_checked(part, n)] for part in pair] for pair in cv]
    return [tuple(part[part >= 0] for part in pair) for pair in found]


def _by_groups(folds: int, classes: bool, groups: int, seed: int) -> Any:
    if groups < 2:
        raise ValueError("all rows are of one group, so none can be held out; leave groups out, or pass more of them.")
    folds = min(folds, groups)
    if classes:
        return StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    return GroupKFold(folds, shuffle=True, random_state=seed)


def _checked(rows: Any, n: int) -> Rows:
    rows = np.asarray(rows)
    rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.intp)
    if rows.size == 0 or rows.min() < 0 or rows.max() >= n:
        raise ValueError(f"cv must give pairs of rows between 0 and {n - 1}, none of them empty, got {rows!r:.80}.")
    return rows
