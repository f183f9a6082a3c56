"""How numbers and names are written for people. Numbers are never cut, and never rounded to a bare zero."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from attncli.common.study import Record
from attncli.errors import plain, printable

MISSING = "-"
MILLIONS = 10_000_000  # from here on counts are too wide for a column


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
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.2e}"


def several(value: int, name: str) -> str:
    """`1 step`, `800 steps`."""
    return f"{counted(value)} {name}{'' if value == 1 else 's'}"


def share(value: float | None) -> str:
    """A share with two decimals, and never 1.00 where something is missing from it; `-` for none."""
    if value is None:
        return MISSING
    text = f"{value:.2f}"
    return ">0.99" if text == "1.00" and value < 1 else text


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


def figure(value: float | None, digits: int = 4) -> str:
    """A measured number to `digits` digits, zeros at the end among them: `1.003`, `512.3`, `9.77e-04`; `-` for none."""
    if value is None:
        return MISSING
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if not 1e-3 <= abs(value) < 1e6:
        return f"{value:.{digits - 2}e}"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{value:.{decimals}f}"


def short(value: float | None) -> str:
    """As `figure`, to three digits, for sentences and narrow columns."""
    return figure(value, 3)


def interval(ends: Sequence[float] | None, digits: int = 3) -> str:
    """Both ends of an interval, to as many digits as the figure that it belongs to: `0.985 to 1.01`; `-` for none."""
    return MISSING if ends is None else " to ".join(figure(end, digits) for end in ends)


def margin(ends: Sequence[float] | None) -> str:
    """Half of an interval that is symmetric about its figure; `-` for none."""
    return MISSING if ends is None else short((ends[1] - ends[0]) / 2)


def counted(value: int) -> str:
    """How many, thousands set apart, in at most ten characters."""
    return f"{value:,}" if value < MILLIONS else f"{value:.3g}"


def sizes(records: Sequence[Record], keys: Sequence[str] = ("keys", "rows")) -> list[str]:
    """The counts that all records share: `64 keys`, `2,000 rows`."""
    return [f"{counted(records[0][key])} {key}" for key in keys if len({record[key] for record in records}) == 1]


def finite(values: Iterable[float | None]) -> list[float]:
    """Those that are numbers."""
    return [value for value in values if value is not None and math.isfinite(value)]


def entries(settings: Record) -> str:
    """How queries and keys were drawn, or where they were read: `normal entries, mean 0, std 1`."""
    if "from" in settings:
        return f"queries and keys from {printable(str(settings['from']))}"
    name = str(settings["distribution"])
    if settings["df"] is not None:
        name += f" (df {settings['df']:g})"
    queries, keys = (f"mean {settings[f'{of}_mean']:g}, std {settings[f'{of}_std']:g}" for of in ("query", "key"))
    drawn = queries if queries == keys else f"{queries} (queries) and {keys} (keys)"
    correlated = f", correlation {settings['rho']:g}" if settings["rho"] else ""
    return f"{name} entries, {drawn}{correlated}"


def distinct(a: Any, b: Any) -> tuple[str, str]:
    """Return two values with as many digits as tell them apart; `-` for none."""
    if isinstance(a, float) and isinstance(b, float):
        pairs = [(significant(a, digits), significant(b, digits)) for digits in (4, 6, 9, 17)]
        return next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])
    first, second = (
        MISSING if each is None else significant(each) if isinstance(each, float) else plain(each) for each in (a, b)
    )
    return first, second


def place(where: Record) -> str:
    """Return the columns that identify a row in words: `scaled_dot, batch 1`, or `additive - dot` for a pair."""
    names = " - ".join(where[key] for key in ("label", "a", "b") if key in where)
    others = [f"{key} {plain(value)}" for key, value in where.items() if key not in ("label", "a", "b")]
    return ", ".join([names] * bool(names) + others)
