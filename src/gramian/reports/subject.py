"""The subject of a report: the model, the kernel machine inside it, and the data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_outlier_detector, is_regressor
from sklearn.utils.validation import _num_samples, check_is_fitted

from gramian.estimators.auto.row_hashes import share_seen
from gramian.inspection.fitted import input_names, kernel_of, training_rows
from gramian.kernels.points import dense, is_sparse
from gramian.kernels.resolve import is_precomputed
from gramian.numerals import listed
from gramian.verification import verify

COINCIDENCE = 0.2
"""Training and new data may share this fraction of rows by chance."""
DENSE_CELLS = 20_000_000
"""Sparse rows with at most this many cells are made dense for pictures."""
LEAST_ROWS = 20
"""If a model keeps fewer rows than this, not finding them among the new ones means nothing."""
SHOWN = 5
"""Labels that an error names."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model and the data to show it on."""

    model: Any  # What the user passed
    machine: Any  # The last step of a pipeline, the best of a search, or the model itself
    before: list[Any]  # The steps of a pipeline that come before the machine
    X: Any = None  # As passed
    y: Any = None  # As passed
    target: str | None = None  # The name of y

    @cached_property
    def task(self) -> str:
        """``"classification"``, ``"regression"``, ``"novelty"``, ``"density"``, ``"projection"`` or ``"map"``."""
        tests = {"classification": is_classifier, "regression": is_regressor, "novelty": is_outlier_detector}
        if found := next((name for name, test in tests.items() if test(self.model)), None):
            return found
        if hasattr(self.machine, "evidence_") and hasattr(self.machine, "means_"):
            return "density"
        return "projection" if hasattr(self.machine, "eigenvalues_") else "map"

    @cached_property
    def inputs(self) -> Any:
        """X without columns that the model does not use."""
        return used_columns(self.model, self.X)

    @cached_property
    def rows(self) -> Any:
        """X as the machine sees it; without X, the rows that the machine keeps, or None."""
        if self.X is None:
            return training_rows(self.machine)
        rows = self.X
        for step in self.before:
            rows = step.transform(rows)
        return rows

    @cached_property
    def numbers(self) -> NDArray[np.float64] | None:
        """``rows`` as a dense table of numbers; None if that is not possible, or they are a Gram matrix."""
        rows = self.rows
        if rows is None or self.pairwise or (is_sparse(rows) and np.prod(rows.shape) > DENSE_CELLS):
            return None
        try:
            table = dense(rows, np.float64)
        except (TypeError, ValueError):
            return None
        return table if table.ndim == 2 and len(table) and np.isfinite(table).all() else None

    @cached_property
    def names(self) -> list[str]:
        """Names of the inputs of the machine."""
        d = 0 if self.numbers is None else self.numbers.shape[1]
        if self.before:
            names = _names_out(self.before, self.X)
            return names if len(names) == d else input_names(None, None, d)
        return input_names(self.machine, self.X, d)

    @cached_property
    def named(self) -> Any:
        """The numbers with column names, for estimators that were fitted without them."""
        return _named(np.asarray(self.numbers), self.names)

    @cached_property
    def n_train(self) -> int | None:
        """Number of training rows, if the model knows it."""
        if hasattr(self.machine, "shape_fit_"):
            return int(self.machine.shape_fit_[0])
        kept = ("kinds_", "X_train_", *(() if hasattr(self.machine, "approximation_") else ("X_fit_",)))
        values = (getattr(self.machine, name, None) for name in kept)
        return next((int(_num_samples(value)) for value in values if value is not None), None)

    @cached_property
    def kernel(self) -> Any:
        """The kernel that the fit used, or None."""
        try:
            return kernel_of(self.machine)
        except TypeError:
            return None

    @cached_property
    def certificate(self) -> Any:
        """The certificate of the fit, or None."""
        return getattr(self.model, "certificate_", None) or getattr(self.machine, "certificate_", None)

    @cached_property
    def verified(self) -> Any:
        """The certificate recomputed from the rows given, if the model was fitted to them; else None."""
        if self.X is None or self.seen is not True or self.certificate is None:
            return None
        model, X = (self.model, self.X) if self.automatic else (self.machine, self.rows)
        try:
            return verify(model, X, self.y)
        except (TypeError, ValueError, MemoryError):
            return None

    @cached_property
    def pairwise(self) -> bool:
        """Whether the rows are rows of a Gram matrix."""
        return is_precomputed(getattr(self.machine, "kernel", None))

    @cached_property
    def automatic(self) -> bool:
        """Whether the model is an automatic estimator, which encodes its inputs and targets."""
        return hasattr(self.model, "leaderboard_")

    @cached_property
    def seen(self) -> bool | None:
        """Whether the model was fitted to the rows given; None if that cannot be told."""
        if self.X is not None and (hashes := getattr(self.model, "_row_hashes", None)) is not None:
            share = share_seen(hashes, self.model._encoded(self.X))
            return None if share is None else share > COINCIDENCE
        if self.pairwise and self.X is not None:
            return bool(self.X.shape == (self.n_train, self.n_train))
        kept = training_rows(self.machine)
        if self.X is None or kept is None or self.numbers is None:
            return None
        kept = np.asarray(dense(kept))
        if kept.ndim != 2 or kept.shape[1] != self.numbers.shape[1]:
            return None
        known, asked = ([row.tobytes() for row in rows.astype(kept.dtype, "C")] for rows in (kept, self.numbers))
        shared = set(known) & set(asked)
        if max(np.mean([row in shared for row in rows]) for rows in (known, asked)) > COINCIDENCE:
            return True
        return False if len(known) >= LEAST_ROWS or len(known) == self.n_train else None


def _names_out(steps: list[Any], X: Any) -> list[str]:
    """Names of the inputs after some steps; empty if a step does not say."""
    names = getattr(X, "columns", None)
    try:
        for step in steps:
            names = step.get_feature_names_out(*([] if names is None else [names]))
    except (TypeError, ValueError, AttributeError):
        return []
    return [] if names is None else [str(name) for name in names]


class _Table(np.ndarray):
    columns: list[str]


def _named(rows: NDArray[Any], columns: list[str]) -> _Table:
    table = rows.view(_Table)
    table.columns = columns
    return table


def used_columns(model: Any, X: Any) -> Any:
    """Return a table without the columns that an automatic model does not use, such as identifiers and weights."""
    if not (hasattr(model, "columns_") and hasattr(model, "feature_names_in_")):
        return X
    used = {column.name for column in model.columns_.columns if column.width}
    kept = [name for name in getattr(X, "column_names", getattr(X, "columns", ())) if str(name) in used]
    return (X.select(kept) if hasattr(X, "select") else X[kept]) if kept else X


def subject_of(model: Any, X: Any = None, y: Any = None) -> Subject:
    """Return the subject of a report on a model."""
    if not hasattr(model, "fit"):
        raise TypeError(f"a report needs a fitted estimator, got {type(model).__name__}.")
    check_is_fitted(model)
    if y is not None and X is None:
        raise ValueError("y was passed without X; pass both.")
    if y is not None and _num_samples(y) != _num_samples(X):
        raise ValueError(f"X and y must have the same number of rows, got {_num_samples(X)} and {_num_samples(y)}.")
    if y is not None:
        _check_targets(model, np.asarray(y))
    machine, before = _inside(model)
    if hasattr(X, "column_names") and not hasattr(model, "leaderboard_"):
        # scikit-learn's checks do not accept pyarrow tables.
        X = _named(np.column_stack([np.asarray(column) for column in X.itercolumns()]), X.column_names)
    return Subject(model, machine, before, X, y)


def _check_targets(model: Any, y: NDArray[Any]) -> None:
    """Raise if targets are not what the model predicts: y (n,) or (n, k)."""
    if is_regressor(model) and y.dtype.kind not in "biuf":
        raise ValueError(f"y must hold numbers, as the model predicts them, but holds {y.flat[0]!s}.")
    if is_classifier(model) and (new := np.setdiff1d(y, model.classes_)).size:
        known = listed(map(str, model.classes_), SHOWN)
        raise ValueError(
            f"y contains previously unseen labels: {listed(map(str, new), SHOWN)}; the model predicts {known}. Leave "
            "such rows out, or pass the targets that it was fitted to predict."
        )


def _inside(model: Any) -> tuple[Any, list[Any]]:
    """The machine inside a model, and the steps before it."""
    if hasattr(model, "leaderboard_"):
        # An automatic model encodes and scales its columns.
        step = SimpleNamespace(transform=model._rows, get_feature_names_out=lambda *_: model.columns_.names)
        return model.best_, [step]
    if hasattr(model, "best_estimator_"):
        return _inside(model.best_estimator_)
    if hasattr(model, "steps"):
        machine, before = _inside(model.steps[-1][1])
        return machine, [step for _, step in model.steps[:-1] if step not in (None, "passthrough")] + before
    return model, []
