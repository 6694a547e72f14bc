"""Numbers as people write them: 116,000 ± 2,500."""

from __future__ import annotations

import math

DIGITS = 3
"""Of a number that nothing is known about."""
MOST = 6
"""Digits of a number whose spread is tiny."""
PLAIN = (1e-4, 1e15)
"""Sizes that are written without a power of ten."""


def written(value: float, spread: float = math.nan, digits: int = DIGITS) -> str:
    """Return a number rounded as its spread demands, two digits of it, with the spread behind; or to some digits."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else f"{value}".replace("inf", "∞")
    size = max(abs(value), spread if math.isfinite(spread) else 0.0)
    put = _plain if size == 0.0 or PLAIN[0] <= size < PLAIN[1] else _by_power
    if not spread > 0.0 or math.isinf(spread):
        text = put(value, _leading(value) - digits + 1)
        return f"{text} ± 0" if spread == 0.0 else text
    place = max(_leading(spread) - 1, _leading(value) - MOST + 1)
    return f"{put(value, place)} ± {put(spread, place)}"


def _leading(value: float) -> int:
    """The place of the first digit: 2 for 116, -1 for 0.93; of what two digits round to, so 1 for 9.96."""
    return int(f"{value:.1e}".partition("e")[2]) if value else 0


def _plain(value: float, place: int) -> str:
    """A number rounded to a place, with marks between thousands."""
    return f"{round(value, -place) + 0.0:,.{max(-place, 0)}f}"  # no minus zero


def _by_power(value: float, place: int) -> str:
    """The same by a power of ten."""
    mantissa, _, exponent = f"{value:.{max(_leading(value) - place, 0)}e}".partition("e")
    return f"{mantissa}e{int(exponent)}"
