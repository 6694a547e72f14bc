"""``gramian warmup``: compile ahead of time what first fits would compile."""

from __future__ import annotations

import argparse
import logging
import time
from typing import Any

from gramian.cli.screen import Screen

HELP = "compile the inner loops once for this machine, so that first fits do not wait"
MANY = 2100
"""Rows that are too many for the dense solver of support vector machines."""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments: there are none."""


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Make small fits that call every compiled function in each precision."""
    start = time.perf_counter()
    logging.getLogger("gramian").setLevel(logging.ERROR)  # this command announces it itself
    screen.say("Compiling for this machine, about 30 s ...")
    from gramian.compiled import ANNOUNCER
    from gramian.solvers.svm.pair_steps import solve_all

    compile_for_search()
    _fits()
    folder = str(solve_all.stats.cache_path) if solve_all.stats.cache_path else None
    found = {"compiled": ANNOUNCER.compiled, "seconds": time.perf_counter() - start, "cache": folder}
    made = f"{found['compiled']} functions compiled" if found["compiled"] else "everything was compiled before"
    screen.say(f"Done in {found['seconds']:.1f} s: {made}.")
    kept = f"The compiled code is cached in {folder}." if folder else "The compiled code cannot be cached on disk."
    screen.say(f"{kept} Set NUMBA_CACHE_DIR to use another folder.")
    return found


def compile_for_search() -> None:
    """Compile what automatic models call; takes 0.1 s if it was compiled before."""
    import numpy as np

    from gramian import SVC
    from gramian.kernels.loops import half_power_moments, half_power_sums

    square = np.zeros((2, 2))
    half_power_sums(square, square, 1, square.copy())
    half_power_moments(square, square, 1, False, square, square.copy())
    for rows in (60, MANY):  # in float64, and in float32 with a cache that has to drop columns
        X, y = _rows(rows)
        SVC(max_time=60.0, cache_size=1, tol=1e-2).fit(X, y)


def _rows(n: int) -> tuple[Any, Any]:
    import numpy as np

    X = np.random.default_rng(0).standard_normal((n, 4))
    return X, np.where(X[:, 0] * X[:, 1] > 0, 1, -1)


def _fits() -> None:
    import numpy as np

    from gramian import SVC, PegasosClassifier
    from gramian.gram import Gram, SymmetricGram
    from gramian.gram.loops import fill_waves
    from gramian.kernels import RBF

    X, y = _rows(MANY)
    SVC().fit(X[:60], y[:60])
    PegasosClassifier(n_iter=100, tol=100.0, random_state=0).fit(X[:60], y[:60])
    for dtype in (np.float32, np.float64):
        SymmetricGram(Gram(RBF(1.0), X), memory=10**9, dtype=dtype) @ np.ones(MANY)
    # Larger fits would reach this; call it directly.
    narrow = np.zeros((2, 4), np.float32)
    fill_waves(narrow[:, :2].copy(), np.float32(1.0), narrow)
