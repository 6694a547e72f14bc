"""``gramian predict``: predictions of a saved model for a table, block by block."""

from __future__ import annotations

import argparse
import inspect as signatures
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gramian.cli.spread import add_options, is_spread, predicted

if TYPE_CHECKING:
    from gramian.cli.screen import Screen

__all__ = ["add", "matrix_of", "run"]


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "predict",
        parents=[common],
        help="predict with a saved model",
        description="Predict every row of a table, in blocks, so that the table need not fit in memory.",
    )
    parser.add_argument("model", help="the folder of a saved model")
    parser.add_argument(
        "data", help="the table, a folder or a quoted pattern of tables, with the columns that the model was fitted on"
    )
    parser.add_argument("-o", "--out", metavar="FILE", help=".csv, .parquet or .arrow (default: CSV to the output)")
    parser.add_argument("--interval", type=float, metavar="P", help="also the ends of an interval of probability P")
    parser.add_argument("--proba", action="store_true", help="also the probability of each class")
    add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any] | None:
    """Predict and write."""
    from gramian.data.output import check_output, writing
    from gramian.files import inspect, load

    target = None if options.out in (None, "-") else Path(options.out)
    if target is None and screen.json:
        raise ValueError("--json needs -o FILE: without it the predictions themselves go to the output.")
    if target is not None:
        check_output(target)
    notes = inspect(options.model).data["notes"]
    model = load(options.model)
    _check_options(model, options)
    tables = predicted(model, options, notes.get("target")) if is_spread(options) else _predicted(model, options, notes)
    done, file = 0, sys.stdout.buffer if target is None else target
    with writing(file) as write, screen.counter("predicting") as count:
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


def _predicted(model: Any, options: argparse.Namespace, notes: dict[str, Any]) -> Iterator[Any]:
    """Tables of predictions for a single file, block by block."""
    from gramian.data.tables import open_table

    source = open_table(options.data)
    columns = _columns(model, source, notes)
    types = {name: kind for name, kind in notes.get("types", {}).items() if name in columns}
    for block in source.iterate(columns, types=types):
        yield predictions(model, block.select(columns), options)


def _check_options(model: Any, options: argparse.Namespace) -> None:
    name = type(model).__name__
    if not hasattr(model, "predict"):
        raise ValueError(f"{name} does not predict; load it in Python with gramian.load and use transform.")
    if options.proba and not hasattr(model, "predict_proba"):
        raise ValueError(f"--proba needs a classifier with probabilities, but this model is {name}.")
    if options.interval is not None:
        if "return_interval" not in signatures.signature(model.predict).parameters:
            raise ValueError(f"--interval needs a regressor that gives intervals, but this model is {name}.")
        if not 0.0 < options.interval < 1.0:
            raise ValueError(f"--interval must be a probability between 0 and 1, got {options.interval:g}.")


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


def predictions(model: Any, block: Any, options: argparse.Namespace) -> Any:
    """Return a table of predictions for a block of rows."""
    import numpy as np
    import pyarrow

    X = block if hasattr(model, "leaderboard_") else matrix_of(block)
    if options.interval is not None:
        found = dict(
            zip(("prediction", "lower", "upper"), model.predict(X, return_interval=options.interval), strict=True)
        )
    else:
        found = {"prediction": model.predict(X)}
    made: dict[str, Any] = {}
    for name, values in found.items():
        several = np.asarray(values)
        made |= (
            {name: several} if several.ndim == 1 else {f"{name}_{j}": several[:, j] for j in range(several.shape[1])}
        )
    if options.proba:
        made |= {f"proba_{c}": p for c, p in zip(model.classes_, model.predict_proba(X).T, strict=True)}
    return pyarrow.table({name: np.ascontiguousarray(values) for name, values in made.items()})


def matrix_of(block: Any) -> Any:
    """Return the columns of a table as a matrix of numbers, for estimators that were not fitted on tables."""
    import numpy as np

    for name, kind in zip(block.column_names, block.schema.types, strict=True):
        if not str(kind).startswith(("int", "uint", "float", "double", "halffloat", "bool")):
            raise ValueError(f"column {name!r} holds {kind}, but this model takes only numbers.")
    return np.column_stack([np.asarray(column.to_numpy(), dtype=np.float64) for column in block.itercolumns()])
