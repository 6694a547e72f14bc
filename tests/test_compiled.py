"""Compiled functions where nothing can be written: they are compiled in memory, and one line says what helps."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gramian

LOGGED = """
import logging
logging.basicConfig(format="%(levelname)s %(message)s")
"""
FIT = """
from gramian import SVC
model = SVC().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
print(model.certificate_.converged, model.predict([[0.0], [3.0]]).tolist())
"""
CALL = """
import numpy as np
from gramian.kernels.loops import half_power_sums
out = np.empty((1, 1))
half_power_sums(np.zeros((1, 1)), np.full((1, 1), 3.0), 2, out)
print(out.item())
"""
"""A small function, compiled in the same way at a tenth of the time."""
ANOTHER = """
import sys
print("numba.np.linalg" in sys.modules)
from gramian.kernels.loops import half_power_moments
half_power_moments(np.zeros((1, 1)), np.full((1, 1), 3.0), 2, False, np.ones((1, 1)), out)
print(out.item())
"""
"""Whether all that compiling needs is imported, and a function that has to be compiled."""


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package where numba can keep nothing, even for root: files stand where folders should."""
    copy = tmp_path_factory.mktemp("installed")
    shutil.copytree(Path(gramian.__file__).parent, copy / "gramian", ignore=shutil.ignore_patterns("__pycache__"))
    for room in [path for path in copy.rglob("*") if path.is_dir()]:
        (room / "__pycache__").write_text("")
    return copy


FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
"""A process for which every disk is full."""


def run(package: Path, code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    nowhere = str(package / "gramian" / "__init__.py")  # a file: no folder can be made in it
    environment = {**kept, "HOME": nowhere, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", **settings}
    done = subprocess.run(
        [sys.executable, "-c", LOGGED + code], env=environment, capture_output=True, text=True, check=False
    )
    announced = [line for line in done.stderr.splitlines() if "compiling once for this machine" in line]
    assert len(announced) == 1
    done.stderr = done.stderr.replace(f"{announced[0]}\n", "")
    return done


def test_without_a_place_for_the_cache_it_is_compiled_in_memory(read_only: Path) -> None:
    done = run(read_only, FIT)
    assert done.stdout == "True [0, 1]\n", done.stderr
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["WARNING"]
    assert "NUMBA_CACHE_DIR" in done.stderr


def test_the_variable_helps(read_only: Path, tmp_path: Path) -> None:
    done = run(read_only, CALL, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert (done.stdout, done.stderr) == ("3.0\n", "")
    assert list((tmp_path / "cache").rglob("*.nbi"))


def test_what_is_cached_loads_without_what_compiling_needs_and_another_function_compiles(
    read_only: Path, tmp_path: Path
) -> None:
    settings = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    run(read_only, CALL, **settings)
    expected = run(read_only, CALL + ANOTHER, NUMBA_CACHE_DIR=str(tmp_path / "other")).stdout.split()
    found = run(read_only, CALL + ANOTHER, **settings)
    assert (expected[1], found.stdout.split()) == ("True", [expected[0], "False", expected[2]]), found.stderr


def test_a_full_disk_stops_nothing(read_only: Path, tmp_path: Path) -> None:
    done = run(read_only, f"{FULL}\n{CALL}", NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert done.stdout == "3.0\n", done.stderr
    assert done.stderr.count("NUMBA_CACHE_DIR") == 1
