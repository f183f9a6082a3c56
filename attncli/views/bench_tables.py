"""The tables of the `bench` study: times by size, and everything that was measured at the largest size."""

from collections.abc import Callable, Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from attncli.runs.records import BenchResult
from attncli.show.numbers import printable
from attncli.show.tables import Cells, stacked
from attncli.show.weights import STRONG
from attncli.studies.study import Record
from attncli.views.bench_columns import Lines, by_size, details, undecided
from attncli.views.bench_lines import baseline, lines_of
from attncli.views.bench_sizes import changing, constants, measures_of, of_measure, place, size_of, sizes_of
from attncli.views.sweep_tables import faint, stacked_parts

MEASURES = {
    "scores": "queries and keys to scores",
    "weights": "weights and output",
    "output": "output only, no weights asked for",
}
LEGEND = (
    "time is the median of a call and IQR the range of its middle half; memory is the peak beyond the inputs, the "
    "result included; ratio is the time over that of {} in the same round, ± half of its 95 % interval"
)
SAME = "= not measurably different: the 95 % interval of the ratio contains 1"
SLOPE = "slope is the power of {} by which the time grows over the larger half of the sizes"


def bench_tables(result: BenchResult, width: int, full: bool) -> Iterator[RenderableType]:
    """For each measure times by size, where there are several, and the rest at the largest, or with `full` at all."""
    records = result.records
    if not records:
        yield Text("Nothing was measured.")
        return
    yield Text(f"{', '.join(conditions(result))}; {', '.join(constants(records))}")
    yield Text(LEGEND.format(baseline(records[0]).name))
    for measure in measures_of(records):
        yield from _measure(measure, records, width, full)
    yield Text()
    yield from _formulas(result)


def conditions(result: BenchResult) -> list[str]:
    """Under which everything was measured."""
    settings, record = result.settings, result.records[0]
    name = settings.get("device_name")
    threads = settings.get("threads")
    return [
        "forward and backward" if record["backward"] else "forward",
        str(record["dtype"]),
        f"{record['device']}{f' ({printable(str(name))})' if name and name != record['device'] else ''}",
        *([f"{threads} thread{'' if threads == 1 else 's'}"] if threads else []),
        *(["interrupted, so not all is there"] if result.interrupted else []),
    ]


def _measure(measure: str, records: Sequence[Record], width: int, full: bool) -> Iterator[RenderableType]:
    rows = of_measure(records, measure)
    keys, sizes = changing(records), sizes_of(rows)
    if len(sizes) > 1:
        yield from _heading(measure, "time by size")
        yield from _table(rows, lambda lines: by_size(lines, sizes, keys), width)
        if len(keys) == 1:
            yield from faint(SLOPE.format(keys[0]))
    for size in sizes if full else sizes[-1:]:
        chosen = [record for record in rows if size_of(record) == size]
        yield from _heading(measure, place(chosen[0], keys))
        yield from _table(chosen, details, width)
        if any(undecided(record) for record in chosen):
            yield from faint(SAME)
    if len(sizes) > 1 and not full:
        yield from faint(_others(len(sizes) - 1))


def _others(count: int) -> str:
    return f"memory and ratios at the other {f'{count} sizes' if count > 1 else 'size'}: --full"


def _heading(measure: str, what: str) -> Iterator[Text]:
    meaning = f" ({MEASURES[measure]})" if measure in MEASURES else ""
    yield Text()
    yield Text.assemble((measure, STRONG), f"{meaning}, {what}")


def _table(records: Sequence[Record], made: Callable[[Lines], list[Cells]], width: int) -> Iterator[RenderableType]:
    lines = lines_of(records)
    names = [
        Cells("label", [line.title for line in lines]),
        Cells("imple-\nmentation", [line.implementation for line in lines]),
    ]
    yield from stacked_parts(stacked(names, made(lines), width))


def _formulas(result: BenchResult) -> Iterator[Text]:
    scorers = {record["label"]: record["scorer"] for record in result.records}
    for label, scorer in scorers.items():
        said = "" if scorer == label else f" ({printable(scorer)})"
        yield Text.assemble((printable(label), STRONG), f"{said}: {printable(result.formulas[label])}")
