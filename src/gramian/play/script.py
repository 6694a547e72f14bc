"""The Python script of a page: it is run to answer, and shown with its data, so that both give the same numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import gramian
from gramian import kernels, losses
from gramian.certificates import Certificate
from gramian.play.asked import Asked
from gramian.progress import Trace, recorded

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


@dataclass(frozen=True, eq=False)
class Played:
    """A script that was run."""

    python: str  # As it is shown: with its data, and printing its numbers
    names: dict[str, Any]  # Its variables
    traces: list[Trace]  # Progress of the solvers

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers on the page."""
        numbers: dict[str, Any] = self.names["numbers"]
        return numbers

    def answer(self, certificate: Certificate | None = None, **more: Any) -> dict[str, Any]:
        """Return the answer to the page."""
        said = {} if certificate is None else {"certificate": str(certificate), "converged": certificate.converged}
        return {"numbers": self.numbers, **said, **more, "python": self.python}


def play(asked: Asked, data: dict[str, Any], steps: Sequence[str], numbers: dict[str, str]) -> Played:
    """Run a script; ``numbers`` maps numbers on the page to their expressions."""
    used = set(re.findall(r"\b[A-Z]\w+|make_pipeline|parse", re.sub(r"'.*?'", "", " ".join(steps))))  # outside quotes
    found = {module: sorted(used.intersection(names)) for module, names in NAMES.items()}
    head = ["import numpy as np", *(f"from {m} import {', '.join(names)}" for m, names in found.items() if names)]
    given = [f"{name} = {literal(value)}" for name, value in data.items()]
    shown = ["numbers = {", *(f'    "{name}": {text},' for name, text in numbers.items()), "}"]
    printed = ["for name, value in numbers.items():", "    print(name, value)", ""]
    variables = dict(data)
    with recorded(asked.tell) as traces:
        # What a request brings into the steps has passed Asked, and stands there as the repr of a number or a kernel.
        exec("\n".join([*head, *steps, *shown]), variables)
    return Played("\n".join([*head, "", *given, "", *steps, "", *shown, *printed]), variables, traces)


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
