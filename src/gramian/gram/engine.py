"""``Engine``: what makes the tiles of a ``Gram``, and the choice of one: threads, or a GPU, which alone needs torch."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gramian.gram.gpu.triton_source import generated
from gramian.gram.threads import Threads
from gramian.kernels import Kernel
from gramian.kernels.points import Points, is_sparse
from gramian.resources import memory_budget

Array = NDArray[Any]


class Engine(Protocol):
    """Makes the tiles of K(A, B) for prepared rows; ``Threads`` and the GPU's ``Card`` are the two there are.

    To add one: a frozen dataclass with these methods, chosen by ``engine_for``; A and B are what ``prepare`` returned.
    """

    @property
    def name(self) -> str | None:
        """As in ``device=``; None for the CPU."""

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
        """Return ``K(A, B) @ V``, or ``K(A, B).T @ V`` where flipped."""

    def vjp(self, A: Points, B: Points, W: Array) -> NDArray[np.float64]:
        """Return Σ_ij W_ij ∂K_ij/∂theta: W (n, m) → (p,)."""

    def grad_inputs(self, A: Points, B: Points, V: Array) -> Array:
        """Return Σ_j V_j ∂k(x_i, y_j)/∂x_i: V (m,) → (n, d)."""

    def symmetric(self, A: Points, B: Points, memory: int, dtype: np.dtype[Any]) -> Any:
        """Return K of rows with themselves as an operator, of which ``memory`` bytes may be stored."""


def engine_for(asked: str | None, kernel: Kernel, memory: int | str | None, workers: int, X: Any) -> Engine:
    """Return the engine for a kernel and rows on the device asked for."""
    device = None if asked == "auto" and not generated(kernel) else device_for(asked, X)
    if device is None:
        return Threads(kernel, memory_budget(memory), workers)
    from gramian.gram.gpu import cuda
    from gramian.gram.gpu.engine import Card

    name = "cuda" if asked == "auto" else str(asked)
    return Card(kernel, cuda.budget(memory, device), workers, name, device)


def device_for(asked: str | None, X: Any) -> Any:
    """Return the torch device asked for, or None for the CPU."""
    name = checked_device(asked)
    if name is None or (name == "auto" and (is_sparse(X) or not has_card())):
        return None
    try:
        from gramian.gram.gpu import cuda
    except ImportError as error:
        raise ImportError(
            f"device={asked!r} needs torch, which is not installed: pip install '.[gpu]' in the clone."
        ) from error
    if is_sparse(X):
        raise TypeError("a GPU takes dense rows, got a sparse matrix; pass X.toarray(), or device=None.")
    return cuda.found("cuda" if name == "auto" else name)


def checked_device(device: str | None) -> str | None:
    """Return a valid device name, or raise with the names that are."""
    if device is None or device in ("auto", "cuda"):
        return device
    if isinstance(device, str) and device.startswith("cuda:") and device[5:].isdigit():
        return device
    raise ValueError(f"device must be None, 'cuda', 'cuda:0' (and so on) or 'auto', got {device!r}.")


def has_card() -> bool:
    """Whether torch is installed and finds a GPU."""
    try:
        from gramian.gram.gpu import cuda
    except ImportError:
        return False
    return cuda.available()


def device_speed(asked: str | None, X: Any) -> float:
    """Return the speed of the device asked for, in units of the nominal machine."""
    device = device_for(asked, X)
    if device is None:
        return 1.0
    from gramian.gram.gpu import cuda

    return cuda.speed(device)
