"""Whole grids: ``KernelSearchCV`` against ``GridSearchCV`` over scikit-learn's estimators, and over our own.

In processor seconds of one process, which two workers of ``GridSearchCV`` would share as our two threads share ours.
The peer is given one of the five folds, unless ``SEARCH_FOLDS=5`` asks for all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn import kernel_ridge, svm
from sklearn.base import is_classifier
from sklearn.model_selection import GridSearchCV, check_cv

from benchmarks.data import load
from benchmarks.harness import Comparison, case
from gramian import SVC, KernelRidge
from gramian.model_selection import KernelSearchCV

ROWS = int(os.environ.get("SEARCH_ROWS", "5000"))
WIDTHS = int(os.environ.get("SEARCH_WIDTHS", "10"))
"""Values of gamma; two, for a form that takes minutes."""
FOLDS = int(os.environ.get("SEARCH_FOLDS", "1"))
"""How many of the five folds the peer is given."""


@case("search")
def search() -> Iterator[Comparison]:
    """Grids of two parameters with five folds on kin40k, its targets cut at the median for classes."""
    split = load("kin40k")
    X, y = split.X_train[:ROWS], split.y_train[:ROWS]
    labels = (y > np.median(y)).astype(int)
    margins = {"C": np.logspace(-1, 3, 10), "gamma": np.logspace(-2, 0, WIDTHS)}
    ridges = {"alpha": np.logspace(-3, 2, 10), "gamma": np.logspace(-2, 0, WIDTHS)}
    theirs = kernel_ridge.KernelRidge(kernel="rbf")
    yield compared(SVC(), svm.SVC(), margins, X, labels, "GridSearchCV(SVC)", split.source)
    yield compared(SVC(), SVC(), margins, X, labels, "GridSearchCV(our SVC)", split.source)
    yield compared(KernelRidge(kernel="rbf"), theirs, ridges, X, y, "GridSearchCV(KernelRidge)", split.source)


def compared(ours: Any, theirs: Any, grid: Any, X: Any, y: Any, against: str, source: str) -> Comparison:
    """One search beside another over the same grid, without the last fit."""
    folds = list(check_cv(5, y, classifier=is_classifier(ours)).split(X, y))
    return Comparison(
        name=f"{type(ours).__name__}, 10 x {WIDTHS} x 5 fits, n={len(X)} d={X.shape[1]}, processor seconds",
        ours=lambda: KernelSearchCV(ours, grid, refit=False, cv=folds).fit(X, y),
        peer=lambda: GridSearchCV(theirs, grid, refit=False, cv=folds[:FOLDS]).fit(X, y),
        against=against if FOLDS == 5 else f"{against}, {FOLDS} of 5 folds times {5 / FOLDS:g}",
        quality=agreement,
        data=source,
        once=True,
        clock=time.process_time,
        share=FOLDS / 5,
    )


def agreement(ours: Any, theirs: Any) -> str:
    """The largest difference of scores on the folds that both had, and whether the same candidate is the best there."""
    means = [
        np.mean([search.cv_results_[f"split{k}_test_score"] for k in range(FOLDS)], axis=0) for search in (ours, theirs)
    ]
    same = "same" if np.argmax(means[0]) == np.argmax(means[1]) else "another"
    return f"scores within {np.abs(means[0] - means[1]).max():.0e}, {same} best"
