"""``gramian export``: a saved model as a file for other programs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gramian.cli.screen import Screen
from gramian.cli.shared import MODEL, check_free, columns_for, inputs_of, saved

HELP = "write a saved model as an ONNX file"
DESCRIPTION = "The graph is in double precision, and is compared with the model before it is written."


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("model", help=MODEL)
    parser.add_argument("data", nargs="?", help="a table to compare the two on (default: rows like those of the fit)")
    parser.add_argument("--onnx", required=True, metavar="FILE", help="where to write the graph")
    parser.add_argument("--force", action="store_true", help="overwrite FILE if it exists")


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Write the graph, and print the largest difference from the model."""
    from gramian.onnx import export

    check_free(Path(options.onnx), options.force)
    model, notes = saved(options)
    X = None
    if options.data is not None:
        from gramian.data.tables import open_table

        source = open_table(options.data)
        columns = columns_for(model, source, [notes.get("target")])
        X = inputs_of(model, source.read().select(columns))
    found = export(model, options.onnx, X)
    screen.say(str(found))
    return {"file": str(found.path), "outputs": found.outputs, "rows": found.rows, "difference": found.difference}
