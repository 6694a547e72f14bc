"""Temporary names of files and folders that are being written, and their removal if the writer was killed."""

from __future__ import annotations

import glob
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["remove_unfinished", "unfinished"]

ABANDONED = 3600.0
"""Seconds without a change after which nobody is writing any more."""


def unfinished(target: Path) -> Path:
    """Return a name beside the target, to write to and then to rename."""
    return target.absolute().with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")


def remove_unfinished(target: Path) -> None:
    """Remove what killed writers of the same target left."""
    pattern = f".{glob.escape(target.name)}.{'[0-9a-f]' * 8}.tmp"
    for left in target.absolute().parent.glob(pattern):
        with suppress(OSError):  # another writer may be faster
            if time.time() - max(p.stat().st_mtime for p in (left, *left.glob("*"))) > ABANDONED:
                shutil.rmtree(left) if left.is_dir() else left.unlink()
