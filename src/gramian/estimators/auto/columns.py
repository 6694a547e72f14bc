"""Columns of tables from any library, and their encodings as numbers: frozen values that hold what was learned.

- A number is itself; a missing one is the median, with a column beside that says where values were missing.
- A boolean is 0 or 1, a date its days since 1970; both are numbers from there on.
- Texts that are all numbers, booleans or dates are read as such (``gramian.data.cells``), so that a table gives the
  same numbers whether it comes from CSV, where all is text, or from a format with types.
- A category has one column for each level that is seen often enough, one for all others, new ones included, and one for
  the missing.
- Free text has the counts of its words, scaled to length one: their inner product is the normalised ``WordCount``.
- A bare list of strings is one column; where they are not words but codes, as DNA, their substrings are counted.
- A column with one value only, or a code that hardly ever repeats, is left out.
"""

from __future__ import annotations

import datetime
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from numbers import Number
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize
from sklearn.utils.validation import validate_data

from gramian.data.cells import boolean, day, has_decimal_commas, is_missing, may_be_numbers, number
from gramian.kernels import Spectrum, WordCount

Array = NDArray[np.float64]

LEVELS = 40
"""Levels of a category that get a column of their own, at most."""
LEVEL_SHARE = 0.002
"""The share of the rows that a level must have for that, beside being seen twice."""
WORDS = 300
"""Words of a text that are counted, at most: the most frequent by documents."""
TEXT_WORDS = 3.0
"""Words to a value, on average, from which a column is text."""
TEXT_VARIETY = 0.2
"""Different values to a row from which it can be."""
SUBSTRING = 3
"""Length of the substrings that are counted in strings that are not words."""
ONE_HOT = math.sqrt(0.5)
"""Two different levels are then at distance one."""
PROBE = 2000
"""Values that are looked at to tell texts from numbers and dates written out."""
SCALINGS = ("standard", "normal", "common")
"""By mean and deviation; by rank to the normal law, for heavy tails; by one deviation for all columns of one unit."""
TOGETHER, APART = 8, 2.0
"""Columns, at least, that may share a unit, as pixels do; and by how much deviations then differ for it to matter."""
QUANTILES = 500
"""Points of the distribution that ``Normal`` keeps, at most."""
TAIL = 1e-3
"""The rank of the smallest value; beyond it the map is flat."""


# ---- a table of any library as plain columns ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Column:
    """One column as it came."""

    name: str  # Its name, or ``"column 3"`` where the table has no names
    values: NDArray[Any]  # (n,): Either float64, ``nan`` where a value is missing; or objects, ``None`` where one is
    kind: str  # What the table itself says: ``"number"``; ``"strings"`` of a bare list


def columns_of(estimator: Any, X: Any, *, reset: bool) -> list[Column]:
    """Read a table and check it, as scikit-learn does, against the one that was fitted: X (n, d)."""
    series = _series(X)
    if (strings := _strings(X)) is not None:
        validate_data(estimator, strings, dtype=None, reset=reset)
        return [Column("text", np.array([v or None for v in strings[:, 0]], dtype=object), "strings")]
    if series is None:
        return array_columns(validate_data(estimator, _array(X), dtype=None, ensure_all_finite=False, reset=reset))
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(
            f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) (shape={tuple(X.shape)}) while a "
            "minimum of 1 is required."
        )
    names = [str(name) for name in getattr(X, "column_names", getattr(X, "columns", ()))]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"two columns of X are called {twice[0]!r}; rename one, or leave one out.")
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return [_column(name, *read) for name, read in zip(names, series, strict=True)]


def _series(X: Any) -> Any:
    """The columns of a data frame, each as an array and whether it is declared a category; None for arrays."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return (_of_pandas(X.iloc[:, j]) for j in range(X.shape[1]))
    if hasattr(X, "get_columns"):
        return ((s.to_numpy(), type(s.dtype).__name__ in ("Categorical", "Enum")) for s in X.get_columns())
    if hasattr(X, "column_names") and hasattr(X, "itercolumns"):
        return map(_of_arrow, X.itercolumns())
    return None


def _of_pandas(series: Any) -> tuple[Any, bool]:
    kind = type(series.dtype).__name__
    if kind == "ArrowDtype":
        return _of_arrow(series.array.__arrow_array__())
    if kind == "DatetimeTZDtype":
        series = series.dt.tz_convert(None)
    if getattr(series.dtype, "kind", "O") in "iuf":
        return series.to_numpy(dtype=np.float64, na_value=np.nan), False
    return series.to_numpy(), kind == "CategoricalDtype"


def _of_arrow(column: Any) -> tuple[Any, bool]:
    kind = str(column.type)
    if kind.startswith(("int", "uint", "float", "double", "halffloat", "timestamp", "date", "duration")):
        return column.to_numpy(), False
    return np.array(column.to_pylist(), dtype=object), kind.startswith("dictionary")


def _column(name: str, values: Any, category: bool = False) -> Column:
    """A column by the type of its values."""
    values = np.asarray(values)
    kind = values.dtype.kind
    if category:
        return _declared(name, values)
    if kind in "biuf":
        column = Column(name, values.astype(np.float64), "boolean" if kind == "b" else "number")
    elif kind in "Mm":
        column = Column(name, _days(values), "date" if kind == "M" else "number")
    else:
        column = _objects(name, values)
    check_finite(name, column.values)
    return column


def check_finite(name: str, values: NDArray[Any]) -> None:
    """Raise where a number is infinite: values (n,)."""
    if values.dtype != object and np.any(np.isinf(values)):
        raise ValueError(f"Input X contains infinity in {name}; leave such values out, or mark them as missing (nan).")


def _array(X: Any) -> Any:
    """A list with texts in it as an array of objects: NumPy would turn its numbers into texts."""
    if not isinstance(X, list | tuple) or not all(isinstance(row, list | tuple) for row in X):
        return X
    return np.array(X, dtype=object) if any(v is None or isinstance(v, str) for row in X for v in row) else X


def _strings(X: Any) -> NDArray[Any] | None:
    """A bare list, array or series of strings as a table of one column, None for anything else: → (n, 1)."""
    if not isinstance(X, list | tuple) and len(getattr(X, "shape", ())) != 1:
        return None
    if len(X) == 0 or not all(isinstance(x, str) for x in X):
        return None
    return np.array(list(X), dtype=object)[:, None]


def array_columns(X: NDArray[Any]) -> list[Column]:
    """Return the columns of an array: X (n, d)."""
    return [_column(f"column {j}", values) for j, values in enumerate(X.T)]


def _objects(name: str, values: Any) -> Column:
    """A column of Python objects: what they are decides its kind."""
    values = np.asarray(values, dtype=object)
    values = np.array([None if _missing(v) else v for v in values], dtype=object)
    present = [v for v in values if v is not None]
    for odd in (v for v in present if not isinstance(v, Number | str | bytes | datetime.date | np.generic)):
        raise TypeError(
            f"argument must be a string or a number, or a date; {name} holds {odd!r} of type {type(odd).__name__}."
        )
    if present and all(isinstance(v, bool | np.bool_) for v in present):
        return Column(name, values.astype(np.float64), "boolean")
    if all(isinstance(v, Number) for v in present):
        if any(isinstance(v, complex | np.complexfloating) for v in present):
            raise ValueError(f"Complex data not supported; {name} holds complex numbers.")
        return Column(name, values.astype(np.float64), "number")
    if all(isinstance(v, datetime.date | np.datetime64) for v in present):
        return Column(name, _days(np.array([_instant(v) for v in values], dtype="datetime64[us]")), "date")
    return Column(name, np.array([None if v is None else str(v) for v in values], dtype=object), "object")


def _declared(name: str, values: Any) -> Column:
    """A column that its table declares a category; whole numbers are written without a fraction."""
    whole = (int(v) if isinstance(v, float) and v.is_integer() else v for v in values)
    return Column(name, np.array([None if _missing(v) else str(v) for v in whole], dtype=object), "category")


def _missing(value: Any) -> bool:
    """Whether a value stands for none: None, nan, pandas' NA and NaT, and the texts that do."""
    if value is None or type(value).__name__ == "NAType":
        return True
    if isinstance(value, str):
        return is_missing(value)
    return isinstance(value, float | np.generic | datetime.date) and bool(value != value)  # nan and NaT only


def _instant(value: Any) -> Any:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value


def _days(values: Any) -> NDArray[np.float64]:
    """Dates as days since 1970, or durations as days; ``nan`` where one is missing."""
    exact = values.astype(f"{values.dtype.kind}8[us]")
    return np.asarray(np.where(np.isnat(exact), np.nan, exact.astype(np.int64) / 86_400e6))


# ---- columns as numbers -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberColumn:
    """A number, a boolean or a date."""

    name: str  # Of the column
    kind: str  # ``"number"``, ``"boolean"`` or ``"date"``
    fill: float  # The median, which stands in for a missing value
    gaps: bool  # Whether values were missing: a second column then tells where
    written: bool = False  # Whether the values were texts to be read as numbers, booleans or dates
    comma: bool = False  # Whether they had decimal commas

    @property
    def width(self) -> int:
        """Columns that it makes."""
        return 2 if self.gaps else 1

    def transform(self, column: Column) -> Array:
        """Return the numbers of some rows: → (n, width)."""
        values = self._numbers(column)
        missing = np.isnan(values)
        filled = np.where(missing, self.fill, values)
        return np.column_stack([filled, missing]) if self.gaps else filled[:, None]

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
        rule = f", a missing value is the median {self.fill:.6g} and marked" if self.gaps else ""
        return f"{self.kind}{rule}"


@dataclass(frozen=True)
class Category:
    """One of a few levels."""

    name: str  # Of the column
    levels: tuple[str, ...]  # Those with a column of their own; all others share one, and the missing have one

    @property
    def width(self) -> int:
        """Columns that it makes."""
        return len(self.levels) + 2

    def transform(self, column: Column) -> Array:
        """Return the numbers of some rows: → (n, width)."""
        others, missing = len(self.levels), len(self.levels) + 1
        # A file without types gives some rows of a column of texts, such as 007 and 1.50, as numbers.
        read: Any = str if column.values.dtype == object else _READERS[column.kind]
        places = {read(level): place for place, level in reversed(list(enumerate(self.levels)))}
        at = [missing if v is None or v != v else places.get(v, others) for v in column.values]
        return ONE_HOT * np.eye(self.width)[at]

    def __str__(self) -> str:
        shown = ", ".join(self.levels[:4]) + (", …" if len(self.levels) > 4 else "")
        return f"category with {len(self.levels)} levels ({shown}), one for all others and one for missing values"


@dataclass(frozen=True)
class Text:
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
class Dropped:
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

    def places(self, *kinds: Any) -> list[int]:
        """Return which of the numbers come from columns of some kinds."""
        owners = [column for column in self.columns for _ in range(column.width)]
        return [place for place, column in enumerate(owners) if isinstance(column, kinds)]

    def transform(self, table: list[Column]) -> Array:
        """Return the table as numbers, not yet scaled: → (n, width)."""
        parts = [encoder.transform(column) for encoder, column in zip(self.columns, table, strict=True)]
        return np.ascontiguousarray(np.hstack(parts))


def encode(table: list[Column]) -> Encoding:
    """Decide how to read every column of a table."""
    return Encoding(tuple(_encoder(column) for column in table))


def _encoder(column: Column) -> Any:
    if column.values.dtype != object:
        return _number(column.name, column.kind, np.asarray(column.values))
    if column.kind != "category" and (numbers := _written(column)) is not None:
        return numbers
    counts = Counter(v for v in column.values if v is not None)
    if not counts:
        return Dropped(column.name, "every value is missing")
    if column.kind != "category" and _is_text(column.values, counts):
        return _text(column)
    if column.kind == "strings" and len(counts) >= TEXT_VARIETY * column.values.shape[0]:
        return _text(column, SUBSTRING)
    return _category(column, counts)


def _written(column: Column) -> Any:
    """The encoder of texts that are all numbers, booleans or dates; None where they are not."""
    ways = [(kind, read, False) for kind, read in _READERS.items()]
    if has_decimal_commas(_present(column.values)):
        ways = [("number", _with_comma, True)]
    for kind, read, comma in ways:
        if _read(read, column.values[:PROBE]) is None or (values := _read(read, column.values)) is None:
            continue
        check_finite(column.name, values)
        return _number(column.name, kind, values, written=True, comma=comma)
    if may_be_numbers(_present(column.values)):
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


def _category(column: Column, counts: Counter[str]) -> Any:
    n = column.values.shape[0]
    if len(counts) == 1 and counts.total() == n:
        return Dropped(column.name, f"every value is {next(iter(counts))!r}")
    least = max(2.0, LEVEL_SHARE * n)
    # Ties are broken by name, so that the order of the rows does not matter.
    often = sorted((level for level, count in counts.items() if count >= least), key=lambda v: (-counts[v], v))
    if not often and n > 1:
        return Dropped(column.name, f"{len(counts):,} different values in {n:,} rows, few of them repeated")
    return Category(column.name, tuple(often[:LEVELS]))


def _is_text(values: NDArray[Any], counts: Counter[str]) -> bool:
    words = float(np.mean([len(value.split()) for value in counts]))
    return len(counts) >= TEXT_VARIETY * values.shape[0] and words >= TEXT_WORDS


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


def scalings_for(Z: Array, places: list[int]) -> tuple[str, ...]:
    """Return the scalings worth a trial: a common one where no column dominates, and some would be blown up alone."""
    with np.errstate(over="ignore"):
        deviation = Z[:, places].std(axis=0)
        typical = float(np.sqrt(np.mean(deviation**2))) if deviation.size else 0.0
    if deviation.size < TOGETHER or not np.isfinite(typical):
        return SCALINGS[:2]
    return SCALINGS if deviation.max() <= APART * typical and deviation.min() * APART < typical else SCALINGS[:2]


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
    ranks = np.linspace(0.0, 1.0, min(QUANTILES, Z.shape[0]))
    return Normal(at, np.quantile(some, ranks, axis=0) if at.size else np.zeros((ranks.size, 0)))


def _unit(size: Array) -> Array:
    """Powers of two, so that a product with them is exact, that bring numbers of some size near one."""
    return np.ldexp(1.0, np.clip(-np.frexp(size)[1], -1020, 1020))
