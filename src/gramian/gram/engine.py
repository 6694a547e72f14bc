"""``Engine``: what makes the tiles of a ``Gram``."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gramian.kernels.points import Points

Array = NDArray[Any]


class Engine(Protocol):
    """Makes the tiles of K(A, B) for prepared rows; ``Threads`` and the GPU's ``Card`` are the two there are.

    To add one: a frozen dataclass with these methods, chosen by ``Gram``; A and B are what ``prepare`` returned.
    """

    @property
    def name(self) -> str | None:
        """As in ``device=``, and then all methods of ``Card`` are expected; None for the CPU."""

    @property
    def memory(self) -> int:
        """Bytes of K to hold at most."""

    @property
    def workers(self) -> int:
        """Threads."""

    def prepare(self, X: Any, Y: Any) -> tuple[Points, Points, np.dtype[Any]]:
        """Return both sides of the matrix, prepared, and the dtype of its entries."""

    def rounding(self, A: Points, dtype: np.dtype[Any]) -> float:
        """Return the rounding error of an entry, relative to the largest k(x, x)."""

    def diagonal(self, A: Points, dtype: np.dtype[Any]) -> Array:
        """Return k(x, x): → (n,)."""

    def fill(self, A: Points, B: Points, out: Array) -> Array:
        """Write K(A, B): out (n, m) → (n, m)."""

    def product(self, A: Points, B: Points, V: Array, flipped: bool) -> NDArray[np.float64]:
        """Return ``K(A, B) @ V``, or ``K(A, B).T @ V`` if flipped."""

    def vjp(self, A: Points, B: Points, W: Array) -> NDArray[np.float64]:
        """Return Σ_ij W_ij ∂K_ij/∂theta: W (n, m) → (p,)."""

    def grad_inputs(self, A: Points, B: Points, V: Array) -> Array:
        """Return Σ_j V_j ∂k(x_i, y_j)/∂x_i: V (m,) → (n, d)."""

    def symmetric(self, A: Points, B: Points, memory: int, dtype: np.dtype[Any]) -> Any:
        """Return K of rows with themselves as an operator, of which ``memory`` bytes may be stored."""
