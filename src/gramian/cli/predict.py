"""``gramian predict``: predictions of a saved model for a table, block by block."""

from __future__ import annotations

import argparse
import inspect
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gramian.cli.screen import Screen
from gramian.cli.shared import (
    MODEL,
    add_options,
    blocks_of,
    check_free,
    columns_for,
    inputs_of,
    is_spread,
    named_columns,
    saved,
)
from gramian.warning import warn

HELP = "predict with a saved model"
DESCRIPTION = "Predict every row of a table, in blocks, so that the table need not fit in memory."


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("model", help=MODEL)
    parser.add_argument(
        "data", help="the table, a folder or a quoted pattern of tables, with the columns that the model was fitted on"
    )
    parser.add_argument(
        "-o", "--out", metavar="FILE", help=".csv, .parquet or .arrow (default: CSV on standard output)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE if it exists")
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="COLUMN",
        help="copy this column of the table, such as a key, to the output",
    )
    parser.add_argument(
        "--interval", type=float, metavar="P", help="also write intervals that hold the target with probability P"
    )
    parser.add_argument("--proba", action="store_true", help="also write the probability of each class")
    add_options(parser)


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any] | None:
    """Predict and write."""
    from gramian.data.output import check_output, writing
    from gramian.data.tables import open_table

    target = None if options.out in (None, "-") else Path(options.out)
    if target is None and screen.json:
        raise ValueError("--json needs -o FILE; without it, predictions go to standard output.")
    if target is not None:
        check_output(target)
        check_free(target, options.force)
    model, notes = saved(options)
    check_options(model, options.proba, options.interval)
    if is_spread(options):
        tables = _spread(model, options, notes.get("target"))
    else:
        source = open_table(options.data)
        kept = named_columns(options.keep, source.names, "--keep")
        tables = _told(predicted(model, source, notes, options.interval, options.proba, kept))
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
    """Predictions for data in many files, a table for each block."""
    import pyarrow

    from gramian.data import Blocks

    if options.proba or options.keep or options.interval is not None:
        raise ValueError("--interval, --proba and --keep work on single files only; predict the files one by one.")
    names = getattr(model, "feature_names_in_", None)
    columns = [name for name in Blocks(options.data).names or () if name != target] if names is None else names
    with blocks_of(options, columns=[str(name) for name in columns]) as blocks:
        for values in model.predict(blocks):
            yield pyarrow.table({"prediction": values})


def predicted(
    model: Any,
    source: Any,
    notes: dict[str, Any],
    interval: float | None = None,
    proba: bool = False,
    kept: Sequence[str] = (),
) -> Iterator[Any]:
    """Yield predictions for a single file, a table for each block, with the columns to keep."""
    import pyarrow

    columns = columns_for(model, source, [notes.get("target")])
    types = {name: kind for name, kind in notes.get("types", {}).items() if name in columns}
    for block in source.iterate(list(dict.fromkeys([*columns, *kept])), types=types):
        found = predictions(model, inputs_of(model, block.select(columns)), interval, proba)
        beside = {name: block[name] for name in kept}
        if twice := [name for name in beside if name in found.column_names]:
            raise ValueError(f"--keep {twice[0]}: the predictions have a column of that name; rename yours.")
        yield pyarrow.table(beside | dict(zip(found.column_names, found.columns, strict=True)))


def _told(tables: Iterator[Any]) -> Iterator[Any]:
    """Pass tables on; warn once at the end about missing columns and unseen levels in all of them."""
    from gramian.estimators.auto.tables import TableWarning

    missing: list[str] = []
    unseen: dict[str, Counter[str]] = {}
    while True:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TableWarning)
            table = next(tables, None)
        for each in caught:
            if not isinstance(each.message, TableWarning):
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
                continue
            missing = each.message.missing
            for name, odd in each.message.unseen.items():
                unseen[name] = unseen.get(name, Counter()) + odd
        if table is None:
            break
        yield table
    if missing or unseen:
        warn(TableWarning(missing, unseen))


def check_options(model: Any, proba: bool, interval: float | None) -> None:
    """Raise if the model cannot do what is asked for."""
    name = type(model).__name__
    if not hasattr(model, "predict"):
        raise ValueError(f"{name} does not predict; load it in Python with gramian.load and use transform.")
    if proba and not hasattr(model, "predict_proba"):
        raise ValueError(f"proba needs a classifier with probabilities, but this model is {name}.")
    if interval is not None:
        if "return_interval" not in inspect.signature(model.predict).parameters:
            raise ValueError(f"interval needs a regressor that gives intervals, but this model is {name}.")
        if not 0.0 < interval < 1.0:
            raise ValueError(f"interval must be a probability between 0 and 1, got {interval:g}.")


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
