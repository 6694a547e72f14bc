"""Data in many files or on a cluster, for ``fit`` and ``predict``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["add_options", "blocks_of", "is_spread", "predicted"]


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


def predicted(model: Any, options: argparse.Namespace, target: str | None) -> Iterator[Any]:
    """Yield tables of predictions, block by block."""
    import pyarrow

    from gramian.data import Blocks

    if options.proba or options.interval is not None:
        raise ValueError("--interval and --proba are for single files; predict the files one by one.")
    names = getattr(model, "feature_names_in_", None)
    columns = [name for name in Blocks(options.data).names or () if name != target] if names is None else list(names)
    with blocks_of(options, columns=[str(name) for name in columns]) as blocks:
        for values in model.predict(blocks):
            yield pyarrow.table({"prediction": values})
