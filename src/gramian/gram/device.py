"""The GPU that ``device=`` asks for: its name checked, found through torch, and its speed."""

from __future__ import annotations

import re
from typing import Any

from gramian.kernels.points import is_sparse

NAME = re.compile(r"(cuda|auto)(:\d+)?")


def device_for(asked: str | None, X: Any) -> Any:
    """Return the torch device asked for, or None for the CPU."""
    name, wished = checked_device(asked), only_wished(asked)
    if name is None or (wished and is_sparse(X)):
        return None
    try:
        from gramian.gram.gpu import cuda
    except ImportError as error:
        if wished:
            return None
        raise ImportError(
            f"device={asked!r} needs torch, which is not installed: pip install '.[gpu]' in the clone."
        ) from error
    if wished and not cuda.available():
        return None
    if is_sparse(X):
        raise TypeError("a GPU takes dense rows, got a sparse matrix; pass X.toarray(), or device=None.")
    return cuda.found(name.replace("auto", "cuda"))


def checked_device(device: str | None) -> str | None:
    """Return a valid device name, or raise with the names that are."""
    if device is None or (isinstance(device, str) and NAME.fullmatch(device)):
        return device
    raise ValueError(f"device must be None, 'cuda', 'cuda:0' (and so on) or 'auto', got {device!r}.")


def only_wished(device: str | None) -> bool:
    """Whether the CPU will do where there is no such GPU, or the kernel has no code for it: ``"auto"``."""
    return device is not None and device.startswith("auto")


def wished(card: Any) -> str:
    """Return the name of a torch device for what can run there, and the CPU for what cannot."""
    return "auto" if card.index is None else f"auto:{card.index}"


def device_speed(asked: str | None, X: Any) -> float:
    """Return the speed of the device asked for, in units of the nominal machine."""
    device = device_for(asked, X)
    if device is None:
        return 1.0
    from gramian.gram.gpu import cuda

    return cuda.speed(device)
