"""``save``: write a model to a folder atomically."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from safetensors.numpy import save_file
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from gramian import __version__
from gramian.data.output import remove_unfinished, unfinished
from gramian.files.arrays import Unpacked
from gramian.files.codec import ModelDecoder, ModelEncoder
from gramian.files.folder import ARRAYS, FORMAT, MANIFEST, VERSION, ModelFileError, holds_model, read_manifest
from gramian.kernels.points import is_sparse

UNNAMED = 60.0
"""Seconds for which arrays are kept that the manifest does not name."""
TRIES = 5
KEPT = ("X_fit_", "X_train_", "support_vectors_", "components_", "means_")
"""Attributes that hold training rows or their features; the first one present counts."""


def save(model: Any, path: str | os.PathLike[str], *, data: Mapping[str, Any] | None = None) -> None:
    """Save a fitted model as a folder of arrays and a manifest; data only, never code.

    The folder appears whole or not at all. Where a model is there already, it is replaced in one step at the end, and a
    save that is interrupted leaves it as it was. Of saves at the same time the last one stays; who loads meanwhile gets
    one of them, whole.

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
    if folder.exists() or not _write_new(folder, document, arrays):
        for _ in range(TRIES):
            if (folder / _write(folder, document, arrays)).exists():
                break  # else another save removed our arrays as abandoned
    _remove_left_over(folder)


def check_folder(folder: Path) -> None:
    """Raise if a model could not be saved here, before anything is computed or written."""
    parent = folder.absolute().parent
    if folder.exists():
        if not folder.is_dir() or (any(folder.iterdir()) and not holds_model(folder)):
            raise FileExistsError(f"{folder} exists and is not a gramian model; choose another path.")
        parent = folder
    elif not parent.is_dir():
        raise FileNotFoundError(f"there is no folder {parent}; create it first.")
    if not os.access(parent, os.W_OK):
        raise PermissionError(f"{parent} cannot be written to; choose another path.")


def _document(model: Any, data: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    encoder = ModelEncoder()
    state = encoder.encode(model)
    if not isinstance(model, BaseEstimator):
        raise TypeError(f"expected a fitted estimator of gramian, got {model!r:.80}; only those can be saved.")
    try:
        check_is_fitted(model)
    except NotFittedError:
        name = type(model).__name__
        raise NotFittedError(f"this {name} is not fitted, so there is nothing to save; fit it first.") from None
    try:  # a model that cannot be loaded must not be saved
        ModelDecoder(Unpacked(encoder.arrays.entries, encoder.arrays.tensors.__getitem__)).decode(state)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the model cannot be saved, since it could not be loaded again: {error}") from error
    try:
        notes = json.loads(json.dumps(dict(data or {}), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(f"data must hold plain JSON values: {error}") from error
    versions = {"python": platform.python_version(), "numpy": np.__version__, "scikit-learn": sklearn.__version__}
    document = {
        "format": FORMAT,
        "version": VERSION,
        "library": __version__,
        "written with": versions,
        "seed": state["parameters"].get("random_state"),
        "data": _fingerprint(model) | {"notes": notes},
        "model": state,
        "arrays": encoder.arrays.entries,
    }
    return document, encoder.arrays.tensors


def _fingerprint(model: Any) -> dict[str, Any]:
    """Return what is known about the training data, as plain values."""
    names = getattr(model, "feature_names_in_", None)
    known = {
        "inputs": getattr(model, "n_features_in_", None),
        "names": None if names is None else [str(name) for name in names],
    }
    held = vars(model) | {f"best_.{name}": value for name, value in vars(getattr(model, "best_", object)).items()}
    place = next((place for name in KEPT for place in (name, f"best_.{name}") if place in held), None)
    if place is None:
        return known
    return known | {"kept": place, "rows": int(held[place].shape[0]), "sha256": _digest(held[place])}


def _digest(rows: Any) -> str:
    """Return a digest of an array's values, shape and dtype."""
    found = hashlib.sha256(f"{rows.shape} {rows.dtype}".encode())
    parts = (rows.data, rows.indices, rows.indptr) if is_sparse(rows) else (rows,)
    for part in parts:
        if part.dtype == object:
            for item in part.ravel():
                found.update(repr(item).encode("utf-8", "surrogatepass") + b"\0")
        elif part.size:
            found.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def _write_new(folder: Path, document: dict[str, Any], arrays: dict[str, Any]) -> bool:
    """Write a folder under a temporary name and rename it; False if another save created the folder meanwhile."""
    draft = unfinished(folder)
    draft.mkdir()
    try:
        _write(draft, document, arrays)
        os.rename(draft, folder)
    except OSError:
        if not folder.exists():
            raise
        return False
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    _sync(folder.absolute().parent)
    return True


def _write(folder: Path, document: dict[str, Any], arrays: dict[str, Any]) -> str:
    """Write both files under temporary names, then rename them, the manifest last."""
    drafts = [unfinished(folder / name) for name in ("arrays", "manifest")]
    try:
        save_file(arrays, drafts[0])
        _sync(drafts[0])
        with drafts[0].open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        name = f"arrays-{digest[:16]}.safetensors"
        files = {name: {"bytes": drafts[0].stat().st_size, "sha256": digest}}
        text = json.dumps({"files": files, **document}, indent=1, allow_nan=False).encode()
        rest = text.removeprefix(b"{\n")
        first = f'{{"sha256": "{hashlib.sha256(rest).hexdigest()}",\n'.encode()
        drafts[1].write_bytes(first + rest)
        _sync(drafts[1])
        os.replace(drafts[0], folder / name)
        _sync(folder)
        os.replace(drafts[1], folder / MANIFEST)  # from here on, the folder holds the new model
        _sync(folder)
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)
    return name


def _sync(path: Path) -> None:
    """Flush a file or folder to disk."""
    if path.is_file() or os.name == "posix":  # other systems cannot open folders
        handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove_left_over(folder: Path) -> None:
    """Remove arrays that the manifest does not name, except new ones that another save may still name."""
    for target in (folder, folder / "arrays", folder / "manifest"):
        remove_unfinished(target)
    with suppress(OSError, ModelFileError):  # another process may be reading them
        named, now = read_manifest(folder)["files"], (folder / MANIFEST).stat().st_mtime
        for file in folder.iterdir():
            if ARRAYS.fullmatch(file.name) and file.name not in named and now - file.stat().st_mtime > UNNAMED:
                file.unlink(missing_ok=True)
