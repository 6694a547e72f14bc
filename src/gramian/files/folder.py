"""Model folders: a manifest, and a file of arrays with its size and checksum in the manifest."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from gramian import __version__

FORMAT = "gramian model"
VERSION = 1
"""Version of the format; older versions can be read too."""
MANIFEST = "manifest.json"
MAX_MANIFEST = 1 << 28
"""Larger manifests, in bytes, are not read."""
DTYPES = {
    "BOOL": "bool",
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
}
"""Names of dtypes in safetensors and in NumPy."""
ARRAYS = re.compile(r"arrays-[0-9a-f]{16}\.safetensors")
_FIRST_LINE = re.compile(rb'\{"sha256": "([0-9a-f]{64})",\n')


class ModelFileError(ValueError):
    """A model file that is missing, damaged, edited, or of an unknown version; the message says which."""


class Folder:
    """An open model folder whose sizes and checksums are correct."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            exists = self.path.exists()
            raise ModelFileError("is a file, not the folder of a model." if exists else "there is no such folder.")
        self.document = read_manifest(self.path)
        while True:
            try:
                self._file, self.nbytes = _open_arrays(self.path, self.document["files"])
                break
            except ModelFileError:
                before, self.document = self.document, read_manifest(self.path)
                if self.document == before:  # else a save replaced the model meanwhile
                    raise
        self._names, self._fetched = set(self._file.keys()), set[str]()

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.__exit__(*exception)

    @property
    def entries(self) -> dict[str, Any]:
        """The description of each array."""
        return self.document["arrays"]

    def fetch(self, name: str) -> np.ndarray[Any, Any]:
        """Read one tensor."""
        if name not in self._names:
            raise ModelFileError(f"the tensor {name!r:.80} is missing.")
        self._fetched.add(name)
        found: np.ndarray[Any, Any] = self._file.get_tensor(name).copy()  # copied out of the memory map
        if found.dtype == bool and found.view(np.uint8).max(initial=0) > 1:
            raise ModelFileError(f"the tensor {name!r:.80} of booleans holds bytes other than 0 and 1.")
        return found

    def described(self) -> dict[str, dict[str, Any]]:
        """Return the dtype, shape and bytes of each tensor, without reading any."""
        found = {}
        for name in self._names:
            part = self._file.get_slice(name)
            dtype, shape = DTYPES[part.get_dtype()], part.get_shape()
            found[name] = {"dtype": dtype, "shape": shape, "bytes": math.prod(shape) * np.dtype(dtype).itemsize}
        return found

    def unused(self) -> set[str]:
        """Return the names of tensors that were not read."""
        return self._names - self._fetched


def holds_model(folder: Path) -> bool:
    """Whether a folder holds a model, intact or damaged, rather than another program's manifest."""
    try:
        file, _ = _open(folder / MANIFEST)
    except ModelFileError:
        return False
    with file:
        return _FIRST_LINE.fullmatch(file.readline(100)) is not None


def _open(path: Path) -> tuple[BufferedReader, int]:
    """Open a plain file, never a link, a pipe or a device."""
    flags = [getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY")]
    try:
        handle = os.open(path, os.O_RDONLY | sum(flags))
    except FileNotFoundError:
        raise ModelFileError(f"{path.name} is missing; this is not the folder of a model, or is incomplete.") from None
    except OSError as error:
        why = "it is a link" if path.is_symlink() else error.strerror
        raise ModelFileError(f"{path.name} cannot be read: {why}.") from None
    known = os.fstat(handle)
    if not stat.S_ISREG(known.st_mode):
        os.close(handle)
        raise ModelFileError(f"{path.name} is not a plain file.")
    return os.fdopen(handle, "rb"), known.st_size


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest and check it."""
    file, size = _open(folder / MANIFEST)
    with file:
        if size > MAX_MANIFEST:
            raise ModelFileError(f"{MANIFEST} has {size} bytes, which is too large for a manifest.")
        first, rest = file.readline(100), file.read()
    found = _FIRST_LINE.fullmatch(first)
    if found is None:
        raise ModelFileError(f"{MANIFEST} does not start like a manifest of gramian.")
    if hashlib.sha256(rest).hexdigest().encode() != found[1]:
        raise ModelFileError(f"{MANIFEST} has been cut or changed: its checksum is wrong.")
    document = _parse_json(b"{" + rest)
    _check_version(document)
    for key in ("files", "library", "written with", "data", "model", "arrays"):
        if not isinstance(document.get(key), str if key == "library" else dict):
            raise ModelFileError(f"{MANIFEST} has no {key!r}, or one of the wrong type.")
    if not isinstance(document["data"].get("notes"), dict):
        raise ModelFileError(f"{MANIFEST} has no notes about the data, or notes of the wrong type.")
    return dict(document)


def _check_version(document: Any) -> None:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelFileError(f"{MANIFEST} is not the manifest of a gramian model.")
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"the format's version is {version!r:.40}, which is not a version.")
    if version > VERSION:
        raise ModelFileError(
            f"it was written by gramian {document.get('library')!s:.40} in format {version}; this is gramian "
            f"{__version__}, which reads formats up to {VERSION}. Upgrade gramian to load it."
        )


def _open_arrays(folder: Path, files: dict[str, Any]) -> tuple[Any, int]:
    """Open the file of arrays after checking its size and checksum."""
    if len(files) != 1:
        raise ModelFileError(f"{MANIFEST} should name one file of arrays, but names {len(files)}.")
    ((name, entry),) = files.items()
    if not ARRAYS.fullmatch(name):
        raise ModelFileError(f"{MANIFEST} names the file {name!r:.80}, which cannot be a file of arrays.")
    if not isinstance(entry, dict) or type(entry.get("bytes")) is not int or not isinstance(entry.get("sha256"), str):
        raise ModelFileError(f"{MANIFEST} does not say how large {name} is, or what its checksum is.")
    file, size = _open(folder / name)
    with file:
        if size != entry["bytes"]:
            raise ModelFileError(f"{name} should have {entry['bytes']} bytes, but has {size}.")
        if hashlib.file_digest(file, "sha256").hexdigest() != entry["sha256"]:
            raise ModelFileError(f"{name} has been changed: its checksum is wrong.")
    try:
        return safe_open(folder / name, framework="numpy"), size
    except (SafetensorError, FileNotFoundError) as error:
        raise ModelFileError(f"{name} cannot be read: {error}.") from None


def _parse_json(data: bytes) -> Any:
    """Parse the manifest strictly: no duplicate keys, no NaN or infinity, no absurd nesting."""
    try:
        text = data.decode("utf-8")
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ModelFileError(f"{MANIFEST} is nested too deeply.") from None
    except ValueError as error:  # also a wrong encoding, and integers with thousands of digits
        raise ModelFileError(f"{MANIFEST} is not valid JSON: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        often = max(made, key=[key for key, _ in pairs].count)
        raise ValueError(f"the key {often!r:.80} occurs twice")
    return made


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text:.40} is not finite")
    return value
