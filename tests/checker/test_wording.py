"""How messages write values."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checker.wording import listed, milliseconds, pair, quantity, shown


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (600000, "ms", "600,000 ms"),
        (1e7, "ns", "10,000,000 ns"),
        (1, "query", "1 query"),
        (24576, "sample", "24,576 samples"),
        (0.1234567, "", "0.123457"),
        (76.46, "%", "76.46%"),
        (199.25, "W", "199.25 W"),
        (1e-7, "s", "1e-07 s"),
        (math.nan, "", "NaN"),
        (None, "ms", "absent"),
        (True, "", "true"),
        (3, "run folder", "3 run folders"),
        (2, "samples/s", "2 samples/s"),
    ],
)
def test_quantities(value: float | None, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@given(st.floats(1e-3, 1e9) | st.integers(-(10**9), 10**9))
def test_no_exponent_in_everyday_numbers(value: float) -> None:
    assert "e" not in quantity(value)
    assert float(quantity(value).replace(",", "")) == pytest.approx(value, rel=1e-5)


def test_two_quantities_that_differ_are_written_differently() -> None:
    assert pair(0.86770001, 0.8677) == ("0.86770001", "0.8677")
    assert pair(2000000.4, 2000000.0, "ns") == ("2,000,000.4 ns", "2,000,000 ns")


def test_other_values() -> None:
    assert milliseconds(2e9) == "2,000 ms"
    assert shown(None) == "absent"
    assert shown(False) == "false"
    assert shown("Server  ") == '"Server"'
    assert shown(["a", 5000]) == '"a" and 5,000'
    assert shown([]) == "an empty list"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed([str(n) for n in range(9)]) == "0, 1, 2, 3, 4 and 4 more"


def test_a_value_nested_a_thousand_times_is_named() -> None:
    nested: list[object] = []
    for _ in range(1000):
        nested = [nested]
    assert shown(nested) == "a list"
    assert shown([[1, 2], [3]]) == "1 and 2 and 3"
