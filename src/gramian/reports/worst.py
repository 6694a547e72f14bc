"""The rows that are predicted worst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gramian.inspection import Sensitivity
from gramian.inspection.tables import as_table, column
from gramian.numerals import shortened, written
from gramian.reports.held_out import Evaluation
from gramian.reports.subject import Subject

SHOWN = 8
"""Rows listed."""
INPUTS = 3
"""Inputs listed for each row, the most important ones."""
WIDE = 40
"""Longest cell, in characters."""


@dataclass(frozen=True)
class Worst:
    """A table of the worst rows."""

    columns: tuple[str, ...]  # Column headings
    lines: list[tuple[str, ...]]  # Cells, the worst row first
    caption: str


def worst_rows(subject: Subject, found: Evaluation | None, inputs: Sensitivity | None) -> Worst | None:
    """Return the rows with the largest errors of a regression."""
    if found is None or subject.task != "regression" or found.truth.ndim > 1:
        return None
    error = found.truth - found.predicted
    order = np.argsort(-np.abs(error), kind="stable")[:SHOWN]
    table: Any = None
    shown: list[int] = []
    if inputs is not None:
        table = as_table(subject.inputs)
        shown = [int(j) for j in np.argsort(-inputs.importance, kind="stable")[:INPUTS]]
    labels = getattr(subject.X, "index", None)  # of a pandas data frame
    lines = []
    for i in order:
        row = int(found.rows[i])
        label = str(row + 1) if labels is None or callable(labels) else str(labels[row])
        cells = (_cell(column(table, int(j))[row] if not hasattr(table, "iloc") else table.iloc[row, j]) for j in shown)
        numbers = (
            written(float(v), digits=4).replace("-", "−") for v in (found.truth[i], found.predicted[i], error[i])
        )
        lines.append((label, *cells, *numbers))
    names = [] if inputs is None else [inputs.names[j] for j in shown]
    counted = "rows are counted from 1" if labels is None or callable(labels) else "rows by their index"
    return Worst(("Row", *names, "True", "Predicted", "True − predicted"), lines, f"{found.how}; {counted}")


def _cell(value: Any) -> str:
    value = value.as_py() if hasattr(value, "as_py") else value
    if value is None or value != value:
        return "missing"
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"  # as in the table: 2002 is a year
    return shortened(value, WIDE)
