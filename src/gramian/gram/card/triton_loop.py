"""Triton source for ``K(X, Y) @ V``: one loop over tiles around the lines of a kernel tree.

Each program has BM rows, goes through one span of the columns and writes its own part of the sums, so that the result
does not depend on who comes first. Nothing here imports torch or Triton.
"""

from __future__ import annotations

from dataclasses import dataclass

from gramian.gram.card.triton_source import Expression, Pair

UNROLLED = 16
"""Inputs up to which a loop over them is written out, and the rows are read once."""
WHOLE = 128
"""Depth of a split layout up to which the rows of a tile are read once."""


def source(to: Expression, depths: list[int], columns: int, same: bool) -> str:
    """Return the fused product of a tree with one or more columns; ``same`` where rows may meet themselves."""
    real = "tl.float64" if to.double else "tl.float32"
    sums = Sums(columns, real, together=columns > 1 and not to.double, deep=any(depth > WHOLE for depth in depths))
    lines = [*_head(to), *sums.begun()]
    for q, (pair, depth) in enumerate(zip(to.pairs, depths, strict=True)):
        lines += _before(pair, q, depth)
    lines += [
        "    for left in range(part * span, tl.minimum(m, part * span + span), BN):",
        "        j = left + tl.arange(0, BN)",
        "        far = j.to(tl.int64)",
        *(f"        b{q} = tl.load(B{q} + j)" for q in range(len(to.scales))),
    ]
    for q, (pair, depth) in enumerate(zip(to.pairs, depths, strict=True)):
        lines += _inside(pair, q, depth, real)
    lines += [f"        {line}" for line in to.lines]
    lines.append(f"        value = tl.zeros([BM, BN], {real}) + {to.value}")
    if same:  # k(x, x) is added outside, to all its digits
        lines += [
            "        if (left < top + shift + BM) & (left + BN > top + shift):",
            "            value = tl.where((i[:, None] + shift) == j[None, :], 0.0, value)",
        ]
    return "\n".join([*lines, *sums.added(), *sums.stored()]) + "\n"


def _head(to: Expression) -> list[str]:
    """The signature, and what is read once: places, parameters, numbers per row."""
    arguments = [f"L{q}, R{q}" for q in range(len(to.pairs))] + [f"A{q}, B{q}" for q in range(len(to.scales))]
    head = ", ".join(["O", "V", "P", *arguments, "n", "m", "first", "height", "span", "shift"])
    return [
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
        *(f"    p{q} = tl.load(P + {q})" for q in range(len(to.numbers))),
        *(f"    a{q} = tl.load(A{q} + i)" for q in range(len(to.scales))),
    ]


@dataclass(frozen=True)
class Sums:
    """How the sums over columns are kept: for one column of V, for several by a product of matrices, or one by one."""

    columns: int
    real: str
    together: bool  # By a product of matrices
    deep: bool  # Whether a sum over a tile's columns costs little beside the products that make it

    def begun(self) -> list[str]:
        """Before the loop."""
        if self.columns == 1:
            return [f"    total = tl.zeros([{'BM' if self.deep else 'BM, BN'}], {self.real})"]
        if self.together:
            sums = f"    total = tl.zeros([BM, {self.columns}], {self.real})"
            return [f"    r = tl.arange(0, {self.columns})", sums]
        return [f"    total{r} = tl.zeros([BM], {self.real})" for r in range(self.columns)]

    def added(self) -> list[str]:
        """Inside the loop, with the tile in ``value``."""
        if self.columns == 1:
            product = "value * v[None, :]"
            product = f"tl.sum({product}, axis=1)" if self.deep else product
            return ["        v = tl.load(V + j)", f"        total += {product}"]
        if self.together:
            return [
                f"        v = tl.load(V + far[:, None] * {self.columns} + r[None, :])",
                '        total = tl.dot(value, v, total, input_precision="tf32x3")',
            ]
        each = [
            (f"v{r} = tl.load(V + far * {self.columns} + {r})", f"total{r} += tl.sum(value * v{r}[None, :], axis=1)")
            for r in range(self.columns)
        ]
        return [f"        {line}" for lines in each for line in lines]

    def stored(self) -> list[str]:
        """After the loop."""
        row = f"O + (part.to(tl.int64) * height + wide - first) * {self.columns}"
        if self.columns == 1:
            return [f"    tl.store({row}, {'total' if self.deep else 'tl.sum(total, axis=1)'})"]
        if self.together:
            return [f"    tl.store(({row})[:, None] + r[None, :], total)"]
        return [f"    tl.store({row} + {r}, total{r})" for r in range(self.columns)]


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
