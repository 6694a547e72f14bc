"""Columns of a table as ONNX operators: one input for rows of numbers, or an input for each column."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.cells import MISSING
from gramian.estimators.auto.encoders import CYCLES, ONE_HOT, Category, LevelMeans, NumberColumn, Text, texts_of
from gramian.estimators.auto.forest import Forest
from gramian.estimators.auto.scaling import Normal
from gramian.estimators.auto.tables import columns_again

if TYPE_CHECKING:
    from gramian.onnx.graph import Graph

Array = NDArray[np.float64]
ROWS = 200
"""Random rows on which the graph is compared with the model if none are given."""
DOUBLE = 11
"""The ONNX type of a number."""
NEW = "a level that no row had"


def encoded(g: Graph, columns: Sequence[Any]) -> str:
    """Return the numbers that columns are read as: (n, width)."""
    by_name = _has_levels(columns)
    rows = "" if by_name else g.input("X", np.float64, len(columns))
    parts: list[str] = []
    for j, column in enumerate(columns):
        if isinstance(column, Text):
            raise ValueError(
                f"ONNX has no operator for free text, but {column.name} is read as: {column}. Leave it out of the fit "
                f"(columns={{{column.name!r}: 'drop'}}), or keep the model as a folder (gramian.save), from which "
                "gramian predict and gramian serve take all columns."
            )
        if isinstance(column, NumberColumn):
            own = g.input(column.name, np.float64, 1) if by_name else g("Gather", rows, np.array([j]), axis=1)
            parts += _numbers(g, column, own)
        elif column.width:
            parts.append(_level(g, column, g.input(column.name, str, 1)))
    return g("Concat", *parts, axis=1)


def _has_levels(columns: Sequence[Any]) -> bool:
    return any(isinstance(column, Category | LevelMeans) for column in columns)


def _numbers(g: Graph, column: Any, own: str) -> Iterator[str]:
    """The value or the median, whether it was missing, and its place in each cycle: own (n, 1)."""
    missing = g("IsNaN", own)
    filled = g("Where", missing, float(column.fill), own)
    yield filled
    if column.gaps:
        yield g("Cast", missing, to=DOUBLE)
    for cycle in column.cycles:
        turns = g("Div", filled, np.array([[CYCLES[cycle]]]))
        angle = g("Mul", g("Sub", turns, g("Floor", turns)), np.array([[2.0 * np.pi]]))
        yield from (g("Sin", angle), g("Cos", angle))


def _level(g: Graph, column: Any, own: str) -> str:
    """What stands for the level: own (n, 1) of texts → (n, width)."""
    known, unknown = len(column.levels), len(column.levels)
    places = dict(zip(sorted(MISSING), len(MISSING) * [known + 1], strict=True))
    places |= {level: place for place, level in enumerate(column.levels)}
    place = g(
        *("LabelEncoder", g("Squeeze", own, np.array([1]))),
        keys_strings=list(places),
        values_int64s=list(places.values()),
        default_int64=unknown,
        domain="ai.onnx.ml",
    )
    if isinstance(column, Category):
        return g("Gather", ONE_HOT * np.eye(column.width), place, axis=0)
    return g("Gather", column.means.reshape(-1, known + 2, column.width)[0], place, axis=0)


# ---- rows to compare on -------------------------------------------------------------------------------------------


def fed(columns: Sequence[Any], rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return rows as the inputs of the graph."""
    if not _has_levels(columns):
        return {"X": np.ascontiguousarray(rows, dtype=np.float64)}
    found: dict[str, NDArray[Any]] = {}
    for column, values in zip(columns, rows.T, strict=True):
        if isinstance(column, NumberColumn):
            found[column.name] = values[:, None].astype(np.float64)
        elif column.width:
            found[column.name] = np.array([[value or ""] for value in values], dtype=object)
    return found


def rows_of_table(model: Any, X: Any) -> NDArray[Any]:
    """Return a table as rows of numbers and texts, in the order of its columns."""
    table, _ = columns_again(model, model.columns_, X)
    rows = np.zeros((table[0].values.size, model.n_features_in_), dtype=object)
    for j, (column, given) in enumerate(zip(model.columns_.columns, table, strict=True)):
        if isinstance(column, NumberColumn):
            rows[:, j] = column.numbers(given)
        elif column.width:
            rows[:, j] = texts_of(given)
    return rows


def rows_like(model: Any) -> NDArray[Any]:
    """Return random rows near the training rows, with gaps and new levels in columns that may have them."""
    rng = np.random.default_rng(0)
    rows = np.zeros((ROWS, model.n_features_in_), dtype=object)
    ranges, place = dict(_ranges([scaling for *_, scaling in model._parts])), 0
    for j, column in enumerate(model.columns_.columns):
        if isinstance(column, NumberColumn):
            middle, spread = ranges.get(place, (column.fill, 1.0))
            values = middle + spread * rng.standard_normal(ROWS)
            rows[:, j] = np.where(rng.random(ROWS) < (0.1 if column.gaps else 0.0), np.nan, values)
        elif column.width:
            rows[:, j] = rng.choice(np.array([*column.levels, NEW, None], dtype=object), ROWS)
        place += column.width
    return rows


def _ranges(scalings: Sequence[Any]) -> Iterator[tuple[int, tuple[float, float]]]:
    """Middle and spread of columns, by their places, as far as scalings or forests know them."""
    for scaling in scalings:
        if isinstance(scaling, Forest):
            asked = scaling.columns - len(scaling.levels)
            for place in np.unique(asked[asked >= 0]).tolist():
                thresholds = scaling.thresholds[asked == place]
                yield place, (float(np.median(thresholds)), float(thresholds.std()))
        scaling = getattr(scaling, "scaling", scaling)
        if isinstance(scaling, Normal):
            middle, spread = np.median(scaling.quantiles, axis=0), scaling.quantiles.std(axis=0)
        elif scaling is not None:
            middle, spread = list(vars(scaling).values())[1:]
        else:
            continue
        yield from zip(scaling.places.tolist(), zip(middle.tolist(), spread.tolist(), strict=True), strict=True)


def forgetful(model: Any) -> Any:
    """Return the model without knowledge of its training rows, whose levels and forests would leave out their fold."""
    made = copy.copy(model)
    made.columns_ = replace(model.columns_, folds=None)
    made.scaling_ = _without_rows(model.scaling_)
    made.others_ = tuple(replace(m, scaling=_without_rows(m.scaling)) for m in getattr(model, "others_", ()))
    return made


def _without_rows(scaling: Any) -> Any:
    if not isinstance(scaling, Forest):
        return scaling
    return replace(scaling, folds=replace(scaling.folds, known=np.zeros(0, dtype=np.int64)))
