"""The GPU that a user names, found through torch: its free memory and its speed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from numpy.typing import NDArray

from gramian.resources import SHARE, available_memory, memory_budget, readable, spans

SCRATCH, MODEST = 4 * 10**9, 2**28
"""Bytes of temporary arrays, at most, and never more than a quarter of what is free; for modest ones nobody asks how
much is free, which takes the driver longer than they do."""
FULL_DOUBLE = ((6, 0), (7, 0), (8, 0), (9, 0), (10, 0))
"""Compute capabilities of cards with half as many units for double precision as for single; others have a 32nd."""
FAST, SLOW = 300.0, 30.0
"""Speed of those cards and of others, in units of the nominal machine, with a margin for transfers."""
KINDS = {"float32": torch.float32, "float64": torch.float64}


def available() -> bool:
    """Whether there is a card that torch can use."""
    return torch.cuda.is_available()


def budget(memory: int | str | None, device: torch.device) -> int:
    """Return a memory budget in bytes; by default half of what is free on the card, or on the host if that is less."""
    own = memory_budget(memory)
    return min(int(SHARE * free_memory(device)), own) if memory is None else own


def found(device: str) -> torch.device:
    """Return the card of that name, or raise with the cards that exist."""
    if not torch.cuda.is_available():
        raise RuntimeError(f"device={device!r} needs a GPU that torch can use, and it finds none; use device=None.")
    card = torch.device(device)
    count = torch.cuda.device_count()
    if (card.index or 0) >= count:
        raise RuntimeError(f"device={device!r}: expected one of the {count} GPUs here, cuda:0 to cuda:{count - 1}.")
    return torch.device("cuda", torch.cuda.current_device() if card.index is None else card.index)


def speed(device: torch.device) -> float:
    """Return the speed of a card in double precision, in units of the nominal machine, by its compute capability."""
    full = device.type == "cuda" and torch.cuda.get_device_capability(device) in FULL_DOUBLE
    return FAST if full else SLOW


def current(device: torch.device) -> AbstractContextManager[Any]:
    """Make a card the one on which Triton runs kernels, for the length of a ``with`` block."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def free_memory(device: torch.device) -> int:
    """Return the bytes that a device has left, including those that torch has reserved but not used."""
    if device.type != "cuda":
        return available_memory()
    free = torch.cuda.mem_get_info(device)[0]
    counts = torch.cuda.memory_stats_as_nested_dict(device)  # the flat ones take longer than a small product
    reserved, allocated = (counts[name]["all"]["current"] for name in ("reserved_bytes", "allocated_bytes"))
    return int(free + reserved - allocated)


def moved(values: NDArray[Any], device: torch.device) -> torch.Tensor:
    """Return an array on a device, in its own precision."""
    # torch takes no negative strides, even along one entry, and warns of memory that it may not write to.
    usable = values.flags.c_contiguous and values.flags.writeable and min(values.strides, default=0) >= 0
    return torch.from_numpy(values if usable else values.copy()).to(device)


def panels(n: int, row: int, device: torch.device) -> list[slice]:
    """Return slices of n rows whose temporary arrays, ``row`` bytes for each, fit the free memory of a device."""
    if row * n <= MODEST:
        return spans(n, max(n, 1))
    return spans(n, max(min(SCRATCH, free_memory(device) // 4) // row, 1))


@contextmanager
def room(device: torch.device, what: str) -> Iterator[None]:
    """Turn torch's out-of-memory error into a MemoryError that says what does not fit and what to do."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info(device)
        raise MemoryError(
            f"{what} does not fit the memory of the GPU: {readable(free)} of {readable(total)} are free; use fewer "
            "rows, an approximation, or device=None."
        ) from error
