"""Budgets, worker counts and the thread runner."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from gramian.gram.threads import tile_shape
from gramian.resources import (
    answering,
    available_memory,
    memory_budget,
    openmp_threads,
    readable,
    run,
    spans,
    worker_count,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("500MB", 500e6),
        ("2GB", 2e9),
        ("1.5 gb", 1.5e9),
        ("2GiB", 2 * 2**30),
        ("7", 7),
        (1000, 1000),
        (1e6, 1e6),
        (np.int64(7), 7),
    ],
)
def test_budgets(text, count):
    assert memory_budget(text) == int(count)


@pytest.mark.parametrize("wrong", ["", "much", "5XB", -1, 0, "-5MB", np.nan, np.inf, True, [1]])
def test_wrong_budgets(wrong):
    with pytest.raises(ValueError, match=r"memory must be .* such as '500MB'"):
        memory_budget(wrong)


def test_the_default_budget_is_half_of_what_there_is():
    assert 0 < memory_budget(None) <= available_memory() * 0.75


def test_readable():
    assert [readable(x) for x in (5, 1500, 3.2e9, 7e13)] == ["5 B", "1.5 KB", "3.2 GB", "70 TB"]


def test_workers():
    assert worker_count(3) == 3
    assert worker_count(None) == worker_count(-1) >= 1
    assert worker_count(-1000) == 1
    for wrong in (0, 1.5, True, "all"):
        with pytest.raises(ValueError, match="n_jobs must be a whole number"):
            worker_count(wrong)


def test_spans_cover():
    assert [(s.start, s.stop) for s in spans(7, 3)] == [(0, 3), (3, 6), (6, 7)]


@pytest.mark.parametrize("budget", [1, 1000, 10**6, 10**10])
@pytest.mark.parametrize("workers", [1, 2, 64])
def test_tiles_fit_the_budget(budget, workers):
    rows, columns = tile_shape(100_000, budget, 16, workers)
    assert rows >= 1
    assert columns >= 1
    assert rows * columns * 16 * workers <= max(budget, 16 * workers)


def test_tiles_do_not_depend_on_the_workers_where_memory_is_plenty():
    assert tile_shape(10_000, 10**9, 8, 1) == tile_shape(10_000, 10**9, 8, 16)


def test_blas_has_one_thread_until_the_last_caller_is_out():
    from threadpoolctl import threadpool_info, threadpool_limits

    def threads(_=None):
        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

    def outer(_):
        return run(threads, range(2), 2), threads()

    with threadpool_limits(2, user_api="blas"):
        for inner, after in run(outer, range(3), 2):
            assert inner == [{1}, {1}]
            assert after == {1}
        assert threads() == {2}
        assert run(threads, range(2), 1) == [{1}, {1}]


def test_inside_a_worker_of_joblib_there_is_one_core():
    import joblib

    assert joblib.Parallel(2)(joblib.delayed(worker_count)(None) for _ in range(2)) == [1, 1]


def test_run_keeps_order_and_raises_the_first_error():
    def slow(i):
        time.sleep(0.01 * (5 - i))
        return i

    assert run(slow, range(5), 3) == list(range(5))
    done = []

    def failing(i):
        if i == 1:
            raise RuntimeError("row 1")
        time.sleep(0.01)
        done.append(i)

    with pytest.raises(RuntimeError, match="row 1"):
        run(failing, range(1000), 2)
    assert len(done) < 900


@pytest.mark.parametrize(("cells", "n_jobs", "threads"), [(1000, 2, 1), (10**6, 2, 2), (10**6, 1, 1), (10**6, 64, 2)])
def test_openmp_takes_threads_for_much_work_only(cells, n_jobs, threads):
    from threadpoolctl import threadpool_info, threadpool_limits

    def openmp():
        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "openmp"}

    with threadpool_limits(2, user_api="openmp"):
        with openmp_threads(cells, n_jobs):
            assert openmp() == {threads}
        assert openmp() == {2}


def test_work_that_cannot_be_interrupted_is_left_alone_at_ctrl_c():
    assert answering(lambda: threading.current_thread() is not threading.main_thread())
    with pytest.raises(np.linalg.LinAlgError, match="square"):  # what the thread raises, the caller sees
        answering(lambda: np.linalg.eigh(np.ones((3, 2))))
    begun, go = threading.Event(), threading.Event()

    def work():
        begun.set()
        go.wait()

    def press():
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        answering(work)
    go.set()
