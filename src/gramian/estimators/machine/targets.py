"""Targets of the functions of a machine: from the targets of rows to one column for each function."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight

from gramian.data.parts import Need, Part
from gramian.data.passes import Passes
from gramian.solvers.in_features.least_squares import targets_of

__all__ = ["Columns", "Labels", "Numbers", "class_weights", "labels_of", "of_codes"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Columns:
    """Targets as they are: so many columns for each function."""

    widths: tuple[int, ...]

    def of(self, part: Part) -> tuple[list[Array], Array]:
        """Return the targets of each function, and weights."""
        return np.split(np.asarray(part.y), np.cumsum(self.widths)[:-1], axis=1), part.weights


@dataclass(frozen=True, eq=False)
class Numbers:
    """Targets that are numbers: each column, once for every part of the loss."""

    loss: Any  # Checks them, where it cares
    repeats: int = 1  # Parts of the loss

    def of(self, part: Part) -> tuple[list[Array], Array]:
        """Return the targets of each function, and weights."""
        Y = targets_of(part)
        if hasattr(self.loss, "check_targets"):
            self.loss.check_targets(Y)
        return [Y[:, [j]] for j in range(Y.shape[1]) for _ in range(self.repeats)], part.weights


@dataclass(frozen=True, eq=False)
class Labels:
    """Targets that are labels: signs for each class against the rest, or one column for each."""

    classes: NDArray[Any]  # (c,): The labels, in order
    coupled: bool  # Whether the loss takes all classes at once
    weights: Array  # (c,): Weights of the classes

    def of(self, part: Part) -> tuple[list[Array], Array]:
        """Return the targets of each function, and weights."""
        codes = np.searchsorted(self.classes, np.asarray(part.y))
        return of_codes(codes, self.classes.size, self.coupled), part.weights * self.weights[codes]


def of_codes(codes: NDArray[np.intp], classes: int, coupled: bool) -> list[Array]:
    """Return the targets of each function: of two classes one, else each against the rest, or all at once."""
    hot = np.eye(classes)[codes]
    if coupled:
        return [hot]
    signs = 2.0 * hot - 1.0
    return [signs[:, [c]] for c in ([1] if classes == 2 else range(classes))]


def class_weights(asked: Any, classes: NDArray[Any], counts: NDArray[np.int64]) -> Array:
    """Return the weight of each class from how often each occurs: → (c,)."""
    if isinstance(asked, str):
        return np.asarray(counts.sum() / (classes.size * counts))
    return np.asarray(compute_class_weight(asked, classes=classes, y=classes), dtype=np.float64)


def _counted(shared: None, parts: Iterator[Part]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    labels = [np.asarray(part.y) for part in parts]
    if not labels:
        return np.empty(0), np.empty(0, dtype=np.int64)
    if labels[0].ndim != 1:
        raise ValueError(f"labels are one column, got {labels[0].shape[1]}.")
    found, counts = np.unique(np.concatenate(labels), return_counts=True)
    if found.dtype.kind == "f" and np.any(found != np.floor(found)):
        raise ValueError("Unknown label type: continuous. The target must be labels, and holds numbers with fractions.")
    return found, counts


def labels_of(passes: Passes, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the labels of all rows, and how often each occurs, in a pass that reads nothing else."""
    found = [pair for pair in passes.map(_counted, None, need=Need(X=False, weight=False)) if pair[0].size]
    classes, codes = np.unique(np.concatenate([labels for labels, _ in found]), return_inverse=True)
    counts = np.bincount(codes, weights=np.concatenate([counts for _, counts in found])).astype(np.int64)
    if classes.size < 2:
        raise ValueError(f"{name} needs at least two classes, got 1 class: {classes[0]!r}.")
    return classes, counts
