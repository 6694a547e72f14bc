"""Docstrings that take over what is explained elsewhere already: entries of a base class, or shared texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import cleandoc
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)
SECTIONS = ("Parameters", "Attributes")
THOSE = "{those of "


def filled(named: Any, shared: Mapping[str, str]) -> None:
    """Put shared texts in their places in the docstring of a class or function."""
    doc = cleandoc(named.__doc__ or "")
    for place, text in shared.items():
        doc = doc.replace(place, text)
    named.__doc__ = doc + "\n"


def documented(cls: Class) -> Class:
    """Replace a line ``{those of Base}`` in the docstring by the entries of Base that the section does not have."""
    doc = cleandoc(cls.__doc__ or "")
    for title in SECTIONS:
        own = entries(doc, title)
        for line in (name for name in own if name.startswith(THOSE)):
            (base,) = (base for base in cls.__mro__ if base.__name__ == line[len(THOSE) : -1])
            inherited = entries(cleandoc(base.__doc__ or ""), title)
            rest = "\n".join(text for name, text in inherited.items() if name not in own)
            doc = doc.replace(own[line], rest, 1)
    cls.__doc__ = doc + "\n"
    return cls


def entries(doc: str, title: str) -> dict[str, str]:
    """Return the entries of a section of a clean docstring, by the names that they explain."""
    section = re.search(rf"^{title}\n-+\n(.+?)(?:\n\n|\Z)", doc, re.MULTILINE | re.DOTALL)
    each = re.split(r"\n(?=\S)", section[1]) if section else []
    return {entry.split(" : ")[0]: entry for entry in each}
