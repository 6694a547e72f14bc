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
    "copy",
    "exp",
    "is_foreign",
    "is_sparse",
    "matmul",
    "maximum",
    "minimum",
    "multiply",
    "namespace",
    "power",
    "result_dtype",
    "sqrt",
    "store",
    "tanh",
    "through_numpy",
]

Array = Any  # an array of any array-API namespace, or a SciPy CSR matrix where a docstring says so


def is_sparse(a: Any) -> bool:
    """Tell whether ``a`` is a SciPy sparse matrix or array.

    Parameters
    ----------
    a : object
        Anything.

    Returns
    -------
    bool
        The answer.
    """
    return sp.issparse(a)


def is_foreign(a: Any) -> bool:
    """Tell whether ``a`` is an array-API array of another library than NumPy.

    Parameters
    ----------
    a : object
        Anything.

    Returns
    -------
    bool
        The answer.
    """
    if isinstance(a, np.ndarray | np.generic | list | tuple | str) or is_sparse(a):
        return False
    try:
        return not is_numpy_array(a) and array_namespace(a) is not None
    except TypeError:
        return False


def namespace(a: Array) -> Any:
    """Return the array-API namespace of an array.

    Parameters
    ----------
    a : array
        An array; a sparse matrix counts as NumPy's.

    Returns
    -------
    module
        The namespace.
    """
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
sqrt = _unary("sqrt")
tanh = _unary("tanh")
add = _binary("add", "__add__")
multiply = _binary("multiply", "__mul__")
power = _binary("power", "__pow__")


def maximum(a: Array, floor: float) -> Array:
    """Return ``max(a, floor)`` for a number ``floor``, in place on a NumPy array.

    Parameters
    ----------
    a : array
        The array.
    floor : float
        The least value.

    Returns
    -------
    array
        The result.
    """
    if isinstance(a, np.ndarray):
        return np.maximum(a, floor, out=a)
    xp = namespace(a)
    return xp.where(a < floor, xp.asarray(floor, dtype=a.dtype), a)


def minimum(a: Array, b: Array) -> Array:
    """Return the elementwise minimum of two arrays, in place on a NumPy array.

    Parameters
    ----------
    a, b : array
        Arrays of one shape.

    Returns
    -------
    array
        The result.
    """
    if isinstance(a, np.ndarray):
        return np.minimum(a, b, out=a)
    return namespace(a).where(a < b, a, b)


def matmul(a: Array, b: Array, out: Array | None = None) -> Array:
    """Return ``a @ b``, densely, into ``out`` where NumPy can write there.

    Parameters
    ----------
    a, b : array or CSR
        The factors.
    out : array or None
        Where to write.

    Returns
    -------
    array
        The product.
    """
    if is_sparse(a) or is_sparse(b):
        product = a @ b
        return store(product.toarray() if is_sparse(product) else np.asarray(product), out)
    if isinstance(a, np.ndarray) and out is not None and out.dtype == a.dtype == b.dtype:
        return np.matmul(a, b, out=out)
    return store(namespace(a).matmul(a, b), out)


def store(value: Array, out: Array | None) -> Array:
    """Return ``value``, moved into ``out`` where there is one.

    Parameters
    ----------
    value : array
        What was computed.
    out : array or None
        Where the caller wants it.

    Returns
    -------
    array
        ``out``, or ``value`` itself.
    """
    if out is None or out is value:
        return value
    out[...] = value if isinstance(out, np.ndarray) else namespace(out).astype(value, out.dtype)
    return out


def copy(a: Array) -> Array:
    """Return a copy that the arithmetic of this module may overwrite.

    Parameters
    ----------
    a : array
        The array.

    Returns
    -------
    array
        The copy; an array of another namespace, which is never overwritten, is returned as it is.
    """
    return a.copy() if isinstance(a, np.ndarray) else a


def asarray(values: Any, like: Array, dtype: Any = None) -> Array:
    """Return ``values`` as an array in the namespace, and by default the dtype, of ``like``.

    Parameters
    ----------
    values : array-like
        Numbers.
    like : array
        Whose namespace and device.
    dtype : dtype or None
        The dtype; that of ``like`` by default.

    Returns
    -------
    array
        The array.
    """
    xp = namespace(like)
    if xp is np:
        return np.asarray(values, dtype=dtype or like.dtype)
    return xp.asarray(values, dtype=dtype or like.dtype, device=like.device)


def result_dtype(*arrays: Array) -> Any:
    """Return the dtype that the arrays promote to.

    Parameters
    ----------
    *arrays : array
        Arrays of one namespace.

    Returns
    -------
    dtype
        The common dtype.
    """
    dtypes = [a.dtype for a in arrays]
    return dtypes[0] if len(set(dtypes)) == 1 else namespace(arrays[0]).result_type(*dtypes)


def through_numpy(f: Callable[[Any], Any], a: Array) -> Array:
    """Return ``f(a)`` for a function that only NumPy arrays know.

    Parameters
    ----------
    f : callable
        From a NumPy array to one of the same shape.
    a : array
        The argument.

    Returns
    -------
    array
        The result, in the namespace of ``a``.
    """
    if isinstance(a, np.ndarray):
        return f(a)
    return asarray(f(np.asarray(a)), a)
