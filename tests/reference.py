"""Slow, obvious versions of what the library does fast: double loops and dense solves."""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
from scipy import special

from gramian.kernels import Precomputed


def gram(k, X, Y=None):
    """Return K by a double loop over the pointwise definition; without Y, i = j is the same object."""
    if isinstance(k, Precomputed):
        return np.array([[X[i][j] for j in range(len(X[0]))] for i in range(len(X))])
    rows, columns = _items(X), _items(X if Y is None else Y)
    return np.array([[value(k, x, z, Y is None and i == j) for j, z in enumerate(columns)] for i, x in enumerate(rows)])


def _items(X):
    return [np.asarray(x, dtype=np.float64) for x in X] if isinstance(X, np.ndarray) else list(X)


def value(k, x, z, same=False):
    """Return k(x, z) as a textbook writes it."""
    return POINTWISE[type(k).__name__](k, x, z, same)


def _scaled(k, x, z):
    return (x - z) / np.asarray(k.lengthscale)


def _squared(k, x, z):
    return float(np.sum(_scaled(k, x, z) ** 2))


def _matern(k, x, z, same):
    if math.isinf(k.nu):
        return math.exp(-_squared(k, x, z) / 2)
    u = math.sqrt(2 * k.nu * _squared(k, x, z))
    return 1.0 if u == 0 else 2 ** (1 - k.nu) / special.gamma(k.nu) * u**k.nu * special.kv(k.nu, u)


def _thin_plate(k, x, z, same):
    r, p = math.dist(x, z), 2 * k.order - len(x)
    if p % 2:
        return (-1) ** math.ceil(p / 2) * r**p
    return (-1) ** (1 + p // 2) * r**p * math.log(r) if r > 0 else 0.0


def _scaled2(k, x, z):
    return sum(((a - b) / s) ** 2 for a, b, s in zip(x, z, np.broadcast_to(k.lengthscale, len(x)), strict=True))


def _sobolev(k, x, z, same):
    low, high = min(x[0], z[0]), max(x[0], z[0])
    return math.sinh(low) * math.sinh(1 - high) / math.sinh(1)


def _normalized(k, x, z, same):
    a, b = value(k.kernel, x, x, True), value(k.kernel, z, z, True)
    return value(k.kernel, x, z, same) / math.sqrt(a * b) if a * b > 0 else 0.0


def _spectrum(k, x, z, same):
    pieces = [Counter(t[i : i + k.length] for i in range(len(t) - k.length + 1)) for t in (x, z)]
    return sum(pieces[0][p] * pieces[1][p] for p in pieces[0])


def _words(k, x, z, same):
    counts = [Counter(re.findall(r"\w+", t.lower() if k.lowercase else t)) for t in (x, z)]
    return sum(counts[0][w] * counts[1][w] for w in counts[0])


def _chi(x, z):
    return sum((a - b) ** 2 / (a + b) for a, b in zip(x, z, strict=True) if a + b > 0)


def _one(f, x):
    return f(np.asarray(x)[None, :])[0]


POINTWISE = {
    "RBF": lambda k, x, z, same: math.exp(-_squared(k, x, z) / 2),
    "Matern": _matern,
    "RationalQuadratic": lambda k, x, z, same: (1 + _squared(k, x, z) / (2 * k.alpha)) ** -k.alpha,
    "Periodic": lambda k, x, z, same: math.exp(
        -2 * float(np.sum((np.sin(np.pi * (x - z) / k.period) / np.asarray(k.lengthscale)) ** 2))
    ),
    "Laplace": lambda k, x, z, same: math.exp(-float(np.abs(_scaled(k, x, z)).sum())),
    "PowerExponential": lambda k, x, z, same: math.exp(
        -(float(sum(abs(u) ** k.p for u in _scaled(k, x, z) * np.ones(len(x)))) ** (k.q / k.p))
    ),
    "Categorical": lambda k, x, z, same: math.exp(
        -sum(w for w, a, b in zip(np.broadcast_to(k.weight, len(x)), x, z, strict=True) if a != b)
    ),
    "Metric": lambda k, x, z, same: value(k.kernel, np.asarray(k.L).T @ x, np.asarray(k.L).T @ z, same),
    "White": lambda k, x, z, same: k.noise if same else 0.0,
    "Constant": lambda k, x, z, same: k.value,
    "Linear": lambda k, x, z, same: float(x @ z),
    "Polynomial": lambda k, x, z, same: (k.scale * float(x @ z) + k.offset) ** k.degree,
    "Sigmoid": lambda k, x, z, same: math.tanh(k.scale * float(x @ z) + k.offset),
    "Chi2": lambda k, x, z, same: math.exp(-k.gamma * _chi(x, z)),
    "AdditiveChi2": lambda k, x, z, same: -_chi(x, z),
    "Sobolev": _sobolev,
    "ThinPlate": _thin_plate,
    "Multiquadric": lambda k, x, z, same: -math.sqrt(1.0 + _scaled2(k, x, z)),
    "Spectrum": _spectrum,
    "WordCount": _words,
    "Callable": lambda k, x, z, same: float(k.f(x[None], z[None])[0, 0]) if k.vectorized else k.f(x, z),
    "RankOne": lambda k, x, z, same: _one(k.f, x) * _one(k.f, z),
    "Sum": lambda k, x, z, same: value(k.left, x, z, same) + value(k.right, x, z, same),
    "Product": lambda k, x, z, same: value(k.left, x, z, same) * value(k.right, x, z, same),
    "Scaled": lambda k, x, z, same: k.factor * value(k.kernel, x, z, same),
    "Power": lambda k, x, z, same: value(k.kernel, x, z, same) ** k.exponent,
    "Exp": lambda k, x, z, same: math.exp(value(k.kernel, x, z, same)),
    "PolynomialOf": lambda k, x, z, same: sum(
        c * value(k.kernel, x, z, same) ** j for j, c in enumerate(k.coefficients)
    ),
    "Normalized": _normalized,
    "NormalizedExp": lambda k, x, z, same: math.exp(
        value(k.kernel, x, z, same) - (value(k.kernel, x, x, True) + value(k.kernel, z, z, True)) / 2
    ),
    "Centred": lambda k, x, z, same: (
        value(k.kernel, x, z, same)
        - np.mean([value(k.kernel, x, r) + value(k.kernel, z, r) for r in np.array(k.rows)])
        + np.mean([value(k.kernel, q, r) for q in np.array(k.rows) for r in np.array(k.rows)])
    ),
    "Composed": lambda k, x, z, same: value(
        k.kernel, np.asarray(k.phi(np.asarray(x)[None]))[0], np.asarray(k.phi(np.asarray(z)[None]))[0], same
    ),
}


def theta_gradient(k, X, Y, W, step=1e-5):
    """Return Σ W ∂K/∂theta by central differences."""
    theta = k.theta
    gradient = np.zeros_like(theta)
    for i in range(theta.size):
        e = np.zeros_like(theta)
        e[i] = step
        up, down = (k.with_theta(theta + s * e)(X, Y) for s in (1, -1))
        gradient[i] = np.sum(W * (up - down)) / (2 * step)
    return gradient


def input_gradient(k, X, Y, W, step=1e-6):
    """Return Σ_j W_ij ∂k(x_i, y_j)/∂x_i by central differences, row by row."""
    gradient = np.zeros(X.shape)
    for i in range(X.shape[0]):
        for c in range(X.shape[1]):
            e = np.zeros(X.shape[1])
            e[c] = step
            up, down = (k(X[i : i + 1] + s * e, Y)[0] for s in (1, -1))
            gradient[i, c] = W[i] @ (up - down) / (2 * step)
    return gradient


def nystrom(K, index):
    """Return K_nm K_mm⁺ K_mn."""
    return K[:, index] @ np.linalg.pinv(K[np.ix_(index, index)], hermitian=True) @ K[index]
