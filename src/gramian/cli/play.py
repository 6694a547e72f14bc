"""``gramian play``: an interactive page about kernel machines in the browser."""

from __future__ import annotations

import argparse
from typing import Any

from gramian.cli.screen import Screen
from gramian.cli.shared import port

HELP = "play with kernel machines in a browser"
DESCRIPTION = "Serve a page on 127.0.0.1 that draws kernel machines as you move points and sliders; Ctrl-C stops it."
PORT = 8642
"""The port tried first, so that links differ only in their token on most machines."""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument(
        "link", nargs="?", default="", help="a link copied from another page, to open the same picture here"
    )
    parser.add_argument("--port", type=port, help=f"(default: {PORT}, or a free one)")
    parser.add_argument("--no-open", action="store_true", help="print the address without opening a browser")


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
        raise ValueError("the link ends before the #; copy all of it with the page's Copy link button.")
    warnings.simplefilter("ignore")  # the page shows the certificates
    # Not in the threads that answer: only one thread may set the number of BLAS threads.
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


def _server(given: int | None) -> Any:
    """A server on the given port, or on the usual one if it is free, else on any."""
    from gramian.play.server import PlayServer

    if given is not None:
        return PlayServer(given)
    try:
        return PlayServer(PORT)
    except OSError:
        return PlayServer(0)
