"""The engine on a GPU: rows stay on the card; products are Triton kernels, tiles are made by torch."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gramian.gram.gpu import cuda
from gramian.gram.gpu.cuda import KINDS, moved, room
from gramian.gram.gpu.triton_source import generated, ungenerated
from gramian.gram.threads import DERIVATIVE_TILES, SPARE_TILES
from gramian.kernels import Kernel
from gramian.kernels.distances import EPS
from gramian.kernels.points import Points, is_sparse, to_numpy
from gramian.resources import readable

Array = NDArray[np.float64]

DEEPEST = 24
"""With more inputs, double precision is faster by matrix products than by a generated kernel."""
WIDEST = {False: 128, True: 16}
"""With more columns of V, K is made once by tiles instead of once per group of columns; in single and in double."""
FEW = 2**28
"""For fewer cells of K, torch's tiles take less time than compiling a kernel."""


@dataclass(frozen=True, eq=False)
class Card:
    """The engine of a ``Gram`` on a GPU; rows are held in float64, whatever their dtype was."""

    kernel: Kernel
    memory: int  # Bytes of K to hold at most
    workers: int
    name: str  # As in ``device=``
    device: torch.device
    _fused: dict[Any, Any] = field(default_factory=dict)  # Generated products, by their rows

    def __post_init__(self) -> None:
        if not generated(self.kernel):
            raise TypeError(ungenerated(self.kernel))

    @property
    def free(self) -> int:
        """Bytes that the card has left."""
        return cuda.free_memory(self.device)

    def prepare(self, X: Any, Y: Any) -> tuple[Points, Points, np.dtype[Any]]:
        """Return both sides of the matrix on the card, and the dtype of its entries."""
        if is_sparse(Y):
            raise TypeError("a GPU takes dense rows, got a sparse matrix; pass X.toarray(), or device=None.")
        sides = [np.asarray(Z) for Z in (X, Y) if Z is not None]
        single = all(side.dtype == np.float32 for side in sides)
        with room(self.device, f"X of {sides[0].shape[0]:,} rows"):
            tensors = [self._on_card(side) for side in sides]
            A, B = self.kernel.prepare(tensors[0], None if Y is None else tensors[1])
        return A, B, np.dtype(np.float32 if single else np.float64)

    def _on_card(self, values: NDArray[Any]) -> torch.Tensor:
        if values.dtype.kind not in "fiub":
            raise TypeError(f"a GPU takes rows of numbers, got dtype {values.dtype}; encode them, or use device=None.")
        # Converted on the card: float32 rows cross the bus as they are.
        return moved(values, self.device).to(torch.float64)

    def rounding(self, A: Points, dtype: np.dtype[Any]) -> float:
        """Return the rounding error of an entry, relative to the largest k(x, x)."""
        double = self.kernel.rounding(A)
        return double if dtype == np.float64 else min(double * EPS["float32"] / EPS["float64"], 1.0)

    def diagonal(self, A: Points, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return k(x, x): → (n,)."""
        return to_numpy(self.kernel.diagonal(A)).astype(dtype, copy=False)

    def tiles(self, A: Points, B: Points, tiles: int = 1) -> list[slice]:
        """Return panels of rows whose temporary tiles fit the free memory of the card."""
        row = 8 * (self.kernel.tile_buffers + SPARE_TILES) * tiles * max(len(B), 1)
        return cuda.panels(len(A), row, self.device)

    def fill(self, A: Points, B: Points, out: NDArray[Any]) -> NDArray[Any]:
        """Write K(A, B) by panels: out (n, m) → (n, m)."""
        with self._room(A, B):
            for rows in self.tiles(A, B):
                if len(B):  # converted on the card: float32 tiles cross the bus as they are
                    tile = self.kernel.tile(A[rows], B).to(KINDS[out.dtype.name])
                    if out.flags.c_contiguous:
                        torch.from_numpy(out[rows]).copy_(tile)
                    else:
                        out[rows] = to_numpy(tile)
        return out

    def product(self, A: Points, B: Points, V: NDArray[Any], flipped: bool) -> Array:
        """Return ``K(A, B) @ V``, or ``K(A, B).T @ V`` if flipped; in the precision of V."""
        with self._room(A, B):
            total = self.multiply(A, B, self._on_card(V), V.dtype == np.float64, flipped)
            return np.array(to_numpy(total))

    def multiply(self, A: Points, B: Points, V: torch.Tensor, double: bool, flipped: bool = False) -> torch.Tensor:
        """Return ``K @ V`` or, flipped, ``Kᵀ @ V``, on the card, by a generated kernel where that is faster."""
        narrow = V.shape[1] <= WIDEST[double] and not (double and self._inputs(A) > DEEPEST)
        if not narrow or len(A) * len(B) <= FEW or not self._runs_triton():
            return self.by_tiles(A, B, V, flipped)
        from gramian.gram.gpu.fused import Fused

        sides = (B, A) if flipped else (A, B)
        key = (*map(id, sides), double)
        if key not in self._fused:  # kept with the rows, so that their ids stay unique
            self._fused[key] = Fused(self.kernel, *sides, double, self.device), sides
        return self._fused[key][0] @ V

    def by_tiles(self, A: Points, B: Points, V: torch.Tensor, flipped: bool = False) -> torch.Tensor:
        """Return ``K @ V`` or, flipped, ``Kᵀ @ V``, on the card, by tiles of torch in float64."""
        V = V.to(torch.float64)
        if flipped:
            total = torch.zeros((len(B), V.shape[1]), dtype=V.dtype, device=V.device)
            for rows in self.tiles(A, B):
                total += self.kernel.tile(A[rows], B).T @ V[rows]
            return total
        return torch.cat([self.kernel.tile(A[rows], B) @ V for rows in self.tiles(A, B)])

    def empty(self, size: int) -> torch.Tensor:
        """Return memory of the card for numbers in float64."""
        with room(self.device, f"a cache of {readable(8 * size)}"):
            return torch.empty(size, dtype=torch.float64, device=self.device)

    def pinned(self, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return memory of the host that the card writes to without a copy in between."""
        return torch.empty(size, dtype=KINDS[dtype.name], pin_memory=self.device.type == "cuda").numpy()

    def store_rows(self, A: Points, B: Points, store: torch.Tensor, slots: NDArray[np.intp]) -> None:
        """Write the rows K(A, B) to some slots of a store on the card: store (capacity, m)."""
        with self._room(A, B):
            places = torch.as_tensor(slots, device=self.device)
            for rows in self.tiles(A, B):
                store[places[rows]] = self.kernel.tile(A[rows], B)

    def sum_of_rows(self, store: torch.Tensor, slots: NDArray[np.intp], weights: Array) -> Array:
        """Return Σ_k weights_k store[slots_k]: store (capacity, m), slots and weights (r,) → (m,)."""
        with room(self.device, f"the sum of {len(slots):,} cached rows"):
            places, w = (torch.as_tensor(part, device=self.device) for part in (slots, weights))
            total = torch.zeros(store.shape[1], dtype=torch.float64, device=self.device)
            for part in cuda.panels(len(slots), 8 * store.shape[1], self.device):
                total += w[part] @ store[places[part]]
            return to_numpy(total)

    def eigh(self, matrix: Array, rank: int) -> tuple[Array, Array]:
        """Return the largest eigenvalues of a symmetric matrix, ascending, and their vectors: matrix (n, n)."""
        with room(self.device, f"the decomposition of {len(matrix):,} rows"):
            values, vectors = torch.linalg.eigh(self._on_card(matrix))
            return to_numpy(values[-rank:]), to_numpy(vectors[:, -rank:])

    def _inputs(self, A: Points) -> int:
        own = [part.shape[1] for part in A.parts[:1] if len(part.shape) == 2]
        return max([*own, *map(self._inputs, A.children)], default=0)

    def _runs_triton(self) -> bool:
        return self.device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"

    def vjp(self, A: Points, B: Points, W: NDArray[Any]) -> Array:
        """Return Σ_ij W_ij ∂K_ij/∂theta, by panels: W (n, m) → (p,)."""
        with self._room(A, B):
            panels = self.tiles(A, B, DERIVATIVE_TILES)
            return np.sum([self.kernel.tile_vjp(A[rows], B, self._on_card(W[rows])) for rows in panels], axis=0)

    def grad_inputs(self, A: Points, B: Points, V: NDArray[Any]) -> NDArray[Any]:
        """Return Σ_j V_j ∂k(x_i, y_j)/∂x_i, by panels: V (m,) → (n, d)."""
        with self._room(A, B):
            v = self._on_card(V)
            panels = self.tiles(A, B, DERIVATIVE_TILES)
            found = [self.kernel.tile_gradient(A[r], B, v.expand(r.stop - r.start, -1)) for r in panels]
            return to_numpy(torch.cat(found))

    def symmetric(self, A: Points, B: Points, memory: int, dtype: np.dtype[Any]) -> Symmetric:
        """Return K of rows with themselves as an operator; nothing is stored."""
        return Symmetric(self, A, B)

    def preconditioner(self, A: Points, B: Points, ridges: Any, scale: Any, narrow: bool, random_state: Any) -> Any:
        """Return the preconditioner of conjugate gradients, from landmarks."""
        from gramian.gram.gpu.preconditioner import CardPreconditioner

        return CardPreconditioner(self, A, B, ridges, scale, narrow, random_state)

    def factor(self, A: Points, B: Points, scale: Array, ridge: Any, Q: Any = None) -> Any:
        """Return the factor of ``S K S + D``, beside a trend Q: scale (n, 1), ridge (n,) or a number, Q (n, q)."""
        from gramian.gram.gpu.factor import CardFactor

        return CardFactor(self, A, B, scale, ridge, Q)

    def solver(self, A: Points, B: Points, scale: Array, ridge: Any) -> Any:
        """Return a factor for solves and variances: in single precision, refined, where float64 does not fit."""
        from gramian.gram.gpu.refined import RefinedFactor

        return self.factor(A, B, scale, ridge) if self.holds(len(A)) else RefinedFactor(self, A, B, scale, ridge)

    def holds(self, n: int) -> bool:
        """Whether an n x n matrix in float64 fits the free memory of the card."""
        return 8 * n**2 <= self.free

    def _room(self, A: Points, B: Points) -> Any:
        return room(self.device, f"what a {len(A):,} x {len(B):,} Gram matrix needs")


@dataclass(frozen=True, eq=False)
class Symmetric:
    """Products with K of rows with themselves; on a GPU, computing an entry costs less than reading it."""

    engine: Card
    A: Points
    B: Points
    stored = 0.0
    nbytes = 0
    described = "products fused on a GPU"

    def __matmul__(self, V: NDArray[Any]) -> Array:
        """``K @ V`` in the precision of V (n, k)."""
        return self.engine.product(self.A, self.B, V, False)

    def place(self, V: NDArray[Any]) -> torch.Tensor:
        """Return vectors on the card, in float64: V (n, k)."""
        return self.engine._on_card(V)

    def times(self, V: torch.Tensor, double: bool) -> torch.Tensor:
        """Return ``K @ V`` on the card, in single or in double precision: V (n, k)."""
        with self.engine._room(self.A, self.B):
            return self.engine.multiply(self.A, self.B, V, double)
