"""numpydoc's checks on the names that docs/api.md lists, and on their methods; the checks are in pyproject.toml."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from numpydoc.validate import ERROR_MSGS, validate

ROOT = Path(__file__).parents[2]


def public_names() -> Iterator[str]:
    """The names of the reference, and the methods that gramian itself gives them."""
    for name in re.findall(
        r"~(gramian[\w.]*)", (ROOT / "docs" / "api.md").read_text()
    ):
        yield name
        module, _, attribute = name.rpartition(".")
        value = getattr(importlib.import_module(module), attribute)
        if inspect.isclass(value):
            own = {
                m
                for c in value.__mro__
                if c.__module__.startswith("gramian")
                for m in vars(c)
            }
            methods = (
                m for m in sorted(own) if inspect.isfunction(getattr(value, m))
            )
            yield from (
                f"{name}.{m}"
                for m in methods
                if not m.startswith("_") and not m.endswith("_request")
            )


def main() -> int:
    """Print what is wrong, one line each."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][
        "numpydoc_validation"
    ]["checks"]
    checks = set(ERROR_MSGS) - set(listed) if "all" in listed else set(listed)
    wrong = set()
    for name in public_names():
        found = validate(name)
        one_line = "\n" not in found["docstring"].strip()
        # Shapes in the first line, in place of sections.
        shapes = "→" in found["docstring"].strip().partition("\n")[0]
        # These return the estimator itself, which need not be said.
        itself = name.endswith((".fit", ".partial_fit", ".set_params"))
        for code, message in found["errors"]:
            if code in checks and not (
                (code == "RT01" and (one_line or shapes or itself))
                or (code == "PR01" and shapes)
            ):
                wrong.add(
                    f"{found['file']}:{found['file_line']}: {code} {message} ({name})"
                )
    print(*sorted(wrong), sep="\n")
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main())
