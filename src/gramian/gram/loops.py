"""Compiled loops: cosines and sines in one pass over memory, and products with a stored block and its transpose.

Imported on first use, because importing numba takes a good part of a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.compiled import compiled

Array = NDArray[Any]
F32 = np.float32
HALF_TURN = F32(1.0 / np.pi)
# π in three parts, the first two with zeros at their ends, so that small multiples are exact (Cody and Waite).
PI_1, PI_2, PI_3 = F32(3.140625), F32(9.67502593994140625e-4), F32(1.509957990978376432e-7)
TWO = F32(2.0)


def _in_squares(function: Any) -> tuple[np.float32, ...]:
    """Six coefficients of a polynomial in t², close to the function on [-π/2, π/2]: at Chebyshev's points."""
    fit = np.polynomial.Chebyshev.interpolate(lambda z: function(np.sqrt(z)), 5, domain=[0.0, (np.pi / 2) ** 2])
    return tuple(F32(c) for c in fit.convert(kind=np.polynomial.Polynomial, domain=[-1, 1]).coef)


S0, S1, S2, S3, S4, S5 = _in_squares(lambda t: np.sinc(t / np.pi))
C0, C1, C2, C3, C4, C5 = _in_squares(np.cos)


@compiled(nogil=True, fastmath={"contract", "nsz", "nnan"})
def fill_waves(half: Array, scale: Any, out: Array) -> None:
    """Write ``scale · (cos 2h, sin 2h)``, to a few units of rounding in single precision."""
    m = half.shape[1]
    twice = TWO * scale
    sines = out.shape[1] - m
    for i in range(half.shape[0]):
        phases, cosine, sine = half[i], out[i][:m], out[i][m:]
        for j in range(sines):
            s, c = _half_angle(phases[j])
            cosine[j] = scale - twice * s * s
            sine[j] = twice * s * c
        for j in range(sines, m):
            s, _ = _half_angle(phases[j])
            cosine[j] = scale - twice * s * s


@compiled(nogil=True, inline="always", fastmath={"contract", "nsz", "nnan"})
def _half_angle(h: Any) -> tuple[Any, Any]:
    """Sine and cosine of h up to a common sign, which cancels in their products."""
    k = np.rint(h * HALF_TURN)
    r = ((h - k * PI_1) - k * PI_2) - k * PI_3
    z = r * r
    s = r * (S0 + z * (S1 + z * (S2 + z * (S3 + z * (S4 + z * S5)))))
    c = C0 + z * (C1 + z * (C2 + z * (C3 + z * (C4 + z * C5))))
    return s, c


@compiled(nogil=True, fastmath={"reassoc", "contract", "nsz"})
def add_blocks(pool: Array, starts: Array, corners: Array, share: Array, v: Array, total: Array) -> None:
    """Add the products of some blocks, and of their transposes, with a vector."""
    for b in share:
        top, bottom, left, right = corners[b]
        width = right - left
        here, mirrored = v[left:right], np.zeros(width, v.dtype)
        for i in range(top, bottom):
            start = starts[b] + (i - top) * width  # rows are contiguous: memory is read in one stream
            row, weight, s = pool[start : start + width], v[i], v.dtype.type(0)
            for j in range(width):
                s += row[j] * here[j]
                mirrored[j] += row[j] * weight
            total[i] += s
        if top != left:
            for j in range(width):
                total[left + j] += mirrored[j]
