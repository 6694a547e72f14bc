"""Python scripts that reproduce a page: imports, data, fit, and its numbers in a dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

WIDTH = 100
"""Approximate length of a line of data, in characters."""


def script(imports: Sequence[str], data: dict[str, Any], steps: Sequence[str], numbers: dict[str, str]) -> str:
    """Return a Python script; ``numbers`` maps numbers on the page to their expressions."""
    head = ["import numpy as np", *sorted(imports)]
    given = [f"{name} = {literal(value)}" for name, value in data.items()]
    shown = ["numbers = {", *(f'    "{name}": {text},' for name, text in numbers.items()), "}"]
    return "\n".join(
        [*head, "", *given, "", *steps, "", *shown, "for name, value in numbers.items():", "    print(name, value)", ""]
    )


def literal(value: Any) -> str:
    """Python source of an array or a number."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    lines, line = [], ""
    for item in (repr(entry) for entry in value.tolist()):
        if len(line) + len(item) > WIDTH:
            lines.append(line)
            line = ""
        line += f"{item}, "
    return "\n    ".join(["np.array([", *lines, line.rstrip(", ")]) + "\n])"
