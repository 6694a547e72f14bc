"""Splits that a user asks for: a splitter of scikit-learn, pairs of rows, or groups that stay together."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Return splits of n rows as those of the rows that are kept, some repeatedly; numbers and splitters stay."""
    if isinstance(cv, Integral) or hasattr(cv, "split"):
        return cv
    order = np.argsort(kept, kind="stable")

    def places(part: Any) -> Rows:
        ends = (np.searchsorted(kept[order], _checked(part, n), side).tolist() for side in ("left", "right"))
        return np.sort(np.concatenate([order[a:b] for a, b in zip(*ends, strict=True)]))

    return [tuple(places(part) for part in pair) for pair in cv]


def repeated(weights: NDArray[np.float64], most: int) -> tuple[Rows, NDArray[np.float64]]:
    """Return rows as often as whole weights say, and what each then weighs; others, and too many, once and as before.

    Rows of weight zero are left out.
    """
    if np.all(weights == np.floor(weights)) and weights.sum() <= most:
        kept = np.repeat(np.arange(weights.size), weights.astype(np.intp))
        return kept, np.ones(kept.size)
    kept = np.flatnonzero(weights)
    return kept, weights[kept]


def own_order(keys: Sequence[NDArray[Any]]) -> Rows:
    """Return an order of rows that does not depend on the one they came in: keys (n,) each."""
    codes = [np.unique(_comparable(key), return_inverse=True)[1].ravel() for key in keys]
    return np.lexsort(codes[::-1])


def _comparable(values: NDArray[Any]) -> NDArray[Any]:
    """Objects as texts, which have an order."""
    return np.array([f"{type(v).__name__} {v}" for v in values]) if values.dtype == object else values


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
