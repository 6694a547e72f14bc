"""``gramian report``: an HTML page about a saved model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gramian.cli.screen import Screen

__all__ = ["add", "run"]


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser = commands.add_parser("report", parents=[common], help="write an HTML page about a saved model")
    parser.add_argument("model", help="the folder of a saved model")
    parser.add_argument("data", nargs="?", help="a table to judge it on")
    parser.add_argument("--target", help="the column that it predicts (default: the one it was fitted on)")
    parser.add_argument("-o", "--out", default="report.html", metavar="FILE", help="(default: %(default)s)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Write the page."""
    from gramian.data.tables import read_table, split_target
    from gramian.files import inspect, load

    try:
        from gramian.reports import report
    except ModuleNotFoundError as error:
        raise ImportError('reports need matplotlib and jinja2: pip install "gramian[report]"') from error
    notes = inspect(options.model).data["notes"]
    target = options.target or notes.get("target")
    X = y = None
    if options.data is not None:
        if target is None:
            raise ValueError("the model does not say which column it predicts; give it with --target.")
        X, y = split_target(read_table(options.data), target)
    source = options.data or notes.get("source")
    path = report(load(options.model), X, y, options.out, source=source, folder=options.model)
    screen.say(f"report: {path}")
    return {"report": str(path)}
