"""Arithmetic in the namespace of the arrays, in place where they are NumPy's.

A kernel writes ``t = exp(t)`` once. On a NumPy tile that reuses the tile's memory; on any other array-API array
(array-api-strict, torch, CuPy) it is the namespace's own function. The tile must be the caller's to overwrite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, is_numpy_array

__all__ = [
    "Array",
    "add",
    "asarray",
    "check_out",
    "check_range",
    "copy",
    "divide",
    "exp",
    "is_foreign",
    "is_sparse",
    "log1p",
    "matmul",
    "maximum",
    "minimum",
    "multiply",
    "namespace",
    "power",
    "sqrt",
    "squared_norms",
    "store",
    "subtract",
    "tanh",
    "through_numpy",
]

Array = Any  # an array of any array-API namespace, or a SciPy CSR matrix where a docstring says so


def is_sparse(a: Any) -> bool:
    """Tell whether ``a`` is a SciPy sparse matrix or array."""
    return sp.issparse(a)


def is_foreign(a: Any) -> bool:
    """Tell whether ``a`` is an array-API array of another library than NumPy."""
    if isinstance(a, np.ndarray | np.generic | list | tuple | str) or is_sparse(a):
        return False
    try:
        return not is_numpy_array(a) and array_namespace(a) is not None
    except TypeError:
        return False


def namespace(a: Array) -> Any:
    """Return the array-API namespace of an array."""
    return np if isinstance(a, np.ndarray) or is_sparse(a) else array_namespace(a)


def _unary(name: str) -> Callable[[Array], Array]:
    ufunc = getattr(np, name)

    def apply(a: Array) -> Array:
        if isinstance(a, np.ndarray):
            return ufunc(a, out=a)
        return getattr(namespace(a), name)(a)

    apply.__name__ = name
    apply.__doc__ = f"Return ``{name}(a)``, in place on a NumPy array."
    return apply


def _binary(name: str, operator: str) -> Callable[[Array, Any], Array]:
    ufunc = getattr(np, name)

    def apply(a: Array, b: Any) -> Array:
        if isinstance(a, np.ndarray):
            return ufunc(a, b, out=a)
        return getattr(a, operator)(b)

    apply.__name__ = name
    apply.__doc__ = f"Return ``{name}(a, b)``, in place on a NumPy array."
    return apply


exp = _unary("exp")
log1p = _unary("log1p")
sqrt = _unary("sqrt")
tanh = _unary("tanh")
add = _binary("add", "__add__")
multiply = _binary("multiply", "__mul__")
power = _binary("power", "__pow__")
subtract = _binary("subtract", "__sub__")
divide = _binary("divide", "__truediv__")


def squared_norms(a: Array) -> Array:
    """Return the sum of squares of every row, in float64: a (n, d) → (n,)."""
    if isinstance(a, np.ndarray):
        return np.einsum("ij,ij->i", a, a, dtype=np.float64)
    xp = namespace(a)
    return xp.sum(xp.astype(a, xp.float64) ** 2, axis=1)


def maximum(a: Array, floor: float) -> Array:
    """Return ``max(a, floor)`` for a number ``floor``, in place on a NumPy array."""
    if isinstance(a, np.ndarray):
        return np.maximum(a, floor, out=a)
    xp = namespace(a)
    return xp.where(a < floor, xp.asarray(floor, dtype=a.dtype), a)


def minimum(a: Array, b: Array) -> Array:
    """Return the elementwise minimum of two arrays, in place on a NumPy array."""
    if isinstance(a, np.ndarray):
        return np.minimum(a, b, out=a)
    return namespace(a).where(a < b, a, b)


def matmul(a: Array, b: Array, out: Array | None = None) -> Array:
    """Return ``a @ b``, densely, into ``out`` where NumPy can write there."""
    if is_sparse(a) or is_sparse(b):
        product = a @ b
        return store(product.toarray() if is_sparse(product) else np.asarray(product), out)
    if isinstance(a, np.ndarray) and out is not None and out.dtype == a.dtype == b.dtype:
        return np.matmul(a, b, out=out)
    return store(namespace(a).matmul(a, b), out)


def check_out(out: Array | None, shape: tuple[int, int]) -> Array | None:
    """Check an array that a user wants a tile written to."""
    if out is not None:
        if tuple(out.shape) != shape:
            raise ValueError(f"out must have shape {shape}, got {tuple(out.shape)}.")
        if not namespace(out).isdtype(out.dtype, "real floating"):
            raise TypeError(f"out must be float32 or float64, got {out.dtype}, which would cut off the values.")
    return out


def store(value: Array, out: Array | None) -> Array:
    """Return ``value``, moved into ``out`` where there is one."""
    if out is None or out is value:
        return value
    out[...] = value if isinstance(out, np.ndarray) else namespace(out).astype(value, out.dtype)
    return out


def check_range(who: object, f: Callable[[Array], Array], inside: Array) -> None:
    """Refuse rows on which a function of non-negative values overflows: inside (n,)."""
    xp = namespace(inside)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = bool(xp.all(xp.isfinite(f(xp.reshape(xp.max(inside), (1,))))))
    if not finite:
        raise ValueError(
            f"{who!r} overflows {inside.dtype} on these rows: what it is a function of reaches "
            f"{float(xp.max(inside)):.3g}; scale the rows down, or normalise what is inside."
        )


def copy(a: Array) -> Array:
    """Return a copy that the arithmetic of this module may overwrite."""
    return a.copy() if isinstance(a, np.ndarray) else a


def asarray(values: Any, like: Array, dtype: Any = None) -> Array:
    """Return ``values`` as an array in the namespace, and by default the dtype, of ``like``."""
    xp = namespace(like)
    if xp is np:
        return np.asarray(values, dtype=dtype or like.dtype)
    return xp.asarray(values, dtype=dtype or like.dtype, device=like.device)


def through_numpy(f: Callable[[Any], Any], a: Array) -> Array:
    """Return ``f(a)`` for a function that only NumPy arrays know."""
    if isinstance(a, np.ndarray):
        return f(a)
    return asarray(f(np.asarray(a)), a)
