"""What the terminal shows of the study `bench`: times by size, and everything that was measured at the largest size."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from attncli.show.numbers import MISSING, duration, printable
from attncli.show.tables import Cells, cells, formulas, pick, remark, stacked, titled
from attncli.show.tables import tables as record_tables
from attncli.studies.bench.rows import (
    COLUMNS,
    COMPARISONS,
    SIZES,
    Line,
    changing,
    conditions,
    growth,
    lines_of,
    place,
    size_of,
)
from attncli.studies.study import Column, Record, Result

NAMES = pick(COLUMNS, ["label", "implementation"])
DETAILS = pick(COLUMNS, ["seconds", "seconds_iqr", "peak_bytes", "gflops", "gbytes_per_second", "ratio", "ratio_ci"])
MEASURES = {
    "scores": "scores (queries and keys to scores)",
    "weights": "weights (weights and output)",
    "output": "output (output only, no weights asked for)",
}
LEGEND = (
    "time: median of a call. IQR: range of its middle half. memory: peak beyond the inputs, result included. ratio: "
    "time over that of {} in the same round; where its interval contains 1 there is no measurable difference."
)


def tables(result: Result, *, width: int, full: bool, csv: str | None) -> Iterator[RenderableType]:
    """For each measure times by size, where there are several, and the rest at the largest size, or with `full` at all.

    Then how many times as fast as the textbook's code each is, what was not timed, and the formulas.
    """
    records, axes = result.records, changing(result.records)
    yield Text(", ".join(conditions(result, records)))
    yield Text(LEGEND.format(printable(result.settings["baseline"])))
    for measure in dict.fromkeys(record["measure"] for record in records):
        rows = [record for record in records if record["measure"] == measure]
        sizes = sorted(set(map(size_of, rows)))
        if len(sizes) > 1:
            yield from titled(f"{MEASURES[measure]}, time by size", _by_size(rows, axes, width))
            if len(axes) == 1:
                yield from remark(f"power of {axes[0]}: by which the time grows, over the larger half of the sizes")
        for size in sizes if full else sizes[-1:]:
            lines = lines_of([record for record in rows if size_of(record) == size])
            first = [record for record, *_ in lines.values()]
            title = f"{MEASURES[measure]}, {place(first[0], axes)}"
            yield from titled(title, stacked(_names(lines), cells(DETAILS, first), width))
        if len(sizes) > 1 and not full:
            yield from remark("memory and ratios at the other sizes: --full")
    beside = [row for row in result.comparisons if row["times_as_fast"] is not None]
    speed = pick(COMPARISONS, ["times_as_fast", "times_as_fast_ci"])
    yield from _rows("Beside the textbook's code", beside, speed, width, full)
    missing = [row for row in records if row["status"] != "timed"]
    yield from _rows("Not timed", missing, pick(COLUMNS, ["status", "reason"]), width, full)
    yield Text()
    yield from formulas(records, result.settings)


def _by_size(records: Sequence[Record], axes: Sequence[str], width: int) -> Iterator[RenderableType]:
    """One column a size, and how steeply the time grows where only one size changes."""
    lines = lines_of(records)
    times = [{size_of(record): _time(record) for record in of_line} for of_line in lines.values()]
    columns = [
        Cells(place(record, axes).replace(", ", "\n"), [each.get(size, MISSING) for each in times])
        for size, record in sorted({size_of(record): record for record in records}.items())
    ]
    if len(axes) == 1:
        powers = [growth(of_line, axes[0]) for of_line in lines.values()]
        texts = [MISSING if power is None else f"{power:.2f}" for power in powers]
        columns.append(Cells(f"power\nof {axes[0]}", texts))
    return stacked(_names(lines), columns, width)


def _names(lines: Iterable[Line]) -> list[Cells]:
    return cells(NAMES, [{"label": title, "implementation": implementation} for title, implementation in lines])


def _time(record: Record) -> str:
    """The time, or why there is none."""
    return duration(record["seconds"]) if record["seconds"] else str(record["status"])


def _rows(
    title: str, records: Sequence[Record], figures: Sequence[Column], width: int, full: bool
) -> Iterator[RenderableType]:
    """Rows as they are, with the sizes that differ; unless `full` those of the largest size only."""
    if not records:
        return
    largest = max(map(size_of, records))
    shown = [row for row in records if full or size_of(row) == largest]
    columns = [*pick(COLUMNS, changing(shown, SIZES)), *figures]
    names = pick(COLUMNS, ["label", "implementation", "measure"])
    yield from titled(title, record_tables(names, columns, shown, width, full))
