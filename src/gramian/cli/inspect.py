"""``gramian inspect``: what is in a model folder, with nothing of it executed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gramian.cli.screen import Screen

__all__ = ["add", "run"]


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Describe the command.

    Parameters
    ----------
    commands : argparse's subparsers
        Where to.
    common : ArgumentParser
        Options that all commands have.
    """
    parser = commands.add_parser("inspect", parents=[common], help="say what is in a saved model")
    parser.add_argument("model", help="the folder of a saved model")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Print what a model folder holds.

    Parameters
    ----------
    options : Namespace
        Of the command line.
    screen : Screen
        Where to print.

    Returns
    -------
    dict
        The same in plain values.
    """
    from gramian.files import inspect

    found = inspect(options.model)
    screen.say(str(found))
    return found.to_dict()
