"""Products ``K(X, Y) @ V`` by a generated Triton kernel: rows are laid out once, columns go by spans.

Single precision by *split* rows: x = x_h + x_l, each a tf32 number, laid out as ``[x_h, x_l, x_h, ...]`` against
``[c_h, c_h, c_l, ...]``, with half the squared norms, split in three, behind them. One tf32 product of matrices then
returns -‖x-c‖²/2 to the last digits of float32, with nothing left to add.
"""

from __future__ import annotations

import linecache
from functools import cache
from typing import Any

import numpy as np
import torch
import triton

from gramian.gram.gpu.cuda import current
from gramian.gram.gpu.triton_loop import COLUMNS, ROWS, WHOLE, Side, source, symmetric_source
from gramian.gram.gpu.triton_source import LOG2_E, Pair, expression
from gramian.kernels import Kernel
from gramian.kernels.distances import EPS, LOSS, Differences
from gramian.kernels.points import Points, same_pairs

EDGE = 256
"""Rows and columns are padded to a multiple of this; no tile is longer or wider."""
SPAN = 32_768
"""Columns that are summed in the kernel's precision; sums over spans are float64."""
LEAST_SPAN = 1024
PROGRAMS, HEIGHT = 1024, 128
"""Programs that keep a card busy, and rows of most: where rows are few, spans are shorter."""
CELLS = 10**11
"""Cells of a launch: Ctrl-C is answered between launches, a fraction of a second each."""
ACROSS = 2**30
"""Bytes for the second sums of the tiles of a symmetric K; fixed, so that sums are the same on any card."""
LINES = 16
"""How many of these are added in the precision of the kernel."""
GROUP = {False: 32, True: 4}
"""Columns of V that a launch multiplies, in single and in double precision."""
SLICE = 32
"""Depth of the slices of a split layout that is deeper than ``WHOLE``."""


class Fused:
    """The fused product of one kernel with one pair of row sets, in one precision."""

    def __init__(self, kernel: Kernel, A: Points, B: Points, double: bool, device: torch.device) -> None:
        self.n, self.m, self.double, self.device = len(A), len(B), double, device
        self.dtype = torch.float64 if double else torch.float32
        self.to = expression(kernel, A, B, double, lambda pair: not double and _splits(pair))
        self.rows, self.columns = _padded(self.n, EDGE), _padded(self.m, EDGE)
        pairs = same_pairs(A, B)  # all rows of one set, or none in common
        self.same = None if pairs is None else tuple(torch.as_tensor(side, device=device) for side in pairs)
        self.shift = 0 if pairs is None else int(pairs[1][0] - pairs[0][0])
        self.symmetric = pairs is not None and self.n == self.m == len(pairs[0]) and np.array_equal(*pairs)
        self.diagonal = kernel.diagonal(A)
        sides = [_layout(pair, self.rows, self.columns, self.dtype) for pair in self.to.pairs]
        self.depths = [depth for _, _, depth in sides]
        self.operands = [part for left, right, _ in sides for part in (left, right)]
        for a, b in self.to.scales:
            self.operands += [_beside(a, self.rows, self.dtype), _beside(b, self.columns, self.dtype)]
        self.numbers = torch.tensor([*self.to.numbers, 0.0], dtype=self.dtype, device=device)

    def __matmul__(self, V: torch.Tensor) -> torch.Tensor:
        """Return ``K @ V`` in float64: V (m, k) → (n, k)."""
        with current(self.device):
            out = torch.cat([self._group(part) for part in V.split(GROUP[self.double], dim=1)], dim=1)
        if self.same is not None:
            rows, columns = self.same
            out[rows] += self.diagonal[rows, None] * V[columns].to(torch.float64)
        return out

    def _group(self, V: torch.Tensor) -> torch.Tensor:
        k = V.shape[1]
        width = 1 if k == 1 else max(triton.next_power_of_2(k), 1 if self.double else 16)
        padded = torch.zeros((self.columns, width), dtype=self.dtype, device=self.device)
        padded[: self.m, :k] = V
        if self.symmetric and width == 1:
            return self._half(padded)
        program = compiled(source(self.to, self.depths, width, self.same is not None))
        tile, span = self._tile(width), _span(self.rows, self.columns)
        parts = -(-self.columns // span)
        out = torch.empty((self.rows, k), dtype=torch.float64, device=self.device)
        for first in range(0, self.rows, step := max(CELLS // self.columns // EDGE, 1) * EDGE):
            height = min(step, self.rows - first)
            sums = torch.empty((parts, height, width), dtype=self.dtype, device=self.device)
            sizes = (self.rows, self.columns, first, height, span, self.shift)
            program[(height // tile["BM"], parts)](sums, padded, self.numbers, *self.operands, *sizes, **tile)
            out[first : first + height] = sums[:, :, :k].sum(dim=0, dtype=torch.float64)
            self._pause(height)
        return out[: self.n]

    def _half(self, v: torch.Tensor) -> torch.Tensor:
        """The product from the tiles on one side of the diagonal, each used twice: v (columns, 1) → (n, 1)."""
        held, tile = self._symmetric_tile()
        program = compiled(symmetric_source(self.to, self.depths, held))
        edge, span = tile[held.edge], _span(self.rows // 2, self.rows)
        parts = -(-self.rows // span)
        out = torch.zeros(self.rows, dtype=torch.float64, device=self.device)
        cells = min(CELLS, ACROSS // self.dtype.itemsize * edge)
        first = 0
        while first < self.rows:
            left = self.rows - first
            width = min(max(cells // left // EDGE, 1) * EDGE, left)
            sums = torch.empty((parts, width), dtype=self.dtype, device=self.device)
            across = torch.empty((width // edge, left), dtype=self.dtype, device=self.device)
            across[:, :width] = 0.0  # half of these tiles are not made
            sizes = (self.rows, self.columns, first, width, span, self.shift)
            program[(width // edge, parts)](sums, across, v, self.numbers, *self.operands, *sizes, **tile)
            out[first : first + width] += sums.sum(dim=0, dtype=torch.float64)
            for few in across.split(LINES):  # all at once in float64, torch would make a copy of them
                out[first:] += few.sum(dim=0)
            self._pause(width)
            first += width
        return out[: self.n, None]

    def _symmetric_tile(self) -> tuple[Side, dict[str, int]]:
        """The side that a program holds, and the shape of its tile, as measured to be faster."""
        if not all(pair.split for pair in self.to.pairs) or any(depth > WHOLE for depth in self.depths):
            return ROWS, self._tile(1)
        BM, BN = (64, 128) if max(self.depths, default=0) < WHOLE else (128, 64)
        return COLUMNS, {"BM": BM, "BN": BN, "BK": SLICE, "num_warps": 4}

    def _pause(self, height: int) -> None:
        """Wait for a launch that is not the only one, so that Ctrl-C is answered."""
        if height < self.rows and self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _tile(self, width: int) -> dict[str, int]:
        """The shape of a tile and its warps; not tuned at run time, as that would change the order of sums."""
        if self.double:
            return {"BM": 32, "BN": 32, "BK": SLICE, "num_warps": 4}
        if any(depth > WHOLE for depth in self.depths):
            return {"BM": 128, "BN": 256 if width == 1 else 128, "BK": SLICE, "num_warps": 8}
        if not all(pair.split for pair in self.to.pairs):
            return {"BM": 64, "BN": 32, "BK": SLICE, "num_warps": 4}
        if width > 1:
            return {"BM": 128, "BN": 64, "BK": SLICE, "num_warps": 8}
        return {"BM": 128, "BN": 32, "BK": SLICE, "num_warps": 4}


def _splits(pair: Pair) -> bool:
    """Whether a matrix product of split rows is accurate enough for the kernels of a pair."""
    if pair.kind != "distance":
        return pair.kind == "inner"
    spread = max(float((side**2).sum(dim=1).max()) for side in _coordinates(pair))
    return pair.smooth and EPS["float32"] * spread * pair.stretch <= LOSS["smooth"]["float32"]


def _coordinates(pair: Pair) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of both sides, in lengthscales; those whose differences are taken, from one centre."""
    if pair.kind == "inner":
        return pair.left, pair.right
    left, right = pair.left.coordinates, pair.right.coordinates
    if not isinstance(pair.left, Differences):
        return left, right
    centre, factor = right.mean(dim=0), torch.as_tensor(pair.left.factor, device=left.device)
    return (left - centre) * factor, (right - centre) * factor


def _layout(pair: Pair, n: int, m: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Both sides as the generated loop reads them, padded by zeros to n and m rows, and their depth."""
    left, right = _coordinates(pair)
    if not pair.split:
        return _beside(left.T, n, dtype), _beside(right.T, m, dtype), int(left.shape[1])
    distance = pair.kind == "distance"
    sides = _split(left, distance, first=True), _split(right, distance, first=False)
    depth = sides[0].shape[1]
    depth = max(triton.next_power_of_2(depth), 16) if depth <= WHOLE else _padded(depth, SLICE)
    laid = [torch.zeros((size, depth), dtype=dtype, device=left.device) for size in (n, m)]
    for room, side in zip(laid, sides, strict=True):
        room[: side.shape[0], : side.shape[1]] = side
    return laid[0], laid[1], depth


def _split(z: torch.Tensor, distance: bool, *, first: bool) -> torch.Tensor:
    """``[h, l, h, q₁, q₂, q₃, 1, 1, 1]`` on the left, ``[h, h, l, 1, 1, 1, q₁, q₂, q₃]`` on the right."""
    z = z * LOG2_E**0.5 if distance else z
    high = tf32(z)
    low = tf32(z - high)
    parts = [high, low, high] if first else [high, high, low]
    if distance:
        rest, norms = -0.5 * (z**2).sum(dim=1, keepdim=True), []
        for _ in range(3):
            norms.append(tf32(rest))
            rest = rest - norms[-1]
        ones = [torch.ones_like(part) for part in norms]
        parts += [*norms, *ones] if first else [*ones, *norms]
    return torch.cat(parts, dim=1)


def tf32(x: torch.Tensor) -> torch.Tensor:
    """Round to the 11 bits of tf32, as float32."""
    bits = x.to(torch.float32).view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def _beside(part: torch.Tensor, size: int, dtype: torch.dtype) -> torch.Tensor:
    """An array padded by zeros along its last axis."""
    room = torch.zeros((*part.shape[:-1], size), dtype=dtype, device=part.device)
    room[..., : part.shape[-1]] = part
    return room


def _padded(size: int, to: int) -> int:
    return -(-size // to) * to


def _span(rows: int, columns: int) -> int:
    """Columns of one program; the same on every card."""
    parts = max(-(-PROGRAMS * HEIGHT // rows), 1)
    return min(SPAN, max(_padded(-(-columns // parts), EDGE), LEAST_SPAN))


@cache
def compiled(text: str) -> Any:
    """Return the function of a source; Triton compiles it at its first launch and keeps it on disk by its text."""
    name = f"<gramian product {hash(text):x}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "gramian_product"}
    exec(compile(text, name, "exec"), scope)
    return scope["product"]
