import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.errors import in_bytes
from attncli.show import numbers

CASES: dict[Any, dict[Any, str]] = {
    numbers.weight: {
        0.0: "0", 1.0: "1.000", 0.12345: "0.123", 0.0006: "0.001", 0.0004: "4e-04", 1e-45: "1e-45", 2.5e-300: "2e-300",
        math.nan: "nan",
    },
    numbers.significant: {
        0.70710678: "0.7071", 1 / 4096: "0.0002441", 8.0: "8", 12345.6: "12346", 1e-9: "1e-09", 1e20: "1e+20",
    },
    numbers.statistic: {
        None: "-", math.nan: "nan", 0.0: "0.0000", -0.0123: "-0.0123", 1.38629: "1.3863", 0.0000213: "2.13e-05",
        4096.0: "4096.0000", 1234567.0: "1.23e+06", math.inf: "inf",
    },
    numbers.duration: {
        None: "-", math.nan: "-", 0.0: "0 s", 3.2e-8: "32 ns", 0.00035: "350 µs", 0.0012: "1.2 ms", 0.99999: "1 s",
        2.054: "2.05 s", 99.99: "100 s", 200.0: "3 min 20 s",
    },
    in_bytes: {
        0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1024: "1.0 KiB", 1.25 * 2**30: "1.2 GiB",
        200 * 2**20: "200.0 MiB", 8 * 2**40: "8.0 TiB", 2**70: "1e+06 PiB",
    },
    numbers.counted: {0: "0", 1048576: "1,048,576", 12_345_678: "1.23e+07"},
}  # fmt: skip


@pytest.mark.parametrize("written", CASES, ids=lambda written: written.__name__)
def test_numbers_as_they_are_written(written: Any) -> None:
    assert {value: written(value) for value in CASES[written]} == CASES[written]


@given(st.floats(0, 1))
def test_a_weight_is_never_rounded_to_zero_and_is_right_to_half_a_digit(value: float) -> None:
    text = numbers.weight(value)
    assert (float(text) == 0) == (value == 0)
    assert float(text) == pytest.approx(value, abs=0.00050001 if "e" not in text else value * 0.34)
