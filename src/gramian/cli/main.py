"""The ``gramian`` command: its parser, its errors and its exit codes."""

from __future__ import annotations

import argparse
import atexit
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from gramian import __version__
from gramian.cli import demo, explain_kernel, export, fit, inspect, play, predict, report, serve, verify, warmup
from gramian.cli.screen import Screen

COMMANDS = (fit, predict, serve, export, verify, inspect, explain_kernel, report, demo, play, warmup)
"""Modules with the name of a command, its HELP, ``add``, which describes its arguments, and ``run``."""
EPILOG = """exit codes: 0 done; 1 an error that gramian did not expect, or a certificate that verify does not confirm;
2 a wrong call, or data or a model that cannot be used, explained in one line; 130 stopped by Ctrl-C"""


class _Parser(argparse.ArgumentParser):
    """Report a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"gramian: {message}; try {self.prog} --help\n")


def command() -> NoReturn:
    """Run the command line, and end the process.

    Python would first free what all libraries have made, object by object: 0.3 s, and 2 s on a busy machine.
    """
    code = main()
    atexit._run_exitfuncs()
    with suppress(BrokenPipeError):
        sys.stdout.flush()
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line."""
    options = parser().parse_args((sys.argv[1:] if argv is None else argv) or ["--help"])
    screen = Screen(json=options.json)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            try:
                found = options.run(options, screen)
                screen.result(found)
            finally:
                screen.notes(caught)
    except BrokenPipeError:
        return 0  # the reader of our output has read enough
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt):
            code, message = 130, "stopped; nothing half-written is left"
        elif isinstance(error, (ImportError, MemoryError, OSError, TypeError, ValueError)):
            code, message = 2, str(error) or type(error).__name__
        else:
            code = 1
            message = f"unexpected {type(error).__name__}: {error}; --debug shows where, please report it"
        if options.debug:
            traceback.print_exc()
        print("gramian:", " ".join(message.split()), file=sys.stderr)
        return code
    return int(bool(found) and found.get("agree") is False)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    common = _Parser(add_help=False)
    common.add_argument("--json", action="store_true", help="print the result as one JSON object, and nothing else")
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    made = _Parser(prog="gramian", description="Kernel machines, every fit with a certificate.", epilog=EPILOG)
    made.add_argument("--version", action="version", version=f"gramian {__version__}")
    commands = made.add_subparsers(dest="command", required=True, metavar="command")
    for module in COMMANDS:
        name = module.__name__.rpartition(".")[2].replace("_", "-")
        description = getattr(module, "DESCRIPTION", None)
        command = commands.add_parser(name, parents=[common], help=module.HELP, description=description)
        module.add(command)
        command.set_defaults(run=module.run)
    return made
