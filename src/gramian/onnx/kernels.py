"""Kernel trees as ONNX operators: k(x, c) of new rows with rows that are known, and k(x, x).

A number that multiplies a matrix product is a vector here, or part of the matrix: onnxruntime fuses a product with a
scalar, which it then keeps in single precision.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gramian import kernels as gk
from gramian.kernels import Kernel
from gramian.kernels.algebra import Product, Scaled, Sum
from gramian.kernels.linear_map import Metric
from gramian.kernels.maps import Columns, Composed, Normalized, NormalizedExp
from gramian.kernels.pointwise import Exp, PolynomialOf, Power
from gramian.kernels.power_distance import PowerDistance

if TYPE_CHECKING:
    from gramian.onnx.graph import Graph

Array = NDArray[np.float64]
AXES: Array = np.array([1])


def matrix(g: Graph, k: Kernel, x: str, C: Array | None) -> str:
    """Return k(x, C), (n, m), or k(x, x), (n, 1), if C is None: x the name of rows (n, d), C (m, d)."""
    if isinstance(k, Sum | Product):
        return g("Add" if isinstance(k, Sum) else "Mul", matrix(g, k.left, x, C), matrix(g, k.right, x, C))
    if isinstance(k, Scaled | Power | Exp | PolynomialOf):
        return _pointwise(g, k, matrix(g, k.kernel, x, C), 1 if C is None else len(C))
    if isinstance(k, Metric):
        L = np.asarray(k.L, dtype=np.float64)
        return matrix(g, k.kernel, g("MatMul", x, L), None if C is None else C @ L)
    if isinstance(k, Composed) and isinstance(k.phi, Columns):
        columns = np.array(k.phi.columns)
        return matrix(g, k.kernel, g("Gather", x, columns, axis=1), None if C is None else C[:, columns])
    return _diagonal(g, k, x) if C is None else _leaf(g, k, x, C)


def _diagonal(g: Graph, k: Kernel, x: str) -> str:
    if isinstance(k, gk.Linear | gk.Polynomial):
        own = g("ReduceSumSquare", x, axes=[1], keepdims=1)
        return _dot(g, k, g("Mul", own, float(getattr(k, "scale", 1.0))))
    if isinstance(k, Normalized):
        return g("Where", g("Greater", matrix(g, k.kernel, x, None), 0.0), _filled(g, x, 1, 1.0), 0.0)
    if isinstance(k, gk.White | gk.Constant):
        return _filled(g, x, 1, k.noise if isinstance(k, gk.White) else k.value)
    if not isinstance(k, NormalizedExp):
        _known(k)
    return _filled(g, x, 1, 1.0)


def _pointwise(g: Graph, k: Any, inner: str, width: int) -> str:
    """A function of one kernel's values."""
    if isinstance(k, Scaled):
        return g("Mul", inner, np.full(width, float(k.factor)))
    if isinstance(k, Power):
        return g("Pow", inner, float(k.exponent))
    if isinstance(k, Exp):
        return g("Exp", inner)
    first, *others = [float(c) for c in reversed(k.coefficients)]
    found = g("Add", g("Mul", inner, 0.0), first)
    for c in others:
        found = g("Add", g("Mul", found, inner), c)
    return found


def _leaf(g: Graph, k: Kernel, x: str, C: Array) -> str:
    if isinstance(k, Normalized):
        inner, own = matrix(g, k.kernel, x, C), np.asarray(k.kernel.diag(C), dtype=np.float64)
        scale = np.divide(1.0, np.sqrt(own), out=np.zeros_like(own), where=own > 0)
        norms = g("Sqrt", matrix(g, k.kernel, x, None))
        inverse = g("Where", g("Greater", norms, 0.0), g("Reciprocal", norms), 0.0)
        return g("Mul", g("Mul", inner, inverse), scale[None, :])
    if isinstance(k, NormalizedExp):
        half = g("Mul", matrix(g, k.kernel, x, None), 0.5)
        own = 0.5 * np.asarray(k.kernel.diag(C), dtype=np.float64)
        return g("Exp", g("Sub", g("Sub", matrix(g, k.kernel, x, C), half), own[None, :]))
    if isinstance(k, gk.White):
        return _filled(g, x, len(C), 0.0)  # a new row is never one of the training rows
    if isinstance(k, gk.Constant):
        return _filled(g, x, len(C), k.value)
    if isinstance(k, gk.Linear | gk.Polynomial | gk.Sigmoid):
        return _dot(g, k, g("MatMul", x, getattr(k, "scale", 1.0) * C.T))
    if isinstance(k, gk.Categorical):
        apart = g("Cast", g("Not", g("Equal", g("Unsqueeze", x, AXES), C[None])), to=11)
        return g(
            "Exp", g("ReduceSum", g("Mul", apart, -np.asarray(k.weight, dtype=np.float64)), np.array([2]), keepdims=0)
        )
    if isinstance(k, PowerDistance):
        scaled = g("Div", _differences(g, x, C), np.asarray(k.lengthscale, dtype=np.float64))
        powers = scaled if k.p == 1 else g("Pow", scaled, float(k.p))
        total = g("ReduceSum", powers, np.array([2]), keepdims=0)
        return g("Exp", g("Neg", total if k.q == k.p else g("Pow", total, float(k.q / k.p))))
    if isinstance(k, gk.Periodic):
        x, C = _circle(g, x, k.period), _circles(C, k.period)
        return g("Exp", g("Mul", _squares(g, x, C, np.tile(np.broadcast_to(k.lengthscale, C.shape[1] // 2), 2)), -0.5))
    _known(k)
    return _radial(g, k, x, C)


def _radial(g: Graph, k: Any, x: str, C: Array) -> str:
    """A function of scaled distances."""
    scale = np.asarray(k.lengthscale, dtype=np.float64)
    nu = getattr(k, "nu", math.inf)
    if nu == 0.5:  # a root would magnify cancellation in expanded squares
        differences = g("Div", _differences(g, x, C), scale)
        return g("Exp", g("Neg", g("ReduceL2", differences, axes=[2], keepdims=0)))
    s = _squares(g, x, C, scale)
    if isinstance(k, gk.RationalQuadratic):
        return g("Pow", g("Add", g("Mul", s, 0.5 / k.alpha), 1.0), -float(k.alpha))
    if math.isinf(nu):
        return g("Exp", g("Mul", s, -0.5))
    r = g("Sqrt", g("Mul", s, 2.0 * nu))
    factor = g("Add", r, 1.0)
    if nu == 2.5:
        factor = g("Add", factor, g("Mul", s, 5.0 / 3.0))
    return g("Mul", factor, g("Exp", g("Neg", r)))


def _known(k: Kernel) -> None:
    """Raise if the kernel has no formula in ONNX."""
    exact = isinstance(k, gk.Matern) and k.nu in (0.5, 1.5, 2.5, math.inf)
    if not (exact or isinstance(k, gk.RBF | gk.RationalQuadratic | gk.Periodic | PowerDistance | gk.Categorical)):
        raise ValueError(
            f"{k!r} cannot be written as ONNX; these can: RBF, Matern with nu 0.5, 1.5, 2.5 or inf, RationalQuadratic, "
            "Periodic, Laplace, PowerExponential, Categorical, Linear, Polynomial, Sigmoid, Constant and White, their "
            "algebra, metrics and columns."
        )


def _dot(g: Graph, k: Any, products: str) -> str:
    if isinstance(k, gk.Linear):
        return products
    inner = g("Add", products, float(k.offset))
    return g("Tanh", inner) if isinstance(k, gk.Sigmoid) else g("Pow", inner, float(k.degree))


def _squares(g: Graph, x: str, C: Array, scale: Any) -> str:
    """Squared distances (n, m), expanded about the mean of C."""
    middle = C.mean(axis=0)
    u, v = g("Sub", x, middle), (C - middle) / scale
    squares = g("ReduceSumSquare", g("Div", u, np.asarray(scale, dtype=np.float64)), axes=[1], keepdims=1)
    return g("Relu", g("Sub", g("Add", squares, np.sum(v**2, axis=1)[None, :]), g("MatMul", u, 2.0 * (v / scale).T)))


def _differences(g: Graph, x: str, C: Array) -> str:
    """``|x - c|`` of every input: (n, m, d)."""
    return g("Abs", g("Sub", g("Unsqueeze", x, AXES), C[None]))


def _filled(g: Graph, x: str, columns: int, value: float) -> str:
    """A constant array: (n, columns)."""
    rows = g("Slice", g("Shape", x), np.array([0]), np.array([1]))
    ones = g("Expand", np.ones((1, 1)), g("Concat", rows, np.array([columns]), axis=0))
    return g("Mul", ones, float(value))


def _circle(g: Graph, x: str, period: float) -> str:
    turns = g("Div", x, float(period))
    angle = g("Mul", g("Sub", turns, g("Floor", turns)), 2.0 * math.pi)
    return g("Concat", g("Cos", angle), g("Sin", angle), axis=1)


def _circles(C: Array, period: float) -> Array:
    angle = (C / period - np.floor(C / period)) * (2.0 * math.pi)
    return np.hstack([np.cos(angle), np.sin(angle)])
