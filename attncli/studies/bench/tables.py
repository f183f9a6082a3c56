"""What the terminal shows of the study `bench`: times by size, and everything that was measured at the largest size."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.show.numbers import MISSING, duration, printable
from attncli.show.tables import STRONG, Cells, cells, remark, shortened, stacked, titled
from attncli.show.tables import tables as record_tables
from attncli.studies.bench.columns import (
    AXES,
    COLUMNS,
    COMPARISONS,
    IMPLEMENTATION,
    LABEL,
    Line,
    changing,
    conditions,
    lines_of,
    place,
    size_of,
    title,
)
from attncli.studies.study import Column, Record, Result

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
            yield from titled(f"{MEASURES[measure]}, time by size", _by_size(result, rows, axes, width))
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


def _by_size(result: Result, rows: Sequence[Record], axes: Sequence[str], width: int) -> list[Table]:
    """One column a size, and how steeply the time grows where only one size changes."""
    lines = lines_of(rows)
    times = [{size_of(record): _time(record) for record in records} for records in lines.values()]
    columns = [
        Cells(_place(size, axes).replace(", ", "\n"), [each.get(size, MISSING) for each in times])
        for size in sorted(set(map(size_of, rows)))
    ]
    if len(axes) == 1:
        columns.append(Cells(f"power\nof {axes[0]}", [_power(result, line, rows[0]["measure"]) for line in lines]))
    return stacked(_names(lines), columns, width)


def _time(record: Record) -> str:
    """The time, or why there is none."""
    return duration(record["seconds"]) if record["status"] == TIMED else str(record["status"])


def _power(result: Result, line: Line, measure: str) -> str:
    label, implementation, hidden = line
    name = f"{measure}/{implementation}{'' if hidden is None else f'/{hidden}'}"
    found = next(finding.numbers["growth"].get(name) for finding in result.findings if finding.label == label)
    return MISSING if found is None else f"{found:.2f}"


def _place(size: Sequence[int], axes: Sequence[str]) -> str:
    return place(dict(zip(AXES, size, strict=True)), axes)


def _names(lines: Iterable[Line]) -> list[Cells]:
    return [
        Cells(LABEL.heading, [printable(title(line)) for line in lines]),
        Cells(IMPLEMENTATION.heading, [implementation for _, implementation, _ in lines]),
    ]


def _rows(
    name: str, rows: Sequence[Record], columns: Sequence[Column], figures: Sequence[str], width: int, full: bool
) -> Iterator[RenderableType]:
    """Rows as they are, with the sizes that differ; unless `full` one of each line: the largest size of those timed,
    the smallest of the others.
    """
    if not rows:
        return
    ones = dict[tuple[str, ...], Record]()
    for row in sorted(rows, key=size_of, reverse="status" not in figures):
        ones.setdefault((row["measure"], row["label"], row["implementation"], str(row["num_hiddens"])), row)
    shown, left_out = shortened(rows if full else list(ones.values()), full)
    by_key = {column.key: column for column in columns}
    names = [by_key[key] for key in ("label", "implementation", "measure")]
    several = ["num_hiddens"] if len({row["num_hiddens"] for row in rows} - {None}) > 1 else []
    sizes = [by_key[key] for key in (*changing(shown), *several)]
    yield from titled(name, record_tables(names, [*sizes, *(by_key[key] for key in figures)], shown, width))
    yield from remark(left_out)
