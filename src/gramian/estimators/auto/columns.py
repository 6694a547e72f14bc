"""Decisions on how to read each column of a table, and the whole table as numbers.

- A number is itself; a missing one is the median, with a column beside that says where values were missing.
- A boolean is 0 or 1, a date its days since 1970; both are numbers from there on. Where that predicts the targets
  better, the place of a date in the year, in the week and in the day is added: points of a circle.
- Texts that are all numbers, booleans or dates are read as such (``gramian.data.cells``), so that a table gives the
  same numbers whether it comes from CSV, where all is text, or from a format with types.
- A category of few levels has one column for each level that is seen often enough, one for all others, new ones
  included, and one for missing values. A level of many is the mean target of its rows
  in other folds (``LevelMeans``).
- Free text has the counts of its words, scaled to length one: their inner product is the normalised ``WordCount``.
  Texts of a few words are read as words where that predicts the targets better than their levels do.
- A bare list of strings is one column; where they are not words but codes, as DNA, their substrings are counted.
- A column with one value only is left out, and so are identifiers: texts that hardly ever repeat, and whole numbers
  that never do and whose order says nothing of the targets.
- What a user says about a column (one of ``KINDS``) overrides all that.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV

from gramian.data.cells import day, has_decimal_commas, may_be_dates, may_be_numbers, number
from gramian.estimators.auto.encoders import (
    CYCLES,
    READERS,
    Category,
    Dropped,
    LevelMeans,
    NumberColumn,
    Text,
    level_places,
    pieces,
    present,
    read_texts,
    texts_of,
    with_comma,
)
from gramian.estimators.auto.row_hashes import Folds
from gramian.estimators.auto.tables import Column, check_finite, declared
from gramian.numerals import listed, nearest
from gramian.warning import warn

Array = NDArray[np.float64]

LEVELS = 100
"""Levels of a category that get a column of their own, at most."""
LEVEL_SHARE = 0.002
"""The share of the rows that a level must have for that, beside being seen twice."""
DIFFERENT = 0.5
"""The share of different rows from which means are cross-fitted."""
MANY_LEVELS = 10
"""A category of more levels than this may be read by the mean targets of levels."""
MEAN_ROWS, MOST_ROWS, MEAN_FOLDS = (30, 3), 0.8, 10
"""Rows that levels must have to be read by means if they could have columns, and those for a mean of its own; the share
of all rows that must have such a level; and folds."""
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
TRIED = 2000
"""Rows on which that is tried."""
RIDGES = np.logspace(-2, 3, 11)
"""Ridges of that."""
NO_WORDS: Mapping[str, str] = {}
KINDS = ("number", "category", "date", "text", "identifier", "drop")
"""Words by which a user says how to read a column; ``"id"`` is short for an identifier."""
UNIQUE, LEAST_ROWS = 0.95, 20
"""Different values to a row from which a column is an identifier, and the rows that it takes to tell."""
REPEATS = 7.0
"""Whole numbers without a repeat may be an identifier where chance would give at least this many repeats."""
ORDER = 4.0
"""Deviations from chance by which the order of whole numbers tells something of the targets."""
REMEMBERED = 10_000
"""Levels that are remembered, at most: rare ones to tell them from new ones, or those that have a mean."""
SUBSTRING = 3
"""Length of the substrings that are counted in strings that are not words."""
ODD_SHARE, EXAMPLES = 0.05, 3
"""The share of other texts up to which a column is said to hold numbers, and how many of them are named."""
PROBE = 2000
"""Values that are looked at to tell texts from numbers and dates written out."""


@dataclass(frozen=True)
class Encoding:
    """How every column of a table was read; ``str()`` is one line for each."""

    columns: tuple[Any, ...]  # In the order of the table
    folds: Folds | None = None  # Of the training rows, where levels are read by means of targets

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
        return {column.name for column in self.columns if isinstance(column, Category | LevelMeans | Text)}

    @property
    def scalable(self) -> list[int]:
        """Which of the numbers a scaling applies to: those that are not one-hot levels or counts of words."""
        return self.places(NumberColumn, LevelMeans)

    def places(self, *kinds: Any) -> list[int]:
        """Return which of the numbers come from columns of some kinds."""
        owners = [column for column in self.columns for _ in range(column.width)]
        return [place for place, column in enumerate(owners) if isinstance(column, kinds)]

    def transform(self, table: list[Column]) -> Array:
        """Return the table as numbers, not yet scaled: → (n, width)."""
        pairs = list(zip(self.columns, table, strict=True))
        fold: Any = -1 if self.folds is None else self.folds(_keys(pairs))
        parts = [e.transform(c, fold) if isinstance(e, LevelMeans) else e.transform(c) for e, c in pairs]
        return np.ascontiguousarray(np.hstack(parts))


def _keys(pairs: Sequence[tuple[Any, Column]]) -> Array:
    """Numbers that tell the rows of a table apart, the same whether levels are read by means or not: → (n, k)."""
    levels = [
        level_places(c, tuple(sorted(e.levels + (e.rare or ()))))[:, None] for e, c in pairs if hasattr(e, "rare")
    ]
    numbers = [e.transform(c) for e, c in pairs if isinstance(e, NumberColumn)]
    return np.hstack([np.zeros((pairs[0][1].values.shape[0], 0)), *numbers, *levels])


def encode(
    table: list[Column],
    words: Mapping[str, str] = NO_WORDS,
    targets: Array | None = None,
    *,
    named: bool = True,
    means: bool = False,
    weights: Array | None = None,
) -> Encoding:
    """Decide how to read every column of a table.

    Words for columns override it. Targets (n, t) tell words from levels and, where columns have names of their own,
    identifiers from numbers; with ``means``, levels of long categories are read by their mean targets.
    """
    made = [_encoder(c, targets) if c.name not in words else _as_given(c, words[c.name]) for c in table]
    for place, column in enumerate(table):
        others = any(encoder.width for i, encoder in enumerate(made) if i != place)
        if not named or targets is None or not others or column.name in words:
            continue
        if _is_identifier(column, made[place], targets):
            made[place] = Dropped(column.name, f"an identifier, {column.values.size:,} different whole numbers")
    if means and targets is not None:
        return _by_means(table, made, targets, np.ones(targets.shape[0]) if weights is None else weights)
    return Encoding(tuple(_or_dropped(column, encoder) for column, encoder in zip(table, made, strict=True)))


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
        return _category(column, Counter(present(column.values)), sure=True)
    if column.values.dtype != object:
        if word == "date" and column.kind != "date":
            raise ValueError(f"{column.name} holds numbers and cannot be a date; write dates as 2024-01-31.")
        return _number(column.name, column.kind, np.asarray(column.values))
    made = _written(column, (word,))
    if made is None:
        read = READERS[word]
        odd = next(v for v in present(column.values) if read(v) is None)
        do = "write dates as 2024-01-31, or mark it as missing" if word == "date" else "mark it as missing"
        raise ValueError(f"{column.name} cannot be a {word}, since it holds {odd!r}; {do}.")
    return made


def _encoder(column: Column, targets: Array | None) -> Any:
    if column.values.dtype != object:
        return _circled(_number(column.name, column.kind, np.asarray(column.values)), column, targets)
    if column.kind != "category" and (numbers := _written(column)) is not None:
        return _circled(numbers, column, targets)
    counts = Counter(present(column.values))
    if column.kind == "category" or not counts:
        return _category(column, counts, sure=column.kind == "category")
    if len(counts) >= TEXT_VARIETY * column.values.shape[0]:
        if _words_to_a_value(counts) >= TEXT_WORDS:
            return _text(column)
        if column.kind == "strings":
            return _text(column, SUBSTRING)
    levels = _category(column, counts)
    several = len(counts) >= SHORT_LEVELS and _words_to_a_value(counts) >= SHORT_WORDS
    # Levels that share no words with others say more than their words.
    if targets is not None and several and len({word for value in counts for word in value.split()}) < len(counts):
        words = _text(column)
        if _linear_error(words, column, targets) < MARGIN * _linear_error(levels, column, targets):
            return words
    return levels


def _circled(encoder: Any, column: Column, targets: Array | None) -> Any:
    """A date with the circles that predict targets better than its days alone do."""
    if targets is None or getattr(encoder, "kind", "") != "date" or column.values.shape[0] < LEAST_ROWS:
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
    """Whether whole numbers only tell rows apart: none repeats, and a name or chance says so."""
    if not isinstance(encoder, NumberColumn) or encoder.kind != "number" or encoder.gaps:
        return False
    values = encoder.transform(column)[:, 0]
    n = values.size
    if n < LEAST_ROWS or np.any(values != np.round(values)) or np.unique(values).size < n:
        return False
    if _ID_NAME.search(column.name):
        return True
    repeats = n * (n - 1) / (2.0 * (float(np.ptp(values)) + 1.0))
    return (repeats > REPEATS or _KEY_NAME.search(column.name) is not None) and not _order_tells(values, targets)


def _order_tells(values: Array, targets: Array) -> bool:
    """Whether targets depend on the order of values: by a trend, or since neighbours are alike. targets (n, t)."""
    Y = targets[np.argsort(values)] - targets.mean(axis=0)
    n, size = Y.shape[0], np.maximum(np.sum(Y**2, axis=0), np.finfo(np.float64).tiny)
    ranks = (np.arange(n) - 0.5 * (n - 1)) / math.sqrt((n**3 - n) / 12.0)
    alike = 1.0 - np.sum(np.diff(Y, axis=0) ** 2, axis=0) / (2.0 * size)  # von Neumann's ratio
    return bool(max(alike.max(), np.max(np.abs(ranks @ Y) / np.sqrt(size))) > ORDER / math.sqrt(n))


def _written(column: Column, kinds: tuple[str, ...] = ("number", "boolean", "date")) -> Any:
    """The encoder of texts that are all numbers, booleans or dates; None where they are not."""
    ways = [(kind, READERS[kind], False) for kind in kinds]
    if "number" in kinds and has_decimal_commas(present(column.values)):
        ways = [("number", with_comma, True)]
    for kind, read, comma in ways:
        if read_texts(read, column.values[:PROBE]) is None or (values := read_texts(read, column.values)) is None:
            continue
        check_finite(column.name, values)
        return _number(column.name, kind, values, written=True, comma=comma)
    if len(kinds) > 1 and (odd := _odd_among_numbers(column)):
        warn(
            f"{column.name} holds numbers and {listed(map(repr, odd), EXAMPLES)}, and is not read as numbers; leave "
            "such values empty to have them read as missing."
        )
    elif len(kinds) > 1 and may_be_numbers(present(column.values)):
        example = next(v for v in present(column.values) if number(v) is None)
        warn(
            f"{column.name} holds texts such as {example!r}, which may be numbers with a decimal comma or with marks "
            "between thousands, and is read as text; write them as 1234.5 to have them read as numbers."
        )
    elif len(kinds) > 1 and may_be_dates(present(column.values)):
        example = next(v for v in present(column.values) if day(v) is None)
        warn(f"{column.name} holds texts such as {example!r}, and is read as text; write dates as 2024-01-31.")
    return None


def _odd_among_numbers(column: Column) -> list[str]:
    """The few different texts of a column of numbers that are none."""
    if all(number(text) is None for text in present(column.values[:LEAST_ROWS])):
        return []
    texts = list(present(column.values))
    odd = [text for text in texts if number(text) is None]
    return sorted(set(odd)) if len(odd) <= ODD_SHARE * len(texts) else []


def _number(name: str, kind: str, values: Array, *, written: bool = False, comma: bool = False) -> Any:
    missing = np.isnan(values)
    known = values[~missing]
    if known.size == 0:
        return Dropped(name, "every value is missing")
    if known.min() == known.max() and not missing.any():
        return Dropped(name, f"every value is {known[0]:g}")
    return NumberColumn(name, kind, float(np.median(known)), bool(missing.any()), written, comma)


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
    unique = not sure and n >= LEAST_ROWS and len(counts) >= UNIQUE * counts.total()
    if unique and n > 1:
        return Dropped(column.name, f"an identifier, {len(counts):,} different values in {n:,} rows")
    rare = sorted(set(counts) - set(often[:LEVELS]))
    return Category(column.name, tuple(often[:LEVELS]), tuple(rare) if len(rare) <= REMEMBERED else None)


def _by_means(table: list[Column], made: list[Any], targets: Array, weights: Array) -> Encoding:
    """Many levels by their mean targets, where most rows have a level of several rows; else the encoder itself."""
    keys = _keys(list(zip(made, table, strict=True)))
    folds = Folds.of_rows(keys, MEAN_FOLDS)
    # Rows that are equal share a fold: where most are, folds would leave out whole levels.
    crossed = folds.known.size >= DIFFERENT * targets.shape[0]
    fold = folds(keys) if crossed else None
    found = []
    for column, encoder in zip(table, made, strict=True):
        levels, means = _levels_with_means(column, encoder, crossed) if isinstance(encoder, Category) else (), None
        if levels:
            rare = None if encoder.rare is None else tuple(sorted({*encoder.levels, *encoder.rare} - set(levels)))
            means = LevelMeans.learned(column, levels, rare, targets, weights, fold)
        found.append(means or _or_dropped(column, encoder))
    kept = [new if isinstance(new, Dropped) else old for old, new in zip(made, found, strict=True)]
    if kept != made:  # folds follow from the columns that are left
        return _by_means(table, kept, targets, weights)
    used = crossed and any(isinstance(encoder, LevelMeans) for encoder in found)
    return Encoding(tuple(found), folds if used else None)


def _levels_with_means(column: Column, encoder: Category, crossed: bool) -> tuple[str, ...]:
    """The levels of enough rows, where there are many and most rows have one of them; else none."""
    seen = encoder.levels + (encoder.rare or ())
    rows = np.bincount(level_places(column, seen), minlength=len(seen) + 2)
    own = rows[: len(encoder.levels)].sum() >= MOST_ROWS * rows.sum()
    large = rows >= MEAN_ROWS[crossed and not own]
    if np.count_nonzero(large[: len(seen)]) <= MANY_LEVELS or rows[large].sum() < MOST_ROWS * rows.sum():
        return ()
    return tuple(level for level, count in zip(seen, rows.tolist(), strict=False) if count >= MEAN_ROWS[crossed])


def _or_dropped(column: Column, encoder: Any) -> Any:
    """A category without a level of enough rows is left out."""
    if not isinstance(encoder, Category) or encoder.levels or column.values.shape[0] < 2:
        return encoder
    n, count = column.values.shape[0], len(set(present(column.values)))
    return Dropped(column.name, f"an identifier, {count:,} different values in {n:,} rows")


def _words_to_a_value(counts: Counter[str]) -> float:
    return float(np.mean([len(value.split()) for value in counts]))


def _text(column: Column, length: int = 0) -> Any:
    split = pieces(length)
    documents = Counter(word for text in texts_of(column) for word in set(split(text)))
    words = sorted((w for w, count in documents.items() if count >= 2), key=lambda w: (-documents[w], w))
    if not words:
        return Dropped(column.name, f"no {'substring' if length else 'word'} occurs in two texts")
    return Text(column.name, tuple(words[:WORDS]), length)


_KEY_NAME = re.compile(
    r"(^|[\W_])(?i:key|no|nr|num|number|code|ref|serial|account|client|contract|customer|invoice|member|order|patient|"
    r"policy|user)$"
)
_ID_NAME = re.compile(r"(^|[\W_])(?i:id|uuid|guid)$|[a-z](Id|ID)$")
