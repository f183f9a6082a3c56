"""The tables of a sweep: the metric by swept key and label, with its interval where there are several seeds."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from attncli.show.numbers import counted, interval, several, short
from attncli.show.tables import remark
from attncli.show.tables import tables as blocks
from attncli.studies.study import Column, Result
from attncli.sweeps.points import renamed
from attncli.sweeps.records import REPLICATES, axes_of, columns_of, companions, figures_of, names_of, swept_keys
from attncli.sweeps.summary import FIGURES, summary

INTERVAL = "± is the standard deviation over the seeds; the interval is that of the mean (Student's t, 95 %)"


def tables(result: Result, *, width: int, full: bool, csv: str | None) -> Iterator[RenderableType]:
    """The metric, or with `full` every figure that changes."""
    yield Text(heading(result))
    if not result.records:
        return
    yield Text()
    keys, records = swept_keys(result), result.records
    columns = {column.key: column for column in columns_of(result.study, keys, records)}
    axes = axes_of(result)
    shown = {*axes, *(each for key in axes for each in companions(result, key)), "label"}
    names = [columns[key] for key in names_of(result.study, keys, records) if key in shown]
    metrics = [result.settings["metric"]]
    if full:
        metrics += [key for key in _changing(result, figures_of(result.study, keys, records)) if key not in metrics]
    if not any(key in row for key in REPLICATES for row in records):
        yield from blocks(names, [columns[key] for key in metrics], records, width, full)
        return
    for metric in metrics:
        mean, std, low, high, count = (renamed(key, keys) for key in FIGURES)
        figures = [
            Column(mean, columns[metric].heading, "", format=columns[metric].format),
            Column(std, "±", "", format=short),
            Column(low, "95 %\ninterval", "", format=interval),
            Column(count, "runs", "", format=counted),
        ]
        rows = summary(result, [metric])
        for row in rows:
            row[low] = None if row[low] is None else [row[low], row[high]]
        yield from blocks(names, figures, rows, width, full)
        yield from remark(INTERVAL)


def heading(result: Result) -> str:
    """`12 points over seed (3) and d (4): 11 done, 1 failed`."""
    counts = result.settings["points"]
    axes = result.settings["sweep"]["over"]
    over = " and ".join(f"{' with '.join(axis)} ({len(next(iter(axis.values())))})" for axis in axes)
    states = ", ".join(f"{count} {status}" for status, count in counts.items() if count or status == "done")
    return f"{several(sum(counts.values()), 'point')} over {over}: {states}"


def _changing(result: Result, figures: Sequence[str]) -> list[str]:
    return [key for key in figures if len({row.get(key) for row in result.records}) > 1]
