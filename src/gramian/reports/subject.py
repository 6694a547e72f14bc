"""What a report is about: the model, the kernel machine inside it, the data, and what was asked of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_outlier_detector, is_regressor
from sklearn.utils.validation import _num_samples, check_is_fitted

from gramian.estimators.base import is_precomputed
from gramian.kernels.arrays import is_sparse
from gramian.plots.fitted import input_names, training_rows

__all__ = ["Subject", "subject_of"]

LOOKED_AT = 200
"""Rows that are looked up among the training rows."""
INSIDE = ("best_estimator_", "best_model_", "model_", "pipeline_", "machine_", "estimator_")
"""Where a search, or an automatic estimator, keeps the model that it found."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model and the data to show it on.

    Parameters
    ----------
    model : estimator
        What the user passed.
    machine : estimator
        The machine inside: the last step of a pipeline, the best of a search, or the model itself.
    before : list of transformers
        The steps of a pipeline that come before the machine.
    X, y : object
        The data as passed; ``None`` where there are none.
    """

    model: Any
    machine: Any
    before: list[Any]
    X: Any = None
    y: Any = None

    @cached_property
    def task(self) -> str:
        """``"classification"``, ``"regression"``, ``"novelty"``, ``"density"``, ``"projection"`` or ``"map"``."""
        for name, test in (
            ("classification", is_classifier),
            ("regression", is_regressor),
            ("novelty", is_outlier_detector),
        ):
            if test(self.model):
                return name
        if hasattr(self.machine, "evidence_") and hasattr(self.machine, "means_"):
            return "density"
        return "projection" if hasattr(self.machine, "eigenvalues_") else "map"

    @cached_property
    def rows(self) -> Any:
        """What the machine sees of X, or the rows that it keeps where there is no X; ``None`` where there are none."""
        if self.X is None:
            return training_rows(self.machine)
        rows = self.X
        for step in self.before:
            rows = step.transform(rows)
        return rows

    @cached_property
    def numbers(self) -> NDArray[np.float64] | None:
        """The same as a dense table of numbers; ``None`` where it is none, or is a Gram matrix."""
        rows = self.rows
        if rows is None or is_precomputed(getattr(self.machine, "kernel", None)):
            return None
        try:
            table = np.asarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float64)
        except (TypeError, ValueError):
            return None
        return table if table.ndim == 2 and len(table) and np.isfinite(table).all() else None

    @cached_property
    def names(self) -> list[str]:
        """Names of the inputs of the machine."""
        d = 0 if self.numbers is None else self.numbers.shape[1]
        if self.before and hasattr(self.before[-1], "get_feature_names_out"):
            try:
                return [str(name) for name in self.before[-1].get_feature_names_out()]
            except (TypeError, ValueError, AttributeError):
                return input_names(None, None, d)
        return input_names(self.machine, self.X, d)

    @cached_property
    def targets(self) -> Any:
        """The targets of ``rows``: those given, or those that a Gaussian process keeps."""
        return self.y if self.X is not None else None

    @cached_property
    def n_train(self) -> int | None:
        """How many rows the model learned from, where it says so."""
        for name in ("shape_fit_", "kinds_", "X_train_", "X_fit_"):
            value = getattr(self.machine, name, None)
            if value is not None and not (name == "X_fit_" and hasattr(self.machine, "approximation_")):
                return int(value[0]) if name == "shape_fit_" else int(_num_samples(value))
        return None

    @cached_property
    def seen(self) -> bool | None:
        """Whether the model learned from the rows given; ``None`` where that cannot be known."""
        kept = training_rows(self.machine)
        if self.X is None or kept is None or self.numbers is None:
            return None
        kept = np.asarray(kept.toarray() if is_sparse(kept) else kept)
        if kept.ndim != 2 or kept.shape[1] != self.numbers.shape[1]:
            return None
        known = {row.tobytes() for row in np.ascontiguousarray(kept, dtype=kept.dtype)}
        step = max(len(self.numbers) // LOOKED_AT, 1)
        asked = np.ascontiguousarray(self.numbers[::step].astype(kept.dtype))
        hits = sum(row.tobytes() in known for row in asked)
        if hits > 0:
            return True
        # A machine that keeps few of its rows may have seen any.
        return False if self.n_train == len(kept) else None


def subject_of(model: Any, X: Any = None, y: Any = None) -> Subject:
    """Look inside a model.

    Parameters
    ----------
    model : estimator
        Fitted: an estimator of this library, a pipeline that ends in one, or a search over either.
    X : object or None, default=None
        Rows.
    y : object or None, default=None
        Targets.

    Returns
    -------
    Subject
        What the rest of the report asks.

    Examples
    --------
    >>> from gramian import SVC
    >>> from gramian.reports.subject import subject_of
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> model = make_pipeline(StandardScaler(), SVC()).fit([[0.0], [1.0]], [0, 1])
    >>> subject_of(model).machine
    SVC()
    """
    if not hasattr(model, "fit"):
        raise TypeError(f"a report needs a fitted estimator, got {type(model).__name__}.")
    check_is_fitted(model)
    if y is not None and X is None:
        raise ValueError("y without X has nothing to be compared with; pass both.")
    if y is not None and _num_samples(y) != _num_samples(X):
        raise ValueError(f"X and y must have as many rows, got {_num_samples(X)} and {_num_samples(y)}.")
    machine, before = model, []
    while True:
        steps = getattr(machine, "steps", None)
        if steps:
            before += [step for _, step in steps[:-1] if step not in (None, "passthrough")]
            machine = steps[-1][1]
            continue
        inside = next((getattr(machine, name) for name in INSIDE if hasattr(machine, name)), None)
        if inside is None or not hasattr(inside, "fit"):
            return Subject(model, machine, before, X, y)
        machine = inside
