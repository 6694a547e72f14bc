"""Warnings that point at the line of the user's code that called the library."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from pathlib import Path

import joblib
import sklearn

INSIDE = tuple(os.path.dirname(str(package.__file__)) + os.sep for package in (sklearn, joblib))
INSIDE += (str(Path(__file__).parent) + os.sep, str(contextlib.__file__))
"""Where the files of the library are, and of the code between it and its users."""


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn at the nearest line that is neither ours nor scikit-learn's, however many calls away."""
    frame, level = sys._getframe(1), 2
    while frame.f_code.co_filename.startswith(INSIDE) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
