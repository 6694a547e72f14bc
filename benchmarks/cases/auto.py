"""The automatic estimators against tuned LightGBM, and CatBoost: test error on sets of numbers and of classes.

The peer is the best of four settings, stopped early on a tenth of the training rows
(``pip install -r benchmarks/requirements-tables.txt``); where it is not installed, scikit-learn's histogram boosting
with the same settings stands in, and the table says so. CatBoost has its defaults, where it is installed. The sets of
classes are read from Debian's ``r-cran-mlbench`` and ``r-cran-kernlab`` through ``Rscript``, and left out, with a line
that says so, where these are missing.

``GRAMIAN_AUTO="bike letter"`` chooses some of the sets, ``GRAMIAN_AUTO_LIMIT`` the seconds allowed (180), and
``GRAMIAN_AUTO_ROWS`` the training rows at most, for a quick look.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from benchmarks.data import Split, load
from benchmarks.harness import Comparison, case
from benchmarks.peers import catboost, lightgbm
from gramian import AutoKernelClassifier, AutoKernelRegressor

NUMBERS = ("kin40k", "protein", "elevators", "bike", "keggdirected")
LIBRARY = Path("/usr/lib/R/site-library")


@dataclass(frozen=True)
class Source:
    """Where a set of classes is kept: a package of R, the object, and the column with the class."""

    package: str
    name: str
    target: str


CLASSES = {
    "letter": Source("mlbench", "LetterRecognition", "lettr"),
    "satellite": Source("mlbench", "Satellite", "classes"),
    "shuttle": Source("mlbench", "Shuttle", "Class"),
    "spam": Source("kernlab", "spam", "type"),
}
SETTINGS = tuple({"num_leaves": leaves, "learning_rate": rate} for leaves, rate in product((31, 127), (0.05, 0.1)))
PEER = "tuned LightGBM" if lightgbm else "tuned HistGradientBoosting (LightGBM is not installed)"
PATIENCE = 100
BINS = 15


@case("auto")
def auto() -> Iterator[Comparison]:
    """Fit all training rows under a time limit, predict the test rows."""
    for name in os.environ.get("GRAMIAN_AUTO", " ".join([*NUMBERS, *CLASSES])).split():
        if name in NUMBERS:
            yield numbers(name)
        elif (split := classes_split(name)) is None:
            print(
                f"auto: {name} is left out: Rscript or the R package {CLASSES[name].package} is missing.",
                file=sys.stderr,
            )
        else:
            yield classes(split)


def limit() -> float:
    """Seconds allowed to the search and the refit."""
    return float(os.environ.get("GRAMIAN_AUTO_LIMIT", "180"))


def cut(split: Split) -> Split:
    """The first rows, for a quick look."""
    most = int(os.environ.get("GRAMIAN_AUTO_ROWS", split.y_train.shape[0]))
    return Split(split.X_train[:most], split.y_train[:most], split.X_test, split.y_test, split.source)


# ---- numbers ----------------------------------------------------------------------------------------------------


def numbers(name: str) -> Comparison:
    """One set with a number to predict."""
    split = cut(load(name))
    n, d = split.X_train.shape
    return Comparison(
        name=f"AutoKernelRegressor, {limit():g} s, n={n} d={d}",
        ours=lambda: regress(split),
        peer=lambda: boost(split, classes=False),
        against=PEER,
        quality=lambda a, b: f"RMSE {_three(rmse(split, f) for f in (a[0], b, cat(split, classes=False)))}; {a[1]}",
        data=split.source,
        once=True,
    )


def regress(split: Split) -> tuple[np.ndarray, str]:
    """Predictions at the test rows; the winner, and how often its 90% interval is right."""
    model = AutoKernelRegressor(limit(), random_state=0).fit(split.X_train, split.y_train)
    mean, lower, upper = model.predict(split.X_test, return_interval=0.9)
    covered = np.mean((lower <= split.y_test) & (split.y_test <= upper))
    return mean, f"90% interval covers {covered:.1%}; {model.best_trial_.name}; {model.refit_}"


def rmse(split: Split, f: np.ndarray | None) -> float:
    """Root mean squared error at the test rows."""
    return float("nan") if f is None else float(np.sqrt(np.mean((split.y_test - f) ** 2)))


# ---- classes ----------------------------------------------------------------------------------------------------


def classes_split(name: str) -> Split | None:
    """Four fifths to train on, one to test, by class; None where R or the package is missing."""
    source = CLASSES[name]
    file = LIBRARY / source.package / "data" / f"{source.name}.rda"
    if shutil.which("Rscript") is None or not file.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set.csv"
        script = f'load("{file}"); write.csv({source.name}, "{out}", row.names=FALSE)'
        subprocess.run(["Rscript", "-e", script], check=True, capture_output=True)
        with out.open(newline="") as lines:
            header, *rows = csv.reader(lines)
    at = header.index(source.target)
    X = np.array([[float(v) for j, v in enumerate(row) if j != at] for row in rows])
    parts = train_test_split(X, np.array([row[at] for row in rows]), test_size=0.2, random_state=0)
    X_train, X_test, y_train, y_test = parts
    return cut(Split(X_train, y_train, X_test, y_test, f"{name}, one 80/20 split"))


def classes(split: Split) -> Comparison:
    """One set with a class to predict."""
    n, d = split.X_train.shape
    return Comparison(
        name=f"AutoKernelClassifier, {limit():g} s, n={n} d={d}, {np.unique(split.y_train).size} classes",
        ours=lambda: classify(split),
        peer=lambda: boost(split, classes=True),
        against=PEER,
        quality=lambda a, b: f"{judged(split, a[0], b, cat(split, classes=True))}; {a[1]}",
        data=split.source,
        once=True,
    )


def classify(split: Split) -> tuple[np.ndarray, str]:
    """Probabilities at the test rows, and the winner."""
    model = AutoKernelClassifier(limit(), random_state=0).fit(split.X_train, split.y_train)
    return model.predict_proba(split.X_test), f"{model.best_trial_.name}; {model.refit_}"


def judged(split: Split, *predicted: np.ndarray | None) -> str:
    """Test error in percent, log-loss and expected calibration error of each."""
    labels = np.unique(split.y_train)
    codes = np.searchsorted(labels, split.y_test)
    figures = []
    for P in (P for P in predicted if P is not None):
        right = np.argmax(P, axis=1) == codes
        surprise = -np.log(np.clip(P[np.arange(codes.size), codes], 1e-15, None))
        bins = np.minimum((P.max(axis=1) * BINS).astype(int), BINS - 1)
        gap = sum(abs(P.max(axis=1)[bins == b].sum() - right[bins == b].sum()) for b in range(BINS)) / codes.size
        figures.append((100 * (1 - right.mean()), surprise.mean(), gap))
    error, loss, gap = (_three(column) for column in zip(*figures, strict=True))
    return f"error % {error}; log-loss {loss}; calibration {gap}"


def _three(figures: Iterable[float]) -> str:
    """Ours, the peer's and CatBoost's."""
    return " / ".join(f"{figure:.4f}" for figure in figures if not np.isnan(figure))


# ---- the peer ---------------------------------------------------------------------------------------------------


def boost(split: Split, *, classes: bool) -> np.ndarray:
    """Boosted trees: the setting that does best on the rows that stop it, of four."""
    strata = split.y_train if classes and np.unique(split.y_train, return_counts=True)[1].min() > 1 else None
    parts = train_test_split(split.X_train, split.y_train, test_size=0.1, random_state=0, stratify=strata)
    trials = [_boosted(setting, parts, classes) for setting in SETTINGS]
    best = min(trials, key=lambda trial: trial[0])[1]
    if not classes:
        return best.predict(split.X_test)
    labels = np.unique(split.y_train)
    P = np.zeros((split.y_test.size, labels.size))
    P[:, np.searchsorted(labels, best.classes_)] = best.predict_proba(split.X_test)
    return P


def cat(split: Split, *, classes: bool) -> np.ndarray | None:
    """CatBoost as it comes; None where it is not installed."""
    if catboost is None:
        return None
    make = catboost.CatBoostClassifier if classes else catboost.CatBoostRegressor
    model = make(random_seed=0, verbose=0, allow_writing_files=False).fit(split.X_train, split.y_train)
    return model.predict_proba(split.X_test) if classes else model.predict(split.X_test)


def _boosted(setting: dict[str, Any], parts: Any, classes: bool) -> tuple[float, Any]:
    X, X_stop, y, y_stop = parts
    if lightgbm is None:
        make: Any = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
        model = make(
            max_iter=2000,
            learning_rate=setting["learning_rate"],
            max_leaf_nodes=setting["num_leaves"],
            early_stopping=True,
            n_iter_no_change=PATIENCE,
            random_state=0,
        ).fit(X, y)
        return -float(model.score(X_stop, y_stop)), model
    make = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
    model = make(n_estimators=5000, subsample=0.8, subsample_freq=1, random_state=0, verbose=-1, **setting)
    metric = "multi_logloss" if classes and np.unique(y).size > 2 else "binary_logloss" if classes else "l2"
    known = np.isin(y_stop, np.unique(y)) if classes else np.ones(y_stop.size, dtype=bool)
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    model.fit(X, y, eval_set=[(X_stop[known], y_stop[known])], eval_metric=metric, callbacks=[stop])
    return float(model.best_score_["valid_0"][metric]), model
