"""Colours, markers, lines and hatches that colour-blind eyes and grey printers can tell apart.

Nothing is told by colour alone: what has a colour of its own has a marker, a line or a hatch of its own too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from inspect import isfunction
from typing import Any, ClassVar, Self

from gramian.docstrings import filled

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A5195", "#8C8C8C")
"""The Okabe-Ito colours without black and yellow, which disappear on dark or light pages."""
MUTED = "#8C8C8C"
"""For guides, grids and other background."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 2)), (0, (3, 3)))
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "+++", "ooo", "---")
SHARED = {
    "{figure}": "figure_, ax_ : matplotlib figure and axes\n    Where it was drawn.",
    "{where}": "ax : matplotlib axes or None, default=None\n    Where; ``None`` for a figure of its own.",
    "{itself}": "Returns\n-------\nDisplay\n    Itself.",
    "{ax}": """ax : matplotlib axes, None or False, default=None
    Where to draw; ``None`` for a figure of its own, ``False`` not yet.

Returns
-------
Display
    Drawn, unless ``ax`` is ``False``.""",
}
"""What the docstrings of displays share; ``Display`` there stands for the class."""
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError('pictures need matplotlib: pip install ".[report]" in the clone') from error
    return plt


def axes(ax: Any = None, *, size: tuple[float, float] = (5.0, 3.9)) -> tuple[Any, Any]:
    """Return the figure and the axes to draw on."""
    if ax is None:
        _, ax = pyplot().subplots(figsize=size, layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax.figure, ax


def ink() -> str:
    """The colour of text, black unless the user's style says otherwise."""
    return str(pyplot().rcParams["text.color"])


def paper() -> str:
    """The colour behind the data, white unless the user's style says otherwise."""
    return str(pyplot().rcParams["axes.facecolor"])


def plain(text: object) -> str:
    r"""Return text that matplotlib draws literally, including dollar signs."""
    return str(text).replace("$", r"\$")


def log_axis(ax: Any, which: str) -> None:
    """Make an axis logarithmic, with powers of ten written as text."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    ax.set(**{f"{which}scale": "log"})
    axis = getattr(ax, f"{which}axis")
    axis.set_major_locator(LogLocator(numticks=8))
    axis.set_major_formatter(FuncFormatter(_power))

    def between(value: float, _: object) -> str:
        """Label twos and fives too if there are few powers of ten."""
        low, high = axis.get_view_interval()
        lead = f"{value:.0e}"[0]
        return f"{value:g}" if high < 60 * low and lead in "25" and 1e-4 < value < 1e5 else ""

    axis.set_minor_formatter(FuncFormatter(between))


def _power(value: float, _: object) -> str:
    exponent = f"{value:.0e}".partition("e")[2]
    if 0.01 <= value <= 1000:
        return f"{value:g}"
    return f"10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def counted(axis: Any) -> None:
    """Write axis numbers as 116,000, and few enough that they do not touch."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    low, high = axis.get_view_interval()
    long = max(abs(low), abs(high)) >= 1e4 or high - low < 0.01
    axis.set_major_locator(MaxNLocator(3 if long else 5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def look(i: int) -> dict[str, Any]:
    """The colour, marker and line of the i-th of several curves."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "ls": LINES[i % len(LINES)]}


def _short(value: Any) -> str:
    """A value in a few characters; its shape or type if it is long."""
    if hasattr(value, "shape"):
        return f"array{tuple(value.shape)}"
    text = repr(value)
    if len(text) <= 40 and "\n" not in text:
        return text
    return f"{type(value).__name__}[{len(value)}]" if hasattr(value, "__len__") else type(value).__name__


class Display:
    """A picture: its data as plain arrays, and ``plot`` to draw it.

    In docstrings of a display and its methods, the keys of ``SHARED`` stand for what they say.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    size: ClassVar[tuple[float, float]] = (5.0, 3.9)

    def __init_subclass__(cls) -> None:
        methods = (getattr(value, "__func__", value) for value in vars(cls).values())
        for named in (cls, *(method for method in methods if isfunction(method) and method.__doc__)):
            filled(named, {key: text.replace("\nDisplay\n", f"\n{cls.__name__}\n") for key, text in SHARED.items()})

    def plot(self, ax: Any = None) -> Self:
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Where; ``None`` for a figure of its own.

        Returns
        -------
        Display
            Itself.
        """
        self._begin(ax)
        self._draw()
        return self

    def _draw(self) -> None:
        raise NotImplementedError

    def _drawn(self, ax: Any) -> Self:
        """Itself, drawn unless ``ax`` is False."""
        return self if ax is False else self.plot(ax)

    def __repr__(self) -> str:
        shown = ((field.name, getattr(self, field.name)) for field in fields(self))
        return f"{type(self).__name__}({', '.join(f'{name}={_short(value)}' for name, value in shown)})"

    def _begin(self, ax: Any) -> None:
        self.figure_, self.ax_ = axes(ax, size=self.size)

    def _draw_one(self, ax: Any, kind: str, kinds: dict[str, Callable[[], None]]) -> Self:
        """Draw one of several pictures."""
        if kind not in kinds:
            raise ValueError(f"kind must be one of {tuple(kinds)}, got {kind!r}.")
        self._begin(ax)
        kinds[kind]()
        return self

    def _line(self, x: Any, y: Any, colour: int = 0, **options: Any) -> Any:
        """Draw a curve and return it."""
        return self.ax_.plot(x, y, **{"color": COLOURS[colour], "lw": 1.5, **options})[0]

    def _band(self, x: Any, low: Any, high: Any, label: str, color: str = COLOURS[4]) -> Any:
        """Draw the area between two curves and return it."""
        return self.ax_.fill_between(x, low, high, color=color, alpha=0.3, lw=0, label=label)

    def _chosen(self, x: float, y: float, label: str | None = None, size: float = 9) -> None:
        """Mark the point that was chosen."""
        self.chosen_ = self._line([x], [y], 1, ls="none", marker="D", ms=size, mec=ink(), label=label)

    def _note(self, text: str, at: tuple[float, float], offset: tuple[float, float], **options: Any) -> None:
        """Write text next to a point, offset in typographic points."""
        self.ax_.annotate(text, at, offset, textcoords="offset points", **{"fontsize": "small", **options})

    def _finish(self, x: str, y: str, *, grid: bool = True, legend: str | None = "best") -> None:
        """Name the axes, and draw a grid and a legend."""
        self.ax_.set(xlabel=plain(x), ylabel=plain(y))
        if grid:
            self.ax_.grid(True, color=MUTED, alpha=0.2, lw=0.6)
        if legend is not None:
            self.legend_ = self.ax_.legend(fontsize="small", framealpha=0.85, loc=legend)

    def _colorbar(self, drawn: Any, label: str) -> None:
        self.colorbar_ = self.figure_.colorbar(drawn, ax=self.ax_, label=plain(label))
        self.colorbar_.outline.set_visible(False)
