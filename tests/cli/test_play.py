"""``gramian play`` as a person starts it."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from gramian.cli import main, play
from gramian.play.server import PlayServer


def test_it_serves_until_ctrl_c():
    command = [
        sys.executable,
        "-m",
        "gramian",
        "play",
        "--no-open",
        "--port",
        "0",
        "--json",
        "http://127.0.0.1:1/x/#plane?%7B%7D",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline() for _ in range(3)]
        address = json.loads("".join(lines))["address"]
        assert address.startswith("http://127.0.0.1:")
        assert address.endswith("/#plane?%7B%7D")
        with urllib.request.urlopen(address.partition("#")[0]) as response:
            assert b"gramian play" in response.read()
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=30)
    assert (process.returncode, out, error) == (0, "", "")


@pytest.mark.parametrize("closed", [False, True])
def test_it_opens_the_browser(closed, monkeypatch, capsys):
    """On the usual port, or on another where that is taken."""
    opened = []

    def serve(server, poll_interval):
        raise KeyboardInterrupt

    monkeypatch.setattr(PlayServer, "serve_forever", serve)
    monkeypatch.setattr("gramian.play.rooms.warm_up", lambda: None)
    monkeypatch.setattr("webbrowser.open", opened.append)
    with PlayServer() as busy:
        monkeypatch.setattr(play, "PORT", busy.server_port if closed else 0)
        assert main(["play"]) == 0
        assert opened[0] in capsys.readouterr().out
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{16,}/", opened[0])
        assert opened[0] != busy.address


def test_a_link_without_its_end(capsys):
    assert main(["play", "--no-open", "http://127.0.0.1:1/"]) == 2
    assert "ends before the #" in capsys.readouterr().err
