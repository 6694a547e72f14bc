"""``gramian play``: the lectures in a browser, computed by the library."""

from __future__ import annotations

import argparse
from typing import Any

from gramian.cli.screen import Screen

HELP = "play with kernel machines in a browser"
DESCRIPTION = "Serve a page on 127.0.0.1 that draws kernel machines as you move points and sliders; Ctrl-C stops it."
PORT = 8642
"""The first port that is tried: links then are the same on most machines but for the token."""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument(
        "link", nargs="?", default="", help="a link that somebody copied from their page: opens it here"
    )
    parser.add_argument("--port", type=int, help=f"(default: {PORT}, or a free one)")
    parser.add_argument("--no-open", action="store_true", help="only print the address")


def run(options: argparse.Namespace, screen: Screen) -> None:
    """Serve until Ctrl-C."""
    import sys
    import threading
    import warnings
    import webbrowser

    from gramian.play.rooms import warm_up
    from gramian.resources import one_blas_thread

    _, hash_mark, state = options.link.partition("#")
    if options.link and not hash_mark:
        raise ValueError("the link has no state: copy it with the button of the page, with all that follows the #.")
    warnings.simplefilter("ignore")  # the page shows certificates instead
    # Here and not in the threads that answer: threadpoolctl lets one thread only set the threads of BLAS.
    with one_blas_thread(), _server(options.port) as server:
        address = f"{server.address}{hash_mark}{state}"
        screen.say(f"gramian play: {address}\nCtrl-C stops it.")
        screen.result({"address": address})
        sys.stdout.flush()
        threading.Thread(target=warm_up, daemon=True).start()
        if not options.no_open:
            webbrowser.open(address)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            screen.say("\nstopped")


def _server(port: int | None) -> Any:
    """A server on a port that was asked for, or else on the usual one or any that is free."""
    from gramian.play.server import PlayServer

    if port is not None:
        if not 0 <= port < 2**16:
            raise ValueError(f"--port must be between 0 and 65535, got {port}.")
        return PlayServer(port)
    try:
        return PlayServer(PORT)
    except OSError:
        return PlayServer(0)
