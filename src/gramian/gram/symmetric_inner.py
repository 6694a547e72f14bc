"""The compiled part of a symmetric product: a stored block serves as itself and as its mirror image in one reading.

Imported only when a product is large, because numba costs a good part of a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.gram.compiled import compiled

__all__ = ["add_blocks"]

Array = NDArray[Any]


@compiled(nogil=True, fastmath={"reassoc", "contract", "nsz"})
def add_blocks(pool: Array, starts: Array, corners: Array, share: Array, v: Array, total: Array) -> None:
    """Add the products of some blocks, and of their mirror images, with a vector."""
    for b in share:
        top, bottom, left, right = corners[b]
        width = right - left
        here, mirrored = v[left:right], np.zeros(width, v.dtype)
        for i in range(top, bottom):
            start = starts[b] + (i - top) * width  # rows follow each other, so memory is read in one stream
            row, weight, s = pool[start : start + width], v[i], v.dtype.type(0)
            for j in range(width):
                s += row[j] * here[j]
                mirrored[j] += row[j] * weight
            total[i] += s
        if top != left:
            for j in range(width):
                total[left + j] += mirrored[j]
