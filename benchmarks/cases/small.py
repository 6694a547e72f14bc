"""Small sets, where overheads are all there is: fit, and predict of one row, beside scikit-learn; and a grid search."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn import (
    datasets,
    decomposition,
    gaussian_process,
    kernel_approximation,
    kernel_ridge,
    mixture,
    model_selection,
    svm,
)
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import gramian
from benchmarks.harness import Comparison, case

TURNS = 7
SECONDS = 0.05
"""A timing takes about so long: the calls in a row follow from how long the peer takes."""
CLOCK = time.process_time if os.environ.get("SMALL_CLOCK") == "cpu" else time.perf_counter
"""``SMALL_CLOCK=cpu`` reads the processor seconds of all threads, for a machine that has other things to do."""

Data = tuple[np.ndarray, np.ndarray]


def twenty_classes() -> Data:
    """Twenty clouds of thirty rows that overlap."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(20), 30)
    return 2.0 * rng.standard_normal((20, 10))[y] + rng.standard_normal((600, 10)), y


def _scaled(load: Callable[..., Data]) -> Data:
    X, y = load(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


DATA: dict[str, Callable[[], Data]] = {
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "breast cancer": lambda: _scaled(datasets.load_breast_cancer),
    "20 classes": twenty_classes,
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True),
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "wine": lambda: _scaled(datasets.load_wine),
}
EVIDENCE = 1.0 * RBF(1.0) + WhiteKernel(0.1)
JOBS: list[tuple[str, Any, Any, dict[str, Any]]] = [
    ("digits", gramian.SVC, svm.SVC, {}),
    ("breast cancer", gramian.SVC, svm.SVC, {}),
    ("20 classes", gramian.SVC, svm.SVC, {}),
    ("iris", gramian.SVC, svm.SVC, {}),
    ("wine", gramian.NuSVC, svm.NuSVC, {"nu": 0.3}),
    ("diabetes", gramian.SVR, svm.SVR, {"C": 100.0}),
    ("diabetes", gramian.NuSVR, svm.NuSVR, {"C": 100.0}),
    ("digits", gramian.OneClassSVM, svm.OneClassSVM, {"nu": 0.1}),
    ("digits", gramian.Nystroem, kernel_approximation.Nystroem, {"gamma": 1e-3, "random_state": 0}),
    ("diabetes", gramian.KernelRidge, kernel_ridge.KernelRidge, {"kernel": "rbf", "alpha": 0.1}),
    (
        "diabetes",
        gramian.GaussianProcessRegressor,
        gaussian_process.GaussianProcessRegressor,
        {"kernel": EVIDENCE, "normalize_y": True},
    ),
    ("iris", gramian.GaussianProcessClassifier, gaussian_process.GaussianProcessClassifier, {"kernel": 1.0 * RBF(1.0)}),
    ("digits", gramian.KernelPCA, decomposition.KernelPCA, {"n_components": 10, "kernel": "rbf", "gamma": 1e-3}),
    ("iris", gramian.GaussianMixture, mixture.GaussianMixture, {"n_components": 3, "random_state": 0}),
]


@case("small")
def small() -> Iterator[Comparison]:
    """Every namesake on the sets that people try first, then a grid search and a cross-validation."""
    warnings.simplefilter("ignore")
    for name, *sides, parameters in JOBS:
        X, y = DATA[name]()
        yield from _fit_and_predict(f"{sides[0].__name__} {name}", X, y, *(side(**parameters) for side in sides))
    yield from _searches()


def _fit_and_predict(name: str, X: np.ndarray, y: np.ndarray, ours: Any, peer: Any) -> Iterator[Comparison]:
    fits = [lambda side=side: clone(side).fit(X, y) for side in (ours, peer)]
    yield _in_turns(f"{name}, fit", X, *fits, lambda a, b: _agreement(_answer(a)(X), _answer(b)(X)))
    answers, row = [_answer(fit()) for fit in fits], X[:1].copy()
    answers = [lambda answer=answer: answer(row) for answer in answers]
    yield _in_turns(f"{name}, {_answer(ours).__name__} of one row", X, *answers, _agreement)


def _in_turns(
    name: str, X: np.ndarray, ours: Callable[[], Any], peer: Callable[[], Any], quality: Callable[[Any, Any], str]
) -> Comparison:
    """The fastest of several timings, each of many calls where one takes milliseconds."""
    peer()
    start = time.process_time()
    peer()
    calls = int(SECONDS / (time.process_time() - start)) + 2
    shape = f"n={X.shape[0]} d={X.shape[1]}"
    return Comparison(name, ours, peer, "scikit-learn", quality, shape, repeats=TURNS, calls=calls, clock=CLOCK)


def _answer(model: Any) -> Callable[[Any], Any]:
    answer: Callable[[Any], Any] = model.predict if hasattr(model, "predict") else model.transform
    return answer


def _agreement(a: Any, b: Any) -> str:
    if np.asarray(a).dtype.kind in "iUO":
        return f"{np.mean(a != b):.2%} differ"
    if np.ndim(a) == 2:  # features and components have signs and landmarks of their own: what they span is compared
        a, b = a @ a.T, b @ b.T
    return f"{np.max(np.abs(a - b)) / np.max(np.abs(b)):.1e} rel"


def _searches() -> Iterator[Comparison]:
    X, y = DATA["digits"]()
    grid = {"C": [1.0, 10.0], "gamma": [1e-3, 3e-3]}
    for jobs in (None, 2):
        yield Comparison(
            name=f"GridSearchCV(SVC) digits, 4 settings, 5 folds, n_jobs={jobs}",
            ours=lambda jobs=jobs: model_selection.GridSearchCV(gramian.SVC(), grid, n_jobs=jobs).fit(X, y),
            peer=lambda jobs=jobs: model_selection.GridSearchCV(svm.SVC(), grid, n_jobs=jobs).fit(X, y),
            against="scikit-learn",
            quality=lambda a, b: f"best score {a.best_score_:.4f} / {b.best_score_:.4f}",
            data="n=1797 d=64",
            repeats=3,
            clock=CLOCK if jobs is None else time.perf_counter,  # of processes, this one sees only the wait
        )
    yield Comparison(
        name="cross_val_score(SVC) digits, 5 folds",
        ours=lambda: model_selection.cross_val_score(gramian.SVC(), X, y),
        peer=lambda: model_selection.cross_val_score(svm.SVC(), X, y),
        against="scikit-learn",
        data="n=1797 d=64",
        repeats=5,
        clock=CLOCK,
    )
