"""What commands share: loading a model, preparing inputs, opening data in many files or on a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MODEL = "the folder of a saved model"
TARGET = "the column that it predicts (default: the one it was fitted on)"


def saved(options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Return a saved model, and the notes about its data."""
    from gramian.files import inspect, load

    notes = inspect(options.model).data["notes"]
    return load(options.model), notes


def inputs_of(model: Any, table: Any) -> Any:
    """Return a table as it is for a model fitted on tables, else as a matrix of numbers."""
    import numpy as np

    if hasattr(model, "leaderboard_"):
        return table
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        if not str(kind).startswith(("int", "uint", "float", "double", "halffloat", "bool")):
            raise ValueError(f"column {name!r} holds {kind}, but this model takes only numbers.")
    return np.column_stack([np.asarray(column.to_numpy(), dtype=np.float64) for column in table.itercolumns()])


def columns_for(model: Any, source: Any, beside: Sequence[str | None]) -> list[str]:
    """Return the columns that a model takes, in its order; ``beside`` are targets and weights."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None and hasattr(model, "columns_"):  # an automatic model needs no column that it left out
        used = [column.name for column in model.columns_.columns if column.width]
        names = [name for name in used if name in source.names] or used
    if names is not None:
        source.require(list(names))
        return [str(name) for name in names]
    others = [name for name in source.names if name not in beside]
    if len(others) != model.n_features_in_:
        raise ValueError(f"the model takes {model.n_features_in_} columns, but {source.path} has {len(others)}.")
    return others


def port(text: str) -> int:
    """Read the number of a port."""
    if not text.isdigit() or int(text) >= 2**16:
        raise argparse.ArgumentTypeError(f"must be between 0 and 65535, got {text}")
    return int(text)


def check_free(path: Path, force: bool) -> None:
    """Raise if something would be overwritten without --force, or there is no folder for it."""
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent}; create it first.")
    if path.exists() and not force and not (path.is_dir() and not any(path.iterdir())):
        raise FileExistsError(f"{path} exists; choose another path, or overwrite it with --force.")


def named_columns(given: Sequence[str], names: Sequence[str], option: str) -> list[str]:
    """Return the columns that an option names, one at a time or separated by commas."""
    from gramian.numerals import nearest

    found = [name for text in given for name in ([text] if text in names else text.split(","))]
    for name in found:
        if name not in names:
            raise ValueError(f"{option}: there is no column {name!r}; {nearest(name, names)}")
    return found


def add_options(parser: argparse._ActionsContainer) -> None:
    """Add the options that choose the workers."""
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--workers", type=int, metavar="N", help="process blocks in N processes on this machine (Dask)")
    who.add_argument("--cluster", metavar="ADDRESS", help="process blocks on a Dask cluster, such as tcp://host:8786")


def is_spread(options: argparse.Namespace) -> bool:
    """Whether the data are read in blocks, which need not fit in memory together."""
    asked = options.workers is not None or options.cluster is not None
    return asked or any(mark in options.data for mark in "*?[") or Path(options.data).is_dir()


@contextmanager
def blocks_of(options: argparse.Namespace, **choice: Any) -> Iterator[Any]:
    """Open the data with the workers that the options choose."""
    from gramian.data import Blocks, connect

    if options.workers is not None and options.workers < 1:
        raise ValueError(f"--workers must be 1 or more, got {options.workers}.")
    with connect(options.workers, options.cluster) as client:
        yield Blocks(options.data, client=client, **choice)
