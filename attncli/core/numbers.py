"""Format numbers and places for people, in the same way in tables, pictures, findings and HTML pages."""

import math
import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from attncli.errors import plain

MISSING = "-"
LARGEST = 1e6  # larger numbers have an exponent
LARGEST_COUNT = 10_000_000  # larger integers are rounded, since they are too wide for a column


def number(value: object, digits: int = 4, decimals: int | None = None) -> str:
    """Return a number as text with `digits` significant digits and at most `decimals` decimals.

    Zeros at the end are kept: `1.003`, `0.5000`, `512.3`. Numbers below 0.001, and of a million or more, have an
    exponent: `9.77e-04`. No small number is rounded to `0`. An `int` below ten million has all its digits: `1,048,576`.

    An interval, a pair of numbers, is `0.985 to 1.010`; None is `-`, a boolean `yes` or `no`, and text stays as it is.
    """
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " to ".join(number(end, digits, decimals) for end in value)
    if isinstance(value, int) and abs(value) < LARGEST_COUNT:
        return f"{value:,}"
    if not isinstance(value, int | float):
        return str(value)
    if value == 0 or not math.isfinite(value):
        return f"{abs(value) if value == 0 else value:g}"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # after rounding
    if not 1e-3 <= 10.0**exponent < LARGEST:
        return f"{value:.{digits - 2 if decimals is None else 0}e}"
    places = max(digits - 1 - exponent, 0)
    return f"{value:,.{places if decimals is None else min(places, decimals)}f}"


def exact(value: float | None, digits: int = 4) -> str:
    """Return an exact number, such as a setting, as `number` does but without zeros at the end: `1`, `0.5`."""
    text = number(value, digits)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


short = partial(number, digits=3)


def cell_decimals(largest: float) -> int | None:
    """Return the decimals of numbers in the cells of a matrix with this largest size; None for an exponent."""
    if 0 < largest < 0.005 or largest >= 1e4:
        return None
    return 3 if 0 < largest < 0.1 else 2 if largest < 10 else 1 if largest < 100 else 0


def several(value: int, name: str) -> str:
    """Return a count with its noun, in the plural unless the count is 1: `1 step`, `800 steps`."""
    plural = f"{name[:-1]}ies" if name.endswith("ry") else f"{name}s"
    return f"{number(value)} {name if value == 1 else plural}"


def percent(share: float) -> str:
    """Return a share in percent; only 0 is `0 %`, and only 1 `100 %`."""
    text = f"{100 * share:.0f} %"
    return {"0 %": "less than 1 %", "100 %": "more than 99 %"}.get(text, text) if 0 < share < 1 else text


def duration(seconds: float | None) -> str:
    """Return a time with three digits and a unit: `350 µs`, `1.20 ms`, `2.05 s`, `3 min 20 s`; `-` for None or NaN."""
    if seconds is None or math.isnan(seconds):
        return MISSING
    if seconds >= 100:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= 0.9995 * size:
            return f"{number(seconds / size, 3)} {unit}"
    return f"{number(seconds / 1e-9, 3)} ns" if seconds else "0 s"


def rough_duration(seconds: float) -> str:
    """Return a time to wait: `31 s`, `80 minutes`, `2.5 hours`."""
    if seconds < 99.5:
        return f"{number(seconds, 2)} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5970 else f"{seconds / 3600:.1f} hours"


def sizes(records: Sequence[dict[str, Any]], keys: Sequence[str] = ("keys", "rows")) -> list[str]:
    """Return the values of `keys` that are equal in all records, as text: `64 keys`, `2,000 rows`."""
    return [f"{number(records[0][key])} {key}" for key in keys if len({record[key] for record in records}) == 1]


def finite(values: Iterable[float | None]) -> list[float]:
    """Return the values that are finite, without None."""
    return [value for value in values if value is not None and math.isfinite(value)]


def distinct(a: object, b: object) -> tuple[str, str]:
    """Return two values as text, with enough digits to distinguish them."""
    if not (isinstance(a, float) and isinstance(b, float)):
        return _plain(a), _plain(b)
    pairs = [(number(a, digits), number(b, digits)) for digits in (4, 6, 9, 18)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])


def _plain(value: object) -> str:
    return number(value) if value is None or isinstance(value, float) else plain(value)


def row_name(where: dict[str, Any]) -> str:
    """Return the columns that identify a row in words: `scaled_dot, batch 1`, or `additive - dot` for a pair."""
    names = " - ".join(where[key] for key in ("label", "a", "b") if key in where)
    others = [f"{key} {plain(value)}" for key, value in where.items() if key not in ("label", "a", "b")]
    return ", ".join([names, *others] if names else others)


def ranges_in(text: str) -> list[range] | None:
    """Return the ranges in text such as `0,5-7`; None if the text is anything else, such as `7-5`.

    Numbers have six digits at most: no model has more layers or heads, and lists of the numbers stay small.
    """
    matches = [re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", item) for item in text.split(",")]
    ranges = [range(int(match[1]), int(match[2] or match[1]) + 1) for match in matches if match]
    return ranges if all(matches) and all(ranges) else None


TIE = 1e-5  # weights that differ by less, relative to the larger, differ by rounding only
