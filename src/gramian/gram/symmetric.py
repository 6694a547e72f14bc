"""The symmetric Gram matrix of X with itself: each block is computed once and used twice."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.gram.operator import Gram, narrowed
from gramian.kernels.points import is_foreign


class SymmetricGram:
    """A square Gram matrix by the blocks on and below its diagonal, some of them stored.

    ``K @ V`` takes half of the kernel values that ``Gram`` takes, and none for blocks that are stored. As many are
    stored, in ``dtype``, as ``memory`` allows: all of them need half of what the matrix would.

    Parameters
    ----------
    gram : Gram
        K of X with itself, by a kernel that is symmetric.
    memory : int, default=0
        Bytes of blocks to store.
    dtype : dtype, default=float32
        In which blocks are stored and multiplied; sums over blocks are float64 always.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, SymmetricGram
    >>> from gramian.kernels import RBF
    >>> K = Gram(RBF(1.0), np.arange(600.0)[:, None])
    >>> half = SymmetricGram(K, memory=10**6, dtype=np.float64)
    >>> half
    SymmetricGram(600 x 600, float64, 0 of 3 blocks stored, 0 B)
    >>> bool(np.allclose(half @ np.ones(600), K @ np.ones(600)))
    True
    """

    def __init__(self, gram: Gram, memory: int = 0, dtype: Any = np.float32) -> None:
        if gram.shape[0] != gram.shape[1]:
            raise ValueError(f"only K of X with itself is symmetric, got shape {gram.shape}.")
        self.gram, self.dtype, self.shape = gram, np.dtype(dtype), gram.shape
        self._product: Any = gram.engine.symmetric(gram.left, gram.right, memory, self.dtype)

    @property
    def stored(self) -> float:
        """The share of the blocks that is stored."""
        return self._product.stored

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks that are stored."""
        return self._product.nbytes

    def _place(self, V: NDArray[Any]) -> Any:
        """Return vectors on the device of K: V (n, k)."""
        return V if self.gram.card is None else self._product.place(V)

    def __matmul__(self, V: Any) -> Any:
        if is_foreign(V):
            return self._product.times(V, self.dtype == np.float64)
        V = np.asarray(V)
        if V.shape[0] != self.shape[0]:
            raise ValueError(f"V must have {self.shape[0]} rows, got {V.shape}.")
        narrow, scale = narrowed(V.reshape(V.shape[0], -1), self.dtype)
        total = self._product @ narrow
        return np.asarray((total if scale is None else total * scale).reshape(V.shape))

    def __repr__(self) -> str:
        n = self.shape[0]
        return f"SymmetricGram({n} x {n}, {self.dtype}, {self._product.described})"
