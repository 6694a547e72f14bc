"""Models in files: a folder of arrays and a manifest, data only and never code."""

from gramian.files.folder import ModelFileError
from gramian.files.read import Contents, inspect, load
from gramian.files.write import save

__all__ = ["Contents", "ModelFileError", "inspect", "load", "save"]
