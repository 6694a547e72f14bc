"""Losses for labels: functions of the margin y f with y = -1 or +1, and the multinomial loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax, xlogy

from gramian.losses.base import Loss, _PiecewiseLinear, _Smooth, inside

Array = NDArray[np.float64]


class _Margin(Loss):
    """A loss that is a function of y f, with labels -1 and +1."""

    task: ClassVar[str] = "classification"

    def check_targets(self, y: Array) -> None:
        if not np.all(np.abs(y) == 1):
            raise ValueError(f"{type(self).__name__} takes labels -1 and +1, got {np.unique(y)[:5]}.")


@dataclass(frozen=True)
class Hinge(_Margin, _PiecewiseLinear):
    """``max(0, 1 - y f)``: the support vector machine.

    Examples
    --------
    >>> from gramian.losses import Hinge
    >>> float(Hinge().value(0.25, 1.0))
    0.75
    """

    def domain(self, y: Array) -> tuple[Array, Array]:
        return np.minimum(-y, 0.0), np.maximum(-y, 0.0)


@dataclass(frozen=True)
class SquaredHinge(_Margin, _Smooth):
    """``max(0, 1 - y f)² / 2``.

    Examples
    --------
    >>> from gramian.losses import SquaredHinge
    >>> float(SquaredHinge().value(-1.0, 1.0))
    2.0
    """

    def value(self, f: Array, y: Array) -> Array:
        return 0.5 * np.maximum(1.0 - y * f, 0.0) ** 2

    def gradient(self, f: Array, y: Array) -> Array:
        return -y * np.maximum(1.0 - y * f, 0.0)

    def curvature(self, f: Array, y: Array) -> Array:
        return np.asarray(y * f < 1.0, dtype=np.float64)

    def domain(self, y: Array) -> tuple[Array, Array]:
        return np.where(y > 0, -np.inf, 0.0), np.where(y > 0, 0.0, np.inf)

    def conjugate(self, u: Array, y: Array) -> Array:
        return inside(u * y, -np.inf, 0.0, u * y + 0.5 * u**2)


@dataclass(frozen=True)
class Logistic(_Margin, _Smooth):
    """``log(1 + exp(-y f))``: minus the log-likelihood of P(y = 1) = 1 / (1 + exp(-f)).

    Examples
    --------
    >>> from gramian.losses import Logistic
    >>> round(float(Logistic().value(0.0, 1.0)), 6)
    0.693147
    """

    @property
    def several(self) -> Loss:
        """The loss for more than two classes."""
        return Multinomial()

    def value(self, f: Array, y: Array) -> Array:
        return np.logaddexp(0.0, -y * f)

    def gradient(self, f: Array, y: Array) -> Array:
        return -y * expit(-y * f)

    def curvature(self, f: Array, y: Array) -> Array:
        return np.asarray(expit(f) * expit(-f))

    def domain(self, y: Array) -> tuple[Array, Array]:
        return np.minimum(-y, 0.0), np.maximum(-y, 0.0)

    def conjugate(self, u: Array, y: Array) -> Array:
        s = np.clip(-u * y, 0.0, 1.0)
        return inside(-u * y, 0.0, 1.0, np.asarray(xlogy(s, s) + xlogy(1.0 - s, 1.0 - s), dtype=np.float64))

    def probability(self, f: Array) -> Array:
        """Return P(y = -1) and P(y = +1): values (n,) → (n, 2)."""
        return np.column_stack([expit(-f), expit(f)])


@dataclass(frozen=True)
class Multinomial(_Smooth):
    """``log Σ_c exp(f_c) - Σ_c y_c f_c`` for one-hot y: minus the log-likelihood of softmax probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.losses import Multinomial
    >>> Multinomial().value(np.zeros((1, 3)), np.eye(3)[:1]).round(6)
    array([1.098612])
    """

    coupled: ClassVar[bool] = True
    task: ClassVar[str] = "classification"

    def value(self, f: Array, y: Array) -> Array:
        return np.asarray(logsumexp(f, axis=1) - np.einsum("ij,ij->i", f, y))

    def gradient(self, f: Array, y: Array) -> Array:
        return np.asarray(softmax(f, axis=1) - y)

    def half_curvature(self, f: Array, y: Array) -> Array:
        """Return S = diag(√p) - p √pᵀ with ``S Sᵀ = diag(p) - p pᵀ``, the curvature of a row: (n, c) → (n, c, c)."""
        p = softmax(f, axis=1)
        root = np.sqrt(p)
        S = -p[:, :, None] * root[:, None, :]
        S[:, np.arange(p.shape[1]), np.arange(p.shape[1])] += root
        return np.asarray(S)

    def curvature(self, f: Array, y: Array) -> Array:
        S = self.half_curvature(f, y)
        return S @ S.transpose(0, 2, 1)

    def conjugate(self, u: Array, y: Array) -> Array:
        p = u + y
        inside = (p.min(axis=1) >= -1e-9) & (np.abs(p.sum(axis=1) - 1.0) <= 1e-9)
        p = np.maximum(p, 0.0)
        return np.where(inside, xlogy(p, p).sum(axis=1), np.inf)

    def probability(self, f: Array) -> Array:
        """Return the probability of every class: values (n, c) → (n, c)."""
        return np.asarray(softmax(f, axis=1))


@dataclass(frozen=True)
class Ramp(_Margin):
    """``min(max(0, 1 - y f), 1 - s)``: the hinge, bounded to limit the influence of outliers. Not convex.

    It replaces the 0-1 loss, whose minimisation is NP-hard: as ``hinge(z) - max(0, s - z)``, z = y f, it is minimised
    by the convex-concave procedure, to a stationary point.

    Parameters
    ----------
    s : float, default=-1.0
        The margin below which the loss is constant, < 1.

    Examples
    --------
    >>> from gramian.losses import Ramp
    >>> float(Ramp().value(-10.0, 1.0))
    2.0
    """

    convex: ClassVar[bool] = False

    s: float = -1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.s) and self.s < 1):
            raise ValueError(f"s must be a number < 1, got {self.s!r}.")

    def value(self, f: Array, y: Array) -> Array:
        return np.clip(1.0 - y * f, 0.0, 1.0 - self.s)

    def gradient(self, f: Array, y: Array) -> Array:
        return -y * ((y * f < 1.0) & (y * f > self.s))

    def convex_part(self) -> Loss:
        """Return the convex part of this difference of convex losses."""
        return Hinge()

    def concave_gradient(self, f: Array, y: Array) -> Array:
        """Return the slope of ``-max(0, s - y f)``, y where the margin is below s: values and labels → their shape."""
        return np.asarray(y * (y * f < self.s), dtype=np.float64)
