"""A kernel tree as lines of Triton, around which ``triton_loop`` writes the loop of ``K(X, Y) @ V``.

A tree is a function of a few *pairs* (a squared distance, a sum of powers of differences or an inner product of row i
and column j; one for each distinct metric), of numbers per row, and of parameters, which are arguments: the source
is the same for every lengthscale. Nothing here imports torch or Triton.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gramian import kernels
from gramian.kernels import Kernel
from gramian.kernels.maps import NormalizedExp
from gramian.kernels.points import Points
from gramian.kernels.radial import RBF_NU

LOG2_E = math.log2(math.e)
PRECISE_ALPHA = 4.0
"""Above this exponent, rounding of 1 + s/(2α) would show in its power."""


@dataclass(eq=False)
class Pair:
    """One number for every row and column: its kind, its rows, and how it is computed."""

    kind: str  # "distance" (squared), "inner", or "power p" (of the differences)
    key: Any  # Equal keys are the same metric
    left: Any  # The prepared rows, and the columns
    right: Any
    lengthscale: float = 1.0  # That of its first user, where there is one for all inputs
    smooth: bool = True  # Whether every user is smooth at distance zero
    stretch: float = 1.0  # The largest factor that a user multiplies it by
    split: bool = False  # By one tf32 matrix product, which returns -log₂(e)/2 times a distance, or the inner product


@dataclass(eq=False)
class Expression:
    """A kernel tree as lines of Triton, in single or in double precision."""

    double: bool
    pairs: list[Pair] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    scales: list[tuple[Any, Any]] = field(default_factory=list)  # Numbers per row and per column
    lines: list[str] = field(default_factory=list)
    value: str = ""  # The name of the kernel's value

    def number(self, value: float) -> str:
        """Name a parameter."""
        self.numbers.append(float(value))
        return f"p{len(self.numbers) - 1}"

    def let(self, value: str) -> str:
        """Name a value."""
        name = f"k{len(self.lines)}"
        self.lines.append(f"{name} = {value}")
        return name

    def exp(self, value: str) -> str:
        """The exponential of an expression."""
        return self.let(f"tl.exp({value})" if self.double else f"tl.exp2(({value}) * {LOG2_E!r})")

    def power(self, value: str, exponent: float) -> str:
        """A power of an expression that is not negative."""
        log, exp = ("tl.log", "tl.exp") if self.double else ("tl.log2", "tl.exp2")
        return self.let(f"{exp}({log}({value}) * {self.number(exponent)})")

    def pair(self, kind: str, key: Any, A: Points, B: Points, *, lengthscale: Any = 1.0, smooth: bool = True) -> Any:
        """Return the place of a metric in ``pairs``, and the factor of its squared distance."""
        one = not isinstance(lengthscale, tuple)
        key = (kind, *key, None if one else lengthscale)
        known = [pair.key for pair in self.pairs]
        if key not in known:
            self.pairs.append(Pair(kind, key, A.parts[0], B.parts[0], lengthscale if one else 1.0))
        place = known.index(key) if key in known else len(known)
        pair = self.pairs[place]
        stretch = (pair.lengthscale / lengthscale) ** 2 if one else 1.0
        pair.smooth, pair.stretch = pair.smooth and smooth, max(pair.stretch, stretch)
        return place, stretch

    def times_squared(self, found: Any, factor: float) -> str:
        """A number times a squared distance."""
        place, stretch = found
        if self.pairs[place].split:
            factor *= -2.0 / LOG2_E
        factor *= stretch
        return f"t{place}" if factor == 1.0 else f"t{place} * {self.number(factor)}"


def expression(kernel: Kernel, A: Points, B: Points, double: bool, split: Callable[[Pair], bool]) -> Expression:
    """Write a kernel tree; ``split`` says for which pairs a matrix product is accurate enough."""
    draft = Expression(double)
    _write(kernel, A, B, (), draft)
    for pair in draft.pairs:
        pair.split = split(pair)
    final = Expression(double, draft.pairs)
    final.value = _write(kernel, A, B, (), final)
    return final


def _write(kernel: Kernel, A: Points, B: Points, path: tuple[Any, ...], to: Expression) -> str:
    write = WRITERS.get(type(kernel))
    if write is None:
        raise TypeError(ungenerated(kernel))
    return write(kernel, A, B, path, to)


def ungenerated(kernel: Kernel) -> str:
    """The error message for a kernel without GPU code."""
    return f"there is no GPU code for {kernel.name}; use device=None, or device='auto', which takes the CPU for it."


def generated(kernel: Kernel) -> bool:
    """Whether source can be written for every part of a kernel."""
    if isinstance(kernel, kernels.Matern) and not (kernel.nu in HALVES or kernel.nu > RBF_NU):
        return False
    return type(kernel) in WRITERS and all(map(generated, kernel.children))


# ---- functions of a distance ------------------------------------------------------------------------------------


def _gaussian(found: Any, to: Expression) -> str:
    place, stretch = found
    if to.double:
        return to.let(f"tl.exp({to.times_squared(found, -0.5)})")
    if to.pairs[place].split and stretch == 1.0:
        return to.let(f"tl.exp2(t{place})")
    return to.let(f"tl.exp2({to.times_squared(found, -0.5 * LOG2_E)})")


def _rbf(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> str:
    return _gaussian(to.pair("distance", path, A, B, lengthscale=kernel.lengthscale), to)


def _periodic(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> str:
    key = (*path, "circle", kernel.period, kernel.lengthscale)
    return _gaussian(to.pair("distance", key, A, B), to)


HALVES = (0.5, 1.5, 2.5)


def _matern(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> str:
    if kernel.nu <= RBF_NU and kernel.nu not in HALVES:
        raise TypeError(ungenerated(kernel))
    found = to.pair("distance", path, A, B, lengthscale=kernel.lengthscale, smooth=kernel.smooth)
    if kernel.nu > RBF_NU:
        return _gaussian(found, to)
    u = to.let(f"tl.sqrt(tl.maximum({to.times_squared(found, 2.0 * kernel.nu)}, 0.0))")
    e = to.exp(f"-{u}")
    if kernel.nu == 0.5:
        return e
    if kernel.nu == 1.5:
        return to.let(f"{e} + {u} * {e}")
    return to.let(f"(1.0 + {u} * (1.0 + {u} * {to.number(1.0 / 3.0)})) * {e}")


def _rational_quadratic(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> str:
    found = to.pair("distance", path, A, B, lengthscale=kernel.lengthscale)
    x = to.let(f"tl.maximum({to.times_squared(found, 0.5 / kernel.alpha)}, 0.0)")
    y = to.let(f"1.0 + {x}")
    if not to.double and kernel.alpha <= PRECISE_ALPHA:
        return to.let(f"tl.exp2(tl.log2({y}) * {to.number(-kernel.alpha)})")
    # Kahan's log(1 + x): the rounding of 1 + x is divided out again.
    log = to.let(f"tl.where({y} == 1.0, {x}, tl.log({y}) * {x} / tl.where({y} == 1.0, 1.0, {y} - 1.0))")
    return to.exp(f"{log} * {to.number(-kernel.alpha)}")


def _power_distance(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> str:
    """exp(-S^(q/p)), S = Σ |x - z|^p: Laplace, where p = q = 1, and PowerExponential."""
    p, q = kernel.p, kernel.q
    place, _ = to.pair(f"power {p!r}", (*path, kernel.lengthscale), A, B, smooth=False)
    S = f"t{place}"
    if 2.0 * q == p:
        S = to.let(f"tl.sqrt({S})")
    elif q != p:
        S = to.power(S, q / p)
    return to.exp(f"-{S}")


# ---- functions of an inner product ------------------------------------------------------------------------------


def _linear(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> str:
    return f"t{to.pair('inner', path, A, B)[0]}"


def _polynomial(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> str:
    base = to.let(f"{_linear(kernel, A, B, path, to)} * {to.number(kernel.scale)} + {to.number(kernel.offset)}")
    return _natural_power(base, kernel.degree, to)


def _natural_power(base: str, exponent: int, to: Expression) -> str:
    """By squaring."""
    if exponent == 1:
        return base
    half = _natural_power(base, exponent // 2, to)
    square = to.let(f"{half} * {half}")
    return to.let(f"{square} * {base}") if exponent % 2 else square


# ---- functions of other kernels ---------------------------------------------------------------------------------


def _compound(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> str:
    """A function of the operands' values, from ``COMPOUNDS``; a map before the operand makes another metric."""
    mapped = [getattr(kernel, name) for name in ("phi", "L") if hasattr(kernel, name)]
    each = zip(kernel.children, A.children, B.children, strict=True)
    inside = [_write(*operand, (*path, *mapped), to) for operand in each]
    if A.parts and not mapped:  # numbers per row
        inside += [f"a{len(to.scales)}[:, None]", f"b{len(to.scales)}[None, :]"]
        to.scales.append((A.parts[0], B.parts[0]))
    return COMPOUNDS[type(kernel)](kernel, to, *inside)


def _polynomial_of(kernel: Any, to: Expression, inside: str) -> str:
    *lower, total = map(to.number, kernel.coefficients)
    for c in reversed(lower):
        total = to.let(f"{total} * {inside} + {c}")
    return total


COMPOUNDS: dict[type[Kernel], Callable[..., str]] = {
    kernels.Sum: lambda kernel, to, a, b: to.let(f"{a} + {b}"),
    kernels.Product: lambda kernel, to, a, b: to.let(f"{a} * {b}"),
    kernels.Scaled: lambda kernel, to, k: to.let(f"{k} * {to.number(kernel.factor)}"),
    kernels.Power: lambda kernel, to, k: _natural_power(k, kernel.exponent, to),
    kernels.Exp: lambda kernel, to, k: to.exp(k),
    kernels.PolynomialOf: _polynomial_of,
    kernels.Normalized: lambda kernel, to, k, a, b: to.let(f"{k} * {a} * {b}"),
    NormalizedExp: lambda kernel, to, k, a, b: to.exp(f"{k} - {a} - {b}"),
    kernels.Composed: lambda kernel, to, k: k,
    kernels.Metric: lambda kernel, to, k: k,
}
"""Functions of the operands' values."""
WRITERS: dict[type[Kernel], Callable[..., str]] = {
    kernels.RBF: _rbf,
    kernels.Matern: _matern,
    kernels.RationalQuadratic: _rational_quadratic,
    kernels.Periodic: _periodic,
    kernels.Laplace: _power_distance,
    kernels.PowerExponential: _power_distance,
    kernels.Linear: _linear,
    kernels.Polynomial: _polynomial,
    kernels.Constant: lambda kernel, A, B, path, to: to.number(kernel.value),
    kernels.White: lambda kernel, A, B, path, to: to.number(0.0),  # the diagonal is added outside
    **dict.fromkeys(COMPOUNDS, _compound),
}
"""The writer of each kernel; those of ``COMPOUNDS`` are written by their operands."""
