"""The preconditioner (F Fᵀ + μI)⁻¹ of conjugate gradients on a GPU, F from landmarks drawn uniformly."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from gramian.gram.gpu.cuda import room
from gramian.gram.gpu.engine import Card
from gramian.kernels.points import Points, to_numpy

Array = NDArray[np.float64]

ROOTS, FIRST = 10, 4096
"""Landmarks in units of √n, and at most, of the first draw."""
DIGITS = 10.0
"""ln(2/ε) for the accuracy ε that the count of iterations assumes."""
SETUP, READ = 4, 150_000
"""r landmarks take r²/4n products with K to set up, and r/150,000 in each iteration, in single precision on an H200."""
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
        ridges: Array,
        scale: Array,
        narrow: bool,
        random_state: Any = None,
    ) -> None:
        n, self.engine = len(A), engine
        self.dtype = torch.float32 if narrow else torch.float64
        with room(engine.device, f"the preconditioner of {n:,} rows"):
            most = max(min(n // 4, engine.free // SHARE // (self.dtype.itemsize * n)), 1)
            rank = int(min(max(ROOTS * np.sqrt(n), 1), FIRST, most))
            drawn = check_random_state(random_state).permutation(n)
            lower = self._lower(A, B, drawn[:rank])
            ridge = float(ridges.min()) / float(np.square(scale).mean())
            if (more := best_rank(to_numpy(lower.diagonal()), n, ridge, most)) > rank:
                rank, lower = more, self._lower(A, B, drawn[:more])
            scales = torch.as_tensor(np.broadcast_to(scale, (n, 1)).copy(), device=engine.device)
            self.factor, gram = self._factor(A, B[drawn[:rank]], lower, scales)
            self._cores = {float(ridge): self._core(gram, float(ridge)) for ridge in np.unique(ridges)}

    def _lower(self, A: Points, B: Points, chosen: NDArray[np.intp]) -> torch.Tensor:
        return _lower(self.engine.kernel.tile(A[chosen], B[chosen]))

    def _factor(
        self, A: Points, B: Points, lower: torch.Tensor, scale: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """F for landmarks B with the factor of their block, and FᵀF in float64, as in float32 it may be indefinite."""
        kernel = self.engine.kernel
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

    def solve(self, R: Array, ridges: Array) -> Array:
        """Solve for every column with its own μ: R (n, k), ridges (k,) → (n, k)."""
        with room(self.engine.device, f"a preconditioned step of {R.shape[0]:,} rows"):
            Z = torch.as_tensor(R, device=self.engine.device)
            inner = (self.factor.T @ Z.to(self.dtype)).to(torch.float64)
            for ridge in np.unique(ridges):
                columns = torch.as_tensor(ridges == ridge, device=Z.device)
                inner[:, columns] = torch.cholesky_solve(inner[:, columns] / ridge, self._cores[float(ridge)])
            Z = (Z - (self.factor @ inner.to(self.dtype)).to(torch.float64)) / torch.as_tensor(ridges, device=Z.device)
            return to_numpy(Z)


def best_rank(pivots: Array, n: int, ridge: float, most: int) -> int:
    """Return how many uniform landmarks are best, at least r, from the diagonal of the Cholesky factor of r of them.

    The square of the last pivot is what r landmarks leave of k(x, x) at a new row, ρ; the largest eigenvalue that they
    leave of K is about nρ/r. Twice as many divide ρ by as much as these do beside half of them.
    """
    r, last = pivots.size, max(pivots.size // 8, 1)
    rho, before = (float(np.mean(part[-last:] ** 2)) for part in (pivots, pivots[: max(r // 2, 1)]))
    ranks = np.minimum(r * 2.0 ** np.arange(0.0, 8.0, 0.5), max(most, r))
    left = rho * min(rho / before, 1.0) ** np.log2(ranks / r)
    iterations = 0.5 * DIGITS * np.sqrt(1.0 + n * left / (ranks * ridge))
    return int(ranks[np.argmin(ranks**2 / (SETUP * n) + iterations * (1.0 + ranks / READ))])


def _lower(block: torch.Tensor) -> torch.Tensor:
    """The Cholesky factor of the landmarks' block, with as little jitter as possible."""
    mean = block.diagonal().mean().clamp(min=torch.finfo(torch.float64).tiny)
    for power in range(14):
        block.diagonal().add_(mean * JITTER * 10.0**power)
        lower, info = torch.linalg.cholesky_ex(block)
        if int(info) == 0:
            return lower
    raise np.linalg.LinAlgError("the kernel is not positive semi-definite on these rows; check it with is_kernel.")
