"""Solves with S K S + D on a GPU if its factor fits only in single precision: the factor preconditions conjugate
gradients, whose products are in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gramian.gram.gpu.factor import CardFactor
from gramian.kernels.distances import EPS
from gramian.kernels.points import to_numpy

STEPS, TARGET, ROUGH = 100, 1e-12, 1e-6
"""Most iterations of conjugate gradients; the residual at which they stop for solutions, and for variances."""
TRIES = 6
"""How often the jitter is raised, tenfold each time, until there is a factor."""


class RefinedFactor(CardFactor):
    """A factor in single precision of the matrix with jitter; solutions are those of the matrix without it.

    Its pivots and determinant are good to single precision only: for solves and variances.
    """

    dtype = torch.float32

    def _factorise(self) -> tuple[torch.Tensor, int]:
        size = self.n**0.5 * EPS["float32"] * float(self.engine.kernel.diagonal(self.A).max())
        given, found = self.ridge, None
        for power in range(TRIES):
            found = None  # frees the memory: two do not fit
            self.ridge = given + size * 10.0**power
            found = super()._factorise()
            if not found[1]:
                break
        self.ridge = given
        assert found is not None
        return found

    def solve(self, B: NDArray[Any]) -> NDArray[np.float64]:
        """Return the solution Z of ``(S K S + D) Z = B``: B (n,) or (n, k)."""
        right = torch.as_tensor(B, device=self.lower.device).reshape(self.n, -1)
        return to_numpy(self._solved(right, TARGET)[0]).reshape(B.shape)

    def _halves(self, K: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # With V = A⁻¹Kᵀ - E, the symmetric part of Vᵀ(2Kᵀ - AV) is K A⁻¹ Kᵀ - EᵀAE: the error counts squared.
        V, residual = self._solved(K.T, ROUGH)
        return V, K.T + residual

    def _solved(self, right: torch.Tensor, target: float) -> tuple[torch.Tensor, torch.Tensor]:
        """The solution by conjugate gradients and its residual: right (n, k)."""
        least = target * right.norm(dim=0)
        x, r = torch.zeros_like(right), right.clone()
        z = self._rough(r)
        p, rz = z, (r * z).sum(dim=0)
        for _ in range(STEPS):
            if bool((r.norm(dim=0) <= least).all()):
                break
            q = self._times(p)
            step = _over(rz, (p * q).sum(dim=0))
            x += step * p
            r -= step * q
            z = self._rough(r)
            before, rz = rz, (r * z).sum(dim=0)
            p = z + _over(rz, before) * p
        return x, r

    def _rough(self, r: torch.Tensor) -> torch.Tensor:
        """The solution by the factor alone; columns are normalised, to stay in the range of single precision."""
        length = r.norm(dim=0).clamp_min(torch.finfo(r.dtype).tiny)
        half = torch.linalg.solve_triangular(self.lower, (r / length).to(self.dtype), upper=False)
        return torch.linalg.solve_triangular(self.lower.T, half, upper=True).to(r.dtype) * length


def _over(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a / b, and zero where b is, in a column that is solved exactly."""
    return torch.where(b != 0, a / torch.where(b != 0, b, 1.0), 0.0)
