"""Kernels from plain data: only names registered here are accepted; nothing is imported by a name from a file."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from gramian.kernels.base import Kernel
from gramian.kernels.maps import Columns
from gramian.numerals import nearest

_NUMBERS = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


def known_kernels() -> dict[str, type[Kernel]]:
    """Return the kernel classes that an expression or a file may name."""
    return {name: cls for name, cls in Kernel.registry.items() if "__dataclass_fields__" in cls.__dict__}


def from_dict(data: Any) -> Kernel:
    """Build a kernel from the result of ``Kernel.to_dict``.

    Parameters
    ----------
    data : dict
        Plain data.

    Returns
    -------
    Kernel
        The kernel.

    Examples
    --------
    >>> from gramian.kernels import RBF, from_dict
    >>> from_dict((2.0 * RBF(0.5)).to_dict())
    2.0 * RBF(0.5)
    """
    try:
        return _from_dict(data)
    except RecursionError:
        raise ValueError("a kernel expression nests too many levels deep; the data are damaged.") from None


def _from_dict(data: Any) -> Kernel:
    if not isinstance(data, dict) or not isinstance(data.get("kernel"), str):
        raise ValueError(f"expected a dictionary with the name of a kernel under 'kernel', got {data!r:.80}.")
    known = known_kernels()
    cls = known.get(data["kernel"])
    if cls is None:
        raise ValueError(f"unknown kernel {data['kernel']!r}; {nearest(data['kernel'], known)}")
    given = {name: _value(value) for name, value in data.items() if not (name == "kernel" and isinstance(value, str))}
    if "of" in given:
        given["kernel"] = given.pop("of")
    declared = {f.name: f for f in fields(cls)}
    if unknown := sorted(set(given) - set(declared)):
        raise ValueError(f"{data['kernel']} has no field {unknown[0]!r}; {nearest(unknown[0], declared)}")
    required = {n for n, f in declared.items() if f.default is MISSING and f.default_factory is MISSING}
    if missing := sorted(required - set(given)):
        raise ValueError(f"{data['kernel']} needs {missing}, which the data do not hold.")
    try:
        return cls(**given)
    except TypeError as error:
        raise ValueError(f"the data do not describe a kernel: {error}") from error


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get("map") == "Columns" and isinstance(value.get("columns"), list):
            return Columns(tuple(value["columns"]))
        return _from_dict(value)
    if isinstance(value, list):
        return tuple(_value(v) for v in value)
    return _NUMBERS.get(value, value) if isinstance(value, str) else value
