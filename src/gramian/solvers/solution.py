"""The solution of linear systems, with its certificate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate

__all__ = ["Solution"]


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution of linear systems that share a matrix."""

    x: NDArray[np.float64]  # (n, k): One column per right-hand side
    residuals: NDArray[np.float64]  # (k,): Their relative residuals ``‖b - A x‖ / ‖b‖``, measured in float64
    certificate: Certificate  # The worst of them, and whether it is good enough
