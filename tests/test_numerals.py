"""Numbers as people write them."""

import math

import pytest

from gramian.numerals import counted, written


@pytest.mark.parametrize(
    ("value", "spread", "expected"),
    [
        (116_032.2, 2_513.0, "116,000 ± 2,500"),
        (0.93333, 0.0123, "0.933 ± 0.012"),
        (0.93333, 0.0996, "0.93 ± 0.10"),  # two digits of a spread that rounds up
        (12.5, 3.0, "12.5 ± 3.0"),
        (1.0, 1e-12, "1.00000 ± 0.00000"),
        (-0.0004, 0.02, "0.000 ± 0.020"),
        (5.0, 0.0, "5.00 ± 0"),
        (116_432.2, math.nan, "116,000"),
        (0.12345, math.nan, "0.123"),
        (-1_234_567.0, math.nan, "-1,230,000"),
        (1.5e-9, math.nan, "1.50e-9"),
        (2.5e20, 1e18, "2.500e20 ± 1.0e18"),
        (0.0, math.nan, "0.00"),
        (math.nan, 1.0, "–"),
        (-math.inf, math.nan, "-∞"),
    ],
)
def test_numbers_are_rounded_as_their_spread_demands(value, spread, expected):
    assert written(value, spread) == expected


def test_digits_that_are_asked_for():
    assert written(123_456.0, digits=4) == "123,500"
    assert written(9.9999, digits=3) == "10.0"


def test_counted():
    assert [counted(n, "row") for n in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]
    assert counted(2, "category", "categories") == "2 categories"
