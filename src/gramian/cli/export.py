"""``gramian export``: a saved model as a file for other programs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gramian.cli.screen import Screen
from gramian.cli.shared import MODEL, check_free, saved

HELP = "write a saved model as an ONNX file"
DESCRIPTION = "The graph is in double precision, and is compared with the model before it is written."


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("model", help=MODEL)
    parser.add_argument("--onnx", required=True, metavar="FILE", help="where to write the graph")
    parser.add_argument("--force", action="store_true", help="overwrite FILE if it exists")


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Write the graph, and print the largest difference from the model."""
    from gramian.onnx import export

    check_free(Path(options.onnx), options.force)
    found = export(saved(options)[0], options.onnx)
    screen.say(str(found))
    return {"file": str(found.path), "outputs": found.outputs, "rows": found.rows, "difference": found.difference}
