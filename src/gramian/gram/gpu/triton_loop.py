"""Triton source for ``K(X, Y) @ V``: one loop over tiles around the lines of a kernel tree.

Each program holds BM rows, goes through one span of the columns and writes its own part of the sums, so that the
result does not depend on the order in which programs run. ``symmetric_source`` makes each tile of a symmetric K once
and uses it twice. Nothing here imports torch or Triton.
"""

from __future__ import annotations

from dataclasses import dataclass

from gramian.gram.gpu.triton_source import Expression, Pair

UNROLLED = 16
"""Up to this many inputs the loop over them is unrolled, and the rows are read once."""
WHOLE = 128
"""Up to this depth of a split layout the rows of a tile are read once."""


@dataclass(frozen=True)
class Side:
    """The names that one side of a tile has in the source."""

    operand: str  # Its rows in memory
    value: str  # Those of a tile
    scale: str  # Numbers per row, in memory
    index: str
    wide: str  # The index in 64 bits
    size: str
    edge: str  # Of a tile
    axis: int
    lift: str  # From a vector to a tile


ROWS = Side("L", "x", "A", "i", "wide", "n", "BM", 0, "[:, None]")
COLUMNS = Side("R", "c", "B", "j", "far", "m", "BN", 1, "[None, :]")


def source(to: Expression, depths: list[int], columns: int, same: bool) -> str:
    """Return the fused product of a tree with one or more columns; ``same`` where rows may meet themselves."""
    sums = TileSums(
        columns, _real(to), together=columns > 1 and not to.double, deep=any(depth > WHOLE for depth in depths)
    )
    lines = [
        *_head(to, "O", ROWS),
        *_held(to, depths, ROWS),
        *sums.begun(),
        "    for at in range(part * span, tl.minimum(m, part * span + span), BN):",
        *_tile(to, depths, COLUMNS),
    ]
    if same:  # k(x, x) is added outside, to all its digits
        lines += [
            "        if (at < start + shift + BM) & (at + BN > start + shift):",
            "            value = tl.where((i[:, None] + shift) == j[None, :], 0.0, value)",
        ]
    return "\n".join([*lines, *sums.added(), *sums.stored()]) + "\n"


def symmetric_source(to: Expression, depths: list[int], held: Side) -> str:
    """Return the product of a symmetric K with one column, from the tiles on one side of the diagonal.

    A program holds a block of one side, and goes through those of the other that come after it. Sums over the moving
    side stay in registers; those over the held side go to T, one line for each program's block.
    """
    moving = COLUMNS if held is ROWS else ROWS
    real, deep = _real(to), any(depth > WHOLE for depth in depths)
    product = f"value * u{moving.lift}"
    first = f"tl.maximum(part * span, start // {moving.edge} * {moving.edge})"
    return "\n".join(
        [
            *_head(to, "O, T", held),
            *_held(to, depths, held),
            f"    v = tl.load(V + {held.index})",
            f"    line = T + tl.program_id(0).to(tl.int64) * ({moving.size} - first) - first",
            f"    total = tl.zeros([{held.edge if deep else 'BM, BN'}], {real})",
            f"    for at in range({first}, tl.minimum({moving.size}, part * span + span), {moving.edge}):",
            *_tile(to, depths, moving),
            f"        if at < start + {held.edge}:",  # k(x, x) is added outside
            f"            after = {moving.index}{moving.lift} > {held.index}{held.lift}",
            "            value = tl.where(after, value, 0.0)",
            f"        u = tl.load(V + {moving.index})",
            f"        total += {f'tl.sum({product}, axis={moving.axis})' if deep else product}",
            f"        tl.store(line + {moving.wide}, tl.sum(value * v{held.lift}, axis={held.axis}))",
            f"    sums = {'total' if deep else f'tl.sum(total, axis={moving.axis})'}",
            f"    tl.store(O + part.to(tl.int64) * height + {held.wide} - first, sums)",
            "",
        ]
    )


def _real(to: Expression) -> str:
    return "tl.float64" if to.double else "tl.float32"


def _head(to: Expression, out: str, held: Side) -> list[str]:
    """The signature, the parameters, and where the program's block starts."""
    arguments = [f"L{q}, R{q}" for q in range(len(to.pairs))] + [f"A{q}, B{q}" for q in range(len(to.scales))]
    head = ", ".join([out, "V", "P", *arguments, "n", "m", "first", "height", "span", "shift"])
    return [
        "import triton",
        "import triton.language as tl",
        "",
        "",
        "@triton.jit",
        f"def product({head}, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):",
        f"    start = first + tl.program_id(0) * {held.edge}",
        "    part = tl.program_id(1)",
        *(f"    p{q} = tl.load(P + {q})" for q in range(len(to.numbers))),
    ]


def _rows(to: Expression, start: str, side: Side) -> list[str]:
    """The indices of a block, and the numbers per row."""
    return [
        f"{side.index} = {start} + tl.arange(0, {side.edge})",
        f"{side.wide} = {side.index}.to(tl.int64)",
        *(f"{side.scale.lower()}{q} = tl.load({side.scale}{q} + {side.index})" for q in range(len(to.scales))),
    ]


def _held(to: Expression, depths: list[int], side: Side) -> list[str]:
    """Lines before the loop that read the side that a program holds."""
    lines = [f"    {line}" for line in _rows(to, "start", side)]
    for q, (pair, depth) in enumerate(zip(to.pairs, depths, strict=True)):
        lines += _before(pair, q, depth, side)
    return lines


def _tile(to: Expression, depths: list[int], side: Side) -> list[str]:
    """One tile of K in ``value``, with what is read of the side that moves."""
    lines = [f"        {line}" for line in _rows(to, "at", side)]
    for q, (pair, depth) in enumerate(zip(to.pairs, depths, strict=True)):
        lines += _inside(pair, q, depth, _real(to), side)
    lines += [f"        {line}" for line in to.lines]
    return [*lines, f"        value = tl.zeros([BM, BN], {_real(to)}) + {to.value}"]


@dataclass(frozen=True)
class TileSums:
    """The sums over columns of K: for one column of V, for several by a matrix product, or one by one."""

    columns: int
    real: str
    together: bool  # By a matrix product
    deep: bool  # Whether summing a tile costs little beside making it

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


def _before(pair: Pair, q: int, depth: int, held: Side) -> list[str]:
    """Lines before the loop that read the side that stays."""
    x, operand = f"{held.value}{q}", f"{held.operand}{q}"
    if pair.split:
        if depth > WHOLE:
            return [f"    s{q} = tl.arange(0, BK)"]
        return [
            f"    s{q} = tl.arange(0, {depth})",
            f"    {x} = tl.load({operand} + {held.wide}[:, None] * {depth} + s{q}[None, :])",
        ]
    inputs = range(depth if depth <= UNROLLED else 0)
    return [f"    {x}_{k} = tl.load({operand} + {k} * {held.size} + {held.index})" for k in inputs]


def _inside(pair: Pair, q: int, depth: int, real: str, moving: Side) -> list[str]:
    """The values of a pair on a tile, with what is read of the side that the loop goes over."""
    z, operand = f"{moving.value}{q}", f"{moving.operand}{q}"
    if pair.split and depth <= WHOLE:
        return [
            f"        {z} = tl.load({operand} + {moving.wide}[:, None] * {depth} + s{q}[None, :])",
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
            lines.append(f"        {z}_{k} = tl.load({operand} + {k} * {moving.size} + {moving.index})")
            lines.append(f"        t{q} += " + _term(pair, f"x{q}_{k}[:, None]", f"c{q}_{k}[None, :]", double))
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
    """The term that one input adds to a pair."""
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
