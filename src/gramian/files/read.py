"""``load``: a model from a folder."""

from __future__ import annotations

import os
from typing import Any

from sklearn.utils.validation import check_is_fitted

from gramian.files.arrays import Unpacked
from gramian.files.decode import Decoder
from gramian.files.errors import ModelFileError
from gramian.files.folder import Folder, open_folder

__all__ = ["load"]


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
    with open_folder(path) as folder:
        try:
            return _model(folder)
        except ModelFileError as error:
            raise ModelFileError(f"{path}: {error}") from None
        except (OSError, MemoryError):
            raise
        except Exception as error:  # whatever the constructors say of values that make no sense
            raise ModelFileError(f"{path}: the file does not describe a model: {error}") from error


def _model(folder: Folder) -> Any:
    arrays = Unpacked(folder.entries, folder.fetch)
    model = Decoder(arrays).decode(folder.document["model"])
    if unused := arrays.unused() | folder.unused():
        raise ModelFileError(f"the array {min(unused)!r:.80} is not used by the model.")
    check_is_fitted(model)
    return model
