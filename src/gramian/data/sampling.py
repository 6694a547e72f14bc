"""A uniform sample of rows that depends on a seed and on the numbers of the rows, not on how they are cut into blocks.

Every row has a key, a hash of the seed and its number; the sample are the rows with the smallest keys. So it is drawn
in one pass, by any number of workers, and is the same whatever the blocks.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["row_keys", "sample_rows", "threshold"]

LARGEST = 2**64 - 1
"""Of the keys."""
MARGIN = 6.0
"""Deviations by which more rows are asked for than are wanted, so that they hardly ever are too few."""


def row_keys(seed: int, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a random key for every row, by the splitmix64 hash of Steele, Lea and Flood (2014)."""
    with np.errstate(over="ignore"):
        start = _mixed(np.array([seed + 1], dtype=np.uint64))
        return _mixed(rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + start)


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def threshold(size: int, n: int) -> int:
    """Return a key below which at least ``size`` of n rows lie, almost surely, and not many more."""
    share = (size + MARGIN * math.sqrt(size) + MARGIN) / max(n, 1)
    return LARGEST if size >= n or share >= 1.0 else int(share * LARGEST)


def sample_rows(n: int, size: int, seed: int) -> NDArray[np.intp]:
    """Return the rows of the sample that ``Blocks.sample`` draws of the same data, where no weight is zero."""
    order = np.argsort(row_keys(seed, np.arange(n, dtype=np.int64)), kind="stable")
    return np.asarray(np.sort(order[:size]))
