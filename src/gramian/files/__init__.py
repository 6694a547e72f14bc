"""Models in files: a folder of arrays and a manifest, data only and never code."""

from gramian.files.contents import Contents, inspect
from gramian.files.errors import ModelFileError
from gramian.files.read import load
from gramian.files.write import save

__all__ = ["Contents", "ModelFileError", "inspect", "load", "save"]
