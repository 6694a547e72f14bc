"""The UCI regression sets, or synthetic data of the same shape where the files are not at hand.

The folder is named by the environment variable ``GRAMIAN_DATA``; by default it is ``../shared/datasets``, seen from
the repository. A set is a folder with ``data.csv.gz`` (the last column is the target) and ``test_mask.csv.gz`` (one
column of 0/1 for each split; 1 marks a test row).
"""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness import ROOT

SHAPES = {
    "kin40k": (40_000, 8),
    "protein": (45_730, 9),
    "elevators": (16_599, 18),
    "bike": (17_379, 17),
    "keggdirected": (48_827, 20),
}


@dataclass(frozen=True)
class Split:
    """One train/test split, standardised by the training rows."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    source: str


def load(name: str, split: int = 0) -> Split:
    """Read a set, or draw one of the same shape."""
    if name not in SHAPES:
        raise ValueError(f"name must be one of {', '.join(SHAPES)}, got {name!r}.")
    folder = data_folder() / name
    if folder.is_dir():
        values = np.loadtxt(folder / "data.csv.gz", delimiter=",")
        test = np.loadtxt(folder / "test_mask.csv.gz", delimiter=",", usecols=split, dtype=bool)
        return _standardised(values, test, f"{name}, split {split}")
    values, test = _synthetic(*SHAPES[name], split)
    return _standardised(values, test, f"synthetic in the shape of {name}")


def fashion_mnist() -> Split | None:
    """Read Fashion-MNIST, from ``fashion-mnist`` in the data folder or as Debian's dataset-fashion-mnist installs it.

    Returns
    -------
    Split or None
        60,000 and 10,000 images of 784 pixels in [0, 1], their classes 0 to 9; ``None`` where the files are not there.
    """
    for folder in (data_folder() / "fashion-mnist", Path("/usr/share/datasets/fashion-mnist")):
        if folder.is_dir():
            images = [_idx(folder / f"{part}-images-idx3-ubyte.gz", 16) / 255.0 for part in ("train", "t10k")]
            classes = [_idx(folder / f"{part}-labels-idx1-ubyte.gz", 8) for part in ("train", "t10k")]
            X, Z = (part.reshape(-1, 784) for part in images)
            return Split(X, classes[0], Z, classes[1], "Fashion-MNIST")
    return None


def _idx(path: Path, header: int) -> np.ndarray:
    return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=header)


def data_folder() -> Path:
    """Return the folder that holds the sets, whether or not it exists.

    Returns
    -------
    Path
        ``GRAMIAN_DATA``, or the default.
    """
    return Path(os.environ.get("GRAMIAN_DATA") or ROOT.parent / "shared" / "datasets")


def _standardised(values: np.ndarray, test: np.ndarray, source: str) -> Split:
    mean, deviation = values[~test].mean(axis=0), values[~test].std(axis=0)
    values = (values - mean) / np.where(deviation > 0, deviation, 1.0)
    train_rows, test_rows = values[~test], values[test]
    return Split(
        X_train=np.ascontiguousarray(train_rows[:, :-1]),
        y_train=train_rows[:, -1].copy(),
        X_test=np.ascontiguousarray(test_rows[:, :-1]),
        y_test=test_rows[:, -1].copy(),
        source=source,
    )


def _synthetic(n: int, d: int, split: int) -> tuple[np.ndarray, np.ndarray]:
    """A smooth function of three directions, with noise; one row in ten is for testing."""
    rng = np.random.default_rng([split, n, d])
    X = rng.standard_normal((n, d))
    directions = rng.standard_normal((d, 3)) / np.sqrt(d)
    y = np.sin(2.0 * X @ directions).sum(axis=1) + 0.1 * rng.standard_normal(n)
    return np.column_stack([X, y]), rng.permutation(n) < round(n / 10)
