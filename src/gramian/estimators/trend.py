"""Trends: functions added to f whose coefficients are not penalised."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, StrOptions

from gramian.features.polynomial import PolynomialMap
from gramian.kernels import Kernel
from gramian.kernels.resolve import is_precomputed
from gramian.solvers.linear.trend import columns

TREND: list[Any] = [StrOptions({"constant", "linear"}), HasMethods(["fit", "transform"]), callable, None]
"""The constraint on ``trend=``."""
SPANNED = 1e-8
"""Largest relative residual of a polynomial that counts as in the span of a trend."""

Array = NDArray[np.float64]


def fitted_trend(trend: Any, kernel: Kernel, X: Any) -> Any:
    """Return the trend in the form that ``columns`` takes: a name, a fitted map, a function or None."""
    order = kernel.conditional_order
    if trend is None:
        trend = {0: None, 1: "constant", 2: "linear"}.get(order, PolynomialMap(degree=max(order - 1, 1)))
    if hasattr(trend, "transform"):
        trend = clone(trend).fit(X)
    if isinstance(trend, str) and trend == "linear":
        _check_vectors(kernel, X)
    if order:
        _check_spanned(trend, kernel, X, order)
    return trend


def _check_vectors(kernel: Kernel, X: Any) -> None:
    if getattr(X, "ndim", 1) != 2 or is_precomputed(kernel):
        raise ValueError("trend='linear' needs rows of numbers, not objects or a Gram matrix; use trend='constant'.")


def _check_spanned(trend: Any, kernel: Kernel, X: Any, order: int) -> None:
    """Refuse a trend that does not span the polynomials that a conditionally positive definite kernel needs."""
    _check_vectors(kernel, X)
    T = columns(trend, X)
    M = np.ones((X.shape[0], 1)) if order == 1 else PolynomialMap(degree=order - 1).fit(X).transform(X)
    left = M - T @ np.linalg.lstsq(T, M, rcond=None)[0]
    if np.any(np.linalg.norm(left, axis=0) > SPANNED * np.linalg.norm(M, axis=0)):
        need = {1: ("constants", "'constant'"), 2: ("linear functions", "'linear'")}
        what, use = need.get(order, (f"polynomials of degree {order - 1}", f"PolynomialMap({order - 1})"))
        raise ValueError(
            f"{kernel!r} does not penalise {what}, so the trend must contain them: use trend={use}, or leave "
            "trend=None, which adds them."
        )
