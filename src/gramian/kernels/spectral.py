"""Spectral measures of stationary kernels as mixtures of products of one-dimensional Voigt profiles.

A Gaussian frequency convolved with a Cauchy one is a Voigt profile; the RBF is the first, Laplace the second, Matérn
and the rational quadratic are mixtures of Gaussians over their variance, and a Fourier series is a mixture of points.
These mixtures are closed under sums and, as centres, variances and widths add, under products of kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]
MOST_PARTS = 1_000_000
"""Limit on the parts of a mixture."""
CHUNK = 1 << 21
"""Limit on profile values held at once."""


class SpectralMeasure:
    """The spectral measure of a stationary kernel (Bochner), as methods of the kernel."""

    def frequencies(self: Any, d: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw ω of the normalised measure, ``k(x, z) = amplitude · E cos(ωᵀ(x - z))``: d, size, rng → (size, d)."""
        raise TypeError(f"{self!r} has no known spectral measure; random Fourier features need a stationary kernel.")

    def spectral_density(self: Any, omega: Any) -> NDArray[np.float64]:
        """Return the density S of the spectral measure: ``k(x, z) = ∫ S(ω) exp(iωᵀ(x - z)) dω`` (Bochner).

        Its integral is k(x, x); divided by k(x, x), it is the probability density of ``frequencies``. With the unitary
        Fourier transform κ̂ of the kernel, ``κ̂ = (2π)^(d/2) S``.

        Parameters
        ----------
        omega : array-like of shape (m, d)
            Angular frequencies; d is the number of inputs.

        Returns
        -------
        array of shape (m,)
            The density: in closed form for RBF, Matern, Laplace and RationalQuadratic, their multiples and sums; for
            products, by quadrature to about 1e-10. A kernel whose measure has no density raises an error.

        Examples
        --------
        >>> from gramian.kernels import RBF
        >>> RBF(1.0).spectral_density([[0.0], [1.0]]).round(4)
        array([0.3989, 0.242 ])
        """
        W = np.asarray(omega, dtype=np.float64)
        if W.ndim != 2:
            raise ValueError(f"omega must have shape (m, d), one column for each input; got {W.shape}.")
        try:
            return self._density(W)
        except TypeError as error:
            raise TypeError(f"{self!r} has no spectral density: {error}.") from None

    def _density(self: Any, W: NDArray[np.float64]) -> NDArray[np.float64]:
        """The density of the spectral measure: W (m, d) → (m,)."""
        return self._spectral(W.shape[1]).density(W)

    def _spectral(self: Any, d: int) -> SpectralMixture:
        """The spectral measure for d inputs as a mixture."""
        raise TypeError(f"the spectral measure of {self.name} is not known")

    @property
    def amplitude(self: Any) -> float:
        """The value k(x, x) of a stationary kernel: the total mass of its spectral measure."""
        raise TypeError(f"{self!r} is not stationary: k(x, x) depends on x.")


@dataclass(frozen=True, eq=False)
class SpectralMixture:
    """The measure with density Σ_j weights_j Π_k Voigt(ω_k - centres_jk; variances_jk, widths_jk)."""

    weights: Array  # (q,)
    centres: Array  # (q, d)
    variances: Array  # (q, d): Variances of the Gaussian
    widths: Array  # (q, d): Half-widths of the Cauchy distribution

    def __add__(self, other: SpectralMixture) -> SpectralMixture:
        return SpectralMixture(*(np.concatenate(pair) for pair in zip(self._parts(), other._parts(), strict=True)))

    def __mul__(self, other: Any) -> SpectralMixture:
        if not isinstance(other, SpectralMixture):
            return SpectralMixture(other * self.weights, *self._parts()[1:])
        if self.weights.size * other.weights.size > MOST_PARTS:
            raise ValueError("the spectral measure of this product has too many parts to be computed.")
        d = self.centres.shape[1]
        sums = (
            (a[:, None] + b[None]).reshape(-1, d) for a, b in zip(self._parts()[1:], other._parts()[1:], strict=True)
        )
        return SpectralMixture(np.outer(self.weights, other.weights).ravel(), *sums)

    def _parts(self) -> tuple[Array, Array, Array, Array]:
        return self.weights, self.centres, self.variances, self.widths

    def spread(self, columns: tuple[int, ...], d: int) -> SpectralMixture:
        """Return the measure on all d inputs of a kernel on some of the columns."""
        at = np.zeros((len(columns), d))
        at[np.arange(len(columns)), list(columns)] = 1.0
        return SpectralMixture(self.weights, *(part @ at for part in self._parts()[1:]))

    def density(self, W: Array) -> Array:
        """Return the density at some frequencies: W (m, d) → (m,)."""
        used = self.weights > 0
        weights, centres, variances, widths = (part[used] for part in self._parts())
        if np.any((variances == 0) & (widths == 0)):
            raise TypeError("the spectral measure has atoms, and so no density")
        deviations = np.sqrt(variances)
        out = np.empty(W.shape[0])
        step = max(CHUNK // max(weights.size, 1), 1)
        for start in range(0, W.shape[0], step):
            profile = np.ones((min(step, W.shape[0] - start), weights.size))
            for k in range(W.shape[1]):
                gap = W[start : start + step, k, None] - centres[:, k]
                if np.any(widths[:, k]):
                    profile *= special.voigt_profile(gap, deviations[:, k], widths[:, k])
                else:
                    profile *= np.exp(-0.5 * (gap / deviations[:, k]) ** 2) / (
                        math.sqrt(2 * math.pi) * deviations[:, k]
                    )
            out[start : start + step] = profile @ weights
        return out


def parts(weights: Any, d: int, *, centres: Any = 0.0, variances: Any = 0.0, widths: Any = 0.0) -> SpectralMixture:
    """Return a mixture from arguments that broadcast to its shapes: weights (q,), the others (q, d)."""
    weights = np.atleast_1d(np.asarray(weights, dtype=np.float64))
    shape = (weights.size, d)
    return SpectralMixture(
        weights, *(np.broadcast_to(np.asarray(a, float), shape).copy() for a in (centres, variances, widths))
    )


def over_variances(sign: float, shape: float, d: int, variances: Array) -> SpectralMixture:
    """Return a mixture of Gaussians of variance τ · variances; τ, or with sign -1 1/τ, is gamma distributed, mean one.

    By the trapezoidal rule in x = ±log τ, whose density exp(shape (x - e^x)) makes it converge like exp(-π²/step).
    """
    step = min(0.3, 0.75 / math.sqrt(shape + 0.5 * d + 1.0))
    reach = min(10.0 / math.sqrt(shape) + 60.0 / shape, 600.0)
    x = np.arange(-reach, reach, step)
    with np.errstate(over="ignore"):
        log = shape * (x - np.expm1(x))
    x, log = x[log > -50.0], log[log > -50.0]
    # For small shapes the tails are so long that the truncated sum misses mass: use the exact normaliser.
    mass = math.exp(shape + special.gammaln(shape) - shape * math.log(shape)) / step
    weights = np.exp(log)
    weights /= mass if shape < 1.0 else weights.sum()
    return parts(weights, d, variances=np.exp(sign * x)[:, None] * variances)
