"""Formulas as MathML, which browsers show without fetching anything, by the converter that docutils brings."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def rendered(node: nodes.Element, *, as_block: bool) -> str:
    """Return a formula as MathML, or as it was written, with a warning, where it cannot be read."""
    try:
        mathml = tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        return f"<code>{escape(node.astext())}</code>"
    # Bars of norms as letters: taken for operators they get space around them, and slip where they have an exponent.
    return re.sub(
        r"<mo[^>]*>([‖|])</mo>",
        r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>',
        mathml,
    )


def inline(writer: Any, node: nodes.Element) -> None:
    """Write a formula within a line."""
    writer.body.append(rendered(node, as_block=False))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.Element) -> None:
    """Write a formula on a line of its own, which scrolls where the page is narrow."""
    writer.body.append(
        f'<div class="formula">{rendered(node, as_block=True)}</div>\n'
    )
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Offer the renderer to ``html_math_renderer``."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
