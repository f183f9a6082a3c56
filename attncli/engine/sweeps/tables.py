"""The tables of a sweep: the metric by swept key and label, with its interval over seeds."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from rich.console import RenderableType
from rich.text import Text

from attncli.core.numbers import finite, several, short
from attncli.engine.sweeps.columns import (
    REPLICATES,
    changing,
    companions,
    identifying_columns,
    is_repeated,
    metric_columns,
    picture_axes,
    swept_columns,
)
from attncli.engine.sweeps.summary import spread, summary, summary_columns
from attncli.results import Row, SweepResult, group
from attncli.show.terminal.tables import pivot, remark, titled
from attncli.show.terminal.tables import tables as blocks

STD = "standard deviation"
INTERVAL = (
    "± is the standard deviation over the seeds; the interval is that of the mean (Student's t, 95 %), "
    "or the range of the seeds where that would have impossible values"
)


def tables(result: SweepResult, *, width: int, most: int | None, csv: str | None) -> Iterator[RenderableType]:
    """Yield the metric by swept keys and label, averaged over everything else, in tables of at most `most` rows.

    If `most` is None, yield all rows and metrics. `csv`, which other studies' tables refer to, is not used.
    """
    yield Text(heading(result))
    if not result.records:
        return
    columns, metric = swept_columns(result), result.metric
    if most is None:
        yield from _all_rows(result, width)
        return
    swept = [columns[key] for key in swept_axes(result)]
    if not swept or not metric:  # only the seed
        yield from _all_rows(result, width, [metric] * bool(metric), most)
        return
    rows = _means(result, [column.key for column in swept], metric)
    table = pivot(swept, replace(columns[metric], format=short), rows, width, most, spread=STD)
    yield from titled(f"{columns[metric].name_with_unit}, {_averaged(result)}", table)


def _means(result: SweepResult, keys: Sequence[str], metric: str) -> list[Row]:
    """Return a row for each label and combination of values of `keys`: the metric's mean and deviation over seeds."""
    rows = []
    for (*values, label), runs in group(result.records, [*keys, "label"]).items():
        by_seed = group(runs, [key for key in REPLICATES if key in runs[0]][:1]).values()
        numbers = [finite(row[metric] for row in of_seed) for of_seed in by_seed]
        figures = spread([fmean(of_seed) for of_seed in numbers if of_seed])
        named = {**dict(zip(keys, values, strict=True)), "label": label}
        rows.append({**named, metric: figures["mean"], STD: figures["std"]})
    return rows


def _averaged(result: SweepResult) -> str:
    """Return in words how the table averages, such as `mean over head ± standard deviation over the seeds`."""
    others = [key for key in picture_axes(result) if key not in result.swept]
    over = f" over {' and '.join(others)}" if others else ""
    return f"mean{over} ± standard deviation over the seeds" if is_repeated(result) else f"mean{over}"


def swept_axes(result: SweepResult) -> list[str]:
    """Return the swept keys that vary, without the seed."""
    axes = picture_axes(result)
    keys = [key for key in axes if key in result.swept]
    return [*keys, *(companion for key in keys for companion in companions(result, key))]


def _all_rows(
    result: SweepResult, width: int, metrics: Sequence[str] = (), most: int | None = None
) -> Iterator[RenderableType]:
    """Yield a table of `metrics`, by default all that vary, by the columns that identify a row.

    If there are seeds, yield a table for each metric, with the mean over the seeds. Tables have at most `most` rows.
    """
    columns, axes = swept_columns(result), picture_axes(result)
    shown = {*axes, *(companion for key in axes for companion in companions(result, key)), "label"}
    identifiers = [columns[key] for key in identifying_columns(result) if key in shown]
    metrics = metrics or list(dict.fromkeys([result.metric, *changing(result, metric_columns(result))]))
    yield Text()
    if not is_repeated(result):
        yield from blocks(identifiers, [columns[key] for key in metrics], result.records, width, most)
        return
    *_, mean, std, low, high, count = summary_columns(result)
    interval = replace(low, heading="95 %\ninterval")
    for metric in metrics:
        rows = summary(result, [metric])
        for row in rows:
            row[low.key] = None if row[low.key] is None else [row[low.key], row[high.key]]
        mean = replace(mean, heading=columns[metric].heading, format=columns[metric].format)
        yield from blocks(identifiers, [mean, std, interval, count], rows, width, most)
        yield from remark(INTERVAL)


def heading(result: SweepResult) -> str:
    """Return a heading such as `12 points over seed (3) and d (4): 11 done, 1 failed`."""
    counts, axes = result.points, result.axes
    over = " and ".join(f"{' with '.join(axis)} ({len(next(iter(axis.values())))})" for axis in axes)
    states = ", ".join(f"{count:,} {status}" for status, count in counts.items() if count or status == "done")
    return f"{several(sum(counts.values()), 'point')} over {over}: {states}"
