"""The preconditioner (F Fᵀ + μI)⁻¹ of conjugate gradients on a GPU, F from landmarks drawn uniformly."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from gramian.gram.card.cuda import room
from gramian.gram.card.engine import Card
from gramian.kernels.points import Points, to_numpy

ROOTS, MOST = 10, 4096
"""Landmarks in units of √n, and at most: on a GPU iterations are cheap, and a larger factor does not pay."""
SHARE = 3
"""F takes at most one part in so many of the free memory."""
JITTER = 1e-14
"""Jitter on the landmarks' block, relative to its mean diagonal; ten times more until it has a factor."""


class CardPreconditioner:
    """Solve with ``F Fᵀ + μI`` for several μ, by Woodbury, on the card; F Fᵀ ≈ S K S with S = diag(scale)."""

    nbytes = 0  # of the host's memory

    def __init__(
        self,
        engine: Card,
        A: Points,
        B: Points,
        ridges: NDArray[np.float64],
        scale: NDArray[np.float64],
        narrow: bool,
        random_state: Any = None,
    ) -> None:
        n, self.engine = len(A), engine
        self.dtype = torch.float32 if narrow else torch.float64
        with room(engine.device, f"the preconditioner of {n:,} rows"):
            rank = int(max(min(ROOTS * np.sqrt(n), MOST, n / 4, engine.free // SHARE // (self.dtype.itemsize * n)), 1))
            chosen = np.sort(check_random_state(random_state).choice(n, rank, replace=False))
            scales = torch.as_tensor(np.broadcast_to(scale, (n, 1)).copy(), device=engine.device)
            self.factor, gram = self._factor(A, B[chosen], A[chosen], scales)
            self._cores = {float(ridge): self._core(gram, float(ridge)) for ridge in np.unique(ridges)}

    def _factor(self, A: Points, B: Points, left: Points, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """F for landmarks ``left`` and B, and FᵀF in float64, as in float32 it may be indefinite."""
        kernel = self.engine.kernel
        lower = _lower(kernel.tile(left, B))
        factor = torch.empty((len(A), len(B)), dtype=self.dtype, device=self.engine.device)
        gram = torch.zeros_like(lower)
        for rows in self.engine.tiles(A, B):
            strip = scale[rows] * kernel.tile(A[rows], B)
            strip = torch.linalg.solve_triangular(lower.T, strip, upper=True, left=False)
            factor[rows] = strip
            gram += strip.T @ strip
        return factor, gram

    @staticmethod
    def _core(gram: torch.Tensor, ridge: float) -> torch.Tensor:
        core = gram / ridge
        core.diagonal().add_(1.0)
        return torch.linalg.cholesky(core)

    def solve(self, R: NDArray[np.float64], ridges: NDArray[np.float64]) -> NDArray[np.float64]:
        """Solve for every column with its own μ: R (n, k), ridges (k,) → (n, k)."""
        with room(self.engine.device, f"a preconditioned step of {R.shape[0]:,} rows"):
            Z = torch.as_tensor(R, device=self.engine.device)
            inner = (self.factor.T @ Z.to(self.dtype)).to(torch.float64)
            for ridge in np.unique(ridges):
                columns = torch.as_tensor(ridges == ridge, device=Z.device)
                inner[:, columns] = torch.cholesky_solve(inner[:, columns] / ridge, self._cores[float(ridge)])
            Z = (Z - (self.factor @ inner.to(self.dtype)).to(torch.float64)) / torch.as_tensor(ridges, device=Z.device)
            return to_numpy(Z)


def _lower(block: torch.Tensor) -> torch.Tensor:
    """The Cholesky factor of the landmarks' block, with as little jitter as possible."""
    mean = block.diagonal().mean().clamp(min=torch.finfo(torch.float64).tiny)
    for power in range(14):
        block.diagonal().add_(mean * JITTER * 10.0**power)
        lower, info = torch.linalg.cholesky_ex(block)
        if int(info) == 0:
            return lower
    raise np.linalg.LinAlgError("the kernel's matrix of the landmarks is not positive semi-definite; is it a kernel?")
