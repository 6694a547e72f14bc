"""Losses for numeric targets: squared, absolute, Huber, quantile, ε-insensitive, and Poisson counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from gramian.losses.base import Loss, _PiecewiseLinear, _Smooth, inside

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Squared(_Smooth):
    """``(f - y)² / 2``, which estimates the mean.

    Examples
    --------
    >>> from gramian.losses import Squared
    >>> Squared().value(3.0, 1.0)
    2.0
    """

    def value(self, f: Array, y: Array) -> Array:
        return 0.5 * (f - y) ** 2

    def gradient(self, f: Array, y: Array) -> Array:
        return f - y

    def curvature(self, f: Array, y: Array) -> Array:
        return np.ones(np.shape(f))

    def conjugate(self, u: Array, y: Array) -> Array:
        return u * y + 0.5 * u**2


@dataclass(frozen=True)
class Absolute(_PiecewiseLinear):
    """``|f - y|``, which estimates the median.

    Examples
    --------
    >>> from gramian.losses import Absolute
    >>> float(Absolute().value(3.0, 1.0))
    2.0
    """


@dataclass(frozen=True)
class Huber(_Smooth):
    """``r² / 2`` for ``|r|`` <= delta, ``delta |r| - delta² / 2`` beyond; r = f - y.

    Parameters
    ----------
    delta : float, default=1.0
        Residual beyond which a target counts as an outlier, > 0; in units of y.

    Examples
    --------
    >>> from gramian.losses import Huber
    >>> float(Huber(delta=1.0).value(3.0, 0.0))
    2.5
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.delta) and self.delta > 0):
            raise ValueError(f"delta must be a number > 0, got {self.delta!r}.")

    def value(self, f: Array, y: Array) -> Array:
        r = np.abs(f - y)
        return np.where(r <= self.delta, 0.5 * r**2, self.delta * (r - 0.5 * self.delta))

    def gradient(self, f: Array, y: Array) -> Array:
        return np.clip(f - y, -self.delta, self.delta)

    def curvature(self, f: Array, y: Array) -> Array:
        return (np.abs(f - y) <= self.delta).astype(np.float64)

    def domain(self, y: Array) -> tuple[Array, Array]:
        return np.full(np.shape(y), -self.delta), np.full(np.shape(y), self.delta)

    def conjugate(self, u: Array, y: Array) -> Array:
        return inside(u, -self.delta, self.delta, u * y + 0.5 * u**2)


@dataclass(frozen=True)
class Quantile(_PiecewiseLinear):
    """``q (y - f)`` for f < y, ``(1 - q) (f - y)`` for f > y, which estimates the q-quantile.

    Parameters
    ----------
    q : float or sequence of float, default=0.5
        Quantile levels between 0 and 1. Several are fitted together, with one column of predictions each.
    non_crossing : bool, default=False
        Whether to sort the predictions of several quantiles at every point, which never increases the loss
        (Chernozhukov, Fernández-Val and Galichon, 2010).

    Examples
    --------
    >>> from gramian.losses import Quantile
    >>> float(Quantile(0.9).value(0.0, 1.0))
    0.9
    """

    q: Any = 0.5
    non_crossing: bool = False

    def __post_init__(self) -> None:
        q = np.asarray(self.q, dtype=np.float64)
        if q.ndim > 1 or q.size == 0 or not np.all((q > 0) & (q < 1)):
            raise ValueError(f"q must be a number between 0 and 1, or a list of such numbers, got {self.q!r}.")
        if q.ndim == 1 and np.any(np.diff(q) <= 0):
            raise ValueError(f"quantiles must increase, got q={self.q!r}.")
        object.__setattr__(self, "q", float(q) if q.ndim == 0 else tuple(q.tolist()))

    @property
    def parts(self) -> tuple[Loss, ...]:
        """One loss per quantile."""
        return tuple(Quantile(q) for q in self.q) if isinstance(self.q, tuple) else (self,)

    def domain(self, y: Array) -> tuple[Array, Array]:
        q = np.asarray(self.q)
        return np.zeros(np.shape(y)) - q, np.zeros(np.shape(y)) + 1.0 - q

    def inverse_link(self, f: Array) -> Array:
        return np.sort(f, axis=-1) if self.non_crossing and isinstance(self.q, tuple) else f


@dataclass(frozen=True)
class EpsilonInsensitive(_PiecewiseLinear):
    """``max(0, |f - y| - epsilon)``: support vector regression.

    Parameters
    ----------
    epsilon : float, default=0.1
        Half the width of the tube in which the loss is zero, >= 0; in units of y.

    Examples
    --------
    >>> from gramian.losses import EpsilonInsensitive
    >>> float(EpsilonInsensitive(0.5).value(2.0, 0.0))
    1.5
    """

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        if not (np.isfinite(self.epsilon) and self.epsilon >= 0):
            raise ValueError(f"epsilon must be a number >= 0, got {self.epsilon!r}.")

    def tube(self) -> float:
        return self.epsilon


@dataclass(frozen=True)
class Poisson(_Smooth):
    """``exp(f) - y f + y log y - y``: half the deviance of counts y with mean exp(f).

    Examples
    --------
    >>> from gramian.losses import Poisson
    >>> round(float(Poisson().value(0.0, 1.0)), 12)
    0.0
    """

    positive: ClassVar[bool] = True

    def value(self, f: Array, y: Array) -> Array:
        return np.exp(np.minimum(f, 700.0)) - y * f + xlogy(y, y) - y

    def gradient(self, f: Array, y: Array) -> Array:
        return np.exp(np.minimum(f, 700.0)) - y

    def curvature(self, f: Array, y: Array) -> Array:
        return np.exp(np.minimum(f, 700.0))

    def domain(self, y: Array) -> tuple[Array, Array]:
        return -np.asarray(y, dtype=np.float64), np.full(np.shape(y), np.inf)

    def conjugate(self, u: Array, y: Array) -> Array:
        s = np.maximum(u + y, 0.0)
        return inside(u, -y, np.inf, xlogy(s, s) - s - xlogy(y, y) + y)

    def inverse_link(self, f: Array) -> Array:
        return np.exp(np.minimum(f, 700.0))

    def check_targets(self, y: Array) -> None:
        if np.any(y < 0):
            raise ValueError(
                f"Poisson takes counts >= 0, got {float(np.min(y)):.4g}; remove such rows or use another loss."
            )
        if not np.any(y > 0):
            raise ValueError("Poisson needs at least one count > 0: the mean of zeros has no logarithm.")
