"""``gramian inspect``: the contents of a saved model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gramian.cli.screen import Screen

__all__ = ["add", "run"]


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser = commands.add_parser("inspect", parents=[common], help="say what is in a saved model")
    parser.add_argument("model", help="the folder of a saved model")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Print what a model folder holds."""
    from gramian.files import inspect

    found = inspect(options.model)
    screen.say(str(found))
    return found.to_dict()
