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
    certificate: Certificate  # The worst relative residual ``‖b - A x‖ / ‖b‖``, and whether it is good enough
    ridge: Any = None  # (k,): μ of each target
    loo: Array | None = None  # (n, k): Leave-one-out residuals, where they were asked for
    grid: Any = None  # (g,): Ridges that were chosen among
    residuals: Any = None  # (k,): Relative residuals, where they are known one by one
    path: Any = None  # (g, k): Their leave-one-out errors
    trend: Array | None = None  # (q, k): Coefficients of functions beside f, where there are any
