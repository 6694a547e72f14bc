"""Colours, markers, lines and hatches that colour-blind eyes and grey printers can tell apart.

Nothing is told by colour alone: what has a colour of its own has a marker, a line or a hatch of its own too.
"""

from __future__ import annotations

from typing import Any

__all__ = ["COLOURS", "HATCHES", "LINES", "MARKERS", "MUTED", "axes", "ink", "log_axis", "paper", "plain", "pyplot"]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A5195", "#8C8C8C")
"""Okabe and Ito's colours, without black and yellow, which are lost on a dark or on a light page."""
MUTED = "#8C8C8C"
"""For what stands behind: guides, grids, what did not happen."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 2)), (0, (3, 3)))
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "+++", "ooo", "---")
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError('pictures need matplotlib: pip install "gramian[report]"') from error
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
    r"""Return text that matplotlib draws as it is, dollar signs included."""
    return str(text).replace("$", r"\$")


def log_axis(ax: Any, which: str) -> None:
    """Make an axis logarithmic, with powers of ten written as text."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    ax.set(**{f"{which}scale": "log"})
    axis = getattr(ax, f"{which}axis")
    axis.set_major_locator(LogLocator(numticks=8))
    axis.set_major_formatter(FuncFormatter(_power))

    def between(value: float, _: object) -> str:
        """Twos and fives have labels where there are few powers of ten."""
        low, high = axis.get_view_interval()
        lead = f"{value:.0e}"[0]
        return f"{value:g}" if high < 60 * low and lead in "25" and 1e-4 < value < 1e5 else ""

    axis.set_minor_formatter(FuncFormatter(between))


def _power(value: float, _: object) -> str:
    exponent = f"{value:.0e}".partition("e")[2]
    if 0.01 <= value <= 1000:
        return f"{value:g}"
    return f"10{str(int(exponent)).translate(SUPERSCRIPTS)}"
