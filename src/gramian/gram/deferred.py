"""``Deferred``: the Gram matrix of a stationary kernel, for algorithms that may need only a few of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from gramian.gram.operator import Gram
from gramian.gram.threads import Threads
from gramian.kernels import Kernel
from gramian.resources import memory_budget, worker_count


class Deferred(Gram):
    """K of X with itself, where X is prepared only when all of its rows are first needed.

    Preparing 2,000 rows takes longer than choosing 100 landmarks among them. The diagonal of a stationary kernel is
    known, and a block of K is made from its own rows.
    """

    def __init__(self, kernel: Kernel, X: NDArray[Any], memory: int | str | None, n_jobs: int | None) -> None:
        self.kernel, self.X, self.amplitude = kernel, X, kernel.amplitude
        self.engine = Threads(kernel, memory_budget(memory), worker_count(n_jobs))
        LinearOperator.__init__(self, X.dtype, (len(X), len(X)))  # type: ignore[call-arg]  # missing in scipy-stubs

    def __getattr__(self, name: str) -> Any:
        if name not in ("_A", "_B"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._A, self._B = self.kernel.prepare(self.X)
        return vars(self)[name]

    def among(self, index: NDArray[np.intp]) -> Gram:
        return super().among(index) if "_A" in vars(self) else self.like(self.X[index])

    def diagonal(self) -> NDArray[Any]:
        return np.full(self.shape[0], self.amplitude, self.dtype)
