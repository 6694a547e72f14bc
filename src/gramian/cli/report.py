"""``gramian report``: an HTML page about a saved model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gramian.cli.screen import Screen
from gramian.cli.shared import MODEL, TARGET, check_free, saved

HELP = "write an HTML page about a saved model"


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("model", help=MODEL)
    parser.add_argument("data", nargs="?", help="a table to judge it on")
    parser.add_argument("--target", help=TARGET)
    parser.add_argument("-o", "--out", default="report.html", metavar="FILE", help="(default: %(default)s)")
    parser.add_argument("--force", action="store_true", help="overwrite FILE if it exists")


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Write the page."""
    from gramian.reports import report

    check_free(Path(options.out), options.force)
    model, notes = saved(options)
    X = y = target = None
    if options.data is not None:
        from gramian.data.tables import read_table, split_target

        target = options.target or notes.get("target")
        if target is None:
            raise ValueError("the model does not say which column it predicts; give it with --target.")
        X, y = split_target(read_table(options.data), target)
    source = options.data or notes.get("source")
    path = report(model, X, y, options.out, source=source, folder=options.model, target=target)
    screen.say(f"report: {path}")
    return {"report": str(path)}
