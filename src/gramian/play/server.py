"""A local server for one user: the files of the page and its answers, protected by a token."""

from __future__ import annotations

import base64
import hmac
import json
import math
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from gramian.play.asked import Asked, falling
from gramian.play.rooms import ROOMS
from gramian.progress import Trace

LARGEST = 4 * 2**20
"""Largest request in bytes."""
PATIENCE = 0.3
"""Seconds before the first progress report."""
PACE = 0.1
"""Seconds between progress reports."""
AT_ONCE = 4
"""Requests answered at the same time; the others wait."""
PAGES = 256
"""Pages whose latest request is remembered."""
SHORT = 64
"""Arrays up to this size are sent as text, longer ones as bytes."""
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".md": "text/plain",
    ".svg": "image/svg+xml",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
EXPECTED = (ValueError, TypeError, ArithmeticError, LookupError, MemoryError, NotImplementedError, RecursionError)
"""Errors caused by a bad request; their message is shown."""
PAGE = Path(__file__).parent / "page"


class DroppedError(Exception):
    """The request has been superseded."""


class PlayServer(ThreadingHTTPServer):
    """Serves the page on 127.0.0.1 to clients with the token."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.token = secrets.token_urlsafe(16)
        self.files = dict(_files())  # the only files served; paths cannot escape
        self.places = threading.BoundedSemaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._latest: OrderedDict[tuple[str, str], int] = OrderedDict()

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    def newest(self, page: str, room: str, number: int) -> Callable[[], bool]:
        """Register a request; the function returned tells whether it is still the newest of its page and topic."""
        key = (page, room)
        with self._lock:
            self._latest[key] = max(number, self._latest.pop(key, number))
            while len(self._latest) > PAGES:
                self._latest.popitem(last=False)
        return lambda: self._latest.get(key, number) <= number

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that the browser has closed."""


def _files() -> list[tuple[str, Path]]:
    """URL paths and file paths of the page and of the manual's theory chapters."""
    found = [(path.relative_to(PAGE).as_posix(), path) for path in PAGE.rglob("*") if path.suffix in TYPES]
    theory = Path(__file__).parent / "theory"  # in a wheel; in a clone, those of docs/
    theory = theory if theory.is_dir() else Path(__file__).parents[3] / "docs" / "theory"
    return [("", PAGE / "index.html"), *found, *((f"theory/{path.name}", path) for path in theory.glob("*.md"))]


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: PlayServer
    server_version, sys_version = "gramian", ""
    timeout = 30

    def do_GET(self) -> None:
        """Send a file of the page."""
        name = self._name()
        if name is None:
            return
        path = self.server.files.get(name)
        if path is None:
            self._refuse(404, "there is no such file here.")
            return
        content = path.read_bytes()
        self._begin(200, f"{TYPES[path.suffix]}; charset=utf-8", len(content))
        self.wfile.write(content)

    def do_POST(self) -> None:
        """Answer or cancel a request."""
        name = self._name()
        if name is None:
            return
        verb, _, room = name.partition("/")
        if verb not in ("ask", "cancel") or room not in ROOMS:
            self._refuse(404, f"there is no such question; there are {', '.join(ROOMS)}.")
            return
        question = self._question()
        if question is None:
            return
        page, number = str(question.get("page", "")), question.get("number", 0)
        state = question.get("state", {})
        if not isinstance(number, int) or not isinstance(state, dict) or len(page) > 100:
            self._refuse(400, "a question is {page: text, number: whole number, state: object}.")
            return
        newest = self.server.newest(page, room, number)
        self._begin(200, "application/x-ndjson")
        if verb == "ask":
            self._answer(room, state, newest)

    def _answer(self, room: str, state: dict[str, Any], newest: Callable[[], bool]) -> None:
        """Write lines of progress while the solver works, and then the answer or the error."""
        begun = told = time.monotonic()

        def tell(trace: Trace) -> None:
            nonlocal told
            if not newest():
                raise DroppedError
            now = time.monotonic()
            if now - begun > PATIENCE and now - told > PACE:
                told = now
                _, done, figures = trace.ticks[-1]
                more = {"seconds": now - begun, "steps": falling([trace])}
                self._line({"progress": {"label": trace.label, "done": done, **figures, **more}})

        try:
            with self.server.places:
                if not newest():
                    raise DroppedError
                found = ROOMS[room](Asked(state, tell))
            self._line({"answer": found, "seconds": time.monotonic() - begun})
        except DroppedError:
            self._line({"dropped": True})
        except EXPECTED as error:
            self._line({"error": " ".join(str(error).split()) or type(error).__name__})
        except OSError:  # the page was closed
            pass
        except Exception as error:
            self._line({"error": f"unexpected {type(error).__name__}: {error}; please report it."})

    def _name(self) -> str | None:
        """The path after the token; other requests are refused."""
        hosts = [f"{host}:{self.server.server_port}" for host in ("127.0.0.1", "localhost")]
        origin = self.headers.get("Origin")
        if self.headers.get("Host") not in hosts or (origin and origin not in [f"http://{host}" for host in hosts]):
            self._refuse(403, "this server answers to 127.0.0.1 only.")
            return None
        token, slash, name = self.path.partition("?")[0].removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._refuse(403, "the token is missing or wrong; open the address that gramian play printed.")
            return None
        if not slash:
            self._refuse(404, "the address ends with a slash.")
            return None
        return name

    def _question(self) -> dict[str, Any] | None:
        """The body as a JSON object; raise if its length is missing or too large."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self._refuse(411, "a question needs a Content-Length.")
            return None
        if int(length) > LARGEST:
            self._refuse(413, f"a question has at most {LARGEST:,} bytes, and this has {int(length):,}.")
            return None
        try:
            question = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as error:
            self._refuse(400, f"the question is no JSON: {error}")
            return None
        if not isinstance(question, dict):
            self._refuse(400, "the question is no JSON object.")
            return None
        return question

    def _begin(self, status: int, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def _refuse(self, status: int, why: str) -> None:
        content = json.dumps({"error": why}).encode()
        self.close_connection = True  # the rest of the body is not read
        self._begin(status, "application/json", len(content))
        self.wfile.write(content)

    def _line(self, value: dict[str, Any]) -> None:
        self.wfile.write(json.dumps(plain(value), separators=(",", ":"), allow_nan=False).encode() + b"\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def plain(value: Any) -> Any:
    """A value for JSON: arrays as lists, long ones as bytes, non-finite numbers as null."""
    if isinstance(value, np.ndarray):
        if value.size > SHORT and value.dtype.kind in "fiu":
            content = np.ascontiguousarray(value, dtype="<f4").tobytes()
            return {"float32": base64.b64encode(content).decode(), "shape": value.shape}
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
