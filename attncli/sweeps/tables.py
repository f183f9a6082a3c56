"""The tables of a sweep: the metric by swept key and label, with its interval over seeds."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from attncli.common.study import Column, Result
from attncli.numbers import several
from attncli.show.tables import remark
from attncli.show.tables import tables as blocks
from attncli.sweeps.columns import axes_of, changing, columns_of, companions, figures_of, is_repeated, names_of
from attncli.sweeps.summary import short, summary, summary_names

INTERVAL = (
    "± is the standard deviation over the seeds; the interval is that of the mean (Student's t, 95 %), "
    "or the range of the seeds where that would have impossible values"
)


def tables(result: Result, *, width: int, full: bool, csv: str | None) -> Iterator[RenderableType]:
    """Return the table of the metric, with `full` also of other metrics that change."""
    yield Text(heading(result))
    if not result.records:
        return
    yield Text()
    columns, axes = columns_of(result), axes_of(result)
    shown = {*axes, *(each for key in axes for each in companions(result, key)), "label"}
    places = [columns[key] for key in names_of(result) if key in shown]
    metrics = [result.settings["metric"]]
    if full:
        metrics += [key for key in changing(result, figures_of(result)) if key not in metrics]
    if not is_repeated(result):
        yield from blocks(places, [columns[key] for key in metrics], result.records, width, full)
        return
    _, mean, std, low, high, count = summary_names(result).values()
    for metric in metrics:
        figures = [
            Column(mean, columns[metric].heading, "", format=columns[metric].format),
            Column(std, "±", "", format=short),
            Column(low, "95 %\ninterval", "", format=short),
            Column(count, "runs", ""),
        ]
        rows = summary(result, [metric])
        for row in rows:
            row[low] = None if row[low] is None else [row[low], row[high]]
        yield from blocks(places, figures, rows, width, full)
        yield from remark(INTERVAL)


def heading(result: Result) -> str:
    """`12 points over seed (3) and d (4): 11 done, 1 failed`."""
    counts = result.settings["points"]
    axes = result.settings["sweep"]["over"]
    over = " and ".join(f"{' with '.join(axis)} ({len(next(iter(axis.values())))})" for axis in axes)
    states = ", ".join(f"{count:,} {status}" for status, count in counts.items() if count or status == "done")
    return f"{several(sum(counts.values()), 'point')} over {over}: {states}"
