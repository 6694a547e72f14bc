"""Parsing of cells in files and tables: missing values, numbers, booleans, dates."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable

MISSING = frozenset(
    {"", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None"}
    | {"1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"}
)
"""Texts that mean a missing value, with or without spaces around: those of ``pandas.read_csv``."""
BOOLEANS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "1": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0, "0": 0.0}
_HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]{1,15}")
_COMMA = re.compile(r"[+-]?([0-9]+(,[0-9]*)?|,[0-9]+)([eE][+-]?[0-9]+)?")
_EITHER = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")  # 1,234 may be 1.234 or 1234
_MARKED = re.compile(r"[+-]?[0-9]{1,3}([.,' \u00a0\u202f][0-9]{3})*([.,][0-9]+)?")
_DOTTED = re.compile(r"(?P<day>[0-9]{1,2})\.(?P<month>[0-9]{1,2})\.(?P<year>[0-9]{4})(?P<time>([ T][0-9].*)?)")
_SLASHED = re.compile(r"[0-9]{1,4}[/-][0-9]{1,2}[/-][0-9]{2,4}([ T][0-9].*)?")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def is_missing(text: str) -> bool:
    """Whether a text means a missing value."""
    return text.strip() in MISSING


def number(text: str, *, comma: bool = False) -> float | None:
    """Return a text as a number, or None."""
    text = text.strip()
    if comma and _COMMA.fullmatch(text):
        text = text.replace(",", ".")
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return float(int(text, 16)) if _HEXADECIMAL.fullmatch(text) else None


def boolean(text: str) -> float | None:
    """Return one for true and zero for false, or None."""
    return BOOLEANS.get(text.strip())


def day(text: str) -> float | None:
    """Return an ISO 8601 date or time, or one such as 31.1.2024, as days since 1970, or None; it is UTC by default."""
    text = text.strip()
    if dotted := _DOTTED.fullmatch(text):
        text = f"{dotted['year']}-{dotted['month']:0>2}-{dotted['day']:0>2}{dotted['time']}"
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    return ((moment - _EPOCH) // datetime.timedelta(microseconds=1)) / 86_400e6


def has_decimal_commas(texts: Iterable[str]) -> bool:
    """Whether texts are certainly numbers with decimal commas."""
    found = False
    for text in map(str.strip, texts):
        if not _COMMA.fullmatch(text):
            return False
        found = found or ("," in text and not _EITHER.fullmatch(text))
    return found


def may_be_dates(texts: Iterable[str]) -> bool:
    """Whether texts may be dates of which it is not known what comes first, the day or the month."""
    return all(_SLASHED.fullmatch(text) for text in map(str.strip, texts))


def may_be_numbers(texts: Iterable[str]) -> bool:
    """Whether texts may be numbers in an ambiguous notation."""
    return all(_COMMA.fullmatch(text) or _MARKED.fullmatch(text) for text in map(str.strip, texts))
