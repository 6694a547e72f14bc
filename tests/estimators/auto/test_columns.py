"""Tables of every make give the same columns; every kind of column becomes the numbers that its docstring says."""

from __future__ import annotations

import datetime
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator

from gramian.estimators.auto.columns import checked_words, encode
from gramian.estimators.auto.encoders import DIRECTIONS, Category, Dropped, LevelMeans, NumberColumn, Text
from gramian.estimators.auto.scaling import fit_scaling
from gramian.estimators.auto.tables import Column, TableWarning, columns_of, read_again
from gramian.kernels import WordCount

DAYS = [datetime.date(2024, 1, 1), None, datetime.date(2024, 3, 1), datetime.date(2024, 2, 1)]
ROWS = {
    "age": [30.0, None, 50.0, 41.0],
    "city": ["Oslo", "Rome", None, "Oslo"],
    "member": [True, False, True, None],
    "since": DAYS,
    "note": ["the red house", "a red car it is", "the blue car", "a house of the sun"],
    "same": [1.0, 1.0, 1.0, 1.0],
}


def read(X):
    return columns_of(BaseEstimator(), X, reset=True)


def frames():
    pandas = pd.DataFrame(ROWS)
    pandas["since"] = pd.to_datetime(pandas["since"])
    yield "pandas", pandas
    yield "polars", pl.DataFrame(ROWS)
    pyarrow = pytest.importorskip("pyarrow")
    yield "pyarrow", pyarrow.table(ROWS)


def test_every_make_of_table_is_read_alike():
    encodings, numbers = {}, {}
    for make, X in frames():
        table = read(X)
        encodings[make] = encode(table)
        numbers[make] = encodings[make].transform(table)
    assert set(encodings) == {"pandas", "polars", "pyarrow"}
    assert len({str(e) for e in encodings.values()}) == 1
    for values in numbers.values():
        np.testing.assert_allclose(values, numbers["pandas"])
    kinds = [type(c) for c in encodings["pandas"].columns]
    assert kinds == [NumberColumn, Category, NumberColumn, NumberColumn, Text, Dropped]


def test_objects_and_lists_are_read_like_frames():
    X = [[30.0, "Oslo"], [None, "Rome"], [50.0, None], [41.0, "Oslo"]]
    for form in (X, np.array(X, dtype=object)):
        age, city = read(form)
        np.testing.assert_array_equal(age.values, [30.0, np.nan, 50.0, 41.0])
        assert age.kind == "number"
        assert list(city.values) == ["Oslo", "Rome", None, "Oslo"]


def test_a_bare_list_of_strings_is_one_column():
    notes = ROWS["note"]
    for form in (notes, tuple(notes), np.array(notes), pd.Series(notes, index=[3, 5, 7, 9])):
        table = read(form)
        assert isinstance(encode(table).columns[0], Text)
        np.testing.assert_allclose(encode(table).transform(table), encode(table).transform(read(notes)))
    codes = ["acgtacgt", "acgtttgt", "ttgacgta", "gggacgtt"]
    table = read(codes)
    encoding = encode(table)
    assert "substrings of length 3" in str(encoding)
    found = encoding.transform(table)
    shared = list(encoding.columns[0].words)
    counts = np.array([[sum(code[i : i + 3] == p for i in range(6)) for p in shared] for code in codes], dtype=float)
    np.testing.assert_allclose(found, counts / np.linalg.norm(counts, axis=1, keepdims=True))
    levels = read(["red", "blue", "red", "blue", "red", "blue", "red", "blue", "red", "red", "blue"])
    assert isinstance(encode(levels).columns[0], Category)
    with pytest.raises(ValueError, match="1D array"):
        read([1.0, 2.0])


def test_a_missing_number_is_the_median_and_marked():
    table = [Column("a", np.array([1.0, np.nan, 2.0, 9.0]), "number")]
    encoding = encode(table)
    np.testing.assert_array_equal(encoding.transform(table), [[1, 0], [2, 1], [2, 0], [9, 0]])
    assert "median 2" in str(encoding)


def test_a_gap_in_a_column_that_had_none_is_the_median():
    encoding = encode([Column("a", np.array([1.0, 2.0, 9.0]), "number")])
    np.testing.assert_array_equal(encoding.transform([Column("a", np.array([np.nan, 3.0]), "number")]), [[2], [3]])


def test_levels_rare_unknown_and_missing():
    values = np.array(["a"] * 5 + ["b"] * 4 + ["once", None], dtype=object)
    (category,) = encode([Column("c", values, "object")]).columns
    assert category.levels == ("a", "b")
    at = category.transform(Column("c", np.array(["a", "once", "never seen", None], dtype=object), "object"))
    assert list(np.argmax(at, axis=1)) == [0, 2, 2, 3]
    np.testing.assert_allclose(np.linalg.norm(at[0] - at[1]), 1.0)


def test_text_is_the_normalised_word_count():
    texts = np.array(
        ["the red house", "the red car is here", "a blue car and a house", "red and blue it is"], dtype=object
    )
    (text,) = encode([Column("t", texts, "object")]).columns
    assert isinstance(text, Text)
    F = text.transform(Column("t", texts, "object"))
    known = [" ".join(w for w in WordCount().pieces(t) if w in text.words) for t in texts]
    np.testing.assert_allclose(F @ F.T, WordCount().normalized()(known), atol=1e-12)


@pytest.mark.parametrize(
    ("values", "kind"),
    [(["1", "2.5", None], "number"), (["2024-01-01", "2024-01-02T12:00", None], "date")],
)
def test_numbers_and_dates_written_out(values, kind):
    (column,) = encode([Column("c", np.array(values, dtype=object), "object")]).columns
    assert isinstance(column, NumberColumn)
    assert column.kind == kind
    at = column.transform(Column("c", np.array(values, dtype=object), "object"))[:, 0]
    np.testing.assert_allclose(at[1] - at[0], 1.5)
    with pytest.raises(ValueError, match=f"was read as a {kind}, and now holds 'x'"):
        column.transform(Column("c", np.array(["x"], dtype=object), "object"))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.ones(4), "every value is 1"),
        (np.full(4, np.nan), "every value is missing"),
        (np.array([None, None], dtype=object), "every value is missing"),
        (np.array(["x", "x"], dtype=object), "every value is 'x'"),
        (np.array([f"id{i}" for i in range(40)], dtype=object), "40 different values in 40 rows"),
    ],
)
def test_columns_that_are_left_out(values, reason):
    (column,) = encode([Column("c", values, "object" if values.dtype == object else "number")]).columns
    assert isinstance(column, Dropped)
    assert reason in str(column)
    assert column.transform(Column("c", values, "object")).shape == (len(values), 0)


def test_dates_have_a_place_in_the_week_and_the_year_where_that_helps():
    days = np.arange("2021-01-01", "2022-12-31", dtype="datetime64[D]")
    rng = np.random.default_rng(0)
    table = columns_of(BaseEstimator(), pd.DataFrame({"day": days.astype("datetime64[s]")}), reset=True)
    t, noise = np.arange(days.size), 0.1 * rng.standard_normal((days.size, 1))
    weekend = (days.astype("datetime64[D]").view("int64") + 3) % 7 >= 5
    season = np.cos(2 * np.pi * t / 365.25)
    said = {(): noise, ("week",): weekend[:, None] + noise, ("year",): season[:, None] + noise}
    said["year", "week"] = (season + weekend)[:, None] + noise
    for cycles, targets in said.items():
        encoding = encode(table, {}, targets)
        assert encoding.columns[0].cycles == cycles
        assert encoding.transform(table).shape == (days.size, 1 + 2 * len(cycles))
    assert str(encoding.columns[0]) == "date, with its place in the year, with its place in the week"
    Z = encoding.transform(table)
    np.testing.assert_allclose(Z[:-7, 3:], Z[7:, 3:], atol=1e-9)
    np.testing.assert_allclose(np.hypot(Z[:, 1], Z[:, 2]), 1.0)


def test_the_median_of_dates_is_written_as_a_date():
    encoding = encode(read(pd.DataFrame({"day": pd.to_datetime(["2021-03-01", None, "2021-03-05", "2021-03-03"])})))
    assert str(encoding.columns[0]) == "date, a missing value is the median 2021-03-03 and marked"


def test_dates_with_a_time_zone_are_instants():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    X = np.array([[datetime.datetime(2024, 1, 1, 2, tzinfo=zone)], [datetime.datetime(2024, 1, 2)]], dtype=object)
    (column,) = read(X)
    assert column.values[1] - column.values[0] == 1.0
    frame = pd.DataFrame({"t": pd.to_datetime(["2024-01-01T02:00+02:00", "2024-01-02T02:00+02:00"])})
    assert np.ptp(read(frame)[0].values) == 1.0


def test_what_cannot_be_read_is_refused():
    with pytest.raises(ValueError, match="contains infinity in a"):
        read(pd.DataFrame({"a": [1.0, np.inf]}))
    with pytest.raises(TypeError, match="argument must be a string or a number"):
        read(np.array([[1.0], [{"a": 1}]], dtype=object))
    with pytest.raises(ValueError, match="Complex data not supported"):
        read(np.array([[1.0 + 2j], [1.0]], dtype=object))
    with pytest.raises(ValueError, match="0 sample"):
        read(pd.DataFrame({"a": []}))


def test_pandas_dtypes():
    frame = pd.DataFrame(
        {
            "int": pd.array([1, None, 3], dtype="Int64"),
            "cat": pd.Categorical(["u", None, "v"]),
            "span": pd.to_timedelta([1, 2, None], unit="D"),
            "flag": pd.array([True, None, False], dtype="boolean"),
        }
    )
    integer, category, span, flag = read(frame)
    np.testing.assert_array_equal(integer.values, [1, np.nan, 3])
    assert list(category.values) == ["u", None, "v"]
    assert category.kind == "category"
    np.testing.assert_array_equal(span.values, [1, 2, np.nan])
    np.testing.assert_array_equal(flag.values, [1, np.nan, 0])
    assert flag.kind == "boolean"


# ---- scaling ----------------------------------------------------------------------------------------------------


def test_standard_scaling_leaves_other_columns():
    Z = np.random.default_rng(0).standard_normal((50, 3)) * 7 + 3
    S = fit_scaling("standard", Z, [0, 2]).transform(Z)
    np.testing.assert_allclose(S[:, [0, 2]].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(S[:, [0, 2]].std(axis=0), 1)
    np.testing.assert_array_equal(S[:, 1], Z[:, 1])


def test_normal_scaling_is_monotone_and_normal():
    z = np.exp(3 * np.random.default_rng(0).standard_normal(2000))[:, None]
    scaling = fit_scaling("normal", z, [0])
    s = scaling.transform(z)[:, 0]
    assert abs(s.mean()) < 0.02
    assert abs(s.std() - 1) < 0.03
    assert np.all(np.diff(s[np.argsort(z[:, 0])]) >= 0)
    assert np.isfinite(scaling.transform(np.array([[-1e9], [1e9]]))).all()


def test_normal_scaling_puts_ties_in_the_middle():
    z = np.array([0.0] * 50 + [1.0] * 50)[:, None]
    s = fit_scaling("normal", z, [0]).transform(z)[:, 0]
    np.testing.assert_allclose(s[0], -s[-1])
    assert 0.5 < s[-1] < 1.0


# ---- what a user says of columns, identifiers, short texts --------------------------------------------------------


def strings(values):
    return np.array(values, dtype=object)


def test_words_override_what_is_found():
    table = [
        Column("zip", np.array([10.0, 20.0, 10.0, 20.0]), "number"),
        Column("code", strings(["1", "2", "3", "4"]), "object"),
        Column("title", strings(["red car", "red bus", "old car", "old bus"]), "object"),
        Column("day", strings(["2024-01-01", "2024-01-03", None, "2024-01-02"]), "object"),
        Column("key", np.arange(4.0), "number"),
        Column("noise", np.array([3.0, 1.0, 2.0, 2.0]), "number"),
    ]
    said = {"zip": "category", "code": "number", "title": "text", 3: "date", "key": "id", "noise": "drop"}
    words = checked_words(said, [column.name for column in table])
    zipped, code, title, day, key, noise = encode(table, words).columns
    assert zipped.levels == ("10", "20")
    np.testing.assert_array_equal(np.argmax(zipped.transform(table[0]), axis=1), [0, 1, 0, 1])
    assert isinstance(code, NumberColumn)
    assert set(title.words) == {"red", "car", "old", "bus"}
    assert day.kind == "date"
    assert str(key) == "left out: an identifier, as said"
    assert str(noise) == "left out: as asked"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"citty": "text"}, "names 'citty', which X does not have; did you mean 'city'?"),
        ({"city": "words"}, "must say number, category, date, text, identifier, drop or id"),
        ({"city": "number"}, "city cannot be a number, since it holds 'Oslo'"),
        ({"age": "date"}, "age holds numbers and cannot be a date"),
    ],
)
def test_words_that_make_no_sense(words, message):
    table = read(pd.DataFrame(ROWS))
    with pytest.raises(ValueError, match=re.escape(message)):
        encode(table, checked_words(words, [column.name for column in table]))


def test_identifiers_are_left_out(rng):
    n = 200
    y = rng.standard_normal((n, 1))
    other = Column("size", rng.standard_normal(n), "number")
    shuffled, spread = rng.permutation(n) + 5000.0, 1e9 * np.arange(n) + rng.integers(0, 10**6, n)

    def left_out(name, values, targets=y, kind="number", **how):
        return isinstance(encode([Column(name, values, kind), other], targets=targets, **how).columns[0], Dropped)

    assert left_out("row", shuffled)  # dense whole numbers, none of them twice
    assert left_out("customerId", spread)  # by its name
    assert left_out("customer", spread)  # by its name, unless its order tells the target
    assert not left_out("customer", spread, np.sin(spread / 2e10)[:, None])
    assert not left_out("population", spread)  # whole numbers that chance would not repeat
    assert not left_out("row", shuffled, named=False)  # a plain matrix
    assert not left_out("age", np.r_[shuffled[1:], shuffled[1]])  # one twice
    assert not left_out("day", shuffled, np.sin(shuffled / 20.0)[:, None])  # its order tells the target
    assert not left_out("day", shuffled, (0.5 * y.T + shuffled / n).T)
    nearly = strings([f"u{i % (n - 3)}" for i in range(n)])
    assert left_out("user", nearly, kind="object")
    assert encode([Column("row", shuffled, "number")], targets=y).width == 1  # nothing else is there
    assert encode([Column("user", nearly, "object")], {"user": "category"}).width == 5  # three that repeat


def test_short_texts_are_words_where_that_predicts_better(rng):
    n = 300
    adjectives, nouns = ["old", "new", "big", "red", "odd", "raw", "wet"], ["car", "bus", "van", "cab", "bike", "boat"]
    first, second = rng.integers(0, 7, n), rng.integers(0, 6, n)
    title = strings([f"{adjectives[i]} {nouns[j]}" for i, j in zip(first, second, strict=True)])
    by_words = (first + 2.0 * second)[:, None] / 5.0
    (column,) = encode([Column("title", title, "object")], targets=by_words).columns
    assert isinstance(column, Text)
    by_levels = rng.standard_normal(42)[6 * first + second][:, None]
    (column,) = encode([Column("title", title, "object")], targets=by_levels).columns
    assert isinstance(column, Category)


class Known(BaseEstimator):
    """What was fitted on."""


def test_columns_are_found_by_name_and_gaps_are_told():
    frame = pd.DataFrame(ROWS).assign(key=["a", "b", "c", "d"])
    model = Known()
    table = columns_of(model, frame, reset=True)
    encoding = encode(table)
    expected = encoding.transform(table)
    np.testing.assert_array_equal(read_again(model, encoding, frame[frame.columns[::-1]]), expected)
    np.testing.assert_array_equal(read_again(model, encoding, frame.drop(columns=["same", "key"])), expected)
    new = frame.drop(columns=["age", "note"]).assign(city=["Oslo", "Lima", "Lima", None])
    with pytest.warns(
        TableWarning, match="2 columns that it uses are missing.*'age', 'note'; 2 rows hold a level"
    ) as seen:
        found = read_again(model, encoding, new)
    assert seen[0].message.unseen == {"city": {"Lima": 2}}
    assert found.shape == expected.shape
    with pytest.raises(ValueError, match="feature names"):
        read_again(model, encoding, frame[["same"]])


def test_rare_levels_are_not_new():
    (category,) = encode([Column("c", strings(["a"] * 5 + ["once"]), "object")]).columns
    assert category.unseen(Column("c", strings(["once", "a", None, "new"]), "object")) == {"new": 1}
    (numbers,) = encode([Column("c", np.array([1.0, 1, 2, 2]), "number")], {"c": "category"}).columns
    assert numbers.unseen(Column("c", np.array([1.0, 3.0, np.nan]), "number")) == {"3": 1}


def many_levels(rng, n=2000, targets=1, *, tell=True):
    """A category of 20 levels, with gaps and one rare level, and targets that depend on it or do not."""
    codes = rng.integers(0, 20, n)
    values = np.array([f"level {c:02d}" for c in codes], dtype=object)
    values[:2], values[2:60] = "rare", None
    worth = rng.standard_normal((20, targets)) if tell else np.zeros((20, targets))
    return Column("c", values, "object"), worth[codes] + rng.standard_normal((n, targets))


def shrunk_means(values, Y, weights):
    """Means of levels as empirical Bayes draws them to the mean of all: one loop over levels for each sum."""
    centre = sum(w * y for w, y in zip(weights, Y, strict=True)) / weights.sum()
    groups = {v: [i for i, other in enumerate(values) if other == v] for v in set(values)}
    sums = {v: sum(weights[i] * (Y[i] - centre) for i in rows) for v, rows in groups.items()}
    size = {v: weights[rows].sum() for v, rows in groups.items()}
    between = sum(float(sums[v] @ sums[v]) / size[v] for v in groups)
    whole = sum(w * float((y - centre) @ (y - centre)) for w, y in zip(weights, Y, strict=True))
    within = (whole - between) / (weights.sum() - len(groups))
    spread = between - (len(groups) - 1) * within
    excess = spread / (weights.sum() - sum(s * s for s in size.values()) / weights.sum())
    return {v: sums[v] / (size[v] + max(within / excess, 1.0)) for v in groups}


def _places(column, encoder):
    known = sorted(encoder.levels + encoder.rare)
    return [len(known) + 1 if v is None else known.index(v) for v in column.values]


@pytest.mark.parametrize("weighted", [False, True])
def test_many_levels_are_the_shrunk_means_of_their_targets(rng, weighted):
    column, Y = many_levels(rng)
    weights = rng.uniform(0.5, 2.0, Y.shape[0]) if weighted else None
    other = Column("x", rng.standard_normal(Y.shape[0]), "number")
    encoding = encode([column, other], targets=Y, means=True, weights=weights)
    encoder = encoding.columns[0]
    assert isinstance(encoder, LevelMeans)
    assert len(encoder.levels) == 20
    plain = np.ones(Y.shape[0]) if weights is None else weights
    slow = shrunk_means(list(column.values), Y, plain)
    np.testing.assert_allclose(encoder.transform(column), np.stack([slow[v] for v in column.values]), atol=1e-12)
    moved = Column("x", other.values + 1.0, "number")  # new rows have the means of all, training rows of other folds
    np.testing.assert_allclose(encoding.transform([column, moved])[:, :1], encoder.transform(column), atol=1e-12)
    fold = encoding.folds(np.column_stack([other.values, _places(column, encoder)]))
    for k in (0, 7):
        rest = np.flatnonzero(fold != k)
        slow_k = shrunk_means([column.values[i] for i in rest], Y[rest], plain[rest])
        rows = np.flatnonzero(fold == k)
        crossed = np.stack([slow_k[column.values[i]] for i in rows])
        np.testing.assert_allclose(encoding.transform([column, other])[rows, :1], crossed, atol=1e-12)
    new = Column("c", np.array(["never seen", "rare", None], dtype=object), "object")
    np.testing.assert_allclose(encoder.transform(new), np.stack([slow["rare"], slow["rare"], slow[None]]), atol=1e-12)
    assert encoder.unseen(new) == {"never seen": 1}


def test_means_of_many_targets_are_few_numbers(rng):
    column, Y = many_levels(rng, targets=DIRECTIONS + 4)
    (encoder,) = encode([column], targets=Y, means=True).columns
    assert encoder.width == DIRECTIONS


def test_levels_have_columns_of_their_own_where_means_would_mislead(rng):
    column, Y = many_levels(rng)
    few, _ = many_levels(rng, 300)
    assert isinstance(encode([column], targets=Y).columns[0], Category)  # not asked for
    assert isinstance(encode([few], targets=Y[:300], means=True).columns[0], Category)  # levels of few rows
    noise, Y = many_levels(rng, tell=False)
    Y = rng.permutation(Y)
    for name in {v for v in noise.values if v is not None}:  # every level has the same mean
        rows = np.flatnonzero(noise.values == name)
        Y[rows] -= Y[rows].mean()
    assert isinstance(encode([noise], targets=Y, means=True).columns[0], Category)


@pytest.mark.parametrize(
    ("odd", "told"), [(["abc"], "holds numbers and 'abc', and"), (["?", "-", "x", "y"], "'-', '\\?', 'x' and 1 more")]
)
def test_a_few_texts_among_numbers_are_told(odd, told):
    values = [*map(str, range(100)), *odd]
    with pytest.warns(UserWarning, match=told):
        encode([Column("area", np.array(values, dtype=object), "text")])


def test_categories_that_look_like_numbers_now_and_then_are_not_told_of(recwarn):
    encode([Column("size", np.array(["S", "M", "L", "42"] * 30, dtype=object), "text")])
    assert not recwarn.list
