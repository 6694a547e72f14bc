"""The Cholesky factor of S K S + D on a GPU, in one n x n array; residuals use products with the kernel itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gramian.gram.gpu.cuda import room
from gramian.gram.gpu.engine import Card
from gramian.gram.threads import DERIVATIVE_TILES
from gramian.kernels.points import Points, to_numpy
from gramian.resources import answering, readable, run, spans

Array = NDArray[np.float64]

STRIP = 2048
"""Columns of L⁻¹ that are computed at a time."""


class CardFactor:
    """L with ``L Lᵀ = S K S + D``, on the card: scale (n, 1), ridge (n,) or a number.

    With a trend, whose orthonormal columns are Q (n, q), of ``P (S K S + D) P + τ QQᵀ``, ``P = I - QQᵀ``.
    """

    jitter = tau = 0.0
    dtype = torch.float64

    def __init__(self, engine: Card, A: Points, B: Points, scale: Array, ridge: Any, Q: Any = None) -> None:
        self.engine, self.A, self.B, self.n = engine, A, B, len(A)
        self.Q = None if Q is None else torch.as_tensor(Q, device=engine.device)
        self.ridge = torch.as_tensor(np.full(self.n, ridge, dtype=np.float64), device=engine.device)
        self.scale = torch.as_tensor(scale, device=engine.device)  # (n, 1)
        needed, free = self.dtype.itemsize * self.n**2, engine.free
        most = int((free / self.dtype.itemsize) ** 0.5)
        if needed > free:
            raise MemoryError(
                f"the factor of {self.n:,} rows takes {readable(needed)} and {readable(free)} are free on the GPU, "
                f"room for {most:,} rows; use fewer, solver='pcg' where there is one, an approximation, or device=None."
            )
        with room(engine.device, f"the factor of {self.n:,} rows"):
            self.lower, self.failed = self._factorise()
        self.diagonal = to_numpy(engine.kernel.diagonal(A)) * np.square(np.ravel(scale)) + ridge

    def jittered(self, jitter: float) -> CardFactor:
        """Factorise again with more on the diagonal, in the same memory."""
        self.ridge += jitter - self.jitter
        self.jitter = jitter
        self.release()
        self.lower, self.failed = self._factorise()
        return self

    def _factorise(self) -> tuple[torch.Tensor, int]:
        """L, in the memory of the matrix, and the order of the leading minor that is not positive definite, or zero."""
        # In column-major order, as cuSOLVER writes it; any other needs a second matrix.
        L = torch.empty((self.n, self.n), dtype=self.dtype, device=self.engine.device).T
        for rows in self.engine.tiles(self.A, self.B):
            L[rows] = self.engine.kernel.tile(self.A[rows], self.B) * (self.scale[rows] * self.scale.T)
        L.diagonal().add_(self.ridge)
        if self.Q is not None:
            self.tau, self.seen = self._project(L, self.Q)
        info = torch.zeros((), dtype=torch.int32, device=L.device)

        def factorise() -> int:
            torch.linalg.cholesky_ex(L, out=(L, info))
            return int(info)

        return L, answering(factorise)

    @staticmethod
    def _project(A: torch.Tensor, Q: torch.Tensor) -> tuple[float, torch.Tensor]:
        """Turn A into ``P A P + τ QQᵀ`` in place, with τ of the size of its entries; return τ and A Q."""
        tau = max(float(A.max()), -float(A.min())) or 1.0
        seen = A @ Q
        half = seen - 0.5 * Q @ (Q.T @ seen + tau * torch.eye(Q.shape[1], dtype=Q.dtype, device=Q.device))
        A.addmm_(Q, half.T, alpha=-1.0)
        A.addmm_(half, Q.T, alpha=-1.0)
        return tau, seen

    def release(self) -> None:
        """Free the card's memory; the factor cannot be used afterwards."""
        del self.lower

    def to_host(self) -> Array:
        """Return L in the host's memory, by panels: → (n, n)."""
        out, panels = np.empty((self.n, self.n)), spans(self.n, STRIP)
        run(lambda rows: out[rows].fill(0.0), panels, self.engine.workers)  # new pages take longer than the copy
        for rows in panels:
            torch.from_numpy(out[rows]).copy_(self.lower[rows])
        return out

    def smallest_pivot(self) -> float:
        """Return the smallest square on the diagonal of L."""
        return float(self.lower.diagonal().min() ** 2)

    def logdet(self) -> float:
        """Return log det(S K S + D)."""
        return 2.0 * float(self.lower.diagonal().log().sum())

    def solve(self, B: NDArray[Any]) -> Array:
        """Return the solution Z of ``(S K S + D) Z = B``: B (n,) or (n, k)."""
        right = torch.as_tensor(B, device=self.lower.device).reshape(self.n, -1)
        half = torch.linalg.solve_triangular(self.lower, right, upper=False)
        return to_numpy(torch.linalg.solve_triangular(self.lower.T, half, upper=True)).reshape(B.shape)

    def __matmul__(self, V: NDArray[Any]) -> Array:
        """Multiply the matrix that was factorised by V, from the kernel itself: V (n, k)."""
        return to_numpy(self._times(torch.as_tensor(V, device=self.lower.device)))

    def _times(self, V: torch.Tensor) -> torch.Tensor:
        Q = self.Q if self.Q is not None else V[:, :0]
        inside = Q.T @ V
        V = V - Q @ inside
        product = self.engine.multiply(self.A, self.B, self.scale * V, double=True)
        product = self.scale * product + self.ridge[:, None] * V
        return product - Q @ (Q.T @ product - self.tau * inside)

    def whiten(self, K: Array) -> Array:
        """Return ``L⁻¹ Kᵀ``: K (m, n) → (n, m)."""
        right = torch.as_tensor(K, device=self.lower.device).T
        return to_numpy(torch.linalg.solve_triangular(self.lower, right, upper=False))

    def explained(self, cross: Any) -> Array:
        """Return the diagonal of ``K S A⁻¹ S Kᵀ`` for the ``Gram`` K of new rows with these: → (m,)."""
        new, engine = cross.left, cross.engine
        out = torch.empty(len(new), dtype=torch.float64, device=self.lower.device)
        with room(engine.device, f"the variance of {len(new):,} rows"):
            for rows in engine.tiles(new, cross.right, 2):
                left, right = self._halves(engine.kernel.tile(new[rows], cross.right) * self.scale.T)
                out[rows] = (left * right).sum(dim=0)
        return to_numpy(out)

    def explained_jointly(self, K: Array) -> Array:
        """Return ``K A⁻¹ Kᵀ``: K (m, n) → (m, m)."""
        with room(self.engine.device, f"the covariance of {len(K):,} rows"):
            left, right = self._halves(torch.as_tensor(K, device=self.lower.device))
            found = left.T @ right
            return to_numpy(0.5 * (found + found.T))

    def _halves(self, K: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Two matrices with ``½(Pᵀ R + Rᵀ P) = K A⁻¹ Kᵀ``: K (m, n) → (n, m) each."""
        white = torch.linalg.solve_triangular(self.lower, K.T, upper=False)
        return white, white

    def evidence_vjp(self, left: Array, right: Array) -> Array:
        """Return ``½ Σ W ∘ ∂K/∂theta`` with ``W = left rightᵀ - S A⁻¹ S``, by panels: left, right (n, t) → (p,).

        The factor is overwritten by the lower half of the inverse.
        """
        with room(self.engine.device, f"the gradient of the evidence of {self.n:,} rows"):
            inverse = self.invert()
            a, b = (torch.as_tensor(side, device=inverse.device) for side in (left, right))
            total = np.zeros(self.engine.kernel.theta.size)
            for rows in self.engine.tiles(self.A, self.B, DERIVATIVE_TILES):
                own = slice(0, rows.stop)
                W = a[rows] @ b[own].T - self.scale[rows] * inverse[rows, own] * self.scale[own].T
                # Entries below the diagonal count twice, and ½ is a common factor: only the diagonal is halved.
                corner = W[:, rows]
                corner.tril_()
                corner.diagonal().mul_(0.5)
                total += self.engine.kernel.tile_vjp(self.A[rows], self.B[own], W)
        return total

    def invert(self) -> torch.Tensor:
        """Overwrite L by the lower half of A⁻¹; the factor cannot be used afterwards."""
        A = self.lower
        blocks = spans(self.n, STRIP)
        for j in reversed(range(len(blocks))):  # L⁻¹: the columns to the right are inverted already
            c = blocks[j]
            unit = torch.eye(c.stop - c.start, dtype=A.dtype, device=A.device)
            corner = torch.linalg.solve_triangular(A[c, c], unit, upper=False)
            below = A[c.stop :, c] @ -corner
            for r in blocks[j + 1 :]:
                A[r, c] = A[r, c.stop : r.stop] @ below[: r.stop - c.stop]
            A[c, c] = corner
        for r in blocks:  # L⁻ᵀ L⁻¹: a row needs itself and the rows below
            A[r, : r.stop] = A[r, r].T @ A[r, : r.stop] + A[r.stop :, r].T @ A[r.stop :, : r.stop]
        return A

    def inverted_diagonal(self) -> Array:
        """Return the diagonal of the inverse, after ``invert``: → (n,)."""
        return to_numpy(self.lower.diagonal().clone())

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of the inverse, by strips of L⁻¹: → (n,)."""
        out = torch.empty(self.n, dtype=torch.float64, device=self.lower.device)
        for columns in spans(self.n, STRIP):
            below = self.lower[columns.start :, columns.start :]
            unit = torch.eye(below.shape[0], columns.stop - columns.start, dtype=torch.float64, device=below.device)
            strip = torch.linalg.solve_triangular(below, unit, upper=False)
            out[columns] = (strip**2).sum(dim=0)
        return to_numpy(out)
