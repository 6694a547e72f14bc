"""A Dask scheduler and its workers as separate processes, as on a cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WAIT = 60.0
"""Seconds in which a scheduler must have come up."""


@contextmanager
def scheduler_and_workers(folder: Path, workers: int) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Yield the address and the process of a scheduler; it and its workers are killed at the end."""
    contact = folder / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    common = ["--no-dashboard", "--scheduler-file", str(contact)]
    program = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--host", "127.0.0.1"]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny"]
    processes = [subprocess.Popen([*program, *common], **quiet)]
    processes += [subprocess.Popen([*worker, *common], **quiet) for _ in range(workers)]
    try:
        end = time.monotonic() + WAIT
        while not contact.exists() and time.monotonic() < end:
            time.sleep(0.05)
        yield json.loads(contact.read_text())["address"], processes[0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
