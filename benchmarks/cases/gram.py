"""The Gram matrix: written out in full, and multiplied without ever being written."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from benchmarks.harness import Comparison, case, relative_difference
from gramian.gram import Gram
from gramian.kernels import RBF, Laplace

MEMORY = 256 * 10**6
LENGTHSCALE = 3.0
GAMMA = 1 / (2 * LENGTHSCALE**2)
PRODUCT_ROWS = 60_000


@case("gram")
def gram() -> Iterator[Comparison]:
    """Dense RBF and Laplace matrices, then K @ V in bounded memory."""
    for dtype in (np.float64, np.float32):
        yield dense_rbf(8000, 20, dtype)
    for dtype in (np.float64, np.float32):
        yield dense_laplace(4000, 20, dtype)
    for columns in (1, 16):
        yield product(columns)


def dense_rbf(n: int, d: int, dtype: type) -> Comparison:
    """K of the RBF kernel against ``rbf_kernel``."""
    X = points(n, d, dtype)
    return Comparison(
        name=f"RBF dense, n={n} d={d}, {dtype.__name__}",
        ours=lambda: Gram(RBF(lengthscale=LENGTHSCALE), X).dense(),
        peer=lambda: rbf_kernel(X, gamma=GAMMA),
        against="rbf_kernel",
    )


def dense_laplace(n: int, d: int, dtype: type) -> Comparison:
    """K of the Laplace kernel against ``laplacian_kernel``."""
    X = points(n, d, dtype)
    return Comparison(
        name=f"Laplace dense, n={n} d={d}, {dtype.__name__}",
        ours=lambda: Gram(Laplace(lengthscale=LENGTHSCALE), X).dense(),
        peer=lambda: laplacian_kernel(X, gamma=1 / LENGTHSCALE),
        against="laplacian_kernel",
    )


def product(columns: int) -> Comparison:
    """K @ V that never holds K against a loop over chunks of ``rbf_kernel``."""
    X, V = product_data(columns)
    return Comparison(
        name=f"RBF @ V, n={PRODUCT_ROWS} d=8, {columns} column{'s' if columns > 1 else ''}, 256 MB",
        ours=lambda: product_ours(X, V),
        peer=lambda: product_peer(X, V),
        against="chunks of rbf_kernel",
        quality=relative_difference,
        repeats=3,
        snippets=tuple(
            f"from benchmarks.cases.gram import *; product_{side}(*product_data({columns}))"
            for side in ("ours", "peer")
        ),
    )


def product_ours(X: np.ndarray, V: np.ndarray) -> np.ndarray:
    """K @ V under the memory budget."""
    return Gram(RBF(lengthscale=LENGTHSCALE), X, memory=MEMORY) @ V


def product_peer(X: np.ndarray, V: np.ndarray) -> np.ndarray:
    """K @ V by chunks of rows, as one would write it by hand for the same budget."""
    rows = MEMORY // (X.shape[0] * X.itemsize)
    chunks = (X[start : start + rows] for start in range(0, X.shape[0], rows))
    return np.concatenate([rbf_kernel(chunk, X, gamma=GAMMA) @ V for chunk in chunks])


def product_data(columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and right-hand sides of the product; a vector where there is one column."""
    shape = (PRODUCT_ROWS, columns) if columns > 1 else PRODUCT_ROWS
    return points(PRODUCT_ROWS, 8, np.float64), np.random.default_rng(1).standard_normal(shape)


def points(n: int, d: int, dtype: type) -> np.ndarray:
    """Standard normal rows."""
    return np.random.default_rng(0).standard_normal((n, d)).astype(dtype)
