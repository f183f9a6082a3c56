"""What the softmax lets through as d grows, as sentences."""

import math
from collections.abc import Iterator, Sequence
from statistics import median

from attncli.results.records import Record
from attncli.views.numbers import significant
from attncli.views.printable import printable
from attncli.views.sweep_numbers import finite, span
from attncli.views.sweep_tables import by_label
from attncli.views.sweep_trend import Trend

NORM = "the median norm of the softmax Jacobian"
HARDLY_LEARNS = 10.0  # how many times smaller the gradient that reaches a query must be for the sentence to say so
UNIFORM = 0.98  # entropy over ln m from which weights count as nearly uniform
PEAKED = 0.9  # mean largest weight from which one key counts as having nearly all weight
TURNS = 1.5  # how many times its smallest value a figure must be elsewhere for its way there to be told
HIDES = 1.5  # how many times the median the mean must be to be said to hide it


def trends(records: Sequence[Record]) -> list[str]:
    """One sentence a label, over its sizes or its heads."""
    return [f"{printable(label)}: {_sentence(rows)}." for label, rows in by_label(records).items()]


def _sentence(records: Sequence[Record]) -> str:
    trend = Trend.of(records, "jacobian_median")
    if not trend.values:
        return f"{NORM} is not a finite number"
    if not trend.several:
        heads = f", over {len(trend.values)} heads" if len(trend.values) > 1 else ""
        return f"{NORM} is {span(trend.values)} at d = {trend.sizes[0]}{heads}"
    return f"{NORM} {_course(trend)}{_gradient(records, trend)}"


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


def extremes(records: Sequence[Record]) -> list[str]:
    """Which scorers end with all weight on one key, and which with the same weight on every key."""
    last = [max(rows, key=lambda record: record["d"]) for rows in by_label(records).values()]
    if len({record["head"] for record in records}) > 1:
        return []  # heads differ, and the table has them all
    last = [record for record in last if record["rows"]]
    peaked = [record for record in last if record["max_weight"] >= PEAKED and record["keys"] > 1]
    uniform = [record for record in last if record["entropy"] >= UNIFORM]
    return [*_peaked(peaked), *_uniform(uniform)]


def _peaked(records: Sequence[Record]) -> Iterator[str]:
    if records:
        weights = span(record["max_weight"] for record in records)
        yield f"Nearly all weight is on one key: {_named(records)} (mean of the largest weight {weights})."


def _uniform(records: Sequence[Record]) -> Iterator[str]:
    """Uniform weights over m keys have a Jacobian of norm sqrt(m - 1) / m."""
    if not records:
        return
    keys = {record["keys"] for record in records}
    entropy = f"entropy over ln m {span(record['entropy'] for record in records)}"
    norm = f"; uniform weights over {min(keys)} keys have the norm {significant(uniform_norm(min(keys)), 3)}"
    yield (
        f"Weights are nearly uniform, so the scores hardly matter: {_named(records)} "
        f"({entropy}{norm if len(keys) == 1 else ''})."
    )


def uniform_norm(keys: int) -> float:
    """The Frobenius norm of diag(p) - p p^T at p = 1/m."""
    return math.sqrt(keys - 1) / keys


def _named(records: Sequence[Record]) -> str:
    return ", ".join(f"{printable(record['label'])} at d = {record['d']}" for record in records)


def hidden(records: Sequence[Record]) -> list[str]:
    """Where the mean of the norm says least about the median row."""
    pairs = [record for record in records if len(finite([record["jacobian_mean"], record["jacobian_median"]])) == 2]
    apart = [record for record in pairs if record["jacobian_mean"] > HIDES * record["jacobian_median"]]
    if not apart:
        return []
    record = max(apart, key=_ratio)
    mean, middle = (significant(record[f"jacobian_{kind}"], 3) for kind in ("mean", "median"))
    head = "" if record["head"] is None else f", head {record['head']}"
    return [
        f"The mean hides the effect: for {printable(record['label'])} at d = {record['d']}{head} the mean norm is "
        f"{mean}, the median {middle}; the rows that are still undecided carry the mean."
    ]


def _ratio(record: Record) -> float:
    middle: float = record["jacobian_median"]
    return float(record["jacobian_mean"] / middle) if middle > 0 else math.inf
