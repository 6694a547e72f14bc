"""Kernels from user input: names, callables, scikit-learn's kernel objects."""

from __future__ import annotations

import math
from collections.abc import Callable as Fn
from collections.abc import Mapping
from functools import partial
from numbers import Number
from typing import Any

import numpy as np

from gramian.kernels.adapted import Adapted, remembering
from gramian.kernels.algebra import Constant, White
from gramian.kernels.base import Kernel
from gramian.kernels.conditional import refuse_conditional
from gramian.kernels.deserialize import known_kernels
from gramian.kernels.dot import Linear, Polynomial, Sigmoid
from gramian.kernels.histograms import AdditiveChi2, Chi2
from gramian.kernels.objects import Callable, Precomputed
from gramian.kernels.points import is_sparse, matmul
from gramian.kernels.power_distance import Laplace
from gramian.kernels.radial import RBF, Matern, Periodic, RationalQuadratic
from gramian.kernels.sobolev import Sobolev
from gramian.kernels.tunable import Bounds
from gramian.numerals import nearest
from gramian.resources import spans

SKLEARN = "sklearn.gaussian_process.kernels"
STRIP = 256
"""Rows processed at a time."""


def resolve(
    kernel: Any,
    X: Any = None,
    *,
    gamma: float | str | None = None,
    degree: float = 3,
    coef0: float = 1.0,
    params: Mapping[str, Any] | None = None,
    vectorized: bool = False,
    conditional: bool = False,
) -> Kernel:
    """Convert the argument ``kernel=`` of an estimator into a kernel.

    Parameters
    ----------
    kernel : Kernel, str, callable, or a kernel object of scikit-learn's Gaussian processes
        ``"rbf"``, ``"poly"`` or ``"polynomial"``, ``"linear"``, ``"laplacian"``, ``"sigmoid"``, ``"cosine"``,
        ``"chi2"``, ``"additive_chi2"``, ``"precomputed"`` as in scikit-learn; ``"gaussian"`` and ``"laplace"`` for
        ``"rbf"`` and ``"laplacian"``, ``"matern"`` (ν = 3/2) and ``"rational_quadratic"`` with the lengthscale of
        ``"rbf"``, ``"sobolev"``.
    X : array-like of shape (n, d), optional
        The training rows; needed for the default gamma.
    gamma : float, "scale", "auto" or None, default=None
        As in scikit-learn: ``"scale"`` is 1 / (d · var(X)), ``"auto"`` and ``None`` are 1 / d (1 for chi2).
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=1.0
        Offset of the polynomial and sigmoid kernels.
    params : mapping or None, default=None
        Further keyword arguments of a callable.
    vectorized : bool, default=False
        Whether a callable may take two matrices (as in scikit-learn's SVMs), which is tested by a call; otherwise it
        takes two rows (as in scikit-learn's KernelRidge).
    conditional : bool, default=False
        Whether to accept kernels that are only conditionally positive definite.

    Returns
    -------
    Kernel
        The kernel.

    Examples
    --------
    >>> from gramian.kernels import resolve
    >>> resolve("rbf", gamma=2.0)
    RBF(0.5)
    """
    if params and not callable(kernel):
        raise ValueError(f"kernel_params are arguments of a callable kernel, and kernel is {kernel!r}; leave them out.")
    if isinstance(kernel, Kernel):
        if kernel.conditional_order and not conditional:
            refuse_conditional(kernel)
        return kernel
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        raise TypeError(f"kernel must be a value, got the class {kernel.__name__}; write {kernel.__name__}().")
    if isinstance(kernel, str):
        if kernel not in _NAMED:
            raise ValueError(f"unknown kernel {kernel!r}; {nearest(kernel, [*_NAMED, *known_kernels()])}")
        return _NAMED[kernel](lambda default=None: resolve_gamma(gamma, X, default), degree, coef0)
    if _is_sklearn(kernel):
        return from_sklearn(kernel, np.shape(X)[1] if np.ndim(X) == 2 else None)
    if callable(kernel):
        f = partial(kernel, **params) if params else kernel
        return Callable(f, vectorized and (X is None or _takes_matrices(f, X)))
    raise TypeError(f"kernel must be a Kernel, a name, or a callable; got {kernel!r} of type {type(kernel).__name__}.")


def as_kernel(kernel: Any, X: Any) -> Kernel:
    """Like ``resolve``, but return a kernel object unchanged even if it is not positive definite."""
    return kernel if isinstance(kernel, Kernel) else resolve(kernel, X)


def _takes_matrices(f: Any, X: Any) -> bool:
    """Tell, by calling it on a few rows, whether a function takes two sets of rows rather than two objects."""
    try:
        return len(getattr(f(X[:3], X[:2]), "shape", ())) == 2  # a wrong shape raises an error later
    except Exception:  # a function of two objects may fail on matrices in any way
        return False


def names() -> list[str]:
    """Return the names that ``resolve`` knows."""
    return sorted(_NAMED)


def resolve_gamma(gamma: float | str | None, X: Any, default: float | None = None, weights: Any = None) -> float:
    """Return gamma as a number, by scikit-learn's rules: X (n, d), weights (n,)."""
    if gamma is None and default is not None:
        return default
    if gamma is None or isinstance(gamma, str):
        if gamma not in (None, "auto", "scale"):
            raise ValueError(f"gamma must be 'scale', 'auto' or a number >= 0, got {gamma!r}.")
        if X is None:
            raise ValueError(f"gamma={gamma!r} depends on the data; pass X or a number.")
        return scale_gamma(X, weights) if gamma == "scale" else 1.0 / float(np.shape(X)[1])
    if not 0 <= float(gamma) < math.inf:
        raise ValueError(f"gamma must be finite and >= 0, got {gamma!r}.")
    return float(gamma)


def scale_gamma(X: Any, weights: Any = None) -> float:
    """Return the value of ``gamma="scale"``: 1 / (d · variance of all entries of X). X (n, d), weights (n,)."""
    X = X if is_sparse(X) else np.asarray(X)
    d = X.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        variance = _variance(X, weights)
    if not math.isfinite(variance):
        raise ValueError("gamma='scale' is 1 / (d · variance of X), and this variance overflows; rescale X.")
    return 1.0 / (d * variance) if variance > 0 else 1.0


def _variance(X: Any, weights: Any) -> float:
    """The variance in two passes, accurate for rows far from zero."""
    n, d = X.shape
    share = np.ones(n) / (n * d) if weights is None else np.asarray(weights) / (np.sum(weights) * d)
    if not is_sparse(X):
        # By strips that fit the CPU cache, so that X is never copied as a whole.
        strips = spans(n, STRIP)
        mean = sum(float(np.sum(share[s] @ X[s].astype(np.float64, copy=False))) for s in strips)
        return sum(float(np.sum(share[s] @ (X[s] - mean) ** 2)) for s in strips)
    mean = float(np.sum(share @ X.astype(np.float64, copy=False)))
    squares = X.tocsr().astype(np.float64, copy=True)
    squares.data = (squares.data - mean) ** 2
    zeros = d - np.diff(squares.indptr)
    return float(np.sum(share @ squares) + mean**2 * np.sum(share * zeros))


def _poly(gamma: Fn[..., float], degree: float, coef0: float) -> Kernel:
    if coef0 < 0:
        raise ValueError(f"coef0 must be >= 0 for the polynomial kernel to be a kernel, got {coef0!r}.")
    if degree == 0:
        return Constant(1.0)
    value = gamma()
    if degree % 1:  # defined, and a kernel, only if γ xᵀz + c is never negative
        return Callable(partial(_real_power, gamma=value, coef0=coef0, degree=degree), vectorized=True)
    return Polynomial(degree, value, coef0) if value > 0 else Constant(coef0**degree)  # type: ignore[arg-type]


def _real_power(X: Any, Y: Any, gamma: float, coef0: float, degree: float) -> Any:
    with np.errstate(invalid="ignore"):
        return (gamma * matmul(X, Y.T) + coef0) ** degree


def _of_gamma(make: Fn[[float], Kernel]) -> _Maker:
    """The maker of a kernel with a gamma; for gamma = 0, the constant kernel."""

    def made(gamma: Fn[..., float], degree: float, coef0: float) -> Kernel:
        value = gamma()
        return make(value) if value > 0 else Constant(1.0)

    return made


WITH_GAMMA = (
    *("rbf", "gaussian", "poly", "polynomial", "laplacian", "laplace", "sigmoid", "chi2"),
    *("matern", "rational_quadratic"),
)
"""Names of kernels that have a gamma."""
_Maker = Fn[[Fn[..., float], float, float], Kernel]
_NAMED: dict[str, _Maker] = {
    "rbf": _of_gamma(lambda gamma: RBF(1.0 / math.sqrt(2.0 * gamma))),
    "matern": _of_gamma(lambda gamma: Matern(1.0 / math.sqrt(2.0 * gamma))),
    "rational_quadratic": _of_gamma(lambda gamma: RationalQuadratic(1.0 / math.sqrt(2.0 * gamma))),
    "sobolev": lambda gamma, degree, coef0: Sobolev(),
    "poly": _poly,
    "polynomial": _poly,
    "laplacian": _of_gamma(lambda gamma: Laplace(1.0 / gamma)),
    "sigmoid": lambda gamma, degree, coef0: Sigmoid(gamma(), float(coef0)),
    "linear": lambda gamma, degree, coef0: Linear(),
    "cosine": lambda gamma, degree, coef0: Linear().normalized(),
    "chi2": lambda gamma, degree, coef0: Chi2(gamma(1.0)),
    "additive_chi2": lambda gamma, degree, coef0: AdditiveChi2(),
    "precomputed": lambda gamma, degree, coef0: Precomputed(),
}
_NAMED |= {"gaussian": _NAMED["rbf"], "laplace": _NAMED["laplacian"]}


# ---- scikit-learn's kernel objects --------------------------------------------------------------------------------


def _is_sklearn(kernel: Any) -> bool:
    """Whether it is a scikit-learn kernel or a subclass, without importing their module, which is slow."""
    return any(cls.__module__ == SKLEARN for cls in type(kernel).__mro__)


def from_sklearn(kernel: Any, d: int | None = None) -> Kernel:
    """Translate a kernel of ``sklearn.gaussian_process.kernels`` with its bounds; wrap it if it has no translation."""
    name = type(kernel).__name__
    if name == "CompoundKernel":
        raise ValueError("kernel cannot be a CompoundKernel, which is a list of kernels, one per class; pass one.")
    if type(kernel).__module__ != SKLEARN or name not in _TRANSLATED or _unlike(kernel):
        return Adapted(kernel)
    return _TRANSLATED[name](kernel, d)


def _unlike(kernel: Any) -> bool:
    """Whether it has no equivalent here: lengthscales with different bounds, or a power that is not an integer."""
    bounds = np.asarray(getattr(kernel, "length_scale_bounds", ()))
    return (bounds.ndim == 2 and np.ptp(bounds, axis=0).any()) or getattr(kernel, "exponent", 1) % 1 != 0


def _bounds(bounds: Any) -> Bounds:
    if isinstance(bounds, str):
        return bounds
    low, high = np.atleast_2d(bounds)[0]
    return float(low), float(high)


def _dot_product(kernel: Any, d: int | None) -> Kernel:
    bounds = _bounds(kernel.sigma_0_bounds)
    squared = bounds if isinstance(bounds, str) else (bounds[0] ** 2, bounds[1] ** 2)
    return Linear() + Constant(kernel.sigma_0**2, squared)


def _exp_sine_squared(kernel: Any, d: int | None) -> Kernel:
    if d is None:
        raise ValueError("ExpSineSquared is a kernel for one input only; pass X, so that this can be checked.")
    if d > 1:
        raise ValueError(
            f"ExpSineSquared of the Euclidean distance is not positive semi-definite for {d} inputs; "
            "use gramian's Periodic, which multiplies one periodic kernel per input."
        )
    bounds = _bounds(kernel.length_scale_bounds), _bounds(kernel.periodicity_bounds)
    return Periodic(kernel.length_scale, kernel.periodicity, *bounds)


def _pairwise(kernel: Any, d: int | None) -> Kernel:
    params = dict(kernel.pairwise_kernels_kwargs or {})
    if callable(kernel.metric):
        return resolve(kernel.metric, params={"gamma": kernel.gamma, **params})
    known = {name: params.pop(name) for name in ("degree", "coef0") if name in params}
    ours = resolve(kernel.metric, gamma=kernel.gamma, params=params, **known).fix()
    if ours.name not in _GAMMA:
        return ours
    # Only gamma is learned there; here it may have another name, and be the inverse.
    name, inverse = _GAMMA[ours.name]
    bounds = _bounds(kernel.gamma_bounds)
    own = bounds if isinstance(bounds, str) else tuple(sorted(inverse(b) for b in bounds))
    return ours.with_fields({f"{name}_bounds": own})


_GAMMA: dict[str, tuple[str, Fn[[float], float]]] = {
    "RBF": ("lengthscale", lambda gamma: 1.0 / math.sqrt(2.0 * gamma)),
    "Laplace": ("lengthscale", lambda gamma: 1.0 / gamma),
    "Polynomial": ("scale", lambda gamma: gamma),
    "Sigmoid": ("scale", lambda gamma: gamma),
    "Chi2": ("gamma", lambda gamma: gamma),
}


_TRANSLATED: dict[str, Fn[[Any, int | None], Kernel]] = {
    "RBF": lambda k, d: RBF(k.length_scale, _bounds(k.length_scale_bounds)),
    "Matern": lambda k, d: Matern(k.length_scale, k.nu, _bounds(k.length_scale_bounds)),
    "RationalQuadratic": lambda k, d: RationalQuadratic(
        k.length_scale, k.alpha, _bounds(k.length_scale_bounds), _bounds(k.alpha_bounds)
    ),
    "ExpSineSquared": _exp_sine_squared,
    "DotProduct": _dot_product,
    "ConstantKernel": lambda k, d: Constant(k.constant_value, _bounds(k.constant_value_bounds)),
    "WhiteKernel": lambda k, d: White(k.noise_level, _bounds(k.noise_level_bounds)),
    "Sum": lambda k, d: from_sklearn(k.k1, d) + from_sklearn(k.k2, d),
    "Product": lambda k, d: from_sklearn(k.k1, d) * from_sklearn(k.k2, d),
    "Exponentiation": lambda k, d: from_sklearn(k.kernel, d) ** k.exponent,
    "PairwiseKernel": _pairwise,
}


def like_given(kernel: Kernel, given: Any) -> Kernel:
    """Return a learned kernel that also has scikit-learn's attributes (``k1``, ``get_params``) if theirs was given."""
    return remembering(kernel, given) if _is_sklearn(given) else kernel


def is_precomputed(kernel: Any) -> bool:
    """Tell whether X will be a Gram matrix: for ``Precomputed`` or an expression that contains it."""
    if isinstance(kernel, Kernel):
        return isinstance(kernel, Precomputed) or any(map(is_precomputed, kernel.children))
    return isinstance(kernel, str) and kernel == "precomputed"


def holds_objects(kernel: Any, X: Any) -> bool:
    """Tell whether X is a sequence of objects rather than rows of numbers, and the kernel may accept objects."""
    if isinstance(kernel, str) or is_sparse(X) or hasattr(X, "columns") or getattr(X, "ndim", 1) != 1:
        return False
    if hasattr(X, "dtype") and not isinstance(X, np.ndarray):
        # A series of pandas, whose index need not contain 0, or of polars.
        X = np.asarray(X, dtype=object)
    if not isinstance(X, list | tuple | np.ndarray) or len(X) == 0:
        return False
    first = X[0]
    return not isinstance(first, Number | list | tuple | np.ndarray)
