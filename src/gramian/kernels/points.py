"""Rows prepared for tiles, validated once and then sliced; and arithmetic in the namespace of their arrays.

A kernel writes ``t = exp(t)`` once. On a NumPy tile that reuses the tile's memory; on any other array-API array
(array-api-strict, torch, CuPy) it is the namespace's own function. The caller must own the tile, as it is overwritten.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, is_numpy_array, is_torch_array
from numpy.typing import NDArray
from sklearn.utils import check_array

Array = Any  # an array of any array-API namespace, or a SciPy CSR matrix where a docstring says so
Method = TypeVar("Method", bound=Callable[..., Any])


def is_sparse(a: Any) -> bool:
    """Tell whether ``a`` is a SciPy sparse matrix or array."""
    return sp.issparse(a)


def dense(a: Any, dtype: Any = None) -> Array:
    """Return an array, or a sparse matrix as an array; with a dtype, in NumPy."""
    a = a.toarray() if is_sparse(a) else a
    return a if dtype is None else np.asarray(a, dtype=dtype)


def is_foreign(a: Any) -> bool:
    """Tell whether ``a`` is an array-API array of another library than NumPy."""
    if isinstance(a, np.ndarray | np.generic | list | tuple | str) or is_sparse(a):
        return False
    try:
        return not is_numpy_array(a) and array_namespace(a) is not None
    except TypeError:
        return False


def foreign_rows_by(convert: Callable[..., Any], method: Method) -> Method:
    """Let ``convert(method, self, X, ...)`` take the calls of a method whose rows are arrays of another library."""

    @functools.wraps(method)
    def called(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not is_foreign(X) or hasattr(X, "dask"):  # Dask collections are read by blocks
            return method(self, X, *args, **options)
        return convert(method, self, X, *args, **options)

    return cast(Method, called)


def namespace(a: Array) -> Any:
    """Return the array-API namespace of an array."""
    return np if isinstance(a, np.ndarray) or is_sparse(a) else array_namespace(a)


CLAMPS = {"maximum": "clamp_min", "minimum": "clamp_max"}
"""torch's names for them if one argument is a number."""


def _in_place(name: str) -> Callable[..., Array]:
    """NumPy's function, overwriting its first argument; for other arrays, the function of their namespace."""
    ufunc = getattr(np, name)

    def apply(a: Array, *b: Any) -> Array:
        """Apply it to an array and further arguments."""
        if isinstance(a, np.ndarray):
            return ufunc(a, *b, out=a)
        if is_torch_array(a) and all(isinstance(c, float | int) for c in b):  # its methods take Python numbers
            return getattr(a, CLAMPS.get(name, name))(*b)
        return getattr(namespace(a), name)(a, *(asarray(c, a) for c in b))

    return apply


exp = _in_place("exp")
log = _in_place("log")
log1p = _in_place("log1p")
sqrt = _in_place("sqrt")
tanh = _in_place("tanh")
add = _in_place("add")
multiply = _in_place("multiply")
power = _in_place("pow")
subtract = _in_place("subtract")
divide = _in_place("divide")
maximum = _in_place("maximum")
minimum = _in_place("minimum")


def inner(a: Array, b: Array) -> float:
    """Return Σ a b over all entries."""
    return float(np.vdot(a, b) if isinstance(a, np.ndarray) else namespace(a).sum(a * b))


def weighted(a: Array, W: Array) -> Array:
    """Return a W entry by entry, in the dtype of W; may overwrite a."""
    return multiply(a, W) if a.dtype == W.dtype else a * W


def squared_norms(a: Array) -> Array:
    """Return the sum of squares of every row, in float64: a (n, d) → (n,)."""
    if isinstance(a, np.ndarray):
        return np.einsum("ij,ij->i", a, a, dtype=np.float64)
    xp = namespace(a)
    return xp.sum(xp.astype(a, xp.float64) ** 2, axis=1)


def matmul(a: Array, b: Array, out: Array | None = None) -> Array:
    """Return ``a @ b`` as a dense array, in ``out`` if NumPy can write there."""
    if is_sparse(a) or is_sparse(b):
        return store(np.asarray(dense(a @ b)), out)
    if isinstance(a, np.ndarray) and out is not None and out.dtype == a.dtype == b.dtype:
        return np.matmul(a, b, out=out)
    return store(namespace(a).matmul(a, b), out)


def check_out(out: Array | None, shape: tuple[int, int]) -> Array | None:
    """Check an array that a user wants a tile written to."""
    if out is not None:
        if tuple(out.shape) != shape:
            raise ValueError(f"out must have shape {shape}, got {tuple(out.shape)}.")
        if not namespace(out).isdtype(out.dtype, "real floating"):
            raise TypeError(f"out must be float32 or float64, got {out.dtype}, which cannot hold the values.")
    return out


def store(value: Array, out: Array | None) -> Array:
    """Return ``value``, copied to ``out`` if given."""
    if out is None or out is value:
        return value
    out[...] = value if isinstance(out, np.ndarray) else namespace(out).astype(value, out.dtype)
    return out


def check_range(who: object, f: Callable[[Array], Array], inside: Array) -> None:
    """Raise an error if f overflows at the given non-negative values: inside (n,)."""
    xp = namespace(inside)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = bool(xp.all(xp.isfinite(f(xp.reshape(xp.max(inside), (1,))))))
    if not finite:
        raise ValueError(
            f"{who!r} overflows {inside.dtype} on these rows: its argument reaches {float(xp.max(inside)):.3g} "
            f"in row {int(xp.argmax(inside))}; scale it down, or normalise the inner kernel."
        )


def copy(a: Array) -> Array:
    """Return a copy that the arithmetic of this module may overwrite."""
    return a.copy() if isinstance(a, np.ndarray) else a


def asarray(values: Any, like: Array, dtype: Any = None) -> Array:
    """Return ``values`` as an array in the namespace, and by default the dtype, of ``like``."""
    xp = namespace(like)
    if xp is np:
        return np.asarray(values, dtype=dtype or like.dtype)
    if isinstance(values, float | int):  # filled on the device: a copy from the host would wait for its queue
        return xp.full((), values, dtype=dtype or like.dtype, device=like.device)
    return xp.asarray(values, dtype=dtype or like.dtype, device=like.device)


def through_numpy(f: Callable[[Any], Any], a: Array) -> Array:
    """Return ``f(a)`` for a function that accepts only NumPy arrays."""
    if isinstance(a, np.ndarray):
        return f(a)
    return asarray(f(to_numpy(a)), a)


def to_numpy(a: Array) -> NDArray[Any]:
    """Return an array of any library and device as a NumPy array."""
    return a.cpu().numpy() if is_torch_array(a) else np.asarray(a)


Ids = range | NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Points:
    """Rows prepared for a kernel's tiles; slicing it slices the rows."""

    parts: tuple[Any, ...]  # Containers with one entry per row: arrays, CSR matrices, lists of objects
    ids: Ids  # The identity of each row
    children: tuple[Points, ...] = ()  # The same rows, as prepared by the operands of a compound kernel

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: Any) -> Points:
        unit = isinstance(rows, slice) and rows.step in (None, 1)
        ids = self.ids[rows] if unit else _picked(self.ids, rows)
        return Points(
            tuple(None if part is None else part[rows] for part in self.parts),
            ids,
            tuple(child[rows] for child in self.children),
        )


def _picked(ids: Ids, rows: Any) -> NDArray[np.intp]:
    """The ids of some rows, without expanding a long range for a few of them."""
    if isinstance(ids, range) and isinstance(rows, np.ndarray) and rows.dtype.kind == "i" and ids.step == 1:
        return np.asarray(ids.start + np.where(rows < 0, rows + len(ids), rows), dtype=np.intp)
    return np.asarray(ids)[rows]


def paired(left: tuple[Any, ...], right: tuple[Any, ...], same: bool) -> tuple[Points, Points]:
    """Make both sides of a tile from their prepared parts; with ``same``, the columns are the rows."""
    n, m = left[0].shape[0], right[0].shape[0]
    return Points(left, range(n)), Points(right, range(n) if same else range(-m, 0))


def same_pairs(A: Points, B: Points) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """Return the indices (i, j) at which row i of A and row j of B are the same object."""
    a, b = A.ids, B.ids
    if isinstance(a, range) and isinstance(b, range):
        common = np.arange(max(a.start, b.start), min(a.stop, b.stop))
        rows, columns = common - a.start, common - b.start
    elif isinstance(b, range):
        rows, columns = _positions(np.asarray(a), b)
    elif isinstance(a, range):
        columns, rows = _positions(b, a)
    else:
        rows, columns = _matches(a, b)
    return (rows, columns) if rows.size else None


def _positions(ids: NDArray[np.intp], span: range) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    (rows,) = np.nonzero((ids >= span.start) & (ids < span.stop))
    return rows, ids[rows] - span.start


def _matches(a: NDArray[np.intp], b: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """All (i, j) with a_i = b_j, by sorting; comparing all pairs would cost as much as the tile itself."""
    order = np.argsort(b, kind="stable")
    ranked = b[order]
    first, last = np.searchsorted(ranked, a, "left"), np.searchsorted(ranked, a, "right")
    counts = last - first
    rows = np.repeat(np.arange(a.size), counts)
    within = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows, order[np.repeat(first, counts) + within]


def put(K: Array, rows: NDArray[np.intp], columns: NDArray[np.intp], values: Array) -> Array:
    """Write values, one per row of a tile, at some of its entries; in place where the array allows."""
    if is_torch_array(K):
        if _is_run(rows) and _is_run(columns):  # no index array has to be copied to the device
            own = slice(int(rows[0]), int(rows[-1]) + 1)
            K[own, int(columns[0]) : int(columns[-1]) + 1].diagonal()[:] = values[own]
        else:
            K[rows, columns] = values[rows]
        return K
    tile = K if isinstance(K, np.ndarray) else np.array(np.asarray(K))
    tile[rows, columns] = np.asarray(values)[rows]
    return asarray(tile, K)


def _is_run(index: NDArray[np.intp]) -> bool:
    """Whether indices are consecutive."""
    return bool(index[-1] - index[0] == index.size - 1 and np.all(np.diff(index) == 1))


def pick(K: Array, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Array:
    """Return some entries of a tile."""
    return K[rows, columns] if is_torch_array(K) else np.asarray(K)[rows, columns]


def is_finite_table(X: Any) -> bool:
    """Tell whether X is a NumPy array of rows of finite floating-point numbers, as far as their sum shows."""
    if type(X) is not np.ndarray or X.dtype.char not in "df" or X.ndim != 2 or not X.size:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(X.sum()))


def vectors(X: Any, *, kernel: str, name: str = "X", sparse: bool = False) -> Array:
    """Check rows of numbers: X (n, d)."""
    if is_foreign(X):
        return _foreign(X, kernel, name)
    if is_sparse(X) and not sparse:
        raise TypeError(f"{kernel} takes dense {name}, got a sparse matrix; pass {name}.toarray().")
    if is_finite_table(X):
        return X
    try:
        kinds: Any = {"accept_sparse": "csr" if sparse else False, "dtype": [np.float64, np.float32]}
        return check_array(X, input_name=name, estimator=kernel, **kinds)
    except (ValueError, TypeError) as error:
        if _holds_text(X):
            raise TypeError(
                f"{kernel} compares rows of numbers, but {name} holds text; encode the columns as numbers, "
                "or use Spectrum or WordCount for strings."
            ) from error
        if (axes := _axes(X)) is not None:
            instead = ("[[x]]", "np.reshape(x, (-1, 1)) for n numbers, [x] for one row")[axes]
            raise ValueError(
                f"Expected 2D array, got {('scalar', '1D')[axes]} array instead: {kernel} compares rows, so {name} "
                f"must have shape (n, d); pass {instead}."
            ) from None
        raise


def _axes(X: Any) -> int | None:
    """The number of axes of a number or a list of numbers; None for anything else."""
    if isinstance(X, Real):
        return 0
    one = isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(x, Real) for x in X)
    return 1 if one else getattr(X, "ndim", 2) if getattr(X, "ndim", 2) < 2 else None


def _foreign(X: Array, kernel: str, name: str) -> Array:
    xp = namespace(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"{kernel} expects 2-D {name} with at least one row and column, got shape {tuple(X.shape)}.")
    if not xp.isdtype(X.dtype, "real floating"):
        X = xp.astype(X, xp.float64)
    if not bool(xp.all(xp.isfinite(X))):
        raise ValueError(f"{name} contains NaN or infinity; {kernel} needs finite numbers.")
    return X


def _holds_text(X: Any) -> bool:
    if is_sparse(X) or getattr(getattr(X, "dtype", None), "kind", "O") in "fiubc":
        return False
    head = X[:100] if hasattr(X, "__getitem__") and hasattr(X, "__len__") else X
    return any(isinstance(value, str | bytes) for value in np.asarray(head, dtype=object).ravel())


def pair_of_vectors(X: Any, Y: Any, *, kernel: str, sparse: bool = False) -> tuple[Array, Array]:
    """Check two sets of rows against each other; ``None`` for Y is X itself: X (n, d), Y (m, d)."""
    X = vectors(X, kernel=kernel, sparse=sparse)
    if Y is None:
        return X, X
    Y = vectors(Y, kernel=kernel, name="Y", sparse=sparse)
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"X and Y must have the same number of columns, got {X.shape[1]} and {Y.shape[1]}; "
            "pass rows measured by the same features."
        )
    if X.dtype != Y.dtype:
        xp = namespace(X)
        wide = xp.result_type(X.dtype, Y.dtype)
        X, Y = (a.astype(wide) if is_sparse(a) else xp.asarray(a, dtype=wide) for a in (X, Y))
    return X, Y


def objects(X: Any, *, kernel: str, name: str = "X", kind: type = object) -> NDArray[Any]:
    """Check a sequence of Python objects."""
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise TypeError(f"{kernel} expects a sequence of objects, got {name} of type {type(X).__name__}; pass a list.")
    if len(getattr(X, "shape", ())) == 2:
        X = np.asarray(X)
        if X.shape[1] != 1:
            raise ValueError(f"{kernel} expects one object per row, got {name} with {X.shape[1]} columns; pass one.")
        X = X[:, 0]
    if len(X) == 0:
        raise ValueError(f"{kernel} needs at least one object, got an empty {name}.")
    values = np.fromiter(X, dtype=object, count=len(X))
    for i, value in enumerate(values):
        if not isinstance(value, kind):
            raise TypeError(
                f"{kernel} compares {kind.__name__} objects, but {name}[{i}] is "
                f"{value!r:.40} of type {type(value).__name__}."
            )
    return values


def dtype_of(X: Any) -> np.dtype[Any]:
    """Return the dtype of results computed from rows: that of the rows, or float64 for objects."""
    return np.dtype(np.float64) if X.dtype == object else np.dtype(X.dtype)


def anything(X: Any, Y: Any, *, kernel: str) -> tuple[Points, Points]:
    """Prepare rows for a kernel that depends on their identity only, not on their contents."""
    if is_table(X):
        left, right = pair_of_vectors(X, Y, kernel=kernel, sparse=True)
    else:
        left = _mixed(X, kernel, "X")
        right = left if Y is None else _mixed(Y, kernel, "Y")
    return paired((left,), (right,), Y is None)


def _mixed(X: Any, kernel: str, name: str) -> NDArray[Any]:
    """Rows that are not all numeric: objects, or a table of mixed columns."""
    if len(getattr(X, "shape", ())) == 2:
        return np.asarray(X, dtype=object)
    return objects(X, kernel=kernel, name=name)


def is_table(X: Any) -> bool:
    """Tell whether X is a table of numbers rather than a sequence of objects."""
    if is_foreign(X) or is_sparse(X):
        return True
    try:
        values = np.asarray(X)
    except ValueError:
        return False
    return values.ndim == 2 and values.dtype.kind in "fiub"


def full(A: Points, value: float, *shape: int) -> Array:
    """Fill an array with a value: one row per row of A, in their namespace and dtype."""
    rows = A.parts[0]
    like = getattr(rows, "coordinates", rows)
    if is_torch_array(like):
        return namespace(like).full((len(A), *shape), value, dtype=rows.dtype, device=like.device)
    return asarray(np.full((len(A), *shape), value), like, np.float64 if rows.dtype == object else rows.dtype)


def raw_rows(X: Any) -> Any:
    """Return rows that can be sliced and counted, otherwise as the user gave them."""
    if is_sparse(X):
        return X.tocsr()
    if isinstance(X, np.ndarray) or is_foreign(X):
        return X
    try:
        return np.asarray(X)
    except ValueError:
        return objects(X, kernel="a composed kernel")
