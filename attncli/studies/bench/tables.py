"""What the terminal shows of the study `bench`: times by size, and everything that was measured at the largest size."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.show.numbers import MISSING, duration, printable
from attncli.show.tables import STRONG, Cells, cells, pick, remark, shortened, stacked, titled
from attncli.show.tables import tables as record_tables
from attncli.studies.bench.columns import (
    AXES,
    COLUMNS,
    COMPARISONS,
    IMPLEMENTATION,
    changing,
    conditions,
    lines_of,
    place,
    size_of,
)
from attncli.studies.bench.findings import growth
from attncli.studies.study import LABEL, Column, Record, Result

FIGURES = ("seconds", "seconds_iqr", "peak_bytes", "gflops", "gbytes_per_second", "ratio", "ratio_ci")
DETAILS = [column for column in COLUMNS if column.key in FIGURES]
TIMED = "timed"
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
        if len(sizes) > 1 and len(axes) == 1:
            yield from remark(f"power of {axes[0]}: by which the time grows, over the larger half of the sizes")
        for size in sizes if full else sizes[-1:]:
            lines = lines_of([record for record in rows if size_of(record) == size])
            figures = cells(DETAILS, [record for record, *_ in lines.values()])
            yield from titled(f"{MEASURES[measure]}, {_place(size, axes)}", stacked(_names(lines), figures, width))
        if len(sizes) > 1 and not full:
            yield from remark("memory and ratios at the other sizes: --full")
    beside = [row for row in result.comparisons if row["times_as_fast"] is not None]
    fast = ("times_as_fast", "times_as_fast_ci")
    yield from _rows("Beside the textbook's code", beside, COMPARISONS, fast, width, full)
    missing = [row for row in records if row["status"] != TIMED]
    yield from _rows("Not timed", missing, COLUMNS, ("status", "reason"), width, full)
    yield Text()
    for label, formula in result.settings["formulas"].items():
        yield Text.assemble((printable(label), STRONG), f": {printable(formula)}")


def _by_size(rows: Sequence[Record], axes: Sequence[str], width: int) -> list[Table]:
    """One column a size, and how steeply the time grows where only one size changes."""
    lines = lines_of(rows)
    times = [{size_of(record): _time(record) for record in records} for records in lines.values()]
    columns = [
        Cells(_place(size, axes).replace(", ", "\n"), [each.get(size, MISSING) for each in times])
        for size in sorted(set(map(size_of, rows)))
    ]
    if len(axes) == 1:
        powers = [growth(records, axes[0]) for records in lines.values()]
        columns.append(
            Cells(f"power\nof {axes[0]}", [MISSING if power is None else f"{power:.2f}" for power in powers])
        )
    return stacked(_names(lines), columns, width)


def _time(record: Record) -> str:
    """The time, or why there is none."""
    return duration(record["seconds"]) if record["status"] == TIMED else str(record["status"])


def _place(size: Sequence[int], axes: Sequence[str]) -> str:
    return place(dict(zip(AXES, size, strict=True)), axes)


def _names(lines: Iterable[tuple[str, str]]) -> list[Cells]:
    titles, implementations = zip(*lines, strict=True)
    return [Cells(LABEL.heading, list(map(printable, titles))), Cells(IMPLEMENTATION.heading, implementations)]


def _rows(
    name: str, rows: Sequence[Record], columns: Sequence[Column], figures: Sequence[str], width: int, full: bool
) -> Iterator[RenderableType]:
    """Rows as they are, with the sizes that differ; unless `full` those of the largest size only."""
    if not rows:
        return
    largest = max(map(size_of, rows))
    shown, left_out = shortened(rows if full else [row for row in rows if size_of(row) == largest], full)
    several = ["num_hiddens"] if len({row["num_hiddens"] for row in rows} - {None}) > 1 else []
    names = pick(columns, ["label", "implementation", "measure"])
    yield from titled(name, record_tables(names, pick(columns, [*changing(shown), *several, *figures]), shown, width))
    yield from remark(left_out)
