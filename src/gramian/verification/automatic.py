"""Automatic estimators: their models, with the rows and targets that these were fitted to."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian.estimators.auto.tables import read_again
from gramian.verification.rows import Array

LEAST_SQUARES = ("gp", "ridge")
"""Machines whose targets are divided by their standard deviation."""


Part = tuple[Any, Array, Any]
"""A model of an automatic estimator, and the rows and targets that it was fitted to."""


def _parts(model: Any, X: Any, squares: Any, others: Any) -> list[Part]:
    """Every model, with the rows as scaled for it and the targets of its kind of machine."""
    Z = read_again(model, model.columns_, X)
    inside = [(model.machine_, model.best_, model.scaling_)]
    inside += [(m.machine, m.model, m.scaling) for m in getattr(model, "others_", ())]
    return [
        (best, np.asarray(scaling.transform(Z)), squares if machine in LEAST_SQUARES else others)
        for machine, best, scaling in inside
    ]


def numbers(model: Any, X: Any, y: Any) -> list[Part]:
    """Targets minus their mean, divided by their standard deviation."""
    y = np.asarray(_given(y), dtype=np.float64).ravel()
    y = np.log(y) if getattr(model, "target_scale_", "linear") == "log" else y
    scale = float(y.std())
    targets = (y - y.mean()) / (scale if scale > 1e-14 * abs(float(y.mean())) else 1.0)
    return _parts(model, X, targets[:, None], targets)


def labels(model: Any, X: Any, y: Any) -> list[Part]:
    """Codes of the classes; for least squares one-hot, or -1 and +1 for two classes, minus their mean and scaled."""
    codes = np.searchsorted(model.classes_, _given(y))
    k = model.classes_.size
    hot = 2.0 * (codes[:, None] == 1) - 1.0 if k == 2 else (codes[:, None] == np.arange(k)).astype(np.float64)
    hot = hot - hot.mean(axis=0)
    return _parts(model, X, hot / (np.sqrt(np.mean(hot**2)) or 1.0), codes)


def _given(y: Any) -> Any:
    if y is None:
        raise ValueError("this model was fitted to targets; pass y=, the targets of the same rows.")
    return y
