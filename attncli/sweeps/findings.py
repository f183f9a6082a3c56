"""What a sweep found, one sentence a scorer: where its metric is smallest and largest."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from attncli.show.numbers import short
from attncli.studies.study import Finding, Record, Result, by_label
from attncli.sweeps.points import renamed, shown
from attncli.sweeps.records import axes_of, companions, swept_keys
from attncli.sweeps.summary import summary


def findings_of(result: Result) -> list[Finding]:
    """A sentence for each label; none where nothing is swept but the seed."""
    metric, axes = result.settings["metric"], axes_of(result)
    if metric is None or not axes:
        return []
    mean = renamed("mean", swept_keys(result))
    together = {key: companions(result, key) for key in axes}
    found = list[Finding]()
    for label, group in by_label(summary(result, [metric])).items():
        rows = [row for row in group if row[mean] is not None]
        if len(rows) > 1:
            low, high = (pick(rows, key=lambda row: row[mean]) for pick in (min, max))
            numbers = {"lowest": low[mean], "highest": high[mean]}
            found.append(Finding(_sentence(label, metric, rows, together, mean, low, high), label, numbers))
    return found


def _sentence(
    label: str,
    metric: str,
    rows: Sequence[Record],
    axes: Mapping[str, Sequence[str]],
    mean: str,
    low: Record,
    high: Record,
) -> str:
    """`dot: entropy falls from 1.2 at scale = 0.5 to 0.3 at scale = 4`, or where it is lowest and highest."""
    numbers = [row[mean] for row in rows]
    word = "rises" if all(a < b for a, b in pairwise(numbers)) else "falls"
    steady = word == "rises" or all(a > b for a, b in pairwise(numbers))
    if len(axes) == 1 and steady:
        first, last = rows[0], rows[-1]
        return f"{label}: {metric} {word} from {_at(first, axes, mean)} to {_at(last, axes, mean)}"
    if low[mean] == high[mean]:
        return f"{label}: {metric} is {short(low[mean])} everywhere"
    return f"{label}: {metric} is lowest, {_at(low, axes, mean)}, and highest, {_at(high, axes, mean)}"


def _at(row: Record, axes: Mapping[str, Sequence[str]], mean: str) -> str:
    places = (" with ".join(f"{each} = {shown(row[each])}" for each in (key, *more)) for key, more in axes.items())
    return f"{short(row[mean])} at {', '.join(places)}"
