"""``load`` and ``inspect``: read a model from a folder, or describe the folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from sklearn.utils.validation import check_is_fitted

from gramian.certificates import Certificate
from gramian.files.arrays import Unpacked
from gramian.files.codec import ModelDecoder
from gramian.files.folder import Folder, ModelFileError
from gramian.kernels import from_dict


@contextmanager
def _reading(path: str | os.PathLike[str], wrong: str) -> Iterator[Folder]:
    """Open a folder; errors name its path."""
    try:
        with Folder(path) as folder:
            yield folder
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}.") from error
    except MemoryError:
        raise
    except Exception as error:  # whatever nonsensical values may cause
        raise ModelFileError(f"{path}: {wrong}: {error}") from error


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model that ``save`` wrote; nothing in the folder is executed.

    Parameters
    ----------
    path : path-like
        The folder.

    Returns
    -------
    estimator
        Its predictions are those of the model that was saved, to the last bit.

    Raises
    ------
    ModelFileError
        Where the folder is missing, damaged, edited, or of a newer format; the message says which.

    Examples
    --------
    >>> import tempfile, gramian
    >>> from gramian import SVC
    >>> model = SVC().fit([[0.0], [1.0]], ["no", "yes"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gramian.save(model, f"{folder}/model")
    ...     gramian.load(f"{folder}/model").predict([[0.9]])
    array(['yes'], dtype='<U3')
    """
    with _reading(path, "the file does not describe a model") as folder:
        arrays = Unpacked(folder.entries, folder.fetch)
        model = ModelDecoder(arrays).decode(folder.document["model"])
        if unused := arrays.unused() | folder.unused():
            raise ModelFileError(f"the array {min(unused)!r:.80} is not used by the model.")
        check_is_fitted(model)
        return model


@dataclass(frozen=True)
class Contents:
    """Description of a model file."""

    path: str
    model: str
    parameters: dict[str, str]
    kernel: str | None
    seed: str | None
    certificate: Certificate | None
    data: dict[str, Any]
    arrays: dict[str, dict[str, Any]]
    nbytes: int
    format: int
    library: str
    written_with: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a plain dictionary."""
        return asdict(self)

    def __str__(self) -> str:
        written = f"written by gramian {self.library} (format {self.format})"
        lines = [f"{self.model}, {written}, {self.nbytes:,} bytes of arrays"]
        lines += ["parameters:", *(f"  {name} = {value}" for name, value in self.parameters.items())]
        told = {"kernel": self.kernel, "certificate": self.certificate}
        lines += [f"{title}: {value}" for title, value in told.items() if value]
        known = {**self.data, **self.data.get("notes", {})}
        known = {name: v for name, v in known.items() if v not in (None, {}, []) and name != "notes"}
        lines += ["data:", *(f"  {name}:{_words(v)}" for name, v in known.items())] if known else []
        arrays = (f"  {n}: {a['dtype']} {tuple(a['shape'])}, {a['bytes']:,} bytes" for n, a in self.arrays.items())
        return "\n".join([*lines, "arrays:", *sorted(arrays)])


def inspect(path: str | os.PathLike[str]) -> Contents:
    """Describe a model file; its checksums are checked, but the model is not built."""
    with _reading(path, "the manifest is not valid") as folder:
        return _contents(folder)


def _contents(folder: Folder) -> Contents:
    document, model = folder.document, folder.document["model"]
    fitted = model["fitted"]
    inner = fitted.get("best_", {}).get("fitted", {})  # the winner of an automatic estimator
    kernel = next((held[k] for held in (fitted, inner) for k in ("kernel_", "_kernel") if k in held), None)
    certificate = ModelDecoder(Unpacked(folder.entries, folder.fetch)).decode(fitted.get("certificate_"))
    return Contents(
        path=str(folder.path),
        model=str(model["object"]),
        parameters={name: shown(value) for name, value in model["parameters"].items()},
        kernel=shown(kernel) if kernel else None,
        seed=None if document.get("seed") is None else shown(document["seed"]),
        certificate=certificate if isinstance(certificate, Certificate) else None,
        data=document["data"],
        arrays=folder.described(),
        nbytes=folder.nbytes,
        format=document["version"],
        library=document["library"],
        written_with=document["written with"],
    )


def shown(value: Any) -> str:
    """Return a value of the manifest as Python source."""
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if not isinstance(value, dict):
        return repr(value)
    if "kernel" in value:
        return repr(from_dict(value["kernel"]))
    if "object" in value:
        held: dict[str, Any] = value["parameters"] if "parameters" in value else value["fields"]
        return f"{value['object']}({', '.join(f'{name}={shown(v)}' for name, v in held.items())})"
    if "tuple" in value:
        return f"({', '.join(map(shown, value['tuple']))})"
    if "range" in value:
        return repr(range(*value["range"]))
    if "dict" in value:
        return f"{{{', '.join(f'{shown(k)}: {shown(v)}' for k, v in value['dict'])}}}"
    if "array" in value:
        return f"<array {value['array']}>"
    (word,) = list(value)[:1]
    return f"<{word}>" if word != "float" else str(value["float"])


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(f"\n    {name}: {v}" for name, v in value.items())
    return f" {', '.join(map(str, value))}" if isinstance(value, list) else f" {value}"
