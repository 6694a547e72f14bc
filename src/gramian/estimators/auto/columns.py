"""Encodings of columns as numbers: frozen values that hold what was learned.

- A number is itself; a missing one is the median, with a column beside that says where values were missing.
- A boolean is 0 or 1, a date its days since 1970; both are numbers from there on. Where that predicts the targets
  better, a date has its place in the year and in the week beside: points of a circle.
- Texts that are all numbers, booleans or dates are read as such (``gramian.data.cells``), so that a table gives the
  same numbers whether it comes from CSV, where all is text, or from a format with types.
- A category has one column for each level that is seen often enough, one for all others, new ones included, and one for
  the missing.
- Free text has the counts of its words, scaled to length one: their inner product is the normalised ``WordCount``.
  Texts of a few words are read as words where that predicts the targets better than their levels do.
- A bare list of strings is one column; where they are not words but codes, as DNA, their substrings are counted.
- A column with one value only is left out, and so are identifiers: texts that hardly ever repeat, and whole numbers
  that never do and whose order says nothing of the targets.
- A word for a column (``KINDS``) overrides all that.
"""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import RidgeCV
from sklearn.preprocessing import normalize

from gramian.data.cells import boolean, day, has_decimal_commas, may_be_numbers, number
from gramian.estimators.auto.tables import Column, check_finite, declared
from gramian.kernels import Spectrum, WordCount
from gramian.kernels.deserialize import nearest

Array = NDArray[np.float64]

LEVELS = 100
"""Levels of a category that get a column of their own, at most."""
LEVEL_SHARE = 0.002
"""The share of the rows that a level must have for that, beside being seen twice."""
WORDS = 300
"""Words of a text that are counted, at most: the most frequent by documents."""
TEXT_WORDS = 3.0
"""Words to a value, on average, from which a column is text."""
TEXT_VARIETY = 0.2
"""Different values to a row from which it can be."""
SHORT_WORDS, SHORT_LEVELS = 1.5, 10
"""Words to a value, on average, and different values, from which a column is tried as words."""
MARGIN = 0.99
"""The part of the squared error that words may leave of that of levels, and circles of that of days, at most."""
CYCLES = {"year": 365.2425, "week": 7.0}
"""What a date may return in, in days."""
TRIED = 2000
"""Rows on which that is tried."""
RIDGES = np.logspace(-2, 3, 11)
"""Ridges of that."""
NOTHING: Mapping[str, str] = {}
KINDS = ("number", "category", "date", "text", "identifier", "drop")
"""Words by which a user says how to read a column; ``"id"`` is short for an identifier."""
UNIQUE, SURE_ROWS = 0.95, 20
"""Different values to a row from which a column is an identifier, and the rows that it takes to tell."""
REPEATS = 7.0
"""Repeats to expect by chance, among whole numbers of the same range, for their absence to be no chance."""
ORDER = 4.0
"""Deviations from chance by which the order of whole numbers tells something of the targets."""
RARE = 10_000
"""Rare levels that are remembered, at most, to tell them from new ones."""
SUBSTRING = 3
"""Length of the substrings that are counted in strings that are not words."""
ONE_HOT = math.sqrt(0.5)
"""Two different levels are then at distance one."""
PROBE = 2000
"""Values that are looked at to tell texts from numbers and dates written out."""
SCALINGS = ("standard", "normal", "robust", "common")
"""By mean and deviation; by rank to the normal law, for heavy tails; by median and quartiles, far values drawn in; by
one deviation for all columns of one unit."""
QUARTILES = 1.349
"""Deviations between the quartiles of the normal law."""
NEAR = 3.0
"""Deviations that the farthest values of ``Robust`` are drawn in to."""
TOGETHER, APART = 8, 2.0
"""Columns, at least, that may share a unit, as pixels do; and by how much deviations then differ for it to matter."""
QUANTILES = 500
"""Points of the distribution that ``Normal`` keeps, at most."""
TAIL = 1e-3
"""The rank of the smallest value; beyond it the map is flat."""


# ---- columns as numbers -------------------------------------------------------------------------------------------


class Encoder:
    """How one column becomes numbers."""

    def unseen(self, column: Column) -> Counter[str]:
        """Count the values that mean nothing to it, since the fit had not seen them."""
        return Counter()


@dataclass(frozen=True)
class NumberColumn(Encoder):
    """A number, a boolean or a date."""

    name: str  # Of the column
    kind: str  # ``"number"``, ``"boolean"`` or ``"date"``
    fill: float  # The median, which stands in for a missing value
    gaps: bool  # Whether values were missing: a second column then tells where
    written: bool = False  # Whether the values were texts to be read as numbers, booleans or dates
    comma: bool = False  # Whether they had decimal commas
    cycles: tuple[str, ...] = ()  # Of a date: keys of ``CYCLES`` whose circle it is a point of, too

    @property
    def width(self) -> int:
        """Columns that it makes."""
        return 1 + self.gaps + 2 * len(self.cycles)

    def transform(self, column: Column) -> Array:
        """Return the numbers of some rows: → (n, width)."""
        values = self._numbers(column)
        missing = np.isnan(values)
        filled = np.where(missing, self.fill, values)
        turns = [2.0 * np.pi * filled / CYCLES[cycle] for cycle in self.cycles]
        circles = [part(turn) for turn in turns for part in (np.sin, np.cos)]
        return np.column_stack([filled, *([missing] if self.gaps else []), *circles])

    def _numbers(self, column: Column) -> Array:
        if column.values.dtype != object:
            return np.asarray(column.values)
        values = _read(_READERS[self.kind], column.values)
        if values is None and self.kind == "number" and (self.comma or has_decimal_commas(_present(column.values))):
            values = _read(_with_comma, column.values)
        if values is None:
            odd = next(v for v in _present(column.values) if _READERS[self.kind](v) is None)
            raise ValueError(f"{self.name} was read as a {self.kind}, and now holds {odd!r}; mark it as missing.")
        check_finite(self.name, values)
        return values

    def __str__(self) -> str:
        rule = "".join(f", with its place in the {cycle}" for cycle in self.cycles)
        return f"{self.kind}{rule}" + (
            f", a missing value is the median {self.fill:.6g} and marked" if self.gaps else ""
        )


@dataclass(frozen=True)
class Category(Encoder):
    """One of a few levels."""

    name: str  # Of the column
    levels: tuple[str, ...]  # Those with a column of their own; all others share one, and the missing have one
    rare: tuple[str, ...] | None = None  # The others that were seen; None where they are too many to remember

    @property
    def width(self) -> int:
        """Columns that it makes."""
        return len(self.levels) + 2

    def transform(self, column: Column) -> Array:
        """Return the numbers of some rows: → (n, width)."""
        others, missing = len(self.levels), len(self.levels) + 1
        places = dict(self._keys(column, self.levels))
        at = [missing if v is None or v != v else places.get(v, others) for v in column.values]
        return ONE_HOT * np.eye(self.width)[at]

    def unseen(self, column: Column) -> Counter[str]:
        """Count the values that no row of the fit had."""
        if self.rare is None:
            return Counter()
        known = {level for level, _ in self._keys(column, self.levels + self.rare)}
        odd = [v for v in column.values if v is not None and v == v and v not in known]
        return Counter(_texts(Column(column.name, np.array(odd, dtype=column.values.dtype), column.kind)))

    def _keys(self, column: Column, levels: tuple[str, ...]) -> Iterator[tuple[Any, int]]:
        """Levels as they are in a column, the last ones first, and their places."""
        # A file without types gives some rows of a column of texts, such as 007 and 1.50, as numbers.
        read: Any = str if column.values.dtype == object else partial(_as_number, column.kind)
        return ((read(levels[place]), place) for place in reversed(range(len(levels))))

    def __str__(self) -> str:
        shown = ", ".join(self.levels[:4]) + (", …" if len(self.levels) > 4 else "")
        return f"category with {len(self.levels)} levels ({shown}), one for all others and one for missing values"


@dataclass(frozen=True)
class Text(Encoder):
    """Free text."""

    name: str  # Of the column
    words: tuple[str, ...]  # Those that are counted
    length: int = 0  # Of the substrings that are counted in the place of words; zero for words

    @property
    def width(self) -> int:
        """Columns that it makes."""
        return len(self.words)

    def transform(self, column: Column) -> Array:
        """Return the numbers of some rows: → (n, width)."""
        counter = CountVectorizer(analyzer=_pieces(self.length), vocabulary=self.words, dtype=np.float64)
        return np.asarray(normalize(counter.transform(_texts(column)).toarray()))

    def __str__(self) -> str:
        what = f"substrings of length {self.length}" if self.length else "words"
        return f"text, counts of {len(self.words)} {what}; a missing text has none"


@dataclass(frozen=True)
class Dropped(Encoder):
    """A column that is left out."""

    name: str  # Of the column
    reason: str  # Why
    width: ClassVar[int] = 0

    def transform(self, column: Column) -> Array:
        """Return no columns: → (n, 0)."""
        return np.zeros((column.values.shape[0], 0))

    def __str__(self) -> str:
        return f"left out: {self.reason}"


@dataclass(frozen=True)
class Encoding:
    """How every column of a table was read; ``str()`` is one line for each."""

    columns: tuple[Any, ...]  # In the order of the table

    def __str__(self) -> str:
        return "\n".join(f"{column.name}: {column}" for column in self.columns)

    @property
    def width(self) -> int:
        """Numbers to a row."""
        return sum(column.width for column in self.columns)

    @property
    def names(self) -> list[str]:
        """What each number is called."""
        several = [(c.name, c.width, i) for c in self.columns for i in range(c.width)]
        return [name if width == 1 else f"{name} ({i + 1})" for name, width, i in several]

    @property
    def discrete(self) -> set[str]:
        """Names of the columns that have levels or words, and so no slopes."""
        return {column.name for column in self.columns if isinstance(column, Category | Text)}

    def places(self, *kinds: Any) -> list[int]:
        """Return which of the numbers come from columns of some kinds."""
        owners = [column for column in self.columns for _ in range(column.width)]
        return [place for place, column in enumerate(owners) if isinstance(column, kinds)]

    def transform(self, table: list[Column]) -> Array:
        """Return the table as numbers, not yet scaled: → (n, width)."""
        parts = [encoder.transform(column) for encoder, column in zip(self.columns, table, strict=True)]
        return np.ascontiguousarray(np.hstack(parts))


def encode(
    table: list[Column], words: Mapping[str, str] = NOTHING, targets: Array | None = None, *, named: bool = True
) -> Encoding:
    """Decide how to read every column of a table.

    Words for columns override it. Targets (n, t) tell words from levels and, where columns have names of their own,
    identifiers from numbers.
    """
    made = [_encoder(c, targets) if c.name not in words else _as_given(c, words[c.name]) for c in table]
    for place, column in enumerate(table):
        others = any(encoder.width for i, encoder in enumerate(made) if i != place)
        if not named or targets is None or not others or column.name in words:
            continue
        if _is_identifier(column, made[place], targets):
            made[place] = Dropped(column.name, f"an identifier, {column.values.size:,} different whole numbers")
    return Encoding(tuple(made))


def checked_words(columns: Any, names: list[str]) -> dict[str, str]:
    """Return the words for columns that a user gives, by name or place, where they make sense."""
    found = {}
    for name, word in dict(columns or {}).items():
        if isinstance(name, int) and not isinstance(name, bool) and 0 <= name < len(names):
            name = names[name]
        if name not in names:
            raise ValueError(f"columns names {name!r}, which X does not have; {nearest(str(name), names)}")
        word = "identifier" if word == "id" else word
        if word not in KINDS:
            raise ValueError(f"columns must say {', '.join(KINDS)} or id of a column, got {word!r} of {name!r}.")
        found[name] = word
    return found


def _as_given(column: Column, word: str) -> Any:
    """The encoder that a user asks for."""
    if word in ("drop", "identifier"):
        return Dropped(column.name, "as asked" if word == "drop" else "an identifier, as said")
    if word == "text":
        return _text(column)
    if word == "category":
        column = column if column.values.dtype == object else declared(column.name, column.values)
        return _category(column, Counter(_present(column.values)), sure=True)
    if column.values.dtype != object:
        if word == "date" and column.kind != "date":
            raise ValueError(f"{column.name} holds numbers and cannot be a date; write dates as 2024-01-31.")
        return _number(column.name, column.kind, np.asarray(column.values))
    made = _written(column, (word,))
    if made is None:
        read = _READERS[word]
        odd = next(v for v in _present(column.values) if read(v) is None)
        raise ValueError(f"{column.name} cannot be a {word}, since it holds {odd!r}; mark it as missing.")
    return made


def _encoder(column: Column, targets: Array | None) -> Any:
    if column.values.dtype != object:
        return _circled(_number(column.name, column.kind, np.asarray(column.values)), column, targets)
    if column.kind != "category" and (numbers := _written(column)) is not None:
        return _circled(numbers, column, targets)
    counts = Counter(_present(column.values))
    if column.kind == "category" or not counts:
        return _category(column, counts, sure=column.kind == "category")
    if _is_text(column.values, counts):
        return _text(column)
    if column.kind == "strings" and len(counts) >= TEXT_VARIETY * column.values.shape[0]:
        return _text(column, SUBSTRING)
    levels = _category(column, counts)
    if targets is not None and len(counts) >= SHORT_LEVELS and _words_to_a_value(counts) >= SHORT_WORDS:
        words = _text(column)
        if _linear_error(words, column, targets) < MARGIN * _linear_error(levels, column, targets):
            return words
    return levels


def _circled(encoder: Any, column: Column, targets: Array | None) -> Any:
    """A date with the circles that predict targets better than its days alone do."""
    if targets is None or getattr(encoder, "kind", "") != "date" or column.values.shape[0] < SURE_ROWS:
        return encoder
    plain = _linear_error(encoder, column, targets)
    for cycle in CYCLES:
        more = replace(encoder, cycles=(*encoder.cycles, cycle))
        if (error := _linear_error(more, column, targets)) < MARGIN * plain:
            encoder, plain = more, error
    return encoder


def _linear_error(encoder: Any, column: Column, targets: Array) -> float:
    """The squared leave-one-out error of a ridge on a column alone, on some of the rows: targets (n, t)."""
    some = np.unique(np.linspace(0, targets.shape[0] - 1, TRIED).astype(np.intp))
    Y = targets[some]
    if not encoder.width:
        return float(np.mean((Y - Y.mean(axis=0)) ** 2))
    Z = encoder.transform(Column(column.name, column.values[some], column.kind))
    return -float(RidgeCV(RIDGES).fit(Z, Y).best_score_)


def _is_identifier(column: Column, encoder: Any, targets: Array) -> bool:
    """Whether whole numbers only tell rows apart: none repeats, and none is called for by its name or by chance."""
    if not isinstance(encoder, NumberColumn) or encoder.kind != "number" or encoder.gaps:
        return False
    values = encoder.transform(column)[:, 0]
    n = values.size
    if n < SURE_ROWS or np.any(values != np.round(values)) or np.unique(values).size < n:
        return False
    if _ID_NAME.search(column.name):
        return True
    repeats = n * (n - 1) / (2.0 * (float(np.ptp(values)) + 1.0))
    return repeats > REPEATS and not _order_tells(values, targets)


def _order_tells(values: Array, targets: Array) -> bool:
    """Whether targets depend on the order of values: by a trend, or since neighbours are alike. targets (n, t)."""
    Y = targets[np.argsort(values)] - targets.mean(axis=0)
    n, size = Y.shape[0], np.maximum(np.sum(Y**2, axis=0), np.finfo(np.float64).tiny)
    ranks = (np.arange(n) - 0.5 * (n - 1)) / math.sqrt((n**3 - n) / 12.0)
    alike = 1.0 - np.sum(np.diff(Y, axis=0) ** 2, axis=0) / (2.0 * size)  # von Neumann's ratio
    return bool(max(alike.max(), np.max(np.abs(ranks @ Y) / np.sqrt(size))) > ORDER / math.sqrt(n))


def _written(column: Column, kinds: tuple[str, ...] = ("number", "boolean", "date")) -> Any:
    """The encoder of texts that are all numbers, booleans or dates; None where they are not."""
    ways = [(kind, _READERS[kind], False) for kind in kinds]
    if "number" in kinds and has_decimal_commas(_present(column.values)):
        ways = [("number", _with_comma, True)]
    for kind, read, comma in ways:
        if _read(read, column.values[:PROBE]) is None or (values := _read(read, column.values)) is None:
            continue
        check_finite(column.name, values)
        return _number(column.name, kind, values, written=True, comma=comma)
    if len(kinds) > 1 and may_be_numbers(_present(column.values)):
        example = next(v for v in _present(column.values) if number(v) is None)
        warnings.warn(
            f"{column.name} holds texts such as {example!r}, which may be numbers with a decimal comma or with marks "
            "between thousands, and is read as text; write them as 1234.5 to have them read as numbers.",
            UserWarning,
            stacklevel=2,
        )
    return None


def _number(name: str, kind: str, values: Array, *, written: bool = False, comma: bool = False) -> Any:
    missing = np.isnan(values)
    present = values[~missing]
    if present.size == 0:
        return Dropped(name, "every value is missing")
    if present.min() == present.max() and not missing.any():
        return Dropped(name, f"every value is {present[0]:g}")
    return NumberColumn(name, kind, float(np.median(present)), bool(missing.any()), written, comma)


def _category(column: Column, counts: Counter[str], *, sure: bool = False) -> Any:
    """The encoder of levels; unless it is sure that they are levels, those that hardly repeat are an identifier."""
    n = column.values.shape[0]
    if not counts:
        return Dropped(column.name, "every value is missing")
    if len(counts) == 1 and counts.total() == n:
        return Dropped(column.name, f"every value is {next(iter(counts))!r}")
    least = max(2.0, LEVEL_SHARE * n)
    # Ties are broken by name, so that the order of the rows does not matter.
    often = sorted((level for level, count in counts.items() if count >= least), key=lambda v: (-counts[v], v))
    unique = not sure and n >= SURE_ROWS and len(counts) >= UNIQUE * counts.total()
    if (unique or not often) and n > 1:
        return Dropped(column.name, f"an identifier, {len(counts):,} different values in {n:,} rows")
    rare = sorted(set(counts) - set(often[:LEVELS]))
    return Category(column.name, tuple(often[:LEVELS]), tuple(rare) if len(rare) <= RARE else None)


def _words_to_a_value(counts: Counter[str]) -> float:
    return float(np.mean([len(value.split()) for value in counts]))


def _is_text(values: NDArray[Any], counts: Counter[str]) -> bool:
    return len(counts) >= TEXT_VARIETY * values.shape[0] and _words_to_a_value(counts) >= TEXT_WORDS


def _pieces(length: int) -> Callable[[str], list[str]]:
    """What is counted in a text: words, or substrings of some length."""
    return Spectrum(length).pieces if length else WordCount().pieces


def _text(column: Column, length: int = 0) -> Any:
    pieces = _pieces(length)
    documents = Counter(word for text in _texts(column) for word in set(pieces(text)))
    words = sorted((w for w, count in documents.items() if count >= 2), key=lambda w: (-documents[w], w))
    if not words:
        return Dropped(column.name, f"no {'substring' if length else 'word'} occurs in two texts")
    return Text(column.name, tuple(words[:WORDS]), length)


def _texts(column: Column) -> list[str]:
    """The values as texts, whatever they came as; empty where one is missing."""
    if column.values.dtype == object:
        return [v or "" for v in column.values]
    return ["" if math.isnan(v) else str(int(v) if v.is_integer() else v) for v in column.values.tolist()]


def _present(values: NDArray[Any]) -> Iterator[str]:
    return (v for v in values if v is not None)


def _read(read: Callable[[str], float | None], values: NDArray[Any]) -> Array | None:
    """The values of texts, nan where one is missing; None where one cannot be read."""
    found = []
    for text in values:
        found.append(math.nan if text is None else read(text))
        if found[-1] is None:
            return None
    return np.array(found, dtype=np.float64)


def _as_number(kind: str, text: str) -> float | None:
    """A level as a column of numbers of some kind has it."""
    found = _READERS[kind](text)
    return number(text) if found is None else found


_ID_NAME = re.compile(r"(^|[\W_])(?i:id|uuid|guid)$|[a-z](Id|ID)$")
_with_comma = partial(number, comma=True)
_READERS: dict[str, Callable[[str], float | None]] = {"number": number, "boolean": boolean, "date": day}


# ---- one scale ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Standard:
    """``(x - mean) / deviation`` in some columns."""

    places: NDArray[np.intp]  # Which columns; the others stay
    mean: Array  # (k,): Of those columns
    deviation: Array  # (k,): Of those columns

    def transform(self, Z: Array) -> Array:
        """Return the scaled rows: Z (n, d) → (n, d)."""
        Z = Z.copy()
        unit = _unit(self.deviation)  # so that no difference overflows
        Z[:, self.places] = (Z[:, self.places] * unit - self.mean * unit) / (self.deviation * unit)
        return Z


@dataclass(frozen=True, eq=False)
class Normal:
    """Each value by its rank among those fitted, through the inverse of the normal distribution, in some columns."""

    places: NDArray[np.intp]  # Which columns; the others stay
    quantiles: Array  # (q, k): Ascending, evenly spaced by rank

    def transform(self, Z: Array) -> Array:
        """Return the scaled rows: Z (n, d) → (n, d)."""
        Z = Z.copy()
        ranks = np.linspace(0.0, 1.0, self.quantiles.shape[0])
        for place, known in zip(self.places, self.quantiles.T, strict=True):
            # The mean of the two interpolations puts tied values in the middle of their ranks.
            upward = np.interp(Z[:, place], known, ranks)
            downward = np.interp(-Z[:, place], -known[::-1], ranks)
            Z[:, place] = ndtri(np.clip(0.5 * (upward + 1.0 - downward), TAIL, 1.0 - TAIL))
        return Z


@dataclass(frozen=True, eq=False)
class Robust:
    """``u / √(1 + (u/3)²)`` with ``u = (x - median) / spread`` in some columns."""

    places: NDArray[np.intp]  # Which columns; the others stay
    median: Array  # (k,): Of those columns
    spread: Array  # (k,): Of those columns

    def transform(self, Z: Array) -> Array:
        """Return the scaled rows: Z (n, d) → (n, d)."""
        Z = Standard(self.places, self.median, self.spread).transform(Z)
        u = np.clip(Z[:, self.places], -1e150, 1e150)
        Z[:, self.places] = u / np.hypot(1.0, u / NEAR)
        return Z


def scalings_for(Z: Array, places: list[int]) -> tuple[str, ...]:
    """Return the scalings worth a trial: a common one where no column dominates, and some would be blown up alone."""
    with np.errstate(over="ignore"):
        deviation = Z[:, places].std(axis=0)
        typical = float(np.sqrt(np.mean(deviation**2))) if deviation.size else 0.0
    if deviation.size < TOGETHER or not np.isfinite(typical):
        return SCALINGS[:3]
    return SCALINGS if deviation.max() <= APART * typical and deviation.min() * APART < typical else SCALINGS[:3]


def fit_scaling(name: str, Z: Array, places: list[int]) -> Any:
    """Learn a scaling: Z (n, d)."""
    at = np.asarray(places, dtype=np.intp)
    some = Z[:, at]
    if name == "common":
        return Standard(at, some.mean(axis=0), np.full(at.size, np.sqrt(np.mean(some.var(axis=0)))))
    if name == "standard":
        unit = _unit(np.abs(some).max(axis=0, initial=0.0))  # so that no square overflows or vanishes
        mean, deviation = (some * unit).mean(axis=0) / unit, (some * unit).std(axis=0) / unit
        floor = 10.0 * np.finfo(np.float64).eps * np.abs(mean)
        return Standard(at, mean, np.where(deviation > floor, deviation, 1.0))
    if name == "robust" and at.size:
        spread = np.subtract(*np.quantile(some, [0.75, 0.25], axis=0)) / QUARTILES
        deviation = fit_scaling("standard", Z, places).deviation  # where more than half of the values are equal
        return Robust(at, np.median(some, axis=0), np.where(spread > 0, spread, deviation))
    ranks = np.linspace(0.0, 1.0, min(QUANTILES, Z.shape[0]))
    return Normal(at, np.quantile(some, ranks, axis=0) if at.size else np.zeros((ranks.size, 0)))


def _unit(size: Array) -> Array:
    """Powers of two, so that a product with them is exact, that bring numbers of some size near one."""
    return np.ldexp(1.0, np.clip(-np.frexp(size)[1], -1020, 1020))
