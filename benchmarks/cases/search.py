"""Whole grids: ``KernelSearchCV`` against ``GridSearchCV`` over scikit-learn's estimators, and over our own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn import kernel_ridge, svm
from sklearn.model_selection import GridSearchCV

from benchmarks.data import load
from benchmarks.harness import Comparison, case
from gramian import SVC, KernelRidge
from gramian.model_selection import KernelSearchCV

ROWS = int(os.environ.get("SEARCH_ROWS", "5000"))
PENALTIES, WIDTHS = 10, int(os.environ.get("SEARCH_WIDTHS", "10"))
"""Values of the two parameters; ``SEARCH_WIDTHS=2`` for a form that takes minutes, not half an hour."""
JOBS = 2


@case("search")
def search() -> Iterator[Comparison]:
    """Grids of two parameters with five folds on kin40k, its targets cut at the median for classes."""
    split = load("kin40k")
    X, y = split.X_train[:ROWS], split.y_train[:ROWS]
    labels = (y > np.median(y)).astype(int)
    margins = {"C": np.logspace(-1, 3, PENALTIES), "gamma": np.logspace(-2, 0, WIDTHS)}
    ridges = {"alpha": np.logspace(-3, 2, PENALTIES), "gamma": np.logspace(-2, 0, WIDTHS)}
    what, name = f"{PENALTIES} x {WIDTHS} x 5 fits, n={ROWS} d=8", "GridSearchCV"
    ridge = kernel_ridge.KernelRidge(kernel="rbf")
    yield compared(f"SVC, {what}", SVC(), svm.SVC(), margins, X, labels, f"{name}(SVC), n_jobs={JOBS}", split.source)
    yield compared(f"SVC, {what}", SVC(), SVC(), margins, X, labels, f"{name}(our SVC), n_jobs={JOBS}", split.source)
    yield compared(
        f"KernelRidge, {what}",
        KernelRidge(kernel="rbf"),
        ridge,
        ridges,
        X,
        y,
        f"{name}(KernelRidge), n_jobs={JOBS}",
        split.source,
    )


def compared(name: str, ours: Any, theirs: Any, grid: Any, X: Any, y: Any, against: str, source: str) -> Comparison:
    """One search beside another over the same grid, without the last fit."""
    return Comparison(
        name=name,
        ours=lambda: KernelSearchCV(ours, grid, refit=False).fit(X, y),
        peer=lambda: GridSearchCV(theirs, grid, refit=False, n_jobs=JOBS).fit(X, y),
        against=against,
        quality=agreement,
        data=source,
        repeats=1,
    )


def agreement(ours: Any, theirs: Any) -> str:
    """The largest difference of mean scores, and whether the same candidate is the best."""
    apart = np.max(np.abs(ours.cv_results_["mean_test_score"] - theirs.cv_results_["mean_test_score"]))
    return f"scores within {apart:.0e}, {'same' if ours.best_params_ == theirs.best_params_ else 'another'} best"
