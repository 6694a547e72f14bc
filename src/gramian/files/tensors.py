"""The safetensors layout, read with distrust: 8 bytes of length, a JSON header, then the bytes of the arrays."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gramian.files.errors import ModelFileError

__all__ = ["DTYPES", "Sink", "Tensor", "parse_json", "read", "read_header", "write"]

DTYPES = {
    "BOOL": "bool",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
}
"""Names of safetensors, and NumPy's."""
MAX_HEADER = 100_000_000
"""Bytes: safetensors' own limit."""
MAX_DIMENSIONS = 32


class Sink(Protocol):
    """Where bytes go."""

    def write(self, data: Any) -> Any:
        """Take some bytes."""


@dataclass(frozen=True)
class Tensor:
    """What the header says of one array."""

    dtype: str  # NumPy's name
    shape: tuple[int, ...]  # Its shape
    start: int  # Where its bytes begin in the file

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


def write(sink: Sink, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays in the safetensors layout, without a copy of any."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    header, start = {}, 0
    for key, a in arrays.items():
        header[key] = {"dtype": names[a.dtype.name], "shape": list(a.shape), "data_offsets": [start, start + a.nbytes]}
        start += a.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the arrays begin at a multiple of eight, as the format asks
    sink.write(len(text).to_bytes(8, "little"))
    sink.write(text)
    for a in arrays.values():
        if a.size:
            sink.write(a.astype(a.dtype.newbyteorder("<"), copy=False).reshape(-1).view(np.uint8).data)


def read_header(file: BufferedReader, size: int) -> dict[str, Tensor]:
    """Read the header and check that it describes exactly the bytes that follow."""
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(MAX_HEADER, size - 8):
        raise ModelFileError(f"the arrays' header should take {length} bytes, and the file has {size}; it is cut.")
    header = parse_json(file.read(length), "the arrays' header")
    if not isinstance(header, dict):
        raise ModelFileError("the arrays' header is no JSON object.")
    found = {}
    expected = 0
    for name, entry in header.items():
        found[name], expected = _tensor(name, entry, expected, 8 + length)
    if 8 + length + expected != size:
        raise ModelFileError(f"the arrays should take {expected} bytes, and the file holds {size - 8 - length}.")
    return found


def _tensor(name: str, entry: Any, expected: int, base: int) -> tuple[Tensor, int]:
    """Check one entry, whose bytes must begin where the last one's ended."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ModelFileError(f"array {name!r:.80} is not described by dtype, shape and data_offsets.")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ModelFileError(f"array {name!r:.80} has the unknown dtype {dtype!r:.40}.")
    if not _naturals(shape) or len(shape) > MAX_DIMENSIONS or math.prod(s or 1 for s in shape) >= 2**56:
        raise ModelFileError(f"array {name!r:.80} has the impossible shape {shape!r:.80}.")
    if not _naturals(offsets) or len(offsets) != 2:
        raise ModelFileError(f"array {name!r:.80} has the impossible data_offsets {offsets!r:.80}.")
    tensor = Tensor(DTYPES[dtype], tuple(shape), base + offsets[0])
    if offsets != [expected, expected + tensor.nbytes]:
        raise ModelFileError(
            f"array {name!r:.80} of shape {tuple(shape)} takes {tensor.nbytes} bytes from {expected} on, and its "
            f"data_offsets are {offsets}."
        )
    return tensor, expected + tensor.nbytes


def _naturals(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and v >= 0 for v in values)


def read(file: BufferedReader, tensor: Tensor) -> NDArray[Any]:
    """Read one array into memory of its own."""
    dtype = np.dtype(tensor.dtype)
    out = np.empty(tensor.shape, dtype=dtype.newbyteorder("<"))
    if out.size:
        file.seek(tensor.start)
        if file.readinto(out.reshape(-1).view(np.uint8).data) != out.nbytes:
            raise ModelFileError("the file of arrays ended while it was read.")
    if tensor.dtype == "bool" and out.size and out.view(np.uint8).max() > 1:
        raise ModelFileError("an array of booleans holds other bytes than 0 and 1.")
    return out.astype(dtype, copy=False)


def parse_json(data: bytes, what: str) -> Any:
    """Parse JSON strictly: no duplicate keys, no NaN or infinity, no absurd nesting."""
    try:
        return json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite
        )
    except RecursionError:
        raise ModelFileError(f"{what} nests too deep.") from None
    except ValueError as error:  # also of a wrong encoding, and of integers with thousands of digits
        raise ModelFileError(f"{what} is not valid JSON: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        (often, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {often!r:.80} occurs twice")
    return made


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"the constant {name} is not allowed")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text:.40} is too large")
    return value
