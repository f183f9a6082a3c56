"""The tables of a sweep: the metric by swept key and label, with its interval over seeds."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from rich.console import RenderableType
from rich.text import Text

from attncli.core.numbers import finite, several, short
from attncli.engine.sweeps.columns import REPLICATES, companions, is_repeated, picture_axes, shown, swept_columns
from attncli.engine.sweeps.summary import FIGURES, spread, summary, summary_columns
from attncli.results import Row, SweepResult, group
from attncli.show.terminal.tables import pivot, remark, titled
from attncli.show.terminal.tables import tables as blocks

STD = "standard deviation"
INTERVAL = (
    "± is the standard deviation over the seeds; the interval is that of the mean (Student's t, 95 %), "
    "or the range of the seeds where that would have impossible values"
)


def tables(result: SweepResult, *, width: int, most: int | None) -> Iterator[RenderableType]:
    """Yield the metric by swept keys and label, averaged over everything else, in tables of at most `most` rows."""
    yield Text(heading(result))
    columns, metric = swept_columns(result), result.metric
    axes = picture_axes(result)
    keys = [key for key in axes if key in result.swept]  # which vary, without the seed
    swept = [columns[key] for key in (*keys, *(other for key in keys for other in companions(result, key)))]
    if not result.records or not metric:
        return
    if swept:
        rows = _means(result, [column.key for column in swept], metric)
        table = pivot(swept, replace(columns[metric], format=short), rows, width, most, spread=STD)
        others = [key for key in axes if key not in result.swept]
        averaged = f"mean over {' and '.join(others)}" if others else "mean"
        averaged += " ± standard deviation over the seeds" if is_repeated(result) else ""
        yield from titled(f"{columns[metric].name_with_unit}, {averaged}", table)
        return
    names = [columns[key] for key in ("label", *axes)]
    if is_repeated(result):
        means = blocks(names, summary_columns(result)[-len(FIGURES) :], summary(result, [metric]), width, most)
        yield from titled(columns[metric].name_with_unit, [*means, *remark(INTERVAL)])
    else:
        yield from titled("Records", blocks(names, [columns[metric]], result.records, width, most))


def _means(result: SweepResult, keys: Sequence[str], metric: str) -> list[Row]:
    """Return a row for each label and combination of values of `keys`: the metric's mean and deviation over seeds."""
    rows = []
    for (*values, label), runs in group(result.records, [*keys, "label"]).items():
        by_seed = group(runs, [key for key in REPLICATES if key in runs[0]][:1]).values()
        numbers = [finite(row[metric] for row in of_seed) for of_seed in by_seed]
        figures = spread([fmean(of_seed) for of_seed in numbers if of_seed])
        place = {key: shown(None) if value is None else value for key, value in zip(keys, values, strict=True)}
        rows.append({**place, "label": label, metric: figures["mean"], STD: figures["std"]})
    return rows


def heading(result: SweepResult) -> str:
    """Return a heading such as `12 points over seed (3) and d (4): 11 done, 1 failed`."""
    counts, axes = result.points, result.axes
    over = " and ".join(f"{' with '.join(axis)} ({len(next(iter(axis.values())))})" for axis in axes)
    states = ", ".join(f"{count:,} {status}" for status, count in counts.items() if count or status == "done")
    return f"{several(sum(counts.values()), 'point')} over {over}: {states}"
