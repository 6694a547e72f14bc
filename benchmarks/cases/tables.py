"""Tables: a Gaussian process against gradient boosting, on all rows of the shared sets.

The peer is LightGBM where it is installed (``pip install -r benchmarks/requirements-tables.txt``), else scikit-learn's
HistGradientBoostingRegressor; the table says which. Every fit runs once: it takes minutes.
``GRAMIAN_TABLES="bike kin40k"`` chooses some of the sets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from benchmarks.data import Split, load
from benchmarks.harness import Comparison, case
from benchmarks.peers import lightgbm
from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.kernels import Matern

SMOOTHNESS = {"elevators": 1.5, "bike": 1.5, "kin40k": 2.5, "protein": 1.5}
MEMORY = "14GB"
LEVEL = 0.9
REACH = 1.6448536269514722
"""Deviations from the mean to the ends of the central interval of that probability."""


@case("tables")
def tables() -> Iterator[Comparison]:
    """Fit all rows, predict the test rows with their deviation."""
    for name in os.environ.get("GRAMIAN_TABLES", " ".join(SMOOTHNESS)).split():
        yield table(name)


def table(name: str) -> Comparison:
    """One set."""
    split = load(name)
    n, d = split.X_train.shape
    return Comparison(
        name=f"GP, ARD Matern {SMOOTHNESS[name]:g}, n={n} d={d}, fit and predict",
        ours=lambda: process(split, SMOOTHNESS[name]),
        peer=lambda: boosting(split),
        against="LightGBM" if lightgbm else "HistGradientBoosting (LightGBM is not installed)",
        quality=lambda a, b: quality(split, a, b),
        data=split.source,
        once=True,
    )


def process(split: Split, nu: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation at the test rows."""
    kernel = 1.0 * Matern([1.0] * split.X_train.shape[1], nu=nu)
    model = GaussianProcessRegressor(kernel, noise="learn", evidence="auto", memory=MEMORY, random_state=0)
    return model.fit(split.X_train, split.y_train).predict(split.X_test, return_std=True)


def boosting(split: Split) -> np.ndarray:
    """Predictions of boosted trees, stopped early on a tenth of the training rows."""
    if lightgbm is None:
        model: Any = HistGradientBoostingRegressor(
            max_iter=5000,
            learning_rate=0.05,
            max_leaf_nodes=63,
            early_stopping=True,
            n_iter_no_change=50,
            random_state=0,
        )
        return model.fit(split.X_train, split.y_train).predict(split.X_test)
    X, X_stop, y, y_stop = train_test_split(split.X_train, split.y_train, test_size=0.1, random_state=0)
    model = lightgbm.LGBMRegressor(
        n_estimators=5000,
        learning_rate=0.05,
        num_leaves=63,
        subsample=0.8,
        subsample_freq=1,
        random_state=0,
        verbose=-1,
    )
    model.fit(X, y, eval_set=[(X_stop, y_stop)], callbacks=[lightgbm.early_stopping(100, verbose=False)])
    return model.predict(split.X_test)


def quality(split: Split, ours: tuple[np.ndarray, np.ndarray], peer: np.ndarray) -> str:
    """RMSE of both; the process's negative log density, and how often its interval is right."""
    mean, deviation = ours
    y = split.y_test
    density = 0.5 * np.mean(np.log(2 * np.pi * deviation**2) + ((y - mean) / deviation) ** 2)
    covered = np.mean(np.abs(y - mean) <= REACH * deviation)
    rmse = [np.sqrt(np.mean((y - f) ** 2)) for f in (mean, peer)]
    return f"RMSE {rmse[0]:.4f} / {rmse[1]:.4f}; NLL {density:.3f}; {LEVEL:.0%} interval covers {covered:.1%}"
