"""Rows of F Fᵀ for ``smo``: with explicit features no kernel row is ever made, and none need be kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gramian.resources import run, spans
from gramian.solvers.svm.row_cache import Index

__all__ = ["FeatureRows"]

Array = NDArray[np.float64]
THREAD_WORTH = 1_000_000
"""Products below which a second thread costs more than it brings."""


class FeatureRows:
    """What ``KernelRows`` is to a kernel, for the kernel ``<ψ(x), ψ(z)>`` of explicit features.

    A sum of q kernel rows is one product Fᵀw and one product with F: O((n + q) m), whatever the kernel costs.
    """

    direct = True
    """A block of the kernel is one product: the working set may be large."""
    shrinkable = None
    """All values follow from one vector w, so that leaving variables out saves nothing."""
    definite = True
    evicted = 0

    def __init__(self, F: Array, workers: int = 1) -> None:
        self.F, self.workers = F, workers
        self.ids = np.arange(len(F))
        self.largest_square = len(F)

    def diagonal(self) -> Array:
        """Return ‖ψ(x)‖² of every object: → (n,)."""
        return np.asarray(np.einsum("ij,ij->i", self.F, self.F))

    def square(self, objects: Index) -> Array:
        """Return the kernel of some objects with each other: → (q, q)."""
        F, q = self.F[objects], objects.size
        out = np.empty((q, q))
        workers = self.workers if q * F.size > THREAD_WORTH else 1
        run(lambda rows: np.matmul(F[rows], F.T, out=out[rows]), spans(q, -(-q // workers)), workers)
        return out

    def add(self, objects: Index, weights: Array, total: Array) -> None:
        """Add Σ_k weights_k K[objects_k, :] to ``total``. weights (len(objects),), total (n,)."""
        if not objects.size:
            return
        w, F = self.F[objects].T @ weights, self.F
        workers = self.workers if F.size > THREAD_WORTH else 1

        def task(rows: slice) -> None:
            total[rows] += F[rows] @ w

        run(task, spans(len(F), -(-len(F) // workers)), workers)

    def exact(self, objects: Index, others: Index) -> Array:
        """Return a block of the kernel: → (len(objects), len(others))."""
        return self.F[objects] @ self.F[others].T

    def exact_sum(self, objects: Index, weights: Array) -> Array:
        """Return Σ_k weights_k K[objects_k, :]. weights (len(objects),) → (n,)."""
        total = np.zeros(len(self.ids))
        self.add(objects, weights, total)
        return total

    def upgrade(self) -> bool:
        """Say that there is no fuller precision to go on in."""
        return False
