"""Cross-validated losses of a machine along a grid of lam."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import PredefinedSplit
from sklearn.model_selection._split import _CVIterableWrapper

from gramian.data.passes import Held, Part
from gramian.estimators.base import as_grid, rows_of
from gramian.gram import Gram
from gramian.kernels import Kernel
from gramian.kernels.resolve import is_precomputed
from gramian.solvers.in_features.objective import Targets
from gramian.solvers.machine.data_term import DataFit
from gramian.solvers.machine.penalties import Goal

if TYPE_CHECKING:
    from gramian.estimators.machine.base import Exact, InFeatures

Array = NDArray[np.float64]
GRID = np.logspace(0, -6, 13)
"""The grid of lam="cv", in units of the mean of k(x, x)."""


def losses_of_lams(
    whole: Exact | InFeatures,
    place_of: Callable[[Held, Kernel], AbstractContextManager[Exact | InFeatures]],
    targets: Targets,
    goal: Goal,
    folds: Any,
    lams: Any,
    memory: int | str | None,
) -> tuple[Array, Array]:
    """Return the grid, from the largest lam down with warm starts, and the mean losses on held-out rows: (g,), (g,)."""
    rows, kernel = whole.rows, whole.kernel
    y, weights = np.asarray(rows.y), rows.weights
    X = rows.X[:, rows.index] if is_precomputed(kernel) else rows.X
    if lams is None:
        grid = GRID * (float(np.mean(Gram(kernel, X).diagonal())) or 1.0)
    else:
        grid = np.sort(as_grid("lams", lams))[::-1]
    total, held_out = np.zeros(grid.size), 0.0
    for train, test in _splits(folds, y, rows.index):
        fold = Held(rows_of(kernel, X, train), y[train], weights[train], memory=memory)
        left = X[test][:, train] if is_precomputed(kernel) else X[test]
        columns, shares = targets.of(Part(left, y[test], weights[test], test))
        held_out += float(shares.sum())
        with place_of(fold, kernel) as place:
            starts: list[Any] = [None] * len(columns)
            for i, lam in enumerate(grid):
                fitted: Any = place.solve(replace(goal, strength=float(lam)), targets, starts, final=False)
                starts = [each.start for each in fitted]
                found = zip(targets.losses, columns, place.values(fitted, left), strict=True)
                total[i] += sum(DataFit(loss, column, shares).value(f) for loss, column, f in found)
    return grid, total / held_out


def _splits(folds: Any, y: NDArray[Any], kept: NDArray[np.intp]) -> Iterator[Any]:
    """Training and test rows of each fold; folds given by the user count rows of weight zero too."""
    for fold in folds.split(np.zeros((len(y), 1)), y):
        if isinstance(folds, PredefinedSplit | _CVIterableWrapper):
            yield [_places(kept, np.asarray(part)) for part in fold]
        else:
            yield fold


def _places(kept: NDArray[np.intp], part: NDArray[Any]) -> NDArray[np.intp]:
    """The places of some rows, given by index or as a mask, among those that are kept."""
    part = np.flatnonzero(part) if part.dtype == bool else part
    places = np.minimum(np.searchsorted(kept, part), kept.size - 1)
    return places[kept[places] == part]
