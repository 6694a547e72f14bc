"""Kernels of the Euclidean distance: RBF, Matern, RationalQuadratic, Periodic."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from gramian.kernels import points
from gramian.kernels.base import ConstantDiagonal, kernel
from gramian.kernels.distances import NEAR, cast, lengthscales, rows_beside, rows_for_distances
from gramian.kernels.points import Array, Points
from gramian.kernels.spectral import SpectralMixture, over_variances, parts
from gramian.kernels.tunable import FREE, Bounds

LARGE_NU = 50.0
"""From this ν on, Bessel functions overflow, and Debye's expansion is accurate to 1e-8."""
FAR = 1e4
"""From this u on, Matérn kernels computed by Bessel functions underflow."""
RBF_NU = 1e16
"""Above this the Matérn kernel is the RBF to all digits."""


class Radial(ConstantDiagonal):
    """A function of the scaled squared distance s = Σ_k ((x_k - z_k) / ℓ_k)², with value 1 at s = 0.

    A subclass gives ``profile`` and ``slope``; everything else (sparse rows, float32, gradients, lengthscales per
    input) follows.

    Examples
    --------
    >>> from gramian.kernels import Radial, kernel
    >>> @kernel
    ... class Inverse(Radial):
    ...     lengthscale: float = 1.0
    ...     lengthscale_bounds: tuple = (1e-5, 1e5)
    ...
    ...     def profile(self, s):
    ...         return 1.0 / (1.0 + s)
    ...
    ...     def slope(self, s):
    ...         return -1.0 / (1.0 + s) ** 2
    >>> Inverse(2.0)([[0.0]], [[2.0]])
    array([[0.5]])
    """

    per_input: ClassVar[tuple[str, ...]] = ("lengthscale",)
    _elsewhere: ClassVar[dict[str, str]] = {
        "sigma": "write lengthscale=sigma, for exp(-‖x - z‖² / (2 sigma²)) and the like.",
        "gamma": "write lengthscale=1/sqrt(2*gamma), for exp(-gamma ‖x - z‖²) and the like.",
    }
    sparse: ClassVar[bool] = True
    weight: ClassVar[float] = 1.0
    """Factor on s in the argument of ``profile`` and ``slope``; applied by the GEMM at no cost."""
    lengthscale: Any
    amplitude: ClassVar[float] = 1.0

    @property
    def smooth(self) -> bool:
        """Whether the profile is differentiable at s = 0."""
        return True

    def profile(self, t: Array) -> Array:
        """Return k at t = weight · s, which near 0 may have the wrong sign; may overwrite t: (n, m) → (n, m)."""
        raise NotImplementedError(f"{self.name} must define profile(t).")

    def slope(self, t: Array) -> Array:
        """Return dk/ds at t = weight · s, zero at a kink; may overwrite t: (n, m) → (n, m)."""
        raise NotImplementedError(f"{self.name} must define slope(t).")

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        rows, columns = points.pair_of_vectors(X, Y, kernel=self.name, sparse=self.sparse)
        scale = lengthscales(self, rows.shape[1])
        left, right = rows_for_distances(rows, columns, scale, self.weight, self.smooth)
        return points.paired((left,), (right,), Y is None)

    def prepare_rows(self, X: Array, columns: Points) -> Points | None:
        if type(self).prepare is not Radial.prepare:
            return None
        rows = rows_beside(X, columns.parts[0], lengthscales(self, X.shape[1]), self.weight, self.smooth)
        return None if rows is None else Points((rows,), range(len(X)))

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        return cast(self.profile(self.arguments(A, B, out)), A.parts[0].dtype, out)

    def arguments(self, A: Points, B: Points, out: Array | None = None) -> Array:
        """Return ``t = weight · s`` of prepared rows, the argument of ``profile``: A (n rows), B (m rows) → (n, m)."""
        a, b = A.parts[0], B.parts[0]
        t = a.times_squared(b, self.weight, out)
        return t if self.smooth else a.near_zero(b, t, self.weight)

    def _settled(self, A: Points, B: Points) -> Array:
        """The weighted distances for a derivative; for rough kernels, exactly zero between an object and itself."""
        t = self.arguments(A, B)
        if not self.smooth and (pairs := points.same_pairs(A, B)) is not None:
            t = points.put(t, *pairs, points.asarray(np.zeros(len(A)), t))
        return t

    def _normal_draws(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draws from the spectral measure of the RBF of the same lengthscales."""
        return rng.standard_normal((size, d)) / lengthscales(self, d)

    def _gaussian(self, d: int) -> SpectralMixture:
        """The spectral measure of that RBF."""
        return parts(1.0, d, variances=lengthscales(self, d) ** -2.0)

    def _scaled_norms(self, W: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Σ_k (ℓ_k ω_k)² of frequencies, and log Π_k ℓ_k: W (m, d) → (m,)."""
        scale = np.broadcast_to(lengthscales(self, W.shape[1]), (W.shape[1],))
        return np.sum((W * scale) ** 2, axis=1), float(np.log(scale).sum())

    def rounding(self, A: Points) -> float:
        loss: float = A.parts[0].loss
        if not self.smooth:
            loss *= 0.5 * NEAR**-0.5  # where differences begin
        return max(super().rounding(A), loss)

    def _derivatives(self, A: Points, B: Points, W: Array) -> dict[str, Any]:
        t = self._settled(A, B)
        if isinstance(self.lengthscale, tuple):
            return {"lengthscale": -2.0 * A.parts[0].second_moments(B.parts[0], self._pulled(t, W))}
        return {"lengthscale": -2.0 / self.weight * points.inner(self._pulled(points.copy(t), W), t)}

    def _pulled(self, t: Array, W: Array) -> Array:
        """W dk/ds; may overwrite t."""
        return points.weighted(self.slope(t), W)

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        G = A.parts[0].pull(B.parts[0], self._pulled(self._settled(A, B), W))
        return points.namespace(G).astype(G * 2.0 / points.asarray(lengthscales(self, G.shape[1]), G), A.parts[0].dtype)


class GaussianProfile(Radial):
    """The profile exp(-s/2)."""

    weight: ClassVar[float] = -0.5

    def profile(self, t: Array) -> Array:
        # No clip at zero: rounding gives 1 + 1e-15 at most, and a pass over the tile would cost 20%.
        return points.exp(t)

    def slope(self, t: Array) -> Array:
        return points.multiply(points.exp(t), -0.5)


@kernel
class RBF(GaussianProfile):
    """The Gaussian kernel exp(-s/2), s = Σ_k ((x_k - z_k) / ℓ_k)².

    Smooth and universal; its Gram matrix on distinct points is nonsingular. It is exactly ``exp(<x,z>/ℓ²)``
    normalised. scikit-learn's ``gamma`` is 1/(2ℓ²).

    Parameters
    ----------
    lengthscale : float or sequence of float, default=1.0
        One for all inputs, or one each.
    lengthscale_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Range in which it may be learned.

    Examples
    --------
    >>> from gramian.kernels import RBF
    >>> RBF(0.5)([[0.0], [1.0]]).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    """

    lengthscale: Any = 1.0
    lengthscale_bounds: Bounds = FREE

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return self._normal_draws(d, size, rng)

    def _spectral(self, d: int) -> SpectralMixture:
        return self._gaussian(d)


@kernel
class Matern(Radial):
    """The Matérn kernel, whose space is the Sobolev space of order ν + d/2.

    ``2^(1-ν)/Γ(ν) u^ν K_ν(u)`` with ``u = √(2ν s)``: ``exp(-u)`` at ν = 1/2, ``(1+u) exp(-u)`` at 3/2,
    ``(1+u+u²/3) exp(-u)`` at 5/2, the RBF at infinity; Bessel functions in between.

    Parameters
    ----------
    lengthscale : float or sequence of float, default=1.0
        One for all inputs, or one each.
    nu : float, default=1.5
        Smoothness, positive or infinite; not learned.
    lengthscale_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Range in which the lengthscale may be learned.

    Examples
    --------
    >>> from gramian.kernels import Matern
    >>> Matern(1.0, nu=0.5)([[0.0]], [[1.0]]).round(4)
    array([[0.3679]])
    """

    lengthscale: Any = 1.0
    nu: float = 1.5
    lengthscale_bounds: Bounds = FREE
    buffers: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "nu", float(self.nu))
        if not self.nu > 0:
            raise ValueError(f"Matern: nu must be positive or inf, got {self.nu}.")

    @property
    def smooth(self) -> bool:
        return self.nu >= 1.0

    def profile(self, t: Array) -> Array:
        return points.exp(points.multiply(t, -0.5)) if self.nu > RBF_NU else _matern(self._scaled(t), self.nu)

    def slope(self, t: Array) -> Array:
        if self.nu > RBF_NU:
            return points.multiply(points.exp(points.multiply(t, -0.5)), -0.5)
        if self.nu > 1.0:
            return points.multiply(_matern(self._scaled(t), self.nu - 1.0), -self.nu / (2.0 * (self.nu - 1.0)))
        return points.through_numpy(lambda u: _rough_slope(u, self.nu), self._scaled(t))

    def _scaled(self, t: Array) -> Array:
        """√(2ν s), in place."""
        return points.sqrt(points.multiply(points.maximum(t, 0.0), 2.0 * self.nu))

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        draws = self._normal_draws(d, size, rng)
        if self.nu > RBF_NU:
            return draws
        return draws * np.sqrt(2.0 * self.nu / rng.chisquare(2.0 * self.nu, size))[:, None]

    def _density(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.nu > RBF_NU:
            return self._gaussian(W.shape[1]).density(W)
        # Student's t with 2ν degrees of freedom.
        half, nu = 0.5 * W.shape[1], self.nu
        squares, volume = self._scaled_norms(W)
        quotient = special.gammaln(nu + half) - special.gammaln(nu) if nu < LARGE_NU else np.log(special.poch(nu, half))
        log = volume + quotient - half * math.log(2.0 * math.pi * nu)
        return np.asarray(np.exp(log - (nu + half) * np.log1p(squares / (2.0 * nu))))

    def _spectral(self, d: int) -> SpectralMixture:
        if self.nu > RBF_NU:
            return self._gaussian(d)
        return over_variances(-1.0, self.nu, d, lengthscales(self, d) ** -2.0)


def _matern(u: Array, nu: float) -> Array:
    """The Matérn kernel as a function of u = √(2ν s); may overwrite u."""
    if nu == 0.5:
        return points.exp(points.multiply(u, -1.0))
    if nu == 1.5:
        e = points.exp(-u)
        return points.multiply(e, points.add(u, 1.0))
    if nu == 2.5:
        e = points.exp(-u)
        return points.multiply(e, points.add(points.multiply(points.add(u / 3.0, 1.0), u), 1.0))
    return points.through_numpy(lambda v: _matern_by_bessel(v, nu), u)


def _matern_by_bessel(u: NDArray[Any], nu: float) -> NDArray[Any]:
    v = np.asarray(u, dtype=np.float64)
    if nu >= LARGE_NU:
        return _matern_expanded(v, nu).astype(u.dtype, copy=False)
    log_c = (1.0 - nu) * math.log(2.0) - special.gammaln(nu)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        k = np.exp(log_c + nu * np.log(v) - v) * special.kve(nu, v)
        # Near zero, u^ν K_ν(u) is 0 · ∞ numerically; its limit gives k = 1, minus a power of u for ν < 1.
        near = (~np.isfinite(k) & (v < 1.0)) | (v < 1e-150)
        k[near], k[v > FAR] = 1.0, 0.0
        if nu < 1.0:
            power = 2.0 * nu * np.log(v[near] / 2.0) + special.gammaln(1.0 - nu) - special.gammaln(1.0 + nu)
            k[near] = -np.expm1(power)
    return np.minimum(k, 1.0, out=k).astype(u.dtype, copy=False)


def _matern_expanded(u: NDArray[np.float64], nu: float) -> NDArray[np.float64]:
    """Debye's expansion of K_ν for large ν over Stirling's of Γ(ν), with overflowing factors cancelled analytically."""
    z2 = (u / nu) ** 2
    root = np.sqrt(1.0 + z2)
    over = z2 / (1.0 + root)
    t = 1.0 / root
    u1 = (3 * t - 5 * t**3) / 24
    u2 = (81 * t**2 - 462 * t**4 + 385 * t**6) / 1152
    u3 = (30375 * t**3 - 369603 * t**5 + 765765 * t**7 - 425425 * t**9) / 414720
    series = 1.0 - u1 / nu + u2 / nu**2 - u3 / nu**3
    stirling = -1.0 / (12.0 * nu) + 1.0 / (360.0 * nu**3)
    return np.minimum(np.exp(nu * (np.log1p(over / 2.0) - over) + stirling) * np.sqrt(t) * series, 1.0)


def _rough_slope(u: NDArray[Any], nu: float) -> NDArray[Any]:
    """dk/ds = -ν c u^(ν-1) K_(ν-1)(u), c = 2^(1-ν)/Γ(ν), for ν <= 1: infinite at zero, where it is set to zero."""
    v = np.asarray(u, dtype=np.float64)
    log_c = (1.0 - nu) * math.log(2.0) - special.gammaln(nu) + math.log(nu)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        slope = -np.exp(log_c + (nu - 1.0) * np.log(v) - v) * special.kve(nu - 1.0, v)
    slope[~np.isfinite(slope)] = 0.0
    return slope.astype(u.dtype, copy=False)


@kernel
class RationalQuadratic(Radial):
    """A mixture of RBFs over lengthscales: (1 + s/(2α))^(-α).

    Parameters
    ----------
    lengthscale : float or sequence of float, default=1.0
        One for all inputs, or one each.
    alpha : float, default=1.0
        Concentration of the mixed lengthscales; the limit alpha → ∞ is the RBF.
    lengthscale_bounds, alpha_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Range in which they may be learned.

    Examples
    --------
    >>> from gramian.kernels import RationalQuadratic
    >>> RationalQuadratic(1.0, alpha=1.0)([[0.0]], [[2.0]])
    array([[0.33333333]])
    """

    lengthscale: Any = 1.0
    alpha: float = 1.0
    lengthscale_bounds: Bounds = FREE
    alpha_bounds: Bounds = FREE

    def profile(self, t: Array) -> Array:
        return points.exp(points.multiply(self._logarithm(t), -self.alpha))

    def slope(self, t: Array) -> Array:
        return points.multiply(points.exp(points.multiply(self._logarithm(t), -self.alpha - 1.0)), -0.5)

    def _logarithm(self, t: Array) -> Array:
        """log(1 + s/(2α)), accurate for large α."""
        return points.log1p(points.multiply(points.maximum(t, 0.0), 0.5 / self.alpha))

    def _derivatives(self, A: Points, B: Points, W: Array) -> dict[str, Any]:
        xp = points.namespace(W)
        x = points.multiply(points.maximum(self.arguments(A, B), 0.0), 0.5 / self.alpha)
        log = xp.log1p(x)
        by_alpha = (x / (1.0 + x) - log) * xp.exp(-self.alpha * log) * self.alpha
        return super()._derivatives(A, B, W) | {"alpha": float(xp.sum(by_alpha * W))}

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        draws = self._normal_draws(d, size, rng)
        return draws * np.sqrt(rng.gamma(self.alpha, 1.0 / self.alpha, size))[:, None]

    def _density(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        a, half = self.alpha, 0.5 * W.shape[1]
        squares, volume = self._scaled_norms(W)
        if a > LARGE_NU:
            return self._spectral(W.shape[1]).density(W)
        order, u = a - half, np.sqrt(2.0 * a * squares)
        log_c = math.log(2.0) + volume - half * math.log(2.0 * math.pi) + a * math.log(a) - special.gammaln(a)
        with np.errstate(divide="ignore", invalid="ignore"):
            S = np.exp(log_c + order * (np.log(u) - math.log(2.0 * a)) - u) * special.kve(order, u)
        at_zero = 0.5 * math.exp(log_c - order * math.log(a) + special.gammaln(order)) if order > 0 else np.inf
        return np.where(u > 0, S, at_zero)

    def _spectral(self, d: int) -> SpectralMixture:
        return over_variances(1.0, self.alpha, d, lengthscales(self, d) ** -2.0)


@kernel
class Periodic(GaussianProfile):
    """The periodic kernel exp(-2 Σ_k sin²(π (x_k - z_k) / p) / ℓ_k²).

    It is the RBF on circles, so it is positive semi-definite for any number of inputs (scikit-learn's
    ``ExpSineSquared`` agrees for one input, and is not positive semi-definite for more).

    Parameters
    ----------
    lengthscale : float or sequence of float, default=1.0
        One for all inputs, or one each.
    period : float, default=1.0
        The period of every input.
    lengthscale_bounds, period_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Range in which they may be learned.

    Examples
    --------
    >>> from gramian.kernels import Periodic
    >>> Periodic(1.0, period=2.0)([[0.0]], [[2.0], [1.0]]).round(4)
    array([[1.    , 0.1353]])
    """

    lengthscale: Any = 1.0
    period: float = 1.0
    lengthscale_bounds: Bounds = FREE
    period_bounds: Bounds = FREE
    sparse: ClassVar[bool] = False

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        both = points.pair_of_vectors(X, Y, kernel=self.name)
        d, dtype, xp = both[0].shape[1], both[0].dtype, points.namespace(both[0])
        turns = [xp.astype(Z, xp.float64) / self.period for Z in both]
        # Whole turns change nothing, but many of them would cost the derivative with respect to the period its digits.
        turns = [t - xp.round(xp.mean(turns[1], axis=0)) for t in turns]
        scale = np.tile(np.broadcast_to(lengthscales(self, d), (d,)), 2)
        circles = [xp.astype(_circle(t), dtype) for t in turns]
        left, right = rows_for_distances(circles[0], circles[1], scale, self.weight, True)
        return points.paired((left, turns[0]), (right, turns[1]), Y is None)

    def _derivatives(self, A: Points, B: Points, W: Array) -> dict[str, Any]:
        found = super()._derivatives(A, B, W)
        if isinstance(self.lengthscale, tuple):
            found["lengthscale"] = found["lengthscale"].reshape(2, -1).sum(axis=0)
        M = self._pulled(self.arguments(A, B), W)
        xp = points.namespace(M)
        by_period = -xp.sum(self._turning(A, B, M) * A.parts[1]) - xp.sum(self._turning(B, A, M.T) * B.parts[1])
        return found | {"period": float(by_period)}

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        G = self._turning(A, B, self._pulled(self.arguments(A, B), W)) / self.period
        return points.namespace(G).astype(G, A.parts[0].dtype)

    def _turning(self, A: Points, B: Points, M: Array) -> Array:
        """Σ_j M_ij ∂s_ij/∂(turns of x_i), the gradient along the circle."""
        G = 2.0 * A.parts[0].pull(B.parts[0], M)
        d = A.parts[1].shape[1]
        circle = points.namespace(M).astype(_circle(A.parts[1]), G.dtype)
        along = G[:, d:] * circle[:, :d] - G[:, :d] * circle[:, d:]
        return along * (2.0 * math.pi) / points.asarray(lengthscales(self, d), G)

    def diagonal_gradient(self, A: Points, w: Array) -> Array:
        return points.full(A, 0.0, A.parts[1].shape[1])

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        # A Fourier series on the circle: frequency 2πj/p has weight I_|j|(1/ℓ²) exp(-1/ℓ²).
        draws = np.empty((size, d))
        for k, scale in enumerate(np.broadcast_to(lengthscales(self, d), (d,))):
            if scale < 1e-2:  # so many harmonics that their weights are normal to 1e-5
                draws[:, k] = np.rint(rng.standard_normal(size) / scale)
                continue
            top = int(10 + 10 / scale)
            j = np.arange(-top, top + 1)
            weights = special.ive(np.abs(j), scale**-2.0)
            draws[:, k] = rng.choice(j, size=size, p=weights / weights.sum())
        return draws * (2.0 * math.pi / self.period)

    def _spectral(self, d: int) -> SpectralMixture:
        unit = 2.0 * math.pi / self.period
        found = parts(1.0, d)
        for k, scale in enumerate(np.broadcast_to(lengthscales(self, d), (d,))):
            j = np.arange(-int(10 + 10 / scale), int(10 + 10 / scale) + 1)
            found = found * parts(special.ive(np.abs(j), scale**-2.0), d, centres=np.outer(unit * j, np.eye(d)[k]))
        return found


def _circle(turns: Array) -> Array:
    xp = points.namespace(turns)
    angle = (turns - xp.floor(turns)) * (2.0 * math.pi)
    return xp.concat([xp.cos(angle), xp.sin(angle)], axis=1)
