"""Mercer's theorem on data: a test of positive semi-definiteness, and the features of a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramian.kernels.base import Kernel
from gramian.kernels.geometry import mean_weights
from gramian.kernels.objects import Precomputed
from gramian.kernels.points import raw_rows
from gramian.kernels.resolve import as_kernel

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MercerReport:
    """Result of a test on a Gram matrix; true if it is symmetric and positive semi-definite up to rounding.

    Parameters
    ----------
    n : int
        Number of objects.
    asymmetry : float
        Largest ``|K_ij - K_ji|``.
    smallest_eigenvalue, largest_eigenvalue : float
        Extreme eigenvalues of the symmetric part.
    tolerance : float
        Size of an asymmetry or a negative eigenvalue that rounding can cause.

    Examples
    --------
    >>> from gramian.kernels import is_kernel
    >>> report = is_kernel([[2.0, 1.0], [1.0, 2.0]])
    >>> bool(report), report.smallest_eigenvalue
    (True, 1.0)
    """

    n: int
    asymmetry: float
    smallest_eigenvalue: float
    largest_eigenvalue: float
    tolerance: float

    @property
    def verdict(self) -> bool:
        """Whether K is symmetric and positive semi-definite up to rounding."""
        return self.asymmetry <= self.tolerance and self.smallest_eigenvalue >= -self.tolerance

    def __bool__(self) -> bool:
        return self.verdict

    def __str__(self) -> str:
        figures = (
            f"asymmetry {self.asymmetry:.1e}, eigenvalues {self.smallest_eigenvalue:.3g} to "
            f"{self.largest_eigenvalue:.3g}, tolerance {self.tolerance:.1e}, {self.n} objects"
        )
        if self.verdict:
            return f"a kernel on these data ({figures})"
        why = "not symmetric" if self.asymmetry > self.tolerance else "not positive semi-definite"
        return f"NOT a kernel: {why} ({figures})"


def is_kernel(kernel_or_matrix: Any, X: Any = None, *, tol: float | None = None) -> MercerReport:
    """Test on data whether a similarity is symmetric and positive semi-definite.

    A failure is proof; a pass holds for these objects only.

    Parameters
    ----------
    kernel_or_matrix : Kernel, name, function of two objects, or array-like of shape (n, n)
        A kernel, or a Gram matrix.
    X : array-like or sequence, optional
        The objects; needed for a kernel.
    tol : float or None, default=None
        Size of a violation that rounding can cause; by default n times the precision of an eigenvalue and of an entry.

    Returns
    -------
    MercerReport
        The numbers; its truth value is the verdict.

    Examples
    --------
    >>> from gramian.kernels import RBF, is_kernel
    >>> bool(is_kernel(RBF(1.0), [[0.0], [1.0], [3.0]]))
    True
    >>> print(is_kernel([[1.0, 2.0], [2.0, 1.0]]))
    NOT a kernel: not positive semi-definite (asymmetry 0.0e+00, eigenvalues -1 to 3, tolerance 1.3e-15, 2 objects)
    """
    if isinstance(kernel_or_matrix, str) or callable(kernel_or_matrix):
        if X is None:
            raise ValueError("is_kernel needs X to test a kernel on; pass some objects.")
        kernel = as_kernel(kernel_or_matrix, X)
        A, B = kernel.prepare(X)
        K, rounding = np.asarray(kernel.tile(A, B)), kernel.rounding(A)
    elif X is not None:
        raise TypeError("is_kernel takes a kernel and X, or a matrix alone; leave X out.")
    else:
        K, rounding = np.asarray(Precomputed()(kernel_or_matrix)), 0.0
    eps = float(np.finfo(K.dtype).eps)
    K = K.astype(np.float64)
    eigenvalues = scipy.linalg.eigvalsh((K + K.T) / 2.0)
    noise = eps * float(np.abs(eigenvalues).max()) + rounding * float(np.abs(K.diagonal()).max())
    return MercerReport(
        n=K.shape[0],
        asymmetry=float(np.abs(K - K.T).max()),
        smallest_eigenvalue=float(eigenvalues[0]),
        largest_eigenvalue=float(eigenvalues[-1]),
        tolerance=tol if tol is not None else K.shape[0] * max(noise, 1e-300),
    )


@dataclass(frozen=True, eq=False)
class MercerBasis:
    """Eigenvalues and eigenfunctions of a kernel with respect to a measure on some objects, by default 1/n each.

    The functions are orthonormal in the mean over the objects, weighted by the measure, and
    ``k(x, z) ≈ Σ_j λ_j φ_j(x) φ_j(z)``, exactly on the objects themselves if all eigenfunctions are kept.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : array or sequence
        The objects.
    eigenvalues : array of shape (k,)
        Largest first.
    vectors : array of shape (n, k)
        Orthonormal eigenvectors of ``D^½ K D^½``, where D holds the weights.
    weights : array of shape (n,)
        The measure, which sums to one.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.kernels import Matern, mercer
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> basis = mercer(Matern(0.5), X)
    >>> alpha = np.ones(20)
    >>> bool(np.isclose(basis.norm(basis.coefficients(alpha)) ** 2, alpha @ Matern(0.5)(X) @ alpha))
    True
    """

    kernel: Kernel
    X: Any
    eigenvalues: Array
    vectors: Array
    weights: Array

    def __call__(self, Z: Any = None) -> Array:
        """Evaluate the eigenfunctions at any rows: Z (m, d) → (m, k)."""
        roots = np.sqrt(self.weights)[:, None]
        if Z is None and np.all(self.weights > 0):
            return self.vectors / roots
        K = self.kernel(self.X) if Z is None else self.kernel(Z, self.X)
        return np.asarray(K @ (roots * self.vectors / self.eigenvalues))

    def coefficients(self, alpha: Array) -> Array:
        """Return the coordinates f_j of f = Σ_i α_i k(x_i, ·) in the basis: alpha (n,) → (k,)."""
        return self.eigenvalues * (self().T @ alpha)

    def norm(self, coefficients: Array) -> float:
        """Return the norm √(Σ f_j²/λ_j) of f = Σ_j f_j φ_j in the kernel's space: coordinates f_j (k,) → number."""
        return float(np.sqrt(np.sum(np.asarray(coefficients) ** 2 / self.eigenvalues)))


def mercer(kernel: Any, X: Any, k: int | None = None, *, weights: Any = None) -> MercerBasis:
    """Compute the Mercer decomposition of a kernel with respect to a measure on some objects.

    The eigenvalues are those of ``f ↦ Σ_i w_i k(·, x_i) f(x_i)``: with the nodes X and the weights w of a quadrature
    rule, nearly those of the integral operator.

    Parameters
    ----------
    kernel : Kernel, name or function of two objects
        The kernel.
    X : array-like of shape (n, d)
        The objects.
    k : int or None, default=None
        Number of eigenfunctions, by descending eigenvalue; those with an eigenvalue at rounding level are left out.
    weights : array-like of shape (n,) or None, default=None
        The measure, >= 0; it is divided by its sum. ``None`` for 1/n each, the empirical measure.

    Returns
    -------
    MercerBasis
        Eigenvalues of K/n, or with weights of ``D^½ K D^½``, and eigenfunctions.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.kernels import RBF, mercer
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> mercer(RBF(0.3), X, 2).eigenvalues.round(3)
    array([0.582, 0.292])
    """
    X = raw_rows(X)
    X = X.astype(np.float64) if X.dtype == np.float32 else X
    kernel = as_kernel(kernel, X)
    K = np.asarray(kernel(X), dtype=np.float64)
    n = K.shape[0]
    shares = mean_weights(weights, n)
    K *= np.sqrt(shares)[:, None]
    K *= np.sqrt(shares)
    k = n if k is None else k
    if isinstance(k, bool) or int(k) != k or not 1 <= k <= n:
        raise ValueError(f"k must be between 1 and the number of objects, {n}; got {k}.")
    values, vectors = scipy.linalg.eigh(K, subset_by_index=[n - k, n - 1])
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > n * np.finfo(np.float64).eps * values[0]
    return MercerBasis(kernel, X, values[kept], np.ascontiguousarray(vectors[:, kept]), shares)
