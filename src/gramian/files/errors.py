"""The error for a model file that is damaged or not one."""

from __future__ import annotations

__all__ = ["ModelFileError"]


class ModelFileError(ValueError):
    """A model file that is missing, damaged, edited, or of a version that is not known; the message says which."""
