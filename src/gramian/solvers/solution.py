"""The solution of linear systems or least squares, with its certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution of systems that share a matrix."""

    x: Array  # (n, k): One column per right-hand side
    certificate: Certificate  # The worst relative residual ``‖b - A x‖ / ‖b‖``, and whether it is within tolerance
    ridge: Any = None  # (k,): μ of each target
    loo: Array | None = None  # (n, k): Leave-one-out residuals, if requested
    grid: Any = None  # (g,): The grid from which ridges were chosen
    residuals: Any = None  # (k,): Relative residual of each column, if known
    path: Any = None  # (g, k): Leave-one-out errors on the grid
    trend: Array | None = None  # (q, k): Coefficients of the trend, if there is one
