"""Python scripts that reproduce a page: imports, data, fit, and its numbers in a dictionary; and parts of answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

import gramian
from gramian import kernels, losses

NAMES: dict[str, Sequence[str]] = {
    "gramian": gramian.__all__,
    "gramian.kernels": kernels.__all__,
    "gramian.losses": losses.__all__,
    "gramian.kernels.parse": ["parse"],
    "sklearn.pipeline": ["make_pipeline"],
    "sklearn.preprocessing": ["StandardScaler"],
}
"""Names that scripts import, by module."""
WIDTH = 100
"""Approximate length of a line of data, in characters."""


def script(data: dict[str, Any], steps: Sequence[str], numbers: dict[str, str]) -> str:
    """Return a Python script; ``numbers`` maps numbers on the page to their expressions."""
    used = set(re.findall(r"\b[A-Z]\w+|make_pipeline|parse", re.sub(r"'.*?'", "", " ".join(steps))))  # outside quotes
    found = {module: sorted(used.intersection(names)) for module, names in NAMES.items()}
    head = ["import numpy as np", *(f"from {m} import {', '.join(names)}" for m, names in found.items() if names)]
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
