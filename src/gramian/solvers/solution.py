"""What a solver of linear systems returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.gram.operator import units

__all__ = ["Solution", "relative_residuals"]


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution of linear systems that share a matrix."""

    x: NDArray[np.float64]  # (n, k): One column per right-hand side
    residuals: NDArray[np.float64]  # (k,): Their relative residuals ``‖b - A x‖ / ‖b‖``, measured in float64
    certificate: Certificate  # The worst of them, and whether it is good enough


def relative_residuals(R: NDArray[Any], B: NDArray[Any]) -> NDArray[np.float64]:
    """Return ``‖r‖ / ‖b‖`` column by column: R (n, k), B (n, k) → (k,)."""
    unit = units(B)
    size = np.linalg.norm(B / unit, axis=0)
    return np.asarray(np.linalg.norm(R / unit, axis=0) / np.where(size > 0, size, 1.0))
