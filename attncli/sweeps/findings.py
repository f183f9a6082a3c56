"""The findings of a sweep: for each scorer how the metric changes, or its extremes; and the points that failed."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from attncli.common.study import Finding, Record, Result, by_label
from attncli.numbers import number
from attncli.runs.run_folder import JOURNAL
from attncli.show.trends import trend
from attncli.sweeps.columns import axes_of, companions, in_words, is_number, shown
from attncli.sweeps.summary import summary, summary_names

MOST_FAILURES = 3  # kinds of failures that are listed


def findings_of(result: Result) -> list[Finding]:
    """Return a sentence for each label, such as `dot: entropy falls from 1.2 (scale = 0.5) to 0.3 (scale = 4).`

    A sweep over nothing but seeds has no findings.
    """
    metric, names = result.settings["metric"], summary_names(result)
    mean = names["mean"]
    axes = [(key, *companions(result, key)) for key in axes_of(result)]
    if metric is None or not axes:
        return []

    def place(row: Record) -> str:
        return ", ".join(" with ".join(f"{key} = {shown(row[key])}" for key in together) for together in axes)

    found = list[Finding]()
    for label, group in by_label(summary(result, [metric])).items():
        rows = [row for row in group if row[mean] is not None]
        if len(rows) < 2:
            continue
        low, high = min(rows, key=itemgetter(mean)), max(rows, key=itemgetter(mean))
        if number(low[mean], 3) == number(high[mean], 3):
            text = f"is {number(low[mean], 3)} everywhere"
        elif len(axes) == 1 and all(is_number(row[axes[0][0]]) for row in rows):
            rows.sort(key=itemgetter(axes[0][0]))
            intervals = [(row[names["low"]], row[names["high"]]) for row in rows]
            margins = [0.0 if low is None else (high - low) / 2 for low, high in intervals]
            text, _ = trend([row[mean] for row in rows], list(map(place, rows)), margins)
        else:
            ends = (f"{number(row[mean], 3)} at {place(row)}" for row in (low, high))
            text = f"is lowest, {next(ends)}, and highest, {next(ends)}"
        found.append(Finding(f"{label}: {metric} {text}.", label, {"lowest": low[mean], "highest": high[mean]}))
    return found


def failures_of(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each kind of failure, with its first point and the number of further points."""
    kinds = dict[tuple[str, str], list[Mapping[str, Any]]]()
    for point in points:
        if point["error"]:
            kinds.setdefault((point["status"], point["error"]), []).append(point)
    lines = []
    for (status, error), failed in list(kinds.items())[:MOST_FAILURES]:
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        lines.append(f"{status}: {in_words(failed[0]['sweep'])}{more}: {error}")
    if len(kinds) > MOST_FAILURES:
        lines.append(f"and {len(kinds) - MOST_FAILURES} other errors; {JOURNAL} has them all")
    return lines
