"""Requests of the page, with every value validated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.kernels import Kernel
from gramian.kernels.parse import parse
from gramian.progress import Listener, Trace

Array = NDArray[np.float64]
MOST_POINTS = 2000
VIEW = (-3.0, 3.0, -3.0, 3.0)
"""The default view: left, right, bottom, top."""
FARTHEST = 1e9


@dataclass(frozen=True)
class Asked:
    """One request: the state of a page, and a listener for progress."""

    state: Mapping[str, Any]
    tell: Listener | None = None  # Called while a solver works; raises if nobody waits any more

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """Return a number within limits."""
        return _number(name, self.state.get(name, default), low, high)

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """Return a whole number within limits."""
        value = self.number(name, default, low, high)
        if not value.is_integer():
            raise ValueError(f"{name} must be a whole number, got {value:g}.")
        return int(value)

    def choice(self, name: str, options: Sequence[str]) -> str:
        """Return one of several options, by default the first."""
        value = self.state.get(name, options[0])
        if value not in options:
            raise ValueError(f"{name} must be one of {', '.join(options)}; got {value!r:.40}.")
        return str(value)

    @cached_property
    def view(self) -> tuple[float, float, float, float]:
        """The part of the plane that is shown."""
        given = self.state.get("view", VIEW)
        if not isinstance(given, list | tuple) or len(given) != 4:
            raise ValueError(f"view must be [left, right, bottom, top], got {given!r:.40}.")
        left, right, bottom, top = (_number("view", v, -FARTHEST, FARTHEST) for v in given)
        if not (left < right and bottom < top):
            raise ValueError(f"view must have left < right and bottom < top, got {given!r:.80}.")
        return left, right, bottom, top

    @cached_property
    def points(self) -> Array:
        """The points (n, 2), each within the view."""
        return self._rows[:, :2]

    @cached_property
    def classes(self) -> NDArray[np.int64]:
        """The classes of the points, (n,)."""
        if self._rows.shape[1] < 3:
            raise ValueError("each point needs a class: [x, y, class].")
        column = self._rows[:, 2]
        if bad := [c for c in column.tolist() if not c.is_integer() or not 0 <= c < 10]:
            raise ValueError(f"a class is a whole number from 0 to 9, got {bad[0]:g}.")
        return column.astype(np.int64)

    @cached_property
    def _rows(self) -> Array:
        given = self.state.get("points")
        if not isinstance(given, list) or not given:
            raise ValueError("there are no points yet; click in the picture to add some.")
        if len(given) > MOST_POINTS:
            raise ValueError(f"at most {MOST_POINTS:,} points are shown, got {len(given):,}.")
        width = len(given[0]) if isinstance(given[0], list) else 0
        if width not in (2, 3) or any(not isinstance(row, list) or len(row) != width for row in given):
            raise ValueError("points must be a list of [x, y], or of [x, y, class].")
        left, right, bottom, top = self.view
        for i, row in enumerate(given):
            x, y, *_ = (_number(f"point {i + 1}", v, -FARTHEST, FARTHEST) for v in row)
            if not (left <= x <= right and bottom <= y <= top):
                raise ValueError(
                    f"point {i + 1} at ({x:g}, {y:g}) lies outside the picture, which shows {left:g} to {right:g} by "
                    f"{bottom:g} to {top:g}; move it in or delete it."
                )
        return np.array(given, dtype=np.float64)

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel of the expression, with the values of moved sliders to four digits."""
        text = self.state.get("kernel", "RBF(1.0)")
        if not isinstance(text, str):
            raise ValueError(f"kernel must be a text such as 2*RBF(0.5) + Linear(), got {text!r:.40}.")
        kernel, moved = parse(text), self.state.get("sliders")
        if moved is None:
            return kernel
        names = [name for name in kernel.theta_names if "[" not in name]
        if not isinstance(moved, dict) or not set(moved) <= set(names):
            raise ValueError(f"the sliders of {text!r:.60} are {names}, got {moved!r:.60}.")
        return kernel.with_fields({k: float(f"{_number(k, v, 1e-12, 1e12):.4g}") for k, v in moved.items()})

    def grid(self, size: int) -> Array:
        """A grid (size², 2) over the view, row by row from the bottom."""
        left, right, bottom, top = self.view
        x, y = np.meshgrid(np.linspace(left, right, size), np.linspace(bottom, top, size))
        return np.column_stack([x.ravel(), y.ravel()])


def sliders(kernel: Kernel) -> dict[str, Any]:
    """The text of a kernel, and a slider for each free parameter."""
    values = zip(kernel.theta_names, np.exp(kernel.theta).tolist(), strict=True)
    return {"text": repr(kernel), "sliders": [{"name": n, "value": v} for n, v in values if "[" not in n]}


def falling(traces: list[Trace]) -> list[tuple[float, float]]:
    """The gaps that the solver reported, with their steps."""
    return [(done, told["gap"]) for trace in traces for _, done, told in trace.ticks if told.get("gap", 0.0) > 0.0]


def _number(name: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a number, got {value!r:.40}.")
    if not low <= value <= high:
        raise ValueError(f"{name} must be between {low:g} and {high:g}, got {value:g}.")
    return float(value)
