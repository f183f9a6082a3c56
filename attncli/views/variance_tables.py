"""The tables of the `variance` study: measured moments beside their theory, or what real tensors have."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from attncli.runs.records import SweepResult
from attncli.show.numbers import counted, entries, figure, score, short, significant
from attncli.show.tables import Cells, stacked
from attncli.studies.study import Record
from attncli.views.sweep_tables import (
    by_label,
    columns,
    faint,
    formulas,
    heading,
    labels,
    scale,
    shortened,
    stacked_parts,
)

LEGEND = (
    "± is half of the 95 % interval of the mean, from and to are that of the variance, z is how many standard errors "
    "the variance lies above its theory"
)
LIMIT = "~ is a variance known as a limit for large sizes only: there is no z, as smaller sizes may differ from it"
NO_THEORY = "- where no closed form is known"
NO_INTERVALS = (
    "There are no intervals: these are all the pairs that there are and no sample, so nothing had to be estimated."
)
WITHIN_ROWS = (
    "within rows is the mean over the queries of the variance over their own keys: what the softmax sees; needed scale "
    "is the one for variance 1"
)


def random_tables(result: SweepResult, width: int, full: bool) -> Iterator[RenderableType]:
    """One table a label, one row a d."""
    yield Text(f"{entries(result.settings)}; {LEGEND}")
    for label, records in by_label(result.records).items():
        yield Text()
        yield from heading(result, label, records, [scale(records)])
        shown, left_out = shortened(records, full)
        yield from stacked_parts(stacked([Cells("d", [str(record["d"]) for record in shown])], _columns(shown), width))
        yield from faint(left_out)
        if any(record["theory"] == "limit" for record in shown):
            yield from faint(LIMIT)
        if any(record["theory"] is None for record in shown):
            yield from faint(NO_THEORY)


def _columns(records: Sequence[Record]) -> list[Cells]:
    return [
        *columns([("samples", "samples", counted), ("mean", "mean", short)], records),
        Cells("±", [short(_half(record["mean_ci"])) for record in records]),
        *columns([("theory_mean", "theory\nmean", short)], records),
        *columns([("variance", "variance", figure)], records),
        Cells("95 %\nfrom", [figure(_end(record["variance_ci"], 0)) for record in records]),
        Cells("\nto", [figure(_end(record["variance_ci"], 1)) for record in records]),
        Cells("theory\nvariance", [_theory(record) for record in records]),
        *columns([("z", "z", score)], records),
    ]


def _half(interval: Sequence[float] | None) -> float | None:
    return None if interval is None else (interval[1] - interval[0]) / 2


def _end(interval: Sequence[float] | None, end: int) -> float | None:
    return None if interval is None else interval[end]


def _theory(record: Record) -> str:
    """Only a variance may be known as a limit; means are known exactly or not at all."""
    value = record["theory_variance"]
    mark = "~" if record["theory"] == "limit" and value is not None else ""
    return f"{mark}{figure(value)}"


def real_tables(result: SweepResult, width: int, full: bool) -> Iterator[RenderableType]:
    """One table, one row a label and head."""
    records, left_out = shortened(result.records, full)
    d = records[0]["d"]
    yield Text(f"{entries(result.settings)}; d = {d}, so 1/sqrt(d) = {significant(d**-0.5)}")
    yield Text()
    wanted = [("samples", "pairs", counted), ("mean", "mean", figure), ("variance", "variance", figure)]
    within = any(record.get("row_variance") is not None for record in records)
    if within:
        wanted.append(("row_variance", "within\nrows", figure))
    numbers = columns([("head", "head", str)], records) if records[0]["head"] is not None else []
    numbers += columns(wanted, records)
    numbers += columns([("scale", "scale", figure), ("unit_scale", "needed\nscale", figure)], records)
    yield from stacked_parts(stacked(labels(records), numbers, width))
    yield from faint(left_out)
    yield from faint(NO_INTERVALS)
    yield from faint(WITHIN_ROWS if within else "")
    yield Text()
    yield from formulas(result)
