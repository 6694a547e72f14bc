"""Triton source for ``K(X, Y) @ V``, written from a kernel tree: every sum and product of kernels is one fused loop.

A tree is a function of a few *pairs* (a squared distance, a sum of powers of differences or an inner product of row i
and column j; one for each distinct metric), of numbers per row, and of parameters, which are arguments: another
lengthscale needs no other source. Nothing here imports torch or Triton.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gramian.kernels import (
    RBF,
    Composed,
    Constant,
    Exp,
    Kernel,
    Laplace,
    Linear,
    Matern,
    Metric,
    Normalized,
    Periodic,
    Polynomial,
    PolynomialOf,
    Power,
    PowerExponential,
    Product,
    RationalQuadratic,
    Scaled,
    Sum,
    White,
)
from gramian.kernels.maps import NormalizedExp
from gramian.kernels.points import Points
from gramian.kernels.radial import RBF_NU

LOG2_E = math.log2(math.e)
UNROLLED = 16
"""Inputs up to which a loop over them is written out, and the rows are read once."""
PRECISE_ALPHA = 4.0
"""Above this exponent, 1 + s/(2α) would lose digits of s that the power brings back."""


@dataclass(eq=False)
class Pair:
    """One number for every row and column: which, of what rows, and how it is to be computed."""

    kind: str  # "distance" (squared), "inner", or "power p" (of the differences)
    key: Any  # Equal keys are the same metric
    left: Any  # The prepared rows, and the columns
    right: Any
    lengthscale: float = 1.0  # That of its first user, where there is one for all inputs
    smooth: bool = True  # Whether every user is smooth at distance zero
    stretch: float = 1.0  # The most that a user multiplies it by
    split: bool = False  # One product of tf32 matrices that returns -log₂(e)/2 times it (an inner product: it itself)


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
        """Return a metric's place and by how much its squared distance is to be multiplied."""
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
    """Write a kernel tree; ``split`` says of which pairs a product of matrices is accurate enough."""
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
    """What is said of a kernel that no source is written for."""
    return f"there is no GPU code for {kernel.name}; use device=None, or device='auto', which takes the CPU for it."


def generated(kernel: Kernel) -> bool:
    """Whether source can be written for every part of a kernel."""
    known = type(kernel) in WRITERS and (not isinstance(kernel, Matern) or kernel.nu in HALVES or kernel.nu > RBF_NU)
    return known and all(map(generated, kernel.children))


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
    # Kahan's log(1 + x): what rounding did to 1 + x is divided out again.
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


def _inner(A: Points, B: Points, path: Any, to: Expression) -> str:
    return f"t{to.pair('inner', path, A, B)[0]}"


def _linear(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> str:
    return _inner(A, B, path, to)


def _polynomial(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> str:
    base = to.let(f"{_inner(A, B, path, to)} * {to.number(kernel.scale)} + {to.number(kernel.offset)}")
    return _natural_power(base, kernel.degree, to)


def _natural_power(base: str, exponent: int, to: Expression) -> str:
    """By squaring."""
    if exponent == 1:
        return base
    half = _natural_power(base, exponent // 2, to)
    square = to.let(f"{half} * {half}")
    return to.let(f"{square} * {base}") if exponent % 2 else square


# ---- constants --------------------------------------------------------------------------------------------------


def _constant(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> str:
    return to.number(kernel.value)


def _white(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> str:
    return to.number(0.0)  # where a row meets itself, the diagonal is added outside


# ---- functions of other kernels ---------------------------------------------------------------------------------


def _operands(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> list[str]:
    return [_write(*each, path, to) for each in zip(kernel.children, A.children, B.children, strict=True)]


def _sum(kernel: Any, *rest: Any) -> str:
    return rest[-1].let("{} + {}".format(*_operands(kernel, *rest)))


def _product(kernel: Any, *rest: Any) -> str:
    return rest[-1].let("{} * {}".format(*_operands(kernel, *rest)))


def _scaled(kernel: Any, *rest: Any) -> str:
    (inside,), to = _operands(kernel, *rest), rest[-1]
    return to.let(f"{inside} * {to.number(kernel.factor)}")


def _power(kernel: Any, *rest: Any) -> str:
    (inside,) = _operands(kernel, *rest)
    return _natural_power(inside, kernel.exponent, rest[-1])


def _exp(kernel: Any, *rest: Any) -> str:
    (inside,) = _operands(kernel, *rest)
    return rest[-1].exp(inside)


def _polynomial_of(kernel: Any, *rest: Any) -> str:
    (inside,), to = _operands(kernel, *rest), rest[-1]
    *lower, total = map(to.number, kernel.coefficients)
    for c in reversed(lower):
        total = to.let(f"{total} * {inside} + {c}")
    return total


def _row_scale(A: Points, B: Points, to: Expression) -> tuple[str, str]:
    to.scales.append((A.parts[0], B.parts[0]))
    place = len(to.scales) - 1
    return f"a{place}[:, None]", f"b{place}[None, :]"


def _normalized(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> str:
    (inside,) = _operands(kernel, A, B, path, to)
    a, b = _row_scale(A, B, to)
    return to.let(f"{inside} * {a} * {b}")


def _normalized_exp(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> str:
    (inside,) = _operands(kernel, A, B, path, to)
    a, b = _row_scale(A, B, to)
    return to.exp(f"{inside} - {a} - {b}")


def _composed(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> str:
    (inside,) = _operands(kernel, A, B, (*path, kernel.phi), to)
    return inside


def _metric(kernel: Any, A: Points, B: Points, path: Any, to: Expression) -> str:
    (inside,) = _operands(kernel, A, B, (*path, kernel.L), to)
    return inside


WRITERS: dict[type[Kernel], Callable[..., str]] = {
    RBF: _rbf,
    Matern: _matern,
    RationalQuadratic: _rational_quadratic,
    Periodic: _periodic,
    Laplace: _power_distance,
    PowerExponential: _power_distance,
    Linear: _linear,
    Polynomial: _polynomial,
    Constant: _constant,
    White: _white,
    Sum: _sum,
    Product: _product,
    Scaled: _scaled,
    Power: _power,
    Exp: _exp,
    PolynomialOf: _polynomial_of,
    Normalized: _normalized,
    NormalizedExp: _normalized_exp,
    Composed: _composed,
    Metric: _metric,
}


# ---- the loop ---------------------------------------------------------------------------------------------------


def _term(pair: Pair, x: str, c: str, double: bool) -> str:
    """What one input adds to a pair."""
    if pair.kind == "inner":
        return f"{x} * {c}"
    difference = f"({x} - {c})"
    if pair.kind in ("distance", "power 2.0"):
        return f"{difference} * {difference}"
    size, p = f"tl.abs({difference})", pair.kind.removeprefix("power ")
    if p == "1.0":
        return size
    if p == "0.5":
        return f"tl.sqrt({size})"
    if p == "1.5":
        return f"{size} * tl.sqrt({size})"
    return f"tl.exp(tl.log({size}) * {p})" if double else f"tl.exp2(tl.log2({size}) * {p})"


def source(to: Expression, depths: list[int], columns: int, same: bool) -> str:
    """Return the fused product of a tree with one or more columns; ``same`` where rows may meet themselves.

    Each program has BM rows, goes through one span of the columns and writes its own part of the sums, so that the
    result does not depend on who comes first.
    """
    real = "tl.float64" if to.double else "tl.float32"
    places = range(len(to.pairs))
    arguments = [f"L{q}, R{q}" for q in places] + [f"A{q}, B{q}" for q in range(len(to.scales))]
    head = ", ".join(["O", "V", "P", *arguments, "n", "m", "first", "height", "span", "shift"])
    lines = [
        "import triton",
        "import triton.language as tl",
        "",
        "",
        "@triton.jit",
        f"def product({head}, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):",
        "    top = first + tl.program_id(0) * BM",
        "    part = tl.program_id(1)",
        "    i = top + tl.arange(0, BM)",
        "    wide = i.to(tl.int64)",
    ]
    lines += [f"    p{q} = tl.load(P + {q})" for q in range(len(to.numbers))]
    lines += [f"    a{q} = tl.load(A{q} + i)" for q in range(len(to.scales))]
    for q in places:
        lines += _before(to.pairs[q], q, depths[q])
    flat = columns == 1
    deep = any(depth > WHOLE for depth in depths)  # then a sum over columns costs little beside the products
    together = columns > 1 and not to.double
    if flat:
        lines.append(f"    total = tl.zeros([{'BM' if deep else 'BM, BN'}], {real})")
    elif together:
        lines += [f"    r = tl.arange(0, {columns})", f"    total = tl.zeros([BM, {columns}], {real})"]
    else:
        lines += [f"    total{r} = tl.zeros([BM], {real})" for r in range(columns)]
    lines += [
        "    for left in range(part * span, tl.minimum(m, part * span + span), BN):",
        "        j = left + tl.arange(0, BN)",
        "        far = j.to(tl.int64)",
    ]
    lines += [f"        b{q} = tl.load(B{q} + j)" for q in range(len(to.scales))]
    for q in places:
        lines += _inside(to.pairs[q], q, depths[q], real)
    lines += [f"        {line}" for line in to.lines]
    lines.append(f"        value = tl.zeros([BM, BN], {real}) + {to.value}")
    if same:  # k(x, x) is added outside, to all its digits
        lines += [
            "        if (left < top + shift + BM) & (left + BN > top + shift):",
            "            value = tl.where((i[:, None] + shift) == j[None, :], 0.0, value)",
        ]
    if flat:
        product = "value * v[None, :]"
        product = f"tl.sum({product}, axis=1)" if deep else product
        lines += ["        v = tl.load(V + j)", f"        total += {product}"]
    elif together:
        lines += [
            f"        v = tl.load(V + far[:, None] * {columns} + r[None, :])",
            '        total = tl.dot(value, v, total, input_precision="tf32x3")',
        ]
    else:
        for r in range(columns):
            lines += [
                f"        v{r} = tl.load(V + far * {columns} + {r})",
                f"        total{r} += tl.sum(value * v{r}[None, :], axis=1)",
            ]
    row = f"O + (part.to(tl.int64) * height + wide - first) * {columns}"
    if flat:
        lines.append(f"    tl.store({row}, {'total' if deep else 'tl.sum(total, axis=1)'})")
    elif together:
        lines.append(f"    tl.store(({row})[:, None] + r[None, :], total)")
    else:
        lines += [f"    tl.store({row} + {r}, total{r})" for r in range(columns)]
    return "\n".join(lines) + "\n"


WHOLE = 128
"""Depth of a split layout up to which the rows of a tile are read once."""


def _before(pair: Pair, q: int, depth: int) -> list[str]:
    """What is read of the rows before the columns are gone through."""
    if pair.split:
        if depth > WHOLE:
            return [f"    s{q} = tl.arange(0, BK)"]
        return [
            f"    s{q} = tl.arange(0, {depth})",
            f"    x{q} = tl.load(L{q} + wide[:, None] * {depth} + s{q}[None, :])",
        ]
    return [f"    x{q}_{k} = tl.load(L{q} + {k} * n + i)" for k in range(depth if depth <= UNROLLED else 0)]


def _inside(pair: Pair, q: int, depth: int, real: str) -> list[str]:
    """The pair of all rows and columns of a tile."""
    if pair.split and depth <= WHOLE:
        return [
            f"        c{q} = tl.load(R{q} + far[:, None] * {depth} + s{q}[None, :])",
            f'        t{q} = tl.dot(x{q}, tl.trans(c{q}), input_precision="tf32")',
        ]
    lines = [f"        t{q} = tl.zeros([BM, BN], {real})"]
    if pair.split:
        return [
            *lines,
            f"        for k in range(0, {depth}, BK):",
            f"            x{q} = tl.load(L{q} + wide[:, None] * {depth} + (k + s{q})[None, :])",
            f"            c{q} = tl.load(R{q} + far[:, None] * {depth} + (k + s{q})[None, :])",
            f'            t{q} = tl.dot(x{q}, tl.trans(c{q}), t{q}, input_precision="tf32")',
        ]
    double = real == "tl.float64"
    if depth <= UNROLLED:
        for k in range(depth):
            lines.append(f"        c{q} = tl.load(R{q} + {k} * m + j)")
            lines.append(f"        t{q} += " + _term(pair, f"x{q}_{k}[:, None]", f"c{q}[None, :]", double))
        return lines
    return [
        *lines,
        f"        y{q}, z{q} = L{q} + wide, R{q} + far",
        f"        for _ in range(0, {depth}):",
        f"            x{q}, c{q} = tl.load(y{q}), tl.load(z{q})",
        f"            y{q} += n",
        f"            z{q} += m",
        f"            t{q} += " + _term(pair, f"x{q}[:, None]", f"c{q}[None, :]", double),
    ]
