"""The GPU that ``device=`` asks for: its name checked, found through torch, and its speed."""

from __future__ import annotations

from typing import Any

from gramian.kernels.points import is_sparse


def device_for(asked: str | None, X: Any) -> Any:
    """Return the torch device asked for, or None for the CPU."""
    name = checked_device(asked)
    if name is None or (name == "auto" and is_sparse(X)):
        return None
    try:
        from gramian.gram.gpu import cuda
    except ImportError as error:
        if name == "auto":
            return None
        raise ImportError(
            f"device={asked!r} needs torch, which is not installed: pip install '.[gpu]' in the clone."
        ) from error
    if name == "auto" and not cuda.available():
        return None
    if is_sparse(X):
        raise TypeError("a GPU takes dense rows, got a sparse matrix; pass X.toarray(), or device=None.")
    return cuda.found("cuda" if name == "auto" else name)


def checked_device(device: str | None) -> str | None:
    """Return a valid device name, or raise with the names that are."""
    if device is None or device in ("auto", "cuda"):
        return device
    if isinstance(device, str) and device.startswith("cuda:") and device[5:].isdigit():
        return device
    raise ValueError(f"device must be None, 'cuda', 'cuda:0' (and so on) or 'auto', got {device!r}.")


def device_speed(asked: str | None, X: Any) -> float:
    """Return the speed of the device asked for, in units of the nominal machine."""
    device = device_for(asked, X)
    if device is None:
        return 1.0
    from gramian.gram.gpu import cuda

    return cuda.speed(device)
