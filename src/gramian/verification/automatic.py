"""Automatic estimators: their models, with the rows, targets and weights that these were fitted to."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian.estimators.auto.base import Given, counted
from gramian.estimators.auto.plans import Sizes
from gramian.estimators.auto.tables import columns_of
from gramian.verification.rows import Array

LEAST_SQUARES = ("gp", "ridge")
"""Machines whose targets are divided by their standard deviation."""


Part = tuple[Any, Array, Any, Any]
"""A model of an automatic estimator, and the rows, targets and weights that it was fitted to."""


def _counted(model: Any, X: Any, y: Any, weights: Any) -> tuple[Array, Any, Any]:
    """The rows that counted as numbers, not yet scaled, with their targets and weights."""
    if y is None:
        raise ValueError("this model was fitted to targets; pass y=, the targets of the same rows.")
    table = columns_of(model, X, reset=False)
    _, table, given = counted(model.cv, table, Given(X, y, weights), Sizes())
    return model.columns_.transform(table), np.asarray(given.y), given.sample_weight


def _parts(model: Any, Z: Array, weights: Any, squares: Any, others: Any) -> list[Part]:
    """Every model, with the rows as scaled for it and the targets of its kind of machine."""
    inside = [(model.machine_, model.best_, model.scaling_)]
    inside += [(m.machine, m.model, m.scaling) for m in getattr(model, "others_", ())]
    return [
        (best, _as_fitted(scaling, Z), squares if machine in LEAST_SQUARES else others, weights)
        for machine, best, scaling in inside
    ]


def _as_fitted(scaling: Any, Z: Array) -> Array:
    """The rows as a model was fitted to them: a forest predicts each training row by trees that do not know it."""
    return np.asarray(getattr(scaling, "of_training_rows", scaling.transform)(Z))


def numbers(model: Any, X: Any, y: Any, weights: Any) -> list[Part]:
    """Targets minus their mean, divided by their standard deviation."""
    Z, y, weights = _counted(model, X, y, weights)
    y = y.astype(np.float64).ravel()
    y = np.log(y) if getattr(model, "target_scale_", "linear") == "log" else y
    scale = float(y.std())
    targets = (y - y.mean()) / (scale if scale > 1e-14 * abs(float(y.mean())) else 1.0)
    return _parts(model, Z, weights, targets[:, None], targets)


def labels(model: Any, X: Any, y: Any, weights: Any) -> list[Part]:
    """Codes of the classes; for least squares one-hot, or -1 and +1 for two classes, minus their mean and scaled."""
    Z, y, weights = _counted(model, X, y, weights)
    codes = np.searchsorted(model.classes_, y)
    k = model.classes_.size
    hot = 2.0 * (codes[:, None] == 1) - 1.0 if k == 2 else (codes[:, None] == np.arange(k)).astype(np.float64)
    hot = hot - hot.mean(axis=0)
    return _parts(model, Z, weights, hot / (np.sqrt(np.mean(hot**2)) or 1.0), codes)
