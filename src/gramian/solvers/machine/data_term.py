"""The data term Σ_i w_i ℓ(f_i, y_i) as one function of the values f, and its best constant."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from gramian.losses import offers, prox

STEP = 1e-6
"""The step of differences, for a loss without curvature."""
FAR = 1e8
"""The largest constant that is searched for, in units of targets and values."""

TINY = 1e-4
"""An objective below this share of that of the best constant counts as zero."""
ROUNDED = 1e-9
"""So does one below this share of the loss of zero: the rounding of values is relative to the targets."""

Array = NDArray[np.float64]


class DataFit:
    """The data term of an objective."""

    stiff = False
    """Whether the curvature comes from kinks."""

    def __init__(self, loss: Any, y: Array, weights: Array) -> None:
        self.loss, self.y, self.w = loss, y, weights[:, None]
        self.coupled = bool(getattr(loss, "coupled", False))
        self.smooth = offers(loss, "curvature")
        # The unit of values: that of the targets, or one if targets are exponentials of values.
        self.unit = 1.0 if getattr(loss, "positive", False) else float(np.abs(y).max(initial=0.0)) or 1.0

    def each(self, f: Array) -> Array:
        """Return w ℓ(f, y) of each row: f (n, k) → (n, 1)."""
        return np.asarray(self.w * np.asarray(self.loss.value(f, self.y)).reshape(self.w.shape))

    def value(self, f: Array) -> float:
        """Return Σ w ℓ(f, y): f (n, k)."""
        return float(np.sum(self.each(f)))

    def gradient(self, f: Array) -> Array:
        """Return w ∂ℓ/∂f: f (n, k) → (n, k)."""
        return np.asarray(self.w * self.loss.gradient(f, self.y))

    def half_curvature(self, f: Array) -> Array:
        """Return S with ``S Sᵀ`` the curvature, by differences of the gradient if the loss has no curvature."""
        if self.coupled:
            return np.asarray(np.sqrt(self.w)[:, :, None] * self.loss.half_curvature(f, self.y))
        if self.smooth:
            curvature = self.loss.curvature(f, self.y)
        else:
            h = STEP * (1.0 + np.abs(f))
            curvature = (self.loss.gradient(f + h, self.y) - self.loss.gradient(f - h, self.y)) / (2.0 * h)
        return np.sqrt(np.maximum(self.w * curvature, 0.0))

    def each_conjugate(self, u: Array) -> Array:
        """Return w ℓ*(u / w, y) of each row: u (n, k) → (n, 1)."""
        return np.asarray(self.w * np.asarray(self.loss.conjugate(u / self.w, self.y)).reshape(self.w.shape))

    def conjugate(self, u: Array) -> float:
        """Return Σ w ℓ*(u / w, y): u (n, k)."""
        return float(np.sum(self.each_conjugate(u)))

    def conjugate_at(self, u: Array, z: Array) -> float:
        """Return Σ w ℓ*(u / w, y) where u is a subgradient at z, by Fenchel's equality if ℓ gives no conjugate."""
        return self.conjugate(u) if offers(self.loss, "conjugate") else float(np.sum(u * z)) - self.value(z)

    def box(self) -> tuple[Array, Array]:
        """Return the bounds of the conjugate's domain: → (n, k)."""
        domain = getattr(self.loss, "domain", None)
        if domain is None:
            return np.full(self.y.shape, -np.inf), np.full(self.y.shape, np.inf)
        low, high = domain(self.y)
        return self.w * low, self.w * high

    def prox(self, v: Array, step: Array | float) -> Array:
        """Return the proximal point of w ℓ: v (n, k) → (n, k)."""
        return prox(self.loss, v, self.y, step * self.w)


class Tilted(DataFit):
    """A data term plus a linear one, ``Σ w (ℓ(f, y) + c f)``."""

    def __init__(self, loss: Any, y: Array, weights: Array, tilt: Array) -> None:
        super().__init__(loss, y, weights)
        self.tilt = self.w * tilt

    def each(self, f: Array) -> Array:
        return super().each(f) + self.tilt * f

    def gradient(self, f: Array) -> Array:
        return super().gradient(f) + self.tilt

    def each_conjugate(self, u: Array) -> Array:
        return super().each_conjugate(u - self.tilt)

    def box(self) -> tuple[Array, Array]:
        low, high = super().box()
        return low + self.tilt, high + self.tilt

    def prox(self, v: Array, step: Array | float) -> Array:
        return super().prox(v - step * self.tilt, step)


class Envelope:
    """The Moreau envelope of a data term, shifted: ``min_z Σ w ℓ(z) + ‖z - f - γ u‖² / (2γ)``.

    Smooth whatever ℓ is, and its gradient is a subgradient of ℓ at z, so it lies in the conjugate's domain.
    """

    stiff = True

    def __init__(self, fit: DataFit, gamma: Array | float, u: Array) -> None:
        self.fit, self.gamma, self.shift, self.coupled, self.unit = fit, gamma, gamma * u, fit.coupled, fit.unit

    def point(self, f: Array) -> Array:
        """Return z, at which the gradient is a subgradient of the data term: f (n, k) → (n, k)."""
        return self.fit.prox(f + self.shift, self.gamma)

    def value(self, f: Array) -> float:
        """Return the envelope: f (n, k)."""
        v = f + self.shift
        z = self.fit.prox(v, self.gamma)
        return self.fit.value(z) + float(np.sum((z - v) ** 2 / (2.0 * self.gamma)))

    def gradient(self, f: Array) -> Array:
        """Return ``(v - z) / γ``, v = f + γ u: f (n, k) → (n, k)."""
        v = f + self.shift
        return np.asarray((v - self.fit.prox(v, self.gamma)) / self.gamma)

    def half_curvature(self, f: Array) -> Array:
        """Return the root of ``(1 - z') / γ``, z' by differences: 0 or 1 where ℓ is piecewise linear."""
        v = f + self.shift
        h = STEP * self.gamma
        slope = (self.fit.prox(v + h, self.gamma) - self.fit.prox(v - h, self.gamma)) / (2.0 * h)
        return np.sqrt(np.clip(1.0 - slope, 0.0, 1.0) / self.gamma)


def best_constant(fit: Any, values: Array, start: Array, *, middle: bool = False) -> Array:
    """Return the b that minimises a data term at ``values + b``: values (n, k), start (k,) → (k,)."""
    if fit.coupled:
        return _best_constants(fit, values, start)

    def slope(b: float) -> float:
        return float(np.sum(fit.gradient(values + b)))

    unit = max(fit.unit, float(np.abs(values).max()))
    b = _root(slope, float(start[0]), unit)
    if middle:
        slack = 1e-12 * float(np.sum(fit.w))
        b = 0.5 * (_root(lambda c: slope(c) + slack, b, unit) + _root(lambda c: slope(c) - slack, b, unit))
    return np.array([b])


def _root(slope: Any, start: float, unit: float) -> float:
    """The root of an increasing function, by a bracket that doubles; ``unit`` is the size of its argument."""
    here = slope(start)
    if here == 0.0:
        return start
    width = 1e-3 * (unit + abs(start))
    other = start
    while width < FAR * max(unit, 1.0):
        other = start - np.sign(here) * width
        if np.sign(slope(other)) * np.sign(here) <= 0.0:  # the product of two small slopes may be zero
            return float(brentq(slope, start, other, xtol=1e-16 * unit, rtol=1e-15, maxiter=200))
        width *= 4.0
    return start


def _best_constants(fit: Any, values: Array, b: Array) -> Array:
    """Newton's method in as many dimensions as there are columns."""

    def slope(b: Array) -> Array:
        return np.asarray(fit.gradient(values + b).sum(axis=0))

    objective, g = fit.value(values + b), slope(b)
    for _ in range(50):
        S = fit.half_curvature(values + b)
        curvature = np.einsum("icd,ied->ce", S, S)
        if not np.all(np.isfinite(curvature)):
            break
        step = -np.linalg.pinv(curvature, hermitian=True) @ g
        fall = -float(g @ step)
        last, length = fall <= 1e-15 * abs(objective), 1.0
        # If the gain of a step is lost in rounding, the slope still shows it.
        while not last and length > 1e-6 and fit.value(values + b + length * step) > objective - 1e-4 * length * fall:
            if np.abs(slope(b + length * step)).max() <= 0.5 * np.abs(g).max():
                break
            length *= 0.5
        if length <= 1e-6:
            break
        b = b + length * step
        if last:
            break
        objective, g = fit.value(values + b), slope(b)
    # The loss depends on differences only: the curvature along (1, ..., 1) is rounding, and steps drift that way.
    return np.asarray(b - b.mean())


def least_scale(fit: DataFit, intercept: bool) -> float:
    """Return the least scale of a gap: a small share of the loss of the best constant, or of zero."""
    zero = np.zeros_like(fit.y)
    b = np.zeros(zero.shape[1])
    constant = best_constant(fit, zero, b) if intercept else b
    least = max(TINY * abs(fit.value(zero + constant)), ROUNDED * abs(fit.value(zero)))
    if getattr(fit.loss, "positive", False):  # counts have a unit, whatever the loss of zero
        least = max(least, ROUNDED * float(np.sum(fit.w * (1.0 + fit.y))))
    return max(least, float(np.finfo(np.float64).tiny))
