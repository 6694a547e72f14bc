"""``gramian predict``: predictions of a saved model for a table, block by block."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gramian.cli.screen import Screen
from gramian.cli.shared import MODEL, add_options, blocks_of, inputs_of, is_spread, saved

HELP = "predict with a saved model"
DESCRIPTION = "Predict every row of a table, in blocks, so that the table need not fit in memory."


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("model", help=MODEL)
    parser.add_argument(
        "data", help="the table, a folder or a quoted pattern of tables, with the columns that the model was fitted on"
    )
    parser.add_argument("-o", "--out", metavar="FILE", help=".csv, .parquet or .arrow (default: CSV to the output)")
    parser.add_argument("--interval", type=float, metavar="P", help="also the ends of an interval of probability P")
    parser.add_argument("--proba", action="store_true", help="also the probability of each class")
    add_options(parser)


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any] | None:
    """Predict and write."""
    from gramian.data.output import check_output, writing
    from gramian.data.tables import open_table

    target = None if options.out in (None, "-") else Path(options.out)
    if target is None and screen.json:
        raise ValueError("--json needs -o FILE: without it the predictions themselves go to the output.")
    if target is not None:
        check_output(target)
    model, notes = saved(options)
    check_options(model, options.proba, options.interval)
    if is_spread(options):
        tables = _spread(model, options, notes.get("target"))
    else:
        tables = predicted(model, open_table(options.data), notes, options.interval, options.proba)
    done = 0
    with writing(target or sys.stdout.buffer) as write, screen.counter("predicting") as count:
        for table in tables:
            write(table)
            done += table.num_rows
            count(done)
        if done == 0:
            raise ValueError(f"{options.data} holds no rows.")
    if target is None:
        return None
    screen.say(f"{done:,} predictions: {target}")
    return {"predictions": str(target), "rows": done}


def _spread(model: Any, options: argparse.Namespace, target: str | None) -> Iterator[Any]:
    """Tables of predictions for data in many files, block by block."""
    import pyarrow

    from gramian.data import Blocks

    if options.proba or options.interval is not None:
        raise ValueError("--interval and --proba are for single files; predict the files one by one.")
    names = getattr(model, "feature_names_in_", None)
    columns = [name for name in Blocks(options.data).names or () if name != target] if names is None else names
    with blocks_of(options, columns=[str(name) for name in columns]) as blocks:
        for values in model.predict(blocks):
            yield pyarrow.table({"prediction": values})


def predicted(
    model: Any, source: Any, notes: dict[str, Any], interval: float | None = None, proba: bool = False
) -> Iterator[Any]:
    """Yield tables of predictions for a single file, block by block."""
    columns = _columns(model, source, notes)
    types = {name: kind for name, kind in notes.get("types", {}).items() if name in columns}
    for block in source.iterate(columns, types=types):
        yield predictions(model, inputs_of(model, block.select(columns)), interval, proba)


def check_options(model: Any, proba: bool, interval: float | None) -> None:
    """Raise where a model cannot say what is asked for."""
    name = type(model).__name__
    if not hasattr(model, "predict"):
        raise ValueError(f"{name} does not predict; load it in Python with gramian.load and use transform.")
    if proba and not hasattr(model, "predict_proba"):
        raise ValueError(f"--proba needs a classifier with probabilities, but this model is {name}.")
    if interval is not None:
        if "return_interval" not in inspect.signature(model.predict).parameters:
            raise ValueError(f"--interval needs a regressor that gives intervals, but this model is {name}.")
        if not 0.0 < interval < 1.0:
            raise ValueError(f"--interval must be a probability between 0 and 1, got {interval:g}.")


def _columns(model: Any, source: Any, notes: dict[str, Any]) -> list[str]:
    """The columns that the model takes, in its order."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        source.require(list(names))
        return [str(name) for name in names]
    others = [name for name in source.names if name != notes.get("target")]
    if len(others) != model.n_features_in_:
        raise ValueError(f"the model takes {model.n_features_in_} columns, but {source.path} has {len(others)}.")
    return others


def predictions(model: Any, X: Any, interval: float | None, proba: bool) -> Any:
    """Return the table of predictions for some rows."""
    import numpy as np
    import pyarrow

    found = [model.predict(X)] if interval is None else model.predict(X, return_interval=interval)
    made: dict[str, Any] = {}
    for name, values in zip(("prediction", "lower", "upper"), found, strict=False):
        if np.ndim(values) == 1:
            made[name] = values
        else:
            made |= {f"{name}_{j}": column for j, column in enumerate(np.asarray(values).T)}
    if proba:
        made |= {f"proba_{c}": p for c, p in zip(model.classes_, model.predict_proba(X).T, strict=True)}
    return pyarrow.table({name: np.ascontiguousarray(values) for name, values in made.items()})
