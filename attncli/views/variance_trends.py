"""What the variance of each scorer does as d grows, as sentences."""

from collections.abc import Iterator, Sequence

from attncli.results.records import Record
from attncli.views.numbers import significant
from attncli.views.printable import printable
from attncli.views.sweep_numbers import finite, span
from attncli.views.sweep_tables import by_label
from attncli.views.sweep_trend import Trend

CLOSE = 0.01  # to 1, however narrow the interval
FAR = 0.5  # from 1, however wide the interval
WITHIN = 1.8  # how many times half of its 95 % interval a variance may be off 1: a z of 3.5


def trends(records: Sequence[Record]) -> list[str]:
    """One sentence a label."""
    return [
        f"{printable(label)}: {sentence}." for label, rows in by_label(records).items() for sentence in _sentences(rows)
    ]


def _sentences(records: Sequence[Record]) -> Iterator[str]:
    trend = Trend.of(records, "variance")
    lost = len(records) - len(trend.values)
    beside = f"; at {lost} of {len(records)} sizes it is not a finite number" if lost else ""
    if not trend.values:
        yield "the variance is not a finite number"
    elif trend.several:
        yield _over_sizes(trend, all(map(_is_one, records))) + beside
    else:
        yield _at_one_size(records) + beside


def _is_one(record: Record) -> bool:
    """Whether a variance is 1, or so near that chance alone may have moved it."""
    interval = record["variance_ci"] or (0.0, 0.0)
    allowed = max([CLOSE, *finite([WITHIN * (interval[1] - interval[0]) / 2])])
    return bool(abs(record["variance"] - 1) <= min(allowed, FAR))  # False for NaN


def _over_sizes(trend: Trend, stays_at_one: bool) -> str:
    first, last = f"d = {trend.sizes[0]}", f"d = {trend.sizes[-1]}"
    if stays_at_one:
        return f"the variance stays at 1 at every d from {trend.sizes[0]} to {trend.sizes[-1]} ({span(trend.values)})"
    if trend.level:
        return f"the variance hardly depends on d, but is not 1 ({span(trend.values)})"
    verb, power = "grows" if trend.rises else "falls", trend.power
    start, end = significant(trend.values[0]), significant(trend.values[-1])
    if power is not None:
        return f"the variance {verb} like d^{power:.2f}: {end} at {last}"
    return f"the variance {verb} from {start} at {first} to {end} at {last}"


def _at_one_size(records: Sequence[Record]) -> str:
    record = next(record for record in records if finite([record["variance"]]))
    is_one = " (1 within its error)" if _is_one(record) else ""
    found = f"the variance is {significant(record['variance'])}{is_one} at d = {record['d']}"
    if is_one or record["unit_scale"] is None:
        return found
    needed, used = significant(record["unit_scale"]), significant(record["scale"])
    return f"{found}; a scale of {needed} in place of {used} would make it 1"
