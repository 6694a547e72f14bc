"""Parts that commands share: a saved model, the inputs of a table, and data in many files or on a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MODEL = "the folder of a saved model"
TARGET = "the column that it predicts (default: the one it was fitted on)"


def saved(options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Return a saved model, and what was noted of its data."""
    from gramian.files import inspect, load

    notes = inspect(options.model).data["notes"]
    return load(options.model), notes


def inputs_of(model: Any, table: Any) -> Any:
    """Return a table as a model takes it: as it is where it was fitted on tables, else a matrix of numbers."""
    import numpy as np

    if hasattr(model, "leaderboard_"):
        return table
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        if not str(kind).startswith(("int", "uint", "float", "double", "halffloat", "bool")):
            raise ValueError(f"column {name!r} holds {kind}, but this model takes only numbers.")
    return np.column_stack([np.asarray(column.to_numpy(), dtype=np.float64) for column in table.itercolumns()])


def check_free(path: Path, force: bool) -> None:
    """Raise where something would be replaced that nobody asked to replace."""
    if path.exists() and not force and not (path.is_dir() and not any(path.iterdir())):
        raise FileExistsError(f"{path} exists; choose another path, or replace it with --force.")


def named_columns(given: Sequence[str], names: Sequence[str], option: str) -> list[str]:
    """Return the columns that an option names, each by itself or several with commas between."""
    from gramian.kernels.deserialize import nearest

    found = [name for text in given for name in ([text] if text in names else text.split(","))]
    for name in found:
        if name not in names:
            raise ValueError(f"{option} names {name!r}, which is no column; {nearest(name, names)}")
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Describe who works on the blocks."""
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--workers", type=int, metavar="N", help="read in blocks, by N processes of this machine (Dask)")
    who.add_argument("--cluster", metavar="ADDRESS", help="read in blocks, by a Dask cluster, such as tcp://host:8786")


def is_spread(options: argparse.Namespace) -> bool:
    """Tell whether the data are read in blocks that need not fit in memory."""
    asked = options.workers is not None or options.cluster is not None
    return asked or any(mark in options.data for mark in "*?[") or Path(options.data).is_dir()


@contextmanager
def blocks_of(options: argparse.Namespace, **choice: Any) -> Iterator[Any]:
    """Open the data, with the workers that were asked for."""
    from gramian.data import Blocks, connect

    if options.workers is not None and options.workers < 1:
        raise ValueError(f"--workers must be 1 or more, got {options.workers}.")
    with connect(options.workers, options.cluster) as client:
        yield Blocks(options.data, client=client, **choice)
