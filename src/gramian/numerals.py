"""Numbers, long texts, lists and near misses as people read them: 116,000 ± 2,500; a, b and 3 more."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable

DIGITS = 3
"""Significant digits of a number without a known spread."""
MOST = 6
"""Limit on the significant digits of a number with a tiny spread."""
PLAIN = (1e-4, 1e15)
"""Range of magnitudes written without a power of ten."""


def written(value: float, spread: float = math.nan, digits: int = DIGITS) -> str:
    """Return ``value ± spread``, rounded to two digits of the spread; without a spread, to ``digits`` digits."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else f"{value}".replace("inf", "∞")
    size = max(abs(value), spread if math.isfinite(spread) else 0.0)
    put = _plain if size == 0.0 or PLAIN[0] <= size < PLAIN[1] else _by_power
    if not spread > 0.0 or math.isinf(spread):
        text = put(value, _leading(value) - digits + 1)
        return f"{text} ± 0" if spread == 0.0 else text
    place = max(_leading(spread) - 1, _leading(value) - MOST + 1)
    return f"{put(value, place)} ± {put(spread, place)}"


def shortened(text: object, most: int) -> str:
    """Return a text of at most so many characters, with "…" where it was cut."""
    whole = str(text)
    return whole if len(whole) <= most else whole[: most - 1] + "…"


def listed(items: Iterable[object], most: int, separator: str = ", ") -> str:
    """Return the first items with separators between them, and how many more there are."""
    texts = list(map(str, items))
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


def nearest(name: str, names: Iterable[object]) -> str:
    """Return the end of an error message that helps with a misspelt name."""
    known = list(map(str, names))
    lower = {n.lower(): n for n in reversed(known)}
    close = difflib.get_close_matches(str(name).lower(), lower, n=1)
    return f"did you mean {lower[close[0]]!r}?" if close else f"the known ones are {', '.join(sorted(known))}."


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun, whose plural ends in s unless it is given: 1 row, 2,000 rows."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def _leading(value: float) -> int:
    """The decimal exponent of a number rounded to two digits: 2 for 116, -1 for 0.93, 1 for 9.96."""
    return int(f"{value:.1e}".partition("e")[2]) if value else 0


def _plain(value: float, place: int) -> str:
    """A number rounded to the digit of 10^place, with thousands separators."""
    return f"{round(value, -place) + 0.0:,.{max(-place, 0)}f}"  # no minus zero


def _by_power(value: float, place: int) -> str:
    """The same in scientific notation."""
    mantissa, _, exponent = f"{value:.{max(_leading(value) - place, 0)}e}".partition("e")
    return f"{mantissa}e{int(exponent)}"
