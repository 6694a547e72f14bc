"""Precision: rows may be float32, what is computed from them is float64, and certified as it is predicted.

Coefficients of an ill-conditioned fit are large and cancel, so kernel values rounded to seven digits can lose a whole
prediction. What is left of that in float64, a certificate has to show.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.gram.operator import Gram
from gramian.kernels.resolve import is_precomputed

__all__ = ["as_predicted", "narrow", "wide"]


def wide(X: Any) -> Any:
    """Return rows of numbers in float64, and other objects as they are."""
    return X.astype(np.float64, copy=False) if getattr(X, "dtype", None) == np.float32 else X


def narrow(values: NDArray[np.float64], X: Any) -> NDArray[Any]:
    """Return values at rows X as float32 where the rows are and float32 can hold the largest, else as they are."""
    single = np.finfo(np.float32)
    size = float(np.abs(values).max(initial=0.0))
    held = size == 0.0 or float(single.tiny) <= size <= float(single.max)
    return values.astype(np.float32, copy=False) if getattr(X, "dtype", None) == np.float32 and held else values


def as_predicted(gram: Gram, rows: Any, V: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``K @ V`` as it is predicted: with rows on one side that are not known to be those on the other."""
    if is_precomputed(gram.kernel):
        return np.asarray(gram @ V)
    own, apart = float(gram.diagonal()[0]), float(Gram(gram.kernel, rows[:1], rows[:1]).dense()[0, 0])
    if abs(own - apart) > 1e-6 * abs(own):  # White noise is not predicted
        return np.asarray(gram @ V)
    support = np.flatnonzero(V.any(axis=1))
    if not support.size:
        return np.zeros(V.shape)
    return np.asarray(Gram(gram.kernel, rows, rows[support], gram.memory, gram.workers) @ V[support])
