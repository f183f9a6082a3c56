import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.show import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1.000"),
        (0.12345, "0.123"),
        (0.0006, "0.001"),
        (0.0004, "4e-04"),
        (1e-45, "1e-45"),
        (2.5e-300, "2e-300"),
        (math.nan, "nan"),
    ],
)
def test_weight(value: float, text: str) -> None:
    assert numbers.weight(value) == text


@given(st.floats(0, 1))
def test_a_weight_is_never_rounded_to_zero_and_is_right_to_half_a_digit(value: float) -> None:
    text = numbers.weight(value)
    assert (float(text) == 0) == (value == 0)
    assert float(text) == pytest.approx(value, abs=0.00050001 if "e" not in text else value * 0.34)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.70710678, "0.7071"), (1 / 4096, "0.0002441"), (8.0, "8"), (12345.6, "12346"), (1e-9, "1e-09"), (1e20, "1e+20")],
)
def test_significant(value: float, text: str) -> None:
    assert numbers.significant(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (math.nan, "nan"),
        (0.0, "0.0000"),
        (-0.0123, "-0.0123"),
        (1.38629, "1.3863"),
        (0.0000213, "2.13e-05"),
        (4096.0, "4096.0000"),
        (1234567.0, "1.23e+06"),
        (math.inf, "inf"),
    ],
)
def test_statistic(value: float | None, text: str) -> None:
    assert numbers.statistic(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (math.nan, "-"),
        (0.0, "0 s"),
        (3.2e-8, "32 ns"),
        (0.00035, "350 µs"),
        (0.0012, "1.2 ms"),
        (0.99999, "1 s"),
        (2.054, "2.05 s"),
        (99.99, "100 s"),
        (200.0, "3 min 20 s"),
    ],
)
def test_duration(value: float | None, text: str) -> None:
    assert numbers.duration(value) == text


def test_counts() -> None:
    assert [numbers.counted(value) for value in (0, 1048576, 12_345_678)] == ["0", "1,048,576", "1.23e+07"]
