"""How many of our files a fit passes through, on 60 rows: ``python -m benchmarks.files``."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gramian
from gramian.data import Blocks

ROOT = str(Path(gramian.__file__).parent)
MOST = {"KernelRidge": 16, "SVC": 18, "GaussianProcessRegressor": 20, "logistic machine": 22, "machine over blocks": 28}
"""What we allow ourselves."""


def files_of(call: Callable[[], Any]) -> set[str]:
    """The files of ours in which a function was entered during a call, on any thread."""
    seen: set[str] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOT) and frame.f_code.co_name != "<module>":
            seen.add(frame.f_code.co_filename[len(ROOT) + 1 :])

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen


def calls() -> dict[str, Callable[[], Any]]:
    """The fits that are watched."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y, labels = np.sin(X[:, 0]), X[:, 0] > 0
    machine = gramian.KernelMachineClassifier
    nystroem = gramian.Nystroem(n_components=10)
    return {
        "KernelRidge": lambda: gramian.KernelRidge(kernel="rbf").fit(X, y),
        "SVC": lambda: gramian.SVC().fit(X, labels),
        "GaussianProcessRegressor": lambda: gramian.GaussianProcessRegressor(noise="learn").fit(X, y),
        "logistic machine": lambda: machine("logistic").fit(X, labels),
        "machine over blocks": lambda: machine("logistic", approximation=nystroem, random_state=0).fit(
            Blocks(X, target=labels, client=False)
        ),
    }


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    for name, call in calls().items():
        call()  # what is imported or compiled at the first call does not count
        files = files_of(call)
        print(f"{name:26s} {len(files):3d} files, at most {MOST[name]}")
        if "--list" in sys.argv:
            print(*(f"    {f}" for f in sorted(files)), sep="\n")


if __name__ == "__main__":
    main()
