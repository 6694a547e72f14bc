"""Save: a folder that is whole or not there."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from gramian import __version__
from gramian.files import tensors
from gramian.files.arrays import Unpacked
from gramian.files.decode import Decoder
from gramian.files.encode import Encoder
from gramian.files.fingerprint import fingerprint
from gramian.files.folder import ARRAYS, FORMAT, MANIFEST, VERSION, holds_model

__all__ = ["check_folder", "save"]


def save(model: Any, path: str | os.PathLike[str], *, data: Mapping[str, Any] | None = None) -> None:
    """Save a fitted model as a folder of arrays and a manifest; data only, never code.

    The folder appears whole or not at all. Where a model is there already, it is replaced in one step at the end, and a
    save that is interrupted leaves it as it was.

    Parameters
    ----------
    model : estimator
        Any fitted estimator or transformer of gramian. A user's own function in it (a callable kernel, a loss of
        one's own) cannot be saved, and is refused.
    path : path-like
        The folder: new, empty, or holding a model to replace.
    data : mapping or None, default=None
        Notes about the data, in plain values, kept for those who inspect the file.

    Examples
    --------
    >>> import tempfile, gramian
    >>> from gramian import KernelRidge
    >>> model = KernelRidge(kernel="rbf").fit([[0.0], [1.0]], [0.0, 1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gramian.save(model, f"{folder}/model")
    ...     gramian.load(f"{folder}/model").predict([[0.5]]) == model.predict([[0.5]])
    array([ True])
    """
    folder = Path(path)
    check_folder(folder)
    document, arrays = _document(model, data)
    if folder.exists():
        _remove_others(folder, _write(folder, document, arrays))
        return
    unfinished = folder.absolute().parent / f".{folder.name}.{secrets.token_hex(4)}.tmp"
    unfinished.mkdir()
    try:
        _write(unfinished, document, arrays)
        os.rename(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    _sync_folder(folder.absolute().parent)


def check_folder(folder: Path) -> None:
    """Raise where a model could not be saved, before anything is computed or written.

    Parameters
    ----------
    folder : Path
        Where it would be.
    """
    parent = folder.absolute().parent
    if folder.exists():
        if not folder.is_dir() or (any(folder.iterdir()) and not holds_model(folder)):
            raise FileExistsError(f"{folder} is there and is no model of gramian's; choose another path.")
        parent = folder
    elif not parent.is_dir():
        raise FileNotFoundError(f"{parent} is no folder; make it first.")
    if not os.access(parent, os.W_OK):
        raise PermissionError(f"{parent} cannot be written to; choose another path.")


def _document(model: Any, data: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    encoder = Encoder()
    state = encoder.encode(model)
    if not isinstance(model, BaseEstimator):
        raise TypeError(f"expected a fitted estimator of gramian, got {model!r:.80}; only those can be saved.")
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise NotFittedError(
            f"this {type(model).__name__} is not fitted and holds nothing to save; fit it first."
        ) from None
    _rehearse(encoder, state)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "library": __version__,
        "written with": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "seed": state["parameters"].get("random_state"),
        "data": fingerprint(model) | {"notes": _notes(data)},
        "model": state,
        "arrays": encoder.arrays.entries,
    }
    return document, encoder.arrays.tensors


def _notes(data: Mapping[str, Any] | None) -> dict[str, Any]:
    try:
        return dict(json.loads(json.dumps(dict(data or {}), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise TypeError(f"data must hold plain values, such as JSON can hold: {error}") from error


def _rehearse(encoder: Encoder, state: dict[str, Any]) -> None:
    """Read what will be written, from memory: what cannot be loaded must not be saved."""
    try:
        Decoder(Unpacked(encoder.arrays.entries, encoder.arrays.tensors.__getitem__)).decode(state)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the model cannot be saved, since it could not be loaded again: {error}") from error


def _write(folder: Path, document: dict[str, Any], arrays: Mapping[str, Any]) -> str:
    """Write both files under temporary names, then put them in their places, the manifest last."""
    parts = [folder / f".{name}.{secrets.token_hex(4)}.tmp" for name in ("arrays", "manifest")]
    try:
        size, digest = _write_synced(parts[0], lambda sink: tensors.write(sink, arrays))
        name = f"arrays-{digest[:16]}.safetensors"
        files = {name: {"bytes": size, "sha256": digest}}
        text = json.dumps({"files": files, **document}, indent=1, allow_nan=False).encode()
        rest = text.removeprefix(b"{\n")
        first = f'{{"sha256": "{hashlib.sha256(rest).hexdigest()}",\n'.encode()
        _write_synced(parts[1], lambda sink: sink.write(first + rest))
        os.replace(parts[0], folder / name)
        _sync_folder(folder)
        os.replace(parts[1], folder / MANIFEST)  # from here on, the folder holds the new model
        _sync_folder(folder)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
    return name


@dataclass
class _Hashed:
    """A sink that counts and hashes what passes."""

    file: BinaryIO
    digest: Any
    size: int = 0

    def write(self, data: Any) -> None:
        self.file.write(data)
        self.digest.update(data)
        self.size += len(data)


def _write_synced(path: Path, fill: Any) -> tuple[int, str]:
    with path.open("xb") as file:
        sink = _Hashed(file, hashlib.sha256())
        fill(sink)
        file.flush()
        os.fsync(file.fileno())
    return sink.size, sink.digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":  # elsewhere a folder cannot be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove_others(folder: Path, name: str) -> None:
    for other in folder.iterdir():
        if ARRAYS.fullmatch(other.name) and other.name != name:
            with suppress(OSError):  # somebody may be reading it; it does no harm
                other.unlink()
