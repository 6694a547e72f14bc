"""A model folder, opened with distrust: its manifest says what every other byte should be."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from gramian import __version__
from gramian.files import tensors
from gramian.files.errors import ModelFileError

__all__ = ["ARRAYS", "FORMAT", "MANIFEST", "VERSION", "Folder", "holds_model", "open_folder", "read_manifest"]

FORMAT = "gramian model"
VERSION = 1
"""Of the format. A reader reads its own and all before it."""
MANIFEST = "manifest.json"
MAX_MANIFEST = 1 << 28
"""Bytes of a manifest, beyond which it is not read."""
CHUNK = 1 << 20
ARRAYS = re.compile(r"arrays-[0-9a-f]{16}\.safetensors")
_FIRST_LINE = re.compile(rb'\{"sha256": "([0-9a-f]{64})",\n')


class Folder:
    """An open model folder, whose sizes and checksums have been found right."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            what = "is a file, not the folder of a model" if self.path.exists() else "there is no such folder"
            raise ModelFileError(f"{what}.")
        self.document = read_manifest(self.path)
        while True:
            try:
                self._file, self.nbytes = _open_arrays(self.path, self.document["files"])
                break
            except ModelFileError:
                before, self.document = self.document, read_manifest(self.path)
                if self.document == before:  # else a save has replaced the model in between
                    raise
        try:
            self.tensors = tensors.read_header(self._file, self.nbytes)
        except BaseException:
            self._file.close()
            raise
        self._fetched: set[str] = set()

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    @property
    def entries(self) -> dict[str, Any]:
        """What the manifest says of each array."""
        return self.document["arrays"]

    def fetch(self, name: str) -> np.ndarray[Any, Any]:
        """Read one tensor."""
        if name not in self.tensors:
            raise ModelFileError(f"the tensor {name!r:.80} is missing.")
        self._fetched.add(name)
        return tensors.read(self._file, self.tensors[name])

    def unused(self) -> set[str]:
        """Return the names of tensors that nobody read."""
        return set(self.tensors) - self._fetched


def holds_model(folder: Path) -> bool:
    """Tell whether a folder holds a model, whole or damaged, and not another program's manifest."""
    try:
        file, _ = _open(folder / MANIFEST)
    except ModelFileError:
        return False
    with file:
        return _FIRST_LINE.fullmatch(file.readline(100)) is not None


def open_folder(path: str | os.PathLike[str]) -> Folder:
    """Open a model folder and check it, file by file."""
    try:
        return Folder(path)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}.") from error


def _open(path: Path) -> tuple[BufferedReader, int]:
    """Open a plain file, never a link, a pipe or a device."""
    try:
        handle = os.open(
            path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
    except FileNotFoundError:
        raise ModelFileError(f"{path.name} is missing; this is not the folder of a model, or not all of it.") from None
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
            raise ModelFileError(f"{MANIFEST} has {size} bytes, more than any model's would.")
        first, rest = file.readline(100), file.read()
    found = _FIRST_LINE.fullmatch(first)
    if found is None:
        raise ModelFileError(f"{MANIFEST} does not begin as one of gramian's does.")
    if hashlib.sha256(rest).hexdigest().encode() != found[1]:
        raise ModelFileError(f"{MANIFEST} has been cut or changed: its checksum is wrong.")
    document = tensors.parse_json(b"{" + rest, MANIFEST)
    _check_version(document)
    expected = {"files": dict, "library": str, "written with": dict, "data": dict, "model": dict, "arrays": dict}
    for key, kind in expected.items():
        if not isinstance(document.get(key), kind):
            raise ModelFileError(f"{MANIFEST} has no {key!r}, or not of the right kind.")
    if not isinstance(document["data"].get("notes"), dict):
        raise ModelFileError(f"{MANIFEST} has no notes about the data, or not of the right kind.")
    return dict(document)


def _check_version(document: Any) -> None:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelFileError(f"{MANIFEST} is not that of a gramian model.")
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"the format's version is {version!r:.40}, which is no version.")
    if version > VERSION:
        raise ModelFileError(
            f"it was written by gramian {document.get('library')!s:.40} in format {version}; this is gramian "
            f"{__version__}, which reads formats up to {VERSION}. Upgrade gramian to load it."
        )


def _open_arrays(folder: Path, files: dict[str, Any]) -> tuple[BufferedReader, int]:
    """Open the file of arrays, once its size and checksum are found right."""
    if len(files) != 1:
        raise ModelFileError(f"{MANIFEST} should name one file of arrays, and names {len(files)}.")
    ((name, entry),) = files.items()
    if not ARRAYS.fullmatch(name):
        raise ModelFileError(f"{MANIFEST} names the file {name!r:.80}, which is no name of a file of arrays.")
    if not isinstance(entry, dict) or type(entry.get("bytes")) is not int or not isinstance(entry.get("sha256"), str):
        raise ModelFileError(f"{MANIFEST} does not say how large {name} is, or what its checksum is.")
    file, size = _open(folder / name)
    try:
        if size != entry["bytes"]:
            raise ModelFileError(f"{name} should have {entry['bytes']} bytes, and has {size}.")
        digest = hashlib.sha256()
        while chunk := file.read(CHUNK):
            digest.update(chunk)
        if digest.hexdigest() != entry["sha256"]:
            raise ModelFileError(f"{name} has been changed: its checksum is wrong.")
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file, size
