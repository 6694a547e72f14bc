"""The ``gramian`` command: its parser, its errors and its exit codes."""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import NoReturn

from gramian import __version__
from gramian.cli import demo, explain_kernel, fit, inspect, predict, report, verify
from gramian.cli.screen import Screen

__all__ = ["main"]

COMMANDS = (fit, predict, verify, inspect, explain_kernel, report, demo)
EPILOG = """exit codes: 0 done; 1 an error that gramian did not expect, or a certificate that verify does not confirm;
2 a wrong call, or data or a model that cannot be used, told in one line; 130 stopped by Ctrl-C"""


class _Parser(argparse.ArgumentParser):
    """Report a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"gramian: {message}; try {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line."""
    options = _parser().parse_args(argv)
    screen = Screen(json=options.json)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            try:
                found = options.run(options, screen)
                screen.result(found)
            finally:
                screen.notes(caught)
    except KeyboardInterrupt:
        return _failed("stopped; nothing half-written is left", 130, options.debug)
    except BrokenPipeError:
        return 0  # whoever reads our output has read enough
    except (ImportError, MemoryError, OSError, TypeError, ValueError) as error:
        return _failed(str(error) or type(error).__name__, 2, options.debug)
    except Exception as error:
        message = f"unexpected {type(error).__name__}: {error}; --debug shows where, please report it"
        return _failed(message, 1, options.debug)
    return int(bool(found) and found.get("agree") is False)


def _failed(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print("gramian:", " ".join(message.split()), file=sys.stderr)
    return code


def _parser() -> _Parser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print the result as one JSON object, and nothing else")
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser = _Parser(prog="gramian", description="Kernel machines, every fit with a certificate.", epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"gramian {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for command in COMMANDS:
        command.add(commands, common)
    return parser
