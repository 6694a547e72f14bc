"""Figures as inline SVG: text stays text, colours follow the page, and nothing points outside."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from typing import Any

from gramian.plots.style import COLOURS

__all__ = ["SETTINGS", "inline"]

INK, PAPER = "#1a1b1c", "#fefdfc"
"""Stand for the page's own colours of text and background."""
SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gramian",
    "font.family": "sans-serif",
    "font.size": 10.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "hatch.color": INK,
    "axes.facecolor": PAPER,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.facecolor": PAPER,
    "legend.edgecolor": "none",
    "axes.linewidth": 0.8,
    "path.simplify_threshold": 0.4,
}
"""matplotlib's settings for a picture in a report."""
VARIABLES = {INK: "var(--ink)", PAPER: "var(--card)"} | {
    colour.lower(): f"var(--c{i})" for i, colour in enumerate(COLOURS)
}


def inline(figure: Any, prefix: str, alt: str) -> str:
    """Return a figure as an SVG element."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    # What matplotlib has just written, and nobody else.
    source = ET.fromstring(buffer.getvalue())
    for element in source.iter():
        for child in list(element):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                element.remove(child)
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {name.rpartition("}")[2]: _own(name, text, prefix) for name, text in element.attrib.items()}
    box = source.attrib["viewBox"]
    width = round(1.34 * float(box.split()[2]))  # points as pixels, a third larger than on paper
    source.attrib = {"aria-label": alt, "role": "img", "viewBox": box, "style": f"max-width:{width}px"}
    return ET.tostring(source, encoding="unicode", short_empty_elements=False)


def _own(name: str, text: str, prefix: str) -> str:
    """An attribute with ids made the picture's own and colours made the page's."""
    name = name.rpartition("}")[2]
    if name == "id":
        return prefix + text
    if name == "href" and text.startswith("#"):
        return f"#{prefix}{text[1:]}"
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}\1)", text)
    if name in ("style", "fill", "stroke", "stop-color"):
        text = re.sub(r"#[0-9a-f]{6}", lambda found: VARIABLES.get(found[0], found[0]), text)
    return text
