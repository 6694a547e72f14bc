"""``gramian inspect``: what is in a saved model."""

from __future__ import annotations

import argparse
from typing import Any

from gramian.cli.screen import Screen
from gramian.cli.shared import MODEL

HELP = "show what is in a saved model"


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("model", help=MODEL)


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Print what a model folder holds."""
    from gramian.files import inspect

    found = inspect(options.model)
    screen.say(str(found))
    return found.to_dict()
