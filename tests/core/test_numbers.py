import math
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.core.numbers import distinct, duration, exact, number, percent, ranges_in, rough_duration, sizes
from attncli.errors import in_bytes
from tests.margins import last_digit

CASES: dict[str, tuple[Any, dict[Any, str]]] = {
    "four digits": (number, {
        0.70710678: "0.7071", 0.5: "0.5000", 1.0: "1.000", -0.0123: "-0.01230", 512.3456: "512.3", 0.001: "0.001000",
        0.00099996: "0.001000", 1 / 4096: "2.44e-04", 1e-5: "1.00e-05", 12345.6: "12,346", 999999.0: "1.00e+06",
        1e6: "1.00e+06", -3e20: "-3.00e+20", 0.0: "0", math.nan: "nan", -math.inf: "-inf",
    }),
    "three digits": (partial(number, digits=3), {0.98765: "0.988", 1030.0: "1,030", 0.0002766: "2.8e-04"}),
    "three decimals": (partial(number, decimals=3), {
        0.0: "0", 1.0: "1.000", 0.12345: "0.123", 0.0014: "0.001", 0.0006: "6e-04", 1e-45: "1e-45", 2.5e-300: "2e-300",
    }),
    "exact": (exact, {1.0: "1", 0.5: "0.5", 0.70710678: "0.7071", 100.0: "100", 1e-5: "1.00e-05"}),
    "integers": (number, {0: "0", 7: "7", 1048576: "1,048,576", 12_345_678: "1.23e+07"}),
    "others": (number, {None: "-", True: "yes", False: "no", "words": "words", (0.98512, 1.01): "0.9851 to 1.010"}),
    "times": (duration, {
        None: "-", math.nan: "-", 0.0: "0 s", 3.2e-8: "32.0 ns", 0.00035: "350 µs", 0.0012: "1.20 ms",
        0.99999: "1.00 s",        2.054: "2.05 s", 99.99: "100 s", 200.0: "3 min 20 s",
    }),
    "times to wait": (rough_duration, {31.4: "31 s", 99.6: "2 minutes", 4800: "80 minutes", 9000: "2.5 hours"}),
    "shares": (percent, {
        0.0: "0 %", 0.004: "less than 1 %", 0.255: "26 %", 0.996: "more than 99 %", 1.0: "100 %", 1.5: "150 %",
    }),
    "bytes": (in_bytes, {
        0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1024: "1.0 KiB", 1.25 * 2**30: "1.2 GiB",
        200 * 2**20: "200.0 MiB", 8 * 2**40: "8.0 TiB", 2**70: "1e+06 PiB",
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_numbers_as_people_read_them(name: str) -> None:
    write, cases = CASES[name]
    for value, text in cases.items():
        assert write(value) == text


@given(st.floats(-1e12, 1e12), st.integers(3, 9))
def test_a_number_is_right_to_its_digits_never_a_bare_zero_and_never_changes_notation(
    value: float, digits: int
) -> None:
    text = number(value, digits)
    read = float(text.replace(",", ""))
    assert (read == 0) == (value == 0)
    assert read == pytest.approx(value, rel=last_digit(10.0 ** (2 - digits)))
    assert ("e" in text) == (value != 0 and not 1e-3 <= abs(read) < 1e6)


@given(st.floats(0, 1, allow_subnormal=False))
def test_a_weight_is_never_rounded_to_zero(value: float) -> None:
    text = number(value, decimals=3)
    assert (float(text) == 0) == (value == 0)
    assert float(text) == pytest.approx(value, abs=last_digit(1e-3 if "e" not in text else value))


def test_two_values_have_as_many_digits_as_tell_them_apart() -> None:
    assert distinct(0.5, 0.25) == ("0.5000", "0.2500")
    assert distinct(1.0, 1.0000001) == ("1.00000000", "1.00000010")
    assert distinct(None, "zero") == ("-", "zero")
    for a, b in [(0.1, math.nextafter(0.1, 1)), (1e-9, math.nextafter(1e-9, 1))]:
        assert len(set(distinct(a, b))) == 2


def test_sizes_that_all_records_share_and_ranges_of_numbers() -> None:
    assert sizes([{"keys": 64, "rows": 2000}, {"keys": 64, "rows": 1999}]) == ["64 keys"]
    assert ranges_in(" 0, 5-7") == [range(1), range(5, 8)]
    assert [ranges_in(text) for text in ("7-5", "0-", "a", "-1", "0-99999999999", "9" * 5000)] == [None] * 6
