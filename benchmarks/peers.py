"""Peers that need not be installed, and are None where they are not."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def _optional(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


lightgbm, catboost, onedal = map(_optional, ("lightgbm", "catboost", "sklearnex.svm"))
