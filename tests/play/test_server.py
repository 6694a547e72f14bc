"""The server: who is refused, what is too much, who is dropped; and that it stays up."""

import http.client
import json
import posixpath
import re
import socket
import threading

import numpy as np
import pytest

from gramian.play import server as module
from gramian.play.server import LARGEST, PlayServer, plain

POINTS = [[-1.0, 0.1, 0], [-0.6, 0.9, 0], [1.0, 0.2, 1], [0.7, -0.8, 1]]


@pytest.fixture(scope="module")
def server():
    with PlayServer() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def request(server, path, body=None, headers=None, method=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    data = None if body is None else json.dumps(body).encode()
    connection.request(method or ("GET" if body is None else "POST"), path, data, headers or {})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response, content


def ask(server, room, state, page="p", number=1):
    response, content = request(server, f"/{server.token}/ask/{room}", {"page": page, "number": number, "state": state})
    assert response.status == 200
    return [json.loads(line) for line in content.splitlines()][-1]


def alive(server):
    return "answer" in ask(server, "plane", {"points": POINTS}, page="alive")


def test_the_page_and_its_files(server):
    for name, kind in (("", "text/html"), ("app.js", "text/javascript"), ("rooms/plane.js", "text/javascript")):
        response, content = request(server, f"/{server.token}/{name}")
        assert (response.status, response.headers.get_content_type()) == (200, kind)
        assert content
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert b"http://" not in content.replace(b"http://www.w3.org/", b"")
        assert b"https://" not in content
    assert request(server, f"/{server.token}/theory/kernels.md")[0].status == 200


def test_all_that_the_page_asks_for_is_served(server):
    """Modules import files that are there, from here; rooms link to theory and ask questions that exist."""
    for name, path in server.files.items():
        text = path.read_text() if path.suffix in (".js", ".html") else ""
        for asked in re.findall(r'(?:from|src=|href=|import\() ?"([^"#{]+)"', text):
            assert posixpath.normpath(posixpath.join(posixpath.dirname(name), asked)) in server.files, (name, asked)
        for page in re.findall(r'theory: "(\w+)"', text):
            assert f"theory/{page}.md" in server.files
        for room in re.findall(r'askOnce\("(\w+)"|new Asker\("(\w+)"|^  id: "(\w+)"', text, re.MULTILINE):
            assert "".join(room) in module.ROOMS, (name, room)


@pytest.mark.parametrize("path", ["/", "/app.js", "/wrong/", "/wrong/ask/plane", "/ask/plane", "//", "/?token=x"])
@pytest.mark.parametrize("body", [None, {"state": {}}])
def test_without_the_token_all_is_refused(server, path, body):
    response, content = request(server, path, body)
    assert response.status == 403
    assert "token" in json.loads(content)["error"]


@pytest.mark.parametrize(
    "path", ["../server.py", "..%2fserver.py", "%2e%2e/server.py", "rooms/../../server.py", "/etc/passwd", "nothing.js"]
)
def test_paths_outside_the_page_are_refused(server, path):
    response, _ = request(server, f"/{server.token}/{path}")
    assert response.status == 404


@pytest.mark.parametrize("headers", [{"Host": "example.com"}, {"Origin": "http://example.com"}, {"Origin": "null"}])
def test_other_hosts_are_refused(server, headers):
    response, content = request(server, f"/{server.token}/", headers=headers)
    assert response.status == 403
    assert "127.0.0.1" in json.loads(content)["error"]


def test_a_long_body_is_refused_unread(server):
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection:
        head = f"POST /{server.token}/ask/plane HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n"
        connection.sendall(f"{head}Content-Length: {100 * 2**20}\r\n\r\n".encode())
        answer = connection.makefile("rb").read()
    assert b" 413 " in answer.splitlines()[0]
    assert f"{LARGEST:,}".encode() in answer
    assert alive(server)


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"[1]", 400),
        (b"{", 400),
        (b"[" * 100_000, 400),
        (b"\xff", 400),
        (b'{"number": "x"}', 400),
        (b'{"state": 1}', 400),
    ],
)
def test_a_body_that_is_no_question_is_refused(server, content, status):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request("POST", f"/{server.token}/ask/plane", content)
    response = connection.getresponse()
    assert response.status == status
    assert json.loads(response.read())["error"]
    connection.close()
    assert alive(server)


def test_a_body_without_a_length_is_refused(server):
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection:
        head = f"POST /{server.token}/ask/plane HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n"
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        assert b" 411 " in connection.recv(4096).splitlines()[0]


def test_other_questions_and_methods_are_refused(server):
    assert request(server, f"/{server.token}/ask/nothing", {})[0].status == 404
    assert request(server, f"/{server.token}/", method="DELETE")[0].status == 501
    assert alive(server)


def test_a_wrong_state_is_explained(server):
    line = ask(server, "plane", {"points": POINTS, "kernel": "RBF("})
    assert "not a kernel expression" in line["error"]
    assert alive(server)


def test_an_unexpected_error_is_told_and_survived(server, monkeypatch):
    def broken(asked):
        raise RuntimeError("broken")

    monkeypatch.setitem(module.ROOMS, "plane", broken)
    assert "unexpected RuntimeError: broken" in ask(server, "plane", {})["error"]
    monkeypatch.undo()
    assert alive(server)


def test_two_pages_and_many_questions(server):
    found = []

    def page(name):
        for i in range(25):
            state = {"points": [*POINTS, [0.01 * i, 0.5, i % 2]], "kernel": "RBF(0.5)"}
            found.append(ask(server, "plane", state, page=name, number=i)["answer"]["numbers"]["primal"])

    threads = [threading.Thread(target=page, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 50
    assert len(set(np.round(found, 9))) == 25  # both pages got the same answers
    assert alive(server)


def test_older_questions_are_dropped(server, monkeypatch):
    """A slow question ends where a newer one of its page comes; that of another page goes on."""
    begun, told = threading.Event(), threading.Event()

    class Ticks:
        label, ticks = "slow", ((0.0, 1.0, {"gap": 0.5}),)

    def slow(asked):
        if "quick" in asked.state:
            return {"numbers": {}}
        begun.set()
        while not told.wait(0.01):
            asked.tell(Ticks)
        return {"numbers": {}}

    monkeypatch.setitem(module.ROOMS, "plane", slow)
    lines = {}
    threads = [
        threading.Thread(target=lambda page=page: lines.update({page: ask(server, "plane", {}, page, 1)}))
        for page in ("old", "other")
    ]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    assert "answer" in ask(server, "plane", {"quick": 1}, "old", 2)
    threads[0].join(10)
    told.set()
    threads[1].join(10)
    assert lines["old"] == {"dropped": True}
    assert "answer" in lines["other"]
    assert ask(server, "plane", {"quick": 1}, "old", 1) == {"dropped": True}  # comes late


def test_slow_questions_tell_of_progress_and_can_be_cancelled(server, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    monkeypatch.setattr(module, "PACE", 0.0)
    points = [[*row[:2], row[2]] for row in POINTS]
    path = f"/{server.token}/ask/plane"
    _, content = request(
        server, path, {"page": "slow", "number": 1, "state": {"points": points, "machine": "logistic"}}
    )
    lines = [json.loads(line) for line in content.splitlines()]
    assert lines[0]["progress"]["gap"] > 0
    assert "answer" in lines[-1]
    request(server, f"/{server.token}/cancel/plane", {"page": "slow", "number": 5})
    assert ask(server, "plane", {"points": points}, "slow", 4) == {"dropped": True}


def test_plain_values():
    value = plain({"a": np.arange(3), "b": np.nan, "c": (np.float64(1.5), np.int64(2)), "d": np.zeros((10, 10))})
    assert value["a"] == [0, 1, 2]
    assert value["b"] is None
    assert value["c"] == [1.5, 2]
    assert value["d"]["shape"] == (10, 10)
    assert json.dumps(value, allow_nan=False)
