"""The rows that landmarks are chosen among: a uniform sample, the same in memory as over blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from gramian.data.passes import sample_rows
from gramian.resources import memory_budget

__all__ = ["sample_seed", "sample_size", "sampled_rows"]

LEAST = 10_000
"""Rows that landmarks are chosen among, at least."""
TIMES = 10
"""And at least so many for each landmark."""
COPIES = 3
"""Arrays of the shape (sample, landmarks) alive while landmarks are chosen."""


def sample_size(n_components: int, memory: int | str | None) -> int:
    """Return how many rows landmarks are chosen among."""
    affordable = memory_budget(memory) // (COPIES * 8 * max(n_components, 1))
    return int(max(min(max(LEAST, TIMES * n_components), affordable), n_components, 2))


def sample_seed(random_state: Any) -> int:
    """Return a seed for a sample."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def sampled_rows(n: int, n_components: int, memory: int | str | None, random_state: Any) -> NDArray[np.intp] | None:
    """Return the numbers of the rows that landmarks are chosen among."""
    size = sample_size(n_components, memory)
    return None if size >= n else sample_rows(n, size, sample_seed(random_state))
