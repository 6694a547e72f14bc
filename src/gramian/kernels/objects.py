"""Kernels on objects other than vectors: strings, documents, any objects, and rows of a precomputed Gram matrix."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable as Fn
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramian.kernels import points
from gramian.kernels.base import Kernel, kernel
from gramian.kernels.points import Array, Points
from gramian.kernels.tunable import natural


def _counts(texts: NDArray[Any], pieces: Fn[[str], list[str]]) -> Any:
    """Counts of the pieces of each text, as CSR rows over one common list of pieces."""
    counts = [Counter(pieces(text)) for text in texts]
    columns = {piece: i for i, piece in enumerate(dict.fromkeys(chain.from_iterable(counts)))}
    indptr = np.cumsum([0, *map(len, counts)])
    indices = np.fromiter((columns[p] for c in counts for p in c), dtype=np.int64, count=indptr[-1])
    data = np.fromiter((v for c in counts for v in c.values()), dtype=np.float64, count=indptr[-1])
    return sp.csr_array((data, indices, indptr), shape=(len(counts), max(len(columns), 1)))


class TextCounts(Kernel):
    """An inner product of counts of pieces of text; a subclass defines the pieces."""

    def pieces(self, text: str) -> list[str]:
        """Split a text: text → its pieces, repeated as often as they occur."""
        raise NotImplementedError(f"{self.name} must define pieces(text).")

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        texts = points.objects(X, kernel=self.name, kind=str)
        both = texts if Y is None else np.concatenate([texts, points.objects(Y, kernel=self.name, name="Y", kind=str)])
        matrix, n = _counts(both, self.pieces), len(texts)
        return points.paired((matrix[:n],), (matrix if Y is None else matrix[n:],), Y is None)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        return points.matmul(A.parts[0], B.parts[0].T, out)

    def diagonal(self, A: Points) -> Array:
        return np.asarray(A.parts[0].multiply(A.parts[0]).sum(axis=1)).ravel()


@kernel
class Spectrum(TextCounts):
    """The spectrum kernel of strings: the inner product of their counts of substrings of a given length.

    Parameters
    ----------
    length : int, default=3
        Length of the substrings.

    Examples
    --------
    >>> from gramian.kernels import Spectrum
    >>> Spectrum(2)(["banana"], ["bandana"])
    array([[7.]])
    """

    length: int = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", natural("Spectrum: length", self.length))

    def pieces(self, text: str) -> list[str]:
        return [text[i : i + self.length] for i in range(len(text) - self.length + 1)]


@kernel
class WordCount(TextCounts):
    """The bag-of-words kernel of documents: the inner product of their word counts.

    Use ``WordCount().normalized()`` to remove the effect of a document's length.

    Parameters
    ----------
    lowercase : bool, default=True
        Whether ``The`` counts as ``the``.

    Examples
    --------
    >>> from gramian.kernels import WordCount
    >>> WordCount()(["the cat and the dog"], ["The dog"])
    array([[3.]])
    """

    lowercase: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.lowercase, bool):
            raise TypeError(f"WordCount: lowercase must be True or False, got {self.lowercase!r}.")

    def pieces(self, text: str) -> list[str]:
        return re.findall(r"\w+", text.lower() if self.lowercase else text)


@kernel
class Precomputed(Kernel):
    """A Gram matrix passed by the user: X *is* k(X, Y), row by row.

    ``Precomputed()(K)`` is K itself, square and symmetric; with ``Y`` given, X has one column per row of Y (as in
    ``predict``: X is k(new, train) and Y the training matrix).

    Examples
    --------
    >>> from gramian.kernels import Precomputed
    >>> Precomputed()([[2.0, 1.0], [1.0, 2.0]])
    array([[2., 1.],
           [1., 2.]])
    """

    sparse: ClassVar[bool] = True
    definite: ClassVar[bool] = False

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        X = points.vectors(X, kernel=self.name, sparse=True)
        square = X if Y is None else points.vectors(Y, kernel=self.name, name="Y", sparse=True)
        if Y is None and X.shape[0] != X.shape[1]:
            raise ValueError(f"a precomputed Gram matrix must be square, got shape {tuple(X.shape)}.")
        if X.shape[1] != square.shape[0]:
            raise ValueError(
                f"precomputed X must have one column per training row, {square.shape[0]}; got {X.shape[1]}."
            )
        A, B = points.paired((X,), (square,), Y is None)
        diagonal = _diagonal(square)
        return Points((X, diagonal if Y is None else None), A.ids), Points((None, diagonal), B.ids)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        matrix = A.parts[0]
        columns = np.asarray(B.ids) % matrix.shape[1]  # columns of another set have the ids -m, ..., -1
        if isinstance(B.ids, range):
            picked = matrix[:, columns[0] : columns[-1] + 1]
        elif points.is_foreign(matrix):
            picked = points.namespace(matrix).take(matrix, points.namespace(matrix).asarray(columns), axis=1)
        else:
            picked = matrix[:, columns]
        picked = points.dense(picked)
        return points.store(picked.copy() if out is None and isinstance(picked, np.ndarray) else picked, out)

    def diagonal(self, A: Points) -> Array:
        if A.parts[1] is None:
            raise ValueError("k(x, x) is not known: a precomputed k(new, train) does not hold it; pass k(new, new).")
        return points.copy(A.parts[1])

    def rounding(self, A: Points) -> float:
        return float(np.finfo(np.float64).eps)  # entries are given, exact in float64 also if they come in float32


FEW = 4
"""Columns are gathered one by one if the range of their indices is more than this many times their number."""


class Table(Kernel):
    """A stored Gram matrix whose rows are referred to by index: X (n, 1) holds the indices.

    Not for direct use: it lets many fits on parts of the same rows share one matrix.
    """

    def __init__(self, matrix: NDArray[np.float64], of: Kernel, rounding: float) -> None:
        self.matrix, self.of = matrix, of
        self._rounding = rounding

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        sides = [(Z, Z[:, 0].astype(np.intp)) for Z in points.pair_of_vectors(X, Y, kernel=self.name)]
        return points.paired(sides[0], sides[1], Y is None)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        first, stop = int(B.parts[1].min()), int(B.parts[1].max()) + 1
        dtype = A.parts[0].dtype if out is None else out.dtype
        if stop - first == B.parts[1].size and np.all(np.diff(B.parts[1]) == 1):
            return points.store(self.matrix[A.parts[1], first:stop].astype(dtype, copy=False), out)
        if FEW * B.parts[1].size < stop - first:  # one by one; otherwise the spanned part of each row is copied first
            return points.store(self.matrix[np.ix_(A.parts[1], B.parts[1])].astype(dtype, copy=False), out)
        rows, columns = self.matrix[A.parts[1], first:stop], B.parts[1] - first
        if out is None or dtype != np.float64 or not out.flags.c_contiguous:
            return points.store(np.take(rows, columns, axis=1).astype(dtype, copy=False), out)
        return np.take(rows, columns, axis=1, out=out, mode="clip")  # with "raise" the result is buffered

    def diagonal(self, A: Points) -> Array:
        i = A.parts[1]
        return self.matrix[i, i].astype(A.parts[0].dtype, copy=False)

    def rounding(self, A: Points) -> float:
        return max(self._rounding, float(np.finfo(A.parts[0].dtype).eps))

    @property
    def definite(self) -> bool:
        return self.of.definite

    def __repr__(self) -> str:
        return f"Table of {self.of!r}"


def _diagonal(K: Any) -> Array | None:
    if K.shape[0] != K.shape[1]:
        return None
    if points.is_foreign(K):
        return points.asarray(np.asarray(K).diagonal().copy(), K)
    return np.asarray(K.diagonal())


def _nested(X: Any) -> bool:
    """Whether X is a sequence of rows and not of objects."""
    return getattr(X, "ndim", 0) == 2 or (isinstance(X, list | tuple) and isinstance(X[0], list | tuple | np.ndarray))


@kernel
class Callable(Kernel):
    """A user's own function of two objects; ``is_kernel`` tests on data whether it is a kernel.

    Parameters
    ----------
    f : callable
        ``f(x, z)``, a number for two objects; or with ``vectorized=True`` ``f(X, Y)``, an (n, m) array.
    vectorized : bool, default=False
        Whether f takes two sets of rows.

    Examples
    --------
    >>> from gramian.kernels import Callable
    >>> Callable(lambda a, b: float(len(a & b)))([{1, 2}, {2, 3}])
    array([[2., 1.],
           [1., 2.]])
    """

    f: Fn[[Any, Any], Any]
    vectorized: bool = False
    sparse: ClassVar[bool] = True
    buffers: ClassVar[int] = 4  # a list of Python floats
    definite: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not callable(self.f):
            raise TypeError(f"Callable: f must be a function of two objects, got {self.f!r}.")

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        left = self._rows(X, "X")
        return points.paired((left,), (left if Y is None else self._rows(Y, "Y"),), Y is None)

    def _rows(self, X: Any, name: str) -> Any:
        if points.is_table(X) or (self.vectorized and _nested(X)):
            return points.vectors(X, kernel=self.name, name=name, sparse=True)
        return points.objects(X, kernel=self.name, name=name)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        x, z = A.parts[0], B.parts[0]
        dtype = np.float32 if x.dtype == np.float32 else np.float64
        if self.vectorized:
            K = self._matrix(x, z, dtype)
            if K.shape != (len(A), len(B)):
                raise ValueError(f"Callable: f(X, Y) must have shape {(len(A), len(B))}, got {K.shape}.")
        else:
            K = np.array([[self.f(a, b) for b in z] for a in x], dtype=dtype).reshape(len(A), len(B))
        if not np.isfinite(K).all():
            raise ValueError("Callable: f returned NaN or infinity; a kernel needs finite values.")
        return points.store(K, out)

    def _matrix(self, x: Any, z: Any, dtype: Any) -> NDArray[Any]:
        """The values of a function of two matrices, made dense if it returns a sparse matrix."""
        return points.dense(self.f(x, z), dtype)

    def diagonal(self, A: Points) -> NDArray[Any]:
        x = A.parts[0]
        dtype = np.float32 if x.dtype == np.float32 else np.float64
        if self.vectorized:
            return np.array(
                [self._matrix(x[i : i + 1], x[i : i + 1], dtype).item() for i in range(len(A))], dtype=dtype
            )
        return np.array([self.f(a, a) for a in x], dtype=dtype)
