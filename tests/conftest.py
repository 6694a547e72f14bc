"""Fixtures that every test may use."""

import signal

import numpy as np
import pytest

import chromium


def pytest_configure():
    """Answer Ctrl-C as at a terminal: a shell that starts us in the background has it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def rng():
    """A generator of its own for every test, so that no test depends on another."""
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Chromium, where it is installed."""
    driver = chromium.started(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()
