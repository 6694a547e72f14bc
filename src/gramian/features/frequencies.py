"""Frequencies of random Fourier features: independent, orthogonal, structured orthogonal, or quasi-random.

A kernel draws from its spectral measure with the generator that it is given. The generators here return normal rows
that are orthogonal in blocks, or take every draw from a low-discrepancy sequence. So each method works for every kernel
with a spectral measure, sums and products included, and each frequency keeps its marginal distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.stats import qmc

from gramian.kernels import Kernel

Array = NDArray[np.float64]

METHODS = ("orthogonal", "iid", "sorf", "qmc")


def draw(kernel: Kernel, d: int, size: int, method: str, rng: np.random.Generator) -> Array:
    """Draw frequencies from the spectral measure of a stationary kernel: → (size, d)."""
    if method == "iid":
        return kernel.frequencies(d, size, rng)
    if method == "qmc":
        return _quasi_random(kernel, d, size, rng)
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}.")
    normals = _StructuredNormals(rng, _orthogonal if method == "orthogonal" else _hadamard)
    W = kernel.frequencies(d, size, cast(np.random.Generator, normals))
    if not normals.used and np.any(kernel.frequencies(d, 256, np.random.default_rng(0))):  # else a constant kernel
        raise ValueError(
            f"method={method!r} needs a spectral measure with a rotation-invariant part (RBF, Matern, "
            f"RationalQuadratic, and kernels built from them), and that of {kernel!r} has none; use 'iid' or 'qmc'."
        )
    return W


class _StructuredNormals:
    """A generator whose normal rows have structured directions; all other draws are those of the wrapped generator."""

    def __init__(self, rng: np.random.Generator, directions: Callable[[int, np.random.Generator], Array]) -> None:
        self._rng = rng
        self._directions = directions
        self.used = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rng, name)

    def standard_normal(self, shape: tuple[int, int]) -> Array:
        """Draw rows of χ-distributed length, with directions drawn block by block."""
        self.used = True
        size, d = shape
        blocks: list[Array] = []
        while not blocks or len(blocks) * len(blocks[0]) < size:  # all blocks have the same size
            Q = self._directions(d, self._rng)
            lengths = np.sqrt(self._rng.chisquare(Q.shape[1], Q.shape[0]))
            blocks.append((Q * lengths[:, None])[:, :d])
        return np.concatenate(blocks)[:size]


def _orthogonal(d: int, rng: np.random.Generator) -> Array:
    """Draw an orthogonal matrix from the Haar measure."""
    Q, R = np.linalg.qr(rng.standard_normal((d, d)))
    return np.asarray(Q * np.sign(np.diagonal(R)))


def _hadamard(d: int, rng: np.random.Generator) -> Array:
    """H D₁ H D₂ H D₃ with random signs D, of size the next power of two.

    Small matrices give few directions, far from uniform on the sphere; so the size is at least sixteen.
    """
    p = max(1 << max(d - 1, 0).bit_length(), 16)
    Q = np.eye(p)
    for _ in range(3):
        Q = walsh_hadamard(Q * rng.choice([-1.0, 1.0], size=p)) / math.sqrt(p)
    return Q


def walsh_hadamard(A: Array) -> Array:
    """Multiply every row by the unnormalised Hadamard matrix, in O(p log p) each: A (n, p) → (n, p)."""
    n, p = A.shape
    h = 1
    while h < p:
        B = A.reshape(n, p // (2 * h), 2, h)
        A = np.stack([B[:, :, 0] + B[:, :, 1], B[:, :, 0] - B[:, :, 1]], axis=2).reshape(n, p)
        h *= 2
    return A


# ---- quasi-random -------------------------------------------------------------------------------------------------


def _quasi_random(kernel: Kernel, d: int, size: int, rng: np.random.Generator) -> Array:
    """Draw frequencies from a Sobol sequence, whose dimension is the number of uniforms that one frequency uses."""
    trial = _ThroughUniforms(np.empty((size, 0)), rng)
    kernel.frequencies(d, size, cast(np.random.Generator, trial))
    dimension = min(trial.taken, qmc.Sobol.MAXDIM)
    if dimension == 0:
        return kernel.frequencies(d, size, rng)
    # A Sobol sequence is balanced for a power of two points, and nearly so for the first ``size`` of them.
    points = qmc.Sobol(dimension, rng=rng).random_base2(max(size - 1, 1).bit_length())[:size]
    return kernel.frequencies(d, size, cast(np.random.Generator, _ThroughUniforms(points, rng)))


class _ThroughUniforms:
    """A generator that transforms given uniform numbers by inverse distribution functions.

    When these run out, or another kind of draw is requested, the draws are independent ones of the wrapped generator,
    so the distribution stays correct.
    """

    def __init__(self, points: Array, rng: np.random.Generator) -> None:
        self._points, self._rng = points, rng
        self.taken = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rng, name)

    def _take(self, shape: int | tuple[int, ...]) -> Array:
        size, *rest = (shape,) if isinstance(shape, int) else shape
        count = math.prod(rest)
        held = self._points[:, self.taken : self.taken + count]
        self.taken += count
        missing = self._rng.random((size, count - held.shape[1]))
        # Strictly inside (0, 1): an inverse distribution function is infinite at the ends.
        u = np.clip(np.concatenate([held, missing], axis=1), 1e-12, 1.0 - 1e-12)
        return u.reshape(size, *rest)

    def random(self, size: int) -> Array:
        return self._take(size)

    def standard_normal(self, shape: tuple[int, int]) -> Array:
        return np.asarray(special.ndtri(self._take(shape)))

    def standard_cauchy(self, shape: tuple[int, int]) -> Array:
        return np.tan(np.pi * (self._take(shape) - 0.5))

    def chisquare(self, df: float, size: int) -> Array:
        return np.asarray(2.0 * special.gammaincinv(df / 2.0, self._take(size)))

    def gamma(self, shape: float, scale: float, size: int) -> Array:
        return np.asarray(scale * special.gammaincinv(shape, self._take(size)))

    def poisson(self, lam: float, size: int) -> NDArray[np.intp]:
        return np.maximum(np.ceil(special.pdtrik(self._take(size), lam)), 0).astype(np.intp)

    def choice(self, a: Any, size: int, p: Array) -> NDArray[Any]:
        values = np.arange(a) if np.ndim(a) == 0 else np.asarray(a)
        return values[np.minimum(np.searchsorted(np.cumsum(p), self._take(size)), values.size - 1)]
