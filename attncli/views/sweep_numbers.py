"""Numbers of the studies against d, and how queries and keys came about, in words."""

import math
from collections.abc import Iterable, Sequence

from attncli.results.records import Record
from attncli.views.numbers import MISSING, significant
from attncli.views.printable import printable

DOTS = ("dot", "scaled_dot")  # the scorers that are q . k times a factor
MILLIONS = 10_000_000  # from here on counts are too wide for a column


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


def counted(value: int) -> str:
    """How many, thousands set apart, in at most ten characters."""
    return f"{value:,}" if value < MILLIONS else f"{value:.3g}"


def sizes(records: Sequence[Record], keys: Sequence[str] = ("keys", "rows")) -> list[str]:
    """The counts that all records share: `64 keys`, `2,000 rows`."""
    return [f"{counted(records[0][key])} {key}" for key in keys if len({record[key] for record in records}) == 1]


def score(value: float | None) -> str:
    """A z-score; with one decimal where it is large."""
    if value is None:
        return MISSING
    return f"{value:.2f}" if abs(value) < 10 else figure(value, 3)


def finite(values: Iterable[float | None]) -> list[float]:
    """Those that are numbers."""
    return [value for value in values if value is not None and math.isfinite(value)]


def span(values: Iterable[float]) -> str:
    """`0.177 to 0.183`, or `0.18` where both ends read the same."""
    found = list(values)
    low, high = significant(min(found)), significant(max(found))
    return low if low == high else f"{low} to {high}"


def entries(settings: Record) -> str:
    """How queries and keys were drawn, or where they were read: `normal entries, mean 0, std 1`."""
    if "from" in settings:
        return f"queries and keys from {printable(str(settings['from']))}"
    name = str(settings["distribution"])
    if settings["df"] is not None:
        name += f" (df {settings['df']:g})"
    queries, keys = (_moments(settings, side) for side in ("query", "key"))
    drawn = queries if queries == keys else f"{queries} (queries) and {keys} (keys)"
    correlated = f", correlation {settings['rho']:g}" if settings["rho"] else ""
    return f"{name} entries, {drawn}{correlated}"


def _moments(settings: Record, side: str) -> str:
    return f"mean {settings[f'{side}_mean']:g}, std {settings[f'{side}_std']:g}"
