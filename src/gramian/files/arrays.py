"""Arrays of a model (numbers, text, dates, sparse) as tensors, each stored once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramian.files.folder import DTYPES, ModelFileError
from gramian.kernels.points import is_sparse

NUMBERS = frozenset(DTYPES.values())
SPARSE: dict[str, Any] = {kind.__name__: kind for kind in (sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.csc_array)}
UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
_TIMES = re.compile(rf"(datetime64|timedelta64)\[({'|'.join(UNITS)})\]")
_WIDE = re.compile(r"(str|bytes)([1-9][0-9]{0,8})")
MAX = 0x10FFFF
"""The last character of Unicode."""


@dataclass
class Packed:
    """Tensors to write, and the description of each array made of them."""

    tensors: dict[str, NDArray[Any]] = field(default_factory=dict)
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    _known: dict[Any, str] = field(default_factory=dict)
    _alive: list[Any] = field(default_factory=list)

    def add(self, a: Any, name: str) -> dict[str, Any]:
        """Store an array, unless its memory is stored already."""
        key = _memory(a)
        if key not in self._known:
            if (view := self._column(a)) is not None:
                return view
            self._known[key] = name
            self._alive.append(a)  # so that its address is not reused
            self.entries[name] = self._store(a, name)
        return {"array": self._known[key]}

    def _column(self, a: Any) -> dict[str, Any] | None:
        """A column of a matrix that is stored already, as the coefficients of one target are, in the same layout.

        Not of any matrix: targets may be a column of a user's whole table, which is not ours to keep.
        """
        base = getattr(a, "base", None)
        if not isinstance(base, np.ndarray) or base.ndim != 2 or a.ndim != 1 or _memory(base) not in self._known:
            return None
        offset = a.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        j = offset // a.itemsize
        if not (base.dtype == a.dtype and 0 <= j < base.shape[1] and _memory(base[:, j]) == _memory(a)):
            return None
        return {"array": self._known[_memory(base)], "column": j}

    def _store(self, a: Any, name: str) -> dict[str, Any]:
        if is_sparse(a):
            return self._store_sparse(a, name)
        a = np.asarray(a)
        if a.dtype.kind == "O":
            return self._store_text(a, name)
        numbers, dtype = _numbers(a)
        fortran = numbers is a and a.flags.f_contiguous and not a.flags.c_contiguous
        numbers = numbers.T if fortran else numbers
        self.tensors[name] = np.ascontiguousarray(numbers).reshape(numbers.shape)  # which makes 0-d arrays 1-d
        return {"dtype": dtype, "order": "F"} if fortran else {"dtype": dtype}

    def _store_sparse(self, a: Any, name: str) -> dict[str, Any]:
        kind = type(a).__name__
        if SPARSE.get(kind) is not type(a):
            raise TypeError(f"is a sparse {kind}; only CSR and CSC can be saved.")
        for part in ("data", "indices", "indptr"):
            self.tensors[f"{name}:{part}"] = np.ascontiguousarray(_numbers(getattr(a, part))[0])
        return {"sparse": kind, "shape": [int(s) for s in a.shape], "dtype": a.dtype.name}

    def _store_text(self, a: NDArray[Any], name: str) -> dict[str, Any]:
        parts = [text.encode("utf-8", "surrogatepass") for text in a.ravel()]
        self.tensors[f"{name}:text"] = np.frombuffer(b"".join(parts), dtype=np.uint8)
        self.tensors[f"{name}:ends"] = np.cumsum([len(p) for p in parts], dtype=np.int64).reshape(a.shape)
        return {"dtype": "text"}


def _memory(a: Any) -> Any:
    """The identity of an array: its address, shape, strides and dtype."""
    if is_sparse(a):
        return type(a).__name__, a.shape, *(_memory(getattr(a, part, None)) for part in ("data", "indices", "indptr"))
    if not isinstance(a, np.ndarray):
        return id(a)
    return a.__array_interface__["data"][0], a.shape, a.strides, a.dtype.str


def _numbers(a: NDArray[Any]) -> tuple[NDArray[Any], str]:
    """The array in a dtype that tensors have, and the name of its own dtype."""
    if not a.dtype.isnative:
        a = a.astype(a.dtype.newbyteorder("="))
    name = a.dtype.name
    if a.dtype.kind in "US":
        a = a if a.dtype.itemsize else a.astype(f"{a.dtype.kind}1")
        name = f"str{a.dtype.itemsize // 4}" if a.dtype.kind == "U" else f"bytes{a.dtype.itemsize}"
    stored = _stored(name)
    if stored is None:
        raise TypeError(
            f"is an array of dtype {a.dtype}, which a model file cannot hold; convert it to numbers or text."
        )
    unit, last, _ = stored
    return a if unit == name else np.ascontiguousarray(a).reshape(-1).view(unit).reshape((*a.shape, *last)), name


def _stored(dtype: str) -> tuple[str, tuple[int, ...], str] | None:
    """The dtype of the tensor, its extra last axis if any, and NumPy's name of the array's dtype."""
    if dtype in NUMBERS:
        return dtype, (), dtype
    if _TIMES.fullmatch(dtype):
        return "int64", (), dtype
    if dtype in ("complex64", "complex128"):
        return ("float32" if dtype == "complex64" else "float64"), (2,), dtype
    if wide := _WIDE.fullmatch(dtype):
        unit, letter = ("uint32", "U") if wide[1] == "str" else ("uint8", "S")
        return unit, (int(wide[2]),), f"{letter}{wide[2]}"
    return None


@dataclass
class Unpacked:
    """Arrays of a model file, each made once, on first use."""

    entries: Mapping[str, Any]  # Descriptions in the manifest
    fetch: Callable[[str], NDArray[Any]]  # From the name of a tensor to its array
    _made: dict[str, Any] = field(default_factory=dict)

    def get(self, name: Any) -> Any:
        """Return one array."""
        if not isinstance(name, str) or name not in self.entries:
            raise ModelFileError(f"the array {name!r:.80} is not described.")
        if name not in self._made:
            self._made[name] = self._make(name, self.entries[name])
        return self._made[name]

    def column(self, name: Any, j: Any) -> NDArray[Any]:
        """Return one column of a matrix, as a view: → (n,)."""
        matrix = self.get(name)
        if not isinstance(matrix, np.ndarray) or matrix.ndim != 2 or type(j) is not int or not 0 <= j < matrix.shape[1]:
            raise ModelFileError(f"the array {name!r:.80} has no column {j!r:.20}.")
        return matrix[:, j]

    def unused(self) -> set[str]:
        """Return the names of arrays that were never used."""
        return set(self.entries) - set(self._made)

    def _make(self, name: str, entry: Any) -> Any:
        if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
            raise ModelFileError(f"the array {name!r:.80} has no dtype.")
        if "sparse" in entry:
            return self._sparse(name, entry)
        if entry == {"dtype": "text"}:
            return _texts(self.fetch(f"{name}:text"), self.fetch(f"{name}:ends"), name)
        if not set(entry) <= {"dtype", "order"} or entry.get("order", "F") != "F":
            raise ModelFileError(f"the array {name!r:.80} has an unknown description.")
        a = _read_as(self.fetch(name), entry["dtype"], name)
        return a.T if "order" in entry else a

    def _sparse(self, name: str, entry: dict[str, Any]) -> Any:
        kind, shape = entry["sparse"], entry.get("shape")
        if not isinstance(kind, str) or kind not in SPARSE or set(entry) != {"sparse", "shape", "dtype"}:
            raise ModelFileError(f"the sparse array {name!r:.80} has an unknown description.")
        if not isinstance(shape, list) or len(shape) != 2 or not all(type(s) is int and 0 <= s < 2**56 for s in shape):
            raise ModelFileError(f"the sparse array {name!r:.80} has the impossible shape {shape!r:.60}.")
        data, indices, indptr = (self.fetch(f"{name}:{part}") for part in ("data", "indices", "indptr"))
        data = _read_as(data, entry["dtype"], name)
        if any(a.ndim != 1 for a in (data, indices, indptr)) or {indices.dtype.kind, indptr.dtype.kind} != {"i"}:
            raise ModelFileError(f"the sparse array {name!r:.80} has parts of the wrong type.")
        made = SPARSE[kind]((data, indices, indptr), shape=tuple(shape), copy=False)
        made.check_format(full_check=True)
        return made


def _read_as(raw: NDArray[Any], dtype: str, name: str) -> NDArray[Any]:
    """Undo ``_numbers``."""
    stored = _stored(dtype)
    if stored is not None:
        unit, last, numpys = stored
        text = dtype.startswith("str")
        if raw.dtype == unit and raw.shape[raw.ndim - len(last) :] == last and not (text and raw.max(initial=0) > MAX):
            shape = raw.shape[: raw.ndim - len(last)]
            return raw if unit == dtype else raw.reshape(-1).view(numpys).reshape(shape)
    raise ModelFileError(
        f"the array {name!r:.80} should be of dtype {dtype!r:.40}, but its tensor is {raw.dtype.name}."
    )


def _texts(text: NDArray[Any], ends: NDArray[Any], name: str) -> NDArray[Any]:
    flat = ends.reshape(-1)
    if text.dtype != np.uint8 or text.ndim != 1 or ends.dtype != np.int64:
        raise ModelFileError(f"the text {name!r:.80} has parts of the wrong type.")
    if np.any(np.diff(flat, prepend=0) < 0) or (flat[-1] if flat.size else 0) != text.size:
        raise ModelFileError(f"the text {name!r:.80} does not end where it says.")
    data = text.tobytes()
    out = np.empty(flat.size, dtype=object)
    for i, (start, end) in enumerate(pairwise([0, *flat.tolist()])):
        out[i] = data[start:end].decode("utf-8", "surrogatepass")
    return out.reshape(ends.shape)
