"""How numbers are written for people: in tables, headings and messages. Never cut, and never rounded to a bare zero."""

import math

MISSING = "-"


def weight(value: float) -> str:
    """A weight with three decimals; `2e-04` where those would all be zero, and `0` only for an exact zero."""
    text = f"{value:.3f}"
    if text.strip("-") != "0.000":
        return text
    return f"{value:.0e}" if value else "0"


def significant(value: float, digits: int = 4) -> str:
    """A number on its own, as short as `digits` allow: `0.7071`, `0.0002441`, `8`."""
    text = f"{value:.{digits}g}"
    if "e+" in text and abs(value) < 1e15:
        return f"{value:.0f}"  # 12346 rather than 1.235e+04
    return text


def statistic(value: float | None) -> str:
    """A number in a column of like numbers: four decimals, an exponent beyond their reach, `-` for none."""
    if value is None:
        return MISSING
    if math.isnan(value):
        return "nan"
    if value == 0 or 1e-3 <= abs(value) < 1e5 or math.isinf(value):
        return f"{value:.4f}"
    return f"{value:.2e}"


def count(value: int | None) -> str:
    """A whole number, its thousands set apart; `-` for none."""
    return MISSING if value is None else f"{value:,}"


def duration(seconds: float | None) -> str:
    """A time in the unit that suits it, to three digits: `350 µs`, `1.2 ms`, `2.05 s`, `3 min 20 s`; `-` for none."""
    if seconds is None or math.isnan(seconds):
        return MISSING
    if seconds >= 100:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= 0.9995 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns" if seconds else "0 s"
