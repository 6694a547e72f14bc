"""Serialisation of kernels: the expression that ``repr`` shows, and plain data for JSON."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gramian.kernels.base import Kernel


def expression(kernel: Kernel) -> str:
    """Return the call that makes a kernel, with the arguments that are not at their default."""
    shown = []
    for i, f in enumerate(fields(kernel)):
        value = getattr(kernel, f.name)
        default = f.default_factory() if f.default_factory is not MISSING else f.default
        if i == 0 and (f.name in kernel.parameters or type(value) is int):
            shown.append(_text(value))
        elif value != default:
            shown.append(_text(value) if i == 0 else f"{f.name}={_text(value)}")
    return f"{kernel.name}({', '.join(shown)})"


def plain(kernel: Kernel) -> dict[str, Any]:
    """Return a kernel as plain data, ready for JSON."""
    data: dict[str, Any] = {"kernel": kernel.name}
    for f in fields(kernel):
        value = getattr(kernel, f.name)
        # "kernel" holds the class's name, so an operand of that name is written as "of".
        key = "of" if f.name == "kernel" else f.name
        data[key] = value.to_dict() if hasattr(value, "to_dict") else _value(kernel, f.name, value)
    return data


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_text(v) for v in value)}]"
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    return repr(value)


def _value(owner: Kernel, name: str, value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, tuple):
        return [_value(owner, name, v) for v in value]
    raise TypeError(
        f"{owner.name}.{name} holds {value!r}, code that cannot be written as data; "
        "only kernels made of gramian's own parts can be saved."
    )
