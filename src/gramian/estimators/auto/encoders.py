"""Encoders: how one column of a table becomes numbers, as frozen values that hold what was learned."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize

from gramian.data.cells import boolean, day, has_decimal_commas, number
from gramian.estimators.auto.tables import Column, check_finite
from gramian.kernels import Spectrum, WordCount
from gramian.numerals import listed

Array = NDArray[np.float64]

CYCLES = {"year": 365.2425, "week": 7.0, "day": 1.0}
"""Periods of dates and times, in days."""
ONE_HOT = math.sqrt(0.5)
"""Two different levels are then at distance one."""
NAMED = 4
"""Levels that a description names."""
DIRECTIONS = 3
"""Numbers that the means of a level are reduced to, where there are more targets."""


class Encoder:
    """How one column becomes numbers."""

    def transform(self, column: Column) -> Array:
        """Return the numbers of some rows: → (n, width)."""
        raise NotImplementedError(f"{type(self).__name__} must define transform(column).")

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
    cycles: tuple[str, ...] = ()  # Of a date: keys of ``CYCLES``; its place in each is a point of a circle

    @property
    def width(self) -> int:
        """Columns that it makes."""
        return 1 + self.gaps + 2 * len(self.cycles)

    def transform(self, column: Column) -> Array:
        """Return the numbers of some rows: → (n, width)."""
        values = self.numbers(column)
        missing = np.isnan(values)
        filled = np.where(missing, self.fill, values)
        turns = [2.0 * np.pi * filled / CYCLES[cycle] for cycle in self.cycles]
        circles = [part(turn) for turn in turns for part in (np.sin, np.cos)]
        return np.column_stack([filled, *([missing] if self.gaps else []), *circles])

    def numbers(self, column: Column) -> Array:
        """Return the numbers that a column holds or writes, nan where a value is missing: → (n,)."""
        if column.values.dtype != object:
            return np.asarray(column.values)
        values = read_texts(READERS[self.kind], column.values)
        if values is None and self.kind == "number" and (self.comma or has_decimal_commas(present(column.values))):
            values = read_texts(with_comma, column.values)
        if values is None:
            odd = next(v for v in present(column.values) if READERS[self.kind](v) is None)
            raise ValueError(f"{self.name} was read as a {self.kind}, and now holds {odd!r}; mark it as missing.")
        check_finite(self.name, values)
        return values

    def __str__(self) -> str:
        rule = "".join(f", with its place in the {cycle}" for cycle in self.cycles)
        if not self.gaps:
            return f"{self.kind}{rule}"
        median = np.datetime64(round(self.fill), "D") if self.kind == "date" else f"{self.fill:.6g}"
        return f"{self.kind}{rule}, a missing value is the median {median} and marked"


@dataclass(frozen=True)
class Category(Encoder):
    """One of a few levels, by a column for each."""

    name: str  # Of the column
    levels: tuple[str, ...]  # Those with a column of their own; all others share one, and the missing have one
    rare: tuple[str, ...] | None = None  # The others that were seen; None where they are too many to remember

    @property
    def width(self) -> int:
        """Columns that it makes."""
        return len(self.levels) + 2

    def transform(self, column: Column) -> Array:
        """Return the numbers of some rows: → (n, width)."""
        return ONE_HOT * np.eye(self.width)[level_places(column, self.levels)]

    def unseen(self, column: Column) -> Counter[str]:
        """Count the values that no row of the fit had."""
        return Counter() if self.rare is None else _unknown(column, self.levels + self.rare)

    def __str__(self) -> str:
        levels = f"category with {len(self.levels)} levels ({listed(self.levels, NAMED)})"
        return f"{levels}, one for all others and one for missing values"


@dataclass(frozen=True, eq=False)
class LevelMeans(Encoder):
    """One of many levels, by the mean target of its rows, which is drawn to the mean of all rows.

    Training rows have the means of the other folds, so that their own targets do not count.
    """

    name: str  # Of the column
    levels: tuple[str, ...]  # Those with a mean of their own
    means: Array  # (folds + 1, levels + 2, k): Of each level, of all other levels, new ones included, and of missing
    # values; of all rows, then of those outside each fold. Older model files have the first alone.
    rare: tuple[str, ...] | None = None  # The other levels that were seen; None where they are too many to remember
    directions: Array | None = None  # (t, k): By which the means of many targets are reduced to a few numbers

    @classmethod
    def learned(
        cls, column: Column, levels: tuple[str, ...], rare: Any, targets: Array, w: Array, fold: NDArray[np.intp] | None
    ) -> LevelMeans | None:
        """Return the encoder with means of all rows and of those outside each fold; None if chance explains them."""
        at, parts = level_places(column, levels), [np.ones(targets.shape[0], dtype=bool)]
        parts += [] if fold is None else [fold != k for k in range(int(fold.max()) + 1)]
        found = [_shrunk_means(at[part], len(levels) + 2, targets[part], w[part]) for part in parts]
        means, (whole, counts), directions = np.stack([part for part, _ in found]), found[0], None
        if not whole.any():
            return None
        if targets.shape[1] > DIRECTIONS:
            directions = np.linalg.svd(np.sqrt(counts)[:, None] * whole, full_matrices=False)[2][:DIRECTIONS].T
            means = means @ directions
        return cls(column.name, levels, means, rare, directions)

    def in_order(self, at: NDArray[np.intp], targets: Array, w: Array, order: NDArray[np.intp]) -> Array:
        """Return the numbers of rows by the targets of those rows alone that come before: at (n,) → (n, width).

        Ordered target statistics (Prokhorenkova et al., 2018): unlike means without a row's fold, they do not tell its
        target by how they differ from those of other rows of the level.
        """
        centred, prior = _centred_and_prior(at, len(self.levels) + 2, targets, w)
        by_level = order[np.argsort(at[order], kind="stable")]
        counted = np.column_stack([w, w[:, None] * centred])[by_level]
        before, first = np.cumsum(counted, axis=0) - counted, np.r_[True, np.diff(at[by_level]) != 0]
        before -= before[np.maximum.accumulate(np.where(first, np.arange(at.size), 0))]
        means = np.empty_like(centred)
        means[by_level] = before[:, 1:] / (before[:, :1] + prior)
        return means if self.directions is None else means @ self.directions

    @property
    def width(self) -> int:
        """Columns that it makes."""
        return int(self.means.shape[-1])

    def transform(self, column: Column, fold: Any = -1) -> Array:
        """Return the numbers of some rows, those of training rows without their fold: → (n, width)."""
        means = self.means.reshape(-1, len(self.levels) + 2, self.width)
        return np.asarray(means[fold + 1 if means.shape[0] > 1 else 0, level_places(column, self.levels)])

    def unseen(self, column: Column) -> Counter[str]:
        """Count the values that no row of the fit had."""
        return Counter() if self.rare is None else _unknown(column, self.levels + self.rare)

    def __str__(self) -> str:
        levels = f"category with {len(self.levels):,} levels ({listed(self.levels, NAMED)})"
        return f"{levels}, each by the mean target of its rows; all other levels share one mean"


@dataclass(frozen=True)
class Text(Encoder):
    """Free text."""

    name: str  # Of the column
    words: tuple[str, ...]  # Those that are counted
    length: int = 0  # Of the substrings that are counted instead of words; zero for words

    @property
    def width(self) -> int:
        """Columns that it makes."""
        return len(self.words)

    def transform(self, column: Column) -> Array:
        """Return the numbers of some rows: → (n, width)."""
        counter = CountVectorizer(analyzer=pieces(self.length), vocabulary=self.words, dtype=np.float64)
        return np.asarray(normalize(counter.transform(texts_of(column)).toarray()))

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


# ---- levels -------------------------------------------------------------------------------------------------------


def level_places(column: Column, levels: tuple[str, ...]) -> NDArray[np.intp]:
    """Return the place of the level of each row; after the levels come unknown ones, then missing values: → (n,)."""
    unknown, missing = len(levels), len(levels) + 1
    places = dict(_keys(column, levels))
    return np.array([missing if v is None or v != v else places.get(v, unknown) for v in column.values], dtype=np.intp)


def _keys(column: Column, levels: tuple[str, ...]) -> Iterator[tuple[Any, int]]:
    """Levels as a column holds them, the last ones first, and their places."""
    # A file without types gives some rows of a column of texts, such as 007 and 1.50, as numbers.
    read: Any = str if column.values.dtype == object else partial(_as_number, column.kind)
    return ((read(levels[place]), place) for place in reversed(range(len(levels))))


def _as_number(kind: str, text: str) -> float | None:
    """A level as a column of numbers of some kind has it."""
    found = READERS[kind](text)
    return number(text) if found is None else found


def _unknown(column: Column, levels: tuple[str, ...]) -> Counter[str]:
    """How often each value occurs that is not one of the levels."""
    known = {level for level, _ in _keys(column, levels)}
    odd = [v for v in column.values if v is not None and v == v and v not in known]
    return Counter(texts_of(Column(column.name, np.array(odd, dtype=column.values.dtype), column.kind)))


def _shrunk_means(at: NDArray[np.intp], count: int, Y: Array, w: Array) -> tuple[Array, Array]:
    """Means of levels less the overall mean, and the weight of each; zero where they differ by no more than chance."""
    centred, prior = _centred_and_prior(at, count, Y, w)
    rows = np.bincount(at, w, minlength=count).astype(np.float64)
    return _sums(at, count, centred, w) / (rows + prior)[:, None], rows


def _centred_and_prior(at: NDArray[np.intp], count: int, Y: Array, w: Array) -> tuple[Array, float]:
    """Targets less their mean, and how many rows of a level that counts; infinity if levels differ by chance.

    Empirical Bayes: the variance within levels, divided by that between them.
    """
    centred = Y - np.average(Y, axis=0, weights=w)
    rows, total = np.bincount(at, w, minlength=count), float(w.sum())
    between = float(np.sum(_sums(at, count, centred, w) ** 2 / np.maximum(rows, 1e-300)[:, None]))
    seen = int(np.count_nonzero(rows))
    within = max(float(np.sum(w[:, None] * centred**2)) - between, 0.0) / max(total - seen, 1.0)
    excess = (between - (seen - 1) * within) / max(total - float(np.sum(rows**2)) / total, 1e-300)
    return centred, max(within / excess, 1.0) if excess > 0.0 else math.inf


def _sums(at: NDArray[np.intp], count: int, Y: Array, w: Array) -> Array:
    return np.stack([np.bincount(at, w * y, minlength=count) for y in Y.T], axis=1)


# ---- texts --------------------------------------------------------------------------------------------------------


def pieces(length: int) -> Callable[[str], list[str]]:
    """Return what splits a text into words, or into substrings of some length."""
    return Spectrum(length).pieces if length else WordCount().pieces


def texts_of(column: Column) -> list[str]:
    """Return the values as texts, whatever they came as; empty where one is missing."""
    if column.values.dtype == object:
        return [v or "" for v in column.values]
    return ["" if math.isnan(v) else str(int(v) if v.is_integer() else v) for v in column.values.tolist()]


def present(values: NDArray[Any]) -> Iterator[str]:
    """Iterate over the values that are not missing."""
    return (v for v in values if v is not None)


def read_texts(read: Callable[[str], float | None], values: NDArray[Any]) -> Array | None:
    """Return the values of texts, nan where one is missing; None where one cannot be read."""
    found = []
    for text in values:
        found.append(math.nan if text is None else read(text))
        if found[-1] is None:
            return None
    return np.array(found, dtype=np.float64)


with_comma = partial(number, comma=True)
READERS: dict[str, Callable[[str], float | None]] = {"number": number, "boolean": boolean, "date": day}
