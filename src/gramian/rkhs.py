"""Functions f = Σ_i α_i k(x_i, ·) of an RKHS: values, norms, inner products, gradients, worst errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from gramian.gram import Gram
from gramian.gram.operator import narrow, wide
from gramian.kernels import Kernel
from gramian.kernels.points import is_sparse, raw_rows
from gramian.kernels.resolve import as_kernel, is_precomputed
from gramian.resources import memory_budget, spans
from gramian.solvers.gp.evidence import signal_and_noise
from gramian.solvers.linear.cholesky import Factor, cholesky

Array = NDArray[np.float64]

__all__ = ["Function", "fourier_norm"]


@dataclass(frozen=True, eq=False)
class Function:
    """The function ``f(x) = Σ_i α_i k(x_i, x)`` as an element of the RKHS of its kernel.

    Functions of one kernel can be added, subtracted and multiplied by numbers. With a precomputed kernel, the rows of
    new objects are their kernel values with the points.

    Parameters
    ----------
    kernel : Kernel, name or function of two objects
        The kernel k.
    X : array-like of shape (n, d)
        The points x_i; also CSR, lists of objects or a Gram matrix if the kernel accepts them.
    coefficients : array-like of shape (n,)
        The coefficients α.
    ridge : float, array of shape (n,) or None, default=None
        The term that the fit of f added to the diagonal of K: zero for an interpolant, ``None`` if f does not come from
        such a fit. Needed for ``power`` and ``worst_error``.
    noise : float or None, default=0.0
        The noise variance σ² of a new observation, for ``power(noisy=True)``; ``None`` if it is not known.
    memory : int, str or None, default=None
        Limit on the bytes of kernel values held at once.
    n_jobs : int or None, default=None
        Threads.

    Examples
    --------
    >>> from gramian.kernels import RBF
    >>> from gramian.rkhs import Function
    >>> f = Function(RBF(1.0), [[0.0], [1.0]], [1.0, -1.0])
    >>> k_x = Function(RBF(1.0), [[0.3]], [1.0])
    >>> f([[0.3]]).round(6), round(f.inner(k_x), 6)
    (array([0.173293]), 0.173293)
    >>> round((2.0 * f - f).norm(), 6) == round(f.norm(), 6)
    True
    """

    kernel: Kernel
    X: Any
    coefficients: Array
    ridge: float | Array | None = None
    noise: float | None = 0.0
    memory: int | str | None = None
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        X = raw_rows(self.X)
        object.__setattr__(self, "kernel", as_kernel(self.kernel, X))
        alpha = np.asarray(self.coefficients, dtype=np.float64)
        if alpha.shape != (X.shape[0],):
            raise ValueError(f"coefficients must have shape ({X.shape[0]},), one per point; got {alpha.shape}.")
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "coefficients", alpha)

    def __len__(self) -> int:
        return int(self.coefficients.size)

    def __repr__(self) -> str:
        return f"Function({self.kernel!r}, {len(self)} points)"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_factor", "_white")}

    def _gram(self, Z: Any = None) -> Gram:
        """K between some points and those of f, always in float64."""
        X = wide(self.X)
        left, right = (X, None) if Z is None else (wide(Z), X)
        return Gram(self.kernel, left, right, memory=self.memory, n_jobs=self.n_jobs)

    # ---- values -------------------------------------------------------------------------------------------------

    def __call__(self, Z: Any) -> NDArray[Any]:
        """Return f at some points, by tiles: Z (m, d) → (m,)."""
        return narrow(np.asarray(self._gram(Z) @ self.coefficients), Z)

    def gradient(self, Z: Any) -> NDArray[Any]:
        """Return ∇f at some points, by tiles; a term at a kink of k counts as zero: Z (m, d) → (m, d)."""
        return narrow(self._gram(Z).grad_inputs(self.coefficients), Z)

    # ---- geometry -----------------------------------------------------------------------------------------------

    def inner(self, g: Function) -> float:
        """Return <f, g> = Σ_ij a_i b_j k(x_i, y_j), for functions of one kernel: Function → number."""
        self._same_space(g)
        K = self._gram() if self._same_points(g) else self._gram(g.X).T
        return float(self.coefficients @ (K @ g.coefficients))

    def norm(self) -> float:
        """Return ‖f‖ = √(αᵀKα)."""
        return float(np.sqrt(max(self.inner(self), 0.0)))

    def __add__(self, g: Any) -> Function:
        if not isinstance(g, Function):
            return NotImplemented
        self._same_space(g)
        if self._same_points(g):
            same_fit = self.noise == g.noise and np.array_equal(_marked(self.ridge), _marked(g.ridge))
            known = {} if same_fit else {"ridge": None, "noise": 0.0}
            return replace(self, coefficients=self.coefficients + g.coefficients, **known)  # type: ignore[arg-type]
        if is_precomputed(self.kernel):
            raise ValueError("functions of a precomputed kernel can be added only on the same Gram matrix.")
        alpha = np.concatenate([self.coefficients, g.coefficients])
        return replace(self, X=stacked(self.X, g.X), coefficients=alpha, ridge=None, noise=0.0)

    def __mul__(self, factor: float) -> Function:
        if not np.isscalar(factor):
            return NotImplemented
        return replace(self, coefficients=self.coefficients * float(factor))  # type: ignore[arg-type]

    __rmul__ = __mul__

    def __neg__(self) -> Function:
        return -1.0 * self

    def __sub__(self, g: Any) -> Function:
        return self + -g if isinstance(g, Function) else NotImplemented

    def __truediv__(self, divisor: float) -> Function:
        return self * (1.0 / divisor) if np.isscalar(divisor) else NotImplemented  # type: ignore[operator]

    def _same_space(self, g: Function) -> None:
        if self.kernel != g.kernel:
            raise ValueError(f"both functions must belong to one space, got kernels {self.kernel!r} and {g.kernel!r}.")

    def _same_points(self, g: Function) -> bool:
        if self.X is g.X:
            return True
        if is_sparse(self.X) or is_sparse(g.X):
            both = is_sparse(self.X) and is_sparse(g.X) and self.X.shape == g.X.shape
            return bool(both and (self.X != g.X).nnz == 0)
        return np.array_equal(self.X, g.X)

    # ---- fewer points -------------------------------------------------------------------------------------------

    def restrict(self, index: ArrayLike) -> Function:
        """Return the terms of f at some of its points; no longer a fit, so without ``power``: index → Function."""
        keep = np.arange(len(self))[np.asarray(index)]
        X = self.X[keep]
        if is_precomputed(self.kernel):
            X = X[:, keep]
        return replace(self, X=X, coefficients=self.coefficients[keep], ridge=None, noise=0.0)

    def prune(self, tol: float = 0.0) -> Function:
        """Return f without coefficients up to ``tol`` times the largest, but with at least one: tol → Function."""
        size = np.abs(self.coefficients)
        keep = size > tol * size.max(initial=0.0)
        return self.restrict(np.flatnonzero(keep) if keep.any() else [0])

    # ---- worst case ---------------------------------------------------------------------------------------------

    def power(self, Z: Any, *, noisy: bool = False) -> Array:
        """Return the power function √k̄(x, x), with ``k̄(x,x) = k(x,x) - k_xX (K + σ²I)⁻¹ k_Xx``.

        It is the posterior standard deviation of a Gaussian process, whether f was fitted as a process or by ridge
        regression with ``alpha = σ²``, and does not depend on the targets. For an interpolant it is also the worst
        error; for ridge regression that is smaller, see ``worst_error``. The first call factorises an n x n matrix and
        keeps the factor.

        Parameters
        ----------
        Z : array-like of shape (m, d)
            The points.
        noisy : bool, default=False
            Whether for a new observation with noise instead of f: the worst error in the RKHS of ``k + σ²δ``,
            which is ``√(k̄(x,x) + σ²)``, or ``√(k̄(x,x) + σ² - 2σ²w_i(x))`` if x is the training row x_i.

        Returns
        -------
        array of shape (m,)
            Never negative.
        """
        if not noisy:
            return self._worst_case(Z)
        white, first = self._white[1], {place: i for i, place in reversed(list(enumerate(_places(self.X))))}
        of_rows = np.broadcast_to(white + np.asarray(self.ridge), (len(self),))
        if (noise := self.noise) is None:
            raise ValueError("every row had noise of its own, so that of a new one is unknown; pass noisy=False.")

        def observed(squares: Any, weights: Any, rows: Any) -> Any:
            known = np.array([first.get(place, -1) for place in _places(rows)])
            at_row = of_rows[known] * (1.0 - 2.0 * weights[known, np.arange(known.size)])
            return squares + np.where(known < 0, white + noise, at_row)

        return self._worst_case(Z, observed)

    def worst_error(self, Z: Any) -> Array:
        """Return the worst error of the fit at some points, over all functions of norm at most one.

        With the weights ``w(x) = (K + σ²I)⁻¹ k_Xx`` of the fit,
        ``sup_{‖g‖≤1} |g(x) - Σ_i w_i(x) g(x_i)| = √(k̄(x,x) - σ²‖w(x)‖²)``. This equals the power function for an
        interpolant, and is less for ridge regression, whose weights allow for noise in the values.

        Parameters
        ----------
        Z : array-like of shape (m, d)
            The points.

        Returns
        -------
        array of shape (m,)
            Never negative.
        """
        white = self._white[1]

        def exact(squares: Any, weights: Any, rows: Any) -> Any:
            added = np.broadcast_to(white + np.asarray(self.ridge), (len(self),))
            return squares - np.einsum("ij,ij,i->j", weights, weights, added)

        return self._worst_case(Z, exact)

    def _worst_case(self, Z: Any, of: Callable[[Any, Any, Any], Any] | None = None) -> Array:
        """The square root of k̄(x, x) (m,), or of ``of(k̄, weights (n, m), points)``, by strips of points."""
        factor, signal, Z = self._factor, self._white[0], raw_rows(Z)
        out = np.empty(Z.shape[0])
        # Three float64 strips of K(Z, X) are alive during a solve.
        height = int(np.clip(memory_budget(self.memory) // (5 * 8 * len(self)), 1, 1024))
        for rows in spans(Z.shape[0], height):
            right = np.asarray(self._gram(Z[rows]).dense(), dtype=np.float64).T
            half = factor.half_solve(right)
            squares = np.asarray(signal.diag(wide(Z[rows])) - np.einsum("ij,ij->j", half, half))
            out[rows] = squares if of is None else of(squares, factor.solve(right), Z[rows])
        return np.sqrt(np.maximum(out, 0.0))

    @cached_property
    def _white(self) -> tuple[Kernel, float]:
        """k without its white noise, and the variance of that noise."""
        return signal_and_noise(self.kernel)

    @cached_property
    def _factor(self) -> Factor:
        if self.ridge is None:
            raise ValueError(
                "power() and worst_error() need the weights of a fit, and this function has none: take it from a "
                "fitted KernelRidge or KernelInterpolator without approximation or trend, or make it with ridge=."
            )
        A = self._gram().dense().astype(np.float64, copy=False)
        A[np.diag_indices_from(A)] += self.ridge
        return cholesky(A)


def fourier_norm(kernel: Kernel, values: ArrayLike, spacing: float | Sequence[float]) -> float:
    """Return the RKHS norm, for a stationary kernel, of a function on a regular grid, from its Fourier transform.

    ``‖f‖² = (2π)^(-d) ∫ |f̂(ω)|² / S(ω) dω`` with the unitary transform f̂ and the kernel's spectral density S, which is
    ``(2π)^(-d/2) ∫ |f̂|²/κ̂``. The integral is a sum over the frequencies of the grid, without those at which f̂ is at
    rounding level. For a function outside the RKHS the result grows without bound as the grid is refined.

    Parameters
    ----------
    kernel : Kernel
        A kernel with a spectral density.
    values : array-like of shape (n_1, ..., n_d)
        The function on the grid; it must decay to zero at the borders, as it counts as zero beyond them.
    spacing : float or sequence of d floats
        Distance between neighbouring grid points, one for all inputs or one each.

    Returns
    -------
    float
        The norm.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.kernels import Matern
    >>> from gramian.rkhs import Function, fourier_norm
    >>> f = Function(Matern(1.0, nu=1.5), [[-1.0], [0.5]], [1.0, -2.0])
    >>> grid = np.arange(-20.0, 20.0, 0.05)
    >>> round(f.norm(), 3), round(fourier_norm(f.kernel, f(grid[:, None]), 0.05), 3)
    (1.982, 1.982)
    """
    values = np.asarray(values, dtype=np.float64)
    d = values.ndim
    steps = np.broadcast_to(np.asarray(spacing, dtype=np.float64), (d,)) if d else np.zeros(0)
    if d == 0 or values.size < 2 or not np.all(np.isfinite(values)):
        raise ValueError(f"values must be finite numbers on a grid of two points or more; got shape {values.shape}.")
    if not np.all(np.isfinite(steps)) or np.any(steps <= 0):
        raise ValueError(f"spacing must be one number > 0, or one for each of {d} inputs; got {spacing!r}.")
    volume = float(np.prod(steps))
    transform = np.abs(np.fft.fftn(values)) * volume * (2.0 * np.pi) ** (-0.5 * d)
    each = [2.0 * np.pi * np.fft.fftfreq(n, h) for n, h in zip(values.shape, steps, strict=True)]
    keep = transform > 10.0 * np.finfo(np.float64).eps * np.sqrt(values.size) * transform.max(initial=0.0)
    index = np.nonzero(keep)
    density = kernel.spectral_density(np.column_stack([w[i] for w, i in zip(each, index, strict=True)]))
    with np.errstate(divide="ignore"):  # if S underflows and f̂ does not, the norm is infinite
        total = float(np.sum(transform[index] ** 2 / density))
    return float(np.sqrt(total / (values.size * volume)))


def _places(X: Any) -> list[Any]:
    """One hashable key per row, equal for equal rows; an unhashable object is equal only to itself."""
    if is_sparse(X):
        X = X.tocsr(copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
        ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        return [(X.indices[a:b].tobytes(), X.data[a:b].astype(np.float64).tobytes()) for a, b in ends]
    if X.dtype.kind not in "fiub":
        return [x if _hashable(x) else id(x) for x in X]
    return [row.tobytes() for row in np.asarray(X, dtype=np.float64) + 0.0]


def _hashable(x: Any) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


def _marked(ridge: float | Array | None) -> Array:
    return np.asarray(np.nan if ridge is None else ridge, dtype=np.float64)


def stacked(X: Any, Y: Any) -> Any:
    """Return the rows of X above those of Y."""
    if is_sparse(X) or is_sparse(Y):
        return sp.vstack([X, Y], format="csr")
    return np.concatenate([X, Y])
