"""``gramian serve``: a saved model behind HTTP on this machine."""

from __future__ import annotations

import argparse
import socket

from gramian.cli.screen import Screen
from gramian.cli.shared import MODEL, port, saved

HELP = "predict over HTTP with a saved model"
DESCRIPTION = "Rows as JSON in, predictions out: POST /predict, GET /schema, GET /health. Ctrl-C ends it."


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("model", help=MODEL)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: this machine only)")
    parser.add_argument("--port", type=port, default=8000, help="the port (default: 8000; 0 for a free one)")
    parser.add_argument("--max-body", type=float, default=16.0, metavar="MB", help="largest request (default: 16 MB)")
    parser.add_argument("--max-seconds", type=float, default=30.0, metavar="S", help="longest answer (default: 30 s)")


def run(options: argparse.Namespace, screen: Screen) -> None:
    """Load the model and answer until Ctrl-C."""
    if options.max_body <= 0 or options.max_seconds <= 0:
        raise ValueError("--max-body and --max-seconds must be above 0.")
    try:
        import uvicorn

        from gramian.cli.http_service import Limits, Service, application
    except ImportError as error:
        raise ImportError(f"{error}; gramian serve needs its extra: pip install '.[serve]' in the clone") from None
    model, notes = saved(options)
    if not hasattr(model, "predict"):
        raise ValueError(f"{type(model).__name__} does not predict, so there is nothing to serve.")
    limits = Limits(body=int(options.max_body * 2**20), seconds=options.max_seconds)
    app = application(Service(model, notes, limits))
    try:
        listening = socket.create_server((options.host, options.port))
    except OSError as error:
        where = f"{options.host}:{options.port}"
        raise OSError(
            f"cannot listen on {where}: {error.strerror}; choose another --port, or 0 for a free one."
        ) from None
    with listening:
        where = "http://{}:{}".format(*listening.getsockname()[:2])
        screen.say(f"{where}: POST /predict, GET /schema, GET /health; Ctrl-C ends it")
        uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_keep_alive=5)).run(sockets=[listening])
