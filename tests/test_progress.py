"""The clock behind ``max_time``."""

from __future__ import annotations

import threading

from gramian import progress
from gramian.compiled import compiled


def test_compiling_stops_the_clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    clock = progress.Clock(max_time=10.0)
    now[0] += 3.0
    with progress.compiling, progress.compiling:
        now[0] += 100.0
        assert clock.seconds == 3.0
    now[0] += 4.0
    assert clock.seconds == 7.0
    assert not clock.expired
    now[0] += 4.0
    assert clock.expired


def test_a_clock_may_count_compilation(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    clock = progress.Clock(max_time=10.0, start=0.0, now=lambda: now[0])
    with progress.compiling:
        now[0] += 11.0
        assert clock.seconds == 11.0
    assert clock.share(0.5).expired


def test_a_slower_machine_and_parts_of_the_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    clock = progress.Clock(max_time=10.0, pace=2.0)
    now[0] += 1.0
    assert clock.seconds == 2.0
    assert clock.left == 4.0
    assert clock.share(0.5).max_time == 6.0
    assert progress.Clock().share(0.5).left == float("inf")
    now[0] += 5.0
    assert clock.expired


def test_a_solver_ends_by_time_or_by_steps(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    clock, stopped = progress.Clock(max_time=2.0), threading.Event()
    assert clock.ended(4, 5) == ""
    assert clock.ended(5, 5) == "max_iter=5 was reached"
    now[0] += 3.0
    assert clock.ended(5, 5) == "max_time=2 s passed"
    stopped.set()
    assert progress.Clock(stop=stopped).ended(0, 5) == "interrupted"


def test_numba_says_when_it_compiles(monkeypatch):
    said = []
    monkeypatch.setattr(progress._Compiling, "__enter__", lambda self: said.append("begin"))
    monkeypatch.setattr(progress._Compiling, "__exit__", lambda self, *error: said.append("end"))

    @compiled()
    def double(x):
        return 2.0 * x

    assert double(1.0) == 2.0
    assert said[0] == "begin"
    assert said[-1] == "end"
