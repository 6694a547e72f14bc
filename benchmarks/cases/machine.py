"""The machine with any loss: logistic against our own ridge, exact against Nyström, on kin40k split at its median."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.data import Split, load
from benchmarks.harness import Comparison, case
from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.estimators.ridge import KernelRidge
from gramian.features.nystrom import Nystroem

ROWS, LANDMARKS = 20_000, 1000
GAMMA, LAM = 1 / 8, 1e-5
MEMORY = "2GB"


@case("machine")
def machine() -> Iterator[Comparison]:
    """Logistic regression of 20,000 rows in 2 GB: at most 4x the time of ridge, and 5x faster by landmarks."""
    split = load("kin40k")
    yield against_ridge(split)
    yield by_landmarks(split)


def against_ridge(split: Split) -> Comparison:
    """A Newton method against one linear system."""
    X, y = split.X_train[:ROWS], split.y_train[:ROWS]
    return Comparison(
        name=f"logistic fit, n={len(X)}, memory='{MEMORY}', gap <= 1e-4",
        ours=lambda: exact(X, labels(split, y)),
        peer=lambda: ridge(X, y),
        against="our KernelRidge",
        quality=lambda a, _: f"accuracy {accuracy(a, split):.4f}, gap {a.certificate_.gap:.1e}",
        data=split.source,
        repeats=1,
        snippets=("from benchmarks.cases.machine import *; exact(*rows(True))",
                  "from benchmarks.cases.machine import *; ridge(*rows(False))"),
    )  # fmt: skip


def by_landmarks(split: Split) -> Comparison:
    """The same loss in the space of a thousand landmarks."""
    X, y = split.X_train[:ROWS], labels(split, split.y_train[:ROWS])
    return Comparison(
        name=f"logistic fit, n={len(X)}, Nystroem({LANDMARKS})",
        ours=lambda: approximate(X, y),
        peer=lambda: exact(X, y),
        against="our exact fit",
        quality=lambda a, b: f"accuracy {accuracy(a, split):.4f} / {accuracy(b, split):.4f}",
        data=split.source,
        repeats=1,
    )


def labels(split: Split, y: np.ndarray) -> np.ndarray:
    """Which side of the median of the training targets."""
    return y > np.median(split.y_train[:ROWS])


def accuracy(model: KernelMachineClassifier, split: Split) -> float:
    """Share of the test rows whose side is predicted."""
    return float(model.score(split.X_test, labels(split, split.y_test)))


def exact(X: np.ndarray, y: np.ndarray) -> KernelMachineClassifier:
    """The exact fit, under a memory budget."""
    return KernelMachineClassifier(lam=LAM, gamma=GAMMA, memory=MEMORY, tol=1e-4, random_state=0).fit(X, y)


def approximate(X: np.ndarray, y: np.ndarray) -> KernelMachineClassifier:
    """The fit in Nyström's space."""
    means = {"memory": MEMORY, "tol": 1e-4, "random_state": 0}
    return KernelMachineClassifier(lam=LAM, gamma=GAMMA, approximation=Nystroem(n_components=LANDMARKS), **means).fit(
        X, y
    )


def ridge(X: np.ndarray, y: np.ndarray) -> KernelRidge:
    """Least squares with the same kernel, strength and memory."""
    return KernelRidge(len(X) * LAM, kernel="rbf", gamma=GAMMA, memory=MEMORY, random_state=0).fit(X, y)


def rows(classify: bool) -> tuple[np.ndarray, np.ndarray]:
    """The first rows of the training part of kin40k, with labels or with targets."""
    split = load("kin40k")
    y = split.y_train[:ROWS]
    return split.X_train[:ROWS], labels(split, y) if classify else y
