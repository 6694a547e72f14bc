"""Compiled loops for sums of powers of differences, which cannot be written as matrix products.

Imported only for large tiles, because importing numba takes a good part of a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.compiled import compiled

Array = NDArray[Any]
FAST = {"reassoc", "contract", "nsz", "nnan"}


@compiled(inline="always", fastmath=FAST)
def _power(u: Any, halves: int) -> Any:
    """u^(halves/2) for u >= 0 and halves from 0 to 4, with at most one square root."""
    v = np.sqrt(u) if halves % 2 else 1.0
    if halves > 1:
        v *= u
    return v * u if halves > 3 else v


@compiled(nogil=True, fastmath=FAST)
def half_power_sums(x: Array, zt: Array, halves: int, out: Array) -> None:
    """Write Σ_k |x_ik - z_jk|^(halves/2): x (n, d), zt (d, m), out (n, m)."""
    for i in range(x.shape[0]):
        row = out[i]
        row[:] = 0.0
        for k in range(x.shape[1]):
            a, column = x[i, k], zt[k]
            for j in range(column.size):
                row[j] += _power(abs(a - column[j]), halves)


@compiled(nogil=True, fastmath=FAST)
def half_power_moments(x: Array, zt: Array, halves: int, signed: bool, M: Array, out: Array) -> None:
    """Write Σ_j M_ij |x_ik - z_jk|^(halves/2), times the sign of the difference if ``signed``: out (n, d)."""
    for i in range(x.shape[0]):
        weights = M[i]
        for k in range(x.shape[1]):
            a, column, s = x[i, k], zt[k], 0.0
            if signed:
                for j in range(column.size):
                    s += weights[j] * np.sign(a - column[j]) * _power(abs(a - column[j]), halves)
            else:
                for j in range(column.size):
                    s += weights[j] * _power(abs(a - column[j]), halves)
            out[i, k] = s
