"""Warn of every built page that would fetch something from another host: the manual is read offline too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.util import logging

logger = logging.getLogger(__name__)

FETCHED = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)=\"((?:https?:)?//[^\"]*)\""
)


def check(app: Any, error: Exception | None) -> None:
    """Look through the pages once they are written."""
    if error is None and app.builder.format == "html":
        for page in sorted(Path(app.outdir).rglob("*.html")):
            for address in sorted(
                set(FETCHED.findall(page.read_text(encoding="utf-8")))
            ):
                logger.warning(
                    "%s would fetch %s", page.relative_to(app.outdir), address
                )


def setup(app: Any) -> dict[str, bool]:
    """Run last."""
    app.connect("build-finished", check, priority=999)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
