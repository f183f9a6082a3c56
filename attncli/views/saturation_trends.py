"""What the softmax lets through as d grows, as sentences."""

from collections.abc import Sequence
from statistics import median

from attncli.show.numbers import finite, printable, significant, span
from attncli.studies.study import Record
from attncli.views.sweep_tables import by_label
from attncli.views.sweep_trend import Trend

NORM = "the median norm of the softmax Jacobian"
HARDLY_LEARNS = 10.0  # how many times smaller the gradient that reaches a query must be for the sentence to say so
TURNS = 1.5  # how many times its smallest value a figure must be elsewhere for its way there to be told


def trends(records: Sequence[Record]) -> list[str]:
    """One sentence a label, over its sizes or its heads."""
    return [f"{printable(label)}: {_sentence(rows)}." for label, rows in by_label(records).items()]


def _sentence(records: Sequence[Record]) -> str:
    trend = Trend.of(records, "jacobian_median")
    if not trend.values:
        return f"{NORM} is not a finite number"
    if not trend.several:
        return f"{NORM} is {span(trend.values)} at d = {trend.sizes[0]}{_heads(records)}"
    return f"{NORM} {_course(trend)}{_gradient(records, trend)}"


def _heads(records: Sequence[Record]) -> str:
    """How many heads there are, and in which the least gets through."""
    known = [record for record in records if finite([record["jacobian_median"]])]
    if len(known) < 2:
        return ""
    lowest = min(known, key=lambda record: float(record["jacobian_median"]))
    return f", over {len(known)} heads, and lowest in head {lowest['head']}"


def _course(trend: Trend) -> str:
    """Whether it stays, rises or falls, or turns back in between."""
    if trend.level:
        return f"stays near {significant(median(trend.values), 2)} at every d ({span(trend.values)})"
    last = len(trend.values) - 1
    peak, least = (trend.values.index(end(trend.values)) for end in (max, min))
    if trend.values[last] * TURNS <= trend.values[peak]:
        return _turned(trend, peak, "rises to", "falls") if _far(trend, 0, peak) else _straight(trend, peak, "falls")
    if _far(trend, least, 0):
        return _turned(trend, least, "falls to", "rises")
    return _straight(trend, 0, "rises" if trend.rises else "falls")


def _far(trend: Trend, low: int, high: int) -> bool:
    return trend.values[low] * TURNS < trend.values[high]


def _turned(trend: Trend, turn: int, there: str, back: str) -> str:
    return f"{there} {_place(trend, turn)} and then {back} to {_end(trend, turn)}"


def _straight(trend: Trend, start: int, verb: str) -> str:
    return f"{verb} from {_place(trend, start)} to {_end(trend, start)}"


def _place(trend: Trend, index: int) -> str:
    return f"{significant(trend.values[index], 3)} at d = {trend.sizes[index]}"


def _end(trend: Trend, start: int) -> str:
    """The last value, and how many times larger or smaller it is than that at `start`."""
    first, last = trend.values[start], trend.values[-1]
    low, high = sorted((first, last))
    times = f", {significant(high / low, 2)} times {'larger' if last > first else 'smaller'}" if low > 0 else ""
    return f"{_place(trend, -1)}{times}"


def _gradient(records: Sequence[Record], norm: Trend) -> str:
    """What reaches the query, where that falls; saturation is the reason where the norm falls too."""
    gradient = Trend.of(records, "query_gradient_median")
    if not gradient.several or gradient.level:
        return ""
    peak = gradient.values.index(max(gradient.values))
    if not _far(gradient, len(gradient.values) - 1, peak):
        return ""
    told = f"; the gradient that reaches the query {_straight(gradient, peak, 'falls')}"
    saturated = norm.values[-1] * HARDLY_LEARNS <= max(norm.values)
    return f"{told}: a query then hardly learns" if saturated and _hardly(gradient) else told


def _hardly(gradient: Trend) -> bool:
    return gradient.values[-1] * HARDLY_LEARNS <= max(gradient.values)
