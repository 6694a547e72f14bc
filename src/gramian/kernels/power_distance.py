"""Kernels of sums of powers of differences, Σ_k |x_k - z_k|^p / ℓ_k^p: PowerExponential, and Laplace with p = 1."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from gramian.kernels import points
from gramian.kernels.base import ConstantDiagonal, kernel
from gramian.kernels.distances import FARTHEST, Differences, cast, centred, lengthscales
from gramian.kernels.points import Array, Points
from gramian.kernels.spectral import SpectralMixture, parts
from gramian.kernels.tunable import FREE, Bounds, check_number
from gramian.resources import spans

COMPILED = 200_000
"""From this many differences, compiled loops pay off; importing them takes most of a second."""
STRIP = 2**15
"""Entries of a tile that are processed at a time."""
TINY = 1e-300
"""Replaces a zero denominator where the numerator is zero too."""


class PowerDistance(ConstantDiagonal):
    """The function exp(-S^(q/p)) of S = Σ_k |x_k - z_k|^p / ℓ_k^p; a subclass has ``lengthscale``, ``p`` and ``q``."""

    per_input: ClassVar[tuple[str, ...]] = ("lengthscale",)
    sparse: ClassVar[bool] = True
    buffers: ClassVar[int] = 3
    amplitude: ClassVar[float] = 1.0
    lengthscale: Any
    p: float
    q: float

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        rows, columns = map(points.dense, points.pair_of_vectors(X, Y, kernel=self.name, sparse=True))
        left, right = centred(rows, columns, lengthscales(self, rows.shape[1]), robust=True)
        return points.paired((Differences(left, rows.dtype),), (Differences(right, rows.dtype),), Y is None)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        a, pair = A.parts[0], _Pair(A, B)
        if not pair.numpy:
            return cast(self._value(pair.sums(pair.whole, self.p)), a.dtype, out)
        K = out if out is not None else np.empty((len(A), len(B)), a.dtype)
        for rows in pair.strips:
            K[rows] = self._value(pair.sums(rows, self.p))
        return K

    def _value(self, S: Array) -> Array:
        """exp(-S^(q/p)), in place."""
        return points.exp(points.multiply(self._root(S), -1.0))

    def _root(self, S: Array) -> Array:
        """S^(q/p), in place."""
        if self.q == self.p:
            return S
        if 2.0 * self.q == self.p:
            return points.sqrt(S)
        with np.errstate(divide="ignore"):  # by logarithm and exponential, faster than a power
            return points.exp(points.multiply(points.log(S), self.q / self.p))

    def _derivatives(self, A: Points, B: Points, W: Array) -> dict[str, Any]:
        pair = _Pair(A, B)
        each = isinstance(self.lengthscale, tuple)
        by_length: Any = 0.0
        by_q = 0.0
        for rows in pair.strips:
            S, T, K = self._parts(pair, rows)
            xp, KW = points.namespace(K), K * W[rows, ...]
            if each:
                by_length += points.to_numpy(xp.sum(pair.moments(rows, self.p, KW * self._rate(S, T)), axis=0))
            else:
                by_length += self.q * float(xp.sum(KW * T))
            if "q" in self._own_free:
                log = xp.log(xp.where(S > 0, S, xp.ones_like(S)))
                by_q -= self.q / self.p * float(xp.sum(KW * T * log))
        return {"lengthscale": by_length, "q": by_q}

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        pair, parts = _Pair(A, B), []
        for rows in pair.strips:
            S, T, K = self._parts(pair, rows)
            parts.append(pair.moments(rows, self.p - 1.0, K * W[rows, ...] * self._rate(S, T), signed=True))
        G = -points.namespace(W).concat(parts, axis=0) if len(parts) > 1 else -parts[0]
        scale = points.asarray(lengthscales(self, G.shape[1]), G)
        return points.namespace(G).astype(G / scale, A.parts[0].dtype)

    def _parts(self, pair: _Pair, rows: slice) -> tuple[Array, Array, Array]:
        """S, S^(q/p) and k."""
        S = points.minimum(pair.sums(rows, self.p), FARTHEST)
        T = self._root(points.copy(S))
        return S, T, points.namespace(T).exp(-T)

    def _rate(self, S: Array, T: Array) -> Array | float:
        """q S^(q/p - 1), and zero at the kink S = 0, where T is zero too."""
        if self.q == self.p:
            return self.q
        return self.q * T / points.maximum(points.copy(S), TINY)

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        # exp(-S^a) is a mixture of exp(-t S) over positive stable t (Kanter, 1975), and exp(-|x|^p) is the
        # characteristic function of a symmetric stable law (Chambers, Mallows and Stuck, 1976).
        p, a = self.p, self.q / self.p
        v, e = math.pi * (rng.random((size, d)) - 0.5), -np.log1p(-rng.random((size, d)))
        draws = np.sin(p * v) / np.cos(v) ** (1 / p) * (np.cos((1 - p) * v) / e) ** ((1 - p) / p)
        if a < 1.0:
            u, e = math.pi * rng.random((size, 1)), -np.log1p(-rng.random((size, 1)))
            t = np.sin(a * u) / np.sin(u) ** (1 / a) * (np.sin((1 - a) * u) / e) ** ((1 - a) / a)
            draws *= t ** (1 / p)
        return draws / lengthscales(self, d)


@kernel
class PowerExponential(PowerDistance):
    """The kernel ``exp(-(Σ_k |x_k - z_k|^p / ℓ_k^p)^(q/p))``, positive semi-definite for 0 < q <= p <= 2.

    It is rougher than the RBF (p = q = 2), and for p < 2 a difference in one input counts less than the same Euclidean
    distance spread over many: on tables often the best single kernel. ``Laplace`` is p = q = 1, ``Matern(nu=0.5)`` is
    p = 2, q = 1.

    Parameters
    ----------
    lengthscale : float or sequence of float, default=1.0
        One for all inputs, or one each.
    p : float, default=1.5
        The power of the differences, at most 2; not learned. Multiples of ½ are fast.
    q : float, default=1.0
        The power of the distance, at most ``p``.
    lengthscale_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Range in which it may be learned.
    q_bounds : pair of float or "fixed", default="fixed"
        Range in which ``q`` may be learned; the upper end may not exceed ``p``.

    Examples
    --------
    >>> from gramian.kernels import PowerExponential
    >>> PowerExponential(2.0)([[0.0, 0.0]], [[2.0, 2.0]]).round(4)
    array([[0.2045]])
    """

    lengthscale: Any = 1.0
    p: float = 1.5
    q: float = 1.0
    lengthscale_bounds: Bounds = FREE
    q_bounds: Bounds = "fixed"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "p", check_number(self.name, "p", self.p))
        if not self.q <= self.p <= 2.0:
            raise ValueError(
                f"PowerExponential: expected 0 < q <= p <= 2, got p={self.p!r} and q={self.q!r}; otherwise it is not "
                "positive semi-definite."
            )
        if not isinstance(self.q_bounds, str) and self.q_bounds[1] > self.p:
            raise ValueError(f"PowerExponential: q may be learned up to p={self.p!r}, got q_bounds={self.q_bounds!r}.")


@kernel
class Laplace(PowerDistance):
    """The Laplace kernel ``exp(-Σ_k |x_k - z_k| / ℓ_k)``, in the L1 distance.

    scikit-learn's ``gamma`` is 1/ℓ. (With the Euclidean distance it is ``Matern(nu=0.5)``.)

    Parameters
    ----------
    lengthscale : float or sequence of float, default=1.0
        One for all inputs, or one each.
    lengthscale_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Range in which it may be learned.

    Examples
    --------
    >>> from gramian.kernels import Laplace
    >>> Laplace(2.0)([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.3679]])
    """

    lengthscale: Any = 1.0
    lengthscale_bounds: Bounds = FREE
    _elsewhere: ClassVar[dict[str, str]] = {"gamma": "write lengthscale=1/gamma, for exp(-gamma |x - z|)."}
    p: ClassVar[float] = 1.0  # type: ignore[misc]
    q: ClassVar[float] = 1.0  # type: ignore[misc]

    def frequencies(self, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return rng.standard_cauchy((size, d)) / lengthscales(self, d)

    def _spectral(self, d: int) -> SpectralMixture:
        return parts(1.0, d, widths=1.0 / lengthscales(self, d))


# ---- sums over differences ----------------------------------------------------------------------------------------


class _Pair:
    """Two sets of rows, and sums over powers of their differences, by strips that fit the CPU cache."""

    def __init__(self, A: Points, B: Points) -> None:
        self.left, self.right = A.parts[0], B.parts[0]
        self.x, self.z = self.left.coordinates, self.right.coordinates
        self.numpy = isinstance(self.x, np.ndarray)
        self.whole = slice(0, len(A))
        height = max(STRIP // max(len(B), 1), 1) if self.numpy else max(len(A), 1)
        self.strips = spans(len(A), height)
        self.much = self.numpy and self.x.size * len(B) >= COMPILED

    @cached_property
    def transposed(self) -> NDArray[np.float64]:
        return np.ascontiguousarray(self.z.T)

    def sums(self, rows: slice, p: float) -> Array:
        """Σ_k |x_ik - z_jk|^p."""
        if self.numpy and p in (1.0, 2.0):
            return cdist(self.x[rows], self.z, "cityblock" if p == 1.0 else "sqeuclidean")
        if self.much and (2.0 * p).is_integer():
            from gramian.kernels.loops import half_power_sums

            out = np.empty((rows.stop - rows.start, len(self.z)))
            half_power_sums(self.x[rows], self.transposed, round(2.0 * p), out)
            return out
        return reduce(points.add, (_power(D, p) for D in self._differences(rows)))

    def moments(self, rows: slice, e: float, M: Array, signed: bool = False) -> Array:
        """Σ_j M_ij |x_ik - z_jk|^e, times the sign of the difference if ``signed``: → (n, d)."""
        if self.much and e >= 0.0 and (2.0 * e).is_integer():
            from gramian.kernels.loops import half_power_moments

            out = np.empty((rows.stop - rows.start, self.z.shape[1]))
            half_power_moments(self.x[rows], self.transposed, round(2.0 * e), signed, M, out)
            return out
        xp = points.namespace(M)
        terms = ((_power(D, e) * xp.sign(D) if signed else _power(D, e)) * M for D in self._differences(rows))
        return xp.stack([xp.sum(term, axis=1) for term in terms], axis=1)

    def _differences(self, rows: slice) -> Iterator[Array]:
        return self.left[rows].columns(self.right)


def _power(D: Array, e: float) -> Array:
    """|D|^e; for a negative e, zero at D = 0."""
    xp = points.namespace(D)
    u = xp.abs(D)
    return u**e if e >= 0.0 else xp.where(u > 0, xp.where(u > 0, u, xp.ones_like(u)) ** e, 0.0 * u)
